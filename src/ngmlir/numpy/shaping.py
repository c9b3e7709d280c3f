# SPDX-License-Identifier: Apache-2.0
"""Functions that move, repeat and surround elements."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from ..ir.types import i32
from ..op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.borders import MODES, has_room, positions
from ..support.lengths import as_index, is_open, quotient
from . import arrays, reductions
from .arrays import (
    Axis,
    Shape,
    aligned,
    as_array,
    common_shape,
    cut,
    element,
    expand,
    join,
    known,
    lengths,
    permute,
    place,
    places,
    surround,
    with_axis,
)
from .composed import clip
from .creation import arange
from .indexing import getitem, written


def _shape(x: Tensor) -> tuple[int, ...]:
    return arrays.shape(x)


def shape(a: Any) -> tuple[int, ...]:
    """The lengths of the axes."""
    return _shape(as_array(a))


def ndim(a: Any) -> int:
    """How many axes there are."""
    return len(shape(a))


def size(a: Any, axis: int | None = None) -> int:
    """How many elements there are, or positions along an axis."""
    have = shape(a)
    return math.prod(have) if axis is None else have[place(axis, len(have))]


def astype(x: Any, dtype: Any, *, copy: bool = True) -> Tensor:
    """The array with other elements, as NumPy casts: floats to integers towards zero. Values never change, so nothing is copied."""
    return arrays.as_type(as_array(x), element(dtype))


def reshape(a: Any, shape: Shape, order: str = "C") -> Tensor:
    """The same elements in row-major order (column-major with `order="F"`), in another shape; one length may be -1, and follows."""
    x = as_array(a)
    if order not in ("C", "A", "F"):
        fail(UserError, f"order is 'C' or 'F', not {order!r}")
    if order == "F":
        turned = [shape] if isinstance(shape, int) else [*cast("Iterable[int]", shape)][::-1]
        return transpose(reshape(transpose(x), turned))
    given = [shape] if isinstance(shape, int) else [as_index(n) for n in cast("Iterable[int]", shape)]
    total = math.prod(_shape(x))
    if given.count(-1) == 1:
        others = math.prod(n for n in given if n != -1)
        if others and (left := quotient(total, others)) is not None:
            given[given.index(-1)] = left
    if -1 in given or math.prod(given) != total:
        fail(AxisLengthError, f"cannot reshape array of size {total} into shape {tuple(given)}")
    return arrays.reshape(x, given)


def ravel(a: Any, order: str = "C") -> Tensor:
    """All elements, row by row (with `order="F"` column by column), along one axis."""
    return reshape(a, -1 if math.prod(shape(a)) else 0, "C" if order == "K" else order)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Axes in another order (reversed by itself)."""
    x = as_array(a)
    rank = len(_shape(x))
    if axes is None:
        return permute(x, range(rank)[::-1])
    order = places(tuple(axes), rank)
    if len(order) != rank:
        fail(UserError, f"axes don't match array: {tuple(axes)} for {rank} axes")
    return permute(x, order)


permute_dims = transpose


