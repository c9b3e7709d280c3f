# SPDX-License-Identifier: Apache-2.0
"""Reads `dialects/program.operators`: slots, attributes and documentation of the operators of programs.

    operator mul
      in X: The left operand.
      in Y: The right operand.
      out Out: The product.
      attr x_num_col_dims: int = 1 at least 1: How many dimensions of X count as rows.
      gradient X Y
      doc The product of two matrices.

The grammar is on one page in dialects/README.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..support.diagnostics import Location, UserError

#: The types of attributes. `dtype` is the number of an element type, as an `int` in text.
TYPES = ("int", "ints", "float", "floats", "string", "strings", "bool", "bools", "long", "block", "dtype")
_SLOT = re.compile(r"(?P<name>[\w-]+)(?P<marks>[*?~]*):\s*(?P<doc>.+)")
_NUMBERS = re.compile(r"(\w+): (\w+) of (\w+)(?: along (-?\d+)| called (\w+))?(?: unless (\w+))?")
_SAME = re.compile(r"(\w+) as (\w+)")
_LINEAR = re.compile(r"(\w+) to (\w+) along (\d+)")
#: What an operator may say of itself by a word.
TRAITS = ("mean", "product", "rowwise")
_LIMIT = re.compile(r"(at least|at most|above|below|one of) (\S+)")
_ATTRIBUTE = re.compile(
    r"(?P<name>\w+):\s*(?P<type>\w+)"
    r"(?:\s*=\s*(?P<default>\[[^\]]*\]|\"[^\"]*\"|\S+?))?"
    r"(?P<limits>(?:\s+(?:at least|at most|above|below|one of) \S+?)*)\s*:\s+(?P<doc>.+)"
)


@dataclass(frozen=True)
class Slot:
    """A named place of an operator for a variable, or for a list of them.

    A `many` slot takes a list; an `optional` one may be empty; an `intermediate` output is there for the gradient.
    """

    name: str
    doc: str
    many: bool = False
    optional: bool = False
    intermediate: bool = False


@dataclass(frozen=True)
class Limit:
    """A condition that values of an attribute obey: `at least`, `at most`, `above`, `below` a number, or `one of` some words."""

    kind: str
    bound: float | tuple[str, ...]

    def holds(self, value: Any) -> bool:
        if isinstance(self.bound, tuple):
            return value in self.bound
        match self.kind:
            case "at least":
                return value >= self.bound
            case "at most":
                return value <= self.bound
            case "above":
                return value > self.bound
            case _:
                return value < self.bound

    def __str__(self) -> str:
        bound = ", ".join(self.bound) if isinstance(self.bound, tuple) else f"{self.bound:g}"
        return f"{self.kind} {bound}"


@dataclass(frozen=True)
class AttributeEntry:
    """An attribute of an operator; without a `default` it has to be given, and each of its values obeys the `limits`."""

    name: str
    type: str
    doc: str
    default: Any = None
    limits: tuple[Limit, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is None


@dataclass(frozen=True)
class Numbers:
    """The integers of the input `slot` choose `things`. So many there are: the length of the input `of` along a dimension, the variables
    that it takes if it takes a list, or what the attribute `of` is. An attribute may say what the things are `called` together. Where the
    attribute `unless` is true, the input holds something else."""

    slot: str
    things: str
    of: str
    along: int = 0
    called: str = ""
    unless: str = ""


@dataclass(frozen=True)
class Linear:
    """The output `result` is linear in what the operator is applied to; the input `filters` holds the factors, with the channels of the
    result along a dimension."""

    filters: str
    result: str
    along: int


@dataclass(eq=False)
class OperatorEntry:
    """One operator. `gradient` names the inputs that get a gradient: None for all that hold floats, () for none. The output `same[0]` has
    the elements of the input `same[1]`, in another shape or order; the numbers of the output `checked` were looked at before. Its `traits`:
    its results are a `mean`, not a number where there is nothing; it is a `product`, which may be computed in 16 bits; it is `rowwise`:
    rows of the result follow from the same rows of what it takes."""

    type: str
    location: Location
    inputs: list[Slot] = field(default_factory=list[Slot])
    outputs: list[Slot] = field(default_factory=list[Slot])
    attributes: list[AttributeEntry] = field(default_factory=list[AttributeEntry])
    gradient: tuple[str, ...] | None = None
    doc: str = ""
    numbers: Numbers | None = None
    same: tuple[str, str] | None = None
    checked: str = ""
    traits: frozenset[str] = frozenset()
    linear: Linear | None = None

    @cached_property
    def inputs_by_name(self) -> dict[str, Slot]:
        return {slot.name: slot for slot in self.inputs}

    @cached_property
    def outputs_by_name(self) -> dict[str, Slot]:
        return {slot.name: slot for slot in self.outputs}

    def slot(self, name: str) -> Slot | None:
        """The input or output of that name."""
        return next((s for s in (*self.inputs, *self.outputs) if s.name == name), None)

    def attribute(self, name: str) -> AttributeEntry | None:
        return next((a for a in self.attributes if a.name == name), None)


def read_operators(path: Path) -> list[OperatorEntry]:
    """The operators in a file; UserError with file and line on anything out of the grammar."""
    return parse_operators(path.read_text(encoding="utf-8"), str(path))


def parse_operators(source: str, file: str) -> list[OperatorEntry]:
    """The operators in a text, which errors call `file`."""
    found: list[OperatorEntry] = []
    for where, text in _entries(source, file):
        word, _, rest = text.partition(" ")
        rest = rest.strip()
        if word == "operator":
            if not re.fullmatch(r"\w+", rest):
                raise UserError("expected: operator NAME", where)
            found.append(OperatorEntry(rest, where))
        elif not found:
            raise UserError("expected 'operator NAME'", where)
        else:
            _line(found[-1], word, rest, where)
    for entry in found:
        check_entry(entry)
    return found


def _entries(source: str, file: str) -> Iterator[tuple[Location, str]]:
    """Lines without comments; a line indented by four or more continues the one above it."""
    pending: tuple[Location, str] | None = None
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if line.startswith("    ") and pending is not None:
            pending = (pending[0], f"{pending[1]} {text}")
            continue
        if pending is not None:
            yield pending
        pending = (Location(file, number, len(line) - len(line.lstrip()) + 1), text)
    if pending is not None:
        yield pending


def _line(entry: OperatorEntry, word: str, rest: str, where: Location) -> None:
    match word:
        case "in" | "out":
            (entry.inputs if word == "in" else entry.outputs).append(_slot(rest, where))
        case "attr":
            entry.attributes.append(read_attribute(rest, where))
        case "gradient":
            entry.gradient = () if rest == "none" else tuple(rest.split())
        case "doc":
            entry.doc = rest
        case "numbers":
            entry.numbers = _numbers(rest, where)
        case "same":
            if (found := _SAME.fullmatch(rest)) is None:
                raise UserError("expected: same OUTPUT as INPUT", where)
            entry.same = found[1], found[2]
        case "checked":
            entry.checked = rest
        case "traits":
            entry.traits = frozenset(rest.split())
            if unknown := entry.traits - {*TRAITS}:
                hint = f"traits are {', '.join(TRAITS)}"
                raise UserError(f"there is no trait {min(unknown)}", where, hint=hint)
        case "linear":
            if (found := _LINEAR.fullmatch(rest)) is None:
                raise UserError("expected: linear INPUT to OUTPUT along DIMENSION", where)
            entry.linear = Linear(found[1], found[2], int(found[3]))
        case _:
            expected = (
                "'in', 'out', 'attr', 'gradient', 'numbers', 'same', 'checked', 'traits', 'linear' or 'doc'"
            )
            raise UserError(f"expected {expected}", where)


def _slot(text: str, where: Location) -> Slot:
    found = _SLOT.fullmatch(text)
    if found is None:
        raise UserError(
            "expected: NAME: description, with * for a list, ? for optional, ~ for intermediate", where
        )
    marks = found["marks"]
    return Slot(found["name"], found["doc"], "*" in marks, "?" in marks, "~" in marks)


def _numbers(text: str, where: Location) -> Numbers:
    if (found := _NUMBERS.fullmatch(text)) is None:
        message = "expected: numbers INPUT: THING of NAME [along DIMENSION] [unless ATTRIBUTE], or ... of ATTRIBUTE [called ATTRIBUTE]"
        raise UserError(message, where)
    slot, things, of, along, called, unless = found.groups()
    return Numbers(slot, things, of, int(along or 0), called or "", unless or "")


def read_attribute(text: str, where: Location) -> AttributeEntry:
    """`name: type = default at least 1: description`."""
    found = _ATTRIBUTE.fullmatch(text)
    if found is None or found["type"] not in TYPES:
        raise UserError(
            "expected: NAME: TYPE [= default] [limits]: description",
            where,
            hint=f"types are {', '.join(TYPES)}",
        )
    default = None if found["default"] is None else _value(found["default"])
    limits = tuple([_limit(kind, bound) for kind, bound in _LIMIT.findall(found["limits"])])
    return AttributeEntry(found["name"], found["type"], found["doc"], default, limits)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _limit(kind: str, bound: str) -> Limit:
    return Limit(kind, tuple(bound.split("|")) if kind == "one of" else float(bound))


def check_entry(entry: OperatorEntry) -> None:
    """UserError where an entry contradicts itself, or does not say what the operator is."""
    names = [item.name for item in (*entry.inputs, *entry.outputs, *entry.attributes)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"'{twice}' of operator {entry.type} is there twice", entry.location)
    named = [*(entry.gradient or ()), *entry.same[1:]] if entry.same else [*(entry.gradient or ())]
    if (numbers := entry.numbers) is not None:
        named += [numbers.slot, *([] if entry.attribute(numbers.of) else [numbers.of])]
    given = [*(entry.same or ())[:1], *([entry.checked] if entry.checked else [])]
    if entry.linear is not None:
        named.append(entry.linear.filters)
        given.append(entry.linear.result)
    unknown = [name for name in named if name not in entry.inputs_by_name]
    if missing := [name for name in given if name not in entry.outputs_by_name]:
        raise UserError(f"operator {entry.type} has no output '{missing[0]}'", entry.location)
    if unknown:
        raise UserError(f"operator {entry.type} has no input '{unknown[0]}'", entry.location)
    if not entry.doc:
        raise UserError(f"operator {entry.type} has no doc", entry.location)
