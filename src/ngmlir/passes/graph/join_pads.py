# SPDX-License-Identifier: Apache-2.0
"""Sums of tensors that zeros were padded around, as concatenations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import groupby
from math import prod
from typing import NamedTuple

from ...ir.attributes import numeric_literal
from ...ir.core import Block, Module, Op, Value
from ...ir.types import FloatType, TensorType, Type, as_tensor, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_found
from ...support.lengths import usual
from ...support.target import Target
from .dead_code import without_dead


@contract(needs=("named", "plain"), anchor="function")
def join_pads(module: Module, target: Target) -> Module:
    """Replaces sums of tensors with zero padding by concatenations, where the tensors are adjacent.

    Such sums are the gradients of slices: T slices of one tensor, padded and added, move T times its size. Parts that
    overlap are still added, in the same order, but only within their bounding box. Adding zeros turned -0.0 into 0.0, so
    a zero is still added to each part.

    A sum of two parts is kept: the kernel that reads it computes it. Gradients of strided slices are joined in a view whose rows
    have as many elements as a step.

    Before:
        func.func @main(%x: tensor<1xf32>, %y: tensor<2xf32>, %z: tensor<1xf32>) -> tensor<5xf32> {
          %0 = ng.pad %x low [4] high [0] : (tensor<1xf32>) -> tensor<5xf32>
          %1 = ng.pad %y low [1] high [2] : (tensor<2xf32>) -> tensor<5xf32>
          %2 = ng.add %0, %1 : tensor<5xf32>
          %3 = ng.pad %z low [0] high [4] : (tensor<1xf32>) -> tensor<5xf32>
          %4 = ng.add %2, %3 : tensor<5xf32>
          return %4 : tensor<5xf32>
        }
    After:
        func.func @main(%x: tensor<1xf32>, %y: tensor<2xf32>, %z: tensor<1xf32>) -> tensor<5xf32> {
          %0 = ng.constant dense<0.0> : tensor<1xf32>
          %1 = ng.add %z, %0 : tensor<1xf32>
          %2 = ng.constant dense<0.0> : tensor<2xf32>
          %3 = ng.add %y, %2 : tensor<2xf32>
          %4 = ng.constant dense<0.0> : tensor<1xf32>
          %5 = ng.constant dense<0.0> : tensor<1xf32>
          %6 = ng.add %x, %5 : tensor<1xf32>
          %7 = ng.concatenate %1, %3, %4, %6 axis 0 : (tensor<1xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<5xf32>
          func.return %7 : tensor<5xf32>
        }
    """
    return module.with_ops([_function(op) if op.name == "func.func" else op for op in module.ops])


class _Part(NamedTuple):
    """A term of a sum: the tensor `value` occupies `low` to `high` of `padded`, the rest of which is zeros.

    The gradient of a strided slice is padded in a view whose rows have as many elements as a step: `moves`, the last one first,
    are the reshapes and slices that make the term of it.
    """

    term: Value
    padded: Value
    value: Value
    low: tuple[int, ...]
    high: tuple[int, ...]
    moves: tuple[Op, ...]

    @property
    def space(self) -> object:
        """Parts can be joined if this is equal: the padded type and the ops after the padding."""
        moved = [(op.name, op.attributes, op.result.type) for op in self.moves]
        return self.padded.type, moved


#: Consecutive terms of a sum: all parts of one space, or none a part.
_Run = Sequence[Value | _Part]


def _function(function: Op) -> Op:
    blocks = [b for op in function.walk() for region in op.regions for b in region.blocks]
    uses = Counter(value for op in function.walk() for value in op.operands)
    sums = {op: runs for block in blocks for op, runs in _sums(block, uses).items()}
    now = dict[Value, Value]()
    joined = sweep_found(function, sums, lambda _, runs, b: [_Joining(now, b).total(runs)], now)
    if joined is function:
        return function
    return without_dead(joined, ("ng.add", "ng.pad", "ng.reshape", "ng.slice"))


def _sums(block: Block, uses: Mapping[Value, int]) -> dict[Op, list[_Run]]:
    """The sums in a block in which a run of parts is joined, by their last addition: each as runs of parts and of other terms."""
    here = {op for op in block.ops if op.name == "ng.add" and SCHEDULE not in op.attributes}
    inner: set[Op] = set()
    found: dict[Op, list[_Run]] = {}
    for op in reversed(block.ops):
        if op not in here or op in inner:
            continue
        terms = [_part(v) or v for v in _terms(op, here, uses, inner)]
        runs: list[_Run] = [
            [*run] for _, run in groupby(terms, lambda term: term.space if isinstance(term, _Part) else None)
        ]
        if any(_joins(run, first=number == 0) for number, run in enumerate(runs)):
            found[op] = runs
    return found


def _terms(last: Op, here: Collection[Op], uses: Mapping[Value, int], inner: set[Op]) -> list[Value]:
    """The terms of a sum in the order of addition; the additions before the last one are added to `inner`."""
    terms: list[Value] = []
    op = last
    while True:
        before = next((v for v in op.operands if v.owner in here and uses[v] == 1), None)
        if before is None:
            return [*op.operands, *reversed(terms)]
        terms.append(op.operands[1] if before is op.operands[0] else op.operands[0])
        assert isinstance(before.owner, Op)
        op = before.owner
        inner.add(op)


#: Fewest parts to join. With fewer, adding them in the kernel that reads the sum takes less than writing and reading it once more.
_FEWEST = 3


def _part(value: Value) -> _Part | None:
    """A value as a part of a sum, if it is a tensor with zero padding, perhaps reshaped and sliced after that."""
    op, moves = value.owner, list[Op]()
    while isinstance(op, Op) and (op.name == "ng.reshape" or (op.name == "ng.slice" and _keeps_most(op))):
        moves.append(op)
        op = op.operands[0].owner
    if not isinstance(op, Op) or op.name != "ng.pad" or SCHEDULE in op.attributes:
        return None
    (source,), type = op.operands, as_tensor(op.result.type)
    fill = op.attributes.get("value")
    if not type.static or 0 in shape_of(source.type) or fill not in (None, numeric_literal(0, type.element)):
        return None
    low = get_i64s(op, "low")
    high = tuple([a + b for a, b in zip(low, shape_of(source.type), strict=True)])
    return _Part(value, op.result, source, low, high, tuple(moves))


def _keeps_most(op: Op) -> bool:
    """Whether a slice keeps more than half of its operand, so that it may be taken of the whole sum."""
    source, type = (as_tensor(value.type) for value in (op.operands[0], op.result))
    return type.static and source.static and 2 * usual(prod(type.shape)) > usual(prod(source.shape))


def _joins(run: _Run, first: bool) -> bool:
    """Whether to join a run of terms. A run that is not the first must have no overlapping parts, which would be added in another
    order."""
    parts = [term for term in run if isinstance(term, _Part)]
    cut = _cut(parts) if len(parts) >= _FEWEST else None
    return cut is not None and (first or _are_separable(parts))


def _are_separable(parts: Sequence[_Part]) -> bool:
    """Whether repeated cuts separate all parts: none overlap."""
    cut = _cut(parts)
    return len(parts) == 1 if cut is None else all(_are_separable(group) for group in cut[1])


def _cut(parts: Sequence[_Part]) -> tuple[int, list[list[_Part]]] | None:
    """A dimension along which the parts fall into disjoint groups, and the groups in ascending order, each in the order of
    the parts; None where there is no such dimension."""
    for d in range(len(parts[0].low) if len(parts) > 1 else 0):
        groups: list[list[int]] = []
        end = 0
        for i in sorted(range(len(parts)), key=lambda i: parts[i].low[d]):
            if not groups or parts[i].low[d] >= end:
                groups.append([])
            groups[-1].append(i)
            end = max(end, parts[i].high[d])
        if len(groups) > 1:
            return d, [[parts[i] for i in sorted(group)] for group in groups]
    return None


class _Joining:
    """Builds a sum with its parts joined."""

    def __init__(self, mapping: Mapping[Value, Value], builder: Builder):
        self.mapping, self.b = mapping, builder

    def total(self, runs: Sequence[_Run]) -> Value:
        terms: list[Value] = []
        for number, run in enumerate(runs):
            parts = [term for term in run if isinstance(term, _Part)]
            if _joins(run, number == 0):
                shape = shape_of(parts[0].padded.type)
                whole = self.box(parts, [0] * len(shape), shape)
                for move in reversed(parts[0].moves):
                    whole = self.b.add_op(move.rebuilt([whole])).result
                terms.append(whole)
            else:
                terms += [self.now(term.term if isinstance(term, _Part) else term) for term in run]
        return reduce(self.b.add, terms)

    def now(self, value: Value) -> Value:
        return self.mapping.get(value, value)

    def box(self, parts: Sequence[_Part], low: Sequence[int], high: Sequence[int]) -> Value:
        """The sum of parts over the box from `low` to `high`, which contains them."""
        cut = _cut(parts)
        if cut is None:
            value = reduce(self.b.add, [self.padded(part, low, high) for part in parts])
            return self.b.add(value, self.b.number(0, value.type)) if _signed_zero(value.type) else value
        d, groups = cut
        pieces: list[Value] = []
        at = low[d]
        for group in groups:
            start, end = min(p.low[d] for p in group), max(p.high[d] for p in group)
            if start > at:
                pieces.append(self.zeros(parts[0].value.type, low, high, d, at, start))
            pieces.append(self.box(group, _replaced(low, d, start), _replaced(high, d, end)))
            at = end
        if high[d] > at:
            pieces.append(self.zeros(parts[0].value.type, low, high, d, at, high[d]))
        return self.b.concatenate(pieces, axis=d)

    def padded(self, part: _Part, low: Sequence[int], high: Sequence[int]) -> Value:
        """A part padded with zeros to a box."""
        before = [a - b for a, b in zip(part.low, low, strict=True)]
        behind = [b - a for a, b in zip(part.high, high, strict=True)]
        value = self.now(part.value)
        return self.b.pad(value, low=before, high=behind) if any((*before, *behind)) else value

    def zeros(
        self, like: Type, low: Sequence[int], high: Sequence[int], d: int, start: int, end: int
    ) -> Value:
        """Zeros for the range from `start` to `end` along dimension `d` of a box, which no part covers."""
        shape = [b - a for a, b in zip(_replaced(low, d, start), _replaced(high, d, end), strict=True)]
        return self.b.number(0, TensorType(tuple(shape), element_type(like), as_tensor(like).encoding))


def _replaced(sizes: Sequence[int], d: int, size: int) -> list[int]:
    return [*sizes[:d], size, *sizes[d + 1 :]]


def _signed_zero(type: Type) -> bool:
    return isinstance(element_type(type), FloatType)
