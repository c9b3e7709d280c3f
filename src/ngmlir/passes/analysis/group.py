# SPDX-License-Identifier: Apache-2.0
"""A group of ops that will be one kernel, and which ops it may contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.attributes import StringAttr
from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import ShapedType, TensorType, Type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64
from ...support.lengths import is_same
from .access import MOVES
from .space import Atoms

#: Most ops of a kernel: longer ones gain nothing and compile slowly.
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
        self.mark = 1 << number  # bit set: this group, and those that were merged into it
        self.successor: Group | None = None  # the group that this one was merged into
        self.domain: Atoms | None = None  # the loops of the whole group; its first op decides them
        self.reduced: frozenset[int] = frozenset()  # the resolved atoms that rows and columns reduce
        self.ops: dict[Op, None] = {}
        self.behind: set[Op] = set()  # those of `ops` that only moves read: they have no loops
        self.views: dict[Op, None] = {}  # reshapes of values in memory that are operands of the kernel
        self.atoms: dict[Value, Atoms] = {}
        self.rank = 0  # for kind dot: the number of loops of the result
        self.before = 0  # bit set: the groups that must run before
        self.after: dict[Group, None] = {}  # the groups that read from this one (perhaps merged since)
        self.dependent: set[Value] = set()  # values computed from a reduction of this group

    def follow(self, feeders: Iterable[Group]) -> None:
        """Orders this group, and all groups after it, after `feeders` and all groups before them."""
        bits = 0
        for feeder in feeders:
            if feeder is not self:
                feeder.after[self] = None
                bits |= feeder.before | feeder.mark
        precede(bits, [self])


def precede(bits: int, groups: Iterable[Group]) -> None:
    """Orders the groups of a bit set before others and before all groups after these."""
    stack = list(groups)
    while stack:
        group = living(stack.pop())
        new = bits & ~(group.before | group.mark)
        if new:
            group.before |= new
            stack += group.after


def living(group: Group) -> Group:
    """The group that a group was merged into in the end; itself if it was not."""
    while group.successor is not None:
        group = group.successor
    return group


def fusible(op: Op) -> bool:
    """Whether an op can be in a group: a product, gather, elementwise op or reduction on nonempty static tensors."""
    if op.name == "ng.dot" or "gathers" in op.traits:
        return all(has_elements(v) for v in (*op.operands, *op.results))
    traits = op.traits
    if not ("elementwise" in traits or "reduction" in traits):
        return False
    return len(op.results) == 1 and all(has_elements(v) for v in (*op.operands, *op.results))


def indexed(op: Op) -> Sequence[Value]:
    """The operands of an op in a group that are read from memory, at other positions than those of the loops: both of a product, and
    what a gather reads by index."""
    return op.operands if op.name == "ng.dot" else op.operands[:1] if "gathers" in op.traits else ()


def takes_rows(op: Op) -> bool:
    """Whether a gather reads several contiguous elements at each index."""
    inner = shape_of(op.operands[0].type)[get_i64(op, "axis") + 1 :]
    return op.name == "ng.gather" and not all(is_same(size, 1) for size in inner)


def has_elements(value: Value) -> bool:
    """Whether a value is a nonempty static tensor."""
    type = value.type
    return isinstance(type, TensorType) and type.static and type.size > 0


def is_move(op: Op, moves: frozenset[str] = MOVES) -> bool:
    """Whether an op only moves elements of nonempty static tensors."""
    return op.name in moves and all(map(has_elements, (*op.operands, *op.results)))


def splat(op: Op) -> bool:
    """Whether all elements of a constant are one number."""
    value = op.attributes["value"]
    return not isinstance(value, ElementsAttr) or value.type.size == 1 or value.splat


def with_type(constant: Op, type: Type, b: Builder) -> Value:
    """A splat constant in another shape."""
    literal = constant.attributes["value"]
    assert isinstance(literal, ElementsAttr) and isinstance(type, ShapedType)  # functions hold tensors
    return b.constant(type=type, value=literal.of_type(type))


def reads(op: Op) -> list[Value]:
    """All values that an op reads, also inside its regions."""
    if not op.regions:
        return list(op.operands)
    return [*op.operands, *(v for inner in op.walk() for v in inner.operands)]


def kind(fusion: Op) -> str:
    """The kind of a fusion: `map`, `rows`, `columns`, `dot`, `attention`, `chain` or `decoded`."""
    attribute = fusion.attributes["kind"]
    assert isinstance(attribute, StringAttr)
    return attribute.value
