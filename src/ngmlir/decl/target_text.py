# SPDX-License-Identifier: Apache-2.0
"""Reads `lowering/*.target`: which ops a kind of device carries out, for which elements, and how.

legal float: ng.sqrt ng.floor        the code generator has it
library float: ng.exp                by the math library, in terms of legal ops
refused element: ng.while            not yet
as cpu                               everything that lowering/cpu.target says, unless said otherwise here
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from ..ir.definition import ELEMENTS
from ..ir.types import Type
from ..support.diagnostics import Location
from ..support.home import folder
from ..support.spelling import did_you_mean
from .lines import complaint, entries

How = Literal["legal", "library", "refused"]
_HOWS: tuple[How, ...] = get_args(How)
_TYPES = (
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
    "index",
    "f16",
    "bf16",
    "f32",
    "f64",
)


@dataclass(frozen=True)
class Entry:
    """How an op is carried out for some elements: kinds as in `dialects/` (`float`) or types (`f32`)."""

    how: How
    elements: tuple[str, ...]
    location: Location

    def covers(self, element: Type) -> bool:
        return any(ELEMENTS[e](element) if e in ELEMENTS else e == str(element) for e in self.elements)


@dataclass(frozen=True)
class TargetText:
    """The table of one kind of device: op name -> its entries, the deciding one first."""

    name: str
    ops: Mapping[str, tuple[Entry, ...]]

    def how(self, op: str, element: Type) -> How | None:
        """How the device carries out `op` on `element`; None where the table does not say."""
        return next((entry.how for entry in self.ops.get(op, ()) if entry.covers(element)), None)

    def carries_out(self, op: str) -> bool:
        """Whether the device carries out `op` on some elements: those of an entry that none above it takes back."""
        decided: set[str] = set()
        for entry in self.ops.get(op, ()):
            if entry.how != "refused" and not decided.issuperset(entry.elements):
                return True
            decided.update(entry.elements)
        return False


def read_target(path: Path, ops: Collection[str] | None = None) -> TargetText:
    """The table in a file; with `ops`, the names that it may use."""
    table: dict[str, tuple[Entry, ...]] = {}
    for where, text in entries(path):
        head, colon, names = text.partition(":")
        words = head.split()
        if words[:1] == ["as"] and len(words) == 2 and not colon:
            for op, inherited in _base(path, words[1], where).ops.items():
                table[op] = table.get(op, ()) + inherited
            continue
        entry = _entry(words, bool(colon and names.strip()), where)
        for op in names.split():
            if ops is not None and op not in ops:
                raise complaint(f"unknown op '{op}'", where, did_you_mean(op, ops))
            # Later lines of a file are more specific and take precedence.
            table[op] = (entry, *table.get(op, ()))
    return TargetText(path.stem, table)


def _base(path: Path, name: str, where: Location) -> TargetText:
    base = path.with_name(f"{name}.target")
    if base == path or not base.is_file():
        raise complaint(f"there is no other table '{name}.target' in this folder", where)
    return read_target(base)


def _entry(words: list[str], complete: bool, where: Location) -> Entry:
    if not complete or len(words) < 2:
        raise complaint(
            "expected: legal element ...: op ...", where, "the first word: as, " + ", ".join(_HOWS)
        )
    how: How | None = next((known for known in _HOWS if known == words[0]), None)
    if how is None:
        raise complaint(f"unknown word '{words[0]}'", where, "one of as, " + ", ".join(_HOWS))
    elements = words[1:]
    for element in elements:
        if element not in ELEMENTS and element not in _TYPES:
            hint = did_you_mean(element, [*ELEMENTS, *_TYPES])
            raise complaint(f"unknown element '{element}'", where, hint)
    return Entry(how, tuple(elements), where)


@cache
def load_target(name: str) -> TargetText:
    """`lowering/NAME.target`."""
    return read_target(folder("lowering") / f"{name}.target")
