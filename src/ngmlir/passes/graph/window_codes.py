# SPDX-License-Identifier: Apache-2.0
"""Products of windows of bytes, with the channels of the windows innermost, as dot instructions read them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.attributes import integers
from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.schedules import SCHEDULE
from ...rewrite.sweep import sweep_op
from ...support.lengths import usual
from ...support.target import Target
from .dead_code import without_dead
from .sunk_transposes import permuted


def channels_of_bytes(dot: Op, target: Target) -> list[int]:
    """The contracted dimensions, other than taps, of what the left side of a product has windows of, if dot instructions of vectors
    multiply its bytes; none if there is one channel."""
    windows = dot.operands[0].owner
    if target.has_thread_blocks or not target.dots or SCHEDULE in dot.attributes:
        return []
    if not isinstance(windows, Op) or windows.name != "ng.windows":
        return []
    if any(item_bytes(element_type(v.type)) > 1 for v in dot.operands):
        return []
    axes, shape = get_i64s(windows, "axes"), shape_of(windows.operands[0].type)
    contract = get_i64s(dot, "lhs_contract")
    channels = [d for d in range(len(shape)) if d + len(axes) in contract and d not in axes]
    return channels if usual(prod(shape[d] for d in channels)) > 1 else []


def with_channels_innermost(function: Op, target: Target) -> Op:
    """The function, with the channels of `channels_of_bytes` innermost in memory. A dot instruction reads words of adjacent bytes along
    the sum: bytes that are not contiguous would be collected one by one, for each window that they are in. The transpose moves each byte
    once."""
    made = sweep_op(function, lambda op, b: _innermost(op, target, b), frozenset({"ng.dot"}))
    return function if made is function else without_dead(made)


def _innermost(dot: Op, target: Target, b: Builder) -> Sequence[Value] | None:
    channels = channels_of_bytes(dot, target)
    if not channels:
        return None
    windows = dot.operands[0].owner
    assert isinstance(windows, Op)
    source, axes = windows.operands[0], get_i64s(windows, "axes")
    shape = shape_of(source.type)
    order = [*(d for d in range(len(shape)) if d not in channels), *channels]
    long = [d for d in range(len(shape)) if shape[d] != 1]
    if long[-1] in channels:
        return None
    places = [*range(len(axes)), *(len(axes) + d for d in order)]
    made = windows.rebuilt(
        [_turned(source, order, b)],
        types=[permuted(windows.result.type, places)],
        attributes={**windows.attributes, "axes": integers(order.index(a) for a in axes)},
    )
    named = ("lhs_contract", "lhs_batch")
    moved = {name: integers(places.index(d) for d in get_i64s(dot, name)) for name in named}
    operands = [b.add_op(made).result, dot.operands[1]]
    return b.add_op(dot.rebuilt(operands, attributes={**dot.attributes, **moved})).results


def _turned(value: Value, order: Sequence[int], b: Builder) -> Value:
    """A value with its dimensions in another order; padding is added after they are moved."""
    op = value.owner
    if isinstance(op, Op) and op.name == "ng.pad":
        sizes = {name: integers(get_i64s(op, name)[d] for d in order) for name in ("low", "high")}
        made = op.rebuilt(
            [_turned(op.operands[0], order, b)],
            types=[permuted(value.type, order)],
            attributes={**op.attributes, **sizes},
        )
        return b.add_op(made).result
    return b.transpose(value, permutation=order)
