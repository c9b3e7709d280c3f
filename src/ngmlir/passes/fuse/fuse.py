# SPDX-License-Identifier: Apache-2.0
"""Fusion: groups of ops that become one kernel."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ...ir.attributes import Attribute, StringAttr
from ...ir.core import Block, Module, Op, Region, Value
from ...ir.types import shape_of
from ...ops import ng
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.schedules import SCHEDULE
from ...ops.settings import to_attribute
from ...ops.stated_schedules import merged
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target
from ..analysis.group import FREE, Group, indexed, reads
from ..graph.dead_code import renamed
from .groups import Groups
from .writer import in_functions, nested


@contract(needs=("plain", "fused"), gives="fused", anchor="function")
def fuse(module: Module, target: Target) -> Module:
    """Groups ops into `ng.fusion`s, each of which becomes one kernel.

    Kinds: `map` (elementwise over one iteration space), `rows` (reductions over the innermost loop, perhaps with others,
    with prologue and epilogue: softmax and normalisations are one kernel), `columns` (reductions over
    outer loops only, with prologue and epilogue), `dot` (a matrix product with its epilogue). An op joins the kernel of an operand
    if it runs over the same loops and no value would have to be computed outside in between. A value that is broadcast along
    different dimensions is an operand once for each of them. A contiguous slice of a value in memory is not fused: on CPUs it is
    a view. Other ops that only move a value in memory (slice, pad, transpose) are repeated in each kernel that reads them, as an
    indexing map; except those whose adjacent elements are far apart in memory.

    Before:
        func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
          %0 = ng.exp %x : tensor<8x4xf32>
          %1 = ng.sum %0 axes [1] : (tensor<8x4xf32>) -> tensor<8xf32>
          %2 = ng.log %1 : tensor<8xf32>
          return %2 : tensor<8xf32>
        }
    After:
        func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
          %0 = ng.fusion rows(%1 = %x) -> tensor<8xf32> {
            %2 = ng.exp %1 : tensor<8x4xf32>
            %3 = ng.sum %2 axes [1] : (tensor<8x4xf32>) -> tensor<8xf32>
            %4 = ng.log %3 : tensor<8xf32>
            ng.yield %4 : tensor<8xf32>
          }
          func.return %0 : tensor<8xf32>
        }
    """
    module = sweep(module, _Directions().rule, frozenset({"ng.broadcast"}), frozenset({"ng.fusion"}))
    return in_functions(module, lambda block: _Writer(block, target).block())


class _Directions:
    """Copies a value for each further set of dimensions that it is broadcast along: in one kernel these are different loops, which
    one value would unify."""

    def __init__(self) -> None:
        self.first: dict[Value, tuple[int, ...]] = {}

    def rule(self, op: Op, b: Builder) -> Sequence[Value] | None:
        (value,), dimensions = op.operands, get_i64s(op, "dimensions")
        shape = shape_of(value.type)
        if self.first.setdefault(value, dimensions) == dimensions or 0 in shape:
            return None
        if isinstance(value.owner, Op) and value.owner.name in FREE and not value.owner.operands:
            same = b.add_op(value.owner.rebuilt()).result
        else:
            same = b.slice(value, starts=[0] * len(shape), limits=shape, steps=[1] * len(shape))
        return [b.broadcast(same, type=op.result.type, dimensions=dimensions)]


class _Writer:
    """Rewrites a block with a fusion for each of its groups."""

    def __init__(self, block: Block, target: Target):
        self.source, self.target = block, target
        self.groups = Groups(block, target)
        self.groups.refusals.emit(self.groups.live())
        self.used = _read_elsewhere(self.groups)
        self.mapping: dict[Value, Value] = {}

    def block(self) -> Block:
        out = self.source.emptied()
        for group in _scheduled(self.groups):
            if group.kind == "alone":
                (op,) = group.ops
                new = nested(renamed(op, self.mapping), lambda block: _Writer(block, self.target).block())
                self.mapping.update(zip(op.results, new.results, strict=True))
                out.ops.append(new)
            else:
                out.ops += self.views(group)
                out.ops.append(self.fusion(group))
        return out

    def views(self, group: Group) -> list[Op]:
        """The reshapes of values in memory that a group reads and that are not written yet."""
        made: list[Op] = []
        for view in group.views:
            if view.result not in self.mapping:
                made.append(view.rebuilt([self.mapping.get(v, v) for v in view.operands]))
                self.mapping[view.result] = made[-1].result
        return made

    def fusion(self, group: Group) -> Op:
        ops = sorted(group.ops, key=self.groups.order.__getitem__)
        inside = {r for op in ops for r in op.results}
        # The sides of a product, and what is gathered, are read from memory, even if the epilogue repeats the op that computes one.
        taken = [
            v
            for op in ops
            for v in op.operands
            if v not in inside or (v in indexed(op) and v not in self.groups.sides)
        ]
        inputs = list(dict.fromkeys(taken))
        outputs = [
            r for op in ops if self.groups.group_by_op.get(op) is group for r in op.results if r in self.used
        ]
        body = Block([v.type for v in inputs], [v.name for v in inputs])
        given: dict[Value, Value] = dict(zip(inputs, body.args, strict=True))
        inner = dict(given)
        for op in ops:
            known = {**inner, **{v: given[v] for v in indexed(op) if v in given}}
            own = (
                {k: v for k, v in op.attributes.items() if k != SCHEDULE}
                if SCHEDULE in op.attributes
                else None
            )
            new = op.rebuilt([known[v] for v in op.operands], attributes=own)
            inner.update(zip(op.results, new.results, strict=True))
            body.ops.append(new)
        body.ops.append(ng.YieldOp([inner[v] for v in outputs], (), {}, (), ops[-1].location))
        attributes: dict[str, Attribute] = {"kind": StringAttr(group.kind)}
        if scheduled := merged(ops, group.kind):
            attributes[SCHEDULE] = to_attribute(scheduled)
        made = ng.FusionOp(
            [self.mapping.get(v, v) for v in inputs],
            [v.type for v in outputs],
            attributes,
            [Region(body)],
            ops[-1].location,
            names=[v.name for v in outputs],
        )
        self.mapping.update(zip(outputs, made.results, strict=True))
        return made


def _read_elsewhere(groups: Groups) -> set[Value]:
    """Values that an op of another group reads."""
    return {
        value
        for group in groups.live()
        for op in (*group.ops, *group.views)
        for value in reads(op)
        if value.owner not in group.ops or groups.group_of(value) is not group
    }


def _scheduled(groups: Groups) -> list[Group]:
    """The groups in topological order, ties in the order of the block."""
    live = groups.live()
    first = {k.number: max(groups.order[op] for op in k.ops if groups.group_by_op.get(op) is k) for k in live}
    waiting: dict[int, int] = {}
    after: dict[int, list[Group]] = {}
    for k in live:
        feeders = {f for op in k.ops for f in groups.feeders(op, k)} - {k}
        waiting[k.number] = len(feeders)
        for feeder in feeders:
            after.setdefault(feeder.number, []).append(k)
    ready = [(first[n], n) for n, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    done: list[Group] = []
    while ready:
        _, number = heapq.heappop(ready)
        group = groups.by_number[number]
        assert group is not None
        done.append(group)
        for later in after.get(number, ()):
            waiting[later.number] -= 1
            if waiting[later.number] == 0:
                heapq.heappush(ready, (first[later.number], later.number))
    assert len(done) == len(live), "groups wait for each other"
    return done
