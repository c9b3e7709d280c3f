# SPDX-License-Identifier: Apache-2.0
"""The common part of the kernels of attention and its gradient. A program has some queries, in panels along the lanes of registers, and
iterates over blocks of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import gcd

from ....ir.core import Op, Value
from ....ir.types import MemRefType, Type, VectorType, element_type, i1, shape_of
from ....ops.schedules import Stream
from ....support.lengths import is_multiple
from ....support.target import Target
from ...analysis.loop_nest import Shape
from ...analysis.product import Product
from ...fuse.score_loops import Streams
from ...schedule.attention import DEPTH
from .extents import Extent
from .fusion_kernel import Part, Tile, bound
from .kernel_builder import KernelBuilder
from .masked_blocks import Corners, Mask, masks_of, seen_in
from .packing import Panel, right_side
from .reading import Matrix
from .tiling import Span, several

#: Queries whose masks are tested at once.
ROWS = 8


class Streaming:
    """The builder of such a kernel. `batch`, `outer` and `first` are this program's position: in the batch, in the outer loops of the
    queries, and its first query."""

    batch: Value
    outer: Value
    first: Value

    def __init__(
        self,
        fusion: Op,
        how: Streams,
        target: Target,
        schedule: Stream,
        sizes: Sequence[int],
        more: Sequence[tuple[int, Shape]],
        results: Sequence[Shape],
    ):
        self.how, self.target, self.schedule = how, target, schedule
        self.element: Type = how.scores.result
        self.rows, self.lanes = schedule.tile
        self.panels = schedule.queries // self.lanes
        self.inputs = (*how.inputs, *how.sides, *more)
        elements = [element_type(fusion.operands[number].type) for number, _ in self.inputs]
        self.builder = KernelBuilder(
            target,
            several(sizes),
            [MemRefType(shape, e) for (_, shape), e in zip(self.inputs, elements, strict=True)],
            [MemRefType(shape, self.element) for shape in results],
            how.located_op.location,
        )
        self.b = self.builder.b
        self.programs = self.builder.program_indices(sizes)
        sources = self.builder.sources
        self.tiles, self.straight = (
            Part(self.builder, each, bound(each, sources), {}, ()) for each in (how.nest, how.straight)
        )
        self.masks = masks_of(how.masked, how.scored)
        self.copies: dict[Value, Value] = {}
        self.sides = self.builder.sources[len(how.inputs) :]
        self.line = VectorType((self.lanes,), self.element)

    # -- the position of a program -------------------------------------------------------------------------

    @property
    def masked(self) -> bool:
        """Whether the last panel may have fewer queries."""
        return not is_multiple(self.how.query_count, self.lanes)

    def count(self, strip: Value) -> Value:
        """The number of panels in a strip of queries."""
        b, panels = self.b, -(-self.how.query_count // self.lanes)
        count = b.index(self.panels)
        if is_multiple(panels, self.panels):
            return count
        return b.minimum(count, b.subtract(b.index(panels), b.multiply(strip, count)))

    def query(self, panel: Value) -> Value:
        """The first query of a panel."""
        return self.b.add(self.first, self.b.multiply(panel, self.b.index(self.lanes)))

    def row(self, panel: Value) -> Value:
        """The index of that query among the rows of a side."""
        b = self.b
        return b.add(b.multiply(self.outer, b.index(self.how.query_count)), self.query(panel))

    def places(self) -> tuple[list[Span], list[Span]]:
        """The position of this program in the loops of the batch, and in the outer loops of the queries."""
        how, sizes = self.how, self.how.nest.sizes
        batch = self.builder.delinearize(self.batch, [sizes[l] for l in how.batch]) if how.batch else []
        return batch, self.builder.delinearize(self.outer, [sizes[l] for l in how.outer]) if how.outer else []

    def spans(self, panel: Value, keys: Span) -> list[Span]:
        """The spans of a tile of scores in the loops of the nest."""
        batch, outer = self.places()
        return [*batch, keys, *outer, Span(self.query(panel), self.lanes, self.masked)]

    # -- loops over queries and keys -----------------------------------------------------------------------

    def over_panels(self, count: Value, body: Callable[[Value], None]) -> None:
        self.b.loop(0, count, 1, (), lambda panel, _: body(panel), name="panel")

    def over_keys(self, body: Callable[[Value, Extent], None]) -> None:
        """Runs `body(first key, keys)` on the blocks of keys."""
        b, keys, step = self.b, self.how.key_count, self.schedule.keys
        whole = keys // step * step

        b.loop(0, whole, step, (), lambda start, _: body(start, Extent(b, step)), name="keys")
        if not is_multiple(keys, step):
            body(b.index(whole), Extent(b, keys - whole))

    # -- products -----------------------------------------------------------------------------------------

    def scratch(self, *shape: int) -> Value:
        return self.b.alloc(type=MemRefType(shape, self.element, None, 0, 3))

    def copy_transposed(self, product: Product, side: Matrix, to: Value, panel: Value) -> None:
        """Copies a panel of a right side, transposed so that its queries are contiguous."""
        packing = right_side(product, self.lanes, self.target)
        place = Panel(self.b, packing, side, to, [panel], self.lanes, self.masked)
        place.copy(self.b.index(0), product.depth, self.row(panel))

    def scored_tile(
        self, product: Product, left: Matrix, right: Value, panel: Value, key: Value, rows: int
    ) -> Value:
        """The product of a tile of rows of a left side and a panel of queries."""
        b = self.b

        def step(k: Span, values: Sequence[Value]) -> list[Value]:
            kind = VectorType((rows, k.size), self.element)
            tile = left.along(key, k.start, kind, product.lhs_depth_first)
            line = VectorType((k.size, self.lanes), self.element)
            return [b.dot_tile(tile, b.load(right, [panel, k.start, b.index(0)], type=line), values[0])]

        start = b.number(0, VectorType((rows, self.lanes), self.element))
        return self.builder.tiles(product.depth, DEPTH, [start], step, "k", masks=False)[0]

    # -- masks --------------------------------------------------------------------------------------------

    def copy_masks(self, queries: int) -> None:
        """Allocates copies of the masks that are added, of a block of keys and so many queries. `read` fills them."""
        both = {self.how.keys, self.how.queries}
        added = [m.value for m in self.masks if m.fill is None and both <= {*self.how.nest.loops[m.value]}]
        self.copies = {value: self.scratch(self.schedule.keys, queries) for value in added}

    def masked_scores(self, scores: Value, panel: Value, key: Value, place: Sequence[Value]) -> Value:
        """A tile of scores with the masks applied; `place`: where it is in the copies of the masks."""
        known = {value: self.b.load(copy, place, type=scores.type) for value, copy in self.copies.items()}
        spans = self.spans(panel, Span(key, shape_of(scores.type)[0]))
        return Tile(self.tiles, spans, {**known, self.how.scored: scores}).at(self.how.masked)

    def seen(
        self, first: Value, count: int, start: Value, keys: Extent, below: Callable[[float], Value | None]
    ) -> Value | None:
        """Whether any of `count` queries attends to any of a block of keys, according to the masks; None without masks. `below`: whether one
        of the queries has no score yet from which the exponentials of masked ones are zero."""
        found = [self.shown(mask, first, count, start, keys, below) for mask in self.masks]
        return reduce(self.b.bitwise_and, found) if found else None

    def shown(
        self,
        mask: Mask,
        first: Value,
        count: int,
        start: Value,
        keys: Extent,
        below: Callable[[float], Value | None],
    ) -> Value:
        """Whether the mask leaves anything of a block of keys."""
        b, how = self.b, self.how
        batch, outer = ([span.start for span in spans] for spans in self.places())
        ends = [
            *((at, at) for at in batch),
            (start, b.add(start, b.index(keys.most - 1))),
            *((at, at) for at in outer),
            (first, b.add(first, b.index(count - 1))),
        ]
        seen = None
        if mask.fill is not None:
            seen = Corners(
                b, how.nest, ends, lambda v: b.load(self.tiles.buffers[v], [], type=element_type(v.type))
            ).may(mask.value, mask.seen)
        if seen is None:
            seen = self.read(mask, first, count, start, keys)
        small = below(mask.hidden_from(self.element))
        return seen if small is None else b.bitwise_or(seen, small)

    def read(self, mask: Mask, first: Value, count: int, start: Value, keys: Extent) -> Value:
        """Whether anything of a block of keys is unmasked, where that can be read from memory. A mask with a copy is read only here, along
        its rows, and copied with queries along the lanes."""
        b, copy = self.b, self.copies.get(mask.value)
        batch, outer = self.places()
        # In this nest the loops of queries are outside those of keys.
        lines = count if self.how.queries - 1 in self.straight.nest.loops[mask.value] else 1
        block = gcd(right_side(self.how.scores, self.lanes, self.target).block, self.lanes)
        step, width = (min(ROWS, lines), self.lanes) if copy is None else (block, block)

        def rows(i: Value, values: Sequence[Value]) -> Sequence[Value]:
            line = Span(b.add(first, i), step, True) if lines > 1 else Span(first)

            def some(at: Span, values: Sequence[Value]) -> list[Value]:
                tile = Tile(self.straight, [*batch, *outer, line, Span(b.add(start, at.start), at.size)])
                if copy is not None:
                    b.store(b.transpose(tile.at(mask.value), permutation=[1, 0]), copy, [at.start, i])
                return [b.bitwise_or(values[0], seen_in(b, tile, mask))]

            return self.builder.tiles(keys.most, width, values, some, "key", masks=False)

        return b.loop(0, lines, step, [b.number(0, i1)], rows, name="query")[0]
