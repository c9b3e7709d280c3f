# SPDX-License-Identifier: Apache-2.0
"""Matrix products of tiles: by matrix instructions for f16 and bf16, else by fma in registers."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.types import FloatType, Type, element_type, shape_of
from ...llvm.types import Value, f32, i32, vector
from ..elementwise import apply, cast, llvm_element, multiply_pairs
from ..layouts import Layout, MatrixLayouts, matrix_fragments, padded
from .block import Block, Tile
from .convert import Stored, convert_all, read, storage, write


def fragments(op: Op, threads: int) -> MatrixLayouts | None:
    """The layouts of a product by `mma.sync.m16n8k16`, or None where that does not apply."""
    (rows, depth), (_, columns) = shape_of(op.operands[0].type), shape_of(op.operands[1].type)
    narrow, wide = element_type(op.operands[0].type), element_type(op.result.type)
    whole = padded((rows, columns, depth)) == (rows, columns, depth)
    if narrow.text not in ("f16", "bf16") or wide.text != "f32" or not whole:
        return None
    if rows < 16 or columns < 8 or depth < 16:
        return None
    return matrix_fragments(rows, columns, depth, threads)


def dot(
    block: Block, lhs: Tile, rhs: Tile, accumulator: Tile, found: MatrixLayouts | None, pairs: bool
) -> Tile:
    """accumulator + lhs @ rhs, in the layout of the accumulator."""
    if found is not None and accumulator.layout == found.accumulator:
        return _by_matrix(block, lhs, rhs, accumulator, found)
    return _by_fma(block, lhs, rhs, accumulator, pairs)


# ---- fma


def _by_fma(block: Block, lhs: Tile, rhs: Tile, accumulator: Tile, pairs: bool) -> Tile:
    """Each thread reads the rows and columns of its block step by step, k ascending, from shared memory."""
    layout = accumulator.layout
    rows, columns = layout.drop([1]), layout.drop([0])
    depth = lhs.shape[1]
    # Lhs lies column by column, rhs row by row: so a thread's neighbours are neighbours in memory.
    left = storage(lhs.layout, lhs.element, order=(1, 0))
    right = storage(rhs.layout, rhs.element, order=(0, 1))
    base = block.scratch(left.bytes + right.bytes)
    stored_left = write(block, lhs, left, base)
    stored_right = write(block, rhs, right, block.b.getelementptr("i8", base, left.bytes))
    block.barrier()
    row_of = [rows.held.index((at[0],)) for at in layout.held]
    column_of = [columns.held.index((at[1],)) for at in layout.held]
    sums = list(accumulator.values)
    for k in range(depth):
        a = _line(block, stored_left, rows, lhs.element, accumulator.element, k, 1)
        c = _line(block, stored_right, columns, rhs.element, accumulator.element, k, 0)
        sums = [
            _multiply_add(block, accumulator.element, a[i], c[j], total, pairs)
            for i, j, total in zip(row_of, column_of, sums, strict=True)
        ]
    block.scratch_done()
    return accumulator.with_values(sums)


def _line(
    block: Block, stored: Stored, layout: Layout, narrow: Type, wide: Type, k: int, dimension: int
) -> list[Value]:
    """The elements at `k` along `dimension` that a thread needs."""
    values = read(block, stored.at(dimension, k), layout, narrow)
    return [cast(block.b, value, narrow, wide) for value in values]


def _multiply_add(block: Block, element: Type, x: Value, y: Value, total: Value, pairs: bool) -> Value:
    if isinstance(element, FloatType):
        return apply(block.b, "fma", element, x, y, total)
    return block.b.add(multiply_pairs(block.b, x, y) if pairs else block.b.mul(x, y), total)


# ---- matrix instructions

_RESULT = "{float,float,float,float}"


def _by_matrix(block: Block, lhs: Tile, rhs: Tile, accumulator: Tile, found: MatrixLayouts) -> Tile:
    b = block.b
    left, right = convert_all(block, [(lhs, found.lhs), (rhs, found.rhs)])
    layout = accumulator.layout
    name = f"llvm.nvvm.mma.m16n8k16.row.col.{'f32.f32' if lhs.element.text == 'f16' else 'bf16'}"
    sums = list(accumulator.values)
    steps = range(0, lhs.shape[1], 16)
    left_words, right_words = _words(block, left), _words(block, right)
    where_left = {at: r // 2 for r, at in enumerate(found.lhs.held)}
    where_right = {at: r // 2 for r, at in enumerate(found.rhs.held)}
    for first in range(0, layout.registers, 4):
        row, column = layout.held[first]
        total = sums[first : first + 4]
        for k in steps:
            operands = [left_words[where_left[row + i, k + j]] for j in (0, 8) for i in (0, 8)]
            operands += [right_words[where_right[k + j, column]] for j in (0, 8)]
            got = b.intrinsic(name, _RESULT, *operands, *total, overload=())
            total = [b.extract_value(got, i, f32) for i in range(4)]
        sums[first : first + 4] = total
    return accumulator.with_values(sums)


def _words(block: Block, tile: Tile) -> list[Value]:
    """Pairs of elements as matrix instructions take them."""
    b, values = block.b, tile.values
    kind = vector(2, llvm_element(tile.element))
    word = kind if tile.element.text == "f16" else i32
    return [b.bitcast(block.pack(values[i : i + 2]), word) for i in range(0, len(values), 2)]
