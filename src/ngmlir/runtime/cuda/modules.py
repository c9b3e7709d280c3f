# SPDX-License-Identifier: Apache-2.0
"""Loads kernels on a GPU: PTX is compiled to machine code by `ptxas`, cached on disk, or by the driver's compiler."""

from __future__ import annotations

import re
import warnings
from typing import Any

from ...support.diagnostics import UserError
from .. import ptxas
from ..cache import default_cache, key_of
from .driver import HINT, Driver

_LOG_BYTES = 1 << 15
#: Shared memory that every kernel may use; more must be enabled per function.
_DEFAULT_SHARED_BYTES = 48 * 1024
#: The PTX versions in use, and the first CUDA version whose driver supports them.
_CUDA_OF_PTX = {"8.0": "12.0", "8.7": "12.8", "8.8": "12.9", "9.0": "13.0"}


class CudaModule:
    """The loaded kernels of one PTX text; functions are looked up once."""

    def __init__(self, driver: Driver, handle: Any):
        self.driver = driver
        self.handle = handle
        self._functions: dict[str, Any] = {}

    def function(self, kernel: str, shared_bytes: int) -> Any:
        """A kernel that may use this much dynamic shared memory."""
        api = self.driver.api
        function = self._functions.get(kernel)
        if function is None:
            function = self.driver.value(api.cuModuleGetFunction(self.handle, kernel.encode()))
            self._functions[kernel] = function
        if shared_bytes > _DEFAULT_SHARED_BYTES:
            attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.driver.value(api.cuFuncSetAttribute(function, attribute, shared_bytes))
        return function


def load(driver: Driver, ptx: str, capability: tuple[int, int]) -> CudaModule:
    """Loads kernels in the current context. Messages of `ptxas` become warnings: its errors if the driver's own
    compiler accepts the PTX, and its notes on optimisations that it gave up."""
    complaint = ""
    if ptxas.available():
        try:
            cubin = _machine_code(ptx, _architecture(ptx, capability))
        except UserError as error:
            complaint = error.diagnostics[0].message
        else:
            # A ptxas that is newer than the driver makes machine code that the driver may reject.
            status, handle = driver.api.cuModuleLoadData(cubin)
            if status == driver.success:
                return CudaModule(driver, handle)
    handle = _by_driver(driver, ptx, complaint)
    if complaint:
        warnings.warn(f"{complaint}\nThe compiler of the driver is used instead.", stacklevel=2)
    return CudaModule(driver, handle)


def _architecture(ptx: str, capability: tuple[int, int]) -> str:
    """This GPU's architecture, with the suffix (`a`, `f`) that the PTX has."""
    wanted = re.search(r"^\.target\s+(sm_\w+)", ptx, re.MULTILINE)
    major, minor = capability
    native = f"sm_{major}{minor}"
    return wanted.group(1) if wanted and wanted.group(1)[:-1] == native else native


def _machine_code(ptx: str, architecture: str) -> bytes:
    """From the cache, or by `ptxas`, whose notes become warnings when it runs."""
    cache, assembler = default_cache(), ptxas.find()
    assert assembler is not None
    key = key_of("cubin", ptx, architecture, ptxas.version_of(assembler))
    found = cache.read(key) if cache is not None else None
    if found is not None:
        return found.code
    report = ptxas.assemble(ptx, architecture)
    for note in report.warnings:
        warnings.warn(note, stacklevel=3)
    if cache is not None:
        cache.write(key, report.cubin)
    return report.cubin


def _by_driver(driver: Driver, ptx: str, complaint: str) -> Any:
    option = driver.api.CUjit_option
    log = bytearray(_LOG_BYTES)
    status, handle = driver.api.cuModuleLoadDataEx(
        ptx.encode() + b"\0",
        2,
        [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
        [log, _LOG_BYTES],
    )
    if status.name == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
        raise _too_old(driver, ptx)
    if status != driver.success:
        words = log.split(b"\0")[0].decode(errors="replace").strip()
        told = f"\n{complaint}" if complaint else ""
        raise UserError(f"the CUDA driver rejects the PTX ({status.name}):\n{words}{told}", hint=HINT)
    return handle


def _too_old(driver: Driver, ptx: str) -> UserError:
    """The error for PTX of a version that the driver does not support."""
    version = re.search(r"^\.version\s+(\S+)", ptx, re.MULTILINE)
    wanted = version.group(1) if version else ""
    major, minor = divmod(driver.value(driver.api.cuDriverGetVersion()), 1000)
    needed = _CUDA_OF_PTX.get(wanted, "a newer version")
    return UserError(
        f"the NVIDIA driver of this machine is too old: it supports CUDA {major}.{minor // 10}, "
        f"and PTX {wanted} needs CUDA {needed}",
        hint=f"update the driver; {HINT}",
    )
