# SPDX-License-Identifier: Apache-2.0
"""The loops and the operands of the gradient of an attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.core import Op, Value
from ...ir.types import element_type, f32, f64, shape_of
from ...ops.fields import get_i64s
from ...support.target import Target
from ..analysis.loop_nest import LoopNest, Shape
from ..analysis.product import Product, product_of
from ..analysis.views import dependencies, needed, source, without_broadcast
from .score_fusions import fusion_of
from .score_loops import Streams, looped, ordered_loops, side_of_dot
from .scores import is_dot, made_by, scores_of


@dataclass(frozen=True, eq=False)
class Total:
    """One of the products that give the results of a gradient: the value of the nest that is its left side; the product itself;
    whether it sums over the queries, so that it has a row for each key; number and shape of the operand that is its right side."""

    left: Value
    product: Product
    by_key: bool
    side: tuple[int, Shape]


@dataclass(frozen=True, eq=False)
class StreamedGradient(Streams):
    """Those of a gradient. `sides` are queries, keys, the gradient of the result, values."""

    largest: Value
    weights: Value
    errors: Value
    error_product: Product
    totals: tuple[Total, ...]


def streamed_gradient(fusion: Op, target: Target) -> StreamedGradient | None:
    """The loops of the attention gradient in a fusion; None where it has no kernel."""
    ops, end = fusion.block.ops[:-1], fusion.block.ops[-1]
    results = [op for v in end.operands if (op := made_by(v, "ng.dot")) is not None]
    powers = next((op for op in ops if op.name == "ng.exp"), None)
    less = made_by(source(powers.operands[0]), "ng.subtract") if powers is not None else None
    masked = source(less.operands[0]) if less is not None else None
    scores = scores_of(masked) if masked is not None else None
    errors = [op for op in ops if is_dot(op) and op is not scores and op not in results]
    weights = _weights(powers, ops) if powers is not None else None
    alike = len(set(results)) == len(end.operands) and len(errors) == 1
    if masked is None or scores is None or weights is None or not alike:
        return None
    lefts = list(dict.fromkeys(source(op.operands[0]) for op in results))
    ends = [masked, weights, *lefts]
    parts = [fusion_of(needed(ops, ends), ends)]
    parts += [fusion_of([*needed(ops, op.operands[1:]), op], op.results) for op in results]
    nests = [made for each in parts if (made := looped(each, target)) is not None]
    if len(nests) < len(parts):
        return None
    (nest, _), *rest = nests
    others = [each for each, _ in rest]
    arguments = {value: number for number, value in enumerate(fusion.block.args)}
    numbers = [[arguments.get(v, -1) for v in operands] for _, operands in nests]
    scored = next(op for op in nest.ops if is_dot(op) and op in dependencies(nest.outputs[:1]))
    error = next(op for op in nest.ops if is_dot(op) and op is not scored)
    dots = [next(op for op in each.ops if is_dot(op)) for each in others]
    how, whole = ordered_loops(nest, scored), nest.loops[scored.results[0]]
    matrices = [(nest, op, i) for op in (scored, error) for i in (0, 1)]
    matrices += [(each, dot, 1) for each, dot in zip(others, dots, strict=True)]
    element = element_type(masked.type)
    fits = (
        all(nest.loops[v] == whole for v in (error.results[0], *nest.outputs))
        and all(side_of_dot(*side) for side in matrices)
        and element in (f32, f64)
        and all(element_type(dot.operands[i].type) is element for _, dot, i in matrices)
    )
    totals = [
        _total(op, nest.outputs[2 + lefts.index(source(op.operands[0]))], each, dot, own)
        for op, each, dot, own in zip(results, others, dots, numbers[1:], strict=True)
        if fits
    ]
    product, error_product = (product_of(op, nest.sides).transposed for op in (scored, error))
    sides = [nest.side(v) for op in (scored, error) for v in op.operands]
    return (
        None
        if how is None or not fits
        else StreamedGradient(
            **vars(how),
            straight=nest,
            scores=product,
            scored=scored.results[0],
            masked=nest.outputs[0],
            inputs=tuple([(numbers[0][number], shape) for number, shape in how.nest.sources]),
            sides=tuple([(numbers[0][number], shape) for number, shape in sides]),
            located_op=scores,
            largest=_largest(nest),
            weights=nest.outputs[1],
            errors=error.results[0],
            error_product=error_product,
            totals=tuple(totals),
        )
    )


def _total(op: Op, left: Value, nest: LoopNest, dot: Op, numbers: Sequence[int]) -> Total:
    """One of the products; `numbers`: which operand of the fusion each operand of its nest is."""
    number, shape = nest.side(dot.operands[1])
    by_key = get_i64s(op, "lhs_contract")[0] < len(shape_of(op.operands[0].type)) - 1
    return Total(left, product_of(dot, nest.sides), by_key, (numbers[number], shape))


def _weights(powers: Op, ops: Sequence[Op]) -> Value | None:
    """The powers divided by (or multiplied with the inverse of) their sums, which are operands."""
    quotients = [op for op in ops if op.name in ("ng.multiply", "ng.divide")]
    return next((op.results[0] for op in quotients if powers.results[0] in map(source, op.operands)), None)


def _largest(nest: LoopNest) -> Value:
    """The row maximum that is subtracted from the scores, among the values of a nest."""
    powers = next(op for op in nest.ops if op.name == "ng.exp")
    less = source(powers.operands[0]).owner
    assert isinstance(less, Op)
    return without_broadcast(less.operands[1])
