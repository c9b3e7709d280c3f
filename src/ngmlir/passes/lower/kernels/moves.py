# SPDX-License-Identifier: Apache-2.0
"""Kernels that only move data: transpose, slice, concatenate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import gcd, prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import DYNAMIC, MemRefType, VectorType, element_type, shape_of
from ....ops.fields import get_i64, get_i64s
from ....support.lengths import is_multiple, is_open, power_of_two
from ....support.machines import PIECE_BYTES
from ....support.target import Target
from ...schedule.programs import tile_width
from .boxes import transpose_in_boxes
from .frame import Span, last_apart
from .single import Single, SingleFrame, copied_in_line, rows_together, spends_on_finding, vector

#: Bytes of a cache line, which whole lines are written of, and of two neighbours, which come from memory together.
_LINE, _LINES = 64, 128


def transpose_kernel(op: Op, target: Target) -> Single:
    """Blocks that reach along the rows of both sides."""
    shape, order = _merged_transpose(shape_of(op.operands[0].type), get_i64s(op, "permutation"))
    if target.shares_tiles:
        return transpose_in_boxes(op, target, shape, order)
    result = [shape[d] for d in order]
    element = element_type(op.operands[0].type)
    last = len(shape) - 1
    if not shape or order[-1] == last:
        # The innermost dimension stays: whole rows are copied.
        frame = SingleFrame(op, target, result, [shape], [result])

        def copy(spans: list[Span]) -> None:
            starts = [s.start for s in spans]
            source = [starts[order.index(d)] for d in range(len(shape))]
            type = vector(spans[-1].size if spans else 0, element)
            masked = bool(spans) and spans[-1].masked
            tile = frame.b.load(frame.sources[0], source, type=type, masked=masked)
            frame.b.store(tile, frame.results[0], starts, masked=masked)

        frame.visit(result, frame.width, copy)
        return frame.done()
    # The result's loop over the operand's innermost dimension, and the result's own innermost loop.
    inner = order.index(last)
    side = max(4, target.lanes(4))
    outer = [d for d in range(len(result)) if d not in (inner, last)]
    # Stripes of rows go inside the other loops: what one program leaves of a page, the next one takes. A stripe takes all of the
    # lines that it meets: where rows lie a power of two apart, they are gone before the next one comes.
    height, width = (max(side, n // item_bytes(element)) for n in (_LINES, _LINE))
    counts = [*(result[d] for d in outer), -(-result[inner] // height)]
    frame = SingleFrame(op, target, (prod(counts), result[last]), [shape], [result], width=width)
    b = frame.b

    def block(others: list[Span], rows: Span, columns: Span) -> None:
        at = {inner: rows, last: columns, **dict(zip(outer, others, strict=True))}
        starts = [at[d].start for d in range(len(result))]
        source = [starts[order.index(d)] for d in range(len(shape))]
        type = VectorType((rows.size, columns.size), element)
        masked = rows.masked or columns.masked
        tile = b.load(frame.sources[0], source, type=type, dims=[last, order[-1]], masked=masked)
        b.store(tile, frame.results[0], starts, dims=[inner, last], masked=masked)

    def stripe(spans: list[Span]) -> None:
        *others, number = frame.apart(spans[0].start, counts)
        columns = spans[1]
        start = b.multiply(number.start, b.index(height))
        # Of a size that is not known, all that the last stripe has, which may be a whole one.
        even = is_multiple(result[inner], height)
        rest = 0 if even else result[inner] - (counts[-1] - 1) * height

        def line(rows: Span, _: object) -> tuple[()]:
            """Blocks side by side, until the lines of the result are whole."""

            def one(part: Span, _: object) -> tuple[()]:
                at, beside = b.add(start, rows.start), b.add(columns.start, part.start)
                masked = part.masked or columns.masked
                block(others, rows._replace(start=at), part._replace(start=beside, masked=masked))
                return ()

            frame.tiles(columns.size, side, (), one)
            return ()

        if even:
            frame.tiles(height, side, (), line)
        else:
            last_apart(
                b,
                number.start,
                counts[-1],
                lambda: frame.tiles(height, side, (), line),
                lambda: frame.tiles(rest, side, (), line),
            )

    frame.visit(frame.sizes, width, stripe)
    return frame.done()


def _merged_transpose(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Operand shape and permutation without dimensions of one element and with neighbours that stay together."""
    kept = [d for d in order if shape[d] != 1]
    runs: list[list[int]] = []
    for d in kept:
        previous = runs[-1][-1] if runs else None
        between = range(previous + 1, d) if previous is not None and previous < d else None
        if between is not None and all(shape[x] == 1 for x in between):
            runs[-1].append(d)
        else:
            runs.append([d])
    by_operand = sorted(runs, key=lambda run: run[0])
    sizes = [prod(shape[d] for d in run) for run in by_operand]
    return sizes, [by_operand.index(run) for run in runs]


