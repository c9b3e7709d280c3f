# SPDX-License-Identifier: Apache-2.0
"""Rewrites as a sum over windows: a product of windows by few columns, as in depthwise convolutions, and `overlap_add` of a
multiplication, as in gradients of stencils."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from ...ir.attributes import Attribute, UnitAttr, integers
from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import DYNAMIC, FloatType, element_type, f32, shape_of, with_element
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.ng import SumOp
from ...ops.rules import reshaped
from ...ops.schedules import SCHEDULE
from ...support.lengths import is_same, usual
from ..analysis.reduction import CONTRACT
from ..analysis.views import source
from .window_products import MORE_WINDOWS, reversed_along

#: Columns from which on a product is faster than sums over windows of one channel, although windows are packed for it (measured on
#: Zen 4, with AVX-512 and AVX2, for 3x3 and 5x5 taps: with 4 columns sums take 0.6 to 1.1 of the time, with 16 they take 1.1 to 2.4).
_MANY_COLUMNS = 8

#: Ops allowed between the multiplication and the `overlap_add`: they only move dimensions, or sum.
_BETWEEN = frozenset({"ng.reshape", "ng.cast_axes", "ng.transpose", "ng.sum"})


def as_sum_over_windows(overlap: Op, uses: Mapping[Value, int], b: Builder) -> Sequence[Value] | None:
    """An `overlap_add` with steps of 1 of windows whose elements are a value at a position times one at a tap, as a sum over windows
    of the former, padded with zeros, times the latter reversed. So the summed windows are never stored. None where it is none."""
    added, wanted = overlap.operands[0], overlap.results[0].type
    axes, shape, whole = get_i64s(overlap, "axes"), shape_of(added.type), shape_of(wanted)
    count = len(axes)
    if set(get_i64s(overlap, "steps")) != {1} or DYNAMIC in shape:
        return None
    if prod(whole[a] for a in axes) > MORE_WINDOWS * prod(shape[count + a] for a in axes):
        return None
    found = _multiplication(added, uses)
    if found is None:
        return None
    multiply, homes, summed = found
    # Along an axis with a single tap there is nothing to add.
    along = [i for i, size in enumerate(shape[:count]) if size > 1]
    taps, positions = (
        _known(homes[i] for i in places) for places in (along, [count + axes[i] for i in along])
    )
    if not along or len(taps) + len(positions) < 2 * len(along):
        return None
    sides = [_spread(operand) for operand in multiply.operands]
    if all(d in sides[1][1] for d in positions):
        sides.reverse()
    (lying, own), (filter, others) = sides
    if any(d not in own for d in positions) or {*own} & {*taps} or {*others} & {*positions}:
        return None
    grown = list(shape_of(multiply.results[0].type))
    dilations = [get_i64s(overlap, "dilations")[i] for i in along]
    around, sizes = [0] * len(own), list(shape_of(lying.type))
    for i, d, dilation in zip(along, positions, dilations, strict=True):
        around[own.index(d)] = (shape[i] - 1) * dilation
        grown[d] = sizes[own.index(d)] = whole[axes[i]]
    dims = [*taps, *own]
    kept = [d for d in range(len(grown)) if d not in taps and d not in summed]
    if dims != sorted(dims) or _known(homes[count:]) != [d for d in kept if d in homes]:
        return None
    windows = b.windows(
        b.pad(lying, low=around, high=around),
        type=reshaped(lying.type, [*[shape[i] for i in along], *sizes], None),
        axes=[own.index(d) for d in positions],
        steps=[1] * len(along),
        dilations=dilations,
    )
    back = reversed_along(filter, [others.index(d) for d in taps if d in others], b)
    type = reshaped(multiply.results[0].type, grown, None)
    terms = b.multiply(
        b.broadcast(windows, type=type, dimensions=dims), b.broadcast(back, type=type, dimensions=others)
    )
    total = b.sum(terms, axes=sorted({*taps, *summed}))
    return [total if total.type is wanted else b.reshape(total, type=wanted)]


def product_as_sum(dot: Op, b: Builder) -> Sequence[Value] | None:
    """A product of windows by few columns, for each position of batch dimensions (the groups of a convolution), as a sum of multiplied
    windows, which reads them where they are. None where it is none, or a product is faster."""
    if SCHEDULE in dot.attributes or not get_i64s(dot, "lhs_batch"):
        return None
    for side in (0, 1):
        windows = source(dot.operands[side]).owner
        if isinstance(windows, Op) and windows.name == "ng.windows":
            taps = prod(shape_of(windows.result.type)[: len(get_i64s(windows, "axes"))])
            if _has_few_columns(dot, side, taps):
                return [_summed(dot, side, b)]
    return None


def _dimensions(dot: Op, side: int) -> tuple[list[int], list[int], list[int]]:
    """The dimensions of an operand of a product: those of the batch, the contracted ones, and the rest."""
    name, rank = ("lhs", "rhs")[side], len(shape_of(dot.operands[side].type))
    batch, contract = ([*get_i64s(dot, f"{name}_{kind}")] for kind in ("batch", "contract"))
    return batch, contract, [d for d in range(rank) if d not in batch and d not in contract]


def _has_few_columns(dot: Op, side: int, taps: int) -> bool:
    """Whether windows, the operand `side`, are multiplied by so few columns that sums are faster."""
    _, contract, rows = _dimensions(dot, side)
    own, other = (shape_of(dot.operands[i].type) for i in (side, 1 - side))
    columns = prod(other[d] for d in _dimensions(dot, 1 - side)[2])
    if is_same(columns, 1):
        return True
    if not isinstance(element_type(dot.result.type), FloatType):
        return False
    # One channel: the taps are contracted, or in the gradient of the filters the rows.
    single = any(is_same(prod(own[d] for d in dims), taps) for dims in (contract, rows))
    return single and usual(columns) < _MANY_COLUMNS


def _summed(dot: Op, side: int, b: Builder) -> Value:
    """The sum over the dimensions of the operand `side`; the columns come after the batch."""
    (batch, contract, rows), (other_batch, other_contract, columns) = (
        _dimensions(dot, i) for i in (side, 1 - side)
    )
    own, other = (shape_of(dot.operands[i].type) for i in (side, 1 - side))
    first = max(batch) + 1
    place = [d if d < first else d + len(columns) for d in range(len(own))]
    added = [*range(first, first + len(columns))]
    shape = [*own[:first], *[other[d] for d in columns], *own[first:]]
    homes = dict(zip(columns, added, strict=True))
    for theirs, ours in ((other_batch, batch), (other_contract, contract)):
        homes |= {d: place[e] for d, e in zip(theirs, ours, strict=True)}
    element = element_type(dot.result.type)
    wide = f32 if isinstance(element, FloatType) and item_bytes(element) < 4 else element

    def spread(operand: Value, homes: Mapping[int, int]) -> Value:
        """An operand with all dimensions, as elements of the type in which products are summed."""
        order = sorted(homes, key=homes.__getitem__)
        if order != sorted(order):
            operand = b.transpose(operand, permutation=order)
        if element_type(operand.type) is not wide:
            operand = b.cast(operand, type=with_element(operand.type, wide))
        type = reshaped(operand.type, shape, None)
        return b.broadcast(operand, type=type, dimensions=sorted(homes.values()))

    terms = b.multiply(
        spread(dot.operands[side], dict(enumerate(place))), spread(dot.operands[1 - side], homes)
    )
    gone = sorted(place[d] for d in contract)
    kept = [d for d in range(len(shape)) if d not in gone]
    # What few contracted elements in a row give is added at the end: registers hold results of several rows until then.
    row = [d for d in gone if d > max(kept)]
    last = row if 1 < usual(prod(shape[d] for d in row)) < _MANY_COLUMNS else []
    first = [d for d in gone if d not in last] or gone
    type = reshaped(terms.type, [size for d, size in enumerate(shape) if d not in first], None)
    marks: dict[str, Attribute] = {"axes": integers(first)}
    if isinstance(element, FloatType):
        marks[CONTRACT] = UnitAttr()
    total = b.add_op(SumOp([terms], [type], marks, location=b.location)).result
    if len(first) < len(gone):
        total = b.sum(total, axes=[d - sum(other < d for other in first) for d in last])
    # The order of the product: batch, and what is left of both sides.
    sides = [[place[d] for d in rows], added]
    order = [kept.index(d) for d in (*[place[d] for d in batch], *sides[side], *sides[1 - side])]
    if order != sorted(order):
        total = b.transpose(total, permutation=order)
    if wide is not element:
        total = b.cast(total, type=with_element(total.type, element))
    wanted = dot.result.type
    return total if total.type is wanted else b.cast_axes(total, type=wanted)


def _multiplication(value: Value, uses: Mapping[Value, int]) -> tuple[Op, list[int | None], list[int]] | None:
    """The multiplication that makes a value, if values in between have no other use; for each dimension of the value that of the
    multiplication (None: it has size 1), and the dimensions that are summed in between."""
    homes: list[int | None] = list(range(len(shape_of(value.type))))
    summed: list[int] = []
    element = element_type(value.type)
    while isinstance(owner := value.owner, Op) and uses.get(value, 2) == 1:
        if SCHEDULE in owner.attributes or any(element_type(v.type) is not element for v in owner.operands):
            return None
        if owner.name == "ng.multiply":
            return owner, homes, summed
        before = _before(owner) if owner.name in _BETWEEN else None
        if before is None or any(before[d] is None for d in summed):
            return None
        homes = [None if d is None else before[d] for d in homes]
        summed = _known(before[d] for d in summed)
        summed += get_i64s(owner, "axes") if owner.name == "ng.sum" else []
        value = owner.operands[0]
    return None


def _known(dims: Iterable[int | None]) -> list[int]:
    """Those that are not None."""
    return [d for d in dims if d is not None]


def _before(op: Op) -> list[int | None] | None:
    """For each dimension of an op's result that of its operand (None for size 1); None if they do not correspond."""
    shape, result = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    match op.name:
        case "ng.transpose":
            return list(get_i64s(op, "permutation"))
        case "ng.sum":
            axes = get_i64s(op, "axes")
            return [d for d in range(len(shape)) if d not in axes]
        case _:
            long = [d for d, size in enumerate(shape) if size != 1]
            if [shape[d] for d in long] != [size for size in result if size != 1]:
                return None
            rest = iter(long)
            return [None if size == 1 else next(rest) for size in result]


def _spread(value: Value) -> tuple[Value, list[int]]:
    """The operand of a broadcast and its dimensions in the result; any other value with all of its own."""
    owner = value.owner
    if isinstance(owner, Op) and owner.name == "ng.broadcast":
        return owner.operands[0], list(get_i64s(owner, "dimensions"))
    return value, list(range(len(shape_of(value.type))))
