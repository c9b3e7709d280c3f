# SPDX-License-Identifier: Apache-2.0
"""Numbers that a program computes and chooses by: operators that find those outside, such as a row that a table does not have.

In loops and branches what is found is carried in a variable of the block around them. A recurrent network gives the numbers of its steps
as one more result, so that rows of sequences that have ended do not count. What loops and branches inside of its steps compute is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from ..ir.attributes import DictAttr, IntegerAttr
from ..ir.types import DYNAMIC, TensorType, i32, i64
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .inserting import insert_like
from .lookups import Lookup, fed_lookup, follow, lookup_of, sources_of_step
from .names import LEVEL
from .prune import pruned
from .vartypes import number_of

Array = np.ndarray[Any, Any]


class Computed(NamedTuple):
    """A program that finds numbers outside: for each of `lookups` in the variable of that place in `names`."""

    program: Program
    lookups: Sequence[Lookup]
    names: Sequence[str]

    def check(self, found: Sequence[Array]) -> None:
        """UserError, at the operator's line, where the program found a number."""
        for lookup, (is_there, number, things, *at) in zip(
            self.lookups, (each.tolist() for each in found), strict=True
        ):
            if is_there:
                lookup.refuse(number, things, at)

    def fetching(self) -> Program:
        """The program, which gives what it finds as its last results."""
        return _with_fetches(self.program.copy(), self.names)

    def alone(self) -> Program:
        """The program that gives what is found, and nothing else."""
        # What is fed is ragged by the offsets that are fed with it, which no operator names.
        offsets = [
            o.writes[0] for o in self.program.top.operators if o.type == "feed" and LEVEL in o.writes[0]
        ]
        made = pruned(self.program, [*self.names, *offsets])
        top = made.top
        top.keep_operators({i for i, o in enumerate(top.operators) if o.type != "fetch"})
        return _with_fetches(made, self.names)


def changes_nothing(program: Program) -> bool:
    """Whether a run changes no variables and draws no random numbers."""
    for operator in program.walk():
        if operator.type in ("feed", "fetch"):
            continue
        if any(v is not None and v.persistable for v in map(operator.block.find, operator.writes)):
            return False
        definition = REGISTRY.find(operator.type)
        if definition is None or (definition.draws and not operator.attribute("is_test")):
            return False
    return True


def numbers_computed(program: Program) -> Computed:
    """The program with operators that find the numbers outside that it computes; itself where it computes none, or has them already."""
    if any(operator.type == "find_outside" for operator in program.walk()):
        return Computed(program, (), ())
    finding = _Finding(program.copy())
    finding.look_in(finding.program.top, {})
    return Computed(finding.program if finding.names else program, finding.lookups, finding.names)


class _Finding:
    """A program, in place, and what was found to look at."""

    def __init__(self, program: Program):
        self.program = program
        self.lookups: list[Lookup] = []
        self.names: list[str] = []

    def look_in(
        self,
        block: BlockView,
        sources: dict[str, str],
        loops: Sequence[Operator] = (),
        steps: Sequence[Operator] = (),
    ) -> None:
        """Looks at the operators of a block, inside of these loops and branches, and in these of these recurrent networks."""
        checked: set[str] = set()
        for operator in [*block.operators]:
            lookup = lookup_of(operator)
            if lookup is not None and lookup.ids not in checked and fed_lookup(operator, sources) is None:
                self.look_at(operator, lookup, loops, steps)
            follow(operator, sources)
            checked.difference_update(operator.writes)
            if (definition := REGISTRY.find(operator.type)) is not None:
                checked.update(operator.outputs.get(definition.entry.checked, ()))
            if operator.sub_block is None:
                continue
            if operator.type == "recurrent":
                inner = {} if loops else sources_of_step(operator, sources)
                self.look_in(operator.sub_block, inner, loops, (*steps, operator))
            elif not steps:
                # A branch, or an iteration, that does not run chooses nothing by what is fed either.
                self.look_in(operator.sub_block, {}, (*loops, operator))

    def look_at(
        self, operator: Operator, lookup: Lookup, loops: Sequence[Operator], steps: Sequence[Operator]
    ) -> None:
        """Has the numbers of an operator looked at."""
        ids, place, behind = lookup.ids, operator, 0
        for recurrent in reversed(steps):
            block = recurrent.sub_block
            assert block is not None
            if ids in block.variables:
                ids = _as_result(ids, place, behind, recurrent)
                behind = 1
            else:
                behind = 0
            place = recurrent
        inputs, fields = {"X": [ids]}, {"along": lookup.dimension}
        if lookup.of in operator.reads and place.block.find(lookup.of) is not None:
            inputs["Of"] = [lookup.of]
        elif lookup.count != DYNAMIC:
            fields["count"] = lookup.count
        else:
            return  # how many there are is known in a step alone
        home = (*loops, place)[0].block
        length = 3 + len(place.block.visible(ids).type.shape)
        name = _declare(home, f"{lookup.ids}.outside", TensorType((length,), i64), 0, operator)
        if loops:
            fill = {"shape": [length], "dtype": number_of(i64), "value": 0.0}
            insert_like(loops[0], home, loops[0].index, "fill_constant", {}, {"Out": [name]}, fill)
            inputs["Before"] = [name]
        for loop in loops:
            loop.set_slot("outputs", "Out", [*loop.outputs.get("Out", ()), name])
        insert_like(place, place.block, place.index + behind, "find_outside", inputs, {"Out": [name]}, fields)
        self.lookups.append(lookup)
        self.names.append(name)


def _as_result(name: str, place: Operator, behind: int, recurrent: Operator) -> str:
    """The name under which the numbers of all steps of a recurrent network are one of its results."""
    block, source = place.block, place.block.visible(name)
    shape = source.type.shape
    levels = source.ragged + 1 if recurrent.inputs.get("RankTable") else 0
    whole = TensorType((DYNAMIC, *(shape[1:] if levels else shape)), source.element)
    made = _declare(recurrent.block, f"{name}.steps", whole, levels, place)
    assert recurrent.sub_block is not None
    # In the block of the step this is the name of what the step gives.
    recurrent.sub_block.declare(made, source.type, ragged=source.ragged, location=place.location)
    insert_like(place, block, place.index + behind, "assign", {"X": [name]}, {"Out": [made]}, {})
    recurrent.set_slot("outputs", "outputs", [*recurrent.outputs.get("outputs", ()), made])
    return made


def _declare(block: BlockView, first: str, type: TensorType, ragged: int, operator: Operator) -> str:
    """Declares a variable for an operator: under the name `first`, with a number behind it where that is taken."""
    numbered = (f"{first}.{number}" for number in count(1))
    name = next(
        n for n in chain([first], numbered) if all(n not in b.variables for b in block.program.blocks)
    )
    block.declare(name, type, ragged=ragged, location=operator.location)
    return name


def _with_fetches(program: Program, names: Sequence[str]) -> Program:
    """The program, in place, which gives these variables too."""
    top = program.top
    if "fetch" not in top.variables:
        top.declare("fetch", holds="fetch_list", flags=["persistable"])
    columns = [o.attribute("col") for o in top.operators if o.type == "fetch"]
    for at, name in enumerate(names, max(columns, default=-1) + 1):
        column = DictAttr((("col", IntegerAttr(at, i32)),))
        top.insert(len(top.operators), "fetch", {"X": [name]}, {"Out": ["fetch"]}, column)
    return program
