# SPDX-License-Identifier: Apache-2.0
"""Packing for matrix products: one side is copied into panels, whose rows a register tile reads one after the
other. Seen from the panels a side has rows and columns: the right side those of the product (depth x columns),
the left side its own (rows x depth)."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.attributes import Attribute, IntegerAttr, integers
from ...ir.core import Block, Op, Value
from ...ir.types import MemRefType, Type, VectorType, i64, index
from ...ops import tile as tile_ops
from ...ops.builder import Builder, function
from ...support.diagnostics import Location
from .product import Product

#: Rows that are copied at once: a square block is transposed in registers.
ROWS = 16


@dataclass(frozen=True)
class Packing:
    """Panels of `width` columns. `turned`: the side is stored columns x rows."""

    batch: int
    rows: int
    columns: int
    width: int
    turned: bool
    element: Type

    @property
    def shape(self) -> tuple[int, ...]:
        """[batch,] panels, rows, width."""
        shape = (-(-self.columns // self.width), self.rows, self.width)
        return (self.batch, *shape) if self.batch else shape

    @property
    def type(self) -> MemRefType:
        return MemRefType(self.shape, self.element)


def right_side(product: Product, width: int) -> Packing:
    return Packing(
        product.batch, product.depth, product.columns, width, not product.rhs_depth_first, product.element
    )


def left_side(product: Product, width: int) -> Packing:
    return Packing(
        product.batch, product.rows, product.depth, width, product.lhs_depth_first, product.element
    )


def pack_kernel(packing: Packing, name: str, location: Location) -> Op:
    """Copies a side into panels. The end of a narrower last panel is zero: registers that reach into it are computed
    with, and what the memory held before might be denormal, which is slow."""
    size = (packing.columns, packing.rows) if packing.turned else (packing.rows, packing.columns)
    batch = (packing.batch,) if packing.batch else ()
    types = [MemRefType((*batch, *size), packing.element), packing.type]
    grid = (*batch, packing.shape[-3])
    block = Block([*types, *[index] * len(grid)], ["from", "to", *"ij"[: len(grid)]])
    b = Builder(block, location)
    buffer, packed = block.args[:2]
    outer, panel = list(block.args[2:-1]), block.args[-1]
    first = len(outer)
    column = b.multiply(panel, b.index(packing.width))

    def copy(width: int) -> None:
        # Blocks to be transposed are square; rows that stay rows are copied whole.
        step = min(width, ROWS) if packing.turned else width

        def some(row: Value, rows: int, at: Value, columns: int) -> tuple[()]:
            type = VectorType((rows, columns), packing.element)
            place = b.add(column, at)
            if packing.turned:
                tile = b.load(buffer, [*outer, place, row], type=type, dims=[first + 1, first])
            else:
                tile = b.load(buffer, [*outer, row, place], type=type)
            b.store(tile, packed, [*outer, panel, row, at])
            return ()

        def band(row: Value, rows: int) -> tuple[()]:
            full = width // step * step
            b.loop(0, full, step, (), lambda at, _: some(row, rows, at, step))
            if width > full:
                some(row, rows, b.index(full), width - full)
            if width < packing.width:
                rest = b.number(0, VectorType((rows, packing.width - width), packing.element))
                b.store(rest, packed, [*outer, panel, row, b.index(width)])
            return ()

        full = packing.rows // ROWS * ROWS
        if full:
            b.loop(0, full, ROWS, (), lambda row, _: band(row, ROWS))
        if packing.rows > full:
            band(b.index(full), packing.rows - full)

    rest = packing.columns % packing.width
    if rest == 0:
        copy(packing.width)
    else:
        whole = b.less(panel, b.index(packing.shape[-3] - 1))
        b.branch(whole, lambda: copy(packing.width), lambda: copy(rest))
    b.end(tile_ops.ReturnOp)
    attributes: dict[str, Attribute] = {"grid": integers(grid), "outputs": IntegerAttr(1, i64)}
    return function(name, block, attributes, kind=tile_ops.KernelOp, location=location)
