# SPDX-License-Identifier: Apache-2.0
"""Column kernels: reductions over outer loops, so that adjacent results are computed in one tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from ....ir.core import Op, Value
from ....ops.schedules import Columns
from ....support.lengths import is_multiple, is_open, may_be_several, power_of_two
from ....support.target import Target
from ...analysis.loop_nest import LoopNest, chunk_width, loop_nest
from ...analysis.reduction import Position, Reduction
from ...schedule.loops import column_loops, merged, rows_at_once
from ...schedule.windows import order, staged
from .column_tiles import ColumnTiles, MergedColumns
from .finished import Finished
from .fusion_kernel import Kernel
from .staged import Staged
from .tiling import Span, each_position, linear, masked_tile, round_up, several, share, tile_at

#: Elements of the narrowest tile of columns that are left over.
_LEAST_LANES = 8


def columns_kernel(fusion: Op, target: Target, schedule: Columns) -> Finished:
    """The kernel of a `columns` fusion: the innermost loop is kept, one of the others is reduced."""
    nest = loop_nest(fusion)
    found, outer, reduced = column_loops(nest, target)
    if lines := merged(nest, reduced, target, schedule.tile):
        outer = [l for l in outer if l != len(nest.sizes) - 2]
        return _for_vectors(_Inputs(lines, target, schedule, outer, reduced, found))
    staging = _for_staged_windows if schedule.stage and outer else _for_vectors
    build = _for_threads if target.has_thread_blocks else staging
    return build(_Inputs(nest, target, schedule, outer, reduced, found))


class _Inputs(NamedTuple):
    """The input of a builder: `outer` loops are kept, as are those of a tile; the `found` reductions run over the `reduced` ones."""

    nest: LoopNest
    target: Target
    schedule: Columns
    outer: Sequence[int]
    reduced: Sequence[int]
    found: Sequence[Reduction]


class _Stripes:
    """A kernel whose programs divide groups of results, and stripes of their columns: `first` is the number of a program's group, and its
    columns are from `start` to `stop`. Where loops are merged, these are not columns but rows of results."""

    def __init__(self, of: _Inputs, groups: int):
        nest, target, schedule = of.nest, of.target, of.schedule
        self.columns, self.width, stripe = nest.sizes[-1], schedule.tile, schedule.stripe
        if nest.merged:
            near, columns = nest.merged
            self.columns = 1 if near in of.reduced else nest.sizes[near]
            self.width, stripe = self.width // nest.sizes[columns], stripe // nest.sizes[columns]
        if not is_open((self.columns,)):
            self.width, stripe = min(self.columns, self.width), min(self.columns, stripe)
        grid = (groups, -(-self.columns // stripe))
        self.stripe, self.are_several = stripe, may_be_several(grid[1])
        self.kernel = Kernel(nest, target, several(grid))
        self.first, place = self.kernel.program_indices(grid)
        self.start, self.stop = share(self.kernel.b, place, stripe, self.columns)

    def between(self, body: Callable[[Span], None]) -> None:
        """Runs `body` on the tiles of a program's stripe."""
        self.kernel.tiles_between(self.start, self.stop, self.columns, self.width, body)

    def tiles(self, body: Callable[[Span], None]) -> None:
        """The same; on those of all columns, if there is one stripe."""
        if self.are_several:
            self.between(body)
        else:
            self.kernel.tiles(self.columns, self.width, (), lambda span, _: body(span))


