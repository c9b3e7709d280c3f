# SPDX-License-Identifier: Apache-2.0
"""Attention on a CPU: a program holds the scores of some queries and one block of keys only.

A program has a few panels of queries, each as wide as a register tile, and iterates over blocks of keys. For each block it computes the
scores of a panel and their exponentials, and adds the values weighted by these to the results of the panel. The exponentials are relative
to the largest score so far of each query; when that grows, sums and results are rescaled: Milakov and Gimelshein, "Online normalizer
calculation for softmax" (2018), and Dao et al., "FlashAttention" (2022).

Queries are along the lanes of registers. So the largest scores, the sums and the scale factors are one register each, keys and values
are read in their own layout, one element at a time, and only the panels of queries and results are transposed. Sums are over the keys
of a block in order, then over the blocks: the result does not depend on the number of programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, inf

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import VectorType
from ....ops.schedules import Stream
from ....support.diagnostics import Bug
from ....support.lengths import is_open
from ....support.target import Target
from ...analysis.sides import Strided
from ...fuse.score_loops import Streamed, streamed
from ...schedule.attention import DEPTH, POWERS
from .extents import Extent
from .finished import Finished
from .packing import LINE_BYTES, conflict_free_stride, right_side
from .reading import Matrix
from .streaming import Streaming
from .tiling import Span


def attention_kernel(fusion: Op, target: Target, schedule: Stream) -> Finished:
    """The kernel of an `attention` fusion."""
    how = streamed(fusion, target)
    if how is None:
        raise Bug("the fusion is no attention", fusion.location)
    return _Builder(fusion, how, target, schedule).build()


class _Builder(Streaming):
    def __init__(self, fusion: Op, how: Streamed, target: Target, schedule: Stream):
        batch, parts, queries = max(1, how.scores.batch), how.parts, how.query_count
        self.columns = how.result.rows
        shapes = [(batch, parts, queries, self.columns)]
        shapes += [(batch, parts, queries)] * (len(fusion.results) - 1)
        sizes = (how.scores.batch, parts, -(-queries // schedule.queries))
        super().__init__(fusion, how, target, schedule, sizes, (), shapes)
        self.attention, self.result, self.shapes = how.attention, how.result, tuple(shapes)
        self.batch, self.outer, self.strip = self.programs
        before = [self.batch] if how.scores.batch else []
        # Queries are the right operand of the first product; keys and values are the left operands of the two products.
        self.query_side = Matrix(self.b, self.sides[0], before, how.scores.rhs)
        self.key_side = Matrix(self.b, self.sides[1], before, how.scores.lhs)
        self.value_side = Matrix(self.b, self.sides[2], before, how.result.lhs)

    def build(self) -> Finished:
        b, schedule = self.b, self.schedule
        self.turned = self.scratch(self.panels, self.how.scores.depth, self.lanes)
        self.results = self.scratch(self.panels, self.columns, self.lanes)
        self.largest, self.totals = (self.scratch(self.panels, self.lanes) for _ in range(2))
        self.scores = self.scratch(schedule.keys, self.lanes)
        self.copy_masks(self.lanes)
        self.first = b.multiply(self.strip, b.index(schedule.queries))
        count = self.count(self.strip)
        self.over_panels(count, self.begin)
        copy = self.copied()

        def blocks(start: Value, keys: Extent) -> None:
            self.values, self.first_value = self.value_side, start
            if copy is not None:
                self.copy(copy, start, keys)
            self.over_panels(count, lambda panel: self.block(panel, start, keys))

        self.over_keys(blocks)
        self.over_panels(count, self.end)
        return Finished(self.builder.finish(), self.inputs, self.shapes, name="attention")

    def copied(self) -> Value | None:
        """Where the values of a block are copied to, if their rows conflict in the L1 cache and several panels read them."""
        item, side, keys = item_bytes(self.element), self.result.lhs, self.schedule.keys
        run = side.distance if isinstance(side, Strided) else self.columns
        if is_open((run,)) or self.panels == 1 or not self.result.lhs_depth_first:
            return None
        sets = self.target.l1_bytes // self.target.l1_ways // LINE_BYTES
        distinct = sets // gcd(sets, -(-run * item // LINE_BYTES))
        if keys <= distinct * self.target.l1_ways:
            return None
        return self.scratch(keys, conflict_free_stride(self.columns, item, self.target))

    def copy(self, to: Value, start: Value, keys: Extent) -> None:
        """Copies the values of a block of keys."""
        b = self.b

        def rows(k: Span, _: object) -> None:
            def some(at: Span) -> None:
                type = VectorType((k.size, at.size), self.element)
                b.store(self.value_side.load(b.add(start, k.start), at.start, type), to, [k.start, at.start])

            Extent(b, self.columns).tiles(2 * self.lanes, some, "column")

        self.builder.tiles(keys.most, DEPTH, (), rows, "key", masks=False)
        self.values, self.first_value = Matrix(b, to, [], None), b.index(0)

    def begin(self, panel: Value) -> None:
        """Initializes a panel, before the first block of keys."""
        b = self.b
        self.copy_transposed(self.how.scores, self.query_side, self.turned, panel)
        b.store(b.number(-inf, self.line), self.largest, [panel, b.index(0)])
        b.store(b.number(0, self.line), self.totals, [panel, b.index(0)])

        def clear(i: Value, rows: int) -> None:
            zero = b.number(0, VectorType((rows, self.lanes), self.element))
            b.store(zero, self.results, [panel, i, b.index(0)])

        Extent(b, self.columns).even_tiles(self.rows, clear)

    def block(self, panel: Value, start: Value, keys: Extent) -> None:
        """Adds a block of keys to the results of a panel, unless all of it is masked for all of these queries."""
        b = self.b

        def below(number: float) -> Value | None:
            if number == -inf:
                return None  # all scores so far may be -infinity
            least = b.number(number, self.line)
            largest = b.load(self.largest, [panel, b.index(0)], type=self.line)
            return b.any(b.bitwise_not(b.less_equal(least, largest)), axes=[0])

        seen = self.seen(self.query(panel), self.lanes, start, keys, below)
        if seen is None:
            self.seen_block(panel, start, keys)
        else:
            b.branch(seen, lambda: self.seen_block(panel, start, keys))

    def seen_block(self, panel: Value, start: Value, keys: Extent) -> None:
        """Adds a block of keys to the results of a panel."""
        b, zero = self.b, self.b.index(0)
        before = b.load(self.largest, [panel, zero], type=self.line)
        keys.even_tiles(self.rows, lambda i, rows: self.score(panel, start, i, rows), "key")
        largest = b.load(self.largest, [panel, zero], type=self.line)
        none = b.equal(largest, b.number(-inf, self.line))
        base = b.select(none, b.number(0, self.line), largest)
        factor = self.power(b.subtract(before, base))

        def powers(span: Span, values: Sequence[Value]) -> list[Value]:
            type = VectorType((span.size, self.lanes), self.element)
            scores = b.load(self.scores, [span.start, zero], type=type)
            made = self.power(b.subtract(scores, b.broadcast(base, type=type, dimensions=[1])))
            b.store(made, self.scores, [span.start, zero])
            return [b.add(values[0], b.sum(made, axes=[0]))]

        start_sum = b.number(0, self.line)
        (sums,) = self.builder.tiles(keys.most, POWERS, [start_sum], powers, "key", masks=False)
        total = b.load(self.totals, [panel, zero], type=self.line)
        b.store(b.add(b.multiply(total, factor), sums), self.totals, [panel, zero])

        def weighted(i: Value, rows: int) -> None:
            type = VectorType((rows, self.lanes), self.element)
            place = [panel, i, zero]
            result = b.load(self.results, place, type=type)
            result = b.multiply(result, b.broadcast(factor, type=type, dimensions=[1]))

            def step(k: Span, values: Sequence[Value]) -> list[Value]:
                at, kind = b.add(self.first_value, k.start), VectorType((rows, k.size), self.element)
                left = self.values.along(i, at, kind, self.result.lhs_depth_first)
                right = b.load(
                    self.scores, [k.start, zero], type=VectorType((k.size, self.lanes), self.element)
                )
                return [b.dot_tile(left, right, values[0])]

            (result,) = self.builder.tiles(keys.most, DEPTH, [result], step, "key", masks=False)
            b.store(result, self.results, place)

        Extent(b, self.columns).even_tiles(self.rows, weighted)

    def score(self, panel: Value, start: Value, i: Value, rows: int) -> None:
        """Masked scores of a few keys, and the largest scores updated by them."""
        b, zero = self.b, self.b.index(0)
        key = b.add(start, i)
        made = self.scored_tile(self.how.scores, self.key_side, self.turned, panel, key, rows)
        made = self.masked_scores(made, panel, key, [i, zero])
        b.store(made, self.scores, [i, zero])
        place = [panel, zero]
        so_far = b.load(self.largest, place, type=self.line)
        b.store(b.maximum(so_far, b.max(made, axes=[0])), self.largest, place)

    def power(self, value: Value) -> Value:
        """The exponential of a score minus the largest one."""
        made = self.attention.powers.rebuilt([value], types=[value.type])
        return self.b.add_op(made).results[0]

    def end(self, panel: Value) -> None:
        """Stores the results of a panel, divided by the sums of the exponentials."""
        b = self.b
        side = right_side(self.how.scores, self.lanes, self.target).block
        total = b.load(self.totals, [panel, b.index(0)], type=self.line)
        query = [self.batch, self.outer, self.query(panel)]
        for kept, result in zip(
            (b.load(self.largest, [panel, b.index(0)], type=self.line), total),
            self.builder.results[1:],
            strict=False,
        ):
            b.store(kept, result, query, masked=self.masked)
        b.store(b.divide(b.number(1, self.line), total), self.totals, [panel, b.index(0)])

        def square(i: Value, rows: int) -> None:
            def lanes(at: Span) -> None:
                part = VectorType((at.size,), self.element)
                type = VectorType((rows, at.size), self.element)
                factor = b.load(self.totals, [panel, at.start], type=part)
                made = b.load(self.results, [panel, i, at.start], type=type)
                made = b.multiply(made, b.broadcast(factor, type=type, dimensions=[1]))
                query = b.add(self.query(panel), at.start)
                out = b.transpose(made, permutation=[1, 0])
                b.store(out, self.builder.results[0], [self.batch, self.outer, query, i], masked=self.masked)

            Extent(b, self.lanes).tiles(side, lanes, "query")

        Extent(b, self.columns).tiles(side, lambda span: square(span.start, span.size))
