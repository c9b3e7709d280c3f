# SPDX-License-Identifier: Apache-2.0
"""Matches attentions: a product of queries and keys, a softmax of each row of it, and a product with values.

%s = ng.dot %q, %k           scores, a row for each query
%w = ...                     elementwise: scaled, masked, with a bias
%m = ng.max %w               along the keys
%e = ng.exp (%w - %m)
%l = ng.sum %e               along the keys
%p = %e / %l                 or %e * (1 / %l)
%o = ng.dot %p, %v
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import prod

from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import shape_of
from ...ops.fields import get_i64s
from ..analysis.group import FREE
from ..analysis.reduction import POSITIONS
from ..analysis.views import source, without_broadcast


@dataclass(frozen=True, eq=False)
class Attention:
    """The ops of one attention. `masked`: the operand of the softmax; `weights`: its result, the left side of the product with
    values."""

    scores: Op
    masked: Value
    largest: Op
    powers: Op
    total: Op
    weights: Value
    result: Op

    @property
    def between(self) -> set[Op]:
        """All ops from the scores to the weights."""
        return {*_through(self.result.operands[0], {self.scores}), self.scores}


def attention_of(product: Op) -> Attention | None:
    """The attention that ends with a product; None where it ends none."""
    last = len(shape_of(product.operands[0].type)) - 1 if is_dot(product) else -1
    if last < 0 or get_i64s(product, "lhs_contract") != (last,):
        return None
    weights = source(product.operands[0])
    parts = _softmax(weights)
    scores = scores_of(parts[0]) if parts is not None else None
    if parts is None or scores is None:
        return None
    same = shape_of(scores.results[0].type) == shape_of(product.operands[0].type)
    return Attention(scores, *parts, weights, product) if same else None


def _softmax(weights: Value) -> tuple[Value, Op, Op, Op] | None:
    """The operand of a softmax, its maximum, its powers and their sum; None if `weights` is none."""
    division, product = made_by(weights, "ng.divide"), made_by(weights, "ng.multiply")
    pairs = [(v, broadcast_op(w)) for v, w in (division.operands,)] if division is not None else []
    if product is not None:
        pairs = [(v, _inverted(broadcast_op(w))) for v, w in (product.operands, product.operands[::-1])]
    for value, total in pairs:
        powers = made_by(source(value), "ng.exp")
        less = made_by(source(powers.operands[0]), "ng.subtract") if powers is not None else None
        largest = broadcast_op(less.operands[1]) if less is not None else None
        if powers is None or less is None or largest is None or total is None:
            continue
        masked = source(less.operands[0])
        if (largest.name, total.name) == ("ng.max", "ng.sum") and (
            source(largest.operands[0]) is masked and source(total.operands[0]) is powers.results[0]
        ):
            return masked, largest, powers, total
    return None


def _inverted(op: Op | None) -> Op | None:
    """The op whose result another op inverts, if that is 1 / x; else None."""
    inverse = op is not None and op.name == "ng.divide" and is_number(op.operands[0], 1)
    return broadcast_op(op.operands[1]) if op is not None and inverse else None


def made_by(value: Value, name: str) -> Op | None:
    """The op that computes a value, if it has this name; else None."""
    op = value.owner
    return op if isinstance(op, Op) and op.name == name else None


def broadcast_op(value: Value) -> Op | None:
    """The op whose result is broadcast and reshaped to a value; None for an argument."""
    owner = without_broadcast(value).owner
    return owner if isinstance(owner, Op) else None


def is_number(value: Value, number: float) -> bool:
    """Whether a value is a splat constant of a number."""
    op = broadcast_op(value)
    held = op.attributes["value"] if op is not None and op.name == "ng.constant" else None
    return isinstance(held, ElementsAttr) and held.splat and bool((held.array() == number).all())


def scores_of(masked: Value) -> Op | None:
    """The product that masked scores are computed from elementwise, if there is exactly one, and they depend on it in no other way: on
    the largest of its scores, for example; else None."""
    found: set[Op] = set()
    others: list[Op] = []
    stack, seen = [masked], {masked}
    while stack:
        op = stack.pop().owner
        if not isinstance(op, Op):
            continue
        if op.name == "ng.dot" and prod(shape_of(op.results[0].type)) == prod(shape_of(masked.type)):
            found.add(op)
        elif op.name == "ng.reshape" or "elementwise" in op.traits:
            for value in op.operands:
                if value not in seen:
                    seen.add(value)
                    stack.append(value)
        else:
            others.append(op)
    return found.pop() if len(found) == 1 and not _depend(others, found) else None


def _depend(ops: Iterable[Op], on: Collection[Op]) -> bool:
    """Whether any of some ops depends on others."""
    stack, seen = [*ops], set[Op](ops)
    while stack:
        op = stack.pop()
        if op in on:
            return True
        for inner in op.walk():
            for value in inner.operands:
                if isinstance(value.owner, Op) and value.owner not in seen:
                    seen.add(value.owner)
                    stack.append(value.owner)
    return False


def _through(end: Value, starts: Collection[Op]) -> set[Op]:
    """The ops on all paths from some ops to a value."""
    known: dict[Op, bool] = {op: True for op in starts}
    stack = [end.owner]
    while stack:
        op = stack[-1]
        if not isinstance(op, Op) or op in known:
            stack.pop()
            continue
        missing = [
            v.owner
            for v in op.operands
            if isinstance(v.owner, Op) and v.owner not in known and _inner(v.owner)
        ]
        if missing:
            stack += missing
            continue
        stack.pop()
        known[op] = any(isinstance(v.owner, Op) and known.get(v.owner, False) for v in op.operands)
    return {op for op, on in known.items() if on}


def _inner(op: Op) -> bool:
    reduction = "reduction" in op.traits and op.name not in POSITIONS
    return op.name in FREE or "elementwise" in op.traits or reduction


def is_dot(op: Op) -> bool:
    """Whether an op is a product."""
    return op.name == "ng.dot"
