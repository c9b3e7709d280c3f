# SPDX-License-Identifier: Apache-2.0
"""Numbers of rows that are no rows of their table, numbers of classes that are none, and sequences of other lengths than those beside
them: looked for before a program runs, so that nothing has changed.

What is fed, also in another shape or step by step, is looked at on the host. Numbers of rows of a table of embeddings that the program computes
are computed by a program of its own first, unless that would change a variable; those that a sub-block computes, and other numbers that are
not fed, are not looked at: what is read for them is the nearest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir.attributes import DictAttr, IntegerAttr
from ..ir.types import i32
from ..support.diagnostics import Diagnostic, Location, UserError
from .descriptions import BlockView, Operator, Program
from .names import LEVEL
from .prune import pruned

#: The slot of the numbers of rows of a table.
_IDS = {"lookup_table": "Ids", "shard_index": "X"}
#: Of operators that choose by other numbers the slot of these, what they are numbers of, and the slot and the dimension of what is so long.
_CHOICES = {
    "cross_entropy": ("Label", "class", "X", -1),
    "gather": ("Index", "row", "X", 0),
    "linear_chain_crf": ("Label", "class", "Emission", -1),
    "scatter": ("Ids", "row", "X", 0),
    "softmax_with_cross_entropy": ("Label", "class", "Logits", -1),
    "warpctc": ("Label", "class", "Logits", -1),
}
#: Of others the attribute that says how many there are.
_COUNTED = {
    "hierarchical_sigmoid": ("Label", "class", "num_classes"),
    "nce": ("Label", "class", "num_total_classes"),
    "one_hot": ("X", "class", "depth"),
}
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
    """An operator that looks up rows of a table by numbers, or chooses others of `things` by them, and the variable that has these: fed,
    or computed."""

    ids: str
    table: str
    height: int
    location: Location
    things: str = "row"

    def check(self, ids: Any, table: Any = None) -> None:
        """UserError, at the operator's line, where one of the numbers is no row of the table, which is given where it is fed."""
        if table is not None:
            return replace(self, height=len(table)).check(ids)
        array = np.asarray(ids)
        # A negative number is a large one without its sign.
        signed = array.dtype.kind == "i"
        unsigned = array.view(f"u{array.itemsize}") if signed else array
        if not array.size or (unsigned.max() < self.height and signed):
            return
        wrong = np.argwhere((array < 0) | (array >= self.height))
        if len(wrong):
            at, one = tuple(wrong[0].tolist()), self.things
            many = {"class": "classes"}.get(one, f"{one}s")
            message = f"there is no {one} {array[at]} in '{self.table}', which has {self.height} {many}"
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
    fed: dict[tuple[str, ...], Lookup] = {}
    computed: dict[tuple[str, ...], Lookup] = {}
    _found(program.top, {}, fed, computed)
    return [*fed.values()], [*computed.values()]


def _found(
    block: BlockView,
    sources: dict[str, str],
    fed: dict[tuple[str, ...], Lookup],
    computed: dict[tuple[str, ...], Lookup] | None,
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
        if (choice := _choice(operator)) is not None and choice.ids in sources:
            choice = replace(choice, ids=sources[choice.ids])
            fed.setdefault((choice.ids, choice.table, choice.things), choice)
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


def _choice(operator: Operator) -> Lookup | None:
    """What an operator that looks up no table chooses by numbers; None where it does not."""
    if operator.attribute("soft_label"):
        return None
    if operator.type in _COUNTED:
        slot, things, attribute = _COUNTED[operator.type]
        of, count = operator.writes[0], operator.attribute(attribute)
    elif operator.type == "multiplex":
        slot, things, of, count = "Ids", "input", operator.writes[0], len(operator.inputs["X"])
    elif operator.type in _CHOICES:
        slot, things, source, dimension = _CHOICES[operator.type]
        (of,) = operator.inputs[source]
        shape = operator.block.visible(of, operator.location).type.shape
        count = shape[dimension]
    else:
        return None
    ids = operator.inputs[slot][0]
    return Lookup(ids, of, count, operator.location, things)


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
