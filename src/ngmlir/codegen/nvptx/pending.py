# SPDX-License-Identifier: Apache-2.0
"""How many asynchronous copies may still be in flight where a kernel waits for some of them.

Each cp.async copy is a group, and a wait names the number of most recent groups that may be in flight. For a token that
is the number of groups that are certainly started after its copies; with a larger number the wait could miss them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Block, Op, Value
from ...ir.types import token
from ...ops import ng, tile


def unfinished(body: Block, in_background: Callable[[tile.CopyAsyncOp], bool]) -> dict[Op, int]:
    """For each `tile.wait`, the number of groups that it may leave in flight; 0 if no larger number is known to be
    safe."""
    walk = _Walk(in_background)
    walk.block(body)
    return walk.found


class _Walk:
    """Visits a kernel in order. `clock` counts the groups that are certainly started on every path to here."""

    def __init__(self, in_background: Callable[[tile.CopyAsyncOp], bool]):
        self.in_background = in_background
        self.found: dict[Op, int] = {}
        self.clock = 0
        self.born: dict[Value, int] = {}

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case tile.CopyAsyncOp():
                    self.clock += self.in_background(op)
                    self.born[op.result] = self.clock
                case tile.WaitOp():
                    self.found[op] = min((self._age(value) for value in op.operands), default=0)
                case tile.ForOp():
                    self._loop(op)
                case ng.IfOp():
                    self._branches(op)
                case _:
                    pass

    def _age(self, value: Value) -> int:
        """Groups that are certainly started after the copy of a token."""
        return self.clock - self.born.get(value, self.clock)

    def _loop(self, op: tile.ForOp) -> None:
        body, start = op.body.block, self.clock
        inputs = zip(body.args[1:], op.inits, strict=True)
        ages = {value: self._age(init) for value, init in inputs if value.type is token}
        while True:
            # Tokens of the next iteration may be younger than those that entered the loop; ages only decrease, so this
            # terminates.
            self.clock = start
            self.born.update({value: start - age for value, age in ages.items()})
            self.block(body)
            handed = zip(body.args[1:], body.ops[-1].operands, strict=True)
            after = {value: min(ages[value], self._age(out)) for value, out in handed if value in ages}
            if after == ages:
                break
            ages = after
        self.clock = start  # as if there were no iterations: a lower bound
        for value, result in zip(body.args[1:], op.results, strict=True):
            if value in ages:
                self.born[result] = start - ages[value]

    def _branches(self, op: ng.IfOp) -> None:
        start = self.clock
        ends: list[tuple[int, list[int]]] = []
        for region in op.regions:
            self.clock = start
            self.block(region.block)
            yields = region.block.ops[-1].operands
            ends.append((self.clock, [self._age(v) for v in yields if v.type is token]))
        self.clock = min(clock for clock, _ in ends)
        tokens = [result for result in op.results if result.type is token]
        for result, *ages in zip(tokens, *(ages for _, ages in ends), strict=True):
            self.born[result] = self.clock - min(ages)
