# SPDX-License-Identifier: Apache-2.0
"""Products of rows in digits and a weight in panels of codes: dot instructions for a block of the depth, then f32.

A tile has the sums of some rows and columns in f32, and for each digit the sums of one block in i32. Codes are read from memory once, in
memory order; of codes of 4 bits the low and the high half of a byte are multiplied one after the other. The body of the fusion says how
the integer sums of a block are scaled and added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import gcd

from ....ir.core import Op, Value
from ....ir.types import MemRefType, VectorType, element_type, f32, i32, shape_of
from ....ops.fields import get_i64s
from ....ops.schedules import Digits
from ....support.lengths import are_same
from ....support.machines import WORD_BITS
from ....support.target import Target
from ...analysis.loop_nest import LoopNest
from ...fuse.decoding.affine import words_of
from ...fuse.decoding.digits import InDigits
from .body_tiles import apply_to_tiles
from .epilogue import store_epilogue
from .extents import Extent
from .finished import Finished
from .fusion_kernel import Kernel
from .packing import LINE_BYTES
from .tiling import Span, exact_tiles, several, share

WORD_BYTES = WORD_BITS // 8
#: Weights of at most so many bytes per iteration have their loads unrolled, others a loop: hardware prefetchers predict a load by its
#: distance from the previous one of the same instruction, only if that is small.
WRITTEN_OUT = 512
#: How many bytes ahead a weight is prefetched.
AHEAD = 8192


class DigitsKernel:
    """Builds the kernel of one product. Its extra inputs are the operands of the fusion."""

    def __init__(
        self, nest: LoopNest, target: Target, schedule: Digits, dot: Op, found: InDigits, types: Sequence[MemRefType]
    ):  # fmt: skip
        self.dot, self.found, self.product = dot, found, found.product
        self.tile_rows, self.tile_columns = schedule.tile
        self.block = schedule.block
        programs = -(-self.product.columns // self.block)
        self.kernel = Kernel(nest, target, several([programs]), types)
        self.b = b = self.kernel.b
        (self.place,) = self.kernel.program_indices([programs])
        self.buffers = dict(zip(found.fusion.block.args, self.kernel.extra, strict=True))
        rows, many, depth = shape_of(found.digits.type)
        words = MemRefType((rows * many, depth // found.group), i32)
        self.digits = b.view(self.buffers[found.digits], offset=0, type=words)
        self.width = found.width
        words_there = words_of(found.code_bits, target)
        assert words_there is not None
        self.words = words_there
        atom = target.dot(self.words)
        #: Words of the depth that dot instructions multiply before the sums are widened to 32 bits.
        self.together = max(1, atom.room if atom else 1)
        #: Whether the dot instruction adds to its accumulator.
        self.adds = atom is not None and atom.adds
        #: Whether sums start from 0 and initial values are added at the end: sums of 16 bits are added to those of 32 bits after several
        #: products, which need the registers that initial values would take until then.
        self.late = atom is not None and atom.room > 0

    def build(self) -> Finished:
        b, columns = self.b, self.product.columns
        start, stop = share(b, self.place, self.block, columns)
        self.kernel.tiles_between(
            start, stop, columns, self.tile_columns, lambda span: self.columns(span.start, span.size)
        )
        return self.kernel.done()

    def columns(self, column: Value, columns: int) -> None:
        """Computes some columns of all rows. A panel's columns beyond the last one are multiplied too, but not stored."""
        b = self.b
        self.panel = b.floor_divide(column, b.index(self.width))
        self.offset = b.subtract(column, b.multiply(self.panel, b.index(self.width)))

        def some(row: Value, size: int) -> None:
            rows = Span(row, size)
            type = VectorType((rows.size, self.tile_columns), f32)
            step = self.found.block

            def blocks(some: Span, sums: Sequence[Value]) -> Sequence[Value]:
                shared = self.shared(some.start)
                return exact_tiles(
                    b,
                    some.size,
                    step,
                    sums,
                    lambda k, sums: [self.added(sums[0], rows, b.add(some.start, k.start), shared)],
                    "k",
                )

            start = [b.number(0, type)]
            (total,) = exact_tiles(b, self.found.shape[1], self.sharing * step, start, blocks, "s")
            if columns < self.tile_columns:
                total = self.b.slice(total, starts=[0, 0], limits=[rows.size, columns], steps=[1, 1])
            store_epilogue(self.kernel, self.dot, self.product, [], (rows, Span(column, columns)), total)

        Extent(b, self.product.rows).even_tiles(self.tile_rows, some, "m")

    def times(self, parameter: Value) -> int:
        """The number of blocks that share an element of a parameter."""
        return -(-self.found.shape[1] // self.found.block // shape_of(parameter.type)[1])

    @property
    def sharing(self) -> int:
        """The number of blocks for which shared parameters are read once."""
        return gcd(*[times for v in self.found.parameters if (times := self.times(v)) > 1]) or 1

    def shared(self, first: Value) -> dict[Value, Value]:
        """The parameters that the blocks from `first` on share."""
        return {v: self.parameter(v, first) for v in self.found.parameters if self.times(v) > 1}

    def parameter(self, value: Value, first: Value) -> Value:
        """A parameter of the columns, for the block from `first` on."""
        block = self.b.floor_divide(first, self.b.index(self.found.block * self.times(value)))
        type = VectorType((1, self.tile_columns), element_type(value.type))
        return self.b.load(self.buffers[value], [self.panel, block, self.offset], type=type)

    def added(self, total: Value, rows: Span, first: Value, shared: Mapping[Value, Value]) -> Value:
        """The sums after the block of the depth from `first` on."""
        b, found = self.b, self.found
        block = b.floor_divide(first, b.index(found.block))
        size = (rows.size, self.tile_columns)
        # Multiplied first: loads that come before that are not moved behind it, and their registers are needed.
        known = {**shared, found.sums: self.multiplied(rows, first, block)}
        for value in found.numbers:
            type = VectorType((rows.size, 1), element_type(value.type))
            known[value] = b.load(self.buffers[value], [rows.start, block], type=type)
        known |= {v: self.parameter(v, first) for v in found.parameters if v not in shared}
        return self.computed(known, size, total)

    def multiplied(self, rows: Span, first: Value, block: Value) -> Value:
        """The integer sums of a block for each row and digit. A register of codes is loaded once for all of them."""
        b, found = self.b, self.found
        line, lines = b.multiply(rows.start, b.index(found.many)), rows.size * found.many
        type = VectorType((lines, self.tile_columns), i32)
        total = b.number(0, type)
        if not self.late:
            total = self.start(line, lines, block, type) or total
        units, packed = found.block // found.words.unit, found.words
        at = b.floor_divide(first, b.index(packed.unit))
        together = -(-self.together // packed.registers)

        def step(k: Span, sums: Sequence[Value]) -> list[Value]:
            (total,) = sums
            if packed.registers > packed.count or not self.adds:
                self.prefetch(b.add(at, k.start), k.size)
            for i in range(0, k.size, together):
                unit = b.add(at, b.add(k.start, b.index(i)))
                codes = self.codes(unit, min(together, k.size - i))
                type = VectorType((lines, shape_of(codes.type)[0]), i32)
                left = b.load(self.digits, [line, b.multiply(unit, b.index(packed.registers))], type=type)
                total = b.dot_tile(left, codes, total, self.words)
            return [total]

        written_out = max(together, WRITTEN_OUT // (WORD_BYTES * self.tile_columns * packed.count))
        (total,) = exact_tiles(b, units, min(units, written_out), [total], step, "w")
        start = self.start(line, lines, block, type) if self.late else None
        return total if start is None else b.add(total, start)

    def start(self, line: Value, lines: int, block: Value, type: VectorType) -> Value | None:
        """The initial values of the integer sums of a block, for some lines of digits."""
        b, found = self.b, self.found
        if found.start is None:
            return None
        start = b.load(self.buffers[found.start], [line, block], type=VectorType((lines, 1), i32))
        return b.broadcast(b.reshape(start, type=VectorType((lines,), i32)), type=type, dimensions=[0])

    def prefetch(self, unit: Value, count: int) -> None:
        """Prefetches words. Where a register of codes takes many instructions, because it has several codes for each digit or because sums
        are added separately, the reorder buffer holds the loads of too few registers to keep memory busy."""
        b, row, words = self.b, WORD_BYTES * self.tile_columns, self.found.words.count
        far = b.add(b.multiply(unit, b.index(words)), b.index(max(1, AHEAD // row)))
        for at in range(0, count * words * row, LINE_BYTES):
            place = [b.add(far, b.index(at // row)), b.add(self.offset, b.index(at % row // WORD_BYTES))]
            b.prefetch(self.buffers[self.found.codes], [self.panel, *place])

    def codes(self, unit: Value, count: int) -> Value:
        """The codes of some units of the depth, one at each digit of a word."""
        b, packed = self.b, self.found.words
        type = VectorType((count * packed.count, self.tile_columns), i32)
        word = b.multiply(unit, b.index(packed.count))
        words = b.load(self.buffers[self.found.codes], [self.panel, word, self.offset], type=type)
        return packed.in_digits(words, self.found.table, b)

    def computed(self, known: dict[Value, Value], size: tuple[int, int], total: Value) -> Value:
        """Applies the fusion's ops to the sums of a block, and adds them to those of the blocks before."""
        b, found = self.b, self.found
        blocks, _, many, _ = whole = shape_of(found.dot.result.type)
        products = (blocks, whole[1], whole[3])

        def constant_type(value: Value) -> VectorType | None:
            if len(own := shape_of(value.type)) not in (2, 3):
                return None
            return VectorType(size if are_same(own, products) else (1, size[1]), element_type(value.type))

        def moved(op: Op, tile: Value) -> Value:
            if op.name == "ng.slice" and are_same(shape_of(op.operands[0].type), whole):
                digit = get_i64s(op, "starts")[2]
                return b.slice(tile, starts=[digit, 0], limits=[*shape_of(tile.type)], steps=[many, 1])
            if op.name == "ng.broadcast" and are_same(shape_of(op.result.type), products):
                # A parameter of each block and row (1) or column (2).
                along, element = get_i64s(op, "dimensions")[1] - 1, element_type(op.result.type)
                line = b.reshape(tile, type=VectorType((size[along],), element))
                return b.broadcast(line, type=VectorType(size, element), dimensions=[along])
            return tile

        ops = takewhile(lambda op: op is not found.sum, found.fusion.block.ops)
        apply_to_tiles(b, ops, known, constant_type, moved)
        for x, y in found.terms:
            total = b.fma(known[x], known[y], total)
        return total
