# SPDX-License-Identifier: Apache-2.0
"""Products of f32 whose kernel decodes a weight in panels of words: writing and reading their fusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ....ir.attributes import StringAttr
from ....ir.core import Block, Op, Region, Value
from ....ir.elements import ElementsAttr
from ....ir.types import Type, element_type, f32, shape_of
from ....ops import ng
from ....ops.builder import Builder
from ....support.machines import WORD_BITS
from ...analysis.product import Product
from .affine import Panels, table_in
from .fusions import DECODED
from .words import Words


def panels_product(left: Value, weight: Panels, result: Type, b: Builder) -> Value:
    """The product of f32 rows and a weight in panels, of which each row gives a column."""
    outer = [left, weight.codes, *dict.fromkeys(weight.parameters.values())]
    names = ["left", "codes", *(v.name or f"parameter{i}" for i, v in enumerate(outer[2:]))]
    body = Block([v.type for v in outer], names)
    inside, inner = dict(zip(outer, body.args, strict=True)), Builder(body, b.location)
    parameters = {p: inside[v] for p, v in weight.parameters.items()}
    made = weight.decoded(body.args[1], parameters, weight.weight.chain.shape[0], inner)
    product = inner.dot(body.args[0], made, lhs_contract=[1], rhs_contract=[1], type=result)
    inner.end(ng.YieldOp, product)
    attributes = {"kind": StringAttr(DECODED)}
    return b.add_op(ng.FusionOp(outer, [result], attributes, [Region(body)], b.location)).result


@dataclass(frozen=True)
class InPanels:
    """Such a fusion as its kernel sees it."""

    fusion: Op
    dot: Op
    start: Value  # the codes as f32 [columns, blocks, block], of which the ops behind make the weight
    group: int  # digits in a word

    @property
    def codes(self) -> Value:
        return self.fusion.block.args[1]

    @property
    def parameters(self) -> Sequence[Value]:
        return self.fusion.block.args[2:]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the weight, the depth in whole blocks."""
        columns, blocks, block = shape_of(self.start.type)
        return columns, blocks * block

    @property
    def block(self) -> int:
        return shape_of(self.start.type)[2]

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return shape_of(self.codes.type)[2]

    @cached_property
    def words(self) -> Words:
        """How codes are packed."""
        return Words(WORD_BITS * shape_of(self.codes.type)[1] // self.shape[1], self.group)

    @property
    def unit(self) -> int:
        """Codes whose words are adjacent."""
        return self.words.unit

    @cached_property
    def table(self) -> ElementsAttr | None:
        """The bytes that codes are the indices of; None where codes are multiplied."""
        return table_in(self.fusion)

    @property
    def product(self) -> Product:
        rows, depth = shape_of(self.fusion.block.args[0].type)
        return Product(0, rows, self.shape[0], depth, False, False, f32, f32, f32)


def of_panels(fusion: Op) -> InPanels | None:
    """Reads a fusion of kind `decoded`; None where its weight is not in panels."""
    ops = fusion.block.ops[:-1]
    dot = next(op for op in ops if op.name == "ng.dot")
    if element_type(dot.result.type) is not f32 or len(shape_of(fusion.block.args[1].type)) != 3:
        return None
    unpacked = next((op for op in ops if len(shape_of(op.result.type)) == 5), None)
    if unpacked is None:
        return None
    start = next(
        op for op in ops if len(shape_of(op.result.type)) == 3 and element_type(op.result.type) is f32
    )
    return InPanels(fusion, dot, start.result, shape_of(unpacked.result.type)[4])
