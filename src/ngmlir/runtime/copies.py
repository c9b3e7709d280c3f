# SPDX-License-Identifier: Apache-2.0
"""Copies between arrays whose memory orders differ, block by block, as generated LLVM IR.

NumPy iterates over the rows of the target. If these are not the rows of the source (Fortran order, a transpose), each
element is in another cache line, which is evicted before its neighbour is used. Here both arrays are accessed in whole
cache lines: in tiles of one line along the contiguous dimension of the source, by as many rows as fit into the L1 cache
whatever the stride (its associativity).
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..llvm.machine import host_target
from ..llvm.text import Argument, Function, Module
from ..llvm.types import Operand, Value, constant, i64, ptr
from ..support import arrays
from .cache import assembled
from .library import Library

#: Smaller arrays fit into a cache, where the order of a copy matters little; planes with a shorter side are not tiled.
_LEAST_BYTES, _LEAST_SIDE = 256 * 1024, 8
_LINE = 64
#: Side of a block in elements; the TLB covers the pages of a block.
_BLOCK = 256
#: Bytes that are copied at once before they are converted: they stay in a cache until then.
_SLAB_BYTES = 512 * 1024
#: Words of a plan that describe the planes of both arrays, before three words for each outer dimension.
_HEADER = 8

Array = np.ndarray[Any, Any]


def copy_into(target: Array, source: Array) -> None:
    """`target[...] = source` for arrays of the same shape, with any orders and element types."""
    plain = source.itemsize in (1, 2, 4, 8) and not source.dtype.hasobject
    if not plain or target.nbytes < _LEAST_BYTES or np.may_share_memory(target, source):
        arrays.copy_into(target, source)
        return
    sizes, to, of = _merged(target.shape, target.strides, source.strides)
    across, along = _nearest(of), _nearest(to)
    if across == along or not of[along] or min(sizes[across], sizes[along]) < _LEAST_SIDE:
        np.copyto(target, source, casting="unsafe")
    elif target.dtype == source.dtype:
        outer = [d for d in range(len(sizes)) if d not in (across, along)]
        words = [target.ctypes.data, source.ctypes.data, sizes[across], sizes[along]]
        words += [to[across], to[along], of[across], of[along]]
        words += [w for d in reversed(outer) for w in (sizes[d], to[d], of[d])]
        plan = np.array(words, np.int64)
        straight = to[along] == of[across] == target.itemsize
        code = _copier(target.itemsize, straight)
        code.run(plan.ctypes.data, prod(sizes[d] for d in outer), len(outer))
    else:
        _convert(target, source)


def contiguous(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array in C order with elements of `dtype`: itself, or a copy."""
    array = np.asarray(array)
    if array.dtype == dtype and array.flags.c_contiguous:
        return array
    copy = np.empty(array.shape, dtype)
    copy_into(copy, array)
    return copy


