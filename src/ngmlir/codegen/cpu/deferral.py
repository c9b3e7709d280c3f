# SPDX-License-Identifier: Apache-2.0
"""Which loads are deferred to the dot that uses them.

A matrix kernel reads each element of its left tile as one broadcast, and each row of its right tile just before it is
used. Loading whole tiles first would take more registers than the machine has.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.core import Block, Op, count_uses

_WRITES = frozenset({"tile.store", "tile.scatter", "tile.copy", "tile.copy_async", "tile.launch"})


def deferrable(block: Block) -> Mapping[Op, frozenset[int]]:
    """Loads of this block that only dots of this block use, with no write to memory in between; and as which operands."""
    if not any(op.name == "tile.dot" for op in block.ops):
        return {}
    uses = count_uses(block)
    waiting: dict[Op, list[int]] = {}
    found: dict[Op, frozenset[int]] = {}
    for op in block.ops:
        if op.name == "tile.load":
            waiting[op] = []
        elif op.name == "tile.dot":
            for place, operand in enumerate(op.operands[:2]):
                load = operand.owner
                if isinstance(load, Op) and load in waiting:
                    waiting[load].append(place)
                    if len(waiting[load]) == uses[operand]:
                        found[load] = frozenset(waiting[load])
        elif any(inner.name in _WRITES for inner in op.walk()):
            waiting.clear()
    return found
