# SPDX-License-Identifier: Apache-2.0
"""Windows that slide: convolutions as products of windows, and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ....ir.literals import dtype_of
from ....ir.types import TensorType, Type, f32, i64
from ....ops.sliding import count_of, covered_by, same_border, span_of
from ....support.diagnostics import UserError
from ....support.lengths import is_open, is_same
from ..nodes import Node, operator
from ..tensor import Tensor
from .products import dot
from .reductions import exponent


@dataclass(frozen=True)
class Slide:
    """The settings of windows over the last dimensions of a tensor."""

    taps: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def spans(self) -> list[int]:
        return [span_of(t, d) for t, d in zip(self.taps, self.dilations, strict=True)]


def slide_of(n: Node, lengths: Sequence[int], taps: Sequence[int]) -> Slide:
    """What a node's attributes say about windows."""
    rank = len(taps)
    steps, dilations = n.given("strides", [1] * rank), n.given("dilations", [1] * rank)
    pads = n.given("pads", [0] * 2 * rank)
    if not len(lengths) == len(steps) == len(dilations) == len(pads) // 2 == rank:
        raise UserError(f"windows of {list(taps)} taps over {len(lengths)} dimensions")
    if min([*steps, *dilations, *taps], default=1) < 1:
        raise UserError("strides, dilations and kernels are at least 1")
    low, high = pads[:rank], pads[rank:]
    rule = n.text("auto_pad", "NOTSET")
    if rule.startswith("SAME"):
        pairs = [
            same_border(length, span_of(t, d), s)
            for length, s, t, d in zip(lengths, steps, taps, dilations, strict=True)
        ]
        less, more = ([pair[side] for pair in pairs] for side in (0, 1))
        low, high = (less, more) if rule == "SAME_UPPER" else (more, less)
    elif rule == "VALID":
        low, high = [0] * rank, [0] * rank
    return Slide(tuple(taps), tuple(steps), tuple(dilations), tuple(low), tuple(high))


def _reaching(filters: Tensor, slide: Slide, lengths: Sequence[int]) -> tuple[Tensor, Slide]:
    """Removes outer taps that are outside of the elements in every window, as with wide dilations. Along a length that is open, each
    tap is inside for some."""
    taps, low, high = list(slide.taps), list(slide.low), list(slide.high)
    for d, (length, step, by, span) in enumerate(
        zip(lengths, slide.steps, slide.dilations, slide.spans, strict=True)
    ):
        if is_open([length]):
            continue
        count = (length + low[d] + high[d] - span) // step + 1
        reach = [
            t
            for t in range(taps[d])
            if any(0 <= t * by - low[d] + i * step < length for i in range(max(count, 0)))
        ]
        if count < 1 or not reach or len(reach) == taps[d]:
            continue
        first, last = reach[0], reach[-1]
        filters = filters.part(2 + d, first, last + 1)
        taps[d], low[d] = last - first + 1, low[d] - first * by
        high[d] = (count - 1) * step + span_of(taps[d], by) - length - low[d]
    return filters, Slide(tuple(taps), slide.steps, slide.dilations, tuple(low), tuple(high))


def windows(x: Tensor, slide: Slide) -> Tensor:
    """The windows over the last dimensions: their taps, then the dimensions of x."""
    first = x.rank - len(slide.taps)
    counts: list[int] = []
    for length, span, step in zip(x.shape[first:], slide.spans, slide.steps, strict=True):
        if span > length:
            raise UserError(f"a window of {span} elements does not fit into {length}")
        counts.append(count_of(length, span, step))
    type = TensorType((*slide.taps, *x.shape[:first], *counts), x.element)
    return x.verbs.windows(
        x, type=type, axes=list(range(first, x.rank)), steps=slide.steps, dilations=slide.dilations
    )


def padded(x: Tensor, slide: Slide, value: float | int = 0) -> Tensor:
    """With what windows reach beyond the last dimensions."""
    outer = [0] * (x.rank - len(slide.taps))
    return x.pad([*outer, *slide.low], [*outer, *slide.high], value)


