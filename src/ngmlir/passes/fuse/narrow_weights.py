# SPDX-License-Identifier: Apache-2.0
"""Narrow weights: products that decode constant weights in their kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import Literal

from ...ir.core import Block, Module, Op, Value
from ...ir.types import IntegerType, TensorType, element_type, f32, i32, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64, get_i64s
from ...ops.schedules import SCHEDULE, Decode
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.lengths import is_open
from ...support.target import Target
from ..graph.dead_code import without_dead
from ..graph.integer_products import REASSOCIATES
from ..graph.invariants import Invariants
from .decoding.affine import Affine, Panels, affine, digit_of, in_panels, rows_of_panels, words_of
from .decoding.chains import Chain, Number, chain_of
from .decoding.digits import Digits, digits_of, digits_product, in_digits, of_bytes
from .decoding.fusions import MOST_ROWS, StoredWeight, decoded_product, decoded_rows, stored_weight
from .decoding.panels import panels_product

#: Most rows for which digits are multiplied faster than floats in panels if they take twice as many instructions.
MOST_DIGITS = 16
#: Computes a product.
Rows = Callable[[], Value]


@contract(needs=("plain",), anchor="function", only="cpu")
def narrow_weights(
    module: Module, target: Target, *, assume: frozenset[Literal["reassoc"]] = frozenset()
) -> Module:
    """Lets products with a weight that is decoded from constants of fewer bits read the codes and decode them in their kernel: the
    weight is in memory once, and narrow. The multiplied numbers are the same bit for bit, except in functions with `ng.reassoc`
    or with `assume=reassoc`: there the sum of a whole row of the weight is multiplied by the row's scale, and the kernel may
    multiply the sums of blocks by their scales (the fusion has `ng.reassoc`). There also weights of the form
    `scale * (code - zero) + minimum` are multiplied as integers, where the target has dot instructions: the other side is
    rounded to `2^e * q`, with integers q of 23 bits and an exponent for each row and block, an error of at most
    1.01 * 2^-23 of the greatest magnitude in the block; sums of a block are exact. A row that is not finite gives NaN. Their codes
    are packed without gaps, whatever bits they have, and may be looked up in a table of 16 bytes.

    A weight is decoded by elementwise ops, each with one operand that has a number for each code, and others that
    are the same for a row, or for a block of adjacent codes along the contracted dimension: scales, zero points,
    minima. Blocks must be whole registers. Codes that are known to be below 16 are packed in 4 bits; others are bytes, or
    floats of 16 bits. Codes and parameters are put into the order of the rows of the weight, which `prepare` does once.

    Rows that are gathered from such a matrix, as embeddings are, are gathered from the codes and decoded.

    Before:
        func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {
          %0 = ng.constant dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3xi8>
          %1 = ng.cast %0 : (tensor<2x3xi8>) -> tensor<2x3xf32>
          %2 = ng.constant dense<[0.5, 0.25]> : tensor<2xf32>
          %3 = ng.broadcast %2 dims [0] : (tensor<2xf32>) -> tensor<2x3xf32>
          %4 = ng.multiply %1, %3 : tensor<2x3xf32>
          %5 = ng.dot %x, %4 contract [1] x [1] : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
          return %5 : tensor<1x2xf32>
        }
    After:
        func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {
          %0 = ng.constant dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3xi8>
          %1 = ng.constant dense<[0.5, 0.25]> : tensor<2xf32>
          %2 = ng.fusion decoded(%left = %x, %codes = %0, %parameter0 = %1) -> tensor<1x2xf32> {
            %0 = ng.cast %codes : (tensor<2x3xi8>) -> tensor<2x3xf32>
            %1 = ng.broadcast %parameter0 dims [0] : (tensor<2xf32>) -> tensor<2x3xf32>
            %2 = ng.multiply %0, %1 : tensor<2x3xf32>
            %3 = ng.dot %left, %2 contract [1] x [1] : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
            ng.yield %3 : tensor<1x2xf32>
          }
          func.return %2 : tensor<1x2xf32>
        }
    """

    def rewritten(function: Op) -> Op:
        if not function.regions or not function.regions[0].blocks:
            return function
        ops = function.block.ops
        invariants = Invariants(ops, function.block.args)
        scaled = "reassoc" in assume or REASSOCIATES in function.attributes
        rule = _Rule(function, target, invariants, scaled)
        kinds = frozenset({"ng.dot", "ng.gather"})
        made = sweep_op(function, rule.rewritten, kinds, frozenset({"ng.fusion"}))
        return function if made is function else without_dead(made)

    return module.with_ops([rewritten(op) if op.name == "func.func" else op for op in module.ops])


class _Rule:
    def __init__(self, function: Op, target: Target, invariants: Invariants, scaled: bool):
        self.function = function
        self.target, self.lanes, self.scaled = target, target.lanes(4), scaled
        self.invariants = invariants
        self.held: dict[tuple[Chain, Block], StoredWeight] = {}
        self.panels: dict[tuple[Chain, Block], Panels] = {}
        self.lefts: dict[tuple[Value, int, IntegerType, Block], Digits] = {}

    def rewritten(self, op: Op, b: Builder) -> Sequence[Value] | None:
        return self.rows(op, b) if op.name == "ng.gather" else self.product(op, b)

    def product(self, op: Op, b: Builder) -> Sequence[Value] | None:
        if SCHEDULE in op.attributes or get_i64s(op, "lhs_batch") or not all(map(_is_matrix, op.operands)):
            return None
        contracts = get_i64s(op, "lhs_contract"), get_i64s(op, "rhs_contract")
        if len(contracts[0]) != 1:
            return None
        for side in (1, 0):
            weight, other = op.operands[side], op.operands[1 - side]
            chain = None if self.constant(other) else self.chain(weight, contracts[side][0])
            if chain is None:
                continue
            if contracts[1 - side][0] == 0:
                other = b.transpose(other, permutation=[1, 0])
            type = TensorType((shape_of(other.type)[0], chain.shape[0]), f32)
            own = self.affine(weight, contracts[side][0])
            made = self.in_panels(other, own, type, b) if own else self.in_floats(other, chain, type, b)
            return [made if side else b.transpose(made, permutation=[1, 0])]
        return None

    def in_floats(self, left: Value, chain: Chain, type: TensorType, b: Builder) -> Value:
        """The product of f32 rows and a weight that is decoded row by row."""
        weight, factor = self.in_memory(chain, b), None
        if self.scaled:
            weight, factor = weight.unscaled()

        def product(by: str | None = None) -> Value:
            return decoded_product(left, weight, type, b, self.scaled, by)

        def in_registers() -> Value:
            return product(Decode.by)

        made = by_rows(type, b, MOST_ROWS, in_registers, product) if is_open(type.shape) else product()
        if isinstance(factor, Number):
            return b.multiply(made, factor.at(b, type.shape))
        if factor is not None:
            scales = factor.at(b, chain.shape[:1])
            return b.multiply(made, b.broadcast(scales, type=type, dimensions=[1]))
        return made

    def in_panels(self, left: Value, weight: Affine, type: TensorType, b: Builder) -> Value:
        """The product of f32 rows and a weight in panels: of digits, or of floats where these are multiplied faster, which is for
        many rows if the digits take twice as many instructions."""
        words, digits = self.panels_of(weight, b), self.left(left, weight, b)
        many = not self.cheap(weight) and digits.many > 1

        def integers() -> Value:
            return digits_product(digits, words, type, b)

        def floats() -> Value:
            return panels_product(left, words, type, b)

        if many and is_open(type.shape):
            return by_rows(type, b, MOST_DIGITS, integers, floats)
        return floats() if many and type.shape[0] > MOST_DIGITS else integers()

    def rows(self, op: Op, b: Builder) -> Sequence[Value] | None:
        """A gather of rows of a weight, which decodes only these; None where it is none."""
        table, indices = op.operands
        if get_i64(op, "axis") or not _is_matrix(table) or is_open(shape_of(indices.type)):
            return None
        count = prod(shape_of(indices.type))
        chain = None if self.constant(indices) else self.chain(table, 1)
        if chain is None or not 0 < count <= chain.shape[0]:
            return None
        line = b.reshape(indices, type=TensorType((count,), element_type(indices.type)))
        own = self.affine(table, 1)
        if own is not None and own.chain in self.multiplied:
            return [b.reshape(rows_of_panels(self.panels_of(own, b), line, b), type=op.result.type)]
        return [b.reshape(decoded_rows(self.in_memory(chain, b), line, b), type=op.result.type)]

    @cached_property
    def multiplied(self) -> set[Chain]:
        """The weights that products read in panels: rows of these are taken from the panels, those of others from memory."""
        sides = [
            (value, get_i64s(op, f"{side}_contract"))
            for op in self.function.walk()
            if op.name == "ng.dot"
            for side, value in zip(("lhs", "rhs"), op.operands, strict=True)
        ]
        found = [self.affine(value, along[0]) for value, along in sides if along and _is_matrix(value)]
        return {own.chain for own in found if own is not None}

    def chain(self, weight: Value, depth: int, tables: bool = False) -> Chain | None:
        """How a weight is decoded, if kernels can do that; else None."""
        known = self.constant(weight) and not is_open(shape_of(weight.type))
        chain = chain_of(weight, depth, self.constant, tables) if known else None
        return None if chain is None or chain.block % self.lanes else chain

    def affine(self, weight: Value, depth: int) -> Affine | None:
        """The affine form of a weight that may be multiplied by digits; else None. Codes are looked up where bytes are multiplied:
        as pairs of 16 bits they take more instructions than bytes that were looked up before, 1.2 times the time of a row."""
        lookups = self.target.can("byte_lookups") and words_of(8, self.target) == "i8_ui8"
        chain = self.chain(weight, depth, lookups) if self.scaled else None
        words = words_of(chain.code_bits, self.target) if chain else None
        return affine(chain, digit_of(words)) if chain and words else None

    def left(self, value: Value, weight: Affine, b: Builder) -> Digits:
        """The digits of a left side, made once for all products of a block."""
        key = (value, weight.block, weight.digit, b.block)
        if key not in self.lefts:
            bytes = of_bytes(value, weight.block, weight.digit, b)
            self.lefts[key] = bytes or in_digits(value, weight.block, weight.digit, b)
        return self.lefts[key]

    def cheap(self, weight: Affine) -> bool:
        """Whether multiplying all digits takes less than twice the instructions of floats."""
        atom = self.target.dot(words_of(weight.chain.code_bits, self.target) or "")
        return atom is not None and digits_of(weight.digit) * (2 - atom.adds) < 2 * atom.group

    def panels_of(self, weight: Affine, b: Builder) -> Panels:
        key = (weight.chain, b.block)
        if key not in self.panels:
            self.panels[key] = in_panels(weight, self.target, b)
        return self.panels[key]

    def constant(self, value: Value) -> bool:
        return value in self.invariants.values

    def in_memory(self, chain: Chain, b: Builder) -> StoredWeight:
        """The codes and parameters of a weight, made once for all ops of a block."""
        key = (chain, b.block)
        if key not in self.held:
            self.held[key] = stored_weight(chain, self.lanes, b)
        return self.held[key]


def by_rows(type: TensorType, b: Builder, most: int, few: Rows, many: Rows) -> Value:
    """A product of an open number of rows: a call computes up to `most` in one way, more in another."""
    whole = TensorType((), i32)
    is_few = b.less_equal(b.extent(value=type.shape[0], type=whole), b.number(most, whole))
    return b.branch(is_few, lambda: [few()], lambda: [many()])[0]


def _is_matrix(value: Value) -> bool:
    """Whether decoding kernels take a value: a nonempty f32 matrix without axis names."""
    type = value.type
    if not isinstance(type, TensorType) or type.element is not f32 or type.rank != 2 or type.axes:
        return False
    return 0 not in type.shape
