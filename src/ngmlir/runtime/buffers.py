# SPDX-License-Identifier: Apache-2.0
"""Arrays for programs: element types as NumPy knows them, in aligned memory."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np

from ..support.artifact import Constant
from ..support.mapping import let_go
from ..support.memory import empty_bytes
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


def aligned_empty(shape: tuple[int, ...], dtype: str | np.dtype) -> np.ndarray:
    """An uninitialised array, aligned as `empty_bytes`; `dtype` in MLIR spelling or NumPy's."""
    kind = DTYPES[dtype] if isinstance(dtype, str) else dtype
    return empty_bytes(prod(shape) * kind.itemsize).view(kind).reshape(shape)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """The array's values in memory of their own, aligned as `empty_bytes`."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def in_memory(constant: Constant) -> np.ndarray:
    """The bytes of a constant, aligned: where they lie, if they lie so, else as a copy."""
    data = np.frombuffer(constant.data, np.uint8)
    if constant.count == 1 and data.ctypes.data % constant.alignment == 0:
        return data
    filled = empty_bytes(constant.bytes)
    if len(data):
        filled.reshape(constant.count, len(data))[:] = data
        let_go(memoryview(constant.data))
    return filled


def empty_like(parameter: Parameter) -> np.ndarray:
    """An uninitialised array for a parameter, from NumPy's own allocator, for the caller to keep."""
    return np.empty(parameter.shape, DTYPES[parameter.dtype])
