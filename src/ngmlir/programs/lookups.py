# SPDX-License-Identifier: Apache-2.0
"""Checks of row numbers against their table, of class numbers, and of the lengths of sequences that must agree. They run before
any state is changed.

Fed values, also reshaped or read step by step, are checked on the host. Values that the program computes are checked by operators
`find_outside`: a run without side effects returns their findings as additional results; before any other run a separate program
computes them (`numbers_computed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ..ir.types import DYNAMIC
from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import counted
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .names import LEVEL


@dataclass(frozen=True)
class Lookup:
    """An operator that chooses `things` by the numbers of the variable `ids`: rows of a table, for instance. `of` is the variable along
    whose `dimension` there are `count` of them, or what they are called together."""

    ids: str
    of: str
    dimension: int
    count: int
    location: Location
    things: str = "row"

    def check(self, ids: Any, of: Any = None) -> None:
        """UserError, at the operator's line, where one of the numbers is outside; what they are numbers of is given where it is fed."""
        if of is not None:
            return replace(self, count=np.shape(of)[self.dimension]).check(ids)
        array = np.asarray(ids)
        # A negative number is a large one without its sign.
        signed = array.dtype.kind == "i"
        unsigned = array.view(f"u{array.itemsize}") if signed else array
        if not array.size or (unsigned.max() < self.count and signed):
            return
        wrong = np.argwhere((array < 0) | (array >= self.count))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            self.refuse(int(array[at]), self.count, at)

    def refuse(self, number: int, count: int, at: Sequence[int]) -> NoReturn:
        """The UserError about a number that is outside."""
        message = (
            f"there is no {self.things} {number} in '{self.of}', which has {counted(count, self.things)}"
        )
        hint = f"it is the number at {list(at)} of '{self.ids}'"
        hint = f"{hint}; they go from 0 to {count - 1}" if count else hint
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


def lookups(program: Program) -> list[Lookup]:
    """Those whose numbers are fed; each variable of numbers, and of what they choose, once."""
    found: dict[tuple[str, str, str], Lookup] = {}
    _find(program.top, {}, found)
    return [*found.values()]


def _find(block: BlockView, sources: dict[str, str], found: dict[tuple[str, str, str], Lookup]) -> None:
    """Adds the lookups of a block, in which variables hold the numbers of fed `sources`."""
    for operator in block.operators:
        if (lookup := fed_lookup(operator, sources)) is not None:
            found.setdefault((lookup.ids, lookup.of, lookup.things), lookup)
        if operator.type == "recurrent" and operator.sub_block is not None:
            _find(operator.sub_block, sources_of_step(operator, sources), found)
        follow(operator, sources)


def fed_lookup(operator: Operator, sources: dict[str, str]) -> Lookup | None:
    """What an operator chooses by numbers that are fed; None where it does not, and where a run computes how many there are."""
    found = lookup_of(operator)
    if found is None or found.ids not in sources:
        return None
    if found.count == DYNAMIC and sources.get(found.of) != found.of:
        return None
    return replace(found, ids=sources[found.ids])


def sources_of_step(operator: Operator, sources: dict[str, str]) -> dict[str, str]:
    """The sources inside the block of a `recurrent` operator."""
    wholes = operator.inputs.get("inputs", ())
    steps = zip(operator.attribute("steps") or wholes, wholes, strict=True)
    return {**sources, **{step: sources[whole] for step, whole in steps if whole in sources}}


def follow(operator: Operator, sources: dict[str, str]) -> None:
    """Has `sources` say what variables hold when an operator has run."""
    if operator.type == "feed":
        sources[operator.writes[0]] = operator.writes[0]
        return
    definition = REGISTRY.find(operator.type)
    same = None if definition is None else definition.entry.same
    source = sources.get(operator.inputs[same[1]][0]) if same else None
    for name in operator.writes:
        sources.pop(name, None)
        if same and source is not None and name in operator.outputs.get(same[0], ()):
            sources[name] = source


def lookup_of(operator: Operator) -> Lookup | None:
    """What an operator chooses by numbers; None where it does not."""
    definition = REGISTRY.find(operator.type)
    numbers = None if definition is None else definition.entry.numbers
    if definition is None or numbers is None:
        return None
    (ids,) = operator.inputs[numbers.slot]
    visible = operator.block.visible
    if numbers.unless and operator.attribute(numbers.unless):
        return None
    of, slot = operator.writes[0], definition.entry.inputs_by_name.get(numbers.of)
    if slot is None:
        count = operator.attribute(numbers.of)
        of = operator.attribute(numbers.called) if numbers.called else of
    elif slot.many:
        count = len(operator.inputs[numbers.of])
    else:
        (of,) = operator.inputs[numbers.of]
        held = visible(of, operator.location)
        count = DYNAMIC if held.holds == "tensor_array" else held.type.shape[numbers.along]
    return Lookup(ids, of, numbers.along, count, operator.location, numbers.things)
