# SPDX-License-Identifier: Apache-2.0
"""Column kernels: reductions over outer loops, so that neighbouring results are computed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.core import Op, Value
from ...ir.types import VectorType
from ...support.target import Target
from .plan import (
    PROGRAM_ELEMENTS,
    Kernel,
    Plan,
    Reduction,
    Span,
    Tile,
    plan,
    power_of_two,
    reductions,
    tile_width,
    widest_item,
)


def columns_kernel(fusion: Op, target: Target, name: str) -> tuple[Op, Plan]:
    """The kernel of a `columns` fusion: the innermost loop is kept, one of the others is reduced."""
    planned = plan(fusion)
    found = reductions(planned.ops)
    kept = set(planned.loops[found[0].result])
    last = len(planned.sizes) - 1
    outer = [l for l in range(last) if l in kept]
    reduced = [l for l in range(last) if l not in kept]
    columns = planned.sizes[last]
    if target.execution == "warps":
        width = min(power_of_two(columns), target.threads)
    else:
        width = min(columns, tile_width(target, widest_item(planned), len(planned.ops)))
    work = prod(planned.sizes[l] for l in reduced)
    tiles = -(-columns // width)
    rows = prod(planned.sizes[l] for l in outer)
    if target.execution == "warps":
        block, programs = 1, tiles
    else:
        block = max(1, min(tiles, PROGRAM_ELEMENTS // max(1, work * width)))
        programs = -(-tiles // block)
    grid = (rows, programs) if rows * programs > 1 or target.execution == "warps" else ()
    kernel = Kernel(planned, target, grid)
    b = kernel.b
    positions: dict[int, Span] = {}
    row = kernel.programs[0] if grid else b.index(0)
    for l in reversed(outer):
        positions[l] = Span(b.remainder(row, b.index(planned.sizes[l])) if len(outer) > 1 else row)
        row = b.floor_divide(row, b.index(planned.sizes[l])) if len(outer) > 1 else row

    def column(span: Span) -> None:
        _column(kernel, positions, reduced, span, found)

    if target.execution == "warps":
        column(Span(b.multiply(kernel.programs[1], b.index(width)), width, columns % width != 0))
    elif not grid or programs == 1:
        kernel.tiles(columns, width, (), lambda span, _: column(span) or ())
    else:
        start = b.multiply(kernel.programs[1], b.index(block * width))
        stop = b.minimum(b.add(start, b.index(block * width)), b.index(columns))
        kernel.tiles_between(start, stop, columns, width, column)
    threads = max(32, width) if target.execution == "warps" else None
    return kernel.finish(name, threads), planned


def _column(
    kernel: Kernel, outer: dict[int, Span], reduced: Sequence[int], span: Span, found: Sequence[Reduction]
) -> None:
    """One tile of results: the reduced loops run over vectors of accumulators, then the epilogue."""
    b = kernel.b
    last = len(kernel.plan.sizes) - 1
    first_pass = [v for v in kernel.plan.outputs if len(kernel.plan.loops[v]) == last + 1]
    buffers = dict(zip(kernel.plan.outputs, kernel.results, strict=True))

    def tile(inner: dict[int, Span], known: dict[Value, Value] | None = None) -> Tile:
        spans = {**outer, **inner, last: span}
        return Tile(kernel, [spans.get(l, Span(b.index(0))) for l in range(last + 1)], known)

    def level(inner: dict[int, Span], values: Sequence[Value]) -> Sequence[Value]:
        if len(inner) < len(reduced):
            l = reduced[len(inner)]
            return b.loop(0, kernel.plan.sizes[l], 1, values, lambda i, v: level({**inner, l: Span(i)}, v))
        here = tile(inner)
        # Everything is loaded before the stores: they may overwrite an input.
        made = [r.combine(b, v, r.widen(b, here.at(r.source))) for r, v in zip(found, values, strict=True)]
        here.store([(v, buffers[v]) for v in first_pass])
        return made

    starts = [b.number(r.start, VectorType((span.size,), r.accumulator)) for r in found]
    totals = level({}, starts)
    known = {r.result: r.narrow(b, total) for r, total in zip(found, totals, strict=True)}
    tile({}, known).store([(v, buffers[v]) for v in kernel.plan.outputs if v not in first_pass])
