# SPDX-License-Identifier: Apache-2.0
"""Products whose right operand is decoded from quantised codes: in registers where rows are few, otherwise while it is packed.

With few rows each element of the result is a dot product of a row of the left operand and a row of the weight, as in `along`: a tile has
partial sums in lanes for a few columns. Codes are read from memory once, in memory order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from math import gcd, prod

from ....ir.attributes import StringAttr
from ....ir.core import Block, Op, Region, Value
from ....ir.literals import item_bytes
from ....ir.types import (
    MemRefType,
    TensorType,
    VectorType,
    bf16,
    element_type,
    f16,
    f32,
    i32,
    shape_of,
    with_element,
)
from ....ops import ng
from ....ops.builder import Builder
from ....ops.schedules import Decode, DecodePanels, Digits
from ....support.diagnostics import Bug
from ....support.lengths import may_be_several, usual
from ....support.target import Target
from ...analysis.loop_nest import LoopNest, loop_nest
from ...analysis.product import Product
from ...fuse.decoding.digits import InDigits, digits
from ...fuse.decoding.fusions import CODE, CODE_BITS, CODES, Decoded, decoded
from ...fuse.decoding.panels import InPanels, of_panels
from ...fuse.nest import with_nest
from .body_tiles import apply_to_tiles
from .decoded_panels import DecodedPanelsKernel
from .digits import AHEAD, DigitsKernel
from .epilogue import store_epilogue
from .extents import Extent
from .finished import Finished
from .fusion_kernel import Kernel
from .packing import LINE_BYTES, right_side
from .panels import PanelKernel
from .tiling import Span, exact_tiles, several, share

#: Accumulators that are used in turn, to hide the latency of additions.
CHAINS = 8
#: Lanes of bytes or floats that are decoded in one iteration. With one column there are as many as accumulators, so that each
#: iteration adds to all of them.
STEPS = 4


def decoded_kernel(fusion: Op, target: Target, schedule: Decode | DecodePanels | Digits) -> Finished:
    """The kernel of a `decoded` fusion. Its inputs are the fusion's operands."""
    found = digits(fusion) or of_panels(fusion) or decoded(fusion)
    nest = loop_nest(with_nest(_multiplied(found.product, fusion), target))
    dot = next(op for op in nest.ops if op.name == "ng.dot")
    types = [MemRefType(shape_of(v.type), element_type(v.type)) for v in fusion.operands]
    match schedule, found:
        case Digits(), InDigits():
            made: DigitsKernel | DecodedPanelsKernel | _Rows | _Panels = DigitsKernel(
                nest, target, schedule, dot, found, types
            )
        case Decode(), Decoded():
            made = _Rows(nest, target, schedule, dot, found, types)
        case DecodePanels(), InPanels():
            made = DecodedPanelsKernel(nest, target, schedule, dot, found, types)
        case DecodePanels(), Decoded():
            made = _Panels(nest, target, schedule, dot, found, types)
        case _:
            raise Bug(f"no such product has schedules of kind '{schedule.by}'", fusion.location)
    sides = tuple([(i, shape_of(v.type), None) for i, v in enumerate(fusion.operands)])
    return replace(made.build(), sides=sides)


def _multiplied(product: Product, fusion: Op) -> Op:
    """The product alone, as one of two matrices."""
    types = [TensorType((size, product.depth), f32) for size in (product.rows, product.columns)]
    body = Block(types, ["left", "weight"])
    b = Builder(body, fusion.location)
    (result,) = fusion.results
    dot = b.dot(*body.args, lhs_contract=[1], rhs_contract=[1], type=result.type)
    b.end(ng.YieldOp, dot)
    attributes = {"kind": StringAttr("dot")}
    return ng.FusionOp(Block(types).args, [result.type], attributes, [Region(body)], fusion.location)


