# SPDX-License-Identifier: Apache-2.0
"""Tiles of column kernels: the columns of one row of results, and all columns of several short rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from types import MappingProxyType

from ....ir.core import Value
from ....ir.types import MemRefType, VectorType, element_type, shape_of
from ....support.lengths import is_open
from ...analysis.reduction import Parts, Position, Reduction, flat, in_parts
from .fusion_kernel import Kernel, Tile
from .line_tiles import LineTile, line_spans
from .reading import all_inside
from .tiling import Span, linear, sections

#: Elements of a window that are unrolled.
MOST_UNROLLED = 16
NO_LOOPS: Mapping[int, Span] = MappingProxyType({})


class ColumnTiles:
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

    @property
    def may_overlap(self) -> bool:
        """Whether the last tile of several rows may overlap the one before."""
        return False

    def tile(self, span: Span) -> None:
        """One tile of results: the reduced loops run over vectors of accumulators, then the epilogue. Most windows are
        inside the border: these are computed in a branch without checks."""
        near = None if self.kernel.has_thread_blocks else self.inside(span)
        if not near:
            totals = self.total(span, near is not None)
        else:
            totals = self.b.branch(
                reduce(self.b.bitwise_and, near),
                lambda: self.total(span, True),
                lambda: self.total(span, False),
            )
        self.finish(span, totals)

    def spans(self, span: Span, inner: Mapping[int, Span] = NO_LOOPS) -> dict[int, Span]:
        """The positions of the loops in a tile, of the reduced ones those that are given."""
        return {**self.outer, **inner, self.last: span}

    def inside(self, span: Span) -> list[Value] | None:
        """The conditions under which all inputs of a tile of results are inside; None if some never are."""
        nest, found = self.kernel.nest, list[Value]()
        for value, access in nest.accesses.items():
            if value in self.kernel.staged:
                continue
            conditions = all_inside(self.b, self.spans(span), access)
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
                    size,
                    self.together,
                    values,
                    lambda rows, v: level({**inner, l: rows}, v),
                    alike=True,
                    back=self.may_overlap,
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
        return self.one_row(values) if self.together else values

    def one_row(self, values: Sequence[Value]) -> list[Value]:
        """Accumulators of tiles of several rows reduced to one row."""
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
        here = self.at(inner, span, inside=inside)
        # Everything is loaded before the stores: they may overwrite an input.
        made: list[Parts] = []
        for r, parts in zip(self.found, in_parts(values, self.found), strict=True):
            made.append(self.gather(r, parts, here.neutral(r, self.reduced[-1]), self.position(r, inner)))
        here.store([(v, buffer) for v, buffer in self.buffers.items() if self.every(v)])
        return flat(made)

    def gather(self, reduction: Reduction, parts: Parts, tile: Value, at: Value | None) -> Parts:
        """The accumulators combined with one more tile, which begins at a position."""
        return reduction.gather(self.b, parts, tile, at)

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
        spans = self.spans(span, inner)
        whole = [spans.get(l, Span(self.b.index(0))) for l in range(self.last + 1)]
        return self.of(self.kernel, whole, known, inside, self.found[0].beyond)


class MergedColumns(ColumnTiles):
    """All columns of some short rows, in a `LoopNest.in_line`: of rows of results, or of rows that are reduced. Each of the
    latter in a tile has its accumulators, which are combined at the end; a shorter last tile has accumulators of one row."""

    of = LineTile

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.sizes[self.kernel.nest.merged[1]]

    @property
    def may_overlap(self) -> bool:
        return all(r.idempotent for r in self.found) and not any(map(self.every, self.buffers))

    def every(self, output: Value) -> bool:
        # The loops of a value with all elements end in the merged one.
        return self.last in self.kernel.nest.loops[output] if self.together else super().every(output)

    def spans(self, span: Span, inner: Mapping[int, Span] = NO_LOOPS) -> dict[int, Span]:
        """`span` is that of the rows of results."""
        near = self.kernel.nest.merged[0]
        rows = inner.get(near, Span(self.b.index(0))) if self.together else span
        own = line_spans(self.b, rows, self.columns)
        return {**self.outer, **inner, **dict(zip(range(near, self.last + 1), own, strict=True))}

    def starts(self, span: Span) -> list[Value]:
        found = [r.starts(self.b, ((self.together or span.size) * self.columns,)) for r in self.found]
        near = self.sizes[self.kernel.nest.merged[0]]
        if self.together and near % self.together and not self.may_overlap:
            found += [r.starts(self.b, (self.columns,), none=True) for r in self.found]
        return flat(found)

    def joined(
        self, inner: dict[int, Span], span: Span, values: Sequence[Value], inside: bool = False
    ) -> list[Value]:
        count = sum(len(r.carried) for r in self.found)
        full, short = values[:count], values[count:]
        if self.together and inner[self.reduced[-1]].size < self.together:
            return [*full, *super().joined(inner, span, short, inside)]
        return [*super().joined(inner, span, full, inside), *short]

    def gather(self, reduction: Reduction, parts: Parts, tile: Value, at: Value | None) -> Parts:
        if shape_of(tile.type) == shape_of(parts[0].type):
            return super().gather(reduction, parts, tile, at)
        return reduction.joined(self.b, parts, reduction.of_tile(self.b, self.in_rows(tile), 0, at))

    def one_row(self, values: Sequence[Value]) -> list[Value]:
        count = sum(len(r.carried) for r in self.found)
        found = super().one_row([self.in_rows(value) for value in values[:count]])
        if not values[count:]:
            return found
        each = (in_parts(own, self.found) for own in (found, values[count:]))
        return flat([r.joined(self.b, x, y) for r, x, y in zip(self.found, *each, strict=True)])

    def in_rows(self, line: Value) -> Value:
        """Adjacent rows as the rows of a tile of two dimensions."""
        (size,) = shape_of(line.type)
        return self.b.reshape(
            line, type=VectorType((size // self.columns, self.columns), element_type(line.type))
        )
