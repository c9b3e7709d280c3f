# SPDX-License-Identifier: Apache-2.0
"""The device `cuda`: an NVIDIA GPU through the driver, with one stream. Nothing of CUDA is imported before."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..support.diagnostics import UserError
from . import ptxas
from .gpu import GpuFacts

_HINT = "the device cuda-sim runs the same kernels without a GPU"
_LOG_BYTES = 1 << 15
#: What every kernel may use without asking; more must be granted per function.
_DEFAULT_SHARED_BYTES = 48 * 1024


class CudaModule:
    """Kernels of one PTX text, loaded; functions are looked up once."""

    def __init__(self, driver: Any, handle: Any):
        self.driver = driver
        self.handle = handle
        self.functions: dict[str, Any] = {}


class CudaDevice:
    """GPU number `ordinal`, in its primary context, which other libraries of the process share."""

    def __init__(self, ordinal: int = 0):
        self.driver = _driver()
        count = self._check(self.driver.cuDeviceGetCount())
        if ordinal >= count:
            raise UserError(f"there is no GPU number {ordinal}, this machine has {count}", hint=_HINT)
        self.handle = self._check(self.driver.cuDeviceGet(ordinal))
        self.context = self._check(self.driver.cuDevicePrimaryCtxRetain(self.handle))
        self._enter()
        self.stream = self._check(self.driver.cuStreamCreate(1))  # 1: does not wait for the default stream
        self.facts = self._facts()
        self._modules: dict[str, CudaModule] = {}

    def _check(self, answer: tuple[Any, ...]) -> Any:
        """The value of a driver call; a `UserError` with the driver's own words if it failed."""
        status, *values = answer
        if status != self.driver.CUresult.CUDA_SUCCESS:
            _, text = self.driver.cuGetErrorString(status)
            raise UserError(f"CUDA: {status.name}: {text.decode() if text else 'unknown error'}", hint=_HINT)
        return values[0] if values else None

    def _enter(self) -> None:
        """Makes the context current: contexts belong to threads, and callers may come from any."""
        self._check(self.driver.cuCtxSetCurrent(self.context))

    def _facts(self) -> GpuFacts:
        attribute = self.driver.CUdevice_attribute

        def ask(name: str) -> int:
            number = getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return self._check(self.driver.cuDeviceGetAttribute(number, self.handle))

        name = self._check(self.driver.cuDeviceGetName(128, self.handle))
        return GpuFacts(
            name.split(b"\0")[0].decode(),
            (ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")),
            ask("MULTIPROCESSOR_COUNT"),
            ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            self._check(self.driver.cuDeviceTotalMem(self.handle)),
        )

    def describe(self) -> GpuFacts:
        return self.facts

    # ---- memory

    def allocate(self, size: int) -> int:
        self._enter()
        return int(self._check(self.driver.cuMemAlloc(max(size, 1))))

    def free(self, address: int) -> None:
        self._enter()
        self._check(self.driver.cuMemFree(address))

    def copy_in(self, address: int, array: np.ndarray) -> None:
        self._enter()
        host = np.ascontiguousarray(array)
        # From pageable memory the driver has read all bytes when this returns.
        self._check(self.driver.cuMemcpyHtoDAsync(address, host.ctypes.data, host.nbytes, self.stream))

    def copy_out(self, address: int, array: np.ndarray) -> None:
        self._enter()
        self._check(self.driver.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, self.stream))
        self.synchronize()

    def synchronize(self) -> None:
        self._enter()
        self._check(self.driver.cuStreamSynchronize(self.stream))

    # ---- kernels

    def load(self, ptx: str) -> CudaModule:
        key = hashlib.sha256(ptx.encode()).hexdigest()
        if key not in self._modules:
            self._enter()
            self._modules[key] = CudaModule(self.driver, self._load_cubin(ptx) or self._load_ptx(ptx))
        return self._modules[key]

    def _architecture(self, ptx: str) -> str:
        """This GPU's, with the suffix (`a`, `f`) that the PTX asks for."""
        wanted = re.search(r"^\.target\s+(sm_\w+)", ptx, re.MULTILINE)
        major, minor = self.facts.capability
        native = f"sm_{major}{minor}"
        return wanted.group(1) if wanted and wanted.group(1)[:-1] == native else native

    def _load_cubin(self, ptx: str) -> Any | None:
        """Through ptxas, if there is one and the driver takes its output (it may be newer than the driver)."""
        if not ptxas.available():
            return None
        cubin = ptxas.assemble(ptx, self._architecture(ptx)).cubin
        status, handle = self.driver.cuModuleLoadData(cubin)
        return handle if status == self.driver.CUresult.CUDA_SUCCESS else None

    def _load_ptx(self, ptx: str) -> Any:
        option = self.driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        status, handle = self.driver.cuModuleLoadDataEx(
            ptx.encode() + b"\0",
            2,
            [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
            [log, _LOG_BYTES],
        )
        if status != self.driver.CUresult.CUDA_SUCCESS:
            words = log.split(b"\0")[0].decode(errors="replace").strip()
            raise UserError(f"the CUDA driver rejects the PTX ({status.name}):\n{words}", hint=_HINT)
        return handle

    def _function(self, module: CudaModule, kernel: str, shared_bytes: int) -> Any:
        function = module.functions.get(kernel)
        if function is None:
            function = self._check(self.driver.cuModuleGetFunction(module.handle, kernel.encode()))
            module.functions[kernel] = function
        if shared_bytes > _DEFAULT_SHARED_BYTES:
            attribute = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._check(self.driver.cuFuncSetAttribute(function, attribute, shared_bytes))
        return function

    def bind(
        self,
        module: CudaModule,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> Callable[[], None]:
        self._enter()
        function = self._function(module, kernel, shared_bytes)
        # The driver reads void*[]: addresses of the arguments, which lie in `values`.
        values = np.array(arguments, np.uint64)
        pointers = values.ctypes.data + 8 * np.arange(len(values), dtype=np.uint64)
        launch, stream, table = self.driver.cuLaunchKernel, self.stream, pointers.ctypes.data
        x, y, z = grid

        def go(keep: tuple[np.ndarray, np.ndarray] = (values, pointers)) -> None:
            self._enter()
            self._check(launch(function, x, y, z, threads, 1, 1, shared_bytes, stream, table, 0))

        return go

    def launch(
        self,
        module: CudaModule,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        self.bind(module, kernel, grid, threads, shared_bytes, arguments)()


def _driver() -> Any:
    """The driver's bindings, initialised; a `UserError` says which part is missing."""
    try:
        driver: Any = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise UserError(
            "the Python package cuda-bindings is not installed",
            hint=f"pip install 'ngmlir[cuda]'; {_HINT}",
        ) from error
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # the bindings raise, rather than answer, when there is no libcuda
        raise UserError("no NVIDIA driver (libcuda) is installed on this machine", hint=_HINT) from error
    if status != driver.CUresult.CUDA_SUCCESS:
        raise UserError(f"the NVIDIA driver finds no usable GPU ({status.name})", hint=_HINT)
    return driver


def available() -> bool:
    """Whether a `CudaDevice` can be made here."""
    try:
        return int(_driver().cuDeviceGetCount()[1] or 0) > 0
    except UserError:
        return False
