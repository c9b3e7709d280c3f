# SPDX-License-Identifier: Apache-2.0
"""The device `cuda`: an NVIDIA GPU through the driver, with one stream. Nothing of CUDA is imported before."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..support.diagnostics import UserError
from . import ptxas
from .gpu import GpuFacts

_HINT = "the device cuda-sim runs the same kernels without a GPU"
_LOG_BYTES = 1 << 15
#: What every kernel may use without asking; more must be granted per function.
_DEFAULT_SHARED_BYTES = 48 * 1024
#: The versions of PTX that are asked for, and the first CUDA whose driver knows them.
_CUDA_OF_PTX = {"8.0": "12.0", "8.7": "12.8", "8.8": "12.9", "9.0": "13.0"}


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
        self.ordinal = ordinal
        count = self._check(self.driver.cuDeviceGetCount())
        if ordinal >= count:
            raise UserError(f"there is no GPU number {ordinal}, this machine has {count}", hint=_HINT)
        self.handle = self._check(self.driver.cuDeviceGet(ordinal))
        self.context = self._check(self.driver.cuDevicePrimaryCtxRetain(self.handle))
        with self._current():
            self.stream = self._check(
                self.driver.cuStreamCreate(1)
            )  # 1: does not wait for the default stream
        self.facts = self._facts()
        self._modules: dict[str, CudaModule] = {}

    def _check(self, answer: tuple[Any, ...]) -> Any:
        """The value of a driver call; a `UserError` with the driver's own words if it failed."""
        status, *values = answer
        if status != self.driver.CUresult.CUDA_SUCCESS:
            _, text = self.driver.cuGetErrorString(status)
            raise UserError(f"CUDA: {status.name}: {text.decode() if text else 'unknown error'}", hint=_HINT)
        return values[0] if values else None

    @contextmanager
    def _current(self) -> Generator[None]:
        """Makes the context current in this thread for a while: callers come from any thread, and memory is
        freed at any moment, also between two calls of another library that works in another context."""
        self._check(self.driver.cuCtxPushCurrent(self.context))
        try:
            yield
        finally:
            self._check(self.driver.cuCtxPopCurrent())

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
        with self._current():
            return int(self._check(self.driver.cuMemAlloc(max(size, 1))))

    def free(self, address: int) -> None:
        with self._current():
            self._check(self.driver.cuMemFree(address))

    def copy_in(self, address: int, array: np.ndarray) -> None:
        with self._current():
            self._check(self.driver.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, self.stream))
            # Of pinned memory, and where the GPU reads the host's pages by itself, the copy has only begun.
            self._check(self.driver.cuStreamSynchronize(self.stream))

    def copy_out(self, address: int, array: np.ndarray) -> None:
        with self._current():
            self._check(self.driver.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, self.stream))
            self._check(self.driver.cuStreamSynchronize(self.stream))

    def synchronize(self) -> None:
        with self._current():
            self._check(self.driver.cuStreamSynchronize(self.stream))

    # ---- kernels

    def load(self, ptx: str) -> CudaModule:
        key = hashlib.sha256(ptx.encode()).hexdigest()
        if key not in self._modules:
            with self._current():
                self._modules[key] = CudaModule(self.driver, self._load_cubin(ptx) or self._load_ptx(ptx))
        return self._modules[key]

    def _architecture(self, ptx: str) -> str:
        """This GPU's, with the suffix (`a`, `f`) that the PTX asks for."""
        wanted = re.search(r"^\.target\s+(sm_\w+)", ptx, re.MULTILINE)
        major, minor = self.facts.capability
        native = f"sm_{major}{minor}"
        return wanted.group(1) if wanted and wanted.group(1)[:-1] == native else native

    def _load_cubin(self, ptx: str) -> Any | None:
        """Through ptxas, if there is one that knows this PTX and whose output the driver takes: the one on the
        machine may be older than the PTX, or newer than the driver."""
        if not ptxas.available():
            return None
        try:
            cubin = ptxas.assemble(ptx, self._architecture(ptx)).cubin
        except UserError:
            return None
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
        if status.name == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
            raise self._too_old(ptx)
        if status != self.driver.CUresult.CUDA_SUCCESS:
            words = log.split(b"\0")[0].decode(errors="replace").strip()
            raise UserError(f"the CUDA driver rejects the PTX ({status.name}):\n{words}", hint=_HINT)
        return handle

    def _too_old(self, ptx: str) -> UserError:
        """For PTX of a version that the driver does not know."""
        version = re.search(r"^\.version\s+(\S+)", ptx, re.MULTILINE)
        wanted = version.group(1) if version else ""
        major, minor = divmod(self._check(self.driver.cuDriverGetVersion()), 1000)
        needed = _CUDA_OF_PTX.get(wanted, "a newer version")
        return UserError(
            f"the NVIDIA driver of this machine is too old: it supports CUDA {major}.{minor // 10}, "
            f"and PTX {wanted} needs CUDA {needed}",
            hint=f"update the driver; {_HINT}",
        )

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
        with self._current():
            function = self._function(module, kernel, shared_bytes)
        # The driver reads void*[]: addresses of the arguments, which lie in `values`.
        values = np.array(arguments, np.uint64)
        pointers = values.ctypes.data + 8 * np.arange(len(values), dtype=np.uint64)
        driver, context, stream, table = self.driver, self.context, self.stream, pointers.ctypes.data
        push, launch, pop = driver.cuCtxPushCurrent, driver.cuLaunchKernel, driver.cuCtxPopCurrent
        x, y, z = grid

        def go(keep: tuple[np.ndarray, np.ndarray] = (values, pointers)) -> None:
            # As `_current` does, in half the time: a step may be hundreds of launches.
            self._check(push(context))
            answer = launch(function, x, y, z, threads, 1, 1, shared_bytes, stream, table, 0)
            pop()
            self._check(answer)

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