def _for_threads(of: _Inputs) -> Finished:
    nest, target, schedule, outer, reduced, found = of
    columns, width = nest.sizes[-1], schedule.tile
    rows = [nest.sizes[l] for l in outer]
    at_once = rows_at_once(nest, outer, schedule.rows)
    groups = [-(-size // group) for size, group in zip(rows, at_once, strict=True)]
    kernel = Kernel(nest, target, (prod(groups), -(-columns // width)))
    b, places = kernel.b, kernel.delinearize(kernel.programs[0], groups) if groups else []
    spans = [tile_at(b, at.start, *each) for at, *each in zip(places, at_once, rows, strict=True)]
    span = Span(b.multiply(kernel.programs[1], b.index(width)), width, columns % width != 0)
    together = min(schedule.band, power_of_two(nest.sizes[reduced[-1]])) if schedule.band > 1 else 0
    together = together if prod(at_once) == 1 and nest.has_tiles(reduced[-1]) else 0
    positions = dict(zip(outer, spans, strict=True))
    gathered = min(together, max(1, chunk_width(nest, schedule.threads) // width))
    if any(isinstance(r, Position) for r in found):
        gathered = together
    ColumnTiles(kernel, positions, reduced, found, together=together, gathered=gathered).tile(span)
    return kernel.done(schedule.threads)


def _for_vectors(of: _Inputs) -> Finished:
    """Programs divide the kept loops: some rows of results, or some columns of one.

    Data that fit into the L1 cache are read one tile of columns after the other. More data are read in memory order:
    bands of some rows by a stripe of many columns, whose sums are in scratch. Rows of few columns are merged.
    """
    nest, _, schedule, outer, reduced, found = of
    sizes = [nest.sizes[l] for l in outer]
    rows, group = prod(sizes), schedule.rows
    stripes = _Stripes(of, -(-rows // group))
    kernel, b = stripes.kernel, stripes.kernel.b
    tiles, band, together = ColumnTiles, schedule.band, 0
    if nest.merged:
        near, columns = (nest.sizes[l] for l in nest.merged)
        tiles, band = MergedColumns, 0
        together = min(schedule.tile // columns, near) if nest.merged[0] in reduced else 0

    def row(places: Sequence[Span]) -> None:
        body = tiles(kernel, dict(zip(outer, places, strict=True)), reduced, found, band, together)
        if body.rows:
            body.bands(stripes.between, stripes.start, stripes.stripe)
        else:
            stripes.tiles(body.tile)

    if rows == 1:
        row([Span(b.index(0))] * len(outer))
    else:
        each_position(b, *share(b, stripes.first, group, rows), sizes, row)
    return kernel.done()


def _for_staged_windows(of: _Inputs) -> Finished:
    """Programs divide blocks of adjacent rows of results, which read from one copy of the inputs that cross borders."""
    nest, target, schedule, outer, reduced, found = of
    (*before, along), last, sizes = outer, len(nest.sizes) - 1, nest.sizes
    rows, unroll, stage = sizes[along], schedule.unroll, schedule.stage
    blocks, group = -(-rows // stage), schedule.rows // stage
    inner = [*(sizes[l] for l in before), *several([blocks])]
    stripes = _Stripes(of, -(-prod(inner) // group))
    kernel, b, start = stripes.kernel, stripes.kernel.b, stripes.start
    counts = {along: stage, **{l: sizes[l] for l in reduced}, last: stripes.stripe}
    kernel.staged = {
        value: Staged(kernel, access, kernel.buffers[value], counts, group)
        for value, access in staged(nest, target, outer).items()
    }
    if not any(isinstance(r, Position) for r in found):  # which come in their own order
        for value in kernel.staged:
            reduced = order(nest.accesses[value], outer, reduced)
    begin, end = share(b, stripes.first, group, prod(inner))
    even = is_multiple(rows, unroll)

    def found_at(places: Sequence[Span]) -> tuple[dict[int, Span], Value, Value]:
        """For a block: the positions of the loops, its first row, and its number of rows. Selects its copies."""
        at = dict(zip(before, places, strict=False))
        top = b.multiply(places[-1].start, b.index(stage)) if may_be_several(blocks) else b.index(0)
        number = linear(b, places, inner or [1])
        for copies in kernel.staged.values():
            copies.choose(b.subtract(number, begin))
        return at, top, b.minimum(b.subtract(b.index(rows), top), b.index(stage))

    def fill(places: Sequence[Span]) -> None:
        at, top, here = found_at(places)
        needed = dict[int, Value]()
        if not is_multiple(rows, stage):
            needed[along] = here if even else b.minimum(round_up(b, here, unroll), b.index(stage))
        if stripes.are_several:
            needed[last] = round_up(b, b.subtract(stripes.stop, start), kernel.masked_length(stripes.width))
        spans = [at.get(l, Span(b.index(0))) for l in range(last + 1)]
        spans[along], spans[last] = Span(top), Span(start)
        for copies in kernel.staged.values():
            copies.fill(spans, needed)

    def block(places: Sequence[Span]) -> None:
        at, top, here = found_at(places)

        def run(i: Value, masked: bool) -> None:
            row = Span(b.add(top, i), unroll if unroll > 1 else 0, masked)

            def column(span: Span) -> None:
                near = b.subtract(span.start, start) if stripes.are_several else span.start
                for copies in kernel.staged.values():
                    copies.places = {row.start: i, span.start: near}
                ColumnTiles(kernel, {**at, along: row}, reduced, found).tile(span)

            def sized(span: Span) -> None:
                """The last columns, whose number is known at the call, in half a register if that is enough."""
                half = span.size // 2
                if span.masked and half >= _LEAST_LANES:
                    masked_tile(b, span, b.subtract(b.index(sizes[last]), span.start), half, column)
                else:
                    column(span)

            stripes.tiles(sized)

        if even:
            b.loop(0, here, unroll, (), lambda i, _: run(i, False))
        else:
            step, most = b.index(unroll), b.subtract(here, b.index(unroll - 1))
            (full,) = b.loop(0, most, unroll, [b.index(0)], lambda i, _: run(i, False) or [b.add(i, step)])
            b.loop(full, here, unroll, (), lambda i, _: run(i, True))

    # All copies of a program come before all that reads them: data that were just stored are slow to load at another offset.
    for each in (fill, block):
        each_position(b, begin, end, inner or [1], each)
    return kernel.done()
