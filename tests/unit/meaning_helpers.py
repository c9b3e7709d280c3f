# SPDX-License-Identifier: Apache-2.0
"""What the tests of meanings share: one op on arrays, samples of every type, distances in last places."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ngmlir.ir.core import Op, Value
from ngmlir.ir.literals import type_of_dtype
from ngmlir.ir.types import TensorType
from ngmlir.ops.builder import build_op
from ngmlir.ops.interpreter import evaluate
from ngmlir.testing import special_numbers

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64))
SIGNED = tuple(np.dtype(f"i{n}") for n in (1, 2, 4, 8))
UNSIGNED = tuple(np.dtype(f"u{n}") for n in (1, 2, 4, 8))
INTEGERS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTEGERS
BOOL = np.dtype(bool)
SHAPES = ((), (0,), (1,), (7,), (5, 3), (2, 0, 3), (1, 1, 1), (11, 2, 3))


def made(op: type[Op], *arrays: np.ndarray, type: TensorType | None = None, **attributes: Any) -> Op:
    """The op on tensors like the arrays."""
    operands = [Value(TensorType(a.shape, type_of_dtype(a.dtype))) for a in arrays]
    return build_op(op, operands, attributes, types=[type] if type is not None else None)


def value(op: type[Op], *arrays: np.ndarray, type: TensorType | None = None, **attributes: Any) -> np.ndarray:
    """What the op gives for these arrays."""
    (result,) = evaluate(made(op, *arrays, type=type, **attributes), [*arrays])
    return result


def tensor(shape: tuple[int, ...], dtype: Any) -> TensorType:
    return TensorType(shape, type_of_dtype(dtype))


def is_float(dtype: np.dtype) -> bool:
    return dtype in FLOATS


def special(dtype: np.dtype) -> np.ndarray:
    """The numbers at which things go wrong."""
    return special_numbers(type_of_dtype(dtype))


def sample(dtype: np.dtype, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random numbers of a type: floats of many magnitudes, integers of the whole range."""
    rng = np.random.default_rng(seed)
    if dtype == BOOL:
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if is_float(dtype):
        return np.asarray(rng.normal(size=shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(dtype)
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))


def ordered(array: np.ndarray) -> np.ndarray:
    """Floats as integers in the same order, one apart where they are neighbours."""
    bits = array.view(f"i{array.itemsize}").astype(object)
    return np.where(bits < 0, -(bits & ((1 << (8 * array.itemsize - 1)) - 1)), bits)


def ulps(found: np.ndarray, wanted: np.ndarray) -> int:
    """The greatest distance in units of the last place; NaN fits NaN alone."""
    nan = np.isnan(found.astype(np.float64))
    assert (nan == np.isnan(wanted.astype(np.float64))).all()
    if nan.all():
        return 0
    return int(np.max(np.abs(ordered(found[~nan]) - ordered(wanted[~nan]))))


def same(found: np.ndarray, wanted: Any) -> bool:
    """The same type, shape and bits; any NaN is as good as another."""
    wanted = np.asarray(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if not is_float(found.dtype):
        return bool((found == wanted).all())
    nan = np.isnan(wanted.astype(np.float64))
    bits = f"u{found.itemsize}"
    alike = np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(wanted).view(bits)
    return bool((alike | (nan & np.isnan(found.astype(np.float64)))).all())
