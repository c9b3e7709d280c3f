# SPDX-License-Identifier: Apache-2.0
"""Column kernels: reductions over outer loops, so that adjacent results are computed in one tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

from ....ir.core import Op, Value
from ....ir.types import MemRefType, VectorType
from ....ops.schedules import Columns
from ....support.lengths import is_multiple, is_open, may_be_several, power_of_two
from ....support.target import Target
from ...analysis.loop_nest import LoopNest, chunk_width, loop_nest
from ...analysis.reduction import Parts, Position, Reduction, flat, in_parts, reductions
from ...schedule.loops import collapsed, in_short_rows, rows_at_once
from ...schedule.windows import order, staged
from .collapsed_columns import collapsed_columns_kernel
from .finished import Finished
from .fusion_kernel import Kernel, Tile
from .line_tiles import LineTile, line_spans
from .reading import all_inside
from .staged import Staged
from .tiling import Span, each_position, linear, masked_tile, round_up, sections, several, share

#: Elements of a window that are unrolled.
MOST_UNROLLED = 16
#: Elements of the narrowest tile of columns that are left over.
_LEAST_LANES = 8


def columns_kernel(fusion: Op, target: Target, schedule: Columns) -> Finished:
    """The kernel of a `columns` fusion: the innermost loop is kept, one of the others is reduced."""
    nest = loop_nest(fusion)
    found = reductions(nest.ops, target)
    kept = set(nest.loops[found[0].result])
    last = len(nest.sizes) - 1
    outer = [l for l in range(last) if l in kept]
    reduced = [l for l in range(last) if l not in kept]
    if lines := collapsed(nest, reduced, target, schedule.tile):
        return collapsed_columns_kernel(lines, schedule, target, outer, reduced)
    if lines := in_short_rows(nest, reduced, target, schedule.tile):
        return _for_short_rows(_Inputs(lines, target, schedule, outer[:-1], reduced, found))
    staging = _for_staged_windows if schedule.stage and outer else _for_vectors
    build = _for_threads if target.has_thread_blocks else staging
    return build(_Inputs(nest, target, schedule, outer, reduced, found))


class _Inputs(NamedTuple):
    """The input of a builder: `outer` loops are kept, as is the innermost; the `found` reductions run over the `reduced` ones."""

    nest: LoopNest
    target: Target
    schedule: Columns
    outer: Sequence[int]
    reduced: Sequence[int]
    found: Sequence[Reduction]


class _Stripes:
    """A kernel whose programs divide groups of results, and stripes of their columns: `first` is the number of a program's group, and its
    columns are from `start` to `stop`."""

    def __init__(self, nest: LoopNest, target: Target, schedule: Columns, groups: int):
        self.columns, self.width, stripe = nest.sizes[-1], schedule.tile, schedule.stripe
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
    places = [
        Span(b.multiply(place.start, b.index(group)), group, size % group != 0) if group > 1 else place
        for place, group, size in zip(places, at_once, rows, strict=True)
    ]
    span = Span(b.multiply(kernel.programs[1], b.index(width)), width, columns % width != 0)
    together = min(schedule.band, power_of_two(nest.sizes[reduced[-1]])) if schedule.band > 1 else 0
    together = together if prod(at_once) == 1 and nest.has_tiles(reduced[-1]) else 0
    positions = dict(zip(outer, places, strict=True))
    gathered = min(together, max(1, chunk_width(nest, schedule.threads) // width))
    if any(isinstance(r, Position) for r in found):
        gathered = together
    _Columns(kernel, positions, reduced, found, together=together, gathered=gathered).tile(span)
    return kernel.done(schedule.threads)


def _for_vectors(of: _Inputs) -> Finished:
    """Programs divide the kept loops: some rows of results, or some columns of one.

    Data that fit into the L1 cache are read one tile of columns after the other. More data are read in memory order:
    bands of some rows by a stripe of many columns, whose sums are in scratch.
    """
    nest, target, schedule, outer, reduced, found = of
    sizes = [nest.sizes[l] for l in outer]
    rows, group = prod(sizes), schedule.rows
    stripes = _Stripes(nest, target, schedule, -(-rows // group))
    kernel, b = stripes.kernel, stripes.kernel.b

    def row(places: Sequence[Span]) -> None:
        body = _Columns(kernel, dict(zip(outer, places, strict=True)), reduced, found, schedule.band)
        if schedule.band:
            body.bands(stripes.between, stripes.start, stripes.stripe)
        else:
            stripes.tiles(body.tile)

    if rows == 1:
        row([Span(b.index(0))] * len(outer))
    else:
        each_position(b, *share(b, stripes.first, group, rows), sizes, row)
    return kernel.done()


def _for_short_rows(of: _Inputs) -> Finished:
    """Programs divide the kept loops of a nest that `LoopNest.in_line` returns. A tile has several short rows of results."""
    nest, target, schedule, outer, reduced, found = of
    *_, near, columns, _ = nest.sizes
    sizes, together = [nest.sizes[l] for l in outer], schedule.tile // columns
    full, tiles = near // together, -(-near // together)
    rows, group, part = prod(sizes), schedule.rows, schedule.stripe // schedule.tile
    grid = (-(-rows // group), -(-tiles // part))
    kernel = Kernel(nest, target, several(grid))
    b = kernel.b
    first, place = kernel.program_indices(grid)
    start, stop = share(b, place, part, tiles)

    def row(places: Sequence[Span]) -> None:
        body = _ShortRows(kernel, dict(zip(outer, places, strict=True)), reduced, found)

        def tile(i: Value, _: object = None) -> None:
            body.tile(Span(b.multiply(i, b.index(together)), together))

        b.loop(start, b.minimum(stop, b.index(full)), 1, (), tile)
        if full < tiles:
            rest = Span(b.index(full * together), near - full * together)
            b.branch(b.less(b.index(full), stop), lambda: body.tile(rest), lambda: None)

    if rows == 1:
        row([Span(b.index(0))] * len(outer))
    else:
        each_position(b, *share(b, first, group, rows), sizes, row)
    return kernel.done()


def _for_staged_windows(of: _Inputs) -> Finished:
    """Programs divide blocks of adjacent rows of results, which read from one copy of the inputs that cross borders."""
    nest, target, schedule, outer, reduced, found = of
    (*before, along), last, sizes = outer, len(nest.sizes) - 1, nest.sizes
    rows, unroll, stage = sizes[along], schedule.unroll, schedule.stage
    blocks, group = -(-rows // stage), schedule.rows // stage
    inner = [*(sizes[l] for l in before), *several([blocks])]
    stripes = _Stripes(nest, target, schedule, -(-prod(inner) // group))
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
                _Columns(kernel, {**at, along: row}, reduced, found).tile(span)

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


class _Columns:
    """The columns of one row of results."""

    #: What has the values of a tile.
    of: type[Tile] = Tile

    def __init__(
        self,
        kernel: Kernel,
        outer: dict[int, Span],
        reduced: Sequence[int],
        found: Sequence[Reduction],
        band: int = 0,
        together: int = 0,
        gathered: int = 0,
    ):
        self.rows = band
        self.together = together  # rows of one tile, if several
        self.gathered = gathered  # rows of accumulators that they become: no thread has several of one column
        self.kernel, self.b = kernel, kernel.b
        self.outer, self.reduced, self.found = outer, reduced, found
        self.sizes = kernel.nest.sizes
        self.last = len(self.sizes) - 1
        self.buffers = dict(zip(kernel.nest.outputs, kernel.results, strict=True))

    def every(self, output: Value) -> bool:
        """Whether an output has all elements, not only those of the results."""
        return {*self.reduced} <= {*self.kernel.nest.loops[output]}

    def tile(self, span: Span) -> None:
        """One tile of results: the reduced loops run over vectors of accumulators, then the epilogue. Most windows are
        inside the border: these are computed in a branch without checks."""
        near = None if self.kernel.has_thread_blocks else self.inside(self.spans(span))
        if not near:
            totals = self.total(span, near is not None)
        else:
            totals = self.b.branch(
                reduce(self.b.bitwise_and, near),
                lambda: self.total(span, True),
                lambda: self.total(span, False),
            )
        self.finish(span, totals)

    def spans(self, span: Span) -> dict[int, Span]:
        """The positions of the kept loops in a tile."""
        return {**self.outer, self.last: span}

    def inside(self, spans: Mapping[int, Span]) -> list[Value] | None:
        """The conditions under which all inputs of a tile of results are inside; None if some never are."""
        nest, found = self.kernel.nest, list[Value]()
        for value, access in nest.accesses.items():
            if value in self.kernel.staged:
                continue
            conditions = all_inside(self.b, spans, access)
            if conditions is None:
                return None
            found += conditions
        return found

    def total(self, span: Span, inside: bool) -> Sequence[Value]:
        """The accumulators of a tile of results."""

        # The taps of small windows are unrolled, each at a constant offset; so are those of each row of a
        # larger one.
        def unrolled(inner: int) -> bool:
            taps = [self.sizes[l] for l in self.reduced[inner:]]
            few = not is_open(taps) and prod(taps) <= MOST_UNROLLED
            return bool(self.kernel.nest.accesses) and few

        cuts = self.kernel.nest.cuts(self.kernel.target)

        def level(inner: dict[int, Span], values: Sequence[Value]) -> Sequence[Value]:
            if len(inner) == len(self.reduced):
                return self.joined(inner, span, values, inside)
            l = self.reduced[len(inner)]
            size = self.sizes[l]
            if l == self.reduced[-1] and self.together:
                return self.kernel.tiles(
                    size, self.together, values, lambda rows, v: level({**inner, l: rows}, v), alike=True
                )
            if not unrolled(len(inner)):
                for section in sections(size, cuts[l]):

                    def row(
                        i: Value, v: Sequence[Value], section: tuple[int, int] = section
                    ) -> Sequence[Value]:
                        return level({**inner, l: Span(i, section=section)}, v)

                    values = self.b.loop(*section, 1, values, row)
                return values
            for i in range(size):
                values = level({**inner, l: Span(self.b.index(i), section=(i, i + 1))}, values)
            return values

        values = level({}, self.starts(span))
        if not self.together:
            return values
        # Tiles of several rows are reduced to one row at the end.
        pairs = zip(self.found, in_parts(values, self.found), strict=True)
        return flat([r.reduced(self.b, parts, 0) for r, parts in pairs])

    def bands(self, tiles: Callable[[Callable[[Span], None]], None], start: Value, stripe: int) -> None:
        """All tiles of a stripe, one band of rows after the other; `tiles` runs a body over them."""
        b = self.b
        elements = [element for r in self.found for element in r.carried]
        sums = [b.alloc(type=MemRefType((stripe,), element, None, 0, 3)) for element in elements]
        size = self.sizes[self.reduced[-1]]
        full = size // self.rows * self.rows

        def keep(span: Span, values: Sequence[Value]) -> None:
            for value, buffer in zip(values, sums, strict=True):
                b.store(value, buffer, [b.subtract(span.start, start)])

        def kept(span: Span) -> list[Value]:
            at = [b.subtract(span.start, start)]
            return [
                b.load(buffer, at, type=VectorType((span.size,), element))
                for element, buffer in zip(elements, sums, strict=True)
            ]

        def band(inner: dict[int, Span], first: Value, rows: int) -> None:
            def add(span: Span) -> None:
                values: Sequence[Value] = kept(span)
                for i in range(rows):
                    here = {**inner, self.reduced[-1]: Span(b.add(first, b.index(i)))}
                    values = self.joined(here, span, values)
                keep(span, values)

            tiles(add)

        def level(inner: dict[int, Span]) -> None:
            if len(inner) < len(self.reduced) - 1:
                l = self.reduced[len(inner)]
                b.loop(0, self.sizes[l], 1, (), lambda i, _: level({**inner, l: Span(i)}))
                return
            b.loop(0, full, self.rows, (), lambda i, _: band(inner, i, self.rows))
            if is_open((size,)):
                b.loop(full, size, 1, (), lambda i, _: band(inner, i, 1))
            elif size > full:
                band(inner, b.index(full), size - full)

        tiles(lambda span: keep(span, self.starts(span)))
        level({})
        tiles(lambda span: self.finish(span, kept(span)))

    def starts(self, span: Span) -> list[Value]:
        sizes = [place.size for place in self.outer.values() if place.size]
        shape = (*sizes, *[self.gathered] * bool(self.together), self.spans(span)[self.last].size)
        return flat([r.starts(self.b, shape) for r in self.found])

    def joined(
        self, inner: dict[int, Span], span: Span, values: Sequence[Value], inside: bool = False
    ) -> list[Value]:
        """The accumulators after one more element of each column; `inside`: no border is crossed."""
        b, here = self.b, self.at(inner, span, inside=inside)
        # Everything is loaded before the stores: they may overwrite an input.
        made: list[Parts] = []
        for r, parts in zip(self.found, in_parts(values, self.found), strict=True):
            made.append(r.gather(b, parts, here.neutral(r, self.reduced[-1]), self.position(r, inner)))
        here.store([(v, buffer) for v, buffer in self.buffers.items() if self.every(v)])
        return flat(made)

    def position(self, reduction: Reduction, inner: dict[int, Span]) -> Value | None:
        """The position of an element among those that are reduced, if the reduction needs it."""
        if not isinstance(reduction, Position):
            return None
        return linear(self.b, [inner[l] for l in self.reduced], [self.sizes[l] for l in self.reduced])

    def finish(self, span: Span, totals: Sequence[Value]) -> None:
        """Computes the values that follow from the results, and stores them."""
        pairs = zip(self.found, in_parts(totals, self.found), strict=True)
        known = {r.result: r.result_of(self.b, parts) for r, parts in pairs}
        outputs = [(v, buffer) for v, buffer in self.buffers.items() if not self.every(v)]
        self.at({}, span, known).store(outputs)

    def at(
        self,
        inner: dict[int, Span],
        span: Span,
        known: dict[Value, Value] | None = None,
        inside: bool = False,
    ) -> Tile:
        spans = {**inner, **self.spans(span)}
        whole = [spans.get(l, Span(self.b.index(0))) for l in range(self.last + 1)]
        return self.of(self.kernel, whole, known, inside, self.found[0].beyond)


class _ShortRows(_Columns):
    """All columns of some short rows of results."""

    of = LineTile

    def spans(self, span: Span) -> dict[int, Span]:
        own = line_spans(self.b, span, self.sizes[-2])
        return {**self.outer, **dict(zip(range(self.last - 2, self.last + 1), own, strict=True))}
