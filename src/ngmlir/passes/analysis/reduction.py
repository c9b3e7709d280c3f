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
    shape_of,
    with_element,
)
from ...ops.builder import Builder
from ...support.target import Target

#: What joins two of what a reduction, or a cumulative op, has gathered.
_COMBINE = {
    "sum": "add", "product": "multiply", "max": "maximum", "min": "minimum",
    "any": "bitwise_or", "all": "bitwise_and",
}  # fmt: skip


class Accumulation:
    """How elements of one type are gathered: in which type, from which start, by which op.

    What is gathered may have another form than elements and results (wider, or negated): `enter` and `leave` lead
    from one to the other.
    """

    def __init__(self, kind: str, element: Type, target: Target | None = None):
        self.element = element
        floats = isinstance(element, FloatType)
        self.accumulator: Type = element
        if kind in ("sum", "product") and floats and item_bytes(element) < 4:
            self.accumulator = f32
        elif target is not None and target.shares_tiles and isinstance(element, IntegerType):
            # A thread of a GPU has registers of 32 bits, and computes with all of them: shorter integers are widened once.
            self.accumulator = IntegerType(32, element.sign) if 1 < element.width < 32 else element
        # The minimum of floats takes less than the maximum where MINPS has to make both (see `codegen.cpu.rules`):
        # the greatest is then found as the negative of the least negative.
        self.negated = kind == "max" and floats and target is not None and target.can("minps")
        self.kind = "min" if self.negated else kind

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
        if self.negated:
            return b.negative(tile)
        return self._cast(b, tile, self.accumulator)

    def across(self, b: Builder, tile: Value, axes: Sequence[int]) -> Value:
        """Reduces dimensions of a tile of what was gathered."""
        return getattr(b, self.kind)(tile, axes=axes) if axes else tile

    def folded(self, b: Builder, tile: Value, size: int) -> Value:
        """A tile of what was gathered with only `size` steps along its first dimension: what stands so many steps apart is
        joined."""
        steps, *beside = shape_of(tile.type)
        if steps == size:
            return tile
        apart = VectorType((steps // size, size, *beside), element_type(tile.type))
        return self.across(b, b.reshape(tile, type=apart), [0])

    def leave(self, b: Builder, value: Value) -> Value:
        """The result of what was gathered."""
        if self.negated:
            return b.negative(value)
        return self._cast(b, value, self.element)

    def _cast(self, b: Builder, value: Value, element: Type) -> Value:
        if self.accumulator is self.element:
            return value
        return b.cast(value, type=with_element(value.type, element))


class Reduction(Accumulation):
    """How one reduction of a kernel gathers what it reduces."""

    def __init__(self, op: Op, target: Target | None = None):
        super().__init__(op.name.removeprefix("ng."), element_type(op.results[0].type), target)
        self.op = op
        self.source = op.operands[0]
        self.result = op.results[0]


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
    return [Reduction(op, target) for op in ops if "reduction" in op.traits]


def merged(shape: Sequence[int], first: int, count: int = 1) -> tuple[int, int, int]:
    """A shape as sizes (before, along, after) of a run of dimensions."""
    return prod(shape[:first]), prod(shape[first : first + count]), prod(shape[first + count :])
