# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention on a CPU: the weights and their gradients are recomputed for some queries and one block of keys at a time.

A program has an element of the batch: the gradients of keys and values are sums over all queries, which are added in order, so that the
result does not depend on the number of programs. Queries are along the lanes of registers, as in the attention itself, which also
provides the largest scores and the sums of their exponentials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.core import Op, Value
from ....ir.types import VectorType, i1, i64, shape_of
from ....ops.schedules import Stream
from ....support.target import Target
from ...analysis.product import Product
from ...fuse.gradient_loops import StreamedGradient, Total
from ...schedule.attention import DEPTH, POWERS
from .extents import Extent
from .finished import Finished
from .fusion_kernel import Tile
from .reading import Matrix
from .streaming import Streaming
from .tiling import Span


def gradient_kernel(fusion: Op, how: StreamedGradient, target: Target, schedule: Stream) -> Finished:
    """The kernel of an `attention` fusion that computes gradients."""
    return _Builder(fusion, how, target, schedule).build()


class _Builder(Streaming):
    def __init__(self, fusion: Op, how: StreamedGradient, target: Target, schedule: Stream):
        batch = max(1, how.scores.batch)
        shapes = [
            (batch, how.key_count, t.product.columns)
            if t.by_key
            else (batch, how.parts, how.query_count, t.product.columns)
            for t in how.totals
        ]
        more = [t.side for t in how.totals]
        super().__init__(fusion, how, target, schedule, (how.scores.batch,), more, shapes)
        self.gradient, self.shapes = how, tuple(shapes)
        (self.batch,) = self.programs
        before = [self.batch] if how.scores.batch else []

        def matrix(number: int, product: Product, left: bool) -> Matrix:
            return Matrix(self.b, self.sides[number], before, product.lhs if left else product.rhs)

        self.query_side, self.key_side = (matrix(i, how.scores, i == 1) for i in (0, 1))
        self.error_side, self.value_side = (matrix(2 + i, how.error_product, i == 1) for i in (0, 1))
        self.right = [matrix(4 + i, t.product, False) for i, t in enumerate(how.totals)]

    def build(self) -> Finished:
        b, how, schedule = self.b, self.gradient, self.schedule
        self.turned = self.scratch(self.panels, how.scores.depth, self.lanes)
        self.turned_errors = self.scratch(self.panels, how.error_product.depth, self.lanes)
        lefts = dict.fromkeys([how.weights, *(t.left for t in how.totals)])
        self.lefts = {v: self.scratch(self.panels, schedule.keys, self.lanes) for v in lefts}
        self.errors = self.scratch(schedule.keys, self.lanes)
        self.copy_masks(schedule.queries)
        for total, result in zip(how.totals, self.builder.results, strict=True):
            if total.by_key:
                self.clear(result, Extent(b, how.key_count), total, lambda i: [self.batch, i], False)
        strips = -(-how.query_count // schedule.queries)

        def strip(number: Value, _: object) -> None:
            self.first = b.multiply(number, b.index(schedule.queries))
            count = self.count(number)
            self.over_panels(count, self.begin)
            self.over_keys(lambda start, keys: self.block(count, start, keys))

        def part(number: Value, _: object) -> None:
            self.outer = number
            b.loop(0, strips, 1, (), strip, name="strip")

        b.loop(0, how.parts, 1, (), part, name="part")
        return Finished(self.builder.finish(), self.inputs, self.shapes, name="attention_gradient")

    def over_tiles(
        self, rows: Extent, columns: int, body: Callable[[Value, Value, VectorType], None], name: str
    ) -> None:
        """Runs over tiles of some registers of a part of a result: `body(row, column, type)`."""

        def line(i: Value, m: int) -> None:
            def tile(span: Span) -> None:
                body(i, span.start, VectorType((m, span.size), self.element))

            Extent(self.b, columns).tiles(self.lanes, tile, "column")

        rows.even_tiles(self.rows, line, name)

    def clear(
        self, result: Value, rows: Extent, total: Total, place: Callable[[Value], list[Value]], masked: bool
    ) -> None:
        """Sets rows of a result to zero."""

        def zero(i: Value, j: Value, type: VectorType) -> None:
            self.b.store(self.b.number(0, type), result, [*place(i), j], masked=masked)

        self.over_tiles(rows, total.product.columns, zero, "row")

    def results_of(self, panel: Value) -> Callable[[Value], list[Value]]:
        """The place of the i-th query of a panel in a result by queries."""
        return lambda i: [self.batch, self.outer, self.b.add(self.query(panel), i)]

    def begin(self, panel: Value) -> None:
        """Loads the queries of a panel and the gradients of their results, transposed; sets the gradients of the queries to zero."""
        b, how = self.b, self.gradient
        self.copy_transposed(how.scores, self.query_side, self.turned, panel)
        self.copy_transposed(how.error_product, self.error_side, self.turned_errors, panel)
        for total, result in zip(how.totals, self.builder.results, strict=True):
            if not total.by_key:
                self.clear(result, Extent(b, self.lanes), total, self.results_of(panel), self.masked)

    def block(self, count: Value, start: Value, keys: Extent) -> None:
        """Adds a block of keys to all results, unless all of it is masked for all queries."""
        b = self.b

        def below(number: float) -> Value | None:
            def one(panel: Value, values: Sequence[Value]) -> list[Value]:
                largest = Tile(self.tiles, self.spans(panel, Span(start))).at(self.gradient.largest)
                small = b.bitwise_not(b.less(b.number(number, self.line), largest))
                return [b.bitwise_or(values[0], b.any(small, axes=[0]))]

            return b.loop(0, count, 1, [b.number(0, i1)], one, name="panel")[0]

        def all_of_it() -> None:
            self.over_panels(count, lambda panel: self.weights(panel, start, keys))
            for i, total in enumerate(self.gradient.totals):
                if total.by_key:
                    self.by_key(i, total, count, start, keys)
                else:
                    self.over_panels(
                        count, lambda panel, i=i, t=total: self.by_query(i, t, panel, start, keys)
                    )

        seen = self.seen(self.first, self.schedule.queries, start, keys, below)
        if seen is None:
            all_of_it()
        else:
            b.branch(seen, all_of_it)

    def weights(self, panel: Value, start: Value, keys: Extent) -> None:
        """The left operands of the products: weights, and the gradients of scores."""
        b, how, zero = self.b, self.gradient, self.b.index(0)
        weights = self.lefts[how.weights]
        query = b.multiply(panel, b.index(self.lanes))

        def score(i: Value, m: int) -> None:
            key = b.add(start, i)
            made = self.scored_tile(how.scores, self.key_side, self.turned, panel, key, m)
            made = self.masked_scores(made, panel, key, [i, query])
            b.store(made, weights, [panel, i, zero])
            made = self.scored_tile(how.error_product, self.value_side, self.turned_errors, panel, key, m)
            b.store(made, self.errors, [i, zero])

        keys.even_tiles(self.rows, score, "key")

        def finish(span: Span, _: object) -> None:
            type = VectorType((span.size, self.lanes), self.element)
            known = {
                how.masked: b.load(weights, [panel, span.start, zero], type=type),
                how.errors: b.load(self.errors, [span.start, zero], type=type),
            }
            tile = Tile(self.tiles, self.spans(panel, Span(b.add(start, span.start), span.size)), known)
            made = [(scratch, tile.at(value)) for value, scratch in self.lefts.items()]
            for scratch, value in made:
                b.store(self.zero_beyond(value, panel), scratch, [panel, span.start, zero])

        self.builder.tiles(keys.most, POWERS, (), finish, "key", masks=False)

    def zero_beyond(self, value: Value, panel: Value) -> Value:
        """A tile with zeros for queries beyond the end, so that they add nothing to sums."""
        if not self.masked:
            return value
        b, how = self.b, self.gradient
        counts = VectorType((self.lanes,), i64)
        first = b.splat(b.cast(self.query(panel), type=i64), counts)
        inside = b.less(b.add(b.iota(type=counts, dimension=0), first), b.number(how.query_count, counts))
        shown = b.broadcast(inside, type=VectorType(shape_of(value.type), i1), dimensions=[1])
        return b.select(shown, value, b.number(0, value.type))

    def by_key(self, number: int, total: Total, count: Value, start: Value, keys: Extent) -> None:
        """Adds the contribution of some queries to the results of a block of keys."""
        b, result, left = self.b, self.builder.results[number], self.lefts[total.left]

        def add(i: Value, j: Value, type: VectorType) -> None:
            (m, n), place = type.shape, [self.batch, b.add(start, i), j]

            def one(panel: Value, values: Sequence[Value]) -> Sequence[Value]:
                row = self.row(panel)

                def step(k: Span, values: Sequence[Value]) -> list[Value]:
                    tile = b.load(left, [panel, i, k.start], type=VectorType((m, k.size), self.element))
                    line = self.right_rows(number, total, b.add(row, k.start), k.size, j, n, self.masked)
                    return [b.dot_tile(tile, line, values[0])]

                return self.builder.tiles(self.lanes, DEPTH, values, step, "query", masks=False)

            (after,) = b.loop(0, count, 1, [b.load(result, place, type=type)], one, name="panel")
            b.store(after, result, place)

        self.over_tiles(keys, total.product.columns, add, "key")

    def by_query(self, number: int, total: Total, panel: Value, start: Value, keys: Extent) -> None:
        """Adds the contribution of a block of keys to the results of a panel."""
        b, result, left = self.b, self.builder.results[number], self.lefts[total.left]

        def add(i: Value, j: Value, type: VectorType) -> None:
            (m, n), place = type.shape, [*self.results_of(panel)(i), j]

            def step(k: Span, values: Sequence[Value]) -> list[Value]:
                tile = b.load(
                    left, [panel, k.start, i], type=VectorType((m, k.size), self.element), dims=[2, 1]
                )
                line = self.right_rows(number, total, b.add(start, k.start), k.size, j, n, False)
                return [b.dot_tile(tile, line, values[0])]

            before = b.load(result, place, type=type, masked=self.masked)
            (after,) = self.builder.tiles(keys.most, DEPTH, [before], step, "key", masks=False)
            b.store(after, result, place, masked=self.masked)

        self.over_tiles(Extent(b, self.lanes), total.product.columns, add, "query")

    def right_rows(
        self, number: int, total: Total, row: Value, rows: int, column: Value, columns: int, masked: bool
    ) -> Value:
        """Some rows of a right operand."""
        side, type = self.right[number], VectorType((rows, columns), self.element)
        return side.along(row, column, type, not total.product.rhs_depth_first, masked)
