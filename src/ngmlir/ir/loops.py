# SPDX-License-Identifier: Apache-2.0
"""The `loops` line of a dialect file: to which loop each dimension of an op's operands and results belongs.

    loops  b@lhs_batch k@lhs_contract m, b@rhs_batch k@rhs_contract n -> b m n  with  k reduction

A letter is a group of loops, as in an einsum; the line is for tensors of any rank. The dimensions of a group are named by an
attribute (`k@axes`), begin at the one that it names (`i^axis`), come first with one for each item of it (`t[axes]`), or are
the ones that are left, in order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Why, along a loop of a kind other than `parallel`, an element of the result does not depend on one step only.
KINDS = {
    "parallel": "computes each step by itself",
    "reduction": "reduces it",
    "sequential": "computes along it",
    "window": "has windows along it",
    "joined": "joins tensors along it",
    "indexed": "looks up positions along it",
    "section": "takes a part of it, or pads it",
}
#: The lines of ops of a trait, which need not state them.
OF_TRAIT = {
    "elementwise": "p... -> p",
    "reduction": "r@axes p -> p with r reduction",
    "cumulative": "s@axis p -> s@axis p with s sequential",
    "row": "s@axes p -> s@axes p with s sequential",
}
_GROUP = re.compile(r"(?P<name>[a-z])(?:(?P<how>[@^])(?P<at>\w+)|\[(?P<counted>\w+)\])?\Z")
_NEUTRAL = re.compile(r"(?P<name>\w+)=(?P<value>-?\d+|size)\Z")


class Group(NamedTuple):
    """A group of loops in an operand or result, and where its dimensions are."""

    name: str
    #: `` (those that are left), `@` (named by an attribute), `^` (from the one named) or `[]` (the first ones).
    how: str = ""
    attribute: str = ""


class Section(NamedTuple):
    """A loop of which an op takes a part: attributes with an entry for each dimension, each with the value for all of the loop
    (a number, or None for its length)."""

    entries: tuple[tuple[str, int | None], ...]


class Loops(NamedTuple):
    """A parsed line. A single operand that is `repeated` stands for all operands."""

    operands: tuple[tuple[Group, ...], ...]
    results: tuple[tuple[Group, ...], ...]
    kinds: Mapping[str, str]
    sections: Mapping[str, Section]
    repeated: bool

    def of_operands(self, count: int) -> tuple[tuple[Group, ...], ...]:
        """The groups of each of `count` operands."""
        return self.operands * count if self.repeated else self.operands

    @property
    def attributes(self) -> set[str]:
        """The attributes that the line names."""
        places = {g.attribute for value in (*self.operands, *self.results) for g in value if g.attribute}
        return places | {name for section in self.sections.values() for name, _ in section.entries}


def read_loops(text: str) -> Loops:
    """Parses a line; ValueError with the reason if it is not valid."""
    sides, _, clauses = text.partition(" with ")
    left, arrow, right = sides.partition("->")
    if not arrow:
        raise ValueError("expected: operands -> results [with loop kind, ...]")
    given, repeated = left.strip(), False
    if given.endswith("..."):
        given, repeated = given.removesuffix("..."), True
    operands, results = _values(given), _values(right)
    if repeated and len(operands) != 1:
        raise ValueError("'...' stands behind the only operand")
    known = {group.name for value in (*operands, *results) for group in value}
    kinds, sections = dict[str, str](), dict[str, Section]()
    for clause in filter(None, (c.strip() for c in clauses.split(","))):
        name, kind, *entries = clause.split()
        if name not in known:
            raise ValueError(f"there is no loop '{name}'")
        if kind not in KINDS or bool(entries) != (kind == "section"):
            raise ValueError(f"'{clause}' says no kind of loop: {', '.join(KINDS)}")
        kinds[name] = kind
        if entries:
            sections[name] = Section(tuple(_neutral(entry) for entry in entries))
    return Loops(operands, results, kinds, sections, repeated)


def _values(text: str) -> tuple[tuple[Group, ...], ...]:
    values = tuple(tuple(_group(word) for word in value.split()) for value in text.split(","))
    for value in values:
        if len({group.name for group in value}) < len(value):
            raise ValueError(f"a loop stands twice in '{text.strip()}'")
    return values


def _group(word: str) -> Group:
    found = _GROUP.match(word)
    if found is None:
        raise ValueError(f"'{word}' is no group of loops, as p, r@axes, i^axis or t[axes] are")
    if found["counted"]:
        return Group(found["name"], "[]", found["counted"])
    return Group(found["name"], found["how"] or "", found["at"] or "")


def _neutral(word: str) -> tuple[str, int | None]:
    found = _NEUTRAL.match(word)
    if found is None:
        raise ValueError(f"'{word}' says no attribute of a whole loop, as starts=0 and limits=size do")
    return found["name"], None if found["value"] == "size" else int(found["value"])


def arranged(
    groups: Sequence[Group], rank: int, places: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> list[tuple[str, int]]:
    """For each dimension of a value its group, and the index of its loop in the group. `places` are the attributes, `sizes` the numbers
    of loops of groups that are known from other values. ValueError if they do not fit."""
    first = [(g.name, i) for g in groups if g.how == "[]" for i in range(len(places[g.attribute]))]
    slots: list[tuple[str, int] | None] = [None] * (rank - len(first))
    for group in groups:
        at = places.get(group.attribute, ())
        if group.how == "^":
            at = range(at[0], at[0] + sizes[group.name])
        elif group.how != "@":
            continue
        for i, place in enumerate(at):
            if not 0 <= place < len(slots) or slots[place] is not None:
                raise ValueError(f"{group.attribute} names dimension {place}")
            slots[place] = (group.name, i)
    free = [i for i, slot in enumerate(slots) if slot is None]
    rest = [g.name for g in groups if not g.how]
    unknown = [name for name in rest if name not in sizes]
    left = len(free) - sum(sizes[name] for name in rest if name in sizes)
    for name in rest:
        for i in range(left if unknown[:1] == [name] else sizes.get(name, 0)):
            slots[free.pop(0)] = (name, i)
    found = [slot for slot in slots if slot is not None]
    if len(found) < len(slots):
        raise ValueError("some dimensions are no loops")
    return [*first, *found]