def slice_kernel(op: Op, target: Target) -> Single:
    """Reads with a step."""
    starts = get_i64s(op, "starts")
    steps = get_i64s(op, "steps")
    element = element_type(op.results[0].type)
    shape = shape_of(op.results[0].type)
    item, rows = item_bytes(element), 1
    if target.shares_tiles and len(shape) > 1:
        rows = rows_together(target, shape, item)
        idle = (steps[-1] != 1 or shape[-1] * item < REQUEST) and _leaves_lanes_idle(shape[-1], item)
        if idle or spends_on_finding(target, shape, item, rows):
            return _slice_in_line(op, target)
    frame = SingleFrame(op, target, shape, rows=rows)
    b = frame.b

    def move(spans: list[Span]) -> None:
        source = [
            b.add(b.index(start), b.multiply(s.start, b.index(step)))
            for s, start, step in zip(spans, starts, steps, strict=True)
        ]
        tiled = [d for d, span in enumerate(spans) if span.size]
        type = VectorType(tuple(spans[d].size for d in tiled), element) if tiled else element
        distance = [steps[d] for d in tiled] if any(steps[d] != 1 for d in tiled) else None
        masked = any(span.masked for span in spans)
        tile = b.load(frame.sources[0], source, type=type, steps=distance, masked=masked)
        b.store(tile, frame.results[0], [s.start for s in spans], masked=masked)

    frame.visit(frame.sizes, frame.width, move, rows)
    return frame.done()


#: Bytes that one warp moves at once, and those in which memory is fetched.
REQUEST, SECTOR = 128, 32


def _leaves_lanes_idle(columns: int, item: int) -> bool:
    """Whether rows are so short, or begin so, that requests of a warp along one row are not full."""
    bytes = columns * item
    return (bytes < 4 * REQUEST and bytes % REQUEST != 0) or bytes % SECTOR != 0


def _slice_in_line(op: Op, target: Target) -> Single:
    """The result as one line: what a warp reads lies together as far as it can."""
    operand, starts, steps = op.operands[0].type, get_i64s(op, "starts"), get_i64s(op, "steps")
    rows = MemRefType(shape_of(operand), element_type(operand)).row_strides
    strides = [row * step for row, step in zip(rows, steps, strict=True)]
    first = sum(row * start for row, start in zip(rows, starts, strict=True))
    return copied_in_line(op, target, shape_of(op.results[0].type), strides, first)


#: Bytes from which a row is copied as a whole.
COPY_BYTES = 512
#: Operands whose rows are put together in shared memory: each has code of its own.
MOST_JOINED = 16


