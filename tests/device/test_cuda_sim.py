# SPDX-License-Identifier: Apache-2.0
"""Artifacts of kind "ptx", on the simulator and, where there is one, on a GPU."""

from __future__ import annotations

import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ngmlir import compiler
from ngmlir.llvm.machine import assembly
from ngmlir.ops.words import from_text
from ngmlir.runtime import cuda, targets
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import DeviceBuffer, load, to_device
from ngmlir.simulator.fault import SimulationFault
from ngmlir.support.artifact import Artifact, Constant, Entry, Launch, Place
from ngmlir.support.diagnostics import UserError
from ngmlir.support.signature import Parameter, Signature
from ngmlir.support.target import Target

THREADS = 64
TARGET = Target("cuda", "nvptx64-nvidia-cuda", "sm_80", "+ptx80", threads=THREADS)


def kernels(count: int, scale: str = "2.0") -> bytes:
    """`axpy(x, y, out)`: out = x * scale + y; `bump(x, c)`: x += c[0]; both for `count` elements."""
    guard = f"""
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %b, {THREADS}
  %i = add i32 %base, %t
  %in = icmp ult i32 %i, {count}
  br i1 %in, label %go, label %end
go:"""
    text = f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @axpy(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %out) #0 {{{guard}
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %py = getelementptr float, ptr addrspace(1) %y, i32 %i
  %po = getelementptr float, ptr addrspace(1) %out, i32 %i
  %vx = load float, ptr addrspace(1) %px
  %vy = load float, ptr addrspace(1) %py
  %m = fmul float %vx, {scale}
  %s = fadd float %m, %vy
  store float %s, ptr addrspace(1) %po
  br label %end
end:
  ret void
}}
define ptx_kernel void @bump(ptr addrspace(1) %x, ptr addrspace(1) %c) #0 {{{guard}
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %vx = load float, ptr addrspace(1) %px
  %vc = load float, ptr addrspace(1) %c
  %s = fadd float %vx, %vc
  store float %s, ptr addrspace(1) %px
  br label %end
