# SPDX-License-Identifier: Apache-2.0
"""Numbers of rows that are no rows of their table, and sequences of other lengths than those beside them: looked for before a program
runs, so that nothing has changed.

What is fed, also in another shape or step by step, is looked at on the host. Numbers that the program computes are computed by a program of
its own first, unless that would change a variable; those that a sub-block computes are not looked at: what is read for them is the nearest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.attributes import DictAttr, IntegerAttr
from ..ir.types import i32
from ..support.diagnostics import Diagnostic, Location, UserError
from .descriptions import BlockView, Operator, Program
from .names import LEVEL
from .prune import pruned

#: The slot of the numbers of rows.
_IDS = {"lookup_table": "Ids", "shard_index": "X"}
#: Operators that change at most the shape and the order of X.
_SAME = frozenset(
    {
        "assign",
        "copy",
        "reshape",
        "squeeze",
        "unsqueeze",
        "flatten",
        "lod_tensor_to_array",
        "reorder_lod_tensor_by_rank",
    }
)


@dataclass(frozen=True)
class Lookup:
    """An operator that looks up rows of a table by numbers, and the variable that has these: fed, or computed."""

    ids: str
    table: str
    height: int
    location: Location

    def check(self, ids: Any) -> None:
        """UserError, at the operator's line, where one of the numbers is no row."""
        array = np.asarray(ids)
        # A negative number is a large one without its sign.
        unsigned = array.view(np.uint64) if array.dtype == np.int64 else array
        if not array.size or (unsigned.max() < self.height and array.dtype == np.int64):
            return
        wrong = np.argwhere((array < 0) | (array >= self.height))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            message = f"there is no row {array[at]} in '{self.table}', which has {self.height} rows"
            hint = f"it is the number at {list(at)} of '{self.ids}'; they go from 0 to {self.height - 1}"
            raise UserError(Diagnostic(message, self.location, hint=hint))


@dataclass(frozen=True)
class Agreement:
    """Two fed variables, by the names of their offsets, whose sequences one operator goes over together."""

    offsets: str
    others: str
    location: Location

    def check(self, offsets: Any, others: Any) -> None:
        """UserError, at the line of the first variable, where the sequences have different lengths."""
        if not np.array_equal(offsets, others):
            own, beside = (name.partition(LEVEL)[0] for name in (self.offsets, self.others))
            lengths, wanted = (
                np.array2string(np.diff(each), separator=", ", threshold=10) for each in (offsets, others)
            )
            message = f"the sequences of '{own}' have the lengths {lengths}, and those of '{beside}' {wanted}"
            hint = "an operator goes over both, row by row: they need the same lengths"
            raise UserError(Diagnostic(message, self.location, hint=hint))


def agreements(program: Program, pairs: Sequence[tuple[str, str]]) -> list[Agreement]:
    """The pairs of offsets that must be equal, with the lines of the variables."""
    visible = program.top.visible
    return [Agreement(one, other, visible(one.partition(LEVEL)[0]).location) for one, other in pairs]


def lookups(program: Program) -> tuple[list[Lookup], list[Lookup]]:
    """Those whose numbers are fed, and those of the global block whose numbers are computed; each table and variable once."""
    fed: dict[tuple[str, str], Lookup] = {}
    computed: dict[tuple[str, str], Lookup] = {}
    _found(program.top, {}, fed, computed)
    return [*fed.values()], [*computed.values()]


def _found(
    block: BlockView,
    sources: dict[str, str],
    fed: dict[tuple[str, str], Lookup],
    computed: dict[tuple[str, str], Lookup] | None,
) -> None:
    """Adds the lookups of a block, in which variables hold the numbers of `sources`; of a sub-block those alone that are fed."""
    #: Numbers among the rows of a block, which were looked at before.
    local: set[str] = set()
    for operator in block.operators:
        if operator.type == "feed":
            sources[operator.writes[0]] = operator.writes[0]
            continue
        slot = _IDS.get(operator.type)
        ids = operator.inputs[slot][0] if slot else ""
        if operator.type == "shard_index":
            local.update(operator.writes)
        if slot and ids not in local:
            found = _lookup(operator, sources.get(ids, ids))
            kept = fed if ids in sources else computed
            if kept is not None:
                kept.setdefault((found.ids, found.table), found)
        if operator.type == "recurrent" and operator.sub_block is not None:
            wholes = operator.inputs.get("inputs", ())
            steps = zip(operator.attribute("steps") or wholes, wholes, strict=True)
            inner = {step: sources[whole] for step, whole in steps if whole in sources}
            _found(operator.sub_block, {**sources, **inner}, fed, None)
        source = sources.get(operator.inputs["X"][0]) if operator.type in _SAME else None
        for name in operator.writes:
            sources.pop(name, None)
            if source is not None and name in operator.outputs.get("Out", ()):
                sources[name] = source


def _lookup(operator: Operator, ids: str) -> Lookup:
    if operator.type == "shard_index":
        return Lookup(ids, operator.attribute("table"), operator.attribute("rows"), operator.location)
    (table,) = operator.inputs["W"]
    height = operator.block.visible(table, operator.location).type.shape[0]
    return Lookup(ids, table, height, operator.location)


def program_of_ids(program: Program, names: Sequence[str]) -> Program:
    """The program that gives these variables alone."""
    made = pruned(program, names)
    top = made.top
    top.keep_operators({i for i, o in enumerate(top.operators) if o.type != "fetch"})
    if "fetch" not in top.variables:
        top.declare("fetch", holds="fetch_list", flags=["persistable"])
    for at, name in enumerate(names):
        column = DictAttr((("col", IntegerAttr(at, i32)),))
        top.insert(len(top.operators), "fetch", {"X": [name]}, {"Out": ["fetch"]}, column)
    return made
