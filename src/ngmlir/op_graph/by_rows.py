# SPDX-License-Identifier: Apache-2.0
"""Whether the step of a loop computes each row of a batch independently, so that a step may hold rows of several sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count

from ..ir.core import Block, Op, Value
from ..ir.elements import ElementsAttr
from ..ir.types import TensorType, shape_of
from ..ops.fields import get_i64s
from ..ops.lengths import reading as reading_lengths
from ..ops.rows import MixesRows, Reading, Rows, reading
from ..support.lengths import is_same
from . import node
from .computation import Computation
from .lift import lift
from .regions import GraphRegion, within
from .replay import Replay
from .state import AssignableTensorOp, Role
from .tensor import Tensor, as_tensor

#: The first of lengths that are made up, and, by itself, the number of rows.
_MADE_UP, _ROWS = 13, 11


@dataclass(frozen=True)
class ByRows:
    """A region that computes each row independently. `beside` are values from outside that have a row for each of its rows, along
    dimension 0. The `form` is what it does with a row: the same for any number of them."""

    beside: Sequence[Tensor]
    form: Sequence[object]


def by_rows(region: GraphRegion, place: Callable[[Tensor], int | None], count: int = _ROWS) -> ByRows:
    """How a region goes row by row. Of a parameter or result, `place` says which dimension counts the rows (None: it has none). MixesRows
    where a result has none, or where one of its rows is not computed of the same row of each parameter alone. Where the number of rows is
    not known, it is taken for `count`."""
    captured, ends = region.captures(), [place(r) for r in region.results]
    if region.groups or not all(isinstance(op, Tensor) for op in captured) or None in ends:
        raise MixesRows("is not computed row by row")
    given: list[node.Op] = [*region.parameters, *captured]
    rows = [p.axes[d] for p in region.parameters if (d := place(p)) is not None]
    block = _lifted(region, given, {id(axis): count for axis in rows if axis.length is None})
    of = dict(zip(given, block.args, strict=True))
    places = [(of[p], place(p)) for p in region.parameters]
    inside = _Inside(block, {v: Rows(d) for v, d in places if d is not None}, [Rows(d or 0) for d in ends])
    while (found := inside.lacking()) is not None:
        more = [of[c] for c in captured if of[c] in inside.below(found) and inside.may_have_rows(of[c])]
        if not more:
            raise MixesRows("takes another element for each row")
        inside.args.update(dict.fromkeys(more, Rows(0)))
    return ByRows([as_tensor(c) for c in captured if of[c] in inside.args], inside.form)


def _lifted(region: GraphRegion, given: Iterable[node.Op], rows: Mapping[int, int]) -> Block:
    """The region as a function of its parameters and of what it uses from around it. `rows` has the length of axes of rows by their `id`;
    others that are not known are made up, each another one."""
    axes = dict.fromkeys(a for op in (*given, *region.inside()) if isinstance(op, Tensor) for a in op.axes)
    roots = dict.fromkeys(root for a in axes for root in a.roots)
    unknown = [a for a in roots if a.length is None and id(a) not in rows]
    lengths = {**rows, **{id(a): n for a, n in zip(unknown, count(_MADE_UP), strict=False)}}
    with (
        reading_lengths(lengths) if lengths else nullcontext(),
        node.Op.saved_user_deps(),
        node.Op.all_ops(isolate=True),
        within(None),
    ):
        storages: dict[node.Op, AssignableTensorOp] = {
            op: AssignableTensorOp(as_tensor(op).axes, as_tensor(op).element, Role.PLACEHOLDER)
            for op in given
        }
        replay = Replay(storages)
        replay.run(region.inside())
        made = Computation(replay.results(region.results), [*storages.values()], tuple)
        return lift(made).module.ops[0].block


class _Inside:
    """What has rows in a block of which these arguments have."""

    def __init__(self, block: Block, args: dict[Value, Rows], ends: Sequence[Rows]):
        self.block, self.args, self.ends = block, args, ends
        value, rows = next(iter(args.items()))
        self.length = shape_of(value.type)[rows.dimension]
        self.form: list[object] = []

    def lacking(self) -> Value | None:
        """What meets rows, and has not the same in each; None where there is nothing. MixesRows where an op mixes rows."""
        rows, self.form = dict(self.args), []
        *ops, end = self.block.ops
        for op in ops:
            given = [rows.get(v) for v in op.operands]
            if not any(given):
                continue
            try:
                how = _read(op, given)
            except MixesRows as mixed:
                mixed.location = op.location
                raise
            for value, have, wanted in zip(op.operands, given, how.operands, strict=True):
                if have is None and wanted is not None and not _are_alike(value, wanted):
                    return value
            for value, made in zip(op.results, how.results, strict=True):
                if made is not None:
                    rows[value] = made
                    self.form.append((op.name, made, *_without(shape_of(value.type), made.dimension)))
            self.form += [each for each in op.attributes.items() if each[0] not in how.lengths]
        for value, wanted in zip(end.operands, self.ends, strict=True):
            if value not in rows and not (self.may_have_rows(value) and _are_alike(value, wanted)):
                return value
            if rows.get(value, wanted) != wanted:
                raise MixesRows("gives rows in another place")
        return None

    def may_have_rows(self, value: Value) -> bool:
        """Whether it is a tensor with as many rows."""
        shape = shape_of(value.type) if isinstance(value.type, TensorType) else ()
        return bool(shape) and is_same(shape[0], self.length) and value not in self.args

    def below(self, value: Value) -> set[Value]:
        """What a value is computed of, itself included."""
        found: set[Value] = set()
        stack = [value]
        while stack:
            each = stack.pop()
            if each not in found:
                found.add(each)
                stack += each.owner.operands if isinstance(each.owner, Op) else ()
        return found


def _read(op: Op, given: Sequence[Rows | None]) -> Reading:
    """How an op of which operands have these rows computes them."""
    if op.regions:
        raise MixesRows("runs a block")
    how = reading(op, given)
    if any(have is not None and have != wanted for have, wanted in zip(given, how.operands, strict=True)):
        raise MixesRows("combines rows with rows")
    if None in how.results:
        raise MixesRows("makes one result of all rows")
    return how


def _without(shape: Sequence[int], dimension: int) -> Iterable[int]:
    return (n for d, n in enumerate(shape) if d != dimension)


def _are_alike(value: Value, rows: Rows) -> bool:
    """Whether a value that follows from no rows is the same for each of them."""
    op = value.owner
    if not isinstance(op, Op):
        return False
    if op.name == "ng.constant":
        literal = op.attributes["value"]
        return isinstance(literal, ElementsAttr) and literal.splat
    if op.name == "ng.broadcast":
        places = get_i64s(op, "dimensions")
        return rows.dimension not in places or _are_alike(
            op.operands[0], rows.at(places.index(rows.dimension))
        )
    return "elementwise" in op.traits and all(_are_alike(v, rows) for v in op.operands)
