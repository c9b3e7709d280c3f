# SPDX-License-Identifier: Apache-2.0
"""Concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import gcd, prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, VectorType, element_type, shape_of
from ....ops.fields import get_i64
from ....support.lengths import is_open, power_of_two
from ....support.machines import CHUNK_BYTES
from ....support.target import Target
from ...schedule.programs import tile_width
from .finished import Finished
from .single import OpKernelBuilder
from .tiling import Span

#: Rows of at least so many bytes are copied by `tile.copy`.
COPY_BYTES = 512
#: The most operands whose rows are combined in shared memory; the code for each is separate.
MOST_JOINED = 16


def concatenate_kernel(op: Op, target: Target) -> Finished:
    """Copies the operands into the result. The dimensions before and after the axis are merged."""
    axis = get_i64(op, "axis")
    shape = shape_of(op.results[0].type)
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    widths = [shape_of(o.type)[axis] * after for o in op.operands]
    whole = (before, sum(widths))
    space, together = whole, 0
    if target.has_thread_blocks:
        most = tile_width(target, item_bytes(element_type(op.results[0].type)))
        space = (sum(_blocks(before, width, most) for width in widths), 1)
        if before > 1 and whole[1] <= most and sum(map(bool, widths)) <= MOST_JOINED:
            busy = power_of_two(max(1, before // (2 * target.multiprocessors)))
            together = min(most // power_of_two(whole[1]), busy)
            space = (-(-before // together), 1)
    builder = OpKernelBuilder(op, target, space, [(before, w) for w in widths], [whole])
    if together:
        _joined(builder, before, widths, together)
    elif builder.has_thread_blocks:
        _one_after_the_other(builder, before, widths)
    else:
        builder.each_row(lambda row: _side_by_side(builder, row, widths))
    return builder.done()


def _side_by_side(builder: OpKernelBuilder, row: Span, widths: Sequence[int]) -> None:
    """Copies one row of the result."""
    b = builder.b
    (result,) = builder.results
    element = element_type(result.type)
    at = 0
    for source, width in zip(builder.sources, widths, strict=True):

        def move(span: Span, _: object, source: Value = source, at: int = at) -> None:
            tile = b.load(source, [row.start, span.start], type=VectorType((span.size,), element))
            b.store(tile, result, [row.start, b.add(span.start, b.index(at))])

        if is_open((width,)) or width * item_bytes(element) >= COPY_BYTES:
            part = b.window(source, [row.start, b.index(0)], (width,))
            b.copy(part, b.window(result, [row.start, b.index(at)], (width,)))
        else:
            builder.tiles(width, builder.width, (), move)
        at += width


def _joined(builder: OpKernelBuilder, before: int, widths: Sequence[int], rows: int) -> None:
    """Combines some short rows of the result in shared memory, so that a block of threads stores contiguous elements."""
    b = builder.b
    (result,) = builder.results
    element, total = element_type(result.type), sum(widths)
    # The pitch of the rows is an odd number of units that are moved at once, so that the elements of a column are in different banks.
    piece = CHUNK_BYTES // item_bytes(element)
    unit = piece if total == piece else gcd(piece, *widths)
    pitch = (total // unit | 1) * unit
    whole = b.alloc(type=MemRefType((rows, total), element, (pitch, 1), 0, 3))
    first, start = b.multiply(builder.programs[0], b.index(rows)), b.index(0)

    def tile_of(width: int) -> tuple[VectorType, bool]:
        return VectorType((rows, power_of_two(width)), element), power_of_two(width) != width

    given = [
        (source, width, at)
        for source, width, at in zip(builder.sources, widths, accumulate([0, *widths]), strict=False)
        if width
    ]
    tiles: list[Value] = []
    for source, width, _ in given:
        type, wider = tile_of(width)
        tiles.append(b.load(source, [first, start], type=type, masked=wider or before % rows != 0))
    for tile, (_, width, at) in zip(tiles, given, strict=True):
        part = b.window(whole, [start, b.index(at)], (rows, width))
        b.store(tile, part, [start, start], masked=tile_of(width)[1])
    b.barrier()
    type, wider = tile_of(total)
    tile = b.load(whole, [start, start], type=type, masked=wider)
    b.store(tile, result, [first, start], masked=wider or before % rows != 0)


def _one_after_the_other(builder: OpKernelBuilder, before: int, widths: Sequence[int]) -> None:
    """Each block of threads copies a tile of some rows of one operand."""
    b = builder.b
    element = element_type(builder.results[0].type)
    programs = [0, *accumulate(_blocks(before, width, builder.width) for width in widths)]
    columns_at = [0, *accumulate(widths)]

    def copy(source: Value, width: int, at: int, number: Value) -> None:
        rows, columns = _tile_of(width, builder.width)
        row, column = builder.delinearize(number, (-(-before // rows), -(-width // columns)))
        starts = [b.multiply(row.start, b.index(rows)), b.multiply(column.start, b.index(columns))]
        masked = width % columns != 0 or before % rows != 0
        tile = b.load(source, starts, type=VectorType((rows, columns), element), masked=masked)
        # A tile may extend beyond this operand's columns, which are another operand's: stores are limited to a view.
        part = b.window(builder.results[0], [b.index(0), b.index(at)], (before, width))
        b.store(tile, part, starts, masked=masked)

    def choose(operands: Sequence[int]) -> None:
        # Binary decisions: a chain of `if` would be nested as deeply as there are operands.
        if len(operands) == 1:
            (number,) = operands
            first = b.subtract(builder.programs[0], b.index(programs[number]))
            copy(builder.sources[number], widths[number], columns_at[number], first)
            return
        middle = len(operands) // 2
        before_middle = b.less(builder.programs[0], b.index(programs[operands[middle]]))
        b.branch(before_middle, lambda: choose(operands[:middle]), lambda: choose(operands[middle:]))

    choose([i for i, width in enumerate(widths) if width])


def _tile_of(width: int, most: int) -> tuple[int, int]:
    """Rows and columns of a block's tile of an operand whose rows have `width` elements."""
    columns = min(most, power_of_two(width))
    return most // columns, columns


def _blocks(before: int, width: int, most: int) -> int:
    """The number of such tiles."""
    rows, columns = _tile_of(width, most)
    return -(-before // rows) * -(-width // columns)
