# SPDX-License-Identifier: Apache-2.0
"""Scans in blocks of steps: where a block begins the carried values are held, and what other scans read back of its steps is computed
again, block by block (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isqrt

from ....ir.core import Block, Op, Region, Value
from ....ir.literals import bytes_of
from ....ir.types import TensorType, element_type, shape_of
from ....ops.builder import Builder
from ....ops.fields import get_bool, get_i64
from ....support.lengths import is_open
from ...graph.dead_code import removable
from ...graph.inline import copied
from ...graph.invariants import reads
from .loops import Stack, read_back, runs_back, slices_of, stack_source
from .steps import cost_of, is_view, root_of

#: The fewest steps of which some blocks are smaller than all steps.
_STEPS = 4


def scans_in_blocks(function: Op, kernels: Mapping[str, Op]) -> list[Op]:
    """The scans that can be run again in blocks: those first that free most bytes for what that costs."""
    held: dict[Op, list[Stack]] = {}
    for stack in read_back(function):
        if _is_repeatable(stack.scan):
            held.setdefault(stack.scan, []).append(stack)
    costs: dict[str, float] = {}
    return sorted(
        held, key=lambda scan: cost_of(scan, kernels, costs) / sum(bytes_of(s.value.type) for s in held[scan])
    )


def with_blocks(function: Op, scans: Sequence[Op]) -> Op:
    """The function in which these scans are run in blocks, and again by the scans that read what they gave."""
    stacks = [stack for stack in read_back(function) if stack.scan in scans]
    return function.with_blocks(lambda block: _Rewriting(block, stacks).made)


def _is_repeatable(scan: Op) -> bool:
    length = _steps(scan)
    return (
        not is_open([length])
        and length >= _STEPS
        and all(op.name in ("tile.call", "ng.yield") or removable(op) for op in scan.walk() if op is not scan)
    )


def _steps(scan: Op) -> int:
    return shape_of(slices_of(scan)[0].type)[0]


class _Rewriting:
    """A block in which the scans that hold some stacks, and those that read these back, run in blocks."""

    def __init__(self, block: Block, stacks: Sequence[Stack]):
        self.stacks = {stack.value: stack for stack in stacks}
        self.gone = {stack.value for stack in stacks if not stack.is_read_elsewhere}
        self.now: dict[Value, Value] = {}
        #: The carried values with which each block of a scan begins.
        self.begun: dict[tuple[Op, int], Sequence[Value]] = {}
        self.made = block.emptied()
        self.b = Builder(self.made)
        scans = {stack.scan for stack in stacks}
        #: The scans that give values of others, which they compute again.
        self.late = self.given_late(block)
        waiting: list[Op] = []  # views of such values
        for op in block.ops:
            if op in scans or any(self.read_back(value, op) for value in op.operands):
                self.run(op)
                ready = [view for view in waiting if self.late[root_of(view.results[0])] is op]
                self.made.ops += [copied(view, self.now) for view in ready]
                waiting = [view for view in waiting if view not in ready]
            elif is_view(op) and root_of(op.results[0]) in self.late and op.operands[0] not in self.now:
                waiting.append(op)
            elif not op.results or stack_source(op.results[0]) not in self.gone:
                self.made.ops.append(copied(op, self.now))

    def given_late(self, block: Block) -> dict[Value, Op]:
        """For values of scans that a single other scan reads back, and that only ops after it read otherwise: this other scan."""
        place = {op: number for number, op in enumerate(block.ops)}
        back: dict[Op, dict[Op, None]] = {}
        others: dict[Value, list[int]] = {}
        for op in block.ops:
            for value in () if is_view(op) else reads(op):
                stack = self.read_back(value, op)
                if stack is not None:
                    back.setdefault(stack.scan, {})[op] = None
                else:
                    others.setdefault(root_of(value), []).append(place[op])
        found: dict[Value, Op] = {}
        for scan, (reader, *more) in back.items():
            for value in scan.results[get_i64(scan, "carried") :]:
                if not more and value in others and min(others[value]) > place[reader]:
                    found[value] = reader
        return found

    def read_back(self, value: Value, scan: Op) -> Stack | None:
        """The stack that a scan reads a slice of at each step, running the other way."""
        stack = self.stacks.get(stack_source(value))
        return stack if stack is not None and runs_back(scan, stack.scan) else None

    def run(self, scan: Op) -> None:
        """Runs a scan block by block."""
        carried, length = get_i64(scan, "carried"), _steps(scan)
        blocks = isqrt(length)
        edges = [*pairwise(length * i // blocks for i in range(blocks + 1))]
        given = [v for v in scan.results[carried:] if v not in self.gone and v not in self.late]
        late = [value for value, reader in self.late.items() if reader is scan]
        values = [self.now.get(value, value) for value in scan.operands[:carried]]
        parts: dict[tuple[int, int], Sequence[Value]] = {}
        for first, end in reversed(edges) if get_bool(scan, "reverse") else edges:
            self.begun[scan, first] = values
            again: dict[Value, Value] = {}
            results = self.block(scan, first, end, given, again)
            values = results[:carried]
            parts[first, end] = [*results[carried:], *(again[value] for value in late)]
        self.now.update(zip(scan.results, values, strict=False))
        self.b.location = scan.location
        for value, *own in zip([*given, *late], *(parts[edge] for edge in edges), strict=True):
            self.now[value] = self.b.concatenate(own, axis=0)
            self.now[value].name = value.name

    def block(
        self, scan: Op, first: int, end: int, given: Sequence[Value], again: dict[Value, Value]
    ) -> Sequence[Value]:
        """The carried values after a block of a scan, and of its steps the values of some results. Adds what is computed `again` for it."""
        carried, yielded = get_i64(scan, "carried"), scan.block.ops[-1].operands
        wanted: dict[Op, dict[Value, None]] = {}
        for value in slices_of(scan):
            stack = self.read_back(value, scan)
            if stack is not None:
                wanted.setdefault(stack.scan, {})[stack.value] = None
        for value, reader in self.late.items():
            if reader is scan and isinstance(value.owner, Op):
                wanted[value.owner][value] = None
        for other, values in wanted.items():
            made = self.block(other, first, end, [*values], {})
            again.update(zip(values, made[get_i64(other, "carried") :], strict=True))
        self.b.location = scan.location
        slices = [self.part(value, first, end, again) for value in slices_of(scan)]
        block = Block([arg.type for arg in scan.block.args], [arg.name for arg in scan.block.args])
        now = {**self.now, **dict(zip(scan.block.args, block.args, strict=True))}
        block.ops = [copied(op, now) for op in scan.block.ops[:-1]]
        results = [*scan.results[:carried], *given]
        steps = [yielded[value.index] for value in results]
        block.ops.append(scan.block.ops[-1].rebuilt([now.get(value, value) for value in steps]))
        types = [
            value.type if value.index < carried else _with_steps(value, end - first) for value in results
        ]
        operands = [*self.begun[scan, first], *slices]
        return self.b.add_op(scan.rebuilt(operands, [Region(block)], types=types)).results

    def part(self, value: Value, first: int, end: int, again: Mapping[Value, Value]) -> Value:
        """The slices of some steps of a value, of stacks from what is computed `again`."""
        source = stack_source(value)
        if source not in again:
            whole = self.now.get(value, value)
            shape = shape_of(whole.type)
            rest = shape[1:]
            return self.b.slice(
                whole, starts=[first, *[0] * len(rest)], limits=[end, *rest], steps=[1] * len(shape)
            )
        made, type = again[source], _with_steps(value, end - first)
        return made if made.type == type else self.b.reshape(made, type=type)


def _with_steps(value: Value, steps: int) -> TensorType:
    return TensorType((steps, *shape_of(value.type)[1:]), element_type(value.type))
