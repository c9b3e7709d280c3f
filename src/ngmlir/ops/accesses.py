# SPDX-License-Identifier: Apache-2.0
"""Bounds of accesses: which elements of its buffers a function or kernel accesses, as far as known at compile time.

Indices that are sums and multiples of loop positions, program indices and constants have a least and a
greatest value, and both occur: every loop with known bounds runs, and positions are independent of each other.
So an access outside is an error in the program. Nothing is reported where an index depends on anything else,
or an access may not be executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.attributes import IntegerAttr
from ..ir.core import Block, Module, Op, Value
from ..ir.literals import item_bytes
from ..ir.types import DYNAMIC, IndexType, MemRefType, shape_of
from ..support.diagnostics import Diagnostic, UserError
from ..support.lengths import at_least, below, is_open
from .fields import find_i64s, find_unit, get_i64, get_i64s, static


@dataclass(frozen=True)
class Sum:
    """An index as `constant` plus each position times its factor."""

    constant: int
    factors: Mapping[Value, int] = field(default_factory=dict[Value, int])

    def plus(self, other: Sum, sign: int = 1) -> Sum:
        factors = dict(self.factors)
        for value, factor in other.factors.items():
            factors[value] = factors.get(value, 0) + sign * factor
        return Sum(self.constant + sign * other.constant, factors)

    def times(self, number: int) -> Sum:
        return Sum(self.constant * number, {v: f * number for v, f in self.factors.items()})


def check_accesses(module: Module) -> None:
    """UserError with all accesses of a valid module's kernels and functions that are certainly out of bounds."""
    if found := [each for op in module.ops for each in access_violations(op)]:
        raise UserError(found)


def access_violations(function: Op) -> list[Diagnostic]:
    """The accesses of a kernel, or of a function on buffers, that are certainly out of bounds, and uses of masked subviews by ops
    other than copies; [] for a good one."""
    return [*Positions(function).violations, *_misused(function)]


def _misused(function: Op) -> Iterator[Diagnostic]:
    for op in function.walk():
        copied = op.operands[:1] if op.name in ("tile.copy", "tile.copy_async") else ()
        for value in op.operands:
            window = value.owner
            if isinstance(window, Op) and leaves_its_buffer(value) and value not in copied:
                yield Diagnostic(
                    f"'{op.name}' uses {f'%{value.name}' if value.name else 'a window'}, which may be out of bounds of its buffer",
                    op.location,
                    hint="copy it to a buffer first; only copies can read {masked} windows",
                    notes=(Diagnostic("it is masked here", window.location, "note"),),
                )


@dataclass(frozen=True)
class Reach:
    """The elements that an op accesses along one dimension of a buffer: from `index + least` to `index + most`."""

    dimension: int
    index: Value
    size: int  # of the dimension, perhaps DYNAMIC
    least: int = 0
    most: int = 0


def reaches(op: Op) -> list[Reach]:
    """The accesses that must be in bounds, by dimension; [] for masked ones and other ops."""
    match op.name:
        case "tile.load" if not find_unit(op, "masked"):
            return _tile(op, op.operands[0], op.operands[1:], op.results[0])
        case "tile.store" if not find_unit(op, "masked"):
            return _tile(op, op.operands[1], op.operands[2:], op.operands[0])
        case "tile.gather":
            return _reaches(op.operands[0], op.operands[1:])
        case "tile.scatter":
            return _reaches(op.operands[2], op.operands[3:])
        case "tile.subview" if not find_unit(op, "masked"):
            shape = shape_of(op.results[0].type)
            if 0 in shape:
                return []
            # An unknown size (below zero) is at least 1.
            ends = [0] * (len(op.operands) - 1 - len(shape)) + [max(size, 1) - 1 for size in shape]
            return _reaches(op.operands[0], op.operands[1:], ends)
        case _:
            return []


def buffer_of(op: Op) -> Value:
    """The buffer of an access."""
    return op.operands[{"tile.store": 1, "tile.scatter": 2}.get(op.name, 0)]


def leaves_its_buffer(buffer: Value) -> bool:
    """Whether a buffer is a masked subview, which may extend beyond its buffer."""
    owner = buffer.owner
    return isinstance(owner, Op) and owner.name == "tile.subview" and find_unit(owner, "masked") is True


def whole_of(buffer: Value) -> Value:
    """The buffer of which this is a subview, or itself."""
    while isinstance(owner := buffer.owner, Op) and owner.name == "tile.subview":
        buffer = owner.operands[0]
    return buffer


def touches(op: Op, reach: Reach) -> tuple[str, str]:
    """The message before and after the number of an element that is out of bounds."""
    name = buffer_of(op).name
    whose = f"%{name}" if name else "its buffer"
    return (
        f"'{op.name}' touches element",
        f"of dimension {reach.dimension} of {whose}, which has {reach.size}",
    )


def _tile(op: Op, buffer: Value, indices: Sequence[Value], tile: Value) -> list[Reach]:
    shape = shape_of(tile.type)
    if 0 in shape:
        return []
    places = find_i64s(op, "dims") or tuple(range(len(indices) - len(shape), len(indices)))
    steps = find_i64s(op, "steps") or (1,) * len(shape)
    ends = [0] * len(indices)
    for place, size, step in zip(places, shape, steps, strict=True):
        ends[place] += (size - 1) * step
    return _reaches(buffer, indices, ends)


