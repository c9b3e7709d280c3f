# SPDX-License-Identifier: Apache-2.0
"""Rewrites the blocks that may contain fusions: those of functions and of their control flow, but not of fusions themselves."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Block, Module, Op, Value
from ...support.target import Target
from ..analysis.group import reads
from ..graph.dead_code import renamed


def in_functions(module: Module, written: Callable[[Block], Block]) -> Module:
    """The module with the blocks of its functions rewritten by `written`."""
    return module.with_ops([nested(op, written) if op.name == "func.func" else op for op in module.ops])


def nested(op: Op, written: Callable[[Block], Block]) -> Op:
    """An op with the blocks of its regions rewritten by `written`; a fusion is not changed."""
    return op.with_blocks(written) if op.regions and op.name != "ng.fusion" else op


class FusionWriter:
    """Rewrites a block, from its first op to the last; later fusions may be changed meanwhile."""

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
