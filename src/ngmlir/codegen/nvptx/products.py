# SPDX-License-Identifier: Apache-2.0
"""Matrix products of tiles: by matrix instructions if the GPU has one for the elements, else by fma in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op
from ...ir.literals import item_bytes
from ...ir.types import FloatType, Type, element_type, shape_of
from ...llvm.types import Value, f32, i8, i32, vector
from ...ops.fields import find_enum
from ...ops.layouts import Layout, MatrixLayouts, matrix_fragments, padded
from ...support.machines import Gpu, MatrixAtom
from ..elementwise import apply, cast, llvm_element, multiply_words, whole_words
from .block import Block, Tile
from .convert import in_registers
from .shared import MatrixRows, Storage, Stored, User, matrix_rows, read, read_words, storage, write


def atom_of(op: Op, gpu: Gpu) -> MatrixAtom | None:
    """The matrix instruction for a product, or None if there is none for its elements and sizes."""
    if op.attributes.get("words"):
        return None
    (rows, depth), (_, columns) = shape_of(op.operands[0].type), shape_of(op.operands[1].type)
    lhs, rhs, result = (element_type(v.type).text for v in (*op.operands[:2], op.result))
    if op.attributes.get("tf32") and lhs == rhs == "f32":
        lhs = rhs = "tf32"
    found = gpu.atom(lhs, rhs, result)
    if found is None or padded((rows, columns, depth)) != (rows, columns, depth):
        return None
    return found if rows >= found.rows and columns >= found.columns and depth >= found.depth else None


def fragments(op: Op, threads: int, gpu: Gpu) -> MatrixLayouts | None:
    """The layouts of a product by matrix instructions, or None if there is no such instruction."""
    atom = atom_of(op, gpu)
    if atom is None:
        return None
    (rows, depth), (_, columns) = shape_of(op.operands[0].type), shape_of(op.operands[1].type)
    return matrix_fragments(rows, columns, depth, threads, 32 // atom.depth)


def dot(block: Block, op: Op, lhs: Tile, rhs: Tile, accumulator: Tile, gpu: Gpu) -> Tile:
    """accumulator + lhs @ rhs, in the layout of the accumulator."""
    atom, found = atom_of(op, gpu), fragments(op, block.threads, gpu)
    if atom is not None and found is not None and accumulator.layout == found.accumulator:
        return _by_matrix(block, lhs, rhs, accumulator, found, atom)
    return _by_fma(block, lhs, rhs, accumulator, find_enum(op, "words") or "")


# ---- fma


def _by_fma(block: Block, lhs: Tile, rhs: Tile, accumulator: Tile, words: str) -> Tile:
    """Each thread reads the rows and columns of its block from shared memory, k ascending."""
    layout = accumulator.layout
    rows, columns = layout.drop([1]), layout.drop([0])
    depth = lhs.shape[1]
    # Lhs is stored in column-major order, rhs in row-major order: so a thread's neighbours are contiguous.
    left = _joined(lhs, rows, (1, 0))
    right = _joined(rhs, columns, (0, 1))
    base = block.scratch(left.bytes + right.bytes)
    stored_left = write(block, lhs, left, base)
    stored_right = write(block, rhs, right, block.b.getelementptr("i8", base, left.bytes))
    block.barrier()
    row_of = [rows.held.index((at[0],)) for at in layout.held]
    column_of = [columns.held.index((at[1],)) for at in layout.held]
    sums = list(accumulator.values)
    for k in range(depth):
        a = _line(block, stored_left, rows, lhs.element, accumulator.element, k, 1, words)
        c = _line(block, stored_right, columns, rhs.element, accumulator.element, k, 0, words)
        sums = [
            _multiply_add(block, accumulator.element, a[i], c[j], total, words)
            for i, j, total in zip(row_of, column_of, sums, strict=True)
        ]
    block.force(sums)
    block.scratch_done()
    return accumulator.with_values(sums)


def _joined(tile: Tile, reader: Layout, order: tuple[int, int]) -> Storage:
    """The storage of a tile that is read one row or column at a time."""
    return storage(
        tile.element, [User(tile.layout), User(reader.spread((order[1],), tile.layout.shape))], [order]
    )


def _line(
    block: Block, stored: Stored, layout: Layout, narrow: Type, wide: Type, k: int, dimension: int, words: str
) -> list[Value]:
    """The elements at `k` along `dimension` that a thread needs."""
    values = read(block, stored.at(dimension, k), layout, narrow)
    if words and narrow is not wide:
        return [whole_words(block.b, value, narrow) for value in values]
    return [cast(block.b, value, narrow, wide) for value in values]


def _multiply_add(block: Block, element: Type, x: Value, y: Value, total: Value, words: str) -> Value:
    if isinstance(element, FloatType):
        return apply(block.b, "fma", element, x, y, total)
    return block.b.add(multiply_words(block.b, words, x, y) if words else block.b.mul(x, y), total)


# ---- matrix instructions


def _by_matrix(
    block: Block, lhs: Tile, rhs: Tile, accumulator: Tile, found: MatrixLayouts, atom: MatrixAtom
) -> Tile:
    b, layout = block.b, accumulator.layout
    left, right = _operands(block, [(lhs, found.lhs), (rhs, found.rhs)])
    word = 32 // atom.depth  # bytes of one element
    per_word = 4 // word
    where_left = {at: r // per_word for r, at in enumerate(found.lhs.held)}
    where_right = {at: r // per_word for r, at in enumerate(found.rhs.held)}
    half = atom.depth // 2
    kind = f32 if atom.sum == "f32" else i32
    result = "{" + ",".join([kind] * 4) + "}"
    packed = vector(2, llvm_element(lhs.element)) if atom.lhs == "f16" else i32
    left, right = ([b.bitcast(w, packed) for w in words] for words in (left, right))
    sums = list(accumulator.values)
    for k in range(0, lhs.shape[1], atom.depth):
        for first in range(0, layout.registers, 4):
            row, column = layout.held[first]
            operands = [left[where_left[row + i, k + j]] for j in (0, half) for i in (0, 8)]
            operands += [right[where_right[k + j, column]] for j in (0, half)]
            got = b.intrinsic(atom.intrinsic, result, *operands, *sums[first : first + 4], overload=())
            sums[first : first + 4] = [b.extract_value(got, i, kind) for i in range(4)]
    return accumulator.with_values(sums)


def _operands(block: Block, wanted: Sequence[tuple[Tile, Layout]]) -> list[list[Value]]:
    """The words of fragments; read by `ldmatrix` where the storage of the tile in shared memory permits it."""
    results: list[list[Value] | None] = []
    through: list[tuple[Tile, Layout, Storage, int]] = []
    size = 0
    for tile, layout in wanted:
        moved = in_registers(block, tile, layout, threads=False)
        results.append(_words(block, tile, moved.values) if moved is not None else None)
        if moved is not None:
            continue
        users = [User(tile.layout), User(layout, by_matrix=True)]
        through.append((tile, layout, storage(tile.element, users), size))
        size += through[-1][2].bytes
    base = block.scratch(size) if size else None
    stored: list[Stored] = []
    for tile, _, place, offset in through:
        assert base is not None
        stored.append(write(block, tile, place, block.b.getelementptr(i8, base, offset) if offset else base))
    if stored:
        block.barrier()
    back: list[list[Value]] = []
    for found, (tile, layout, place, _) in zip(stored, through, strict=True):
        rows: MatrixRows | None = matrix_rows(layout, place)
        if rows is not None:
            back.append(read_words(block, found, rows, tile.element))
        else:
            back.append(_words(block, tile, read(block, found, layout, tile.element)))
    if stored:
        block.scratch_done()
    following = iter(back)
    return [words if words is not None else next(following) for words in results]


def _words(block: Block, tile: Tile, values: Sequence[Value]) -> list[Value]:
    """Elements packed into words of 4 bytes, as matrix instructions take them."""
    b, count = block.b, 4 // item_bytes(tile.element)
    return [b.bitcast(block.pack(values[i : i + count]), i32) for i in range(0, len(values), count)]
