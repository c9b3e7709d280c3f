# SPDX-License-Identifier: Apache-2.0
"""Rewrites `overlap_add` of a product as a product of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ...ir.core import Op, Value
from ...ir.types import DYNAMIC, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.rules import names_of, reshaped
from ...ops.schedules import SCHEDULE
from ...support.lengths import at_least, is_same

#: Greatest ratio of the new number of windows to the old one: windows over the border read zeros.
MORE_WINDOWS = 2


def as_windows(overlap: Op, uses: Mapping[Value, int], b: Builder) -> Sequence[Value] | None:
    """An `overlap_add` with steps of 1 of windows that a product makes, as a product: windows of the product's operand, padded
    with zeros, times its other side reversed along the taps. So the summed windows are never stored. None where it is none."""
    axes, dilations = get_i64s(overlap, "axes"), get_i64s(overlap, "dilations")
    made = overlap.operands[0]
    order = list(range(len(shape_of(made.type))))
    if isinstance(made.owner, Op) and made.owner.name == "ng.reshape":
        (uncut,) = made.owner.operands
        order, made = _without_units(shape_of(uncut.type), shape_of(made.type)), uncut
    if isinstance(made.owner, Op) and made.owner.name == "ng.transpose":
        permutation = get_i64s(made.owner, "permutation")
        order, made = [permutation[d] for d in order], made.owner.operands[0]
    dot = made.owner
    if not isinstance(dot, Op) or dot.name != "ng.dot" or SCHEDULE in dot.attributes or uses.get(made, 2) > 1:
        return None
    steps = get_i64s(overlap, "steps")
    if DYNAMIC in shape_of(made.type) or not order:
        return None
    if len({element_type(v.type) for v in (*dot.operands, made)}) > 1:
        return None
    count, shape = len(axes), shape_of(overlap.operands[0].type)
    taps, positions = order[:count], [order[count + axis] for axis in axes]
    whole = shape_of(overlap.results[0].type)
    if prod(whole[a] for a in axes) > MORE_WINDOWS * prod(
        step * shape[count + a] for step, a in zip(steps, axes, strict=True)
    ):
        return None
    homes = homes_of(dot)
    side = homes[positions[0]][0]
    if side < 0 or any(homes[d][0] != side for d in positions) or any(homes[d][0] != 1 - side for d in taps):
        return None
    if set(steps) != {1} and not _is_outer(dot, 1 - side, [homes[d][1] for d in taps]):
        return None
    # Windows of the side with the positions, and the other side reversed along the taps.
    source, other = dot.operands[side], dot.operands[1 - side]
    places = [homes[d][1] for d in positions]
    low, high = ([0] * len(shape_of(source.type)) for _ in range(2))
    for place, axis, size, dilation, step in zip(places, axes, shape, dilations, steps, strict=False):
        low[place] = (size - 1) * dilation
        high[place] = whole[axis] - step * shape[count + axis]
    if not all(at_least(n, 0) for n in high):
        return None
    wide = b.pad(_spaced(source, places, steps, b), low=low, high=high)
    names, inner = names_of(overlap.operands[0].type), names_of(wide.type)
    windows = b.windows(
        wide,
        type=reshaped(
            source.type,
            [*shape[:count], *_grown(source, places, whole, axes)],
            [*names[:count], *inner] if names is not None and inner is not None else None,
        ),
        axes=places,
        steps=[1] * count,
        dilations=dilations,
    )
    turned_taps = [homes[d][1] for d in taps]
    filters = reversed_along(other, turned_taps, b)
    sides = ("lhs", "rhs") if side == 0 else ("rhs", "lhs")
    (own, own_batch), (others, other_batch) = (
        [get_i64s(dot, f"{name}_{kind}") for kind in ("contract", "batch")] for name in sides
    )
    summed = [*range(count), *(d + count for d in own)], [*turned_taps, *others]
    batches = [d + count for d in own_batch], [*other_batch]
    pair = (windows, filters)
    if side == 1:
        pair, summed, batches = pair[::-1], summed[::-1], batches[::-1]
    product = b.dot(
        *pair,
        lhs_contract=summed[0],
        rhs_contract=summed[1],
        lhs_batch=batches[0],
        rhs_batch=batches[1],
    )
    # The remaining dimensions of the product, in the order of the sum; at the end those of one element that it does not have.
    kept = [d for d in range(len(homes)) if d not in taps]
    moved = [kept.index(d) for d in [*order[count:], *(d for d in kept if d not in order)]]
    if moved != sorted(moved):
        product = b.transpose(product, permutation=moved)
    wanted = overlap.results[0].type
    if len(order) < len(homes):
        return [b.reshape(product, type=wanted)]
    return [product if product.type is wanted else b.cast_axes(product, type=wanted)]


def _is_outer(dot: Op, side: int, taps: Sequence[int]) -> bool:
    """Whether a product multiplies, for each position of batch dimensions, every element of one operand by every tap of the other,
    `side`, and sums nothing, as the gradient of a depthwise convolution does: then moving what it makes takes longest, not multiplying."""
    shape = shape_of(dot.operands[side].type)
    batch = get_i64s(dot, ("lhs_batch", "rhs_batch")[side])
    return bool(batch) and all(is_same(n, 1) for d, n in enumerate(shape) if d not in taps and d not in batch)


def _spaced(value: Value, places: Sequence[int], steps: Sequence[int], b: Builder) -> Value:
    """A value with step - 1 zeros after each position of some dimensions. They are multiplied as those of a border are: with a tap that
    is infinite or NaN they give NaN."""
    by = dict(zip(places, steps, strict=True))
    shape, type = shape_of(value.type), value.type
    split = [n for d, size in enumerate(shape) for n in ([size, 1] if by.get(d, 1) > 1 else [size])]
    if len(split) == len(shape):
        return value
    after = [n for d in range(len(shape)) for n in ([0, by[d] - 1] if by.get(d, 1) > 1 else [0])]
    zeros = b.pad(b.reshape(value, type=reshaped(type, split, None)), low=[0] * len(after), high=after)
    names = names_of(type)
    return b.reshape(zeros, type=reshaped(type, [size * by.get(d, 1) for d, size in enumerate(shape)], names))


def _without_units(whole: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The dimensions of `whole` that are left in a shape without some dimensions of one element; empty if it has others too."""
    left: list[int] = []
    for d, size in enumerate(whole):
        if len(left) < len(shape) and is_same(size, shape[len(left)]):
            left.append(d)
        elif not is_same(size, 1):
            return []
    return left if len(left) == len(shape) else []


def homes_of(dot: Op) -> list[tuple[int, int]]:
    """For each dimension of a product's result the side that it comes from (0 or 1; -1: a batch dimension, of both), and its
    index there."""
    found = [(-1, d) for d in get_i64s(dot, "lhs_batch")]
    for side, name in enumerate(("lhs", "rhs")):
        used = {*get_i64s(dot, f"{name}_contract"), *get_i64s(dot, f"{name}_batch")}
        found += [(side, d) for d in range(len(shape_of(dot.operands[side].type))) if d not in used]
    return found


def _grown(source: Value, places: Sequence[int], whole: Sequence[int], axes: Sequence[int]) -> list[int]:
    shape = list(shape_of(source.type))
    for place, axis in zip(places, axes, strict=True):
        shape[place] = whole[axis]
    return shape


def reversed_along(value: Value, dimensions: Sequence[int], b: Builder) -> Value:
    """The value reversed along some dimensions."""
    shape = shape_of(value.type)
    return b.slice(
        value,
        starts=[size - 1 if d in dimensions else 0 for d, size in enumerate(shape)],
        limits=[-1 if d in dimensions else size for d, size in enumerate(shape)],
        steps=[-1 if d in dimensions else 1 for d in range(len(shape))],
    )
