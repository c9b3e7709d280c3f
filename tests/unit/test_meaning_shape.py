# SPDX-License-Identifier: Apache-2.0
"""The meaning of ops that move elements, position by position."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from meaning_helpers import BF16, BOOL, FLOATS, INTEGERS, NUMERIC, same, sample, tensor, value

from ngmlir.ir.attributes import FloatAttr, IntegerAttr, numeric_literal
from ngmlir.ir.elements import ElementsAttr, elements
from ngmlir.ir.literals import type_of_dtype
from ngmlir.ir.types import f32, i8, index
from ngmlir.ops import ng
from ngmlir.ops.builder import build_op
from ngmlir.ops.interpreter import evaluate
from ngmlir.support.diagnostics import UserError

EVERY = (BOOL, *NUMERIC)
ODD_SHAPES = ((), (0,), (1,), (7,), (5, 3), (3, 0, 2), (2, 3, 5))


def built(shape: tuple[int, ...], dtype: Any, element: Any) -> np.ndarray:
    """An array from a function of its positions."""
    found = np.empty(shape, dtype)
    for at in product(*map(range, shape)):
        found[at] = element(*at)
    return found


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_constants(dtype: np.dtype) -> None:
    for shape in ODD_SHAPES:
        array = sample(dtype, shape)
        literal = elements(array)
        (found,) = evaluate(build_op(ng.ConstantOp, [], {"value": literal}, types=[literal.type]), [])
        assert same(found, array)
    scalar = sample(dtype, ())
    literal = numeric_literal(scalar.item() if dtype != BF16 else float(scalar), type_of_dtype(dtype))
    (found,) = evaluate(build_op(ng.ConstantOp, [], {"value": literal}, types=[literal.type]), [])
    assert same(found, scalar)


def test_constants_keep_their_bits() -> None:
    for literal in (
        FloatAttr(0x80000000, f32),
        FloatAttr(0x7FC12345, f32),
        IntegerAttr(-128, i8),
        IntegerAttr(-1, index),
    ):
        (found,) = evaluate(build_op(ng.ConstantOp, [], {"value": literal}, types=[literal.type]), [])
        bits = literal.bits if isinstance(literal, FloatAttr) else literal.value
        assert int(found.view(f"u{found.itemsize}")) == bits % (1 << 8 * found.itemsize)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_iota(dtype: np.dtype) -> None:
    for shape in ODD_SHAPES[1:]:
        for d in range(len(shape)):
            found = value(ng.IotaOp, type=tensor(shape, dtype), dimension=d)
            assert same(found, built(shape, dtype, lambda *at, d=d: at[d]))
    assert same(value(ng.IotaOp, type=tensor((), dtype), dimension=0), np.zeros((), dtype))
    if dtype.itemsize == 1:
        long = value(ng.IotaOp, type=tensor((300,), dtype), dimension=0)
        assert same(long, np.arange(300).astype(dtype))


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_moving(dtype: np.dtype) -> None:
    x = sample(dtype, (2, 3, 5))
    assert same(
        value(ng.TransposeOp, x, permutation=[2, 0, 1]), built((5, 2, 3), dtype, lambda a, b, c: x[b, c, a])
    )
    wide = value(ng.BroadcastOp, x, type=tensor((2, 4, 3, 5), dtype), dimensions=[0, 2, 3])
    assert same(wide, built((2, 4, 3, 5), dtype, lambda a, b, c, d: x[a, c, d]))
    assert same(
        value(ng.ReshapeOp, x, type=tensor((6, 5), dtype)),
        built((6, 5), dtype, lambda a, b: x[a // 3, a % 3, b]),
    )
    assert same(value(ng.CastAxesOp, x, type=tensor(x.shape, dtype)), x)
    part = value(ng.SliceOp, x, starts=[0, 2, 4], limits=[2, -1, 0], steps=[1, -1, -2])
    assert same(part, built((2, 3, 2), dtype, lambda a, b, c: x[a, 2 - b, 4 - 2 * c]))
    padded = value(ng.PadOp, x, low=[1, 0, 2], high=[0, 1, 0])
    inside = lambda a, b, c: x[a - 1, b, c - 2] if a >= 1 and b < 3 and c >= 2 else 0  # noqa: E731
    assert same(padded, built((3, 4, 7), dtype, inside))
    y = sample(dtype, (2, 2, 5), 1)
    joined = value(ng.ConcatenateOp, x, y, x, axis=1)
    assert same(
        joined,
        built(
            (2, 8, 5),
            dtype,
            lambda a, b, c: x[a, b, c] if b < 3 else y[a, b - 3, c] if b < 5 else x[a, b - 5, c],
        ),
    )
    stacked = value(ng.StackOp, x, x[::-1], type=tensor((2, 3, 2, 5), dtype), axis=2)
    assert same(stacked, built((2, 3, 2, 5), dtype, lambda a, b, i, c: (x[1 - a] if i else x[a])[b, c]))


WINDOWS = [
    ((0,), (3,), (1,), (1,)),
    ((2, 0), (2, 3), (2, 1), (3, 2)),
    ((1,), (1,), (5,), (4,)),
    ((0, 1, 2), (7, 2, 3), (1, 1, 2), (1, 2, 1)),
]


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize(("axes", "sizes", "steps", "dilations"), WINDOWS)
def test_windows_and_their_sum(
    dtype: np.dtype,
    axes: tuple[int, ...],
    sizes: tuple[int, ...],
    steps: tuple[int, ...],
    dilations: tuple[int, ...],
) -> None:
    x = sample(dtype, (7, 4, 6))
    counts = list(x.shape)
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        counts[axis] = (counts[axis] - (size - 1) * dilation - 1) // step + 1

    def whole(place: tuple[int, ...]) -> tuple[int, ...]:
        found = list(place[len(axes) :])
        for tap, axis, step, dilation in zip(place, axes, steps, dilations, strict=False):
            found[axis] = found[axis] * step + tap * dilation
        return tuple(found)

    attributes: dict[str, Any] = {"axes": axes, "steps": steps, "dilations": dilations}
    shape = (*sizes, *counts)
    assert same(
        value(ng.WindowsOp, x, type=tensor(shape, dtype), **attributes),
        built(shape, dtype, lambda *place: x[whole(place)]),
    )
    if dtype == np.bool_:
        return
    y = sample(dtype, shape, 1)
    wide = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    total = np.zeros(x.shape, wide)
    with np.errstate(over="ignore"):
        for place in np.ndindex(*shape):
            total[whole(place)] += y[place].astype(wide)
    assert same(value(ng.OverlapAddOp, y, type=tensor(x.shape, dtype), **attributes), total.astype(dtype))


def test_moving_nothing_and_points() -> None:
    point, nothing = np.array(3.5, np.float32), np.zeros((0, 3), np.float32)
    assert same(
        value(ng.BroadcastOp, point, type=tensor((2, 1), "f4"), dimensions=[]), np.full((2, 1), 3.5, "f4")
    )
    assert same(value(ng.ReshapeOp, point, type=tensor((1, 1), "f4")), np.full((1, 1), 3.5, "f4"))
    assert same(value(ng.TransposeOp, point, permutation=[]), point)
    assert same(value(ng.SliceOp, point, starts=[], limits=[], steps=[]), point)
    assert same(
        value(ng.PadOp, nothing, low=[1, 0], high=[1, 0], value=numeric_literal(2.5, f32)),
        np.full((2, 3), 2.5, "f4"),
    )
    assert same(value(ng.ConcatenateOp, nothing, nothing, axis=0), nothing)
    assert same(value(ng.ReshapeOp, nothing, type=tensor((5, 0), "f4")), np.zeros((5, 0), "f4"))
    for start, limit, step in ((2, 1, 1), (1, 2, -1), (0, -3, 1), (4, 4, -1)):
        found = value(ng.SliceOp, np.arange(5), starts=[start], limits=[limit], steps=[step])
        assert found.shape == (0,)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("integer", INTEGERS, ids=str)
def test_by_index(dtype: np.dtype, integer: np.dtype) -> None:
    x = sample(dtype, (5, 7, 3))
    where = np.array([[0, 6], [3, 100], [6, 2]]).astype(integer)
    if integer.kind == "i":
        where = np.concatenate([where, np.array([[-1, -7], [-8, -100]], integer)])

    def place(i: Any, size: int = 7) -> int:
        i = int(i) + (size if i < 0 else 0)
        return min(max(i, 0), size - 1)

    wanted = built((5, len(where), 2, 3), dtype, lambda a, p, q, c: x[a, place(where[p, q]), c])
    assert same(value(ng.GatherOp, x, where, axis=1), wanted)
    assert same(
        value(ng.LookupOp, x, where),
        built((len(where), 2, 7, 3), dtype, lambda p, q, b, c: x[place(where[p, q], 5), b, c]),
    )
    chosen = sample(integer, (5, 4, 3), 9)
    each = value(ng.GatherElementsOp, x, chosen, axis=1)
    assert same(each, built((5, 4, 3), dtype, lambda a, b, c: x[a, place(chosen[a, b, c]), c]))
    found = value(ng.OneHotOp, where, type=tensor((len(where), 7, 2), dtype), axis=1)
    assert same(found, built((len(where), 7, 2), dtype, lambda p, k, q: int(where[p, q]) == k))


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
@pytest.mark.parametrize("combine", ["set", "add", "max", "min"])
def test_scatter(dtype: np.dtype, combine: str) -> None:
    x = sample(dtype, (2, 5, 3))
    where = np.array([[4, 0, 9], [-1, 0, -6]])  # -1 is 4 again; 9 and -6 are outside
    updates = sample(dtype, (2, 2, 3, 3), 1)
    ops = {"add": ng.AddOp, "max": ng.MaximumOp, "min": ng.MinimumOp}
    wanted = x.copy()
    for p in range(2):
        for q in range(3):
            i = int(where[p, q]) + (5 if where[p, q] < 0 else 0)
            if 0 <= i < 5:
                new = np.ascontiguousarray(updates[:, p, q, :])
                old = np.ascontiguousarray(wanted[:, i, :])
                wanted[:, i, :] = new if combine == "set" else value(ops[combine], old, new)
    assert same(value(ng.ScatterOp, x, where, updates, axis=1, combine=combine), wanted)


def test_scatter_of_bools_and_of_nothing() -> None:
    x = np.array([True, False, False])
    assert same(
        value(ng.ScatterOp, x, np.array([1]), np.array([True]), axis=0), np.array([True, True, False])
    )
    none = np.zeros((0,), np.int32)
    y = np.arange(3.0)
    assert same(value(ng.ScatterOp, y, none, np.zeros((0,)), axis=0), y)
    assert value(ng.GatherOp, np.zeros((0, 2)), none, axis=0).shape == (0, 2)


def test_there_is_no_element_of_nothing() -> None:
    with pytest.raises(UserError, match="has no elements to take"):
        value(ng.GatherOp, np.zeros((0, 2)), np.array([0]), axis=0)
    with pytest.raises(UserError, match="has no elements to take"):
        value(ng.GatherElementsOp, np.zeros((0, 2)), np.zeros((1, 2), np.int32), axis=0)


def test_floats_are_what_they_were() -> None:
    """Moving keeps NaN payloads and the sign of zero."""
    for dtype in FLOATS:
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype) if dtype.itemsize == 2 else sample(dtype, (64,))
        assert value(ng.ReshapeOp, x, type=tensor((len(x) // 64, 64), dtype)).tobytes() == x.tobytes()
        assert isinstance(elements(x), ElementsAttr)
        assert elements(x).array().tobytes() == x.tobytes()
