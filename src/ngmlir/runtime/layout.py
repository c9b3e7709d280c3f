# SPDX-License-Identifier: Apache-2.0
"""The offsets of the fields of an ndarray in this Python and NumPy, verified on arrays before they are used."""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import NamedTuple

import numpy as np

_C_CONTIGUOUS, _ALIGNED = 0x1, 0x100  # in PyArrayObject.flags
#: Index of PyArray_Empty in NumPy's table of C functions, which is append-only.
_EMPTY = 184


class Layout(NamedTuple):
    """Byte offsets into objects, the flags that an array must have, and the address of `PyArray_Empty`."""

    type: int
    data: int
    rank: int
    shape: int
    descriptor: int
    element: int  # of a dtype: a word with its kind, byte order and number, which is equal in copies of it
    flags: int
    items: int  # of a tuple
    wanted_flags: int
    empty: int


@cache
def layout() -> Layout | None:
    """The layout, or None if anything differs from what is expected."""
    ordinary = sys.implementation.name == "cpython" and struct.calcsize("P") == 8
    if not ordinary or _has_no_gil():
        return None
    empty = _address_of_empty()
    if empty is None:
        return None
    head = object.__basicsize__
    found = Layout(
        type=head - 8,
        data=head,
        rank=head + 8,
        shape=head + 16,
        descriptor=head + 40,
        element=head + 8,
        flags=head + 48,
        items=tuple.__basicsize__,
        wanted_flags=_C_CONTIGUOUS | _ALIGNED,
        empty=empty,
    )
    return found if _holds(found) else None


def _has_no_gil() -> bool:
    """Whether this Python was built without the GIL: its object headers are different."""
    if sys.version_info < (3, 13):
        return False
    import sysconfig  # imported late: reads a large table

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _address_of_empty() -> int | None:
    try:
        from numpy._core.multiarray import _ARRAY_API
    except ImportError:
        return None
    pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer_in(_ARRAY_API, None)
    return ctypes.c_void_p.from_address(table + 8 * _EMPTY).value


def _holds(known: Layout) -> bool:
    """Whether the fields at these offsets agree with NumPy's attributes, for arrays of all kinds."""
    base = np.arange(48, dtype=np.int16)
    misaligned = np.arange(25, dtype=np.uint8)[1:].view(np.float64)
    samples = [
        base,
        base.reshape(2, 4, 6),
        base.reshape(6, 8).T,
        base[::2],
        misaligned,
        np.array(3, np.float32),
        np.empty((3, 0), np.complex128),
    ]
    pair = (samples, base)
    return (
        all(_agrees(known, array) for array in samples)
        and _pointer(id(pair) + known.items + 8) == id(base)
        and _tells_elements(known.element)
        and _makes_arrays(known.empty)
    )


def _agrees(known: Layout, array: np.ndarray) -> bool:
    where = id(array)
    rank = ctypes.c_int32.from_address(where + known.rank).value
    if rank != array.ndim:
        return False
    shape = (ctypes.c_int64 * rank).from_address(_pointer(where + known.shape)) if rank else ()
    flags = ctypes.c_int32.from_address(where + known.flags).value
    usable = array.flags.c_contiguous and array.flags.aligned
    return (
        _pointer(where + known.type) == id(type(array))
        and _pointer(where + known.data) == array.ctypes.data
        and _pointer(where + known.descriptor) == id(array.dtype)
        and tuple(shape) == array.shape
        and (flags & known.wanted_flags == known.wanted_flags) == usable
    )


def _tells_elements(offset: int) -> bool:
    """Whether the words of dtypes at this offset are equal if these are equal, and different otherwise."""
    kinds = [np.dtype(kind) for kind in "?bBhHiIlLefdFD"]
    kinds += [kind.newbyteorder() for kind in kinds if kind.itemsize > 1]
    words = [_pointer(id(kind) + offset) for kind in kinds]
    copies = [np.dtype(kind, copy=True) for kind in kinds]
    same = all(word == _pointer(id(copy) + offset) for word, copy in zip(words, copies, strict=True))
    return same and len({*words}) == len(kinds)


def _makes_arrays(empty: int) -> bool:
    kind = np.dtype(np.float32)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
        empty
    )
    # The function steals a reference to the dtype.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kind))
    array = make(2, (ctypes.c_int64 * 2)(3, 5), kind, 0)
    return type(array) is np.ndarray and array.shape == (3, 5) and array.dtype is kind


def _pointer(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0