end:
  ret void
}}
attributes #0 = {{ nounwind "nvvm.reqntid"="{THREADS}" }}
"""
    return assembly(text, TARGET).encode()


def training_step(count: int) -> Artifact:
    """(w, g) -> (w', total): temp = 2 * g + w in the arena; w += constant; total = 2 * temp + w'."""
    grid = (-(-count // THREADS), 1, 1)
    w, g = Place("argument", 0), Place("argument", 1)
    temporary, constant, total = Place("arena", offset=256), Place("constant", 1), Place("result", 1)
    signature = Signature(
        "step",
        (Parameter("w", "f32", (count,)), Parameter("g", "f32", (count,))),
        (Parameter("new_w", "f32", (count,)), Parameter("total", "f32", (count,))),
        tied=((0, 0),),
        arena_bytes=256 + 4 * count,
    )
    launches = (
        Launch("axpy", grid, THREADS, (g, w, temporary)),
        Launch("bump", grid, THREADS, (w, constant)),
        Launch("axpy", grid, THREADS, (temporary, w, total)),
    )
    constants = tuple(Constant(np.float32(x).tobytes()) for x in (99.0, 0.25))
    return Artifact("ptx", kernels(count), (Entry(signature, launches),), TARGET.key, constants)


def expected_step(w: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    two = np.float32(2)
    temporary = g * two + w
    new = w + np.float32(0.25)
    return new, temporary * two + new


@pytest.fixture(params=["cuda-sim", "cuda-sim, any order", "cuda"])
def device(request):
    if request.param == "cuda":
        if not cuda.available():
            pytest.skip("no NVIDIA GPU and driver on this machine")
        return cuda.CudaDevice()
    return CudaSimDevice(seed=3 if "order" in request.param else None)


def random(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@pytest.mark.parametrize("count", [1, 64, 1000])
def test_arrays_in_arrays_out(device, count):
    executable = load(training_step(count), device)
    w, g = random(count), random(count, 1)
    before = w.copy()
    new, total = executable.run([w, g])
    for actual, expected in zip((new, total), expected_step(w, g), strict=True):
        assert np.array_equal(actual, expected)
    assert np.array_equal(w, before)  # a caller's array is copied, so it is not state
    assert np.array_equal(executable(w, g)[1], total)


def test_state_stays_on_the_device(device):
    executable = load(training_step(100), device)
    w, g = random(100), random(100, 1)
    state, gradient = to_device(device, w, "f32"), to_device(device, g, "f32")
    total = DeviceBuffer(device, "f32", (100,))
    for _ in range(3):
        results = executable.run([state, gradient], [None, total])
        assert results == [state, total]
        w, expected = expected_step(w, g)
        assert np.array_equal(total.numpy(), expected)
    assert np.array_equal(state.numpy(), w)
    mixed = executable.run([state, g])
    assert mixed[0] is state and isinstance(mixed[1], np.ndarray)


def test_buffers_that_fitted_before(device):
    """What is known of some buffers is not taken for others, nor for the same ones in other places."""
    executable = load(training_step(100), device)
    w, g = random(100), random(100, 1)
    state, gradient = to_device(device, w, "f32"), to_device(device, g, "f32")
    total = DeviceBuffer(device, "f32", (100,))
    for _ in range(2):
        executable.run([state, gradient], [None, total])
    with pytest.raises(UserError, match="overwrites argument"):
        executable.run([state, gradient], [total, total])
    with pytest.raises(UserError, match="2 results, 1 were given"):
        executable.run([state, gradient], [total])
    with pytest.raises(UserError, match="same buffer"):
        executable.run([state, gradient], [None, gradient])
    for _ in range(2):
        assert isinstance(executable.run([state, gradient])[1], np.ndarray)  # a new array each time
    state.write(w)
    assert executable.run([gradient, state], [None, total]) == [gradient, total]
    assert np.array_equal(total.numpy(), expected_step(g, w)[1])
    # Another buffer, perhaps where the one before was.
    del total
    gc.collect()
    short = DeviceBuffer(device, "f32", (99,))
    for _ in range(2):
        with pytest.raises(UserError, match=r"holds \(99,\) f32"):
            executable.run([gradient, state], [None, short])
    for seed in range(40):  # more than are kept
        other = to_device(device, random(100, seed), "f32")
        total = DeviceBuffer(device, "f32", (100,))
        executable.run([other, state], [None, total])
        assert np.array_equal(total.numpy(), expected_step(random(100, seed), w)[1])


def test_nothing_to_do(device):
    executable = load(training_step(0), device)
    new, total = executable.run([random(0), random(0)])
    assert new.shape == total.shape == (0,)
    assert to_device(device, np.zeros((0, 3), np.float32), "f32").numpy().shape == (0, 3)


def test_every_type_travels(device):
    for name, dtype in {
        "i1": np.bool_,
        "i8": np.int8,
        "ui64": np.uint64,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
    }.items():
        array = np.array([[0, 1], [1, 0]]).astype(dtype)
        assert np.array_equal(to_device(device, array, name).numpy(), array)
    scalar = to_device(device, np.array(2.5), "f32")
    assert scalar.numpy().shape == () and scalar.numpy() == 2.5


def test_arguments_are_checked(device):
    executable = load(training_step(100), device)
    w = random(100)
    with pytest.raises(UserError, match="step takes 2 arguments"):
        executable.run([w])
    with pytest.raises(UserError, match="'g'"):
        executable.run([w, random(99)])
    with pytest.raises(UserError, match="the buffer for 'g' holds"):
        executable.run([w, DeviceBuffer(device, "f32", (99,))])
    with pytest.raises(UserError, match="lies on another device"):
        executable.run([w, DeviceBuffer(CudaSimDevice(), "f32", (100,))])
    with pytest.raises(UserError, match="overwrites argument 'w'"):
        executable.run([w, w], [DeviceBuffer(device, "f32", (100,)), None])
    state, gradient = to_device(device, w, "f32"), to_device(device, w, "f32")
    with pytest.raises(UserError, match="'new_w' is written, but 'g' is the same buffer"):
        executable.run([state, state])
    with pytest.raises(UserError, match="'total' is written, but 'g' is the same buffer"):
        executable.run([state, gradient], [None, gradient])
    with pytest.raises(UserError, match="'total' is written, but 'new_w' is the same buffer"):
        executable.run([state, gradient], [None, state])
    with pytest.raises(UserError, match="does not run on a GPU"):
        load(Artifact("object", b"", (Entry(executable.signature),), ""), device)


def test_buffers_are_freed():
    device = CudaSimDevice()
    executable = load(training_step(100), device)
    executable.run([random(100), random(100)])
    held = len(device.memory.regions)
    for _ in range(20):
        executable.run([to_device(device, random(100), "f32"), random(100)])
    gc.collect()
    device.synchronize()
    assert len(device.memory.regions) == held
    del executable
    gc.collect()
    device.synchronize()
    assert not device.memory.regions


def test_programs_that_are_gone_leave_nothing_of_their_kernels():
    device = CudaSimDevice()
    one, other = load(training_step(100), device), load(training_step(100), device)
    assert one.code.module is other.code.module
    module = weakref.ref(one.code.module)
    del one
    gc.collect()
    other.run([random(100), random(100)])
    del other
    gc.collect()
    assert module() is None


def test_threads_may_share_a_device():
    device = CudaSimDevice()
    executables = [load(training_step(count), device) for count in (100, 5000)]

    def work(number: int) -> bool:
        executable = executables[number % 2]
        count = executable.signature.arguments[0].shape[0]
        w, g = random(count, number), random(count, number + 50)
        return all(map(np.array_equal, executable.run([w, g]), expected_step(w, g)))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


def test_threads_that_come_first_get_one_device(monkeypatch):
    def slow() -> CudaSimDevice:
        time.sleep(0.05)
        return CudaSimDevice()

    monkeypatch.setattr(targets, "_opened", {})
    monkeypatch.setattr("ngmlir.runtime.cuda_sim.CudaSimDevice", slow)
    module = from_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}"
    )
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(lambda _: compiler.compile_module(module, "cuda-sim"), range(4)))
    assert len({program.device for program in programs}) == 1


def test_a_fault_reaches_the_caller():
    artifact = training_step(100)
    short = replace(artifact, code=kernels(101))
    with pytest.raises(SimulationFault, match="out of bounds") as caught:
        load(short, CudaSimDevice()).run([random(100), random(100)])
    assert (caught.value.kernel, caught.value.block, caught.value.thread) == ("axpy", (1, 0, 0), 36)


def test_devices_describe_themselves(device):
    facts = device.describe()
    assert facts.name and facts.capability >= (7, 0) and facts.shared_bytes >= 48 * 1024
    device.synchronize()
