# SPDX-License-Identifier: Apache-2.0
"""A group of ops that will be one kernel, and what may stand in one."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.attributes import StringAttr
from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import TensorType
from .access import MOVES
from .space import Atoms

#: Longer kernels gain nothing and compile slowly.
MAX_OPS = 256
#: Ops that cost no memory traffic of their own: repeated inside each kernel that reads them.
FREE = frozenset({"ng.reshape", "ng.broadcast", "ng.constant", "ng.iota", "ng.extent"})
#: Kinds of fusions that are one loop nest.
LOOP_NESTS = frozenset({"map", "rows", "columns", "dot"})


class Group:
    """Ops that will be one kernel."""

    __slots__ = (
        "after", "atoms", "before", "behind", "dependent", "domain", "kind", "mark", "number", "ops", "rank",
        "reduced", "successor", "views",
    )  # fmt: skip

    def __init__(self, number: int, kind: str):
        self.number = number
        self.kind = kind
        self.mark = 1 << number  # bit set: this group, and those that it has taken over
        self.successor: Group | None = None  # the group that has taken this one over
        self.domain: Atoms | None = None  # the loops of the whole group; its first op decides them
        self.reduced: frozenset[int] = frozenset()  # resolved atoms, of rows and columns
        self.ops: dict[Op, None] = {}
        self.behind: set[Op] = set()  # those of `ops` that only moves read: they are on no loop
        self.views: dict[Op, None] = {}  # reshapes of what is in memory whose results the kernel is given
        self.atoms: dict[Value, Atoms] = {}
        self.rank = 0  # of a dot: how many loops its result has
        self.before = 0  # bit set: the groups that must have run
        self.after: dict[Group, None] = {}  # those that read from this one (perhaps taken over since)
        self.dependent: set[Value] = set()  # values computed from a reduction of this group

    def follow(self, feeders: Iterable[Group]) -> None:
        """It now comes after `feeders` and all that comes before them; so does everything after it."""
        bits = 0
        for feeder in feeders:
            if feeder is not self:
                feeder.after[self] = None
                bits |= feeder.before | feeder.mark
        precede(bits, [self])


def precede(bits: int, groups: Iterable[Group]) -> None:
    """Puts the groups of a bit set before others and before all that comes after these."""
    stack = list(groups)
    while stack:
        group = living(stack.pop())
        new = bits & ~(group.before | group.mark)
        if new:
            group.before |= new
            stack += group.after


def living(group: Group) -> Group:
    """The group that has taken over a group; itself if none has."""
    while group.successor is not None:
        group = group.successor
    return group


def fusible(op: Op) -> bool:
    """Ops that a kernel of the four kinds can hold: static tensors, at least one element."""
    if op.name == "ng.dot":
        return all(has_elements(v) for v in (*op.operands, *op.results))
    traits = op.traits
    if not ("elementwise" in traits or "reduction" in traits):
        return False
    return len(op.results) == 1 and all(has_elements(v) for v in (*op.operands, *op.results))


def has_elements(value: Value) -> bool:
    """Whether a value is a tensor of a known size, and not an empty one."""
    type = value.type
    return isinstance(type, TensorType) and type.static and type.size > 0


def is_move(op: Op) -> bool:
    """Whether an op only moves elements, of which there are some."""
    return op.name in MOVES and all(map(has_elements, (*op.operands, *op.results)))


def splat(op: Op) -> bool:
    """Whether a constant is one number, however often."""
    value = op.attributes["value"]
    return not isinstance(value, ElementsAttr) or value.type.size == 1 or value.splat


def reads(op: Op) -> list[Value]:
    """All values that an op reads, also inside its regions."""
    if not op.regions:
        return list(op.operands)
    return [*op.operands, *(v for inner in op.walk() for v in inner.operands)]


def kind(fusion: Op) -> str:
    """`map`, `rows`, `columns` or `dot`."""
    attribute = fusion.attributes["kind"]
    assert isinstance(attribute, StringAttr)
    return attribute.value