def _convert(target: Array, source: Array) -> None:
    """Slices along the longest dimension, one after another: each is first reordered, then converted."""
    longest = max(range(target.ndim), key=target.shape.__getitem__)
    rows = target.shape[longest]
    step = max(rows * _SLAB_BYTES // (target.size * source.itemsize), _LINE)
    for start in range(0, rows, step):
        part = (*[slice(None)] * longest, slice(start, start + step))
        ordered = np.empty(target[part].shape, source.dtype)
        copy_into(ordered, source[part])
        np.copyto(target[part], ordered, casting="unsafe")


def _merged(
    shape: tuple[int, ...], to: tuple[int, ...], of: tuple[int, ...]
) -> tuple[list[int], list[int], list[int]]:
    """Sizes and strides of both arrays, with adjacent dimensions merged where that is possible in both, and dimensions
    of size 1 dropped."""
    merged: list[tuple[int, int, int]] = []
    for size, a, b in zip(shape, to, of, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * a and merged[-1][2] == size * b:
            size *= merged.pop()[0]
        merged.append((size, a, b))
    sizes, targets, sources = zip(*merged, strict=True)
    return [*sizes], [*targets], [*sources]


def _nearest(strides: list[int]) -> int:
    """The dimension with the smallest stride that is not 0; the last one of several."""
    distances = [abs(stride) or sys.maxsize for stride in strides]
    return min(reversed(range(len(strides))), key=distances.__getitem__)


@cache
def _copier(size: int, straight: bool) -> Any:
    """The code for elements of `size` bytes: `(plan, planes, outer dimensions)`. `straight`: the planes are contiguous
    along the inner dimension of both arrays."""
    module = Module()
    arguments = [Argument(ptr, "plan"), Argument(i64, "planes"), Argument(i64, "rank")]
    function = module.function("ngmlir_copy", "void", arguments)
    _Copier(function, size, straight, host_target().l1_ways).write()
    library = Library(assembled(module.text(), host_target()), ["ngmlir_copy"])
    code = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library["ngmlir_copy"])
    return _Code(code, library)


class _Code(NamedTuple):
    run: Any
    library: Library  # keeps the code in memory


class _Copier:
    """The body of a copy: a loop over planes, blocks and tiles."""

    def __init__(self, function: Function, size: int, straight: bool, ways: int):
        self.b, self.size, self.straight = function, size, straight
        self.lanes = min(8, 32 // size)
        self.height = _LINE // size
        self.width = ways // self.lanes * self.lanes or self.lanes
        self.strides = [self.word(i) for i in range(4, _HEADER)]
        if straight:
            self.strides[1] = self.strides[2] = constant(i64, size)

    def write(self) -> None:
        b = self.b
        _, planes, rank = b.arguments
        rows, columns = self.word(2), self.word(3)
        with b.loop(0, planes) as plane:
            # The number of the plane as an index along each outer dimension, the last one first.
            with b.loop(0, rank, 1, [plane.index, self.word(0, ptr), self.word(1, ptr)]) as outer:
                rest, target, source = outer.carried
                first = b.add(b.mul(outer.index, 3), _HEADER)
                count = self.word(first)
                left = b.sdiv(rest, count)
                place = b.sub(rest, b.mul(left, count))
                to, of = (b.mul(place, self.word(b.add(first, i))) for i in (1, 2))
                outer.next(left, self.moved(target, to), self.moved(source, of))
            _, target, source = outer.results
            with b.loop(0, rows, _BLOCK) as high, b.loop(0, columns, _BLOCK) as wide:
                below = b.smin(b.add(high.index, _BLOCK), rows)
                right = b.smin(b.add(wide.index, _BLOCK), columns)
                with (
                    b.loop(high.index, below, self.height, certain=True) as row,
                    b.loop(wide.index, right, self.width, certain=True) as column,
                ):
                    self.tile(
                        *self.at(target, source, row.index, column.index),
                        b.smin(b.sub(below, row.index), self.height),
                        b.smin(b.sub(right, column.index), self.width),
                    )
        b.ret()

    def tile(self, to: Value, of: Value, rows: Value, columns: Value) -> None:
        """Copies one tile, which may be smaller at the ends."""
        b = self.b
        wide = b.icmp("eq", columns, self.width)
        done = b.select(wide, b.sub(rows, b.srem(rows, self.lanes)) if self.straight else rows, 0)
        with b.loop(0, done, self.lanes if self.straight else 1) as row:
            for column in range(0, self.width, self.lanes if self.straight else 1):
                (self.turn if self.straight else self.copy)(*self.at(to, of, row.index, column))
        with b.loop(done, rows) as row, b.loop(0, columns) as column:
            self.copy(*self.at(to, of, row.index, column.index))

    def turn(self, to: Value, of: Value) -> None:
        """Transposes a square block in registers: each step interleaves the first half of the registers with the
        second."""
        b, lanes = self.b, self.lanes
        vector = f"<{lanes} x i{8 * self.size}>"
        turned = [b.load(vector, self.at(to, of, 0, i)[1], align=1) for i in range(lanes)]
        low = [i // 2 + lanes * (i % 2) for i in range(lanes)]
        high = [i + lanes // 2 for i in low]
        for _ in range(lanes.bit_length() - 1):
            pairs = zip(turned[: lanes // 2], turned[lanes // 2 :], strict=True)
            turned = [b.shuffle(x, y, order) for x, y in pairs for order in (low, high)]
        for i, row in enumerate(turned):
            b.store(row, self.at(to, of, i, 0)[0], align=1)

    def copy(self, to: Value, of: Value) -> None:
        self.b.store(self.b.load(f"i{8 * self.size}", of, align=1), to, align=1)

    def at(self, to: Value, of: Value, row: Operand, column: Operand) -> tuple[Value, Value]:
        """The address of an element in both arrays."""
        b = self.b
        to_row, to_column, of_row, of_column = self.strides
        to = self.moved(to, b.add(b.mul(to_row, row), b.mul(to_column, column)))
        return to, self.moved(of, b.add(b.mul(of_row, row), b.mul(of_column, column)))

    def moved(self, pointer: Value, distance: Value) -> Value:
        return self.b.getelementptr("i8", pointer, distance)

    def word(self, at: Operand, kind: str = i64) -> Value:
        """A word of the plan."""
        return self.b.load(kind, self.b.getelementptr(i64, self.b.arguments[0], at), align=8)
