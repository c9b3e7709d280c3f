# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU: results of programs, arrays of other libraries used in place, and results that are being copied to
the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.diagnostics import UserError
from ..support.signature import Parameter
from . import dlpack
from .buffers import DTYPES
from .gpu_device import DeviceBuffer, GpuDevice, Later

#: The alignment of addresses that kernels assume.
ALIGNMENT = 16


class DeviceArray:
    """An array on a GPU, which may still be being computed. NumPy, and libraries that read DLPack or
    `__cuda_array_interface__` (torch, CuPy, JAX, Numba), accept it directly; on the device, without a copy."""

    def __init__(self, buffer: DeviceBuffer):
        self.buffer = buffer

    #: Marks values that are not on the host (`support.arrays.shape_on_device`).
    __ngmlir_on_device__ = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.buffer.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self.buffer.dtype]

    @property
    def ndim(self) -> int:
        return len(self.buffer.shape)

    @property
    def nbytes(self) -> int:
        return self.buffer.bytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array of no axes")
        return self.shape[0]

    def __repr__(self) -> str:
        kind, number = self.__dlpack_device__()
        where = f"cuda:{number}" if kind == dlpack.CUDA else "cuda-sim"
        return f"<DeviceArray of shape {self.shape}, {self.dtype}, on {where}>"

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host; waits until the array is computed."""
        return self.buffer.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a GPU can only be copied to the host")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    @property
    def _ordinal(self) -> int | None:
        return getattr(self.buffer.device, "ordinal", None)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._ordinal is None or self.dtype.kind == "V":  # the protocol has no bfloat16
            raise AttributeError(f"{self!r} has no __cuda_array_interface__")
        device: Any = self.buffer.device
        device.share(self.buffer.address)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.buffer.address if self.nbytes else 0, False),
            "strides": None,
            "version": 3,
            "stream": int(device.stream),
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """(2, number): a GPU; (1, 0): the host, for the simulated GPU, of which a copy is exported."""
        return (dlpack.CPU, 0) if self._ordinal is None else (dlpack.CUDA, self._ordinal)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The elements without a copy, for work in `stream`; BufferError if that is impossible."""
        here = self.__dlpack_device__()
        wanted = here if dl_device is None else tuple(dl_device)
        if wanted == (dlpack.CPU, 0):
            if copy is False:
                raise BufferError("an array on a GPU can only be copied to the host")
            return self.numpy().__dlpack__(max_version=max_version)
        if wanted != here or copy:
            raise BufferError(f"{self!r} cannot be moved to device {wanted}, or as a copy")
        if stream != -1:  # -1: no synchronisation
            self.buffer.device.let_wait(1 if stream is None else stream)
        self.buffer.device.share(self.buffer.address)
        steps = [int(np.prod(self.shape[i + 1 :])) for i in range(self.ndim)]
        return dlpack.capsule(self.buffer.address, self.shape, steps, self.buffer.dtype, here, self.buffer)


@dataclass(frozen=True)
class Pending:
    """Results of a call that are being copied to the host."""

    later: Later
    kinds: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]

    def done(self) -> bool:
        """Whether `result` would return at once."""
        return self.later.done()

    def result(self) -> list[np.ndarray[Any, Any]]:
        """The arrays; waits for them. DeviceLost if a kernel failed."""
        arrays = self.later.arrays()
        return [a.view(dtype).reshape(shape) for a, (dtype, shape) in zip(arrays, self.kinds, strict=True)]


def on_device(
    device: GpuDevice, parameter: Parameter, value: Any, overwritten: bool = False
) -> DeviceBuffer | None:
    """The buffer of an array on this device; None for an array that must be copied to it.

    Work on the device is ordered after that of the array's library. UserError for an array of another type or shape, or
    with gaps between its elements: nothing is converted on the device.
    """
    if type(value) is np.ndarray:
        return None
    if isinstance(value, DeviceArray):
        if value.buffer.device is not device:
            return None
        _check(parameter, value.buffer.dtype, value.shape, None)
        return value.buffer
    ordinal = getattr(device, "ordinal", None)
    if ordinal is None:
        return None
    place = getattr(value, "__dlpack_device__", None)
    if place is not None and (where := place())[0] in dlpack.ON_CUDA:
        if where[1] != ordinal:
            raise _refusal(parameter, f"it lies on GPU {where[1]}, and the program runs on GPU {ordinal}")
        return _by_dlpack(device, parameter, value)
    interface = getattr(value, "__cuda_array_interface__", None)
    return None if interface is None else _by_interface(device, parameter, value, interface, overwritten)


def _by_dlpack(device: Any, parameter: Parameter, value: Any) -> DeviceBuffer:
    try:
        capsule = value.__dlpack__(stream=int(device.stream))
        tensor = dlpack.opened(capsule)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise _refusal(parameter, f"it cannot be read by DLPack: {error}") from error
    _check(parameter, tensor.dtype, tensor.shape, tensor.strides)
    return DeviceBuffer.borrowed(device, parameter.dtype, tensor.shape, tensor.address, (capsule, value))


def _by_interface(
    device: Any, parameter: Parameter, value: Any, interface: dict[str, Any], overwritten: bool
) -> DeviceBuffer:
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    address, read_only = interface["data"]
    name = next((n for n, d in DTYPES.items() if d == dtype), str(dtype))
    steps = None if strides is None else [s / dtype.itemsize for s in strides]
    _check(parameter, name, shape, steps)
    if overwritten and read_only:
        raise _refusal(parameter, "it is read-only, and the program changes it")
    if (place := device.ordinal_of(address)) != device.ordinal and address:
        raise _refusal(parameter, f"it lies on GPU {place}, and the program runs on GPU {device.ordinal}")
    stream = interface.get("stream")
    if stream is not None:
        device.wait_for(stream)
    return DeviceBuffer.borrowed(device, parameter.dtype, shape, address, value)


def _check(parameter: Parameter, dtype: str, shape: Sequence[int], strides: Sequence[float] | None) -> None:
    if tuple(shape) != parameter.shape or dtype != parameter.dtype:
        kind = DTYPES[dtype] if dtype in DTYPES else dtype
        raise _refusal(parameter, f"it is {kind} of shape {tuple(shape)}, on the device")
    if strides is None:
        return
    step = 1
    for size, given in reversed([*zip(shape, strides, strict=True)]):
        if size > 1 and given != step and 0 not in shape:
            raise _refusal(parameter, "it is not contiguous: use x.contiguous()")
        step *= size


def _refusal(parameter: Parameter, problem: str) -> UserError:
    wanted = f"{DTYPES[parameter.dtype]} of shape {parameter.shape}"
    return UserError(
        f"argument '{parameter.name}' must be {wanted}, but {problem}",
        parameter.location,
        hint="arrays on a GPU are used in place and not converted",
    )
