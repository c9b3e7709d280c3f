# SPDX-License-Identifier: Apache-2.0
"""Which variables of a program are live where: have a value that an operator after still reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .descriptions import BlockView, Operator
from .prune import reads_of


@dataclass(frozen=True)
class Live:
    """What is live before an operator and after it. What it ends is read here for the last time, or is written and never read."""

    operator: Operator
    before: frozenset[str]
    after: frozenset[str]

    @property
    def ended(self) -> frozenset[str]:
        return (self.before | frozenset(self.operator.writes)) - self.after


def liveness(block: BlockView) -> Sequence[Live]:
    """The live variables of each operator of a block, in order; persistable variables, which always are, do not count.

    A variable is live before an operator that reads it, also if the operator writes it too; what an operator writes that has no
    sub-block (which may not run) is not live before it unless it is read.
    """
    found: list[Live] = []
    after: frozenset[str] = frozenset()
    for operator in reversed(block.operators):
        reads = {name for name in reads_of(operator) if not _is_kept(block, name)}
        before = after if operator.sub_block is not None else after - set(operator.writes)
        found.append(Live(operator, before | reads, after))
        after = before | reads
    return found[::-1]


def _is_kept(block: BlockView, name: str) -> bool:
    variable = block.find(name)
    return variable is not None and variable.persistable