def convolved(x: Tensor, filters: Tensor, slide: Slide, groups: int, element: Type | None = None) -> Tensor:
    """The product of filters and windows: x[N, C, ...], filters[M, C / groups, taps...]."""
    rank = len(slide.taps)
    filters, slide = _reaching(filters, slide, x.shape[2:])
    made = windows(padded(x, slide), slide)
    count, channels, places = x.shape[0], x.shape[1], made.shape[rank + 2 :]
    outputs, inner = filters.shape[:2]
    if inner * groups != channels or outputs % groups:
        raise UserError(f"filters {list(filters.shape)} do not fit {channels} channels in {groups} groups")
    taps = list(range(rank))
    if groups == 1:
        product = dot(made, filters, [*taps, rank + 1], [*range(2, rank + 2), 1], element=element)
        return product.moved(-1, 1)
    made = made.reshape([*slide.taps, count, groups, inner, *places])
    cut = filters.reshape([groups, outputs // groups, inner, *slide.taps])
    product = dot(made, cut, [*taps, rank + 2], [*range(3, rank + 3), 2], [rank + 1], [0], element)
    # groups, N, places, M / groups
    order = [1, 0, rank + 2, *range(2, rank + 2)]
    return product.transpose(order).reshape([count, outputs, *places])


@operator("Conv")
def conv(n: Node, x: Tensor, filters: Tensor, bias: Tensor | None = None) -> Tensor:
    taps = n.given("kernel_shape", filters.shape[2:])
    made = convolved(x, filters, slide_of(n, x.shape[2:], taps), n.integer("group", 1))
    return made if bias is None else made + bias.reshape([bias.size, *[1] * len(taps)])


@operator("ConvTranspose")
def conv_transpose(n: Node, x: Tensor, filters: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.rank - 2
    taps = filters.shape[2:]
    slide = slide_of(n, x.shape[2:], taps)
    groups = n.integer("group", 1)
    extra = n.given("output_padding", [0] * rank)
    low, high = list(slide.low), list(slide.high)
    covered = [covered_by(*each) for each in zip(x.shape[2:], slide.spans, slide.steps, strict=True)]
    wanted = n.integers("output_shape")
    rule = n.text("auto_pad", "NOTSET")
    if wanted is None and rule.startswith("SAME"):
        wanted = [d * s for d, s in zip(x.shape[2:], slide.steps, strict=True)]
    if wanted:
        wanted = wanted[-rank:]
        for d in range(rank):
            total = max(0, covered[d] + extra[d] - wanted[d])
            less, more = total // 2, total - total // 2
            low[d], high[d] = (less, more) if rule == "SAME_UPPER" else (more, less)
    else:
        if rule == "VALID":
            low, high = [0] * rank, [0] * rank
        wanted = [c - lo - hi + e for c, lo, hi, e in zip(covered, low, high, extra, strict=True)]
    count, channels, places = x.shape[0], x.shape[1], x.shape[2:]
    inner, outputs = channels // groups, filters.shape[1]
    if filters.shape[0] != channels or inner * groups != channels:
        raise UserError(f"filters {list(filters.shape)} do not fit {channels} channels in {groups} groups")
    lhs = x.reshape([count, groups, inner, *places])
    rhs = filters.reshape([groups, inner, outputs, *taps])
    product = dot(lhs, rhs, [2], [1], [1], [0])  # groups, N, places, M / groups, taps
    order = [*range(3 + rank, 3 + 2 * rank), 1, 0, 2 + rank, *range(2, 2 + rank)]
    spread = product.transpose(order).reshape([*taps, count, groups * outputs, *places])
    summed = overlapped(spread, slide, covered)
    outer = [0, 0]
    missing = [max(0, lo + w - c) for lo, w, c in zip(low, wanted, covered, strict=True)]
    summed = summed.pad([0] * (rank + 2), [*outer, *missing])
    ends = [lo + w for lo, w in zip(low, wanted, strict=True)]
    made = summed.slice([*outer, *low], [count, groups * outputs, *ends])
    return made if bias is None else made + bias.reshape([bias.size, *[1] * rank])


def overlapped(spread: Tensor, slide: Slide, lengths: Sequence[int]) -> Tensor:
    """The sum of overlapping windows over last dimensions of these lengths."""
    rank = len(slide.taps)
    outer = spread.shape[rank : spread.rank - rank]
    axes = list(range(len(outer), len(outer) + rank))
    type = TensorType((*outer, *lengths), spread.element)
    return spread.verbs.overlap_add(
        spread, type=type, axes=axes, steps=slide.steps, dilations=slide.dilations
    )


# ---- pooling


def _pooled(n: Node, x: Tensor) -> Slide:
    """The windows of a pooling node; with `ceil_mode` also those that only begin inside."""
    slide = slide_of(n, x.shape[2:], n.given("kernel_shape", ()))
    if not n.flag("ceil_mode"):
        return slide
    high: list[int] = []
    for length, span, step, lo, hi in zip(
        x.shape[2:], slide.spans, slide.steps, slide.low, slide.high, strict=True
    ):
        if step + hi <= span:
            last = -(-(length + lo + hi - span) // step)
            high.append(covered_by(last + 1, span, step) - length - lo)
        else:  # windows that begin inside are fewer
            last = (length + lo - 1) // step
            high.append((last + 1) * step + span - 1 - length - lo)
    return Slide(slide.taps, slide.steps, slide.dilations, slide.low, tuple(high))


def _counts(n: Node, x: Tensor, slide: Slide, all_padding: bool) -> Tensor:
    """How many elements each window counts: a number, or one for each place along the axes on whose borders it is less."""
    own = slide_of(n, x.shape[2:], slide.taps)
    total = x.verbs.numbers(1, f32)
    for d, (taps, step, dilation) in enumerate(zip(slide.taps, slide.steps, slide.dilations, strict=True)):
        low, high = (0, slide.high[d] - own.high[d]) if all_padding else (slide.low[d], slide.high[d])
        if is_same(low, 0) and is_same(high, 0):
            total = total * taps
            continue
        counted = slide.low[d] + x.shape[2 + d] + slide.high[d] - low - high
        line = x.verbs.later(x.verbs.numbers(1, f32, [counted])).pad([low], [high])
        found = windows(line, Slide((taps,), (step,), (dilation,), (0,), (0,))).sum([0])
        total = total * found.reshape([*found.shape, *[1] * (len(slide.taps) - 1 - d)])
    return total.cast(x.element)


@operator("AveragePool")
def average_pool(n: Node, x: Tensor) -> Tensor:
    slide = _pooled(n, x)
    total = windows(padded(x, slide), slide).sum(range(len(slide.taps)))
    return total / _counts(n, x, slide, n.flag("count_include_pad"))


@operator("LpPool")
def lp_pool(n: Node, x: Tensor) -> Tensor:
    slide, p = _pooled(n, x), exponent(n)
    powers = windows(padded(n.verbs.absolute(x) ** p, slide), slide)
    return powers.sum(range(len(slide.taps))) ** (1 / p)


@operator("MaxPool")
def max_pool(n: Node, x: Tensor) -> list[Tensor]:
    slide = _pooled(n, x)
    least = float("-inf") if x.is_float else int(np.iinfo(dtype_of(x.element)).min)
    rank = len(slide.taps)
    found = windows(padded(x, slide, least), slide)
    made = found.max(range(rank))
    if not n.wanted(1):
        return [made]
    columns = n.flag("storage_order")
    lengths = x.shape[2:]
    places = n.verbs.arange(prod(lengths)).reshape(lengths[::-1] if columns else lengths)
    places = places.transpose(range(rank)[::-1]) if columns else places
    images = n.verbs.arange(prod(x.shape[:2])).reshape([*x.shape[:2], *[1] * rank])
    each = images * n.verbs.length(prod(lengths)) + places
    first = n.verbs.argmax(
        found.reshape([prod(slide.taps), *made.shape]), type=TensorType(made.shape, i64), axes=[0]
    )
    options = windows(padded(each, slide), slide).reshape([prod(slide.taps), *made.shape])
    chosen = n.verbs.gather_elements(options, first.with_axes([0]), axis=0)
    return [made, chosen.without_axes([0])]


@operator("MaxUnpool")
def max_unpool(n: Node, x: Tensor, places: Tensor, shape: Tensor | None = None) -> Tensor:
    taps = n.given("kernel_shape", ())
    rank = len(taps)
    steps, pads = n.given("strides", [1] * rank), n.given("pads", [0] * 2 * rank)
    natural = [
        covered_by(d, t, s) - pads[i] - pads[i + rank]
        for i, (d, s, t) in enumerate(zip(x.shape[2:], steps, taps, strict=True))
    ]
    natural = [*x.shape[:2], *natural]
    # Positions count in the natural shape, whatever is put around it.
    empty = n.verbs.numbers(0, x.element, [prod(natural)])
    made = n.verbs.scatter(empty, places.reshape([places.size]), x.reshape([x.size]), axis=0).reshape(natural)
    wanted = n.settled(shape) or natural
    return made.pad([0] * x.rank, [w - d for w, d in zip(wanted, natural, strict=True)])


@operator("Col2Im")
def col2im(n: Node, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    lengths, taps = n.settled(image) or [], n.settled(block) or []
    slide = slide_of(n, lengths, taps)
    whole = [d + lo + hi for d, lo, hi in zip(lengths, slide.low, slide.high, strict=True)]
    counts = [count_of(d, span, step) for d, span, step in zip(whole, slide.spans, slide.steps, strict=True)]
    count, channels, rank = x.shape[0], x.shape[1] // prod(taps), len(taps)
    parts = x.reshape([count, channels, *taps, *counts])
    parts = parts.transpose([*range(2, 2 + rank), 0, 1, *range(2 + rank, 2 + 2 * rank)])
    summed = overlapped(parts, slide, whole)
    ends = [lo + d for lo, d in zip(slide.low, lengths, strict=True)]
    return summed.slice([0, 0, *slide.low], [count, channels, *ends])
