# SPDX-License-Identifier: Apache-2.0
"""The device `cuda`: what is missing is said, and what it asks the driver for is what it should be."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import Machine

from ngmlir.runtime import cuda
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import DeviceBuffer, GpuDevice, to_device
from ngmlir.support.diagnostics import Location, UserError

PTX = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry add(.param .u64 .ptr .global .align 4 p, .param .u64 .ptr .global .align 4 q)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  ld.param.b64 %rd1, [p];
  ld.param.b64 %rd2, [q];
  ld.global.b32 %r1, [%rd1];
  ld.global.b32 %r2, [%rd2];
  add.u32 %r3, %r1, %r2;
  st.global.b32 [%rd2], %r3;
  ret;
}
"""


def test_without_a_gpu_the_error_names_what_is_missing_and_a_way_on():
    if cuda.available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match="cuda") as caught:
        cuda.CudaDevice()
    assert "cuda-sim" in caught.value.diagnostics[0].hint


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert not cuda.available()
    with pytest.raises(UserError, match="cuda-bindings is not installed") as caught:
        cuda.CudaDevice()
    assert "ngmlir[cuda]" in caught.value.diagnostics[0].hint


def word(device: GpuDevice, value: int) -> DeviceBuffer:
    return to_device(device, np.array([value], np.int32), "i32")


def test_launches_keep_their_arguments(machine: Machine) -> None:
    device = cuda.CudaDevice()
    facts = device.describe()
    assert (facts.name, facts.capability, facts.shared_bytes) == ("Fake GPU", (9, 0), 227 * 1024)
    module = device.load(PTX)
    assert device.load(PTX) is module
    buffers = [(word(device, n), word(device, 1)) for n in range(50)]
    pieces = [
        device.piece([device.bind(module, "add", (1, 1, 1), 1, 0, [a.address, b.address])])
        for a, b in buffers
    ]
    gc.collect()
    for go in pieces:
        go()
    assert [int(b.numpy()[0]) for _, b in buffers] == [n + 1 for n in range(50)]


def test_kernels_that_nobody_has_any_more_are_unloaded(machine: Machine) -> None:
    device = cuda.CudaDevice()
    a, b = word(device, 1), word(device, 2)
    go = device.piece([device.bind(device.load(PTX), "add", (1, 1, 1), 1, 0, [a.address, b.address])])
    assert device.load(PTX) is device.load(PTX)
    for _ in range(3):
        gc.collect()
        go()  # has them still
    assert not machine.counts["cuModuleUnload"] and machine.counts["cuModuleLoadDataEx"] == 1
    del go
    gc.collect()
    assert b.numpy() == [5] and machine.counts["cuModuleUnload"] == 1
    device.load(PTX)
    assert machine.counts["cuModuleLoadDataEx"] == 2


def test_what_is_passed_by_value(machine: Machine) -> None:
    """To the limit of 4 KB, in any place among the addresses."""
    head, body = PTX.split("p, .param", 1)
    text = f"{head}p, .param .align 64 .b8 some[4080], .param{body}"
    text = text.replace("ld.global.b32 %r1, [%rd1]", "ld.param.b32 %r1, [some+4076]")
    devices: list[GpuDevice] = [cuda.CudaDevice(), CudaSimDevice()]
    for device in devices:
        a, b = word(device, 1), word(device, 2)
        given = [a.address, bytes(4076) + b"\x28\0\0\0", b.address]
        device.piece([device.bind(device.load(text), "add", (1, 1, 1), 1, 0, given)])()
        assert int(b.numpy()[0]) == 42


def test_much_shared_memory_is_asked_for(machine: Machine) -> None:
    device = cuda.CudaDevice()
    module, a = device.load(PTX), word(device, 1)
    device.launch(module, "add", (1, 1, 1), 1, 1024, [a.address, a.address])
    assert not machine.counts["cuFuncSetAttribute"]
    device.launch(module, "add", (1, 1, 1), 1, 100_000, [a.address, a.address])
    assert machine.counts["cuFuncSetAttribute"] == 1 and a.numpy()[0] == 4
    with pytest.raises(UserError, match="INVALID_VALUE"):
        device.bind(module, "add", (1, 1, 1), 1, 300_000, [a.address, a.address])


