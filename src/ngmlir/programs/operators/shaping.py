# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and change none."""

from __future__ import annotations

from builtins import slice as builtin_slice
from collections.abc import Sequence
from itertools import accumulate
from math import prod

from ... import numpy as np
from ...ir.literals import dtype_of
from ...numpy import getitem
from ...op_graph.tensor import Tensor
from ...op_graph.verbs import VERBS
from ...support.diagnostics import UserError
from ...support.lengths import at_least
from ..definition import Context, GradientOp
from ..descriptions import Operator
from ..names import EMPTY, gradient_name
from ..registry import gradient_maker, operator
from ..vartypes import element_of


@operator
def reshape(x: Tensor, shape_of: Tensor | None, *, shape: Sequence[int], context: Context) -> Tensor:
    given = x.type.shape
    if shape_of is not None:
        computed = _computed_shape(given, shape_of, context)
        # Types say what the attribute says.
        return np.reshape(x, _lengths(given, shape) if context.is_trial else computed)
    return np.reshape(x, _lengths(given, shape))


def _computed_shape(given: Sequence[int], shape_of: Tensor, context: Context) -> Sequence[int]:
    """The lengths that a shape says, which a run finds out."""
    count = prod(shape_of.type.shape)
    said = np.astype(np.reshape(shape_of, (count,)), np.int64)
    own = np.array([*given, *[1] * count][:count], np.int64)
    lengths = np.where(np.equal(said, 0), own, said)
    others = np.prod(np.where(np.less(lengths, 0), 1, lengths))
    lengths = np.where(
        np.less(lengths, 0), np.floor_divide(np.int64(prod(given)), np.maximum(others, 1)), lengths
    )
    hint = "0 stands for a length of X, one -1 for what is left"
    context.require(
        np.equal(np.prod(lengths), prod(given)),
        f"the computed shape does not have the {prod(given)} elements of X",
        hint,
    )
    return [context.size(getitem(lengths, builtin_slice(d, d + 1))) for d in range(count)]


def _lengths(given: Sequence[int], shape: Sequence[int]) -> Sequence[int]:
    """The lengths that an attribute says."""
    if any(n == 0 and d >= len(given) for d, n in enumerate(shape)):
        raise UserError(f"0 stands for a length of X, and X has the shape {list(given)}")
    lengths = [given[d] if n == 0 else n for d, n in enumerate(shape)]
    if lengths.count(-1) > 1:
        raise UserError(f"the shape {list(shape)} leaves more than one length open")
    if -1 not in lengths and prod(lengths) != prod(given):
        raise UserError(
            f"{prod(given)} elements, of shape {list(given)}, do not have the shape {list(shape)}"
        )
    return lengths


@operator
def layout(x: Tensor, *, source: str, target: str) -> Tensor:
    if sorted(source) != sorted(target) or len({*source}) != len(source):
        raise UserError(
            f"{source} and {target} are no two orders of the same dimensions",
            hint="a letter for each dimension: NCHW, NHWC",
        )
    if len(source) != len(x.type.shape):
        raise UserError(f"a tensor of shape {list(x.type.shape)} has no layout {source}")
    return np.transpose(x, [source.index(letter) for letter in target])


@operator
def transpose(x: Tensor, *, axis: Sequence[int]) -> Tensor:
    return np.transpose(x, axis)


@operator
def concat(x: Sequence[Tensor], *, axis: int) -> Tensor:
    return np.concatenate(x, axis)


@operator
def squeeze(x: Tensor, *, axes: Sequence[int], inplace: bool) -> Tensor:
    shape = x.type.shape
    gone = {a % len(shape) for a in axes} if axes else {d for d, n in enumerate(shape) if n == 1}
    if any(shape[d] != 1 for d in gone):
        raise UserError(f"dimensions {sorted(gone)} of the shape {list(shape)} are not all of length 1")
    return np.reshape(x, [n for d, n in enumerate(shape) if d not in gone] or [1])


@operator
def unsqueeze(x: Tensor, *, axes: Sequence[int], inplace: bool) -> Tensor:
    return np.expand_dims(x, tuple(axes))


@operator
def flatten(x: Tensor, *, axis: int) -> Tensor:
    shape = x.type.shape
    if axis > len(shape):
        raise UserError(f"{axis} dimensions are not there in the shape {list(shape)}")
    return np.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))


@operator
def expand(x: Tensor, *, expand_times: Sequence[int]) -> Tensor:
    if len(expand_times) != len(x.type.shape):
        raise UserError(f"expand_times says {len(expand_times)} times for {len(x.type.shape)} dimensions")
    return np.tile(x, expand_times)


@operator
def crop(
    x: Tensor, y: Tensor | None, offsets_of: Tensor | None, *, offsets: Sequence[int], shape: Sequence[int]
) -> Tensor:
    lengths = shape if y is None else y.type.shape
    rank = len(x.type.shape)
    if len(lengths) != rank:
        raise UserError(f"a part of {rank} dimensions has as many lengths, not {list(lengths)}")
    if offsets_of is not None:
        made = x
        for d in range(rank):
            places = np.add(np.arange(lengths[d]), np.astype(getitem(offsets_of, d), np.int64))
            made = np.take(made, places, axis=d)
        return made
    starts = list(offsets) or [0] * rank
    if len(starts) != rank or any(s + n > m for s, n, m in zip(starts, lengths, x.type.shape, strict=True)):
        raise UserError(
            f"a part of shape {list(lengths)} at {starts} is not inside the shape {list(x.type.shape)}"
        )
    return getitem(x, tuple([builtin_slice(s, s + n) for s, n in zip(starts, lengths, strict=True)]))


