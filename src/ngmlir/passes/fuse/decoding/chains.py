# SPDX-License-Identifier: Apache-2.0
"""How a matrix is decoded from codes: a chain of elementwise ops, and the parameters that blocks of codes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, prod

from ....ir.core import Op, Value
from ....ir.elements import ElementsAttr
from ....ir.literals import item_bytes
from ....ir.types import FloatType, IntegerType, TensorType, element_type, i8, shape_of, with_element
from ....ops.builder import Builder
from ....ops.fields import constant_elements
from ...analysis.views import view
from .places import PLACING, Digit, Places, before, flat, of_matrix
from .ranges import most

#: Most ops between a weight and its codes.
_LONGEST = 64
#: Codes of so few bits are narrow enough: they are not followed to where they come from.
CODE_BITS = 4


@dataclass(frozen=True)
class Number:
    """A parameter that is one number for the whole matrix: a splat constant."""

    op: Op

    def leaves(self) -> Iterator[Leaf]:
        return iter(())

    def stored(self) -> Sequence[Kept]:
        return ()

    def at(self, b: Builder, size: tuple[int, ...], block: int = 0) -> Value:
        literal = self.op.attributes["value"]
        assert isinstance(literal, ElementsAttr)
        type = TensorType(size, element_type(self.op.result.type))
        return b.constant(type=type, value=literal.of_type(type))


@dataclass(frozen=True)
class Leaf:
    """A parameter with a number for each block of codes: elements of `value`, indexed by digits of row and column."""

    value: Value
    digits: tuple[Digit, ...]  # in ascending order of strides

    def leaves(self) -> Iterator[Leaf]:
        yield self

    def stored(self) -> Sequence[Kept]:
        return (self,)

    @property
    def bytes(self) -> int:
        return item_bytes(element_type(self.value.type)) * prod([d.size for d in self.digits])

    @property
    def block(self) -> int:
        """Adjacent codes of a row that share a number; 0 where the whole row does."""
        return next((d.divisor for d in self.digits if d.dimension == 1), 0)

    def fits(self, rows: int, depth: int) -> bool:
        """Whether there is a number for each row, or for all rows, and within a row one for each block."""
        mine = [[d for d in self.digits if d.dimension == dimension] for dimension in (0, 1)]
        if any(len(own) > 1 for own in mine) or any(d.divisor > 1 or d.size < rows for d in mine[0]):
            return False
        strides = [d.stride for d in self.digits]
        total = 1
        for size in shape_of(self.value.type):
            total *= size
        nested = all(b % a == 0 for a, b in pairwise([*strides, total]))
        return nested and all(d.divisor * d.size >= depth for d in mine[1])

    def at(self, b: Builder, size: tuple[int, ...], block: int = 0) -> Value:
        """The numbers as a value of shape `size`: (rows,), or (rows, blocks) for blocks of `block` codes."""
        value, shape = self.value, shape_of(self.value.type)
        total = 1
        for length in shape:
            total *= length
        cuts = [total, *[d.stride for d in reversed(self.digits)]]
        split = [a // c for a, c in pairwise(cuts)] + [cuts[-1]]
        value = view(b, value, tuple(split))
        kept = [*[d.size for d in reversed(self.digits)], 1]
        if kept != split:
            value = b.slice(value, starts=[0] * len(kept), limits=kept, steps=[1] * len(kept))
        value = view(b, value, tuple(kept[:-1]))
        dims = [d.dimension for d in reversed(self.digits)]
        if dims == [1, 0]:
            value, dims = b.transpose(value, permutation=[1, 0]), [0, 1]
        own = list(shape_of(value.type))
        element = element_type(value.type)
        if 1 in dims and self.block > block:
            # Each number is for several of the blocks: repeat it.
            times = self.block // block
            shape = (*own, times)
            value = b.broadcast(value, type=TensorType(shape, element), dimensions=list(range(len(own))))
            own[-1] *= times
            value = view(b, value, tuple(own))
            if own[-1] > size[1]:
                limits = [*own[:-1], size[1]]
                value = b.slice(value, starts=[0] * len(own), limits=limits, steps=[1] * len(own))
        if dims != list(range(len(size))):
            value = b.broadcast(value, type=TensorType(size, element), dimensions=dims)
        return value


@dataclass(frozen=True)
class Computed:
    """A parameter that an elementwise op computes from others."""

    op: Op
    inputs: tuple[Parameter, ...]

    def leaves(self) -> Iterator[Leaf]:
        for each in self.inputs:
            yield from each.leaves()

    def stored(self) -> Sequence[Kept]:
        """The parameters that are stored for it: itself, or those it is computed from if they take fewer bytes."""
        parts = _stored(self.inputs)
        return parts if sum(p.bytes for p in parts) < self.bytes else (self,)

    @property
    def bytes(self) -> int:
        sizes = [
            max([1, *(d.size for leaf in self.leaves() for d in leaf.digits if d.dimension == n)])
            for n in (0, 1)
        ]
        return item_bytes(element_type(self.op.result.type)) * prod(sizes)

    @property
    def block(self) -> int:
        return gcd(*[leaf.block for leaf in self.leaves()])

    def at(self, b: Builder, size: tuple[int, ...], block: int = 0) -> Value:
        type = TensorType(size, element_type(self.op.result.type))
        return b.add_op(
            self.op.rebuilt([each.at(b, size, block) for each in self.inputs], types=[type])
        ).result


#: Parameters that may be stored.
Kept = Leaf | Computed
Parameter = Number | Kept


def _stored(parameters: Iterable[Parameter]) -> Sequence[Kept]:
    return tuple(dict.fromkeys(part for each in parameters for part in each.stored()))


def computed(
    parameter: Parameter, held: Mapping[Parameter, Value], b: Builder, shape: tuple[int, ...]
) -> Value:
    """A parameter, computed from the stored ones; all in the same shape."""
    if parameter in held:
        return held[parameter]
    if not isinstance(parameter, Computed):
        return parameter.at(b, shape)
    type = TensorType(shape, element_type(parameter.op.result.type))
    operands = [computed(each, held, b, shape) for each in parameter.inputs]
    return b.add_op(parameter.op.rebuilt(operands, types=[type])).result


@dataclass(frozen=True)
class Step:
    """An elementwise op in a chain: operand `at` is computed from the codes, the others are parameters."""

    op: Op
    at: int
    others: tuple[Parameter | None, ...]


@dataclass(frozen=True)
class Chain:
    """A matrix of `shape` (rows of the weight x depth): `codes` after the data movement ops `moves` and the elementwise `steps`, both
    listed with the last op first."""

    shape: tuple[int, int]
    codes: Value
    bits: int
    steps: tuple[Step, ...]
    moves: tuple[Op, ...]
    turned: bool  # whether the codes are depth x rows after `moves`
    table: tuple[int, ...] | None = None  # the bytes that one of the steps looks up, if one does

    @property
    def code_bits(self) -> int:
        """Bits of what is multiplied: of the codes, or of the numbers that a table has for them."""
        return 8 if self.table else self.bits

    @property
    def block(self) -> int:
        """Adjacent codes of a row that share all parameters; 0 where the whole row does."""
        found = 0
        for step in self.steps:
            for parameter in step.others:
                for leaf in parameter.leaves() if parameter else ():
                    found = gcd(found, leaf.block)
        return found

    def unscaled(self) -> tuple[Chain, Parameter | None]:
        """The chain without its last step and the factor, if that multiplies each row by one factor; else the chain and None."""
        last, *steps = self.steps
        factor = last.others[1 - last.at] if last.op.name == "ng.multiply" else None
        if factor is None or not steps or any(leaf.block for leaf in factor.leaves()):
            return self, None
        return replace(self, steps=tuple(steps)), factor

    def codes_in_order(self, b: Builder) -> Value:
        """The codes as rows x depth, in the order of the weight."""
        value = self.codes
        for op in reversed(self.moves):
            type = with_element(op.result.type, element_type(value.type))
            value = b.add_op(op.rebuilt([value], types=[type])).result
        return b.transpose(value, permutation=[1, 0]) if self.turned else value


def stored_of(steps: Sequence[Step]) -> Sequence[Kept]:
    """The stored parameters of some steps."""
    return _stored(p for step in steps for p in step.others if p is not None)


def chain_of(
    weight: Value, depth: int, constant: Callable[[Value], bool], tables: bool = False
) -> Chain | None:
    """The chain that decodes a matrix, whose dimension `depth` is contracted, from narrow codes; None where there is none. With
    `tables` one of its steps may look the codes up."""
    sizes = shape_of(weight.type)
    shape = (sizes[1 - depth], sizes[depth])
    places: Places | None = of_matrix(shape)
    if depth == 0:
        places = places[::-1]
    steps: list[Step] = []
    moves: list[Op] = []
    best: Chain | None = None
    table: tuple[int, ...] | None = None
    value = weight
    for _ in range(_LONGEST):
        bits = _bits(value)
        if bits < (best.bits if best else 32) and constant(value):
            best = Chain(shape, value, bits, tuple(steps), tuple(moves), depth == 0, table)
        op = value.owner
        if not isinstance(op, Op) or bits <= CODE_BITS:
            break
        if op.name in PLACING:
            places = before(op, places, shape)
            if places is None:
                break
            moves.append(op)
            value = op.operands[0]
        elif "elementwise" in op.traits and len(op.results) == 1:
            others = [parameter_of(v, places, shape) for v in op.operands]
            if others.count(None) != 1:
                break
            at = others.index(None)
            steps.append(Step(op, at, tuple(others)))
            value = op.operands[at]
        elif tables and table is None and (table := table_of(op)) is not None:
            steps.append(Step(op, 1, (None, None)))
            value = op.operands[1]
        else:
            break
    if best is None or not best.steps:
        return None
    leaves = [leaf for step in best.steps for p in step.others if p for leaf in p.leaves()]
    return best if all(leaf.fits(*shape) and constant(leaf.value) for leaf in leaves) else None


def table_of(op: Op) -> tuple[int, ...] | None:
    """The signed bytes that an op looks up by codes of `CODE_BITS` bits; None where it is no such op."""
    if op.name != "ng.gather" or element_type(op.operands[0].type) is not i8:
        return None
    literal = constant_elements(op.operands[0])
    if literal is None or literal.type.shape != (1 << CODE_BITS,):
        return None
    return tuple(literal.array().tolist())


def parameter_of(value: Value, places: Places, matrix: tuple[int, int], deep: int = 16) -> Parameter | None:
    """A value as a parameter that several codes share; None where each code has a different element."""
    op, shape = value.owner, shape_of(value.type)
    if isinstance(op, Op) and op.name == "ng.constant":
        literal = op.attributes["value"]
        if isinstance(literal, ElementsAttr) and literal.splat and literal.type.size:
            return Number(op)
    digits = flat(places, shape)
    made = _made_of(op, places, matrix, deep) if deep and isinstance(op, Op) else None
    if any(d.dimension == 1 and d.divisor == 1 for d in digits):
        return made
    leaf = Leaf(value, tuple(digits))
    # The parameters it is computed from, if these take fewer bytes: widened numbers, scales of scales.
    less = made is not None and sum(p.bytes for p in made.stored()) < leaf.bytes
    return made if less and made is not None and all(each.fits(*matrix) for each in made.leaves()) else leaf


def _made_of(op: Op, places: Places, matrix: tuple[int, int], deep: int) -> Parameter | None:
    """The same for the result of an op, by its operands."""
    if op.name in PLACING:
        inner = before(op, places, matrix)
        return None if inner is None else parameter_of(op.operands[0], inner, matrix, deep - 1)
    if "elementwise" not in op.traits or len(op.results) != 1:
        return None
    inputs = [parameter_of(v, places, matrix, deep - 1) for v in op.operands]
    known = [each for each in inputs if each is not None]
    return Computed(op, tuple(known)) if len(known) == len(inputs) else None


def _bits(value: Value) -> int:
    """Bits that are enough to store the elements of a value."""
    element = element_type(value.type)
    if isinstance(element, FloatType):
        return element.width
    limit = most(value)
    if limit is not None and limit < 256:
        return max(1, limit.bit_length())
    return element.width if isinstance(element, IntegerType) else 64
