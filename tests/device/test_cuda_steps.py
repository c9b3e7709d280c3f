# SPDX-License-Identifier: Apache-2.0
"""What a step of a program asks the driver for: how many calls, in which order, and what becomes of kernels that fail."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fake_cuda import Machine

import ngmlir as ng
from ngmlir import compiler
from ngmlir.ops.words import from_text
from ngmlir.runtime import cuda
from ngmlir.runtime.gpu import DeviceBuffer, GpuExecutable, to_device
from ngmlir.support.diagnostics import UserError

#: Two kernels: each wants all of what the other gives.
TWO = """
func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = ng.dot %x, %w contract [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = ng.dot %0, %w contract [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}
"""

#: Reads as many elements behind its buffer as `%i` says.
FAR = """
func.func @main(%i: tensor<i64>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.call @far ins(%i, %x) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
tile.kernel @far ins(%i: memref<i64>, %x: memref<8xf32>) outs(%out: memref<8xf32>) {
  %at = tile.load %i[] : memref<i64>, i64
  %here = ng.cast %at : (i64) -> index
  %v = tile.load %x[%here] : memref<8xf32>, vector<8xf32>
  %c0 = ng.constant 0 : index
  tile.store %v, %out[%c0] : vector<8xf32>, memref<8xf32>
  tile.return
}
"""


def two(device: str = "cuda") -> GpuExecutable:
    executable = compiler.compile_module(from_text(TWO), device)
    assert isinstance(executable, GpuExecutable)
    return executable


def arrays(count: int = 2) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.random((16, 16), np.float32) / 8 for _ in range(count)]


def asked(machine: Machine, before: Any) -> dict[str, int]:
    """The driver's calls since then, without those that say which context is current or make events."""
    return {n: c for n, c in (machine.counts - before).items() if not n.startswith(("cuCtx", "cuEventC"))}


def test_the_second_call_is_captured_and_others_are_one_launch(machine: Machine) -> None:
    run, (x, w) = two(), arrays()
    held = [to_device(run.device, each, "f32") for each in (x, w)]
    out = DeviceBuffer(run.device, "f32", (16, 16))
    counts: list[dict[str, int]] = []
    for _ in range(4):
        before = machine.counts.copy()
        run.run(held, [out])
        counts.append(asked(machine, before))
    capture = ("cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy")
    assert counts[0] == {"cuModuleGetFunction": 1, "cuLaunchKernel": 2}  # equal kernels are one
    assert counts[1] == {"cuLaunchKernel": 2, "cuGraphLaunch": 1, **dict.fromkeys(capture, 1)}
    assert counts[2] == counts[3] == {"cuGraphLaunch": 1}
    assert machine.launched == []  # nobody has waited for anything
    np.testing.assert_allclose(out.numpy(), x @ w @ w, rtol=1e-4)
    assert len(machine.launched) == 8


def test_other_buffers_are_another_graph_and_old_ones_go(machine: Machine) -> None:
    run, (x, w) = two(), arrays()
    for n in range(20):
        held = [to_device(run.device, each, "f32") for each in (x * n, w)]
        out = DeviceBuffer(run.device, "f32", (16, 16))
        for _ in range(3):
            run.run(held, [out])
        np.testing.assert_allclose(out.numpy(), x * n @ w @ w, rtol=1e-4)
    made = machine.counts["cuGraphInstantiateWithFlags"]
    run.device.synchronize()
    assert made - machine.counts["cuGraphExecDestroy"] <= 16


def training() -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """A step for the values of `x` and `t`, and some of these."""
    N, C, H = (ng.make_axis(n, name=name) for n, name in ((8, "N"), (5, "C"), (6, "H")))
    x, t = ng.placeholder([C, N]), ng.placeholder([N])
    w1, w2 = (ng.variable(a, initial_value=np.full([a.length for a in a], 0.1)) for a in ([C, H], [H]))
    loss = ng.mean(ng.square(ng.dot(w2, ng.tanh(ng.dot(w1, x))) - t), out_axes=())
    updates = ng.doall([ng.assign(v, v - 0.1 * ng.deriv(loss, v)) for v in (w1, w2)])
    random = np.random.default_rng(0)
    return (
        ng.compile([loss, updates], [x, t], target="cuda"),
        (random.normal(size=(5, 8)), random.normal(size=8)),
    )


def test_a_step_of_training_is_one_launch(machine: Machine) -> None:
    step, data = training()
    gc.collect()  # what nobody has any more is freed by the next call
    losses = [float(step(*data)[0]) for _ in range(3)]
    before = machine.counts.copy()
    losses.append(float(step(*data)[0]))
    assert losses == sorted(losses, reverse=True)
    # What is fed is copied in, and the loss out, by the graph.
    assert asked(machine, before) == {"cuGraphLaunch": 1, "cuStreamSynchronize": 1}


def test_values_that_lie_on_the_device_are_not_copied(machine: Machine) -> None:
    (step, data), (other, _) = training(), training()
    expected = [float(step(*data)[0]) for _ in range(3)]
    (x, t), C, N = data, ng.make_axis(5, name="C"), ng.make_axis(8, name="N")
    given = ng.placeholder([C, N])
    there = ng.compile(1 * given, [given], target="cuda").on_device(x)
    gc.collect()
    for want in expected:
        before = machine.counts.copy()
        assert float(other(there, t)[0]) == want
    assert asked(machine, before) == {"cuGraphLaunch": 1, "cuStreamSynchronize": 1}
    # Others, at other addresses or of another kind, are taken as they are.
    assert float(other(x.astype(np.float32), list(t))[0]) < expected[-1]
    with pytest.raises(UserError):
        other(there, there)


def test_a_kernel_that_fails_in_a_graph_is_named(machine: Machine) -> None:
    step, data = training()
    for _ in range(3):
        step(*data)
    machine.answers["cuStreamSynchronize"] = ["CUDA_ERROR_ILLEGAL_ADDRESS"]
    with pytest.raises(
        cuda.DeviceLost, match="GPU 0 has stopped: a kernel accessed an invalid address.* in one of dot"
    ):
        step(*data)
    with pytest.raises(cuda.DeviceLost, match="GPU 0 has stopped: .*in one of dot"):
        step(*data)


def test_long_values_go_through_the_ring(machine: Machine) -> None:
    x = ng.placeholder([ng.make_axis(count := 3 << 20)])
    total = ng.compile(ng.sum(x, out_axes=()), [x], target="cuda")
    ones = np.ones(count, np.float32)
    assert [float(total(ones * k)) for k in range(3)] == [0, count, 2 * count]
    before = machine.counts.copy()
    total(ones)
    assert asked(machine, before)["cuMemcpyHtoDAsync"] >= 3


def test_a_call_that_is_broken_off_leaves_nothing_under_way(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, data = training()
    first = float(step(*data)[0])
    wait = cuda.CudaDevice.synchronize
    broken: list[int] = []

    def interrupted(device: cuda.CudaDevice) -> None:
        if not broken:
            broken.append(len(machine.queue))
            raise KeyboardInterrupt
        wait(device)

    monkeypatch.setattr(cuda.CudaDevice, "synchronize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(*data)  # its second call makes the graph, and waits for it
    assert broken[0] > 0 and not machine.queue
    assert float(step(*data)[0]) < first


def test_threads_share_a_device(machine: Machine) -> None:
    run, (w, *xs) = two(), arrays(9)

    def call(x: np.ndarray) -> np.ndarray:
        for _ in range(3):
            (y,) = run(x, w)
            DeviceBuffer(run.device, "f32", (7,))
        return y

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(call, xs))
    for x, y in zip(xs, found, strict=True):
        np.testing.assert_allclose(y, x @ w @ w, rtol=1e-4)


def far() -> GpuExecutable:
    executable = compiler.compile_module(from_text(FAR), "cuda")
    assert isinstance(executable, GpuExecutable)
    return executable


def test_a_kernel_that_fails_is_named_and_the_device_is_lost(machine: Machine) -> None:
    run, x = far(), np.arange(8, dtype=np.float32)
    assert run(0, x)[0].tolist() == x.tolist()
    held = [to_device(run.device, x, "f32")]
    with pytest.raises(cuda.DeviceLost) as caught:
        run(1 << 40, x)
    text = str(caught.value)
    assert "GPU 0 has stopped: a kernel accessed an invalid address (CUDA_ERROR_ILLEGAL_ADDRESS)" in text
    assert "in the kernel far" in text and "checked=True" in text and len(machine.faults) == 1
    for action in (held[0].numpy, lambda: run(0, x), lambda: held[0].write(x), run.device.synchronize):
        with pytest.raises(cuda.DeviceLost, match="GPU 0 has stopped: .*in the kernel far.*is lost"):
            action()
    held.clear()
    gc.collect()


def test_what_is_compiled_after_that_runs(machine: Machine) -> None:
    run, x = far(), np.arange(8, dtype=np.float32)
    with pytest.raises(cuda.DeviceLost):
        run(1 << 40, x)
    again = far()
    assert again.device is not run.device and again.device.ordinal == 0
    assert again(0, x)[0].tolist() == x.tolist()
    assert machine.counts["cuDevicePrimaryCtxReset"] == 1


def test_a_device_that_does_not_recover_says_so(machine: Machine) -> None:
    run, x = far(), np.arange(8, dtype=np.float32)
    with pytest.raises(cuda.DeviceLost):
        run(1 << 40, x)
    machine.answers["cuStreamCreate"] = ["CUDA_ERROR_ILLEGAL_ADDRESS"] * 2
    with pytest.raises(cuda.DeviceLost, match="GPU 0 is lost.*cannot be reset") as caught:
        far()
    assert "restart the process" in str(caught.value)


def test_one_of_many_kernels_is_named_where_each_is_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> str:
        other, (x, w), run = two(), arrays(), far()
        held = [to_device(run.device, each, "f32") for each in (x, w)]
        other.run(held, [DeviceBuffer(run.device, "f32", (16, 16))])
        with pytest.raises(cuda.DeviceLost) as caught:
            run(1 << 40, x[0, :8])
        return str(caught.value)

    assert "in one of dot, far" in (text := fails()) and "NGMLIR_CUDA_BLOCKING=1" in text
    monkeypatch.setenv("NGMLIR_CUDA_BLOCKING", "1")
    assert "in the kernel far" in (text := fails()) and "BLOCKING" not in text


def test_a_checked_program_names_the_element(machine: Machine) -> None:
    run = compiler.compile_module(from_text(FAR), "cuda", checked=True)
    with pytest.raises(UserError, match="touches element 1099511627783 of dimension 0 of %x"):
        run(1 << 40, np.ones(8, np.float32))
    assert machine.faults == []
