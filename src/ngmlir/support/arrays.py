# SPDX-License-Identifier: Apache-2.0
"""What every call asks of the arrays that it is given: nothing in them is lost on the way without a word.

Elements convert as in a NumPy assignment: floats round (to infinity where they are too big). But an integer type takes
only what it can hold, whole numbers of its range, whether an array, a list or a number holds them.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np

#: Smaller arrays fit into a cache, where the order of a copy matters little.
_SMALL = 256 * 1024
#: A block of a copy against the order of memory: one cache line of the target by so many of the source.
_LINE, _RUN = 64, 512

#: What to do about a masked array.
UNMASK = "use x.filled(0) or x.compressed()"


def is_masked(value: object) -> bool:
    """Whether a value is a masked array, whose mask no program would see."""
    if type(value) is np.ndarray:
        return False
    masked = sys.modules.get("numpy.ma")  # without it there is no such array
    return masked is not None and isinstance(value, masked.MaskedArray)


def shape_on_device(value: object) -> tuple[int, ...] | None:
    """The shape of an array in GPU memory, of any library; None for everything else."""
    if type(value) is np.ndarray or isinstance(value, (int, float, list, tuple, np.generic)):
        return None
    there = getattr(type(value), "__ngmlir_on_device__", False)
    if not there:
        place: Any = getattr(value, "__dlpack_device__", None)
        try:
            there = place is not None and place()[0] in (
                2,
                13,
            )  # a GPU, or memory that it shares with the host
        except (BufferError, RuntimeError, TypeError):
            return None
        there = there or hasattr(value, "__cuda_array_interface__")
    shape: Any = getattr(value, "shape", None)
    return tuple(shape) if there and shape is not None else None


def misfit(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> tuple[tuple[int, ...], Any] | None:
    """Position and value of the first element that the integer type `dtype` cannot hold; None where there is none, and
    for every other type. The elements are not read where the types tell that all fit."""
    kind = array.dtype.kind
    if dtype.kind not in "iu" or not array.size or (kind != "O" and np.can_cast(array.dtype, dtype)):
        return None
    info = np.iinfo(dtype)
    if kind in "iu":
        if info.min <= int(array.min()) and int(array.max()) <= info.max:
            return None
        wrong = (array < info.min) | (array > info.max)
    elif kind == "O":
        fits = [abs(n) < np.inf and info.min <= int(n) == n <= info.max for n in array.flat]
        wrong = ~np.reshape(np.array(fits, np.bool_), array.shape)
    else:
        wide = kind == "f" and array.itemsize >= 4  # f16 has no number as great as some integers
        given = array if wide else array.astype(np.float64)
        # The greatest 64-bit integers are no floats; the power of two above them is one. NaN is in no range.
        inside = (given >= float(info.min)) & (given < float(info.max + 1)) & (np.trunc(given) == given)
        if inside.all():
            return None
        wrong = ~inside
    found = np.flatnonzero(wrong)
    if not len(found):
        return None
    place = tuple(map(int, np.argwhere(wrong)[0].tolist()))
    return place, array[place]


def misfit_hint(value: Any, dtype: np.dtype[Any], name: str) -> str:
    """What to do about a misfit; `name` is the type's."""
    info = np.iinfo(dtype)
    if info.min <= value <= info.max:
        return f"{name} holds integers: round first, or use a float type"
    return f"{name} holds {info.min} to {info.max}"


def misfit_text(place: tuple[int, ...], value: Any) -> str:
    """`1099511627776 at [0, 3]`, for messages."""
    shown = str(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return f"{shown} at [{', '.join(map(str, place))}]" if place else shown


def copy_into(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """`target[...] = source`, in blocks where the two have different memory orders (Fortran's and C's, a transpose).

    Where there is code for it, `runtime.copies` does the same several times faster.
    """
    if target.nbytes >= _SMALL and source.shape == target.shape and not np.may_share_memory(target, source):
        strides = [
            abs(s) if n > 1 and s else sys.maxsize for s, n in zip(source.strides, source.shape, strict=True)
        ]
        nearest, last = min(range(source.ndim), key=strides.__getitem__), target.ndim - 1
        if nearest != last and _LINE < strides[last] < sys.maxsize:
            sizes = [max(n, 1) for n in target.shape]
            sizes[nearest], sizes[last] = _RUN, max(_LINE // target.itemsize, 1)
            for start in product(*(range(0, n, size) for n, size in zip(target.shape, sizes, strict=True))):
                block = tuple([slice(s, s + size) for s, size in zip(start, sizes, strict=True)])
                np.copyto(target[block], source[block], casting="unsafe")
            return
    np.copyto(target, source, casting="unsafe")
