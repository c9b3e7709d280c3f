# SPDX-License-Identifier: Apache-2.0
"""Which loop each dimension of an op's operands and results is, by the `loops` line of its dialect file; and the op on
operands whose dimensions lie in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..ir.attributes import Attribute, IntegerAttr, i64, integers
from ..ir.core import Op
from ..ir.definition import AttributeField
from ..ir.loops import Group, Loops, arranged
from ..ir.types import shape_of
from .fields import get_i64, get_i64s

#: Kinds of loops of which it matters which comes first.
_ORDERED = ("sequential", "window")

#: A loop: its group, and which of the group's it is.
Loop = tuple[str, int]


@dataclass(frozen=True)
class OpLoops:
    """The loops of an op: of each dimension of its operands and results which one it is."""

    op: Op
    line: Loops
    operands: tuple[tuple[Loop, ...], ...]
    results: tuple[tuple[Loop, ...], ...]

    def kind(self, loop: Loop) -> str:
        """The kind of a loop (`ir.loops.KINDS`); that of a section is `parallel` where the op takes all of it."""
        kind = self.line.kinds.get(loop[0], "parallel")
        return "parallel" if kind == "section" and self._is_whole(loop) else kind

    def lengths(self, loop: Loop) -> Mapping[str, int]:
        """Attributes that name the length of a loop, and the entry of each that does."""
        section = self.line.sections.get(loop[0])
        if section is None:
            return {}
        place = self.operands[0].index(loop)
        return {name: place for name, neutral in section.entries if neutral is None}

    def _is_whole(self, loop: Loop) -> bool:
        place = self.operands[0].index(loop)
        size = shape_of(self.op.operands[0].type)[place]
        entries = self.line.sections[loop[0]].entries
        return all(
            get_i64s(self.op, name)[place] == (size if neutral is None else neutral)
            for name, neutral in entries
        )

    @cached_property
    def _fields(self) -> Mapping[str, AttributeField]:
        definition = self.op.definition
        assert definition is not None
        return {field.name: field for field in definition.attributes}

    # ---- dimensions in another order

    def following(self, operands: Sequence[Sequence[Loop]]) -> list[Loop] | None:
        """The loops of the result where those of the operands lie in this order; None where nothing says in which."""
        groups = self.line.results[0]
        lying: dict[
            str, list[Loop]
        ] = {}  # how the loops of a group lie where nothing says it of their dimensions
        for value, own in zip(self._groups, operands, strict=True):
            for group in value:
                if group.how != "@":
                    lying.setdefault(group.name, [loop for loop in own if loop[0] == group.name])
        for group in groups:
            lying.setdefault(group.name, [loop for loop in self.results[0] if loop[0] == group.name])
        if not any(group.how in ("@", "^") for group in groups):
            found = [loop for group in groups for loop in lying[group.name]]
            return found if len(found) == len(self.results[0]) else None
        first = [loop for group in groups if group.how == "[]" for loop in lying[group.name]]
        # What an attribute names lies where that of an operand does which the attribute names too.
        inserted = {group.attribute: group.name for group in groups if group.how == "^"}
        rest = {group.name for group in groups if group.how != "[]"} - {*inserted.values()}
        for value, own in zip(self._groups, operands, strict=True):
            replaced = {g.name: inserted[g.attribute] for g in value if g.attribute in inserted}
            if rest | replaced.keys() <= {g.name for g in value} and len(replaced) == len(inserted):
                steps = (
                    [loop] if loop[0] in rest else lying.get(replaced.get(loop[0], ""), []) for loop in own
                )
                return [*first, *[loop for each in steps for loop in each]]
        return None

    def leading(self, result: Sequence[Loop]) -> list[list[Loop]] | None:
        """The loops of each operand where those of the result lie in this order; None where an operand has others."""
        if any(loop not in result for own in self.operands for loop in own):
            return None
        return [[loop for loop in result if loop in own] for own in self.operands]

    def reordered(
        self, operands: Sequence[Sequence[Loop]], result: Sequence[Loop]
    ) -> dict[str, Attribute] | None:
        """What attributes say where the dimensions of operands and result are these loops; None where none say that."""
        given = [*operands, result]
        groups = [*self._groups, self.line.results[0]]
        order: dict[str, list[Loop]] = {}
        for marked in (False, True):
            for value, own, before in zip(groups, given, [*self.operands, self.results[0]], strict=True):
                for group in value:
                    found, old = ([loop for loop in each if loop[0] == group.name] for each in (own, before))
                    if self.line.kinds.get(group.name) in _ORDERED:
                        if found != old:
                            return None
                        found = sorted(found) if marked else found
                    if (group.how == "@") is marked and order.setdefault(group.name, found) != found:
                        if not marked:
                            return None
        named: dict[str, list[int]] = {}
        for value, own in zip(groups, given, strict=True):
            first = sum(len(order[g.name]) for g in value if g.how == "[]")
            for group in value:
                if group.how == "[]" or not group.how:
                    continue
                loops = order[group.name] if group.how == "@" else order[group.name][:1]
                places = [own.index(loop) - first for loop in loops]
                if group.how == "^" and not loops:
                    return None
                if named.setdefault(group.attribute, places) != places:
                    return None
        sizes = {name: len(loops) for name, loops in order.items()}
        for value, own in zip(groups, given, strict=True):
            made = arranged(value, len(own), {**named, **self._counts(named, value, sizes)}, sizes)
            if [order[name][i] for name, i in made] != list(own):
                return None
        for name, section in self.line.sections.items():
            places = [self.operands[0].index(loop) for loop in operands[0] if loop[0] == name]
            for attribute, _ in section.entries:
                before = get_i64s(self.op, attribute)
                named[attribute] = [before[place] for place in places]
        return {name: self._attribute(name, values) for name, values in named.items()}

    @property
    def _groups(self) -> Sequence[tuple[Group, ...]]:
        count = len(self.op.operands)
        return self.line.operands * count if self.line.repeated else self.line.operands

    @staticmethod
    def _counts(
        named: Mapping[str, Sequence[int]], value: Sequence[Group], sizes: Mapping[str, int]
    ) -> Mapping[str, Sequence[int]]:
        return {
            g.attribute: range(sizes[g.name]) for g in value if g.how == "[]" and g.attribute not in named
        }

    def _attribute(self, name: str, values: Sequence[int]) -> Attribute:
        if self._fields[name].kind == "i64":
            return IntegerAttr(values[0], i64)
        return integers(values)


def loops_of(op: Op) -> OpLoops | None:
    """The loops of an op; None where its dialect says none."""
    definition = op.definition
    line = definition.loops if definition is not None else None
    if line is None or definition is None:
        return None
    kinds = {field.name: field.kind for field in definition.attributes}
    places = {
        name: (get_i64(op, name),) if kinds[name] == "i64" else get_i64s(op, name) for name in line.attributes
    }
    sizes: dict[str, int] = {}
    groups = line.operands * len(op.operands) if line.repeated else line.operands
    found: list[tuple[Loop, ...]] = []
    for value, own in zip((*op.operands, *op.results), (*groups, *line.results), strict=True):
        made = arranged(own, len(shape_of(value.type)), places, sizes)
        for group in own:
            sizes[group.name] = sum(name == group.name for name, _ in made)
        found.append(tuple(made))
    count = len(op.operands)
    return OpLoops(op, line, tuple(found[:count]), tuple(found[count:]))
