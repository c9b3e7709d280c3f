# SPDX-License-Identifier: Apache-2.0
"""Matrix product kernels with fused epilogue.

On a CPU a program owns a block of rows. It walks the columns in panels as wide as a few registers, and each
panel in register tiles of rows: one tile of accumulators stays in registers over the whole depth, and the
epilogue is computed on it before it is stored. Rows are split evenly (64 rows by at most 14 are 13+13+13+13+12,
never 14+14+14+14+8). A right side whose rows are not contiguous along the columns, or too far apart for the
cache, is packed first into panels by a kernel of its own, so that it can be packed once and kept.
Blocking as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.attributes import Attribute, IntegerAttr, integers
from ...ir.core import Block, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import (
    FloatType,
    MemRefType,
    Type,
    VectorType,
    element_type,
    f32,
    i64,
    index,
    shape_of,
    with_element,
)
from ...ops import tile as tile_ops
from ...ops.builder import Builder, function
from ...ops.ng import YieldOp
from ...support.diagnostics import Location
from ...support.target import Target
from .plan import Kernel, Plan, Span, Tile, plan, power_of_two

#: Steps of the depth loop that are written out.
UNROLL = 4
#: Depth steps that packing copies at once: a square block is transposed in registers.
PACK_ROWS = 16
#: Multiplications of one program on a CPU: some tens of microseconds.
PROGRAM_MULTIPLICATIONS = 1 << 21
#: Bytes of a right side that is read where it lies although many rows use it.
UNPACKED_BYTES = 1 << 19


@dataclass(frozen=True)
class Product:
    """The sizes and the storage of one product: `lhs_depth_first` = stored depth x rows, and so on."""

    batch: int  # 0 = no batch dimension
    rows: int
    columns: int
    depth: int
    lhs_depth_first: bool
    rhs_depth_first: bool
    element: Type
    result: Type

    @property
    def accumulator(self) -> Type:
        """f16 and bf16 are summed in f32."""
        narrow = isinstance(self.result, FloatType) and self.result.width < 32
        return f32 if narrow else self.result


def product_of(dot: Op) -> Product:
    """Reads a product that the shape pass brought to [batch,] matrix form."""
    lhs, rhs = shape_of(dot.operands[0].type), shape_of(dot.operands[1].type)
    batched = len(lhs) == 3
    lhs_contract = dot.attributes["lhs_contract"].values[0]  # type: ignore[attr-defined]
    rhs_contract = dot.attributes["rhs_contract"].values[0]  # type: ignore[attr-defined]
    first = int(batched)
    return Product(
        batch=lhs[0] if batched else 0,
        rows=lhs[2 * first + 1 - lhs_contract] if batched else lhs[1 - lhs_contract],
        columns=rhs[2 * first + 1 - rhs_contract] if batched else rhs[1 - rhs_contract],
        depth=lhs[lhs_contract],
        lhs_depth_first=lhs_contract == first,
        rhs_depth_first=rhs_contract == first,
        element=element_type(dot.operands[0].type),
        result=element_type(dot.results[0].type),
    )


@dataclass(frozen=True)
class Blocking:
    """The register tile and what is packed."""

    tile_rows: int
    tile_columns: int
    pack: bool


def blocking(product: Product, target: Target) -> Blocking:
    """The register tile that keeps the most accumulators in registers with the fewest loads."""
    lanes = target.lanes(item_bytes(product.accumulator))
    free = target.vector_registers - 2
    wide = 4 if target.vector_registers >= 32 else 1 if target.vector_bytes * target.vector_registers < 1024 else 2
    vectors = min(wide, -(-product.columns // lanes))
    if product.rows == 1:
        vectors = min(free - 4, -(-product.columns // lanes))
    tile_rows = max(1, min(product.rows, (free - vectors) // vectors))
    bytes_ = product.depth * product.columns * item_bytes(product.element)
    row_bytes = product.columns * item_bytes(product.element)
    far = product.rows > 4 * tile_rows and (bytes_ > UNPACKED_BYTES or row_bytes % 4096 == 0)
    # A block of threads brings both sides to shared memory anyway.
    pack = target.execution == "vector" and (not product.rhs_depth_first or far)
    return Blocking(tile_rows, vectors * lanes, pack)


def split(total: int, most: int) -> list[tuple[int, int]]:
    """(how many, of what size): the fewest parts of at most `most`, whose sizes differ by at most one."""
    parts = -(-total // most)
    small, larger = divmod(total, parts)
    out = [(larger, small + 1), (parts - larger, small)]
    return [(count, size) for count, size in out if count]


# ---- packing -----------------------------------------------------------------------------------------------


def packed_shape(product: Product, width: int) -> tuple[int, ...]:
    """[batch,] panels, depth, width; a last panel that is narrower is padded with zeros."""
    shape = (-(-product.columns // width), product.depth, width)
    return (product.batch, *shape) if product.batch else shape


def pack_kernel(product: Product, width: int, name: str, location: Location) -> Op:
    """Copies a right side into panels [batch,] columns / width, depth, width: what a register tile reads is
    then contiguous. The end of a narrower last panel is never read, and not written."""
    source = (product.depth, product.columns) if product.rhs_depth_first else (product.columns, product.depth)
    batch = (product.batch,) if product.batch else ()
    panels = -(-product.columns // width)
    types = [MemRefType((*batch, *source), product.element), MemRefType(packed_shape(product, width), product.element)]
    grid = (*batch, panels)
    block = Block([*types, *[index] * len(grid)], ["from", "to", *"ij"[: len(grid)]])
    b = Builder(block, location)
    buffer, packed = block.args[:2]
    outer, panel = list(block.args[2:-1]), block.args[-1]
    first = len(outer)
    column = b.multiply(panel, b.index(width))

    def copy(size: int) -> None:
        def rows(k: Value, count: int) -> tuple[()]:
            type = VectorType((count, size), product.element)
            if product.rhs_depth_first:
                tile = b.load(buffer, [*outer, k, column], type=type)
            else:
                tile = b.load(buffer, [*outer, column, k], type=type, dims=[first + 1, first])
            b.store(tile, packed, [*outer, panel, k, b.index(0)])
            return ()

        full = product.depth // PACK_ROWS * PACK_ROWS
        if full:
            b.loop(0, full, PACK_ROWS, (), lambda k, _: rows(k, PACK_ROWS))
        if product.depth > full:
            rows(b.index(full), product.depth - full)

    if product.columns % width == 0:
        copy(width)
    else:
        regions = []
        for size in (width, product.columns % width):
            with b.region() as (region, _):
                copy(size)
                b.end(YieldOp)
            regions.append(region)
        whole = b.less(panel, b.index(panels - 1))
        b.if_(whole, types=(), regions=regions)
    b.end(tile_ops.ReturnOp)
    attributes: dict[str, Attribute] = {"grid": integers(grid), "outputs": IntegerAttr(1, i64)}
    return function(name, block, attributes, kind=tile_ops.KernelOp, location=location)


# ---- the CPU kernel ----------------------------------------------------------------------------------------


def dot_kernel(fusion: Op, target: Target, name: str, blocks: Blocking) -> tuple[Op, Plan, Op]:
    """The kernel of a `dot` fusion, and the product in it. Its extra inputs are the two sides (rhs packed if so)."""
    dot = next(op for op in fusion.block.ops if op.name == "ng.dot")
    planned = plan(fusion, lambda op: op is dot)
    product = product_of(dot)
    sides = [
        MemRefType(shape_of(dot.operands[0].type), product.element),
        MemRefType(
            packed_shape(product, blocks.tile_columns) if blocks.pack else shape_of(dot.operands[1].type),
            product.element,
        ),
    ]
    if target.execution == "warps":
        return _for_threads(planned, target, name, dot, product, sides), planned, dot
    kernel = _ForVectors(planned, target, name, dot, product, sides, blocks).build()
    return kernel, planned, dot


class _ForVectors:
    def __init__(
        self, planned: Plan, target: Target, name: str, dot: Op, product: Product,
        sides: Sequence[MemRefType], blocks: Blocking,
    ):  # fmt: skip
        self.name, self.dot, self.product, self.blocks = name, dot, product, blocks
        per_row = product.columns * product.depth
        wanted = max(blocks.tile_rows, PROGRAM_MULTIPLICATIONS // max(1, per_row))
        self.block_rows = min(product.rows, -(-wanted // blocks.tile_rows) * blocks.tile_rows)
        programs = -(-product.rows // self.block_rows)
        grid = ((product.batch,) if product.batch else ()) + ((programs,) if programs > 1 else ())
        self.kernel = Kernel(planned, target, grid, sides)
        self.b = self.kernel.b
        self.lhs, self.rhs = self.kernel.extra
        self.batch = [self.kernel.programs[0]] if product.batch else []
        self.programs = programs

    def build(self) -> Op:
        rows, b = self.product.rows, self.b
        if self.programs == 1:
            self.block(b.index(0), split(rows, self.blocks.tile_rows))
        else:
            first = b.multiply(self.kernel.programs[-1], b.index(self.block_rows))
            whole = rows // self.block_rows
            full = b.less(self.kernel.programs[-1], b.index(whole))

            def part(size: int) -> None:
                self.block(first, split(size, self.blocks.tile_rows))

            if rows % self.block_rows == 0:
                part(self.block_rows)
            else:
                regions = []
                for size in (self.block_rows, rows % self.block_rows):
                    with b.region() as (region, _):
                        part(size)
                        b.end(YieldOp)
                    regions.append(region)
                b.if_(full, types=(), regions=regions)
        return self.kernel.finish(self.name)

    def block(self, first: Value, parts: list[tuple[int, int]]) -> None:
        """All columns of the rows from `first` on."""
        width, columns, b = self.blocks.tile_columns, self.product.columns, self.b

        def panel(column: Value, size: int) -> tuple[()]:
            row = first
            for count, tile_rows in parts:
                start = row

                def body(i: Value, _: object, start: Value = start, tile_rows: int = tile_rows) -> tuple[()]:
                    self.tile(b.add(start, i), tile_rows, column, size)
                    return ()

                if count == 1:
                    self.tile(start, tile_rows, column, size)
                else:
                    b.loop(0, count * tile_rows, tile_rows, (), body)
                row = b.add(start, b.index(count * tile_rows))
            return ()

        full = columns // width * width
        if full == width:
            panel(b.index(0), width)
        elif full:
            b.loop(0, full, width, (), lambda j, _: panel(j, width))
        if columns > full:
            panel(b.index(full), columns - full)

    def tile(self, row: Value, rows: int, column: Value, columns: int) -> None:
        """One register tile: the whole depth, then the epilogue."""
        b, depth = self.b, self.product.depth
        type = VectorType((rows, columns), self.product.accumulator)
        start = b.number(0, type)
        full = depth // UNROLL * UNROLL

        def step(k: Value, accumulator: Value, size: int) -> Value:
            return b.dot_tile(self.left(row, rows, k, size), self.right(column, columns, k, size), accumulator)

        total = start
        if full:
            (total,) = b.loop(0, full, UNROLL, [start], lambda k, v: [step(k, v[0], UNROLL)])
        if depth > full:
            total = step(b.index(full), total, depth - full)
        store_epilogue(self.kernel, self.dot, self.product, self.batch, row, rows, column, columns, total)

    def left(self, row: Value, rows: int, k: Value, size: int) -> Value:
        type = VectorType((rows, size), self.product.element)
        first = len(self.batch)
        if self.product.lhs_depth_first:
            return self.b.load(self.lhs, [*self.batch, k, row], type=type, dims=[first + 1, first])
        return self.b.load(self.lhs, [*self.batch, row, k], type=type)

    def right(self, column: Value, columns: int, k: Value, size: int) -> Value:
        type = VectorType((size, columns), self.product.element)
        b = self.b
        if not self.blocks.pack:
            return b.load(self.rhs, [*self.batch, k, column], type=type)
        panel = b.floor_divide(column, b.index(self.blocks.tile_columns))
        return b.load(self.rhs, [*self.batch, panel, k, b.index(0)], type=type)


def store_epilogue(
    kernel: Kernel, dot: Op, product: Product, batch: Sequence[Value], row: Value, rows: int,
    column: Value, columns: int, total: Value, masked: tuple[bool, bool] = (False, False),
) -> None:  # fmt: skip
    """Computes the rest of the fusion on a tile of the product and stores the outputs."""
    b = kernel.b
    if product.accumulator is not product.result:
        total = b.cast(total, type=with_element(total.type, product.result))
    loops = kernel.plan.loops[dot.results[0]]
    spans: list[Span] = [Span(b.index(0)) for _ in kernel.plan.sizes]
    dims = [(Span(v), product.batch) for v in batch]
    dims += [(Span(row, rows, masked[0]), product.rows), (Span(column, columns, masked[1]), product.columns)]
    kept = [(span, size) for span, size in dims if size != 1]  # a dimension of one element is no loop
    for l, (span, _) in zip(loops, kept, strict=True):
        spans[l] = span
    shape = tuple(span.size for span, _ in kept if span.size)
    if shape != shape_of(total.type):
        total = b.reshape(total, type=VectorType(shape, product.result) if shape else product.result)
    tile = Tile(kernel, spans, {dot.results[0]: total})
    tile.store(list(zip(kernel.plan.outputs, kernel.results, strict=True)))


# ---- the GPU kernel ----------------------------------------------------------------------------------------

#: A block of threads computes a square tile of this many rows and columns at most, in depth steps of `STEP`.
BLOCK, STEP = 64, 16


def _for_threads(planned: Plan, target: Target, name: str, dot: Op, product: Product, sides: Sequence[MemRefType]) -> Op:
    """One block of threads per tile of the result; tiles reaching beyond the ends are masked."""
    rows = min(BLOCK, max(16, power_of_two(product.rows)))
    columns = min(BLOCK, max(16, power_of_two(product.columns)))
    grid_rows, grid_columns = -(-product.rows // rows), -(-product.columns // columns)
    kernel = Kernel(planned, target, (grid_columns, grid_rows, max(1, product.batch)), sides)
    b = kernel.b
    lhs, rhs = kernel.extra
    batch = [kernel.programs[2]] if product.batch else []
    row = b.multiply(kernel.programs[1], b.index(rows))
    column = b.multiply(kernel.programs[0], b.index(columns))
    first = len(batch)

    def side(buffer: Value, across: Value, size: int, k: Value, depth_first: bool, left: bool) -> Value:
        indices = [*batch, k, across] if depth_first else [*batch, across, k]
        shape = (size, STEP) if left else (STEP, size)
        swapped = [first + 1, first] if depth_first == left else None
        extent = product.rows if left else product.columns
        masked = extent % size != 0 or product.depth % STEP != 0
        return b.load(buffer, indices, type=VectorType(shape, product.element), dims=swapped, masked=masked)

    def step(k: Value, values: Sequence[Value]) -> list[Value]:
        left = side(lhs, row, rows, k, product.lhs_depth_first, True)
        right = side(rhs, column, columns, k, product.rhs_depth_first, False)
        return [b.dot_tile(left, right, values[0])]

    start = b.number(0, VectorType((rows, columns), product.accumulator))
    (total,) = b.loop(0, product.depth, STEP, [start], step)
    for axis, size in ((1, product.columns), (0, product.rows)):
        if size == 1:
            total = _first(b, total, axis)
    masked = (product.rows % rows != 0, product.columns % columns != 0)
    store_epilogue(kernel, dot, product, batch, row, rows, column, columns, total, masked)
    return kernel.finish(name, target.threads)


def _first(b: Builder, tile: Value, axis: int) -> Value:
    """The first row or column of a tile. What stands beside it is not 0 where the other side is not finite."""
    places = VectorType(shape_of(tile.type), i64)
    here = b.equal(b.iota(type=places, dimension=axis), b.number(0, places))
    return b.sum(b.select(here, tile, b.number(0, tile.type)), axes=[axis])
