# SPDX-License-Identifier: Apache-2.0
"""Builds the fusions of attentions: collects what becomes part of one in addition to its products and its softmax."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.attributes import StringAttr
from ...ir.core import Block, Op, Region, Value
from ...ir.types import shape_of
from ...ops import ng
from ...ops.library import in_library
from ..analysis.access import MOVES
from ..analysis.group import FREE, has_elements, splat
from ..graph.inline import copied
from .scores import is_dot


def members(inside: Collection[Op], there: Collection[Op], moves: bool) -> tuple[set[Op], set[Op]]:
    """The ops that become one kernel: those `inside`, ops that compute masks, and with `moves` ops that only move the sides of
    products; and the ops for masks separately. `there` are the ops of the block."""
    inside = set(inside)
    products = [op for op in inside if is_dot(op)]
    sides = [v for op in products for v in op.operands]
    for side in sides if moves else ():
        value, views = side, list[Op]()
        while isinstance(op := value.owner, Op) and op in there and op.name in (*MOVES, "ng.reshape"):
            views.append(op)
            if op.name in MOVES:  # reshapes before the first move stay outside
                inside.update(views)
            value = op.operands[0]
    masks: dict[Op, None] = {}
    stack = [v for op in inside if not is_dot(op) and op.name not in MOVES for v in op.operands]
    while stack:
        op = stack.pop().owner
        if not isinstance(op, Op) or op not in there or op in inside or op in masks:
            continue
        free = op.name in FREE and (op.name != "ng.constant" or splat(op))
        cheap = "elementwise" in op.traits and not in_library(op)
        if (free or cheap) and all(has_elements(v) for v in (*op.operands, *op.results)):
            masks[op] = None
            stack += op.operands
    return inside | set(masks), set(masks)


def fusion_of(ops: Collection[Op], outputs: Sequence[Value], spread: Collection[Op] = frozenset()) -> Op:
    """A fusion of kind `attention` that yields `outputs`, with those of `ops` that they depend on; other values are operands. A value
    that broadcasts among `spread` repeat along different dimensions is computed, or an operand, once for each: it belongs to
    different loops."""
    inside = set(ops)
    inputs: dict[tuple[Value, object], Value] = {}
    made: dict[tuple[Op, object], Op] = {}

    def value_of(value: Value, along: object) -> Value:
        op = value.owner
        if isinstance(op, Op) and op in inside:
            return built(op, along if op in spread else None).results[op.results.index(value)]
        return inputs.setdefault((value, along), Block([value.type], [value.name]).args[0])

    def built(op: Op, along: object) -> Op:
        if (op, along) not in made:
            own = along
            if op.name == "ng.broadcast" and op in spread:
                own = op.attributes["dimensions"], shape_of(op.results[0].type), along
            # The ops that an op reads are built, and so inserted, before it.
            new = op.rebuilt([value_of(v, own) for v in op.operands])
            made[op, along] = new
        return made[op, along]

    given = [value_of(v, None) for v in outputs]
    operands = [value for value, _ in inputs]
    body = Block([v.type for v in operands], [v.name for v in operands])
    mapping = dict(zip(inputs.values(), body.args, strict=True))
    body.ops = [copied(op, mapping) for op in made.values()]
    end = next(iter(made.values())).location
    body.ops.append(ng.YieldOp([mapping[v] for v in given], (), {}, (), end))
    return ng.FusionOp(
        operands,
        [v.type for v in outputs],
        {"kind": StringAttr("attention")},
        [Region(body)],
        end,
        names=[v.name for v in outputs],
    )
