# SPDX-License-Identifier: Apache-2.0
"""Rematerialization: values are computed again when they are needed, instead of being kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any

from ...ir.attributes import SymbolRefAttr
from ...ir.core import Block, Module, Op, Region, Value, callee
from ...ops import tile
from ...ops.memory_limit import limit_of
from ...rewrite.contracts import contract
from ...support.arena import padded_bytes, spacing
from ...support.diagnostics import UserError
from ...support.lengths import usual
from ...support.target import Target
from ..graph.dead_code import dead_code, without
from ..graph.inline import copied
from ..graph.invariants import reads
from .memory.live_ranges import LiveRanges
from .memory.schedule import Schedule, planned_functions
from .memory.steps import Buffer, buffer_of
from .rematerialization.blocks import scans_in_blocks, with_blocks
from .rematerialization.keeping import Execution, LimitExceeded, sequence
from .rematerialization.loops import Stack, stacks_of, without_stacks
from .rematerialization.notes import dropped
from .rematerialization.order import orders
from .rematerialization.outputs import Kernels
from .rematerialization.refusals import refusal
from .rematerialization.steps import Step, Steps, StoredValue, is_view, steps_of

_NOTE = "ng.recompute"
#: There are gaps between buffers in the arena. Where a plan exceeds the limit, the budget is reduced by at least this part of it.
_STEP = 1 / 32
#: Steps of the bisection for the least limit that can be held.
_HALVINGS = 6


@contract(needs=("kernels",), gives="kernels")
def rematerialize(module: Module, target: Target, *, limit: int = 0) -> Module:
    """Recomputes values where they are needed, instead of keeping them: those between the sources and values of an `ng.recompute`, and
    as many as necessary for temporaries of at most `limit` bytes (0: the function's attribute `ng.memory_limit`).

    Kernels run again, so the bits are the same; of several results only those are computed for which there is memory. The values are
    chosen step by step: when something does not fit, the value is dropped that costs least to recompute, per byte and per time until its
    next use (Kirisame et al., "Dynamic Tensor Rematerialization", 2021). Steps that free memory run as early as they can. Where that is
    not enough, loops hold less of each step for the loops of their gradients, which compute it again from the carried values with which a
    step, or a block of steps, begins. Raises UserError, with the line, if the limit cannot be held.

    Before:
        func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
          %0 = tile.call @k ins(%x) -> tensor<64xf32>
          %1 = tile.call @k ins(%0) -> tensor<64xf32>
          ng.recompute %1 from()
          %2 = tile.call @k ins(%1) -> tensor<64xf32>
          %3 = tile.call @k2 ins(%2, %0) -> tensor<64xf32>
          return %3 : tensor<64xf32>
        }
        tile.kernel @k ins(%a: memref<64xf32>) outs(%b: memref<64xf32>) {
          tile.copy %a, %b : memref<64xf32>, memref<64xf32>
          tile.return
        }
        tile.kernel @k2 ins(%a: memref<64xf32>, %b: memref<64xf32>) outs(%c: memref<64xf32>) {
          tile.copy %a, %c : memref<64xf32>, memref<64xf32>
          tile.return
        }
    After:
        func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
          %0 = tile.call @k ins(%x) -> tensor<64xf32>
          %1 = tile.call @k ins(%0) -> tensor<64xf32>
          %2 = tile.call @k ins(%1) -> tensor<64xf32>
          %3 = tile.call @k ins(%x) -> tensor<64xf32>
          %4 = tile.call @k2 ins(%2, %3) -> tensor<64xf32>
          func.return %4 : tensor<64xf32>
        }
        ...
    """
    kernels = Kernels(module)
    known, once = planned_functions(module)
    ops = [
        _Function(op, kernels, once, target).within(limit or limit_of(op)) if op in known else op
        for op in module.ops
    ]
    made = kernels.made.values()
    return dead_code(module.with_ops([*ops, *made]), target) if made else module.with_ops(ops)


class _Function:
    """A function, and variants with its steps in other orders, some of them several times."""

    def __init__(
        self,
        function: Op,
        kernels: Kernels,
        once: Collection[str],
        target: Target,
        has_blocks: bool = False,
    ):
        notes = {op for op in function.walk() if op.name == _NOTE}
        own = {op for op in function.block.ops if op in notes}
        self.noted = without(function, notes - own, {})
        self.function, self.has_notes = without(self.noted, own, {}), bool(own)
        self.kernels, self.once, self.target, self.has_blocks = kernels, once, target, has_blocks

    def within(self, limit: int) -> Op:
        """The function with at most `limit` bytes of temporaries, which does not keep the values that its notes exclude."""
        size = self.arena(self.function)
        if not self.has_notes and (not limit or size <= limit):
            return self.function
        if not limit:
            made = min((self.of(sequence(*drop, inf)) for drop in self.drops), key=self.arena)
            return made if self.arena(made) < size else self.function
        made = self.fitting(limit)
        return made if isinstance(made, Op) else self.with_other_scans(limit, size)

    def with_other_scans(self, limit: int, size: int) -> Op:
        """The function within a limit that it needs other scans for: as few of them as necessary."""
        stacks = stacks_of(self.noted, self.kernels)
        fewest = self.without_stacks(stacks)
        ways: list[tuple[Callable[[Sequence[Any]], _Function], Sequence[Any]]] = [
            (self.without_stacks, stacks),
            (self.in_blocks, scans_in_blocks(self.noted, self.kernels)),
            (fewest.in_blocks, scans_in_blocks(fewest.noted, self.kernels)),
        ]
        for change, items in ways:
            found = change(items).fitting(limit)
            if isinstance(found, Op):
                break
        else:
            variants = [self, *(change(items) for change, items in ways)]
            least, which = min(((each.least(limit, size), each) for each in variants), key=lambda e: e[0])
            raise which.refusal(limit, size, least)
        few, many = 0, len(items)
        while many - few > 1:
            middle = (few + many) // 2
            made = change(items[:middle]).fitting(limit)
            if isinstance(made, Op):
                found, many = made, middle
            else:
                few = middle
        return found

    def without_stacks(self, stacks: Sequence[Stack]) -> _Function:
        """The function in which what scans hold for other scans is computed again in each of their steps."""
        if not stacks:
            return self
        return _Function(without_stacks(self.noted, stacks), self.kernels, self.once, self.target)

    def in_blocks(self, scans: Sequence[Op]) -> _Function:
        """The function in which scans run in blocks of steps, and again by the scans that read what they gave."""
        if not scans:
            return self
        return _Function(with_blocks(self.noted, scans), self.kernels, self.once, self.target, True)

    def refusal(self, limit: int, size: int, least: int) -> UserError:
        """The error where a limit cannot be held, but `least` can."""
        stuck = self.fitting(limit)
        if isinstance(stuck, LimitExceeded):
            return refusal(stuck, self.found.steps, limit, size, least)
        message = (
            f"the values that @{self.function.symbol} hands on need {size:,} bytes; the limit is {limit:,}"
        )
        return UserError(message, self.function.location)

    @cached_property
    def found(self) -> Steps:
        """Its steps."""
        alignment, way = spacing(self.target)
        return steps_of(
            self.noted,
            self.kernels,
            partial(padded_bytes, alignment=alignment, way=way),
            self.inside,
            self.over if self.has_blocks else {},
        )

    @cached_property
    def over(self) -> dict[Value, Value]:
        """The values that results of scans are written over, slice by slice."""
        schedule = Schedule(self.function, self.once)
        sliced = LiveRanges(schedule, self.kernels).sliced
        results = [v for op in self.function.block.ops if not is_view(op) for v in op.results]
        values = {home: v for v in results if isinstance(home := schedule.storage[v], Buffer)}
        found = {v: sliced.get(buffer_of(schedule.storage[v])) for v in results}
        return {v: values[source] for v, source in found.items() if source in values}

    @cached_property
    def drops(self) -> list[tuple[list[Step], dict[Step, list[StoredValue]]]]:
        """Orders of its steps, and what is not kept after which step."""
        return [(order, dropped(self.found, order)) for order in orders(self.found.steps)]

    def fitting(self, limit: int) -> Op | LimitExceeded | None:
        """The function within a limit, in the cheapest order; otherwise the step where the first order fails; None if no step is
        the reason."""
        stuck: LimitExceeded | None = None
        found: list[tuple[float, Op]] = []
        for order, drops in self.drops:
            budget = limit
            try:
                while budget > 0:
                    steps = sequence(order, drops, budget)
                    made = self.of(steps)
                    over = self.arena(made) - limit
                    if over <= 0:
                        found.append((sum(each.step.cost for each in steps), made))
                        break
                    budget -= max(over, int(limit * _STEP), 1)
            except LimitExceeded as there:
                stuck = stuck or there
        if found:
            return min(found, key=lambda each: each[0])[1]
        return stuck

    def least(self, below: int, enough: int) -> int:
        """A limit that can be held, close to the least one: `below` cannot be held, `enough` can."""
        below = min(max(below, max((step.needed for step in self.found.steps), default=0) - 1), enough)
        for _ in range(_HALVINGS):
            middle = (below + enough) // 2
            if isinstance(self.fitting(middle), Op):
                enough = middle
            else:
                below = middle
        return enough

    def inside(self, op: Op) -> int:
        """The bytes of the arena for an op with regions, without its operands and results: planned as if it were the whole function."""
        values = list(dict.fromkeys(reads(op)))
        block = Block([value.type for value in values])
        again = copied(op, dict(zip(values, block.args, strict=True)))
        block.ops = [again, self.function.block.ops[-1].rebuilt(list(again.results))]
        return usual(self.arena(self.function.rebuilt(regions=[Region(block)], attributes={})))

    def arena(self, function: Op) -> int:
        return LiveRanges(Schedule(function, self.once), self.kernels).arena(self.target)

    def of(self, steps: Sequence[Execution]) -> Op:
        return self.function.with_blocks(lambda block: _written(block, steps, self.partial))

    def partial(self, executed: Execution) -> Op:
        """The op of a step with only the results that it computes this time."""
        op, numbers = executed.step.op, [held.value.index for held in executed.given]
        if len(numbers) == len(op.results):
            return op
        symbol = self.kernels.with_outputs(callee(op), numbers)
        types, names = zip(*[(held.value.type, held.value.name) for held in executed.given], strict=True)
        attributes = {**op.attributes, "callee": SymbolRefAttr(symbol)}
        return tile.CallOp(op.operands, types, attributes, (), op.location, names=names)


def _written(block: Block, steps: Sequence[Execution], op_of: Callable[[Execution], Op]) -> Block:
    """The block with these steps in this order, some of them several times."""
    out = block.emptied()
    now: dict[Value, Value] = {}  # for each value, the result of the step that computed it last
    views: dict[tuple[Op, tuple[Value, ...]], Value] = {}

    def current(value: Value) -> Value:
        op = value.owner
        if not isinstance(op, Op) or not is_view(op):
            return now.get(value, value)
        operands = [current(operand) for operand in op.operands]
        key = op, tuple(operands)
        if key not in views:
            out.ops.append(op.rebuilt(operands))
            views[key] = out.ops[-1].results[0]
        return views[key]

    for executed in steps:
        op = op_of(executed)
        out.ops.append(copied(op, {value: current(value) for value in reads(op)}))
        now.update(zip((held.value for held in executed.given), out.ops[-1].results, strict=True))
    end = block.ops[-1]
    out.ops.append(end.rebuilt([current(value) for value in end.operands]))
    return out
