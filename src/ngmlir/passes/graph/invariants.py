# SPDX-License-Identifier: Apache-2.0
"""Analysis of invariant ops, and of which are worth computing once, outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import shape_of
from ...ops.builder import Builder
from ..analysis.access import MOVES
from .dead_code import removable
from .inline import copied

#: Ops that kernels compute while they read an operand: they are moved only with an op that uses them.
FREE = MOVES | {"ng.constant", "ng.iota", "ng.extent", "ng.broadcast", "ng.reshape"}

LOOPS = frozenset({"ng.scan", "ng.while"})


class Invariants:
    """Those of a sequence of ops that are movable and depend on none of the values `unknown`."""

    def __init__(self, ops: Sequence[Op], unknown: Collection[Value]):
        #: Their results, in order, with the op.
        self.values: dict[Value, Op] = {}
        self.sizes: dict[Value, int] = {}
        changing = set(unknown)
        for op in ops:
            if not _movable(op) or any(v in changing for v in (*op.results, *reads(op))):
                changing.update(op.results)
            else:
                self.values.update(dict.fromkeys(op.results, op))

    def worthwhile(self, op: Op) -> bool:
        """Whether reading the result of an op is better than computing it again: it is expensive, or reads no fewer elements than
        it writes."""
        if op.name in FREE:
            return False
        if "elementwise" in op.traits and "math" not in op.traits:
            return max((self._read(v) for v in op.operands), default=0) >= _size(op.result)
        return True

    def copies(self, wanted: Iterable[Op], b: Builder) -> dict[Value, Value]:
        """Adds copies of ops, and of the invariant ops that they depend on, to a block. Returns the new values by the old ones."""
        needed, ops = set(wanted), list(dict.fromkeys(self.values.values()))
        for op in reversed(ops):
            if op in needed:
                needed.update(self.values[v] for v in reads(op) if v in self.values)
        mapping: dict[Value, Value] = {}
        for op in ops:
            if op in needed:
                b.add_op(copied(op, mapping))
        return mapping

    def _read(self, value: Value) -> int:
        """The size of the largest value that is read to compute a value again."""
        if value not in self.sizes:
            op = self.values.get(value)
            if op is None or self.worthwhile(op):
                size = _size(value)
            elif op.name == "ng.constant":
                literal = op.attributes["value"]
                size = 0 if isinstance(literal, ElementsAttr) and literal.splat else _size(value)
            else:
                size = max((self._read(v) for v in op.operands), default=0)
            self.sizes[value] = size
        return self.sizes[value]


def kept_operands(function: Op) -> Iterator[frozenset[int]]:
    """For each fusion of a function, in text order, the indices of the operands that are the same each time that it runs: those
    that depend on constants alone, and those that are invariant in the innermost loop around it."""
    depths: dict[Value, int] = {}  # depth of the innermost loop that changes a value; -1: it never changes

    def block(ops: Sequence[Op], depth: int) -> Iterator[frozenset[int]]:
        for op in ops:
            if op.name == "ng.fusion":
                yield frozenset(i for i, v in enumerate(op.operands) if depths.get(v, 0) < depth)
            inner = depth + (op.name in LOOPS)
            for region in () if op.name == "ng.fusion" else op.regions:
                for each in region.blocks:
                    depths.update(dict.fromkeys(each.args, inner))
                    yield from block(each.ops, inner)
            changed = max((depths.get(v, 0) for v in reads(op)), default=-1) if _movable(op) else depth
            depths.update(dict.fromkeys(op.results, changed))

    for each in function.regions[0].blocks:
        depths.update(dict.fromkeys(each.args, 0))
        yield from block(each.ops, 0)


def reads(op: Op) -> Iterator[Value]:
    """The operands of an op, and the outer values that ops in its regions use."""
    yield from op.operands
    if op.regions:
        inside: set[Value] = set()
        for inner in op.walk():
            inside.update(a for region in inner.regions for block in region.blocks for a in block.args)
            if inner is not op:
                yield from (v for v in inner.operands if v not in inside)
                inside.update(inner.results)


def _movable(op: Op) -> bool:
    """Whether an op has no side effects and terminates: it contains no while loop."""
    return removable(op) and not any(inner.name == "ng.while" for inner in op.walk())


def _size(value: Value) -> int:
    size = 1
    for length in shape_of(value.type):
        size *= max(length, 1)
    return size
