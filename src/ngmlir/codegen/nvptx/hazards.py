# SPDX-License-Identifier: Apache-2.0
"""Which buffers of a kernel one thread may read where another one writes."""

from __future__ import annotations

from collections.abc import Set

from ...ir.core import Value
from ...ops import tile


def hazards(kernel: tile.KernelOp, overlapping: Set[Value]) -> set[Value]:
    """The buffers outside the kernel that it both reads and writes, or that share bytes of which this is true
    (`overlapping`): accesses to them are ordered by barriers. Where a kernel writes one place twice, and in
    shared memory, it says itself where its threads wait."""
    read: set[Value] = set()
    written: set[Value] = set()
    for op in kernel.walk():
        match op:
            case tile.LoadOp() | tile.GatherOp():
                read.add(root(op.operands[0]))
            case tile.StoreOp():
                written.add(root(op.operands[1]))
            case tile.ScatterOp():
                written.add(root(op.operands[2]))
            case tile.CopyOp() | tile.CopyAsyncOp():
                read.add(root(op.operands[0]))
                written.add(root(op.operands[1]))
            case _:
                pass
    found = read & written & set(kernel.regions[0].block.args)
    return found | overlapping if overlapping & read and overlapping & written else found


def root(buffer: Value) -> Value:
    """The buffer that a window is cut from."""
    while isinstance(buffer.owner, tile.SubviewOp):
        buffer = buffer.owner.operands[0]
    return buffer
