# SPDX-License-Identifier: Apache-2.0
"""Products of many rows and a weight in panels of words: each program decodes what it multiplies next into panels of f32.

Words are contiguous along the columns, as the decoded numbers are: a register of words is decoded to as many registers of
numbers as a word has codes, without a transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ....ir.core import Op, Value
from ....ir.types import MemRefType, VectorType, element_type, f32, i32, shape_of
from ....ops.schedules import DecodePanels
from ....support.target import Target
from ...analysis.loop_nest import LoopNest
from ...fuse.decoding.panels import InPanels
from .body_tiles import apply_to_tiles
from .extents import Extent
from .panels import PanelKernel
from .tiling import Span, exact_tiles

#: Registers of words that are decoded in one step, at least.
WORDS = 4


class DecodedPanelsKernel(PanelKernel):
    """Builds the kernel of one product; its extra inputs are the operands of the fusion."""

    def __init__(
        self, nest: LoopNest, target: Target, schedule: DecodePanels, dot: Op, found: InPanels, types: Sequence[MemRefType]
    ):  # fmt: skip
        super().__init__(nest, target, schedule, dot, found.product, types)
        self.found = found
        self.buffers = dict(zip(found.fusion.block.args, self.kernel.extra, strict=True))

    def pack(self, first: Value, depth: int, column: Value, columns: Extent) -> None:
        b, width, found = self.b, self.tile_columns, self.found

        def panel(span: Span) -> None:
            at = b.add(column, span.start)
            number = b.floor_divide(at, b.index(found.width))
            offset = b.subtract(at, b.multiply(number, b.index(found.width)))
            packed = b.floor_divide(span.start, b.index(width))

            def block(k: Span, _: object) -> None:
                start = b.add(first, k.start)
                known = {v: self.parameter(v, number, start, offset) for v in found.parameters}
                unit = b.floor_divide(start, b.index(found.unit))

                def one(at: Value, rows: int) -> None:
                    """Decodes `rows` rows of the depth from the words of a unit."""
                    word = b.multiply(b.add(unit, at), b.index(found.words.count))
                    tile = self.weight(known, [number, word, offset])
                    if rows < found.unit:
                        tile = b.slice(tile, starts=[0, 0], limits=[rows, width], steps=[1, 1])
                    place = b.add(k.start, b.multiply(at, b.index(found.unit)))
                    b.store(tile, self.packed, [packed, place, b.index(0)])

                def step(w: Span, _: object) -> None:
                    for i in range(w.size):
                        one(b.add(w.start, b.index(i)), found.unit)

                whole, rest = divmod(k.size, found.unit)
                exact_tiles(b, whole, -(-WORDS // found.words.count), (), step, "w")
                if rest:
                    one(b.index(whole), rest)

            exact_tiles(b, depth, found.block, (), block, "k")

        columns.tiles(width, panel)

    def parameter(self, value: Value, panel: Value, first: Value, offset: Value) -> Value:
        """A parameter of the columns, in the block from `first` on."""
        count = shape_of(value.type)[1]
        times = -(-self.found.shape[1] // self.found.block // count) * self.found.block
        place = [panel, self.b.floor_divide(first, self.b.index(times)), offset]
        type = VectorType((1, self.tile_columns), element_type(value.type))
        return self.b.load(self.buffers[value], place, type=type)

    def weight(self, known: dict[Value, Value], place: Sequence[Value]) -> Value:
        """The numbers of a unit, as the fusion computes them."""
        b, found = self.b, self.found
        known = {**known, found.start: self.codes(place)}
        size, whole = (found.unit, self.tile_columns), shape_of(found.start.type)

        def constant_type(value: Value) -> VectorType:
            return VectorType(
                size if shape_of(value.type) == whole else (1, size[1]), element_type(value.type)
            )

        def moved(op: Op, tile: Value) -> Value:
            if shape_of(op.result.type) != whole or shape_of(tile.type) == size:
                return tile
            element = element_type(op.result.type)
            line = b.reshape(tile, type=VectorType((size[1],), element))
            return b.broadcast(line, type=VectorType(size, element), dimensions=[1])

        ops = takewhile(lambda op: op is not found.dot, found.fusion.block.ops)
        apply_to_tiles(b, ops, known, constant_type, moved)
        return known[found.dot.operands[1]]

    def codes(self, place: Sequence[Value]) -> Value:
        """The codes of a unit, in the order of the depth, as f32."""
        b, found, width = self.b, self.found, self.tile_columns
        words = b.load(self.buffers[found.codes], place, type=VectorType((found.words.count, width), i32))
        codes = found.words.in_order(found.words.in_digits(words, found.table, b), b)
        return b.cast(codes, type=VectorType((found.unit, width), f32))
