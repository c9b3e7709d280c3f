# SPDX-License-Identifier: Apache-2.0
"""Builds and reads products that decode a weight, as fusions of kind `decoded`.

Their operands are the left side, the codes and the parameters: one number for each row of the weight, or one for each row and
block. The body broadcasts the parameters, computes the weight and multiplies. Codes of 4 bits are packed in words of i32, each a
lane of a vector register: codes that are adjacent along the depth are in adjacent lanes, at the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....ir.attributes import Attribute, DictAttr, StringAttr, UnitAttr, numeric_literal
from ....ir.core import Block, Op, Region, Value
from ....ir.literals import item_bytes
from ....ir.types import TensorType, Type, element_type, f32, i32, shape_of, ui8, with_element
from ....ops import ng
from ....ops.builder import Builder
from ....ops.schedules import SCHEDULE
from ...analysis.product import Product
from ...graph.integer_products import REASSOCIATES
from .chains import CODE_BITS, Chain, Number, Parameter, computed, stored_of

#: The kind of such fusions.
DECODED = "decoded"
#: The ops that broadcast parameters to the elements of their row or block.
_SPREADS = ("ng.broadcast", "ng.reshape", "ng.slice")
#: Codes in a word, and the mask of one code.
CODES, CODE = 8, 15
#: Most rows of the left side for which decoding in registers is faster than decoding into panels.
MOST_ROWS = 32


@dataclass(frozen=True)
class StoredWeight:
    """A weight as stored: its codes, packed if they have at most 4 bits, and its parameters."""

    chain: Chain
    codes: Value
    parameters: Mapping[Parameter, Value]

    def unscaled(self) -> tuple[StoredWeight, Parameter | None]:
        """The weight without a factor of each row, and the factor; see `Chain.unscaled`."""
        chain, factor = self.chain.unscaled()
        return StoredWeight(
            chain, self.codes, {p: self.parameters[p] for p in stored_of(chain.steps)}
        ), factor


def stored_weight(chain: Chain, lanes: int, b: Builder) -> StoredWeight:
    """The codes and the parameters of a weight in the order in which kernels read them."""
    rows, depth = chain.shape
    blocks = (-(-depth // chain.block),) if chain.block else ()
    codes = _packed(chain, lanes, b) if chain.bits <= CODE_BITS else _narrow(chain, b)
    found: dict[Parameter, Value] = {p: p.at(b, (rows, *blocks), chain.block) for p in stored_of(chain.steps)}
    return StoredWeight(chain, codes, found)


def decoded_product(
    left: Value, weight: StoredWeight, result: Type, b: Builder, scaled: bool, by: str | None = None
) -> Value:
    """The product of a matrix [rows, depth] and the transpose of a weight, which its kernel decodes. `scaled`: whether the kernel may
    multiply the sums of a block by its scale. `by`: the family of its schedules, if not any."""
    outer = [left, weight.codes, *dict.fromkeys(weight.parameters.values())]
    names = ["left", "codes", *(v.name or f"parameter{i}" for i, v in enumerate(outer[2:]))]
    body = Block([v.type for v in outer], names)
    inside = dict(zip(outer[2:], body.args[2:], strict=True))
    arguments = {parameter: inside[value] for parameter, value in weight.parameters.items()}
    inner = Builder(body, b.location)
    made = _weight(weight.chain, body.args[1], arguments, inner)
    product = inner.dot(body.args[0], made, lhs_contract=[1], rhs_contract=[1], type=result)
    inner.end(ng.YieldOp, product)
    attributes: dict[str, Attribute] = {"kind": StringAttr(DECODED)}
    if scaled and weight.chain.block:
        attributes[REASSOCIATES] = UnitAttr()
    if by is not None:
        attributes[SCHEDULE] = DictAttr((("by", StringAttr(by)),))
    return b.add_op(ng.FusionOp(outer, [result], attributes, [Region(body)], b.location)).result


def decoded_rows(weight: StoredWeight, indices: Value, b: Builder) -> Value:
    """Some rows of a weight, decoded."""
    (count,) = shape_of(indices.type)
    codes = b.gather(weight.codes, indices, axis=0)
    arguments = {p: b.gather(value, indices, axis=0) for p, value in weight.parameters.items()}
    return _weight(replace(weight.chain, shape=(count, weight.chain.shape[1])), codes, arguments, b)


def _packed(chain: Chain, lanes: int, b: Builder) -> Value:
    """Codes of at most 4 bits packed in words, [rows, groups of words, lanes]; padded with 0."""
    (rows, depth), codes = chain.shape, chain.codes_in_order(b)
    groups = -(-depth // (CODES * lanes))
    codes = b.cast(codes, type=with_element(codes.type, i32))
    if more := groups * CODES * lanes - depth:
        codes = b.pad(codes, value=numeric_literal(0, i32), low=[0, 0], high=[0, more])
    unpacked = TensorType((rows, groups, CODES, lanes), i32)
    codes = b.shift_left(b.reshape(codes, type=unpacked), _shifts(unpacked, b))
    return b.sum(codes, axes=[2])


def _narrow(chain: Chain, b: Builder) -> Value:
    """Codes that are not packed, narrowed to bytes if these hold them."""
    codes = chain.codes_in_order(b)
    narrow = item_bytes(element_type(codes.type)) == 1 or chain.bits > 8
    return codes if narrow else b.cast(codes, type=with_element(codes.type, ui8))


def _shifts(type: TensorType, b: Builder) -> Value:
    """The bit positions in a word of the codes along dimension 2."""
    return b.multiply(b.iota(type=type, dimension=2), b.number(CODE_BITS, type))


def _weight(chain: Chain, codes: Value, arguments: Mapping[Parameter, Value], b: Builder) -> Value:
    """The decoded weight."""
    value = codes
    if chain.bits <= CODE_BITS:
        value = _unpacked(codes, chain.shape, b)
    wanted, steps = element_type(chain.codes.type), [*reversed(chain.steps)]
    if element_type(value.type) is not wanted and steps[0].op.name != "ng.cast":
        value = b.cast(value, type=with_element(value.type, wanted))

    def spread(parameter: Parameter) -> Value:
        if isinstance(parameter, Number):
            return parameter.at(b, chain.shape)
        blocks = (-(-chain.shape[1] // chain.block),) if chain.block else ()
        return _broadcast(computed(parameter, arguments, b, (chain.shape[0], *blocks)), chain, b)

    for step in steps:
        operands = [value if p is None else spread(p) for p in step.others]
        type = TensorType(chain.shape, element_type(step.op.result.type))
        value = b.add_op(step.op.rebuilt(operands, types=[type])).result
    return value


def _unpacked(words: Value, shape: tuple[int, int], b: Builder) -> Value:
    rows, groups, lanes = shape_of(words.type)
    unpacked = TensorType((rows, groups, CODES, lanes), i32)
    codes = b.broadcast(words, type=unpacked, dimensions=[0, 1, 3])
    codes = b.bitwise_and(b.shift_right_logical(codes, _shifts(unpacked, b)), b.number(CODE, unpacked))
    return _cut(b.reshape(codes, type=TensorType((rows, groups * CODES * lanes), i32)), shape, b)


def _broadcast(value: Value, chain: Chain, b: Builder) -> Value:
    """A parameter, broadcast to the codes of its row or block."""
    (rows, depth), element = chain.shape, element_type(value.type)
    if not chain.block:
        return b.broadcast(value, type=TensorType((rows, depth), element), dimensions=[0])
    blocks = shape_of(value.type)[1]
    wide = b.broadcast(value, type=TensorType((rows, blocks, chain.block), element), dimensions=[0, 1])
    wide = b.reshape(wide, type=TensorType((rows, blocks * chain.block), element))
    return _cut(wide, (rows, depth), b)


def _cut(value: Value, shape: tuple[int, int], b: Builder) -> Value:
    if shape_of(value.type) == shape:
        return value
    return b.slice(value, starts=[0, 0], limits=shape, steps=[1, 1])


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoded:
    """A fusion of kind `decoded` without digits, as code generation reads it."""

    fusion: Op
    dot: Op
    start: Value  # the unpacked codes, one for each element of the weight
    shape: tuple[int, int]  # of the weight

    @property
    def words(self) -> bool:
        """Whether the codes are packed in words."""
        return self.start is not self.fusion.block.args[1]

    @property
    def unscaled(self) -> tuple[Value, Value] | None:
        """The weight without the scale of its blocks, and that scale, which may multiply the sums of the blocks instead: if the last
        op multiplies by it and the fusion allows that. Else None."""
        made = {op.result: op for op in self.fusion.block.ops if op.results}
        last = made.get(self.dot.operands[1])
        if REASSOCIATES not in self.fusion.attributes or last is None or last.name != "ng.multiply":
            return None
        spread = [v in made and made[v].name in _SPREADS for v in last.operands]
        if spread[0] == spread[1]:
            return None
        return last.operands[spread.index(False)], last.operands[spread.index(True)]

    @property
    def parameters(self) -> Sequence[Value]:
        return self.fusion.block.args[2:]

    @property
    def block(self) -> int:
        """Adjacent codes of a row that share parameters; 0 where the whole row does."""
        for op in self.fusion.block.ops:
            if op.name == "ng.broadcast" and op.operands[0] is not self.fusion.block.args[1]:
                shape = shape_of(op.result.type)
                return shape[2] if len(shape) == 3 else 0
        return 0

    @property
    def product(self) -> Product:
        """The sizes of the product with the weight decoded to f32."""
        rows = shape_of(self.fusion.block.args[0].type)[0]
        return Product(0, rows, *self.shape, False, False, f32, f32, element_type(self.dot.result.type))


def decoded(fusion: Op) -> Decoded:
    """Reads a fusion of kind `decoded`."""
    block = fusion.block
    dot = next(op for op in block.ops if op.name == "ng.dot")
    rows, depth = shape_of(dot.operands[1].type)
    start, found = block.args[1], {block.args[1]}
    while shape_of(start.type) != (rows, depth):
        op = next(op for op in block.ops if start in op.operands and op.result not in found)
        start = op.result
        found.add(start)
    return Decoded(fusion, dot, start, (rows, depth))
