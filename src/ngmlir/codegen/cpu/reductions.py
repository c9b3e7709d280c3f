# SPDX-License-Identifier: Apache-2.0
"""Reductions and cumulative ops of a tile. The order of every sum depends on the shape alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeAlias

from ...ir.core import Op
from ...ir.types import element_type, shape_of
from ...llvm.types import Value, element_of, i1, lanes_of, poison, vector
from ...ops.fields import get_bool, get_i64, get_i64s
from .. import elementwise
from ..elementwise import tree
from . import formats, rules
from .emitter import Emitter
from .shapes import position
from .tiles import Chunk, assemble, resize

Join: TypeAlias = Callable[[Value, Value], Value]


class _Joining:
    """How two elements are combined, in the type that arithmetic uses."""

    def __init__(self, e: Emitter, op: Op):
        element = element_type(op.operands[0].type)
        self.e = e
        self.element = element
        self.wide = formats.computing(element)
        self.name = elementwise.JOINS[op.name.partition(".")[2]]
        self.identity = elementwise.identity(self.name, self.wide)

    def __call__(self, x: Value, y: Value) -> Value:
        return rules.apply(self.e.b, self.e.machine, self.name, self.wide, x, y)

    def nothing(self, width: int) -> Value:
        """A register whose lanes are the identity."""
        return self._number(width, self.identity)

    def empty(self, width: int) -> Value:
        """The reduction of no elements: the identity, but 0.0 where that is -0.0."""
        return self._number(width, self.identity or 0)

    def _number(self, width: int, value: float) -> Value:
        return formats.number(vector(width, formats.storage(self.wide)), value, self.wide)

    def unpacked(self, registers: Sequence[Value]) -> list[Value]:
        return [formats.unpack(self.e.b, self.e.machine, self.element, x) for x in registers]

    def packed(self, registers: Sequence[Value]) -> list[Value]:
        return [formats.pack(self.e.b, self.e.machine, self.element, x) for x in registers]

    def filled(self, register: Value, chunk: Chunk, width: int) -> Value:
        """The register resized to `width` lanes, with the identity in the lanes outside the tile."""
        b = self.e.b
        if chunk.count == width == chunk.width:
            return register
        register = resize(b, register, width)
        if width == 1:
            return register
        order = [i if i < chunk.count else width + i for i in range(width)]
        return b.shuffle(register, self.nothing(width), order)


# Reductions


def reduce(e: Emitter, op: Op) -> None:
    """Dimensions before the last are reduced by combining whole registers; the last one by combining lanes."""
    axes, shape = get_i64s(op, "axes"), shape_of(op.operands[0].type)
    join = _Joining(e, op)
    registers = join.unpacked(e.registers(op.operands[0]))
    old, new = e.layout(op.operands[0].type), e.layout(op.result.type)
    last = len(shape) - 1
    kept = [d for d in range(last) if d not in axes]
    gone = [d for d in range(last) if d in axes]
    rows: list[list[Value]] = []
    for fixed in product(*(range(shape[d]) for d in kept)):
        places: list[int] = []
        for moving in product(*(range(shape[d]) for d in gone)):
            at = dict(zip([*kept, *gone], [*fixed, *moving], strict=True))
            places.append(position([at[d] for d in range(last)], shape[:last]))
        columns = range(len(old.chunks))
        rows.append([tree(join, [registers[p * len(old.chunks) + c] for p in places]) for c in columns])
    if last not in axes:
        e.define(op.result, join.packed([register for row in rows for register in row]))
        return
    width = old.chunks[0].width if old.chunks else 1
    sums: list[Value] = []
    for row in rows:
        filled = [join.filled(x, chunk, width) for x, chunk in zip(row, old.chunks, strict=True)]
        sums.append(tree(join, filled))
    result: list[Value] = []
    for _, chunk in new.each():
        group, sums = sums[: chunk.count], sums[chunk.count :]
        result.append(_lanes_of_rows(e, join, group, chunk.width))
    e.define(op.result, join.packed(result))


def _lanes_of_rows(e: Emitter, join: _Joining, rows: list[Value], width: int) -> Value:
    """Lane i of the result is the reduction of the lanes of rows[i].

    Lane j of a register is always combined with lane j + half. One instruction does that for two registers, so n rows
    of n lanes take n - 1 combinations. Which rows share an instruction changes no result.
    """
    b, lanes = e.b, lanes_of(rows[0].type)
    if width == 1 < lanes and element_of(rows[0].type) == i1:
        # Order does not matter here, and targets can test a whole mask at once.
        return b.reduce("or" if join.name == "bitwise_or" else "and", rows[0])
    rows = [*rows, *[poison(rows[0].type)] * (width - len(rows))]
    group = lanes  # neighbouring lanes that belong to one row
    while len(rows) > 1 and group > 1:
        rows = [_joined_halves(e, join, x, y, group) for x, y in zip(rows[::2], rows[1::2], strict=True)]
        group //= 2
    while group > 1:
        rows = [_joined_halves(e, join, row, None, group) for row in rows]
        group //= 2
    element = element_of(rows[0].type)
    if len(rows) == 1:
        return rows[0]
    have = lanes_of(rows[0].type)
    return assemble(b, element, [(row, lane) for row in rows for lane in range(have)], width)


def _joined_halves(e: Emitter, join: Join, x: Value, y: Value | None, group: int) -> Value:
    """Combines the lower and upper half of each group of lanes; the results of x come first, then those of y."""
    total = lanes_of(x.type) * (1 if y is None else 2)
    starts = range(0, total, group)
    low = [start + i for start in starts for i in range(group // 2)]
    high = [start + i + group // 2 for start in starts for i in range(group // 2)]
    if len(low) == 1:
        return join(e.b.extract(x, 0), e.b.extract(x, 1))
    return join(e.b.shuffle(x, y, low), e.b.shuffle(x, y, high))


# Cumulative ops


def cumulate(e: Emitter, op: Op) -> None:
    """ng.cumulative_sum and its like."""
    axis, shape = get_i64(op, "axis"), shape_of(op.operands[0].type)
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    join = _Joining(e, op)
    registers = join.unpacked(e.registers(op.operands[0]))
    chunks = e.layout(op.operands[0].type).chunks
    if axis == len(shape) - 1:
        result: list[Value] = []
        for at in range(0, len(registers), len(chunks) or 1):
            result += _along_lanes(e, join, registers[at : at + len(chunks)], chunks, reverse, exclusive)
    else:
        result = _along_rows(join, registers, chunks, shape, axis, reverse, exclusive)
    e.define(op.result, join.packed(result))


def _along_rows(
    join: _Joining,
    registers: list[Value],
    chunks: Sequence[Chunk],
    shape: Sequence[int],
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> list[Value]:
    result = list(registers)
    inner = len(chunks)
    for size in shape[axis + 1 : -1]:
        inner *= size
    for first in range(len(registers)):
        if first // inner % shape[axis]:
            continue
        line = [first + i * inner for i in range(shape[axis])]
        total = join.empty(lanes_of(registers[first].type))
        for number, at in enumerate(reversed(line) if reverse else line):
            before, total = total, registers[at] if number == 0 else join(total, registers[at])
            result[at] = before if exclusive else total
    return result


def _along_lanes(
    e: Emitter,
    join: _Joining,
    row: Sequence[Value],
    chunks: Sequence[Chunk],
    reverse: bool,
    exclusive: bool,
) -> list[Value]:
    """A scan in log2(lanes) steps in each register, combined with the total of the registers before it."""
    result = list(row)
    carry: Value | None = None
    order = range(len(row))
    for c in reversed(order) if reverse else order:
        chunk = chunks[c]
        width = chunk.width
        total = join.filled(row[c], chunk, width)
        distance = 1
        while distance < width:
            total = join(_moved(e, total, join.nothing(width), distance, reverse), total)
            distance *= 2
        if carry is not None:
            total = join(e.b.splat(carry, width), total)
        first = carry if carry is not None else join.empty(1)
        carry = e.b.extract(total, 0 if reverse else chunk.count - 1)
        result[c] = total
        if exclusive:
            result[c] = _moved(e, total, e.b.splat(first, width), 1, reverse)
    return result


def _moved(e: Emitter, x: Value, fill: Value, distance: int, reverse: bool) -> Value:
    """Lanes shifted up (down if `reverse`); vacated lanes are filled from `fill`."""
    width = lanes_of(x.type)
    if width == 1:
        return fill
    sources = [i + distance if reverse else i - distance for i in range(width)]
    return e.b.shuffle(x, fill, [s if 0 <= s < width else width for s in sources])
