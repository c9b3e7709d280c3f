# SPDX-License-Identifier: Apache-2.0
"""The driver's device without a GPU: what is missing is said, and the calls are those that a driver takes."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from ngmlir.runtime import cuda
from ngmlir.support.diagnostics import UserError

PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"


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


class Status:
    def __init__(self, name: str):
        self.name = name


OK, WRONG = Status("CUDA_SUCCESS"), Status("CUDA_ERROR_INVALID_PTX")
TOO_NEW = Status("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")


class FakeDriver(ModuleType):
    """Answers every call with success and remembers it; `answers` overrides."""

    def __init__(self):
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[str, tuple]] = []
        self.CUresult = SimpleNamespace(CUDA_SUCCESS=OK)
        names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT")
        names += ("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",)
        self.CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{n}": n for n in names})
        self.CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=6)
        self.CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
        facts = {"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0}
        self.answers = {
            "cuInit": lambda flags: (OK,),
            "cuDeviceGetCount": lambda: (OK, 1),
            "cuDeviceGetName": lambda size, device: (OK, b"Fake\0\0"),
            "cuDeviceGetAttribute": lambda name, device: (OK, facts.get(name, 1 << 18)),
            "cuDeviceTotalMem": lambda device: (OK, 1 << 30),
            "cuMemAlloc": lambda size: (OK, 0x7000),
            "cuGetErrorString": lambda status: (OK, b"invalid"),
            "cuModuleLoadDataEx": self._load,
        }
        self.broken = False

    def _load(self, image, count, options, values):
        if self.broken:
            values[0][:13] = b"line 7: wrong"
            return WRONG, None
        return OK, "module"

    def __getattr__(self, name: str):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.calls.append((name, arguments))
            return self.answers[name](*arguments) if name in self.answers else (OK, name)

        return call

    def last(self, name: str) -> tuple:
        return next(arguments for called, arguments in reversed(self.calls) if called == name)


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    monkeypatch.setattr(cuda.ptxas, "available", lambda: False)
    return fake


def test_a_launch_hands_over_its_arguments_by_address(driver):
    device = cuda.CudaDevice()
    assert device.describe().name == "Fake" and device.describe().capability == (9, 0)
    module = device.load(PTX)
    assert device.load(PTX) is module
    device.bind(module, "k", (3, 2, 1), 128, 0, [0x1000, 0x2000])()
    function, *grid, table, extra = driver.last("cuLaunchKernel")
    assert (function, grid[:3], grid[3:6], grid[6], extra) == (
        "cuModuleGetFunction",
        [3, 2, 1],
        [128, 1, 1],
        0,
        0,
    )


def test_the_argument_block_outlives_the_binding(driver):
    import ctypes

    seen = []

    def launch(function, x, y, z, tx, ty, tz, shared, stream, table, extra):
        pointers = (ctypes.c_uint64 * 2).from_address(table)
        seen.append([ctypes.c_uint64.from_address(pointer).value for pointer in pointers])
        return (OK,)

    driver.answers["cuLaunchKernel"] = launch
    device = cuda.CudaDevice()
    module = device.load(PTX)
    launches = [device.bind(module, "k", (1, 1, 1), 32, 0, [n, n + 1]) for n in range(50)]
    for go in launches:
        go()
    assert seen == [[n, n + 1] for n in range(50)]


def test_much_shared_memory_is_asked_for(driver):
    device = cuda.CudaDevice()
    module = device.load(PTX)
    device.launch(module, "k", (1, 1, 1), 32, 1024, [])
    assert not [name for name, _ in driver.calls if name == "cuFuncSetAttribute"]
    device.launch(module, "k", (1, 1, 1), 32, 100_000, [])
    assert driver.last("cuFuncSetAttribute")[2] == 100_000


def test_no_allocation_is_empty_and_copies_go_by_the_stream(driver):
    device = cuda.CudaDevice()
    device.allocate(0)
    assert driver.last("cuMemAlloc") == (1,)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for copy, call in ((device.copy_in, "cuMemcpyHtoDAsync"), (device.copy_out, "cuMemcpyDtoHAsync")):
        driver.calls.clear()
        copy(0x7000, array)
        # Done when it returns: the array may be pinned memory, which the driver copies in its own time.
        assert [name for name, _ in driver.calls] == [
            "cuCtxPushCurrent",
            call,
            "cuStreamSynchronize",
            "cuCtxPopCurrent",
        ]
        assert 0x7000 in driver.last(call)[:2] and driver.last(call)[2] == 24


def test_the_context_of_the_caller_comes_back(driver):
    device = cuda.CudaDevice()
    module = device.load(PTX)
    device.launch(module, "k", (1, 1, 1), 32, 0, [device.allocate(8)])
    driver.answers["cuMemFree"] = driver.answers["cuLaunchKernel"] = lambda *arguments: (WRONG,)
    for failing in (lambda: device.free(1), lambda: device.launch(module, "k", (1, 1, 1), 32, 0, [])):
        with pytest.raises(UserError, match="invalid"):
            failing()
    names = [name for name, _ in driver.calls]
    assert names.count("cuCtxPushCurrent") == names.count("cuCtxPopCurrent") > 4


def test_the_drivers_words_are_in_the_errors(driver):
    device = cuda.CudaDevice()
    driver.broken = True
    with pytest.raises(UserError, match=r"CUDA_ERROR_INVALID_PTX(.|\n)*line 7: wrong"):
        device.load(PTX)
    driver.answers["cuMemFree"] = lambda address: (WRONG,)
    with pytest.raises(UserError, match="CUDA_ERROR_INVALID_PTX: invalid"):
        device.free(1)
    with pytest.raises(UserError, match="no GPU number 3"):
        cuda.CudaDevice(3)


def test_cubins_are_preferred_and_refused_ones_replaced(driver, monkeypatch):
    monkeypatch.setattr(cuda.ptxas, "available", lambda: True)
    archs = []

    def assemble(ptx, arch):
        archs.append(arch)
        return SimpleNamespace(cubin=b"cubin")

    monkeypatch.setattr(cuda.ptxas, "assemble", assemble)
    device = cuda.CudaDevice()
    assert device.load(PTX).handle == "cuModuleLoadData" and archs == ["sm_90a"]
    driver.answers["cuModuleLoadData"] = lambda image: (WRONG, None)
    assert device.load(PTX.replace("sm_90a", "sm_80")).handle == "module" and archs[1] == "sm_90"


def test_what_ptxas_does_not_know_is_left_to_the_driver(driver, monkeypatch):
    def assemble(ptx, arch):
        raise UserError("Unsupported .version 8.0; current version is '7.8'")

    monkeypatch.setattr(cuda.ptxas, "available", lambda: True)
    monkeypatch.setattr(cuda.ptxas, "assemble", assemble)
    assert cuda.CudaDevice().load(PTX).handle == "module"


def test_a_driver_that_is_too_old_is_told_what_is_needed(driver):
    driver.answers["cuModuleLoadDataEx"] = lambda *arguments: (TOO_NEW, None)
    driver.answers["cuDriverGetVersion"] = lambda: (OK, 11080)
    with pytest.raises(UserError, match=r"supports CUDA 11\.8, and PTX 8\.0 needs CUDA 12\.0") as caught:
        cuda.CudaDevice().load(PTX)
    assert "update the driver" in caught.value.diagnostics[0].hint
