# SPDX-License-Identifier: Apache-2.0
"""Which blocks of scores are fully masked, and need not be computed.

A mask that compares positions is evaluated at the corners of a block; any other is read. A block is skipped where the mask hides all of it
and the exponentials of masked scores are zero: where the mask's value is -infinity, or so much less than a score of each query that the
difference underflows. This assumes that values are finite: zero times infinity would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from ....ir.attributes import FloatAttr, IntegerAttr
from ....ir.core import Op, Value
from ....ir.literals import float_value, item_bytes
from ....ir.types import IntegerType, Type, VectorType, element_type, index, shape_of
from ....ops.builder import Builder
from ...analysis.loop_nest import LoopNest, splat_number
from ...analysis.views import without_broadcast
from .fusion_kernel import Tile

#: exp(x) is zero for differences below minus this: the least float32 is 2**-149, the least float64 2**-1074.
_ZERO_BELOW = {32: 106.0, 64: 748.0}
#: The largest number in masks for which sums and differences with positions fit into 32 bits.
_MOST = 1 << 30


@dataclass(frozen=True)
class Mask:
    """One mask of scores: a condition that holds where scores are used (`seen`) or where they are not, and the value `fill` of masked
    scores; without `fill`, a number that is added to the scores, which masks where it is -infinity."""

    value: Value
    seen: bool
    fill: float | None

    def hidden_from(self, element: Type) -> float:
        """The least number that a query's largest score must reach for the exponentials of its masked scores to be zero; -infinity where
        masked scores are -infinity."""
        if self.fill is None or self.fill == -inf:
            return -inf
        bits = item_bytes(element) * 8
        kind = np.float32 if bits == 32 else np.float64
        # Rounded up: among large numbers the sum is no more than the fill.
        number = kind(self.fill + _ZERO_BELOW[bits])
        return float(
            number if number - kind(self.fill) >= _ZERO_BELOW[bits] else np.nextafter(number, kind(inf))
        )


def masks_of(masked: Value, scored: Value) -> list[Mask]:
    """The masks of scores, the last one first. One whose `fill` is increased or decreased afterwards is left out, unless that changes
    nothing."""
    found: list[Mask] = []
    added = False
    value = masked
    while value is not scored and isinstance(op := value.owner, Op):
        behind = [v for v in op.operands if _reaches(v, scored)]
        if len(behind) != 1 or op.name not in ("ng.reshape", "ng.select", "ng.add"):
            break
        if op.name == "ng.select":
            if behind[0] is op.operands[0]:
                break
            seen = behind[0] is op.operands[1]
            fill = _constant(op.operands[2 if seen else 1])
            if fill is not None and ((fill < 0 and not added) or fill == -inf):
                found.append(Mask(without_broadcast(op.operands[0]), seen, fill))
        elif op.name == "ng.add":
            (other,) = (v for v in op.operands if v is not behind[0])
            added = True
            if _constant(other) is None:
                found.append(Mask(without_broadcast(other), False, None))
        value = behind[0]
    return found


def _reaches(value: Value, scored: Value) -> bool:
    stack, known = [value], {value}
    while stack:
        value = stack.pop()
        if value is scored:
            return True
        if isinstance(value.owner, Op):
            new = [v for v in value.owner.operands if v not in known]
            known.update(new)
            stack += new
    return False


def _constant(value: Value) -> float | int | None:
    """The number in all elements of a value, if that is known."""
    op = without_broadcast(value).owner
    if not isinstance(op, Op) or op.name != "ng.constant":
        return None
    number = splat_number(op.attributes["value"])
    if isinstance(number, IntegerAttr):
        return number.value
    return float_value(number.bits, number.type) if isinstance(number, FloatAttr) else None


class Corners:
    """Whether comparisons of positions may hold in a block of scores, by bounds computed from the ends of its loops."""

    def __init__(
        self, b: Builder, nest: LoopNest, spans: list[tuple[Value, Value]], load: Callable[[Value], Value]
    ):
        self.b, self.nest = b, nest
        self.spans = spans  # the first and the last position in each loop
        self.load = load  # loads an input that is one number

    def may(self, mask: Value, wanted: bool) -> Value | None:
        """Whether a mask may be `wanted` somewhere in the block; None if unknown."""
        op = mask.owner
        if not isinstance(op, Op):
            return None
        b = self.b
        match op.name:
            case "ng.reshape" | "ng.broadcast":
                return self.may(op.operands[0], wanted)
            case "ng.bitwise_not":
                return self.may(op.operands[0], not wanted)
            case "ng.bitwise_and" | "ng.bitwise_or":
                sides = [self.may(v, wanted) for v in op.operands]
                known = [v for v in sides if v is not None]
                both = (op.name == "ng.bitwise_and") == wanted
                if len(known) == 2:
                    return b.bitwise_and(*known) if both else b.bitwise_or(*known)
                return known[0] if both and known else None
            case "ng.less" | "ng.less_equal" | "ng.greater" | "ng.greater_equal":
                left, right = (self.bounds(v) for v in op.operands)
                if left is None or right is None:
                    return None
                name = op.name.removeprefix("ng.")
                if name.startswith("greater"):
                    name, left, right = name.replace("greater", "less"), right, left
                if not wanted:  # a < b fails where b <= a
                    name, left, right = ("less_equal" if name == "less" else "less"), right, left
                compare = b.less if name == "less" else b.less_equal
                return compare(left[0], right[1])
            case _:
                return None

    def bounds(self, value: Value) -> tuple[Value, Value] | None:
        """The least and the greatest possible value of an integer."""
        b, element = self.b, element_type(value.type)
        if element is not index and not (
            isinstance(element, IntegerType) and element.width >= 32 and not element.unsigned
        ):
            return None
        op = value.owner
        if not isinstance(op, Op):
            if self.nest.loops.get(value) != ():
                return None
            number = self.load(value)
            number = number if number.type is index else b.cast(number, type=index)
            return number, number
        match op.name:
            case "ng.reshape" | "ng.broadcast" | "ng.cast":
                return self.bounds(op.operands[0])
            case "ng.constant":
                number = _constant(value)
                if number is None or abs(number) > _MOST:
                    return None
                return b.index(int(number)), b.index(int(number))
            case "ng.iota":
                loops = self.nest.dimension_loops.get(op, ())
                return self.spans[loops[0]] if len(loops) == 1 else None
            case "ng.add" | "ng.subtract":
                left, right = (self.bounds(v) for v in op.operands)
                if left is None or right is None:
                    return None
                if op.name == "ng.add":
                    return b.add(left[0], right[0]), b.add(left[1], right[1])
                return b.subtract(left[0], right[1]), b.subtract(left[1], right[0])
            case _:
                return None


def seen_in(b: Builder, tile: Tile, mask: Mask) -> Value:
    """Whether any score of a tile is unmasked."""
    value = tile.at(mask.value)
    if mask.fill is None:
        value = b.not_equal(value, b.number(-inf, value.type))
    elif not mask.seen:
        value = b.bitwise_not(value)
    if not isinstance(value.type, VectorType):
        return value
    return b.any(value, axes=list(range(len(shape_of(value.type)))))