def test_what_is_copied_may_change_after_it(machine: Machine) -> None:
    device = cuda.CudaDevice()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = to_device(device, array, "f32")
    array[:] = 0
    assert machine.counts["cuStreamSynchronize"] == machine.counts["cuEventSynchronize"] == 0
    assert buffer.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert DeviceBuffer(device, "f32", (0, 3)).numpy().shape == (0, 3)


def test_copies_longer_than_what_is_pinned(machine: Machine) -> None:
    device = cuda.CudaDevice()
    array = np.random.default_rng(0).integers(0, 255, 21_000_001).astype(np.uint8)
    buffer = to_device(device, array, "ui8")
    small = [to_device(device, array[: 7 * n], "ui8") for n in range(1, 40)]
    assert np.array_equal(buffer.numpy(), array)
    assert all(np.array_equal(b.numpy(), array[: 7 * n]) for n, b in enumerate(small, 1))
    assert sum(len(held) for held in machine.pinned.values()) == 16 << 20


def test_the_context_of_the_caller_comes_back(machine: Machine) -> None:
    device = cuda.CudaDevice()
    module, a = device.load(PTX), word(device, 1)
    assert machine.stack == []
    machine.stack.append(theirs := machine.put(object()))
    device.launch(module, "add", (1, 1, 1), 1, 0, [a.address, a.address])
    for name in ("cuLaunchKernel", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync"):
        machine.answers[name] = ["CUDA_ERROR_INVALID_VALUE"]
        with pytest.raises(UserError, match="CUDA_ERROR_INVALID_VALUE"):
            device.launch(module, "add", (1, 1, 1), 1, 0, [a.address, word(device, 2).address])
    bound = device.piece([device.bind(module, "add", (1, 1, 1), 1, 0, [a.address, a.address])])
    bound()
    event = device.event()
    for use in (bound, event.wait):
        machine.answers["cuCtxPushCurrent"] = ["CUDA_ERROR_INVALID_CONTEXT"] * 2
        with pytest.raises(UserError, match="CUDA_ERROR_INVALID_CONTEXT"):
            use()
        machine.answers.clear()
        device.lost = ""
    assert machine.stack == [theirs]


def test_the_drivers_words_are_in_the_errors(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.ptxas, "available", lambda: False)
    device = cuda.CudaDevice()
    with pytest.raises(UserError, match=r"rejects the PTX \(CUDA_ERROR_INVALID_PTX\)(.|\n)*<ptx>"):
        device.load(PTX.replace("add.u32", "plus.u32"))
    with pytest.raises(UserError, match="CUDA_ERROR_NOT_FOUND"):
        device.bind(device.load(PTX), "sub", (1, 1, 1), 1, 0, [])
    with pytest.raises(UserError, match="no GPU number 3, this machine has 2"):
        cuda.CudaDevice(3)
    machine.answers["cuLaunchKernel"] = ["CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"]
    a = word(device, 1)
    with pytest.raises(UserError, match="the kernel add cannot be launched: CUDA_ERROR_LAUNCH_OUT_OF"):
        device.launch(device.load(PTX), "add", (1, 1, 1), 1, 0, [a.address, a.address])


@pytest.fixture
def assembler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: Machine) -> list[tuple[str, str]]:
    """`ptxas` as it might be; what it was asked for."""
    asked: list[tuple[str, str]] = []
    head = b"\x7fELF" + bytes(28) + bytes([64]) + bytes(31)  # nothing but a header

    def assemble(ptx: str, arch: str) -> SimpleNamespace:
        asked.append((ptx, arch))
        cubin = head[:-1] + bytes([len(asked)])
        machine.cubins[cubin] = ptx
        return SimpleNamespace(cubin=cubin, warnings=("ptxas: note (C7510)",))

    monkeypatch.setattr(cuda.ptxas, "available", lambda: True)
    monkeypatch.setattr(cuda.ptxas, "find", lambda: tmp_path)
    monkeypatch.setattr(cuda.ptxas, "version_of", lambda path: "13.5")
    monkeypatch.setattr(cuda.ptxas, "assemble", assemble)
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path))
    return asked


