# SPDX-License-Identifier: Apache-2.0
"""The bindings of the driver API: imported, initialised, and their results as values or exceptions."""

from __future__ import annotations

import importlib
from typing import Any

from ...support.diagnostics import UserError

HINT = "the device cuda-sim runs the same kernels without a GPU"
#: The errors that the driver returns from every call once a kernel has failed.
_ENDS_THE_CONTEXT = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel accessed an invalid address",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel ran for too long",
    "CUDA_ERROR_ASSERT": "a kernel stopped at an assertion",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a kernel ran out of stack",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel executed an invalid instruction",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel used a misaligned address",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a kernel used an address of another memory space",
    "CUDA_ERROR_INVALID_PC": "a kernel jumped to an invalid address",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel failed",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "the GPU's memory is damaged",
    "CUDA_ERROR_UNKNOWN": "unknown error of the driver",
}


class OutOfMemory(UserError):
    """A GPU does not have enough memory for a buffer."""


class DeviceLost(UserError):
    """A GPU has stopped; everything on it is lost. Programs that are compiled afterwards start with a new context."""


class Stopped(Exception):
    """The driver returned an error of a failed kernel: the error, its meaning, and the kernel if that is known."""

    def __init__(self, status: str, kernel: str):
        self.status = status
        self.meaning = _ENDS_THE_CONTEXT[status]
        self.kernel = kernel
        super().__init__(status)


class Driver:
    """The functions of the driver API as `api`; `value` gives their results, or raises an error with the driver's
    message."""

    def __init__(self) -> None:
        self.api = _initialised()
        self.success = self.api.CUresult.CUDA_SUCCESS

    def value(self, answer: tuple[Any, ...]) -> Any:
        """The result of a call; Stopped if the device has stopped, UserError for every other failure."""
        if answer[0] is not self.success:
            raise self.failure(answer[0])
        return answer[1] if len(answer) > 1 else None

    def failure(self, status: Any, kernel: str = "") -> Exception:
        """The exception for an error status; `kernel` is the kernel that was launched."""
        if status.name in _ENDS_THE_CONTEXT:
            return Stopped(status.name, kernel)
        _, text = self.api.cuGetErrorString(status)
        words = f"{status.name}: {text.decode() if text else 'unknown error'}"
        which = f"the kernel {kernel} cannot be launched: " if kernel else ""
        return UserError(f"CUDA: {which}{words}", hint=HINT)


def _initialised() -> Any:
    """The bindings, initialised; a `UserError` says which part is missing."""
    try:
        driver: Any = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise UserError(
            "the Python package cuda-bindings is not installed",
            hint=f"pip install 'ngmlir[cuda]'; {HINT}",
        ) from error
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # the bindings raise if there is no libcuda
        raise UserError("no NVIDIA driver (libcuda) is installed on this machine", hint=HINT) from error
    if status != driver.CUresult.CUDA_SUCCESS:
        raise UserError(f"the NVIDIA driver finds no usable GPU ({status.name})", hint=HINT)
    return driver


def available() -> bool:
    """Whether there is a GPU for a `CudaDevice`."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs for a `CudaDevice`; 0 without a driver."""
    try:
        return int(_initialised().cuDeviceGetCount()[1] or 0)
    except UserError:
        return 0
