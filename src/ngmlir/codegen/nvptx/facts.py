# SPDX-License-Identifier: Apache-2.0
"""What is known at compile time of the indices of one kernel, op by op."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.attributes import IntegerAttr
from ...ir.core import Op, Value
from ...ir.types import IndexType
from ...ops import ng, tile
from ..ranges import RULES, UNKNOWN, Range, exactly, of_loop


class Facts:
    """Ranges of values of type `index`; they decide which accesses need no mask, and which may be wide."""

    def __init__(self, arguments: Mapping[Value, Range], alignments: Mapping[Value, int]):
        self._known = dict(arguments)
        self.alignments = alignments  # of the kernel's buffers, in bytes

    def of(self, value: int | Value) -> Range:
        if isinstance(value, int):
            return exactly(value)
        return self._known.get(value, UNKNOWN)

    def learn(self, op: Op) -> None:
        """Records the range of the result of an op whose operands are known; of a loop, that of its index, before its
        body."""
        if isinstance(op, tile.ForOp):
            self._known[op.regions[0].block.args[0]] = of_loop(
                self.of(op.lower), self.of(op.upper), self.of(op.step)
            )
        elif len(op.results) == 1 and isinstance(op.results[0].type, IndexType):
            if isinstance(op, ng.ConstantOp):
                value = op.attributes["value"]
                assert isinstance(value, IntegerAttr)
                self._known[op.result] = exactly(value.value)
            elif op.name in RULES:
                self._known[op.result] = RULES[op.name](*(self.of(operand) for operand in op.operands))