def concatenate_kernel(op: Op, target: Target) -> Single:
    """One operand after the other; dimensions before and after the axis are merged."""
    axis = get_i64(op, "axis")
    shape = shape_of(op.results[0].type)
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    widths = [shape_of(o.type)[axis] * after for o in op.operands]
    whole = (before, sum(widths))
    space, together = whole, 0
    if target.shares_tiles:
        most = tile_width(target, item_bytes(element_type(op.results[0].type)))
        space = (sum(_blocks(before, width, most) for width in widths), 1)
        if before > 1 and whole[1] <= most and sum(map(bool, widths)) <= MOST_JOINED:
            busy = power_of_two(max(1, before // (2 * target.multiprocessors)))
            together = min(most // power_of_two(whole[1]), busy)
            space = (-(-before // together), 1)
    frame = SingleFrame(op, target, space, [(before, w) for w in widths], [whole])
    if together:
        _joined(frame, before, widths, together)
    elif frame.masks:
        _one_after_the_other(frame, before, widths)
    else:
        frame.each_row(lambda row: _side_by_side(frame, row, widths))
    return frame.done()


def _side_by_side(frame: SingleFrame, row: Span, widths: Sequence[int]) -> None:
    """One row of the result."""
    b = frame.b
    (result,) = frame.results
    element = element_type(result.type)
    at = 0
    for source, width in zip(frame.sources, widths, strict=True):

        def move(span: Span, _: object, source: Value = source, at: int = at) -> tuple[()]:
            tile = b.load(source, [row.start, span.start], type=VectorType((span.size,), element))
            b.store(tile, result, [row.start, b.add(span.start, b.index(at))])
            return ()

        if is_open((width,)) or width * item_bytes(element) >= COPY_BYTES:
            window = MemRefType((width,), element, (1,), DYNAMIC)
            b.copy(
                b.subview(source, [row.start, b.index(0)], type=window),
                b.subview(result, [row.start, b.index(at)], type=window),
            )
        else:
            frame.tiles(width, frame.width, (), move)
        at += width


def _joined(frame: SingleFrame, before: int, widths: Sequence[int], rows: int) -> None:
    """Some short rows of the result, which a block of threads puts together in shared memory: what it writes lies together."""
    b = frame.b
    (result,) = frame.results
    element, total = element_type(result.type), sum(widths)
    # Rows an odd number of what is moved at once apart bring what lies in a column to different banks.
    piece = PIECE_BYTES // item_bytes(element)
    unit = piece if total == piece else gcd(piece, *widths)
    pitch = (total // unit | 1) * unit
    whole = b.alloc(type=MemRefType((rows, total), element, (pitch, 1), 0, 3))
    first, start = b.multiply(frame.programs[0], b.index(rows)), b.index(0)

    def tile_of(width: int) -> tuple[VectorType, bool]:
        return VectorType((rows, power_of_two(width)), element), power_of_two(width) != width

    given = [
        (source, width, at)
        for source, width, at in zip(frame.sources, widths, accumulate([0, *widths]), strict=False)
        if width
    ]
    tiles: list[Value] = []
    for source, width, _ in given:
        type, wider = tile_of(width)
        tiles.append(b.load(source, [first, start], type=type, masked=wider or before % rows != 0))
    for tile, (_, width, at) in zip(tiles, given, strict=True):
        window = MemRefType((rows, width), element, (pitch, 1), DYNAMIC, 3)
        part = b.subview(whole, [start, b.index(at)], type=window)
        b.store(tile, part, [start, start], masked=tile_of(width)[1])
    b.barrier()
    type, wider = tile_of(total)
    tile = b.load(whole, [start, start], type=type, masked=wider)
    b.store(tile, result, [first, start], masked=wider or before % rows != 0)


def _one_after_the_other(frame: SingleFrame, before: int, widths: Sequence[int]) -> None:
    """Each block of threads copies a tile of some rows of one operand."""
    b = frame.b
    element = element_type(frame.results[0].type)
    programs = [0, *accumulate(_blocks(before, width, frame.width) for width in widths)]
    columns_at = [0, *accumulate(widths)]

    def copy(source: Value, width: int, at: int, number: Value) -> None:
        rows, columns = _tile_of(width, frame.width)
        row, column = frame.apart(number, (-(-before // rows), -(-width // columns)))
        starts = [b.multiply(row.start, b.index(rows)), b.multiply(column.start, b.index(columns))]
        masked = width % columns != 0 or before % rows != 0
        tile = b.load(source, starts, type=VectorType((rows, columns), element), masked=masked)
        # A tile may reach beyond this operand's rows, into what another one writes.
        window = MemRefType((before, width), element, (sum(widths), 1), DYNAMIC)
        part = b.subview(frame.results[0], [b.index(0), b.index(at)], type=window)
        b.store(tile, part, starts, masked=masked)

    def choose(operands: Sequence[int]) -> None:
        # By halves: one `if` in the other for each operand would nest hundreds of them.
        if len(operands) == 1:
            (number,) = operands
            first = b.subtract(frame.programs[0], b.index(programs[number]))
            copy(frame.sources[number], widths[number], columns_at[number], first)
            return
        middle = len(operands) // 2
        before_middle = b.less(frame.programs[0], b.index(programs[operands[middle]]))
        b.branch(before_middle, lambda: choose(operands[:middle]), lambda: choose(operands[middle:]))

    choose([i for i, width in enumerate(widths) if width])


def _tile_of(width: int, most: int) -> tuple[int, int]:
    """Rows and columns of the tile that a block of threads copies of an operand whose rows have `width` elements."""
    columns = min(most, power_of_two(width))
    return most // columns, columns


def _blocks(before: int, width: int, most: int) -> int:
    """How many such tiles there are."""
    rows, columns = _tile_of(width, most)
    return -(-before // rows) * -(-width // columns)
