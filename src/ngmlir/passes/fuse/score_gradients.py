# SPDX-License-Identifier: Apache-2.0
"""Matches the gradient of an attention as differentiation writes it, and rewrites it so that it can be computed in blocks.

    %p = ...                     the weights of the attention
    %dv = ng.dot %p, %g          %g: the gradient of its result
    %dp = ng.dot %g, %v
    %r = ng.sum %dp * %p         along the keys
    %ds = (%dp - %r) * %p
    %dw = ...                    elementwise: scaled, masked
    %dq = ng.dot %dw, %k
    %dk = ng.dot %dw, %q

`%r` is also the sum of %g times the result along the elements of a head. So it is known before the first block, as are the
largest scores and their sums from the attention. The gradient of the maximum in a softmax written as single ops is zero up to
rounding, and is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ir.core import Block, Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ..analysis.views import source
from .scores import Attention, broadcast_op, is_number, made_by


@dataclass(frozen=True, eq=False)
class Gradient:
    """The ops of a gradient of an attention: `errors`, the gradient of the weights; `steps`, elementwise ops on the gradient
    of the masked scores; `results`, the products; `inside`, all of them and the ops in between."""

    attention: Attention
    errors: Op
    steps: tuple[Op, ...]
    results: tuple[Op, ...]
    inside: frozenset[Op]


def gradient_of(
    found: Attention, readers: Mapping[Value, Sequence[Op]], order: Mapping[Op, int]
) -> Gradient | None:
    """The gradient of an attention, if it is the only reader of the values inside the attention; else None. `order` has the ops of
    the block."""
    own = {*found.between, found.result}
    inside, results = set[Op](), list[Op]()
    stack = [v for op in found.between for v in op.results]
    while stack:
        for op in readers.get(stack.pop(), ()):
            if op in own or op in inside:
                continue
            inside.add(op)
            if op.name == "ng.dot":
                results.append(op)
            else:
                stack += op.results
    results.sort(key=order.__getitem__)
    found_errors, steps = set[Op | None](), dict[Op, None]()
    for product in results:
        value = source(product.operands[0])
        if value is not found.weights:
            *ops, core = _path(value, found, {*own, *inside})
            found_errors.add(core)
            steps.update((op, None) for op in reversed(ops) if op is not None)
    errors = found_errors.pop() if len(found_errors) == 1 else None
    if errors is None:
        return None
    stack = list(errors.results)
    while stack:  # reshapes between the errors and the weights
        for op in readers.get(stack.pop(), ()):
            if op not in inside:
                inside.add(op)
                stack += op.results
    shapes = [shape_of(op.results[0].type) for op in (errors, found.scores)]
    shapes += [shape_of(v.type) for v in (errors.operands[0], found.result.results[0])]
    fits = shapes[0] == shapes[1] and shapes[2] == shapes[3] and all(_is_inner(op) for op in inside)
    return (
        Gradient(found, errors, tuple(steps), tuple(results), frozenset({*inside, errors})) if fits else None
    )


def _is_inner(op: Op) -> bool:
    return op.name in ("ng.dot", "ng.reshape", "ng.broadcast", "ng.sum") or "elementwise" in op.traits


def _path(value: Value, found: Attention, known: set[Op]) -> Iterator[Op | None]:
    """The elementwise ops from a value back to the gradient of the masked scores, and last the product that gives the gradient of the
    weights; None in place of that for another computation."""
    while (core := _core(value, found)) is None:
        op = value.owner
        behind = [source(v) for v in op.operands] if isinstance(op, Op) and op in known else []
        behind = [v for v in behind if isinstance(v.owner, Op) and v.owner in known]
        if len(behind) != 1 or not isinstance(op, Op) or "elementwise" not in op.traits:
            break
        yield op
        value = behind[0]
    yield core


def _core(value: Value, found: Attention) -> Op | None:
    """The product that gives the gradient of the weights, if a value is the gradient of the masked scores; else None."""
    less = made_by(value, "ng.subtract")
    first, second = (source(v) for v in less.operands) if less is not None else (value, value)
    for errors, weights in _sides(first, "ng.multiply"):
        for other, spread in _sides(second, "ng.multiply"):
            if weights is other is found.weights and _sums(spread, first):
                return made_by(errors, "ng.dot")
    for whole, rest in _sides(value, "ng.add"):  # the gradient of a softmax written as single ops
        for divided, powers in _sides(whole, "ng.multiply"):
            if powers is found.powers.results[0] and _of_maximum(rest, whole, found):
                return _divided(divided, found)
    return None


def _divided(value: Value, found: Attention) -> Op | None:
    """The same for the value `errors / total - sum(errors / total * weights)`."""
    found_errors = [
        source(division.operands[0])
        for errors, spread in _sides(value, "ng.add")
        for other, weights in _sides(_negated(spread), "ng.multiply")
        if other is errors and weights is found.weights
        if (division := made_by(errors, "ng.divide")) and broadcast_op(division.operands[1]) is found.total
    ]
    return made_by(found_errors[0], "ng.dot") if found_errors else None


def _negated(spread: Value) -> Value:
    """The operand of a negation that is summed along the keys and broadcast; the value itself where it is something else."""
    summed = broadcast_op(spread)
    turned = (
        made_by(source(summed.operands[0]), "ng.negative") if summed and summed.name == "ng.sum" else None
    )
    return source(turned.operands[0]) if turned is not None else spread


def _of_maximum(value: Value, whole: Value, found: Attention) -> bool:
    """Whether a value is the gradient of the maximum, where the gradients of the differences from it are `whole`."""
    select = made_by(value, "ng.select")
    equal = made_by(source(select.operands[0]), "ng.equal") if select is not None else None
    return (
        select is not None
        and equal is not None
        and is_number(select.operands[2], 0)
        and _negated(select.operands[1]) is whole
        and source(equal.operands[0]) is found.masked
        and broadcast_op(equal.operands[1]) is found.largest
    )


def _sides(value: Value, name: str) -> list[tuple[Value, Value]]:
    """The operands of an op with this name, in both orders."""
    op = made_by(value, name)
    first, second = (source(v) for v in op.operands) if op is not None else (value, value)
    return [(first, second), (second, first)] if op is not None else []


def _sums(spread: Value, value: Value) -> bool:
    op = broadcast_op(spread)
    return op is not None and op.name == "ng.sum" and source(op.operands[0]) is value


@dataclass(frozen=True, eq=False)
class Written:
    """A rewritten gradient: ops that are computed first (`before`), then those of one kernel."""

    before: tuple[Op, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]


def written(gradient: Gradient) -> Written:
    """The ops of a gradient that reads the largest scores, the sums and `%r`."""
    found, errors = gradient.attention, gradient.errors
    b = Builder(Block(), errors.location)
    last = len(shape_of(errors.operands[0].type)) - 1
    product = b.multiply(errors.operands[0], found.result.results[0])
    means = _seen(b, b.sum(product, axes=[last]), found.total.results[0])
    before = tuple(b.block.ops)
    b = Builder(Block(), errors.location)
    total = found.total
    rank = len(shape_of(total.results[0].type))
    wide = b.broadcast(means, type=total.operands[0].type, dimensions=list(range(rank)))
    less = b.subtract(_seen(b, errors.results[0], found.weights), _seen(b, wide, found.weights))
    core = b.multiply(less, found.weights)
    known: dict[Value, Value] = {}
    inside = {r for op in gradient.inside for r in op.results}
    for op in gradient.steps:
        new = op.rebuilt(
            [_seen(b, known.get(source(v), core), v) if source(v) in inside else v for v in op.operands]
        )
        b.add_op(new)
        known[op.results[0]] = new.results[0]
    made: list[Value] = []
    for op in gradient.results:
        left = op.operands[0]
        value = found.weights if source(left) is found.weights else known.get(source(left), core)
        new = op.rebuilt([_seen(b, value, left), op.operands[1]])
        b.add_op(new)
        made.append(new.results[0])
    return Written(before, tuple(b.block.ops), tuple(made))


def _seen(b: Builder, value: Value, like: Value) -> Value:
    """A value reshaped to the shape of another."""
    shape = shape_of(like.type)
    if shape_of(value.type) == shape:
        return value
    return b.reshape(value, type=TensorType(shape, element_type(value.type)))
