# SPDX-License-Identifier: Apache-2.0
"""Arrays for programs: element types as NumPy knows them, and memory that is aligned and in huge pages."""

from __future__ import annotations

import mmap
from math import prod

import ml_dtypes
import numpy as np

from ..support.signature import Parameter

#: Element types by their MLIR spelling -> as NumPy stores them.
DTYPES: dict[str, np.dtype] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8), "ui16": np.dtype(np.uint16), "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip

ALIGNMENT = 64  # a cache line, and the widest vector register
HUGE_PAGE = 2 * 1024 * 1024


def empty_bytes(count: int) -> np.ndarray:
    """`count` bytes at an address that is a multiple of 64; in huge pages where that pays and is possible."""
    if count >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # Only whole huge pages are ever backed by one, so the first must begin at a multiple of its size.
        memory = mmap.mmap(-1, count + HUGE_PAGE)
        memory.madvise(mmap.MADV_HUGEPAGE)
        raw, alignment = np.frombuffer(memory, np.uint8), HUGE_PAGE
    else:
        raw, alignment = np.empty(count + ALIGNMENT, np.uint8), ALIGNMENT
    start = -raw.ctypes.data % alignment
    return raw[start : start + count]


def aligned_empty(shape: tuple[int, ...], dtype: str | np.dtype) -> np.ndarray:
    """An uninitialised array, aligned as `empty_bytes`; `dtype` in MLIR spelling or NumPy's."""
    kind = DTYPES[dtype] if isinstance(dtype, str) else dtype
    return empty_bytes(prod(shape) * kind.itemsize).view(kind).reshape(shape)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """The array's values in memory of their own, aligned as `empty_bytes`."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def empty_like(parameter: Parameter) -> np.ndarray:
    """An uninitialised array for a parameter, from NumPy's own allocator, for the caller to keep."""
    return np.empty(parameter.shape, DTYPES[parameter.dtype])
