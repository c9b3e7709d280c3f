# SPDX-License-Identifier: Apache-2.0
"""DLPack: sharing memory of a device with another library without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

CPU, CUDA = 1, 2
#: DLPack devices whose memory CUDA kernels can access: a GPU, and managed memory.
ON_CUDA = (2, 13)

#: Element types by their MLIR spelling -> DLPack's type code; bits are those of the elements.
_CODES = {
    "i1": 6, "i8": 0, "i16": 0, "i32": 0, "i64": 0, "ui8": 1, "ui16": 1, "ui32": 1, "ui64": 1,
    "f16": 2, "f32": 2, "f64": 2, "bf16": 4,
}  # fmt: skip


class _DeviceStruct(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _ElementStruct(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _TensorStruct(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DeviceStruct),
        ("rank", ctypes.c_int32),
        ("dtype", _ElementStruct),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class _ManagedStruct(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ManagedStruct))
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ManagedStruct._fields_ = [("tensor", _TensorStruct), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

#: Objects that exported tensors need, by the address of their record, until their deleter is called.
_held: dict[int, tuple[Any, ...]] = {}


@_Deleter
def _delete(record: Any) -> None:
    _held.pop(ctypes.addressof(record.contents), None)


@_Destructor
def _destroy(capsule: int) -> None:
    """For a capsule that was not consumed; a consumed one is renamed, and its consumer calls the deleter."""
    valid, pointer = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    valid.argtypes, valid.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int
    pointer.argtypes, pointer.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    if valid(capsule, b"dltensor"):
        _held.pop(pointer(capsule, b"dltensor"), None)


def capsule(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    device: tuple[int, int],
    owner: object,
) -> object:
    """A tensor for `from_dlpack`: `strides` in elements, `dtype` in MLIR's spelling; `owner` is kept alive while it is
    in use."""
    numbers = ctypes.c_int64 * len(shape)
    sizes, steps = numbers(*shape), numbers(*strides)
    tensor = _TensorStruct(
        address,
        _DeviceStruct(*device),
        len(shape),
        _ElementStruct(_CODES[dtype], _bits(dtype), 1),
        ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    record = _ManagedStruct(tensor, None, _delete)
    make: Callable[..., object] = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, _Destructor]  # pyright: ignore
    _held[ctypes.addressof(record)] = (record, sizes, steps, owner)
    return make(ctypes.addressof(record), b"dltensor", _destroy)


@dataclass(frozen=True)
class Tensor:
    """The tensor in a capsule: `strides` in elements (None: C order), `dtype` in MLIR's spelling if there is one."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str


def opened(capsule: object) -> Tensor:
    """The tensor of another library's capsule. The capsule is not consumed: callers keep it as long as they use the
    memory.

    Raises ValueError for a capsule of another kind, or one that was consumed before.
    """
    pointer: Callable[..., int] = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p  # pyright: ignore
    tensor = _ManagedStruct.from_address(pointer(capsule, b"dltensor")).tensor
    element, rank = tensor.dtype, tensor.rank
    names = [n for n, code in _CODES.items() if code == element.code and _bits(n) == element.bits]
    dtype = names[0] if names and element.lanes == 1 else f"type {element.code} of {element.bits} bits"
    return Tensor(
        (tensor.data or 0) + tensor.offset,
        tuple(tensor.shape[:rank]),
        tuple(tensor.strides[:rank]) if tensor.strides else None,
        dtype,
    )


def _bits(dtype: str) -> int:
    return 8 if dtype == "i1" else int(dtype.lstrip("uibf"))
