# SPDX-License-Identifier: Apache-2.0
"""tile.dot: the matrix micro-kernel.

The accumulator stays in registers. For each k one row of the right tile is loaded, and each element of a column of the
left tile is broadcast and used by one fused multiply-add per register of that row. LLVM folds the load of the element
into the broadcast; with 6 x 4 accumulators of 32 registers nothing is spilled. Machines without an fma instruction
multiply and add, and round twice: an exact emulation would take thirty instructions. Words (several narrow elements in
each i32) are multiplied by a dot instruction for these elements where the machine has one.
"""

from __future__ import annotations

from ...ir.core import Value as IRValue
from ...ir.types import FloatType, Type, element_type, i32, shape_of
from ...llvm.types import Value, constant
from ...ops import tile
from .. import elementwise
from . import formats
from .emitter import Deferred, Emitter, Tile
from .rules import multiply_words
from .tiles import Chunk, splat_lane


def dot(e: Emitter, op: tile.DotOp) -> None:
    """tile.dot"""
    rows, depth = shape_of(op.lhs.type)
    element = element_type(op.accumulator.type)
    wide = i32 if op.words else formats.computing(element)
    chunks = e.layout(op.accumulator.type).chunks
    sums = [formats.unpack(e.b, e.machine, element, x) for x in e.registers(op.accumulator)]
    left, right = (_Operand(e, side, wide, bool(op.words)) for side in (op.lhs, op.rhs))

    atom = e.target.dot(op.words) if op.words else None
    room, before = atom.room if atom else 0, sums

    def add(x: Value, y: Value, total: Value) -> Value:
        if not op.words:
            return _multiply_add(e, wide, x, y, total)
        made = multiply_words(e.b, e.target, op.words, x, y, total)
        return _in_order(e, made) if room else made

    for k in range(depth):
        if room and k % room == 0:
            before, sums = sums, [constant(x.type, 0) for x in sums]
        line = [right.register(k, c) for c in range(len(chunks))]
        for m in range(rows):
            for c, chunk in enumerate(chunks):
                factor = left.splat(m, k, chunk.width)
                at = m * len(chunks) + c
                sums[at] = add(factor, line[c], sums[at])
        if room and (k % room == room - 1 or k == depth - 1):
            ones = [constant(x.type, 0x00010001) for x in sums]
            sums = [
                multiply_words(e.b, e.target, "i16_i16", *each)
                for each in zip(sums, ones, before, strict=True)
            ]
    e.define(op.result, [formats.pack(e.b, e.machine, element, x) for x in sums])


def _in_order(e: Emitter, x: Value) -> Value:
    """Returns `x` unchanged, and keeps LLVM from moving its computation past what follows. LLVM would otherwise process
    one column after another, and keep all elements of the left tile, or all products before their sum, in registers, of
    which there are not enough."""
    return e.b.assembly(x.type, "", "=v,0", x, side_effects=True)


def _multiply_add(e: Emitter, element: Type, x: Value, y: Value, total: Value) -> Value:
    if isinstance(element, FloatType):
        return e.b.fma(x, y, total) if e.machine.fma else e.b.fadd(e.b.fmul(x, y), total)
    return e.b.add(e.b.mul(x, y), total)


class _Operand:
    """An operand tile converted to the type of the accumulator: already in registers, or still in memory."""

    def __init__(self, e: Emitter, value: IRValue, wide: Type, words: bool):
        self.e = e
        self.layout = e.layout(value.type)
        self.held = e.find(value)
        self.narrow = element_type(value.type)
        self.wide = wide
        self.half = words and self.narrow is not wide
        self._registers: dict[int, Value] = {}
        self._splats: dict[tuple[int, int, int], Value] = {}

    def register(self, row: int, c: int) -> Value:
        """Register `c` of a row."""
        at = row * len(self.layout.chunks) + c
        if at not in self._registers:
            self._registers[at] = self._widened(self._loaded((row,), self.layout.chunks[c], at))
        return self._registers[at]

    def splat(self, row: int, column: int, width: int) -> Value:
        """One element in all lanes."""
        key = (row, column, width)
        if key not in self._splats:
            self._splats[key] = self._splat(row, column, width)
        return self._splats[key]

    def _splat(self, row: int, column: int, width: int) -> Value:
        if isinstance(self.held, Deferred):
            found = self._widened(self.held.scalar(self.e, (row, column)))
            return self.e.b.splat(found, width)
        at, lane = divmod(column, self.layout.lanes)
        return splat_lane(self.e.b, self.register(row, at), lane, width)

    def _loaded(self, row: tuple[int, ...], chunk: Chunk, at: int) -> Value:
        if isinstance(self.held, Deferred):
            return self.held.register(self.e, row, chunk)
        assert isinstance(self.held, Tile)
        return self.held.registers[at]

    def _widened(self, x: Value) -> Value:
        if self.half:
            return elementwise.whole_words(self.e.b, x, self.narrow)
        return formats.cast(self.e.b, self.e.machine, x, self.narrow, self.wide)
