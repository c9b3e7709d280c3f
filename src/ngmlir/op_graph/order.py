# SPDX-License-Identifier: Apache-2.0
"""In which order ops run: that of creation, as far as what they need and the lists of sequences allow it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from .errors import CycleError, fail
from .node import Op, needs
from .ordered import OrderedSet
from .state import SequentialOp


def schedule(ops: Iterable[Op]) -> list[Op]:
    """Ops, each after those of them that it needs; where that leaves a choice, in order of creation."""
    members = OrderedSet(ops)
    before = {op: {needed for needed in needs(op) if needed in members} for op in members}
    sequences = [op for op in members if isinstance(op, SequentialOp)]
    listed = {each.forwarded for sequence in sequences for pair in sequence.order for each in pair}
    for sequence in sequences:
        for earlier, later in sequence.order:
            a, b = earlier.forwarded, later.forwarded
            if a in before and b in before and a is not b:
                before[b].add(a)
                # What an op uses is read when it runs, where that read was made after the list, which does not know of it.
                for read in (each.forwarded for each in b.reads.values()):
                    if read in before and read.serial > sequence.serial and read not in listed:
                        before[read].add(a)
    after: dict[Op, list[Op]] = {op: [] for op in members}
    missing = {}
    for op, needed in before.items():
        missing[op] = len(needed)
        for other in needed:
            after[other].append(op)
    ready = [(op.place, op.serial, op) for op in members if not missing[op]]
    heapq.heapify(ready)
    out: list[Op] = []
    while ready:
        *_, op = heapq.heappop(ready)
        out.append(op)
        for other in after[op]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, (other.place, other.serial, other))
    if len(out) != len(members):
        stuck = min((op for op in members if missing[op]), key=lambda op: op.serial)
        fail(
            CycleError,
            f"{stuck.called} would have to run before itself",
            "check the order of sequential and add_control_dep",
            stuck.location,
        )
    return out
