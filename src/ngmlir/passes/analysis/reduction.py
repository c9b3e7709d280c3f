# SPDX-License-Identifier: Apache-2.0
"""How reductions and cumulative ops gather: in which type, from which start, by which op."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, numeric_literal
from ...ir.core import Op, Value
from ...ir.literals import float_bits, item_bytes
from ...ir.types import (
    FloatType,
    IntegerType,
    Type,
    VectorType,
    element_type,
    f32,
    i32,
    i64,
    shape_of,
    with_element,
)
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...support.target import Target

#: What joins two of what a reduction, or a cumulative op, has gathered.
_COMBINE = {
    "sum": "add", "product": "multiply", "max": "maximum", "min": "minimum",
    "any": "bitwise_or", "all": "bitwise_and",
}  # fmt: skip


#: Reductions that say where they find something.
POSITIONS = frozenset({"ng.argmax", "ng.argmin"})
#: What a reduction carries while it gathers.
Parts = list[Value]


class Accumulation:
    """How elements of one type are gathered: in which type, from which start, by which op.

    What is gathered may have another form than elements and results (wider, or negated): `enter` and `leave` lead
    from one to the other.
    """

    def __init__(self, kind: str, element: Type, target: Target | None = None):
        self.element = element
        floats = isinstance(element, FloatType)
        self.accumulator: Type = element
        # A CPU compares f16 and bf16 as f32 too: it would round each of what it finds.
        wider = kind in ("sum", "product") or (target is not None and not target.shares_tiles)
        if floats and item_bytes(element) < 4 and wider:
            self.accumulator = f32
        elif target is not None and target.shares_tiles and isinstance(element, IntegerType):
            # A thread of a GPU has registers of 32 bits, and computes with all of them: shorter integers are widened once.
            self.accumulator = IntegerType(32, element.sign) if 1 < element.width < 32 else element
        # The minimum of floats takes less than the maximum where MINPS has to make both (see `codegen.cpu.rules`):
        # the greatest is then found as the negative of the least negative.
        self.negated = kind == "max" and floats and target is not None and target.can("minps")
        self.kind = "min" if self.negated else kind

    @property
    def idempotent(self) -> bool:
        """Whether what is met twice changes nothing."""
        return self.kind not in ("sum", "product")

    @property
    def start(self) -> Attribute:
        """What leaves everything it is combined with as it is; of a float sum -0.0, not 0.0."""
        beyond = self.beyond
        assert isinstance(beyond, FloatAttr | IntegerAttr)
        return numeric_literal(-beyond.value if self.negated else beyond.value, self.accumulator)

    @property
    def beyond(self) -> Attribute:
        """An element that is the start once it has entered."""
        element = self.element
        match self.kind:
            case "sum":
                return numeric_literal(-0.0 if isinstance(element, FloatType) else 0, element)
            case "product" | "all":
                return numeric_literal(1, element)
            case "any":
                return numeric_literal(0, element)
            case kind:
                return extreme(element, lowest=kind == "max" or self.negated)

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        return getattr(b, _COMBINE[self.kind])(x, y)

    def enter(self, b: Builder, tile: Value) -> Value:
        """A tile of elements in the form in which it is gathered."""
        wide = self._cast(b, tile, self.accumulator)
        return b.negative(wide) if self.negated else wide

    def across(self, b: Builder, tile: Value, axes: Sequence[int]) -> Value:
        """Reduces dimensions of a tile of what was gathered."""
        return getattr(b, self.kind)(tile, axes=axes) if axes else tile

    def folded(self, b: Builder, tile: Value, size: int) -> Value:
        """A tile of what was gathered with only `size` steps along its first dimension: what stands so many steps apart is
        joined."""
        steps, *inner = shape_of(tile.type)
        if steps == size:
            return tile
        split = VectorType((steps // size, size, *inner), element_type(tile.type))
        return self.across(b, b.reshape(tile, type=split), [0])

    def leave(self, b: Builder, value: Value) -> Value:
        """The result of what was gathered."""
        return self._cast(b, b.negative(value) if self.negated else value, self.element)

    def _cast(self, b: Builder, value: Value, element: Type) -> Value:
        if self.accumulator is self.element:
            return value
        return b.cast(value, type=with_element(value.type, element))


class Reduction(Accumulation):
    """How one reduction of a kernel gathers what it reduces. `Parts` are what it carries: here one tile."""

    #: Instructions by which a register is joined to another one of them in the end.
    steps_of_joining = 2

    def __init__(self, op: Op, target: Target):
        self.op = op
        self.source = op.operands[0]
        self.result = op.results[0]
        kind = op.name.removeprefix("ng.").removeprefix("arg")
        super().__init__(kind, element_type(self.source.type), target)

    @property
    def carried(self) -> tuple[Type, ...]:
        """The elements of its parts."""
        return (self.accumulator,)

    def starts(self, b: Builder, shape: Sequence[int], none: bool = False) -> Parts:
        """The parts of nothing yet; `none`: no element stands at the first positions."""
        return [b.number(self.start, _tile(shape, self.accumulator))]

    def gather(self, b: Builder, parts: Parts, tile: Value, at: Value | None) -> Parts:
        """The parts with one more tile of what has entered, whose first element is `at` some position of what is reduced. Where
        it has more steps along its first dimension, those that stand apart are joined."""
        shape = shape_of(parts[0].type)
        return [self.combine(b, parts[0], self.folded(b, tile, shape[0]) if shape else tile)]

    def joined(self, b: Builder, x: Parts, y: Parts) -> Parts:
        """The parts of all that two have gathered."""
        return [self.combine(b, x[0], y[0])]

    def of_tile(self, b: Builder, tile: Value, axis: int, at: Value | None = None) -> Parts:
        """The parts of a tile of what has entered, reduced along an axis."""
        return [self.across(b, tile, [axis])]

    def reduced(self, b: Builder, parts: Parts, axis: int) -> Parts:
        """The parts reduced along an axis."""
        return [self.across(b, parts[0], [axis])]

    def given(self, b: Builder, parts: Parts) -> Value:
        """The result."""
        return self.leave(b, parts[0])


class Position(Reduction):
    """Of an argmax or argmin: the parts are the best so far, and where the tile begins that it comes from. Tiles come in the order
    of their positions, and only what is better than all before takes their place."""

    steps_of_joining = 8

    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        axes = get_i64s(op, "axes")
        self.size = prod([shape_of(self.source.type)[a] for a in axes])
        # Where elements have 8 bytes, masks of both are the same.
        wide = not target.shares_tiles and item_bytes(self.element) == 8
        self.count = i32 if self.size < 1 << 31 and not wide else i64
        self.nowhere = (1 << (self.count.width - 1)) - 1  # greater than all positions

    @property
    def carried(self) -> tuple[Type, ...]:
        return self.accumulator, self.count

    def starts(self, b: Builder, shape: Sequence[int], none: bool = False) -> Parts:
        # What never meets better stays where it begins, with an element as bad.
        return [
            b.number(self.start, _tile(shape, self.accumulator)),
            b.number(self.nowhere if none else 0, _tile(shape, self.count)),
        ]

    def gather(self, b: Builder, parts: Parts, tile: Value, at: Value | None) -> Parts:
        best, place = parts
        new = self.folded(b, tile, shape_of(best.type)[0])
        taken = self.better(b, new, best)
        return [b.select(taken, new, best), b.select(taken, self.at(b, at, place.type), place)]

    def joined(self, b: Builder, x: Parts, y: Parts) -> Parts:
        earlier = b.bitwise_and(self.same(b, y[0], x[0]), b.less(y[1], x[1]))
        taken = b.bitwise_or(self.better(b, y[0], x[0]), earlier)
        return [b.select(taken, new, old) for new, old in zip(y, x, strict=True)]

    def of_tile(self, b: Builder, tile: Value, axis: int, at: Value | None = None) -> Parts:
        places = with_element(tile.type, self.count)
        return self.reduced(b, [tile, self.at(b, at, places)], axis)

    def reduced(self, b: Builder, parts: Parts, axis: int) -> Parts:
        best, place = parts
        top = self.across(b, best, [axis])
        return [top, self.first(b, best, b.add(place, b.iota(type=place.type, dimension=axis)), top, axis)]

    def first(self, b: Builder, tile: Value, places: Value, top: Value, axis: int) -> Value:
        """The first of the places along an axis where a tile is as good as `top`."""
        kept = [d for d in range(len(shape_of(tile.type))) if d != axis]
        best = b.broadcast(top, type=tile.type, dimensions=kept)
        found = b.select(self.same(b, tile, best), places, b.number(self.nowhere, places.type))
        return b.min(found, axes=[axis])

    def given(self, b: Builder, parts: Parts) -> Value:
        where = parts[1]
        result = element_type(self.result.type)
        return where if result is self.count else b.cast(where, type=with_element(where.type, result))

    def at(self, b: Builder, position: Value | None, type: Type) -> Value:
        """A tile of one position; without one, of the first."""
        if position is None:
            return b.number(0, type)
        scalar = position if position.type is self.count else b.cast(position, type=self.count)
        return b.broadcast(scalar, type=type, dimensions=()) if isinstance(type, VectorType) else scalar

    def better(self, b: Builder, new: Value, old: Value) -> Value:
        """Whether `new` takes the place of an earlier `old`: it is beyond it, or the first NaN."""
        greatest = self.kind == "max"
        if not isinstance(self.element, FloatType):
            return b.greater(new, old) if greatest else b.less(new, old)
        behind = b.less_equal(new, old) if greatest else b.greater_equal(new, old)
        return b.bitwise_and(b.bitwise_not(behind), b.equal(old, old))

    def same(self, b: Builder, x: Value, y: Value) -> Value:
        """Equal, or both NaN."""
        equal = b.equal(x, y)
        if not isinstance(self.element, FloatType):
            return equal
        return b.bitwise_or(equal, b.bitwise_and(b.not_equal(x, x), b.not_equal(y, y)))


def _tile(shape: Sequence[int], element: Type) -> Type:
    return VectorType(tuple(shape), element) if shape else element


def flat(parts: Sequence[Parts]) -> list[Value]:
    """The parts of several reductions, one after the other."""
    return [value for own in parts for value in own]


def in_parts(values: Sequence[Value], found: Sequence[Reduction]) -> list[Parts]:
    """What `flat` made of the parts of some reductions."""
    given = iter(values)
    return [[next(given) for _ in r.carried] for r in found]


def extreme(element: Type, lowest: bool) -> Attribute:
    """The least or the greatest number of a type."""
    if isinstance(element, FloatType):
        return FloatAttr(float_bits(float("-inf") if lowest else float("inf"), element), element)
    assert isinstance(element, IntegerType)
    if element.unsigned:
        return IntegerAttr(0 if lowest else (1 << element.width) - 1, element)
    half = 1 << (element.width - 1)
    return IntegerAttr(-half if lowest else half - 1, element)


def reductions(ops: Sequence[Op], target: Target) -> list[Reduction]:
    """The reductions among some ops, in order."""
    return [
        Position(op, target) if op.name in POSITIONS else Reduction(op, target)
        for op in ops
        if "reduction" in op.traits
    ]


def merged(shape: Sequence[int], first: int, count: int = 1) -> tuple[int, int, int]:
    """A shape as sizes (before, along, after) of a run of dimensions."""
    return prod(shape[:first]), prod(shape[first : first + count]), prod(shape[first + count :])
