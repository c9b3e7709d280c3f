# SPDX-License-Identifier: Apache-2.0
"""Copies the computation of a fusion's result into the fusions that read it, and changes the results of fusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.core import Block, Op, Region, Value
from ...ops import ng
from ...support.diagnostics import Limit
from ...support.target import Target
from ..analysis.views import needed
from ..graph.inline import copied
from .loops import loops_of


@dataclass(frozen=True)
class Recipe:
    """The ops that compute a value inside a fusion; `views` are reshapes outside, in the shapes that the ops read."""

    value: Value
    inputs: Mapping[Value, Value]  # value that the ops read -> value outside
    ops: Sequence[Op]
    result: Value
    views: Sequence[Op] = ()


def inlined(
    fusion: Op, value: Value, recipe: Recipe, mapping: Mapping[Value, Value], target: Target
) -> Op | None:
    """The fusion with a value computed inside instead of read; None if that would change its loops."""
    inputs = [v for v in fusion.operands if v is not value]
    outside = [mapping.get(v, v) for v in inputs]
    more = [v for v in dict.fromkeys(recipe.inputs.values()) if v not in outside]
    body = Block([v.type for v in (*inputs, *more)], [v.name for v in (*inputs, *more)])
    found = dict(zip([*outside, *more], body.args, strict=True))
    inner = {argument: found[v] for argument, v in recipe.inputs.items()}
    body.ops = [copied(op, inner) for op in recipe.ops]
    arguments = dict(zip(fusion.operands, fusion.block.args, strict=True))
    names = {arguments[v]: at for v, at in zip(inputs, body.args, strict=False)}
    names[arguments[value]] = inner[recipe.result]
    body.ops += [copied(op, names) for op in fusion.block.ops]
    new = fusion.rebuilt([*inputs, *more], [Region(body)])
    try:
        same = loops_of(new, target).sizes == loops_of(fusion, target).sizes
    except Limit:
        return None
    return new if same else None


def giving(fusion: Op, kept: Sequence[bool]) -> Op:
    """A fusion with only the `kept` results, without ops that only the others need."""
    pairs = zip(fusion.block.ops[-1].operands, fusion.results, kept, strict=True)
    left = [(inner, result.name) for inner, result, stays in pairs if stays]
    return yielding(fusion, [inner for inner, _ in left], [name for _, name in left])


def yielding(fusion: Op, results: Sequence[Value], names: Sequence[str]) -> Op:
    """A fusion that yields these values of its block, with the ops that they need."""
    block = fusion.block
    ops = needed(block.ops[:-1], results)
    read = {v for op in ops for v in op.operands} | {*results}
    pairs = [(v, a) for v, a in zip(fusion.operands, block.args, strict=True) if a in read]
    body = Block([a.type for _, a in pairs], [a.name for _, a in pairs])
    inner: dict[Value, Value] = dict(zip([a for _, a in pairs], body.args, strict=True))
    body.ops = [copied(op, inner) for op in ops]
    body.ops.append(ng.YieldOp([inner[v] for v in results], (), {}, (), block.ops[-1].location))
    return ng.FusionOp(
        [v for v, _ in pairs],
        [v.type for v in results],
        fusion.attributes,
        [Region(body)],
        fusion.location,
        names=names,
    )
