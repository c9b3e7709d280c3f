# SPDX-License-Identifier: Apache-2.0
"""Accumulators of reductions and cumulative ops: their type, initial value and combining op."""

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
    tile_type,
    with_element,
)
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...support.target import Target

#: The op that combines two accumulators of a reduction or cumulative op.
_COMBINE = {
    "sum": "add", "product": "multiply", "max": "maximum", "min": "minimum",
    "any": "bitwise_or", "all": "bitwise_and",
}  # fmt: skip


#: An attribute of `ng.sum`: products are added to it by fma, as `ng.dot` adds them, on machines that have it. LLVM's flag of that name.
CONTRACT = "ng.contract"
#: Reductions whose result is a position.
POSITIONS = frozenset({"ng.argmax", "ng.argmin"})
#: The accumulators of a reduction.
Parts = list[Value]


class Accumulation:
    """How elements of one type are accumulated: in which type, from which initial value, by which op.

    Accumulators may have another form than elements and results (wider, or negated): `enter` and `leave` convert
    between the two.
    """

    def __init__(self, kind: str, element: Type, target: Target | None = None):
        self.element = element
        floats = isinstance(element, FloatType)
        self.accumulator: Type = element
        # A CPU compares f16 and bf16 as f32 too: otherwise each intermediate result would be rounded.
        wider = kind in ("sum", "product") or (target is not None and not target.has_thread_blocks)
        if floats and item_bytes(element) < 4 and wider:
            self.accumulator = f32
        elif target is not None and target.has_thread_blocks and isinstance(element, IntegerType):
            # GPU threads compute in registers of 32 bits: shorter integers are widened once.
            self.accumulator = IntegerType(32, element.sign) if 1 < element.width < 32 else element
        # Where MINPS has to compute both (see `codegen.cpu.rules`), the minimum of floats takes fewer instructions than the maximum:
        # the maximum is then computed as the negative of the minimum of the negated elements.
        self.negated = kind == "max" and floats and target is not None and target.can("minps")
        self.kind = "min" if self.negated else kind

    @property
    def idempotent(self) -> bool:
        """Whether combining an element twice has no effect."""
        return self.kind not in ("sum", "product")

    @property
    def start(self) -> Attribute:
        """The neutral element in accumulator form; for a float sum -0.0, not 0.0."""
        beyond = self.beyond
        assert isinstance(beyond, FloatAttr | IntegerAttr)
        return numeric_literal(-beyond.value if self.negated else beyond.value, self.accumulator)

    @property
    def beyond(self) -> Attribute:
        """The element that `enter` converts to `start`."""
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
        """A tile of elements in accumulator form."""
        wide = self._cast(b, tile, self.accumulator)
        return b.negative(wide) if self.negated else wide

    def across(self, b: Builder, tile: Value, axes: Sequence[int]) -> Value:
        """Reduces dimensions of a tile of accumulators."""
        return getattr(b, self.kind)(tile, axes=axes) if axes else tile

    def folded(self, b: Builder, tile: Value, size: int) -> Value:
        """A tile of accumulators reduced to `size` along its first dimension: elements at a distance of multiples of `size` are
        combined."""
        steps, *inner = shape_of(tile.type)
        if steps == size:
            return tile
        split = VectorType((steps // size, size, *inner), element_type(tile.type))
        return self.across(b, b.reshape(tile, type=split), [0])

    def leave(self, b: Builder, value: Value) -> Value:
        """Accumulators in the form of results."""
        return self._cast(b, b.negative(value) if self.negated else value, self.element)

    def _cast(self, b: Builder, value: Value, element: Type) -> Value:
        if self.accumulator is self.element:
            return value
        return b.cast(value, type=with_element(value.type, element))


class Reduction(Accumulation):
    """How one reduction of a kernel accumulates. `Parts` are its accumulators: here one tile."""

    #: Instructions to combine one register of accumulators with another at the end.
    steps_of_joining = 2

    def __init__(self, op: Op, target: Target):
        self.op = op
        self.source = op.operands[0]
        self.result = op.results[0]
        kind = op.name.removeprefix("ng.").removeprefix("arg")
        super().__init__(kind, element_type(self.source.type), target)
        self.contracts = CONTRACT in op.attributes and target.can("fma")

    @property
    def carried(self) -> tuple[Type, ...]:
        """The element types of its accumulators."""
        return (self.accumulator,)

    def starts(self, b: Builder, shape: Sequence[int], none: bool = False) -> Parts:
        """The initial accumulators; `none`: there may be no element at the first positions."""
        return [b.number(self.start, tile_type(shape, self.accumulator))]

    def gather(self, b: Builder, parts: Parts, tile: Value, at: Value | None) -> Parts:
        """The accumulators combined with one more tile in accumulator form, whose first element is at position `at` of the reduced
        dimension. A tile that is longer along its first dimension is folded first."""
        shape = shape_of(parts[0].type)
        tile = self.folded(b, tile, shape[0]) if shape else tile
        product = tile.owner
        if self.contracts and isinstance(product, Op) and product.name == "ng.multiply":
            x, y = product.operands
            return [b.fma(x, y, parts[0])]
        return [self.combine(b, parts[0], tile)]

    def joined(self, b: Builder, x: Parts, y: Parts) -> Parts:
        """Two sets of accumulators combined."""
        return [self.combine(b, x[0], y[0])]

    def of_tile(self, b: Builder, tile: Value, axis: int, at: Value | None = None) -> Parts:
        """The accumulators of a tile in accumulator form, reduced along an axis."""
        return [self.across(b, tile, [axis])]

    def reduced(self, b: Builder, parts: Parts, axis: int) -> Parts:
        """The accumulators reduced along an axis."""
        return [self.across(b, parts[0], [axis])]

    def result_of(self, b: Builder, parts: Parts) -> Value:
        """The result of the accumulators."""
        return self.leave(b, parts[0])


class Position(Reduction):
    """An argmax or argmin: the accumulators are the best elements so far, and the positions at which the tiles that they come from
    begin. Tiles come in the order of their positions, and only a better element replaces an earlier one."""

    steps_of_joining = 8

    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        axes = get_i64s(op, "axes")
        self.size = prod([shape_of(self.source.type)[a] for a in axes])
        # With elements of 8 bytes positions have 8 bytes too, so that the same masks serve both.
        wide = not target.has_thread_blocks and item_bytes(self.element) == 8
        self.count = i32 if self.size < 1 << 31 and not wide else i64
        self.nowhere = (1 << (self.count.width - 1)) - 1  # greater than all positions

    @property
    def carried(self) -> tuple[Type, ...]:
        return self.accumulator, self.count

    def starts(self, b: Builder, shape: Sequence[int], none: bool = False) -> Parts:
        # If no element is better than the initial value, the initial position remains.
        return [
            b.number(self.start, tile_type(shape, self.accumulator)),
            b.number(self.nowhere if none else 0, tile_type(shape, self.count)),
        ]

    def gather(self, b: Builder, parts: Parts, tile: Value, at: Value | None) -> Parts:
        best, place = parts
        new = self.folded(b, tile, shape_of(best.type)[0])
        taken = self.better(b, new, best)
        return [b.select(taken, new, best), b.select(taken, self.filled(b, at, place.type), place)]

    def joined(self, b: Builder, x: Parts, y: Parts) -> Parts:
        earlier = b.bitwise_and(self.same(b, y[0], x[0]), b.less(y[1], x[1]))
        taken = b.bitwise_or(self.better(b, y[0], x[0]), earlier)
        return [b.select(taken, new, old) for new, old in zip(y, x, strict=True)]

    def of_tile(self, b: Builder, tile: Value, axis: int, at: Value | None = None) -> Parts:
        places = with_element(tile.type, self.count)
        return self.reduced(b, [tile, self.filled(b, at, places)], axis)

    def reduced(self, b: Builder, parts: Parts, axis: int) -> Parts:
        best, place = parts
        top = self.across(b, best, [axis])
        return [top, self.first(b, best, b.add(place, b.iota(type=place.type, dimension=axis)), top, axis)]

    def first(self, b: Builder, tile: Value, places: Value, top: Value, axis: int) -> Value:
        """The first position along an axis where a tile equals `top`."""
        kept = [d for d in range(len(shape_of(tile.type))) if d != axis]
        best = b.broadcast(top, type=tile.type, dimensions=kept)
        found = b.select(self.same(b, tile, best), places, b.number(self.nowhere, places.type))
        return b.min(found, axes=[axis])

    def result_of(self, b: Builder, parts: Parts) -> Value:
        where = parts[1]
        result = element_type(self.result.type)
        return where if result is self.count else b.cast(where, type=with_element(where.type, result))

    def filled(self, b: Builder, position: Value | None, type: Type) -> Value:
        """A tile filled with a position; with 0 if it is None."""
        if position is None:
            return b.number(0, type)
        scalar = position if position.type is self.count else b.cast(position, type=self.count)
        return b.splat(scalar, type)

    def better(self, b: Builder, new: Value, old: Value) -> Value:
        """Whether `new` replaces an earlier `old`: it is better, or the first NaN."""
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


def flat(parts: Sequence[Parts]) -> list[Value]:
    """The accumulators of several reductions in one list."""
    return [value for own in parts for value in own]


def in_parts(values: Sequence[Value], found: Sequence[Reduction]) -> list[Parts]:
    """The inverse of `flat`."""
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