@operator
def pad(x: Tensor, *, paddings: Sequence[int], pad_value: float) -> Tensor:
    rank = len(x.type.shape)
    if len(paddings) != 2 * rank:
        raise UserError(f"paddings has two numbers for each of {rank} dimensions, not {len(paddings)}")
    return np.pad(x, list(zip(paddings[::2], paddings[1::2], strict=True)), constant_values=pad_value)


@operator
def pad2d(x: Tensor, *, paddings: Sequence[int], mode: str, pad_value: float, data_format: str) -> Tensor:
    if len(x.type.shape) != 4 or len(paddings) != 4:
        raise UserError(
            f"pad2d takes images of 4 dimensions and 4 paddings, not {len(x.type.shape)} and {len(paddings)}"
        )
    top, bottom, left, right = paddings
    first = 2 if data_format == "NCHW" else 1
    around = [(0, 0)] * first + [(top, bottom), (left, right)] + [(0, 0)] * (2 - first)
    for length, pair in zip(x.type.shape, around, strict=True):
        if mode == "reflect" and (least := at_least(length, max(pair) + 1)) is not None and not least:
            raise UserError(
                f"{max(pair)} elements around {length} are not those inside mirrored at the border"
            )
    return np.pad(x, around, mode, **({"constant_values": pad_value} if mode == "constant" else {}))


@operator
def slice(input: Tensor, *, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Tensor:
    if not len(axes) == len(starts) == len(ends):
        raise UserError(
            f"axes, starts and ends are of one length: {list(axes)}, {list(starts)}, {list(ends)}"
        )
    rank = len(input.type.shape)
    if wrong := [axis for axis in axes if not -rank <= axis < rank]:
        raise UserError(f"there is no axis {wrong[0]} among {rank} dimensions")
    cuts = [builtin_slice(None)] * rank
    for axis, start, end in zip(axes, starts, ends, strict=True):
        cuts[axis] = builtin_slice(start, end)
    return getitem(input, tuple(cuts))


def _parts(x: Tensor, sections: Sequence[int], num: int, axis: int) -> list[Tensor]:
    length = x.type.shape[axis]
    if not sections and (num < 1 or length % num):
        raise UserError(f"{length} elements are not cut into {num} equal parts")
    lengths = list(sections) or [length // num] * num
    if sum(lengths) != length:
        raise UserError(f"the parts {lengths} are not {length} elements together")
    ends = list(accumulate(lengths))
    return list(np.split(x, ends[:-1], axis))


@operator
def split(x: Tensor, *, sections: Sequence[int], num: int, axis: int) -> list[Tensor]:
    return _parts(x, sections, num, axis)


@operator
def split_byref(x: Tensor, *, sections: Sequence[int], num: int) -> list[Tensor]:
    return _parts(x, sections, num, 0)


@operator
def reverse(x: Tensor, *, axis: Sequence[int]) -> Tensor:
    return np.flip(x, tuple(axis))


@operator
def multiplex(ids: Tensor, x: Sequence[Tensor]) -> Tensor:
    rows = x[0].type.shape[0]
    number = np.reshape(ids, (rows, *(1,) * (len(x[0].type.shape) - 1)))
    made = x[0]
    for i, candidate in enumerate(x[1:], 1):
        made = np.where(np.equal(number, i), candidate, made)
    return made


@operator
def gather(x: Tensor, index: Tensor, *, context: Context) -> Tensor:
    context.give_levels("Out", ())
    return np.take(x, np.reshape(index, (prod(index.type.shape),)), axis=0)


@operator
def scatter(x: Tensor, ids: Tensor, updates: Tensor) -> Tensor:
    rows = np.reshape(ids, (prod(ids.type.shape),))
    return VERBS.scatter(x, rows, updates, axis=0, combine="set")


@operator
def one_hot(x: Tensor, *, depth: int, dtype: int) -> Tensor:
    shape = x.type.shape
    if not shape or shape[-1] != 1:
        raise UserError(f"classes have a last dimension of 1, not the shape {list(shape)}")
    return np.astype(np.equal(x, np.arange(depth)), dtype_of(element_of(dtype)))


# ---- gradients that are other operators


@gradient_maker("split")
def _split(op: Operator) -> list[GradientOp]:
    (x,) = op.inputs["X"]
    parts = [gradient_name(n) for n in op.outputs["Out"] if n != EMPTY]
    return [GradientOp("concat", {"X": parts}, {"Out": [gradient_name(x)]}, {"axis": op.attribute("axis")})]


@gradient_maker("reverse")
def _reverse(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    return [GradientOp("reverse", {"X": [gradient_name(out)]}, {"Out": [gradient_name(x)]}, op.attributes)]
