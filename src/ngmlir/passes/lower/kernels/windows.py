# SPDX-License-Identifier: Apache-2.0
"""Sums of overlapping windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import gcd, prod

from ....ir.attributes import numeric_literal
from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.nest import AffineExpr
from ....ir.types import VectorType, element_type, shape_of
from ....ops.fields import get_i64s
from ....support.lengths import below
from ....support.target import Target
from ...analysis.access import Access, leaves
from ...schedule.moves import rows_together
from ...schedule.programs import grid_for, tile_width
from .finished import Finished
from .reading import read
from .single import OpKernelBuilder
from .tiling import Span


@dataclass(frozen=True)
class _Phases:
    """Every `step`-th element of a dimension, from `first` + r on, for each r below `count`: element q of these is the sum of tap
    `tap` + r + k * `skip` of window q + `offset` - k * `back`, for each k below `taps`."""

    first: int
    count: int
    taps: int
    tap: int = 0
    skip: int = 1
    offset: int = 0
    back: int = 0


def _phases(taps: int, step: int, dilation: int) -> list[_Phases]:
    """The elements of a dimension, grouped by their position modulo the step: all of one phase are sums of
    the same taps."""
    skip, back = step // gcd(step, dilation), dilation // gcd(step, dilation)
    found: list[_Phases] = []
    for first in range(step):
        tap = next((t for t in range(min(taps, skip)) if (first - t * dilation) % step == 0), None)
        if tap is None:
            here = _Phases(first, 1, 0)
        else:
            offset = (first - tap * dilation) // step
            here = _Phases(first, 1, -(-(taps - tap) // skip), tap, skip, offset, back)
        before = found[-1] if found else None
        if (
            before is not None
            and replace(before, first=first, count=1, tap=before.tap + (before.count if before.taps else 0))
            == here
        ):
            found[-1] = replace(before, count=before.count + 1)
        else:
            found.append(here)
    return found


#: Blocks of a multiprocessor of a GPU from which on each computes all phases, and taps that are loaded at once: tiles of the next
#: phase or tap wait for those of the last one.
_BLOCKS, _TOGETHER = 8, 4


def overlap_add_kernel(op: Op, target: Target) -> Finished:
    """Every element of the result is the sum of the taps that contribute to it: nothing is written twice."""
    axes, steps, dilations = (get_i64s(op, name) for name in ("axes", "steps", "dilations"))
    taps = shape_of(op.operands[0].type)[: len(axes)]
    windows = shape_of(op.operands[0].type)[len(axes) :]
    # Adjacent dimensions without windows are one loop.
    groups: list[list[int]] = []
    for d in range(len(windows)):
        if groups and d not in axes and groups[-1][-1] not in axes:
            groups[-1].append(d)
        else:
            groups.append([d])
    whole = shape_of(op.results[0].type)
    lengths = [prod(whole[d] for d in group) for group in groups]
    counts = [prod(windows[d] for d in group) for group in groups]
    places = [groups.index([axis]) for axis in axes]
    step_of = dict(zip(places, steps, strict=True))
    sizes = [-(-length // step_of.get(g, 1)) for g, length in enumerate(lengths)]
    shape = (*taps, *counts)
    ways = [_phases(*each) for each in zip(taps, steps, dilations, strict=True)]
    element = element_type(op.results[0].type)
    most = [max(p.count for p in way) for way in ways]
    rows, parted = 1, list[int]()
    if target.has_thread_blocks:
        item = item_bytes(element)
        if len(sizes) > 1:
            rows = rows_together(target, [prod(most), *sizes], item, _BLOCKS)
        (blocks,) = grid_for(target, sizes, tile_width(target, item), 0, rows)
        parted = most if blocks < _BLOCKS * target.multiprocessors else []
    space = [*parted, *sizes]
    builder = OpKernelBuilder(op, target, space, [shape], [lengths], rows=rows)
    b, zero = builder.b, numeric_literal(0, element)

    def add(spans: list[Span], phases: Sequence[_Phases], rest: Sequence[Value]) -> None:
        """One tile of the elements of phase `rest` of each of `phases`."""
        whole_loops = [*sizes, *(p.count for p in phases), *(p.taps for p in phases)]
        outer, first = len(sizes), len(sizes) + len(phases)
        taken = [AffineExpr(p.tap, {outer + i: 1, first + i: p.skip}) for i, p in enumerate(phases)]
        at = [AffineExpr(0, {g: 1}) for g in range(outer)]
        for i, (g, p) in enumerate(zip(places, phases, strict=True)):
            at[g] = AffineExpr(p.offset, {g: 1, first + i: -p.back})
        fill = zero if leaves(at, counts, whole_loops) else None
        access = Access(shape, (*taken, *at), (), tuple(whole_loops), fill)
        tiled = [g for g, span in enumerate(spans) if span.size]
        type = VectorType(tuple(spans[g].size for g in tiled), element)
        here = [*spans, *map(Span, rest)]

        def touched(inner: Sequence[Span]) -> Value:
            return read(builder, [*here, *inner], access, type, builder.sources[0])

        def tap(inner: list[Span], values: Sequence[Value]) -> list[Value]:
            if len(inner) == len(phases):
                return [b.add(values[0], touched(inner))]
            count = phases[len(inner)].taps
            if count == 1:
                return tap([*inner, Span(b.index(0))], values)
            return list(b.loop(0, count, 1, values, lambda k, v: tap([*inner, Span(k)], v)))

        total = b.number(zero, type)
        each = [range(p.taps) for p in phases]
        if target.has_thread_blocks and prod(map(len, each)) <= _TOGETHER:
            total = reduce(b.add, [touched([Span(b.index(k)) for k in at]) for at in product(*each)], total)
        elif all(each):
            (total,) = tap([], [total])
        indices = [s.start for s in spans]
        for g, p, r in zip(places, phases, rest, strict=True):
            indices[g] = b.add(b.multiply(indices[g], b.index(step_of[g])), b.add(r, b.index(p.first)))
        distance = [step_of.get(g, 1) for g in tiled]
        # Phases that begin later may have one element less than others.
        fits = all(
            below(p.first + p.count - 1 + (sizes[g] - 1) * step_of[g], lengths[g])
            for g, p in zip(places, phases, strict=True)
        )
        masked = not fits or any(span.masked for span in spans)
        b.store(
            total, builder.results[0], indices, steps=distance if max(distance) > 1 else None, masked=masked
        )

    def every(spans: list[Span], phases: Sequence[_Phases], rest: Sequence[Value]) -> None:
        """All elements of some phases."""
        if len(rest) == len(phases):
            add(spans, phases, rest)
        elif phases[len(rest)].count == 1:
            every(spans, phases, [*rest, b.index(0)])
        else:
            b.loop(0, phases[len(rest)].count, 1, (), lambda r, _: every(spans, phases, [*rest, r]))

    def one(spans: list[Span], phases: Sequence[_Phases], rest: Sequence[Value]) -> None:
        """The `rest`-th of some phases, if there is one."""
        inside = [
            b.less(r, b.index(p.count))
            for r, p, most in zip(rest, phases, parted, strict=True)
            if p.count < most
        ]
        if inside:
            b.branch(reduce(b.bitwise_and, inside), lambda: add(spans, phases, rest))
        else:
            add(spans, phases, rest)

    def tile(spans: list[Span]) -> None:
        rest, at = [span.start for span in spans[: len(parted)]], spans[len(parted) :]
        for phases in product(*ways):
            if parted:
                one(at, phases, rest)
            else:
                every(at, phases, [])

    return builder.visited(tile)
