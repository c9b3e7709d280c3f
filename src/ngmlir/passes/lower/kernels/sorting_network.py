# SPDX-License-Identifier: Apache-2.0
"""Sorting integers along rows on a GPU: a block of threads sorts whole rows by a sorting network (K. E. Batcher, "Sorting networks and
their applications", 1968).

Each thread holds some elements and exchanges them through shared memory: log2(n) * (log2(n) + 1) / 2 steps for rows of n. Keys are
combined with their positions, in one number where it has enough bits. So no two are equal, and the sort is stable.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.attributes import numeric_literal
from ....ir.core import Op, Value
from ....ir.types import IntegerType, MemRefType, VectorType, element_type, i32, i64, shape_of
from ....ops.builder import Builder
from ....ops.fields import get_i64
from ....support.diagnostics import Limit
from ....support.lengths import power_of_two
from ....support.machines import WARP
from ....support.target import Target
from ...analysis.reduction import merged
from ...analysis.sorting import LONGEST, check_plain_order, comes_before, has_two_runs
from .finished import Finished
from .merging import argsort_of_runs
from .single import OpKernelBuilder
from .tiling import Span

#: Elements of several short rows that one block sorts.
_SHORT_ONES = 2048
#: Elements per thread, at least, and threads per block, at most.
_HELD, _MOST_THREADS = 4, 512


def argsort_by_blocks(op: Op, target: Target) -> Finished:
    """`ng.argsort` along the last dimension: the first positions of ascending signed integers. Equal ones keep their order."""
    check_plain_order(op)
    if has_two_runs(op):
        return argsort_of_runs(op, target)
    axis = get_i64(op, "axis")
    rows, size, after = merged(shape_of(op.operands[0].type), axis)
    kept = shape_of(op.results[0].type)[axis]
    if after > 1 or size > LONGEST:
        raise Limit(
            f"a block of threads can sort rows of up to {LONGEST} elements that are contiguous",
            op.location,
            hint="run sorting-networks first, as the pipeline gpu does",
        )
    width = power_of_two(size)
    together = max(1, min(power_of_two(rows), _SHORT_ONES // width))
    shape, operands, results = (together, width), [(rows, size)], [(rows, kept)]
    builder = OpKernelBuilder(op, target, (rows, size), operands, results, width=width, rows=together)
    b, key, place = builder.b, element_type(op.operands[0].type), element_type(op.results[0].type)
    assert isinstance(key, IntegerType)
    # Elements beyond the end of a row are sorted behind all others.
    greatest = numeric_literal((1 << key.width - 1) - 1, key)

    def sort(spans: list[Span]) -> None:
        at, beyond = [span.start for span in spans], any(span.masked for span in spans)
        pad = greatest if beyond else None
        keys = b.load(builder.sources[0], at, type=VectorType(shape, key), masked=beyond, pad=pad)
        order = b.cast(_Network(b, shape).order(keys, key), type=VectorType(shape, place))
        b.store(order, builder.results[0], at, masked=beyond or kept < width)

    builder.visit((rows, size), width, sort, together)
    return builder.done(max(WARP, min(_MOST_THREADS, together * width // _HELD)))


class _Network:
    """A sorting network along the rows of tiles of a shape. Their length is a power of two."""

    def __init__(self, b: Builder, shape: tuple[int, int]):
        self.b, self.shape = b, shape
        self.row, self.place = (b.iota(type=VectorType(shape, i32), dimension=d) for d in (0, 1))

    def order(self, keys: Value, key: IntegerType) -> Value:
        """The positions of the keys of each row in ascending order."""
        b = self.b
        number = next((n for n, half in ((i32, 16), (i64, 32)) if key.width <= half), None)
        if number is None:
            return self.sorted([keys, self.place])[1]
        wide, half = VectorType(self.shape, number), number.width // 2
        upper = b.shift_left(b.cast(keys, type=wide), b.number(half, wide))
        (record,) = self.sorted([b.bitwise_or(upper, b.cast(self.place, type=wide))])
        return b.bitwise_and(record, b.number((1 << half) - 1, wide))

    def sorted(self, records: Sequence[Value]) -> Sequence[Value]:
        """Merges sorted blocks of each row into blocks of twice the length: each record is compared with its mirror image in the two blocks,
        then with the one half a block away, a quarter, and so on."""
        b, one = self.b, self.b.number(1, i32)
        self.buffers = [
            b.alloc(type=MemRefType(self.shape, element_type(r.type), None, 0, 3)) for r in records
        ]

        def merge(level: Value, carried: Sequence[Value]) -> Sequence[Value]:
            block = b.shift_left(one, b.cast(level, type=i32))
            opposite = self.exchange(carried, b.subtract(block, one), b.shift_right_logical(block, one))

            def settle(step: Value, carried: Sequence[Value]) -> Sequence[Value]:
                distance = b.shift_right_logical(block, b.cast(step, type=i32))
                return self.exchange(carried, distance, distance)

            return b.loop(2, b.add(level, b.index(1)), 1, opposite, settle, name="step")

        return b.loop(1, self.shape[1].bit_length(), 1, records, merge, name="level")

    def exchange(self, records: Sequence[Value], across: Value, bit: Value) -> list[Value]:
        """Compares each record with the one whose position differs in the bits `across`, and keeps the greater one where `bit` of the position
        is set, else the lesser one."""
        b = self.b
        whole = self.place.type
        across, bit = (b.splat(x, whole) for x in (across, bit))
        other = b.bitwise_xor(self.place, across)
        for record, buffer in zip(records, self.buffers, strict=True):
            b.store(record, buffer, [b.index(0)] * 2)
        b.barrier()
        others = [
            b.gather_tile(buffer, [self.row, other], type=r.type)
            for r, buffer in zip(records, self.buffers, strict=True)
        ]
        b.barrier()
        upper = b.not_equal(b.bitwise_and(self.place, bit), b.number(0, whole))
        change = b.bitwise_xor(comes_before(b, others, records), upper)
        return [b.select(change, x, record) for x, record in zip(others, records, strict=True)]
