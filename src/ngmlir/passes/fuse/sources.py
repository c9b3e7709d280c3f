# SPDX-License-Identifier: Apache-2.0
"""The producers of values in a block while its ops are grouped: groups, or free ops that readers repeat."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.core import Block, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...support.target import Target
from ..analysis.access import Access, access_of, is_long, is_part
from ..analysis.group import FREE, Group, indexed, is_move, splat


class Sources:
    """`group_by_op` has the group of each op that has one. A free op (broadcast, reshape, iota, splat constant, or a move that kernels can
    read through) has none, and is repeated by its readers, until one needs its result in memory. A move is an op that only
    moves data: slice, pad, transpose, windows."""

    def __init__(self, block: Block, target: Target):
        self.target = target
        self.group_by_op: dict[Op, Group] = {}
        self.order = {op: i for i, op in enumerate(block.ops)}
        self.moves: dict[Op, Access] = {}  # free moves with their access, dimensions not merged
        self.parts: set[Op] = set()  # those of them that only maps can read
        self.across: set[Op] = set()  # moves of elements far apart in memory, which only products can read

    def free(self, op: Op) -> bool:
        return op in self.moves or (op.name in FREE and (op.name != "ng.constant" or splat(op)))

    def look(self, op: Op) -> None:
        """Records a move as free, if kernels can read its operand in memory through it, nearly contiguously."""
        if not is_move(op) or self.lies_in_memory(op):
            return
        found = access_of(op, self.through)
        if found is None or (self.free_op(found[0]) and found[0].owner not in self.across):
            return
        source, access = found
        item = item_bytes(element_type(source.type))
        if not access.in_order:
            self.across.add(op)
        elif access.in_parts(item, self.target):
            if not is_long(max(access.sizes[-1:], default=1), item, self.target):
                return
            self.parts.add(op)
        self.moves[op] = (access_of(op, self.through, whole=True) or found)[1]

    def lies_in_memory(self, op: Op) -> bool:
        """Whether a slice is a view of an operand that is in memory: then it needs no move."""
        if op.name != "ng.slice" or not is_part(op, self.target):
            return False
        free = self.free_op(op.operands[0])
        while free is not None and free.name == "ng.reshape":
            free = self.free_op(free.operands[0])
        return free is None

    def through(self, value: Value) -> Op | None:
        """The free op that makes a value, if that is a move or a reshape."""
        free = self.free_op(value)
        return free if free is not None and (free in self.moves or free.name == "ng.reshape") else None

    def through_side(self, value: Value) -> Op | None:
        """The same for a side of a product, which may be the same matrix for several elements of a batch."""
        free = self.free_op(value)
        return free if free is not None and free.name == "ng.broadcast" else self.through(value)

    def windows_of_bytes(self, dot: Op) -> list[Value]:
        """What the sides of a product on a CPU have windows of, where these are packed byte by byte."""
        found: list[Value] = []
        for side in dot.operands if not self.target.has_thread_blocks else ():
            op = self.through_side(side) if item_bytes(element_type(side.type)) == 1 else None
            while op is not None and op.name != "ng.windows":
                op = self.through(op.operands[0])
            found += op.operands if op is not None else ()
        return found

    def sources(self, values: Iterable[Value]) -> list[Value]:
        """The values that must exist in memory, or in the same group, before these can be computed."""
        out: dict[Value, None] = {}
        stack = list(values)
        while stack:
            value = stack.pop()
            free = self.free_op(value)
            if free is not None:
                stack += free.operands
            else:
                out[value] = None
        return list(out)

    def moved(self, op: Op) -> set[Value]:
        """The sources of an op's operands that it reads through moves or by index, which are read from memory."""
        out = {*self.sources(indexed(op))}
        stack = list(op.operands)
        while stack:
            free = self.free_op(stack.pop())
            if free in self.moves:
                out.update(self.sources(free.operands))
            elif free is not None:
                stack += free.operands
        return out

    def free_op(self, value: Value) -> Op | None:
        """The free op that makes a value, if it has no group of its own."""
        owner = value.owner
        if (
            isinstance(owner, Op)
            and owner in self.order
            and owner not in self.group_by_op
            and self.free(owner)
        ):
            return owner
        return None

    def group_of(self, value: Value) -> Group | None:
        """The group that computes a value; None for a value from outside the block."""
        return self.group_by_op.get(value.owner) if isinstance(value.owner, Op) else None
