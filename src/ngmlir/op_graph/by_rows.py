# SPDX-License-Identifier: Apache-2.0
"""Whether the step of a loop computes each row of a batch by itself, so that rows of several sequences may lie in one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.core import Block, Op, Value
from ..ir.elements import ElementsAttr
from ..ir.types import TensorType, shape_of
from ..ops.fields import get_i64s
from ..ops.rows import MixesRows, reading
from ..support.lengths import is_same
from ..support.rows import Rows
from . import node
from .computation import Computation
from .lift import lift
from .regions import GraphRegion, RegionParameter, within
from .replay import Replay
from .state import AssignableTensorOp, Role
from .tensor import Tensor, as_tensor

_ROWS = Rows(0)


@dataclass(frozen=True)
class ByRows:
    """A region that computes each row by itself. `beside` are the values from around it that have a row for each of its batch; of all of
    these dimension 0 counts the rows. The `form` is what it does with a row: the same for any number of them."""

    beside: Sequence[Tensor]
    form: Sequence[object]


def by_rows(region: GraphRegion, batch: Iterable[RegionParameter]) -> ByRows:
    """How a region goes row by row over the parameters of the `batch`. MixesRows where a result has no such rows, or one that is not
    computed of the same row of each of them alone."""
    captured = region.captures()
    if region.groups or not all(isinstance(op, Tensor) for op in captured):
        raise MixesRows("writes")
    given: list[node.Op] = [*region.parameters, *captured]
    block = _lifted(region, given)
    of = dict(zip(given, block.args, strict=True))
    inside = _Inside(block, {of[p] for p in batch})
    while (found := inside.lacking()) is not None:
        more = [of[c] for c in captured if of[c] in inside.below(found) and inside.may_have_rows(of[c])]
        if not more:
            raise MixesRows("takes another element for each row")
        inside.args.update(more)
    return ByRows([as_tensor(c) for c in captured if of[c] in inside.args], inside.form)


def _lifted(region: GraphRegion, given: Iterable[node.Op]) -> Block:
    """The region as a function of its parameters and of what it uses from around it."""
    with node.Op.saved_user_deps(), node.Op.all_ops(isolate=True), within(None):
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

    def __init__(self, block: Block, args: set[Value]):
        self.block, self.args = block, args
        (first, *_) = args
        self.length = shape_of(first.type)[0]
        self.form: list[object] = []

    def lacking(self) -> Value | None:
        """What meets rows, and has not the same in each; None where there is nothing. MixesRows where an op mixes rows."""
        rows, self.form = dict.fromkeys(self.args, _ROWS), []
        *ops, end = self.block.ops
        for op in ops:
            given = [rows.get(v) for v in op.operands]
            if not any(given):
                continue
            if op.regions:
                raise MixesRows("runs a block")
            how = reading(op, given)
            for value, have, wanted in zip(op.operands, given, how.operands, strict=True):
                if have is None and wanted is not None and not _are_alike(value, wanted):
                    return value
                if have is not None and have != wanted:
                    raise MixesRows("combines rows with rows")
            for value, made in zip(op.results, how.results, strict=True):
                if made is None:
                    raise MixesRows("makes one result of all rows")
                rows[value] = made
                self.form.append((op.name, made, *_without(shape_of(value.type), made.dimension)))
            self.form += [each for each in op.attributes.items() if each[0] not in how.lengths]
        for value in end.operands:
            if value not in rows and not (self.may_have_rows(value) and _are_alike(value, _ROWS)):
                return value
            if rows.get(value, _ROWS) != _ROWS:
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
