# SPDX-License-Identifier: Apache-2.0
"""The loop of each dimension of an op's operands and results, from the `loops` line of its dialect file; and the op on
operands whose dimensions are permuted."""

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

#: Kinds of loops whose order matters.
_ORDERED = ("sequential", "window")

#: A loop: its group, and its index in the group.
Loop = tuple[str, int]


@dataclass(frozen=True)
class OpLoops:
    """The loops of an op: one for each dimension of its operands and results."""

    op: Op
    line: Loops
    operands: tuple[tuple[Loop, ...], ...]
    results: tuple[tuple[Loop, ...], ...]

    def kind(self, loop: Loop) -> str:
        """The kind of a loop (`ir.loops.KINDS`); that of a section is `parallel` if the op takes all of it."""
        kind = self.line.kinds.get(loop[0], "parallel")
        return "parallel" if kind == "section" and self._is_whole(loop) else kind

    def lengths(self, loop: Loop) -> Mapping[str, int]:
        """Attributes that contain the length of a loop, and the index of the entry of each that does."""
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

    # ---- permuted dimensions

    def following(self, operands: Sequence[Sequence[Loop]]) -> list[Loop] | None:
        """The loops of the result if those of the operands are in this order; None if nothing determines their order."""
        groups = self.line.results[0]
        # The loops, in order, of each group whose dimensions no attribute names.
        lying: dict[str, list[Loop]] = {}
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
        # Dimensions that an attribute names are where those of an operand are that the attribute names too.
        given = {group.name for value in self._groups for group in value}
        inserted = {
            group.attribute: group.name
            for group in groups
            if group.how == "^" or (group.how == "@" and group.name not in given)
        }
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
        """The loops of each operand if those of the result are in this order; None if an operand has others."""
        if any(loop not in result for own in self.operands for loop in own):
            return None
        return [[loop for loop in result if loop in own] for own in self.operands]

    def reordered(
        self, operands: Sequence[Sequence[Loop]], result: Sequence[Loop]
    ) -> dict[str, Attribute] | None:
        """The attributes for which the dimensions of operands and result are these loops; None if there are none."""
        values = list(zip([*self._groups, self.line.results[0]], [*operands, result], strict=True))
        order = self._order_in_groups(values)
        named = None if order is None else self._named(values, order)
        if order is None or named is None:
            return None
        # The attributes are right if reading the line with them gives the loops again.
        sizes = {name: len(loops) for name, loops in order.items()}
        for groups, own in values:
            counts = {g.attribute: range(sizes[g.name]) for g in groups if g.how == "[]"}
            made = arranged(groups, len(own), {**counts, **named}, sizes)
            if [order[name][i] for name, i in made] != list(own):
                return None
        return {
            name: self._attribute(name, places) for name, places in (named | self._entries(operands)).items()
        }

    def _order_in_groups(
        self, values: Sequence[tuple[Sequence[Group], Sequence[Loop]]]
    ) -> dict[str, list[Loop]] | None:
        """The order of the loops of each group: that of the dimensions if no attribute names these, which must be the same
        everywhere; otherwise the order of the first value. None if steps are ordered, and their order would change."""
        order: dict[str, list[Loop]] = {}
        named: dict[str, list[Loop]] = {}
        for (groups, own), before in zip(values, [*self.operands, self.results[0]], strict=True):
            for name, how, _ in groups:
                found, old = ([loop for loop in each if loop[0] == name] for each in (own, before))
                is_ordered = self.line.kinds.get(name) in _ORDERED
                if is_ordered and found != old:
                    return None
                if how == "@":
                    named.setdefault(name, sorted(found) if is_ordered else found)
                elif order.setdefault(name, found) != found:
                    return None
        return named | order

    @staticmethod
    def _named(
        values: Sequence[tuple[Sequence[Group], Sequence[Loop]]], order: Mapping[str, list[Loop]]
    ) -> dict[str, list[int]] | None:
        """The attributes that name dimensions; None if two values would need different ones."""
        named: dict[str, list[int]] = {}
        for groups, own in values:
            first = sum(len(order[g.name]) for g in groups if g.how == "[]")
            for name, how, attribute in groups:
                if how not in ("@", "^"):
                    continue
                loops = order[name] if how == "@" else order[name][:1]
                places = [own.index(loop) - first for loop in loops]
                if (how == "^" and not loops) or named.setdefault(attribute, places) != places:
                    return None
        return named

    def _entries(self, operands: Sequence[Sequence[Loop]]) -> dict[str, list[int]]:
        """The attributes that have an entry for each dimension of a section."""
        found: dict[str, list[int]] = {}
        for name, section in self.line.sections.items():
            places = [self.operands[0].index(loop) for loop in operands[0] if loop[0] == name]
            for attribute, _ in section.entries:
                before = get_i64s(self.op, attribute)
                found[attribute] = [before[place] for place in places]
        return found

    @property
    def _groups(self) -> Sequence[tuple[Group, ...]]:
        return self.line.of_operands(len(self.op.operands))

    def _attribute(self, name: str, values: Sequence[int]) -> Attribute:
        if self._fields[name].kind == "i64":
            return IntegerAttr(values[0], i64)
        return integers(values)


def loops_of(op: Op) -> OpLoops | None:
    """The loops of an op; None if its dialect states none."""
    definition = op.definition
    line = definition.loops if definition is not None else None
    if line is None or definition is None:
        return None
    kinds = {field.name: field.kind for field in definition.attributes}
    places = {
        name: (get_i64(op, name),) if kinds[name] == "i64" else get_i64s(op, name) for name in line.attributes
    }
    sizes: dict[str, int] = {}
    groups = line.of_operands(len(op.operands))
    found: list[tuple[Loop, ...]] = []
    for value, own in zip((*op.operands, *op.results), (*groups, *line.results), strict=True):
        made = arranged(own, len(shape_of(value.type)), places, sizes)
        for group in own:
            sizes[group.name] = sum(name == group.name for name, _ in made)
        found.append(tuple(made))
    count = len(op.operands)
    return OpLoops(op, line, tuple(found[:count]), tuple(found[count:]))
