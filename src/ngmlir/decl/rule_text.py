# SPDX-License-Identifier: Apache-2.0
"""Reads `lowering/*.rules`. The grammar is in lowering/README.md; both sides of a rule are Python expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..support.diagnostics import Location
from ..support.spelling import did_you_mean
from .lines import complaint, entries

#: What a rule may take for granted; lowering/README.md says what each means.
Assumption = Literal["nsz", "nnan", "ninf", "reassoc", "approx"]
ASSUMPTIONS: tuple[Assumption, ...] = get_args(Assumption)
#: Kinds of elements that `when` can ask for.
KINDS = ("float", "integer", "signed", "unsigned", "bool")
_ENTRY = re.compile(r"(?P<name>\w+)\s*:\s*(?P<pattern>.+?)\s*=>\s*(?P<target>.+)$")
_CLAUSE = re.compile(r"\s+(assume|when)\b\s*((?:(?!assume\b|when\b)\w+\s*)*)$")
_NUMBERS: Mapping[str, float | bool | Literal["ones"]] = {
    "inf": float("inf"),
    "true": True,
    "false": False,
    "ones": "ones",
}


@dataclass(frozen=True)
class Variable:
    """Any value; the same one wherever the name is repeated."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant with this value in every element. A float (written with a point) is one of float type only;
    "ones" is the integer or i1 of any width in which every bit is set."""

    value: float | int | bool | Literal["ones"]

    def __eq__(self, other: object) -> bool:
        # -0.0 and 0.0, and 1 and true, are different numbers here.
        return isinstance(other, Number) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True)
class Call:
    """An op on patterns."""

    op: str
    operands: tuple[Pattern, ...]


Pattern: TypeAlias = "Variable | Number | Call"


@dataclass(frozen=True)
class Rule:
    """`pattern` may become `target` where `assumptions` are granted, for elements of the kind `when` ('' = any)."""

    name: str
    pattern: Call
    target: Pattern
    assumptions: frozenset[str]
    when: str
    location: Location

    @property
    def variables(self) -> tuple[str, ...]:
        """Names in the pattern, in order of their first appearance."""
        return tuple(dict.fromkeys(variables_of(self.pattern)))


def variables_of(pattern: Pattern) -> Iterator[str]:
    match pattern:
        case Variable(name):
            yield name
        case Call(_, operands):
            for operand in operands:
                yield from variables_of(operand)
        case Number():
            pass


def read_rules(path: Path, operands: Mapping[str, int]) -> tuple[Rule, ...]:
    """The rules in a file, in order. `operands`: op name -> number of operands, of the ops that rules may name."""
    rules: dict[str, Rule] = {}
    for where, text in entries(path):
        rule = _rule(text, where, operands)
        if rule.name in rules:
            raise complaint(f"rule '{rule.name}' stands already at {rules[rule.name].location}", where)
        rules[rule.name] = rule
    return tuple(rules.values())


def _rule(text: str, where: Location, operands: Mapping[str, int]) -> Rule:
    clauses: dict[str, list[str]] = {}
    while found := _CLAUSE.search(text):
        if found[1] in clauses:
            raise complaint(f"'{found[1]}' stands twice", where)
        clauses[found[1]] = found[2].split()
        text = text[: found.start()]
    entry = _ENTRY.match(text)
    if entry is None:
        raise complaint("expected: name: pattern => target  [assume ...] [when ...]", where)
    assumptions = _words(clauses, "assume", ASSUMPTIONS, where)
    kinds = _words(clauses, "when", KINDS, where)
    if len(kinds) > 1:
        raise complaint("'when' takes one kind", where)
    pattern = _pattern(_expression(entry["pattern"], where), where, operands)
    target = _pattern(_expression(entry["target"], where), where, operands)
    if not isinstance(pattern, Call):
        raise complaint("the pattern must be an op", where)
    known = set(variables_of(pattern))
    for name in variables_of(target):
        if name not in known:
            raise complaint(
                f"'{name}' is not in the pattern", where, f"variables: {', '.join(sorted(known))}"
            )
    return Rule(entry["name"], pattern, target, frozenset(assumptions), "".join(kinds), where)


def _words(
    clauses: Mapping[str, list[str]], clause: str, known: tuple[str, ...], where: Location
) -> list[str]:
    words = clauses.get(clause, [])
    if clause in clauses and not words:
        raise complaint(f"'{clause}' says nothing", where, f"one of {', '.join(known)}")
    for word in words:
        if word not in known:
            hint = did_you_mean(word, known, f"one of {', '.join(known)}")
            raise complaint(f"unknown word '{word}' after '{clause}'", where, hint)
    return words


def _expression(text: str, where: Location) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise complaint(f"cannot read '{text.strip()}': {error.msg}", where) from None


def _pattern(node: ast.expr, where: Location, operands: Mapping[str, int]) -> Pattern:
    match node:
        case ast.Name(id) if id in _NUMBERS:
            return Number(_NUMBERS[id])
        case ast.Name(id):
            return Variable(id)
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            return Number(value)
        case ast.UnaryOp(ast.USub(), operand):
            inner = _pattern(operand, where, operands)
            if isinstance(inner, Number) and not isinstance(inner.value, (bool, str)):
                return Number(-inner.value)
        case ast.Call(ast.Attribute(ast.Name(dialect), op), arguments, []):
            name = f"{dialect}.{op.rstrip('_')}"
            _check_op(name, len(arguments), where, operands)
            return Call(name, tuple(_pattern(a, where, operands) for a in arguments))
        case _:
            pass
    raise complaint(
        f"'{ast.unparse(node)}' is not a pattern", where, "an op such as ng.add(x, y), a variable or a number"
    )


def _check_op(name: str, count: int, where: Location, operands: Mapping[str, int]) -> None:
    if name not in operands:
        raise complaint(f"unknown op '{name}'", where, did_you_mean(name, operands))
    if count != operands[name]:
        raise complaint(f"{name} takes {operands[name]} operands, not {count}", where)