def test_machine_code_is_kept_on_disk(machine: Machine, assembler: list[tuple[str, str]]) -> None:
    with pytest.warns(UserWarning, match="C7510"):
        cuda.CudaDevice().load(PTX)
    assert assembler == [(PTX, "sm_90a")] and not machine.counts["cuModuleLoadDataEx"]
    cuda.CudaDevice().load(PTX)  # another process would find it too
    assert len(assembler) == 1 and machine.counts["cuModuleLoadData"] == 2


def test_machine_code_that_is_refused_is_made_by_the_driver(
    machine: Machine, assembler: list[tuple[str, str]]
) -> None:
    machine.answers["cuModuleLoadData"] = ["CUDA_ERROR_INVALID_IMAGE"]
    with pytest.warns(UserWarning, match="C7510"):
        cuda.CudaDevice().load(PTX.replace("sm_90a", "sm_80"))
    assert assembler[0][1] == "sm_90" and machine.counts["cuModuleLoadDataEx"] == 1


def test_what_ptxas_does_not_know_is_told_and_left_to_the_driver(
    machine: Machine, assembler: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def assemble(ptx: str, arch: str) -> None:
        raise UserError("Unsupported .version 8.0; current version is '7.8'")

    monkeypatch.setattr(cuda.ptxas, "assemble", assemble)
    with pytest.warns(
        UserWarning, match=r"current version is '7\.8'\nThe compiler of the driver is used instead"
    ):
        cuda.CudaDevice().load(PTX)
    machine.answers["cuModuleLoadDataEx"] = ["CUDA_ERROR_INVALID_PTX"]
    with pytest.raises(UserError, match=r"INVALID_PTX(.|\n)*current version is '7\.8'"):
        cuda.CudaDevice().load(PTX)


def test_a_driver_that_is_too_old_is_told_what_is_needed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda.ptxas, "available", lambda: False)
    machine.answers["cuModuleLoadDataEx"] = ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"]
    machine.version = 11080
    with pytest.raises(UserError, match=r"supports CUDA 11\.8, and PTX 8\.0 needs CUDA 12\.0") as caught:
        cuda.CudaDevice().load(PTX)
    assert "update the driver" in caught.value.diagnostics[0].hint


def test_memory_is_given_back_with_the_next_call(machine: Machine) -> None:
    device = cuda.CudaDevice()
    buffers = [word(device, n) for n in range(5)]
    before = machine.counts.copy()
    del buffers
    gc.collect()
    assert machine.counts == before  # the collector may come in the midst of any call of anybody
    kept = word(device, 1)
    assert machine.counts["cuMemFreeAsync"] == 5 and kept.numpy()[0] == 1
    assert machine.used(0) == 4


def test_a_gpu_without_pools(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.pools = False
    device = cuda.CudaDevice()
    word(device, 1)
    assert word(device, 2).numpy()[0] == 2
    assert (machine.counts["cuMemAlloc"], machine.counts["cuMemFree"]) == (2, 1)


def test_what_takes_the_memory_is_named(machine: Machine) -> None:
    machine.memory_bytes = 16 << 20
    device = cuda.CudaDevice()
    place = Location("train.py", 7, 3)
    held = [DeviceBuffer(device, "ui8", (n << 10,), f"w{n}", place) for n in range(1000, 1012)]
    with pytest.raises(cuda.OutOfMemory) as caught:
        DeviceBuffer(device, "f32", (2 << 20,), "result y of @main")
    text = str(caught.value)
    assert "GPU 0 has no room for 8.0 MiB (result y of @main): 4.2 MiB of 16.0 MiB are free" in text
    assert "train.py:7:3: note: 1011.0 KiB: w1011\ntrain.py:7:3: note: 1010.0 KiB: w1010" in text
    assert "w1003" not in text and "note: 3.9 MiB: 4 more" in text
    del held, caught
    gc.collect()
    DeviceBuffer(device, "f32", (2 << 20,))  # what nobody holds any more is room
