# SPDX-License-Identifier: Apache-2.0
"""How reductions accumulate: in which type, from which start, by which op."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, numeric_literal
from ...ir.core import Op, Value
from ...ir.literals import float_bits
from ...ir.types import FloatType, IntegerType, Type, element_type, f32, with_element
from ...ops.builder import Builder

_COMBINE = {
    "ng.sum": "add", "ng.product": "multiply", "ng.max": "maximum", "ng.min": "minimum",
    "ng.any": "bitwise_or", "ng.all": "bitwise_and",
}  # fmt: skip


class Reduction:
    """How one reduction accumulates: in which type, from which start, by which op."""

    def __init__(self, op: Op):
        self.op = op
        self.source = op.operands[0]
        self.result = op.results[0]
        self.element = element_type(op.results[0].type)
        narrow = (
            op.name in ("ng.sum", "ng.product")
            and isinstance(self.element, FloatType)
            and self.element.width < 32
        )
        self.accumulator: Type = f32 if narrow else self.element

    @property
    def start(self) -> Attribute:
        """What leaves everything it is combined with as it is; of a float sum -0.0, not 0.0."""
        element = self.accumulator
        match self.op.name:
            case "ng.sum":
                return numeric_literal(-0.0 if isinstance(element, FloatType) else 0, element)
            case "ng.product" | "ng.all":
                return numeric_literal(1, element)
            case "ng.any":
                return numeric_literal(0, element)
            case name:
                return extreme(element, lowest=name == "ng.max")

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        return getattr(b, _COMBINE[self.op.name])(x, y)

    def widen(self, b: Builder, tile: Value) -> Value:
        if self.accumulator is self.element:
            return tile
        return b.cast(tile, type=with_element(tile.type, self.accumulator))

    def across(self, b: Builder, tile: Value, axes: Sequence[int]) -> Value:
        """Reduces dimensions of a tile of the accumulator's type."""
        return getattr(b, self.op.name.removeprefix("ng."))(tile, axes=axes) if axes else tile

    def narrow(self, b: Builder, value: Value) -> Value:
        if self.accumulator is self.element:
            return value
        return b.cast(value, type=with_element(value.type, self.element))


def extreme(element: Type, lowest: bool) -> Attribute:
    """The least or the greatest number of a type."""
    if isinstance(element, FloatType):
        return FloatAttr(float_bits(float("-inf") if lowest else float("inf"), element), element)
    assert isinstance(element, IntegerType)
    if element.unsigned:
        return IntegerAttr(0 if lowest else (1 << element.width) - 1, element)
    half = 1 << (element.width - 1)
    return IntegerAttr(-half if lowest else half - 1, element)


def reductions(ops: Sequence[Op]) -> list[Reduction]:
    """The reductions among some ops, in order."""
    return [Reduction(op) for op in ops if "reduction" in op.traits]
