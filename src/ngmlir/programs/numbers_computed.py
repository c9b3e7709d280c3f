# SPDX-License-Identifier: Apache-2.0
"""Numbers that a program computes and chooses by: operators that find those outside, such as a row that a table does not have.

In loops and branches what is found is carried in a variable of the block around them. A recurrent network gives the numbers of its steps
as one more result, so that rows of sequences that have ended do not count; and where they choose of what is of the step, how many there are.
What loops and branches inside of its steps find is a result of it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, count, takewhile
from typing import Any, NamedTuple

import numpy as np

from ..ir.attributes import DictAttr, IntegerAttr
from ..ir.types import DYNAMIC, TensorType, i32, i64
from .block_values import all_operators
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .inserting import insert_like
from .lookups import Lookup, fed_lookup, follow, lookup_of, sources_of_step
from .names import GRADIENT, LEVEL
from .prune import pruned
from .trips import ARRAY_USES, counted_places, is_function
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
    finding.look_in(finding.program.top, {}, {*finding.arrays})
    return Computed(finding.program if finding.names else program, finding.lookups, finding.names)


class _Finding:
    """A program, in place, and what was found to look at."""

    def __init__(self, program: Program):
        self.program = program
        self.arrays = {n for b in program.blocks for n, v in b.variables.items() if v.holds == "tensor_array"}
        self.lookups: list[Lookup] = []
        self.names: list[str] = []

    def look_in(
        self,
        block: BlockView,
        sources: dict[str, str],
        constants: set[str],
        around: Sequence[Operator] = (),
        counted: Sequence[int] = (),
    ) -> None:
        """Looks at the operators of a block, inside of these loops, branches and recurrent networks. `constants` are the variables that
        follow from constants, and the arrays whose positions do; the positions of the operators at the places `counted` were looked at."""
        checked: set[str] = set()
        for place, operator in enumerate([*block.operators]):
            left_out = place in counted or _leaves_out(operator, constants, around)
            lookup = None if left_out else lookup_of(operator)
            if lookup is not None and lookup.ids not in checked and fed_lookup(operator, sources) is None:
                self.look_at(operator, lookup, around)
            follow(operator, sources)
            inside = constants.difference(operator.writes) if operator.sub_block is not None else set[str]()
            places = _follow_constants(operator, constants) if self.arrays else ()  # no others ask for them
            checked.difference_update(operator.writes)
            if (definition := REGISTRY.find(operator.type)) is not None:
                checked.update(operator.outputs.get(definition.entry.checked, ()))
            if operator.sub_block is None:
                continue
            # A branch, or an iteration, that does not run chooses nothing by what is fed either.
            are_steps = all(map(_is_recurrent, (*around, operator)))
            inner = sources_of_step(operator, sources) if are_steps else {}
            self.look_in(operator.sub_block, inner, inside, (*around, operator), places)

    def look_at(self, operator: Operator, lookup: Lookup, around: Sequence[Operator]) -> None:
        """Has the numbers of an operator looked at."""
        outer, steps = _parted(around, _is_recurrent)
        place, behind, names = operator, 0, [lookup.ids]
        inputs, fields = dict[str, list[str]](), {"along": lookup.dimension}
        home = (*steps, operator)[0].block
        of = home.find(lookup.of)
        if lookup.of in operator.reads and of is not None and of.holds == "tensor":
            inputs["Of"] = [lookup.of]
        elif lookup.count != DYNAMIC:
            fields["count"] = lookup.count
        else:
            names.append(self._choices(operator, lookup))
        for recurrent in reversed(steps):
            block, behind = recurrent.sub_block, 0
            assert block is not None
            if len(names) > 1 or lookup.ids in block.variables:
                names = [_as_result(name, place, behind, recurrent) for name in names]
                behind = 1
            place = recurrent
        inputs.update(zip(("X", "Many"), ([name] for name in names), strict=False))
        network = next(filter(_is_recurrent, reversed(outer)), None)
        if network is not None and network.inputs.get("RankTable"):
            inputs["Among"] = [self._running(network, operator)]
        length = 3 + len(place.block.visible(names[0]).type.shape)
        first = f"{lookup.ids}.outside"
        self.names.append(self._found("find_outside", inputs, fields, place, behind, outer, first, length))
        self.lookups.append(lookup)

    def _choices(self, operator: Operator, lookup: Lookup) -> str:
        """A variable in a step that has for each number how many there are to choose of there."""
        ids, block = operator.block.visible(lookup.ids), operator.block
        if block.visible(lookup.of).holds == "tensor_array":
            name = _declare(block, f"{lookup.of}.elements", TensorType((1,), i64), 0, operator)
            lengths = {"X": [lookup.of]}, {"Out": [name]}
            insert_like(operator, block, operator.index, "lod_array_length", *lengths, {})
            return name
        type = TensorType(ids.type.shape, i64)
        name = _declare(block, f"{lookup.ids}.choices", type, ids.ragged, operator)
        inputs, fields = {"X": [lookup.ids], "Of": [lookup.of]}, {"along": lookup.dimension}
        insert_like(operator, block, operator.index, "count_choices", inputs, {"Out": [name]}, fields)
        return name

    def _running(self, network: Operator, operator: Operator) -> str:
        """The variable of a step of a network that says which rows are those of sequences that have not ended."""
        block = network.sub_block
        assert block is not None
        for other in block.operators:
            if other.type == "running_rows":
                return other.writes[0]
        name = _declare(block, f"{network.writes[0]}.running", TensorType((DYNAMIC, 1), i32), 0, operator)
        inputs = {"RankTable": network.inputs["RankTable"]}
        insert_like(operator, block, 0, "running_rows", inputs, {"Out": [name]}, {})
        return name

    def _found(
        self,
        type: str,
        inputs: dict[str, list[str]],
        fields: dict[str, int],
        place: Operator,
        behind: int,
        around: Sequence[Operator],
        first: str,
        length: int,
    ) -> str:
        """The variable of block 0 that has what an operator of this type finds, which is inserted before `place`, or behind it."""
        outer, loops = _parted(around, lambda operator: not _is_recurrent(operator))
        outermost = (*loops, place)[0]
        home = outermost.block
        name = _declare(home, first, TensorType((length,), i64), 0, place)
        if loops:
            fill = {"shape": [length], "dtype": number_of(i64), "value": 0.0}
            insert_like(loops[0], home, loops[0].index, "fill_constant", {}, {"Out": [name]}, fill)
            inputs["Before"] = [name]
        for loop in loops:
            loop.set_slot("outputs", "Out", [*loop.outputs.get("Out", ()), name])
        at = place.index + behind
        insert_like(place, place.block, at, type, inputs, {"Out": [name]}, fields)
        if not outer:
            return name
        # Found in each step: a row, since a result has rows.
        *outer, recurrent = outer
        row = _declare(home, f"{first}.row", TensorType((1, length), i64), 0, place)
        at = outermost.index + 1 if loops else at + 1
        insert_like(place, home, at, "reshape", {"X": [name]}, {"Out": [row]}, {"shape": [1, length]})
        whole = _as_result(row, outermost, at + 1 - outermost.index, recurrent)
        return self._found("first_found", {"X": [whole]}, {}, recurrent, 1, outer, first, length)


def _leaves_out(operator: Operator, constants: set[str], around: Sequence[Operator]) -> bool:
    """Whether an operator reads an element of an array at a position that is not looked at: one that is known when the program is
    lowered, of a step, or of a gradient, which is shorter than its array where nothing read the last elements."""
    return operator.type == "read_from_array" and (
        constants.issuperset(operator.reads)
        or any(map(_is_recurrent, around))
        or any(GRADIENT in name for name in operator.reads)
    )


def _follow_constants(operator: Operator, constants: set[str]) -> Sequence[int]:
    """Has `constants` say which variables follow from constants when an operator has run, and which arrays have their elements at
    positions that do. Gives the places in the block of a loop whose positions are counted when it is lowered."""
    places, stays = [], set[str]()
    if operator.type == "while":
        block, (condition,) = operator.sub_block, operator.inputs["Condition"]
        assert block is not None
        places, is_exact = counted_places(block, condition, constants.__contains__)
        if is_exact and len(places) == sum(o.type in ARRAY_USES for o in all_operators(block)):
            stays = {n for n in operator.writes if block.visible(n).holds == "tensor_array"}
    elif operator.type == "write_to_array":
        stays = {*operator.writes} if operator.inputs["I"][0] in constants else set()
    elif is_function(operator) and constants.issuperset(operator.reads):
        constants.update(operator.writes)
        return ()
    constants.difference_update(set(operator.writes) - stays)
    return places


def _is_recurrent(operator: Operator) -> bool:
    return operator.type == "recurrent"


def _parted(
    around: Sequence[Operator], inner: Callable[[Operator], bool]
) -> tuple[Sequence[Operator], Sequence[Operator]]:
    """The last ones that are `inner`, and those before them first."""
    count = len([*takewhile(inner, reversed(around))])
    return around[: len(around) - count], around[len(around) - count :]


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