def _reaches(buffer: Value, indices: Sequence[Value], ends: Sequence[int] = ()) -> list[Reach]:
    """`ends`: the distance from the first element to the last, along each dimension."""
    sizes = shape_of(buffer.type)
    rows = zip(indices, sizes, ends or (0,) * len(sizes), strict=True)
    return [Reach(d, index, size, min(end, 0), max(end, 0)) for d, (index, size, end) in enumerate(rows)]


class Positions:
    """The indices of a function, as far as they are known at compile time; `violations` are the accesses that are certainly
    out of bounds."""

    def __init__(self, function: Op) -> None:
        self._sums: dict[Value, Sum] = {}
        self._bounds: dict[Value, tuple[int, int]] = {}
        self.violations: list[Diagnostic] = []
        if not function.regions or not function.regions[0].blocks:
            return
        block = function.block
        if function.name == "tile.kernel":
            grid = get_i64s(function, "grid")
            if 0 in grid:
                return  # no program runs
            for argument, size in zip(block.args[len(block.args) - len(grid) :], grid, strict=True):
                self._position(argument, 0, size - 1)
        self._block(block)

    def _position(self, value: Value, least: int, most: int) -> None:
        self._bounds[value] = least, most
        self._sums[value] = Sum(0, {value: 1})

    def extremes(self, value: int | Value) -> tuple[int, int] | None:
        """The least and the greatest value of an index; None if they are unknown."""
        if isinstance(value, int):
            return value, value
        known = self._sums.get(value)
        if known is None:
            return None
        least = most = known.constant
        for position, factor in known.factors.items():
            ends = [factor * end for end in self._bounds[position]]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def _constant(self, value: int | Value) -> int | None:
        if isinstance(value, int):
            return value
        known = self._sums.get(value)
        return known.constant if known is not None and not any(known.factors.values()) else None

    def inside(self, reach: Reach) -> bool:
        """Whether all accessed elements are certainly in bounds."""
        known = self.extremes(reach.index)
        if known is None:
            return False
        return bool(at_least(known[0] + reach.least, 0) and below(known[1] + reach.most, reach.size))

    # -- ops ---------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op.name:
                case "tile.for":
                    self._loop(op)
                case "tile.view":
                    self.violations += _view(op)
                case _:
                    self._arithmetic(op)
                    self._access(op)

    def _arithmetic(self, op: Op) -> None:
        if len(op.results) != 1 or not isinstance(op.results[0].type, IndexType):
            return
        if op.name == "ng.constant":
            value = op.attributes["value"]
            made = Sum(value.value) if isinstance(value, IntegerAttr) else None
        else:
            made = self._combined(op)
        if made is not None:
            self._sums[op.results[0]] = made

    def _combined(self, op: Op) -> Sum | None:
        """A sum, difference or multiple of known indices."""
        if len(op.operands) != 2:
            return None
        left, right = (self._sums.get(v) for v in op.operands)
        if left is None or right is None:
            return None
        match op.name:
            case "ng.add":
                return left.plus(right)
            case "ng.subtract":
                return left.plus(right, -1)
            case "ng.multiply" if (number := self._constant(op.operands[1])) is not None:
                return left.times(number)
            case "ng.multiply" if (number := self._constant(op.operands[0])) is not None:
                return right.times(number)
            case _:
                return None

    def _loop(self, op: Op) -> None:
        lower, upper, step = (self._constant(static(op, name)) for name in ("lower", "upper", "step"))
        if lower is None or upper is None or step is None or not at_least(step, 1):
            return
        if not at_least(upper, lower + 1):
            return  # it may not run
        self._position(op.block.args[0], lower, lower + (upper - lower - 1) // step * step)
        self._block(op.block)

    def _access(self, op: Op) -> None:
        for reach in reaches(op):
            known = self.extremes(reach.index)
            if known is None or reach.size == DYNAMIC or op.name == "tile.scatter":
                continue  # a scatter may be masked where it would be out of bounds
            least, most = known[0] + reach.least, known[1] + reach.most
            if least < 0 or most >= reach.size:
                before, after = touches(op, reach)
                hint = "fix the index or the loop around it"
                if op.name in ("tile.load", "tile.store"):
                    hint += ", or add {masked}"
                bad = least if least < 0 else most
                self.violations.append(Diagnostic(f"{before} {bad} {after}", op.location, hint=hint))


def _view(op: Op) -> Iterator[Diagnostic]:
    """Checks that a view is inside its arena, and begins at a whole element."""
    arena, view = op.operands[0].type, op.results[0].type
    assert isinstance(arena, MemRefType) and isinstance(view, MemRefType)
    # If calls compute the offsets of the parts of an arena, these are inside it for all lengths.
    if not (arena.static and view.static) or is_open(arena.shape):
        return
    offset = get_i64(op, "offset")
    item = item_bytes(view.element)
    last, bytes_of_arena = offset + view.size * item, arena.size * item_bytes(arena.element)
    if offset < 0 or last > bytes_of_arena:
        yield Diagnostic(
            f"'tile.view' shows bytes {offset} to {last} of {bytes_of_arena} bytes",
            op.location,
            hint="fix the offset or the size of the arena",
        )
    elif offset % item:
        yield Diagnostic(
            f"'tile.view' begins at byte {offset}, which is not a multiple of the {item} bytes of {view.element}",
            op.location,
        )
