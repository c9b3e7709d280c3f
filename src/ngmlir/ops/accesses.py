# SPDX-License-Identifier: Apache-2.0
"""Which elements of its buffers a function or kernel touches, as far as that is known before it runs.

Indices that are sums and multiples of loop positions, program indices and constants have a smallest and a
largest value, and both are met: every loop with known bounds runs, each position independent of the others.
So what lies outside is an error in the program, and nothing is said where an index depends on anything else,
or stands where it may not be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.attributes import IntegerAttr
from ..ir.core import Block, Module, Op, Value
from ..ir.literals import item_bytes
from ..ir.types import DYNAMIC, IndexType, MemRefType, shape_of
from ..support.diagnostics import Diagnostic, UserError
from .fields import find_i64s, find_unit, get_i64, get_i64s


@dataclass(frozen=True)
class _Sum:
    """`constant` plus each position times its factor."""

    constant: int
    factors: Mapping[Value, int] = field(default_factory=dict[Value, int])

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        factors = dict(self.factors)
        for value, factor in other.factors.items():
            factors[value] = factors.get(value, 0) + sign * factor
        return _Sum(self.constant + sign * other.constant, factors)

    def times(self, number: int) -> _Sum:
        return _Sum(self.constant * number, {v: f * number for v, f in self.factors.items()})


def check_accesses(module: Module) -> None:
    """UserError with all accesses of a valid module's kernels and functions that certainly leave their buffer."""
    if found := [each for op in module.ops for each in access_violations(op)]:
        raise UserError(found)


def access_violations(function: Op) -> list[Diagnostic]:
    """The accesses of a kernel or of a function on buffers that certainly leave their buffer; [] for a good one."""
    if not function.regions or not function.regions[0].blocks:
        return []
    reader = _Reader()
    block = function.block
    if function.name == "tile.kernel":
        grid = get_i64s(function, "grid")
        if 0 in grid:
            return []  # no program runs
        for argument, size in zip(block.args[len(block.args) - len(grid) :], grid, strict=True):
            reader.position(argument, 0, size - 1)
    return list(reader.block(block))