def matrix_transpose(x: Any) -> Tensor:
    """The last two axes swapped."""
    return swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes in each other's place."""
    x = as_array(a)
    order = [*range(len(_shape(x)))]
    i, j = place(axis1, len(order)), place(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return permute(x, order)


def moveaxis(a: Any, source: Axis, destination: Axis) -> Tensor:
    """Axes moved to other places; the rest keep their order."""
    x = as_array(a)
    rank = len(_shape(x))
    old, new = places(source, rank), places(destination, rank)
    if len(old) != len(new):
        fail(UserError, "`source` and `destination` arguments must have the same number of elements")
    order = [d for d in range(rank) if d not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return permute(x, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """An axis moved before another one."""
    x = as_array(a)
    rank = len(_shape(x))
    axis = place(axis, rank)
    start = start + rank if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def squeeze(a: Any, axis: Axis = None) -> Tensor:
    """Without axes of length 1 (all of them by itself)."""
    x = as_array(a)
    have = _shape(x)
    gone = [d for d, n in enumerate(have) if n == 1] if axis is None else places(axis, len(have))
    if builtins.any(have[d] != 1 for d in gone):
        fail(AxisLengthError, f"cannot select an axis to squeeze out which has size not equal to one: {have}")
    return arrays.reshape(x, [n for d, n in enumerate(have) if d not in gone])


def expand_dims(a: Any, axis: int | Sequence[int]) -> Tensor:
    """The array with new axes of length 1 at these positions of the result."""
    x = as_array(a)
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    new = places(given, len(_shape(x)) + len(given))
    rest = iter(_shape(x))
    return arrays.reshape(x, [1 if d in new else next(rest) for d in range(len(_shape(x)) + len(given))])


def broadcast_to(array: Any, shape: Shape) -> Tensor:
    """Repeated to a shape."""
    return expand(as_array(array), lengths(shape))


def broadcast_arrays(*args: Any) -> tuple[Tensor, ...]:
    """All repeated to their common shape."""
    return tuple(aligned(*map(as_array, args)))


def broadcast_shapes(*args: Shape) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""
    return common_shape(*map(lengths, args))


def _at_least(rank: int, *xs: Any) -> Any:
    made: list[Tensor] = []
    for x in map(as_array, xs):
        have = _shape(x)
        if rank == 3 and len(have) in (1, 2):
            wanted = (1, *have, 1) if len(have) == 1 else (*have, 1)
        else:
            wanted = (1,) * (rank - len(have)) + have
        made.append(arrays.reshape(x, wanted))
    return made[0] if len(made) == 1 else tuple(made)


def atleast_1d(*arys: Any) -> Any:
    """Each with one axis or more."""
    return _at_least(1, *arys)


def atleast_2d(*arys: Any) -> Any:
    """Each with two axes or more; new ones first."""
    return _at_least(2, *arys)


def atleast_3d(*arys: Any) -> Any:
    """Each with three axes or more."""
    return _at_least(3, *arys)


# ---- repeating and turning


def repeat(a: Any, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Each element several times; how often must be known now."""
    x, axis = with_axis(a, axis)
    counts = np.asarray(repeats)
    n = _shape(x)[axis]
    if counts.size == 1:
        times = int(counts.reshape(-1)[0])
        have = _shape(x)
        wide = expand(
            arrays.reshape(x, (*have[: axis + 1], 1, *have[axis + 1 :])),
            (*have[: axis + 1], times, *have[axis + 1 :]),
        )
        return arrays.reshape(wide, (*have[:axis], n * times, *have[axis + 1 :]))
    if counts.shape != (n,):
        fail(IncompatibleAxesError, f"{counts.shape} counts for {n} elements along axis {axis}")
    return VERBS.gather(x, known(np.repeat(np.arange(n), counts), i32), axis=axis)


def tile(A: Any, reps: int | Sequence[int]) -> Tensor:
    """The whole several times along each axis."""
    x = as_array(A)
    times = lengths(reps)
    rank = builtins.max(len(times), len(_shape(x)))
    times = (1,) * (rank - len(times)) + times
    have = (1,) * (rank - len(_shape(x))) + _shape(x)
    x = arrays.reshape(x, [n for length in have for n in (1, length)])
    x = expand(x, [n for pair in zip(times, have, strict=True) for n in pair])
    return arrays.reshape(x, [t * n for t, n in zip(times, have, strict=True)])


def roll(a: Any, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
    """Moved along axes; what leaves at one end comes in at the other."""
    x = as_array(a)
    if axis is None:
        return arrays.reshape(roll(ravel(x), int(np.sum(shift)), 0), _shape(x))
    for one, by in np.broadcast(axis, shift):
        at = place(one, len(_shape(x)))
        n = _shape(x)[at]
        start = int(-by) % n if n else 0
        if start:
            x = join([cut(x, at, start, n), cut(x, at, 0, start)], at)
    return x


def fliplr(m: Any) -> Tensor:
    """Columns in reverse order."""
    return getitem(m, (slice(None), slice(None, None, -1)))


def flipud(m: Any) -> Tensor:
    """Rows in reverse order."""
    return getitem(m, slice(None, None, -1))


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees, from the first axis towards the second, k times."""
    x = as_array(m)
    first, second = (place(a, len(_shape(x))) for a in axes)

    def turned(axis: int) -> Tensor:
        return getitem(x, (*[slice(None)] * axis, slice(None, None, -1)))

    k %= 4
    if k == 0:
        return x
    if k == 2:
        x = turned(first)
        return turned(second)
    if k == 1:
        x = turned(second)
        return swapaxes(x, first, second)
    return getitem(swapaxes(x, first, second), (*[slice(None)] * second, slice(None, None, -1)))


# ---- surrounding


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    """Elements around: `constant`, `edge`, `reflect`, `symmetric` or `wrap`; how many must be known now."""
    x = as_array(array)
    widths = _widths(pad_width, len(_shape(x)))
    if mode != "constant" and mode not in MODES:
        # NumPy's other modes compute elements, such as means: here only places are asked of it.
        fail(UserError, f"mode {mode!r} is not there", "constant, edge, reflect, symmetric or wrap")
    if builtins.any(w < 0 for pair in widths for w in pair):
        fail(UserError, "index can't contain negative values", "slice to remove elements")
    if mode in MODES and all(has_room(mode, n, *pair) for n, pair in zip(_shape(x), widths, strict=True)):
        low, high = zip(*widths, strict=True) if widths else ((), ())
        return VERBS.border_pad(x, low=low, high=high, border=mode) if any((*low, *high)) else x
    values = None if mode != "constant" else constant_values
    for d, (low, high) in enumerate(widths):
        n = _shape(x)[d]
        if mode == "constant":
            x = _with_constant(x, d, low, high, values)
            continue
        if not n and (low or high):
            fail(UserError, f"can't extend empty axis {d} using modes other than 'constant'")
        if mode == "edge" and is_open((n, low, high)):
            x = VERBS.gather(x, clip(arange(-low, n + high, dtype="int32"), 0, n - 1), axis=d)
            continue
        if low or high:
            x = VERBS.gather(x, known(positions(mode, n, low, high), i32), axis=d)
    return x


def _widths(given: Any, rank: int) -> list[tuple[int, int]]:
    """How many elements go before and after each axis; pairs of numbers keep how they follow from lengths."""
    if isinstance(given, list) and len(cast("list[Any]", given)) == rank:
        pairs = cast("list[Any]", given)
        if all(
            (isinstance(pair, tuple) and is_open(cast("tuple[Any, ...]", pair))) or pair == (0, 0)
            for pair in pairs
        ):
            return pairs
    if isinstance(given, dict):
        named = {place(d, rank): pair for d, pair in cast("dict[int, Any]", given).items()}
        return [tuple(np.broadcast_to(np.asarray(named.get(d, 0)), 2).tolist()) for d in range(rank)]
    return np.broadcast_to(np.asarray(given), (rank, 2)).tolist()


def _with_constant(x: Tensor, d: int, low: int, high: int, values: Any) -> Tensor:
    before, after = np.broadcast_to(np.asarray(values), (len(_shape(x)), 2))[d].tolist()
    for value, sides in ((before, (low, 0)), (after, (0, high))):
        pads = [[side if i == d else 0 for i in range(len(_shape(x)))] for side in sides]
        x = surround(x, *pads, x.dtype.type(value).item())
    return x


# ---- diagonals


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements whose two positions differ by `offset`, along a new last axis."""
    x = as_array(a)
    rank = len(_shape(x))
    if rank < 2:
        fail(UserError, "diag requires an array of at least two dimensions")
    x = moveaxis(x, (axis1, axis2), (rank - 2, rank - 1))
    rows, columns = _shape(x)[-2:]
    at = np.arange(rows)[builtins.max(-offset, 0) : builtins.max(builtins.min(rows, columns - offset), 0)]
    return getitem(x, (..., at, at + offset))


def diag(v: Any, k: int = 0) -> Tensor:
    """The k-th diagonal of a matrix, or the matrix that has it."""
    x = as_array(v)
    if len(_shape(x)) == 2:
        return diagonal(x, k)
    if len(_shape(x)) != 1:
        fail(UserError, "Input must be 1- or 2-d.")
    n = _shape(x)[0] + abs(k)
    at = np.arange(_shape(x)[0])
    zero = expand(known(0, x.dtype), (n, n))
    return written(zero, (at + builtins.max(-k, 0), at + builtins.max(k, 0)), x)


def diagflat(v: Any, k: int = 0) -> Tensor:
    """The matrix that has all elements on its k-th diagonal."""
    return diag(ravel(v), k)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """The sum of a diagonal."""
    return reductions.sum(diagonal(a, offset, axis1, axis2), -1, dtype)