@dataclass(frozen=True)
class _Weight:
    """Computes tiles of a weight from the buffers of its codes and parameters."""

    b: Builder
    found: Decoded
    codes: Value
    parameters: Sequence[Value]
    target: Target
    columns: int  # that are decoded at once

    @property
    def lanes(self) -> int:
        return self.target.lanes(4)

    @property
    def tabled(self) -> bool:
        """Whether codes are decoded by a table, which is computed once for a block."""
        return self.found.words and self.target.can("lookups") and self.lanes == 1 << CODE_BITS

    @property
    def step(self) -> int:
        """Elements along the depth that are read at once."""
        return self.lanes * (CODES if self.found.words else max(STEPS, CHAINS // self.columns))

    @property
    def run(self) -> int:
        """Tiles whose sum is multiplied by the scale of their block, of one row; 0 where each tile is scaled."""
        found = self.found
        if found.words or found.unscaled is None or may_be_several(found.product.rows):
            return 0
        return gcd(STEPS, found.block // self.lanes)

    @property
    def spread(self) -> int:
        """A parameter broadcast to all lanes. Numbers of 16 bits are converted in all lanes: inserting one into a lane would depend on the
        register's previous value."""
        short = all(element_type(p.type) in (f16, bf16) for p in self.parameters)
        return self.lanes if short and self.parameters else 1

    def shared(self, row: Value, rows: int, first: Value) -> list[Value]:
        """The parameters of some rows for codes from `first` on."""
        b, block = self.b, self.found.block
        out: list[Value] = []
        for buffer in self.parameters:
            element = element_type(buffer.type)
            # A separate parameter is broadcast while it is loaded.
            shape = (*shape_of(buffer.type), *[1] * (not block))
            buffer = buffer if block else b.view(buffer, offset=0, type=MemRefType(shape, element))
            place = b.floor_divide(first, b.index(block)) if block else b.index(0)
            number = b.load(buffer, [row, place], type=VectorType((rows, 1), element))
            if self.spread > 1:
                line = b.reshape(number, type=VectorType((rows,), element))
                number = b.broadcast(line, type=VectorType((rows, self.spread), element), dimensions=[0])
            out.append(number)
        return out

    def tiles(
        self, row: Value, rows: int, first: Value, size: int, after: bool = False
    ) -> Iterator[tuple[Value, Value | None]]:
        """Adjacent tiles of some rows for `size` elements of the depth from `first` on, a multiple of `step`. Elements of the last tile
        beyond them are undefined. With `after` the scale is not applied but returned too."""
        b, found = self.b, self.found
        lanes, block = self.lanes, found.block
        codes = VectorType((rows, lanes), element_type(self.codes.type))
        words = None
        if found.words:
            group = b.floor_divide(first, b.index(self.step))
            words = b.load(self.codes, [row, group, b.index(0)], type=codes, dims=[0, 2])
        shared: list[Value] = []
        table: Value | None = None
        for i in range(-(-size // lanes)):
            at = b.add(first, b.index(i * lanes))
            nested = not block or self.step % block == 0 or block % self.step == 0
            if i == 0 or not nested or (block and i * lanes % block == 0):
                shared = self.shared(row, rows, at)
                if self.tabled:
                    table, _ = self.computed(b.iota(type=codes, dimension=1), shared)
            if words is not None:
                code = words if i == 0 else b.shift_right_logical(words, b.number(i * CODE_BITS, codes))
                if table is not None:
                    yield b.lookup_table(table, code), None
                    continue
                code = b.bitwise_and(code, b.number(CODE, codes))
            else:
                code = b.load(self.codes, [row, at], type=codes, masked=(i + 1) * lanes > size or None)
            yield self.computed(code, shared, after)

    def prefetch(self, row: Value, rows: int, first: Value) -> None:
        """Prefetches what is read after codes from `first` on of some rows. What one row reads from beyond the L2 cache is a single run
        of memory: lines are asked for some distance ahead in it, since the hardware prefetcher starts again with each 4 KiB, and falls
        behind where the left operand is not in the cache of level 1. Codes and parameters that alternate are asked for from the next
        rows: the hardware prefetcher follows only one of them."""
        b, found = self.b, self.found
        size = item_bytes(element_type(self.codes.type))
        next_rows = rows
        if rows == 1 and not found.block:
            if usual(prod(shape_of(self.codes.type))) * size <= self.target.l2_bytes:
                return
            first = b.add(first, b.index(AHEAD // size * (CODES if found.words else 1)))
            next_rows = 0
        for i in range(rows):
            at = b.add(row, b.index(next_rows + i))
            for buffer in self.parameters if found.block else ():
                b.prefetch(buffer, [at, b.floor_divide(first, b.index(found.block))])
            if found.words:
                b.prefetch(self.codes, [at, b.floor_divide(first, b.index(self.step)), b.index(0)])
                continue
            for far in range(0, self.step, LINE_BYTES // size):
                b.prefetch(self.codes, [at, b.add(first, b.index(far))])

    def computed(
        self, code: Value, shared: Sequence[Value], after: bool = False
    ) -> tuple[Value, Value | None]:
        """Applies the ops of the weight to a tile of codes; with `after` all but the scale, which is returned too."""
        b, found, shape = self.b, self.found, shape_of(code.type)
        wanted, scale = (after and found.unscaled) or (found.dot.operands[1], None)
        known: dict[Value, Value] = {found.start: code, **dict(zip(found.parameters, shared, strict=True))}

        def end(op: Op) -> bool:
            return op is found.dot or (after and op.result is found.dot.operands[1])

        def constant_type(value: Value) -> VectorType | None:
            if len(own := shape_of(value.type)) > 2:
                return None
            return VectorType(
                shape if own == found.shape else (shape[0], self.spread), element_type(value.type)
            )

        def moved(op: Op, tile: Value) -> Value:
            if shape_of(op.result.type) != found.shape or shape_of(tile.type) == shape:
                return tile
            element = element_type(op.result.type)
            wide = VectorType((shape[0], 1, shape[1]), element)
            return b.reshape(b.broadcast(tile, type=wide, dimensions=[0, 1]), type=VectorType(shape, element))

        ops = takewhile(lambda op: not end(op), found.fusion.block.ops)
        apply_to_tiles(b, ops, known, constant_type, moved)
        return known[wanted], None if scale is None else known[scale]


class _Rows:
    """Builds the kernel of a product of few rows."""

    def __init__(
        self, nest: LoopNest, target: Target, schedule: Decode, dot: Op, found: Decoded, types: Sequence[MemRefType]
    ):  # fmt: skip
        self.dot, self.found, self.product = dot, found, found.product
        self.columns, self.block = schedule.tile, schedule.block
        self.rows = max(1, target.vector_registers // 2 // self.columns)
        programs = -(-self.product.columns // self.block)
        self.kernel = Kernel(nest, target, several([programs]), types)
        self.b = self.kernel.b
        (self.place,) = self.kernel.program_indices([programs])
        self.lhs, codes, *parameters = self.kernel.extra
        self.weight = _Weight(self.b, found, codes, parameters, target, self.columns)

    def build(self) -> Finished:
        b, columns = self.b, self.product.columns
        start, stop = share(b, self.place, self.block, columns)
        self.kernel.tiles_between(
            start, stop, columns, self.columns, lambda span: self.tile(span.start, span.size)
        )
        return self.kernel.done()

    def tile(self, column: Value, columns: int) -> None:
        """Computes a few columns of all rows, as many rows at once as fit into registers."""
        exact_tiles(
            self.b,
            self.product.rows,
            self.rows,
            (),
            lambda span, _: self.part(span.start, span.size, column, columns),
            "m",
        )

    def part(self, row: Value, rows: int, column: Value, columns: int) -> None:
        """Computes a few columns of some rows."""
        b, depth, step = self.b, self.product.depth, self.weight.step
        zero = b.number(0, VectorType((rows, columns, self.weight.lanes), f32))

        def steps(k: Span, sums: Sequence[Value]) -> list[Value]:
            self.weight.prefetch(column, columns, k.start)
            part = zero
            for i, (tile, scale) in enumerate(self.weight.tiles(column, columns, k.start, k.size, run > 0)):
                first, *others = sums
                if scale is None:
                    sums = [*others, self.added(first, row, tile, k, i)]
                    continue
                part = self.added(part, row, tile, k, i)
                if (i + 1) % run == 0 or (i + 1) * self.weight.lanes >= k.size:
                    scale = b.broadcast(scale, type=zero.type, dimensions=[1, 2])
                    sums, part = [*others, b.fma(part, scale, first)], zero
            return list(sums)

        tiles, run = step // self.weight.lanes, self.weight.run
        many = tiles // run if run else max(1, CHAINS // (rows * columns))
        sums: Sequence[Value] = [zero] * many
        sums = exact_tiles(b, depth, step, sums, steps, "k")
        total = b.sum(reduce(b.add, sums), axes=[2])
        place = Span(row, rows), Span(column, columns)
        store_epilogue(self.kernel, self.dot, self.product, [], place, total)

    def added(self, total: Value, row: Value, weight: Value, k: Span, number: int) -> Value:
        """Adds the product of a tile of the weight and of the left operand to a sum. Beyond the end of the depth both are 0."""
        b, lanes, rows = self.b, self.weight.lanes, shape_of(total.type)[0]
        left = min(lanes, k.size - number * lanes)
        at = b.add(k.start, b.index(number * lanes))
        type = VectorType((rows, lanes), f32)
        x = b.load(self.lhs, [row, at], type=type, masked=True if left < lanes else None)
        if left < lanes:
            # Codes beyond the end do not decode to 0, and may decode to NaN.
            place = with_element(weight.type, i32)
            there = b.less(b.iota(type=place, dimension=1), b.number(left, place))
            weight = b.select(there, weight, b.number(0, weight.type))
        x = b.broadcast(x, type=total.type, dimensions=[0, 2])
        weight = b.broadcast(weight, type=total.type, dimensions=[1, 2])
        return b.fma(x, weight, total)


class _Panels(PanelKernel):
    """Builds the kernel of a product of many rows: each program decodes the weight into panels, block by block."""

    def __init__(
        self, nest: LoopNest, target: Target, schedule: DecodePanels, dot: Op, found: Decoded, types: Sequence[MemRefType]
    ):  # fmt: skip
        product = found.product
        # The first two extra inputs of the kernel are the operands of the product.
        super().__init__(nest, target, schedule, dot, product, types)
        _, codes, *parameters = self.kernel.extra
        self.weight = _Weight(self.b, found, codes, parameters, target, self.tile_columns)

    def pack(self, first: Value, depth: int, column: Value, columns: Extent) -> None:
        b, width, weight = self.b, self.tile_columns, self.weight
        block = right_side(self.product, width, self.kernel.target).block

        def some(panel: Value, at: Value, span: Span, k: Span) -> None:
            """The tiles of one iteration, transposed."""
            row = b.add(b.add(column, at), span.start)
            for i, (tile, _) in enumerate(weight.tiles(row, span.size, b.add(first, k.start), k.size)):
                rest = k.size - i * weight.lanes
                turned = b.transpose(tile, permutation=[1, 0])
                place = [panel, b.add(k.start, b.index(i * weight.lanes)), span.start]
                b.store(turned, self.packed, place, masked=True if rest < weight.lanes else None)

        def one(span: Span) -> None:
            panel = b.floor_divide(span.start, b.index(width))
            if span.size < width:
                rest = b.number(0, VectorType((1, width - span.size), f32))
                b.loop(0, depth, 1, (), lambda k, _: (
                    b.store(rest, self.packed, [panel, k, b.index(span.size)])))  # fmt: skip
            exact_tiles(b, span.size, block, (), lambda piece, _: (
                exact_tiles(b, depth, weight.step, (), lambda k, _: (
                    some(panel, span.start, piece, k)), "k") and ()))  # fmt: skip

        columns.tiles(width, one)