class _Reader:
    def __init__(self) -> None:
        self.sums: dict[Value, _Sum] = {}
        self.bounds: dict[Value, tuple[int, int]] = {}

    def position(self, value: Value, least: int, most: int) -> None:
        self.bounds[value] = least, most
        self.sums[value] = _Sum(0, {value: 1})

    def extremes(self, value: Value) -> tuple[int, int] | None:
        """The smallest and the largest value of an index; None where they are not known."""
        known = self.sums.get(value)
        if known is None:
            return None
        least = most = known.constant
        for position, factor in known.factors.items():
            ends = [factor * end for end in self.bounds[position]]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def constant(self, value: Value) -> int | None:
        known = self.sums.get(value)
        return known.constant if known is not None and not any(known.factors.values()) else None

    # -- ops ---------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Iterator[Diagnostic]:
        for op in block.ops:
            match op.name:
                case "tile.for":
                    yield from self.loop(op)
                case "tile.load":
                    yield from self.tile(op, op.operands[0], op.operands[1:], op.results[0])
                case "tile.store":
                    yield from self.tile(op, op.operands[1], op.operands[2:], op.operands[0])
                case "tile.gather":
                    yield from self.elements(op, op.operands[0], op.operands[1:])
                case "tile.subview":
                    yield from self.window(op)
                case "tile.view":
                    yield from _view(op)
                case _:
                    self.arithmetic(op)

    def arithmetic(self, op: Op) -> None:
        if len(op.results) != 1 or not isinstance(op.results[0].type, IndexType):
            return
        if op.name == "ng.constant":
            value = op.attributes["value"]
            made = _Sum(value.value) if isinstance(value, IntegerAttr) else None
        else:
            made = self.combined(op)
        if made is not None:
            self.sums[op.results[0]] = made

    def combined(self, op: Op) -> _Sum | None:
        """A sum, difference or multiple of what is known."""
        if len(op.operands) != 2:
            return None
        left, right = (self.sums.get(v) for v in op.operands)
        if left is None or right is None:
            return None
        match op.name:
            case "ng.add":
                return left.plus(right)
            case "ng.subtract":
                return left.plus(right, -1)
            case "ng.multiply" if (number := self.constant(op.operands[1])) is not None:
                return left.times(number)
            case "ng.multiply" if (number := self.constant(op.operands[0])) is not None:
                return right.times(number)
            case _:
                return None

    def loop(self, op: Op) -> Iterator[Diagnostic]:
        lower, upper, step = (self.constant(v) for v in op.operands[:3])
        if lower is None or upper is None or step is None or step <= 0 or lower >= upper:
            return  # it may not run
        self.position(op.block.args[0], lower, lower + (upper - lower - 1) // step * step)
        yield from self.block(op.block)

    # -- accesses ----------------------------------------------------------------------------------------

    def tile(self, op: Op, buffer: Value, indices: Sequence[Value], tile: Value) -> Iterator[Diagnostic]:
        if find_unit(op, "masked"):
            return
        shape = shape_of(tile.type)
        places = find_i64s(op, "dims") or tuple(range(len(indices) - len(shape), len(indices)))
        steps = find_i64s(op, "steps") or (1,) * len(shape)
        if 0 in shape:
            return
        reach = dict.fromkeys(range(len(indices)), 0)
        for place, size, step in zip(places, shape, steps, strict=True):
            reach[place] += (size - 1) * step
        yield from self.inside(op, buffer, indices, [reach[i] for i in range(len(indices))])

    def elements(self, op: Op, buffer: Value, indices: Sequence[Value]) -> Iterator[Diagnostic]:
        yield from self.inside(op, buffer, indices, [0] * len(indices))

    def window(self, op: Op) -> Iterator[Diagnostic]:
        shape = shape_of(op.results[0].type)
        indices = op.operands[1:]
        if 0 not in shape:
            # Of a size that is not known (below zero) at least the first element is there.
            reach = [0] * (len(indices) - len(shape)) + [max(size, 1) - 1 for size in shape]
            yield from self.inside(op, op.operands[0], indices, reach)

    def inside(
        self, op: Op, buffer: Value, indices: Sequence[Value], reach: Sequence[int]
    ) -> Iterator[Diagnostic]:
        """`reach` is how far, along each dimension, the last element lies behind the first."""
        for d, (size, index, more) in enumerate(zip(shape_of(buffer.type), indices, reach, strict=True)):
            known = self.extremes(index)
            if known is None or size == DYNAMIC:
                continue
            least, most = known[0] + min(more, 0), known[1] + max(more, 0)
            if least < 0 or most >= size:
                bad = least if least < 0 else most
                name = f"%{buffer.name}" if buffer.name else "its buffer"
                yield Diagnostic(
                    f"'{op.name}' touches element {bad} of dimension {d} of {name}, which has {size}",
                    op.location,
                    hint="mend the index or the loop around it, or add {masked}"
                    if op.name in ("tile.load", "tile.store")
                    else "mend the index or the loop around it",
                )


def _view(op: Op) -> Iterator[Diagnostic]:
    """A view lies in its arena, and begins at a whole element."""
    arena, view = op.operands[0].type, op.results[0].type
    assert isinstance(arena, MemRefType) and isinstance(view, MemRefType)
    if not (arena.static and view.static):
        return
    offset = get_i64(op, "offset")
    item = item_bytes(view.element)
    last, bytes_of_arena = offset + view.size * item, arena.size * item_bytes(arena.element)
    if offset < 0 or last > bytes_of_arena:
        yield Diagnostic(
            f"'tile.view' shows bytes {offset} to {last} of {bytes_of_arena} bytes",
            op.location,
            hint="mend the offset or the size of the arena",
        )
    elif offset % item:
        yield Diagnostic(
            f"'tile.view' begins at byte {offset}, which is no multiple of the {item} bytes of {view.element}",
            op.location,
        )
