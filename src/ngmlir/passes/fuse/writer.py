# SPDX-License-Identifier: Apache-2.0
"""The base class of passes that rewrite a block of fusions and change later fusions meanwhile."""

from __future__ import annotations

from ...ir.core import Block, Op, Value
from ...support.target import Target
from ..analysis.group import reads
from ..graph.dead_code import renamed


class FusionWriter:
    """Rewrites a block, from its first op to the last."""

    def __init__(self, block: Block, target: Target):
        self.block, self.target = block, target
        self.readers: dict[Value, list[Op]] = {}
        for op in block.ops:
            for value in dict.fromkeys(reads(op)):
                self.readers.setdefault(value, []).append(op)
        self.current = {op: op for op in block.ops}  # the changed form of an op that is still to be written
        self.mapping: dict[Value, Value] = {}

    def renamed(self, op: Op) -> Op:
        """An op with its operands replaced by their new values."""
        return renamed(op, self.mapping)
