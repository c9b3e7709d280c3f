# SPDX-License-Identifier: Apache-2.0
"""Reads `dialects/*.ngd`. The grammar is on one page in dialects/README.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from ..ir.definition import COMPUTED_FLOATS, CONTAINERS, ELEMENTS, EVERYWHERE, Constraint, Domain
from ..ir.forms import named, read_form
from ..ir.loops import read_loops
from ..support.diagnostics import Location, UserError

KINDS = (
    "i64",
    "i64s",
    "bool",
    "bools",
    "str",
    "name",
    "symbol",
    "type",
    "unit",
    "axes",
    "number",
    "literal",
    "any",
)
_HEAD = re.compile(
    r"op\s+(?P<name>\w+)\s*\((?P<operands>[^)]*(?:\([^)]*\)[^)]*)*)\)\s*(?:->\s*(?P<results>.+))?$"
)
#: What may begin a line of an op.
WORDS = (
    "where", "attr", "region", "form", "traits", "rule", "loops", "domain", "error", "at", "function", "doc", "given", "example",
)  # fmt: skip
_ATTRIBUTE = re.compile(
    r"(?P<name>\w+):\s*(?P<kind>enum\([^)]*\)|\w+)(?P<optional>\?)?\s*(?:=\s*(?P<default>.+))?$"
)
_DOMAIN = re.compile(r"\s*(\w+):\s*(\S+?)\.\.(\S+)(\s+(?:ordinary|rising)\b)?(?:\s+|$)")


@dataclass
class OperandText:
    name: str
    constraint: Constraint
    variable: str = ""
    variadic: bool = False
    domain: Domain = EVERYWHERE
    static: bool = False
    default: int | None = None
    counted: str = ""


@dataclass
class AttributeText:
    name: str
    kind: str
    default: str | None = None
    optional: bool = False


@dataclass
class OpText:
    """One `op` entry as written."""

    dialect: str
    name: str
    location: Location
    operands: list[OperandText] = field(default_factory=list[OperandText])
    results: list[OperandText] = field(default_factory=list[OperandText])
    attributes: list[AttributeText] = field(default_factory=list[AttributeText])
    regions: list[str] = field(default_factory=list[str])
    traits: list[str] = field(default_factory=list[str])
    rule: str = ""
    loops: str = ""
    form: list[str] = field(default_factory=list[str])
    errors: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    points: list[tuple[tuple[float, ...], float]] = field(
        default_factory=list[tuple[tuple[float, ...], float]]
    )
    function: str = ""
    doc: str = ""
    given: str = ""
    example: str = ""


@dataclass
class DialectText:
    name: str
    doc: str
    ops: list[OpText]


def read_dialect(path: Path) -> DialectText:
    """The dialect in a file; UserError with file and line on anything out of the grammar."""
    name, doc, ops = "", "", list[OpText]()
    variables: dict[str, Constraint] = {}
    for entry in _entries(path):
        where, text = entry
        if text.startswith("dialect "):
            found = re.match(r'dialect\s+(\w+)\s+"([^"]*)"$', text)
            if found is None:
                raise UserError('expected: dialect name "sentence"', where)
            name, doc = found.groups()
        elif text.startswith("op "):
            ops.append(_head(name, text, where))
            variables = {}
        elif not ops:
            raise UserError("expected 'dialect' or 'op'", where)
        else:
            _line(ops[-1], text, where, variables)
            if text.startswith("where "):
                _bind(ops[-1], variables, where)
    for op in ops:
        _finish(op)
    return DialectText(name, doc, ops)


def _entries(path: Path) -> Iterator[tuple[Location, str]]:
    """Lines without comments; a line indented by four or more continues the one above it."""
    pending: tuple[Location, str] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text == "#" or text.startswith("# "):
            continue
        if line.startswith("    ") and pending is not None:
            keep = "\n" + line[4:] if pending[1].startswith("example") else " " + text
            pending = (pending[0], pending[1] + keep)
            continue
        if pending is not None:
            yield pending
        pending = (Location(str(path), number, len(line) - len(line.lstrip()) + 1), text)
    if pending is not None:
        yield pending


def _head(dialect: str, text: str, where: Location) -> OpText:
    found = _HEAD.match(text)
    if found is None:
        raise UserError("expected: op name(operand: constraint, ...) -> result", where)
    op = OpText(dialect, found["name"], where)
    op.operands = [_operand(p, where, "operand") for p in _split(found["operands"])]
    results = (found["results"] or "").strip()
    if results.startswith("(") and results.endswith(")"):
        results = results[1:-1]
    parts = _split(results)
    for i, part in enumerate(parts):
        named = part if ":" in part else f"result{i if len(parts) > 1 else ''}: {part}"
        op.results.append(_operand(named, where, "result"))
    return op


def _split(text: str) -> list[str]:
    """Splits at commas outside parentheses."""
    parts: list[str] = []
    depth, current = 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


def _operand(text: str, where: Location, what: str) -> OperandText:
    name, colon, constraint = (p.strip() for p in text.partition(":"))
    if not colon:
        raise UserError(f"expected '{what} name: constraint', found '{text}'", where)
    constraint, variadic, counted = constraint.partition("...")
    constraint, static, default = constraint.partition(" or i64")
    if re.fullmatch(r"[A-Z]\w*", constraint.strip()):
        made = OperandText(name, Constraint("any"), constraint.strip(), bool(variadic))
    else:
        made = OperandText(name, _constraint(constraint.strip(), where), "", bool(variadic))
    made.counted, made.static = counted.strip(), bool(static)
    if default.strip():
        made.default = int(_number(default.strip().removeprefix("="), where))
    return made


def _constraint(text: str, where: Location) -> Constraint:
    found = re.fullmatch(r"(\w+)(?:\((\w+)\))?", text)
    if found is None or found[1] not in CONTAINERS or (found[2] and found[2] not in ELEMENTS):
        raise UserError(
            f"unknown constraint '{text}'",
            where,
            hint=f"container({', '.join(ELEMENTS)}) with a container of {', '.join(CONTAINERS)}",
        )
    return Constraint(text, found[1], found[2] or "")


def _line(op: OpText, text: str, where: Location, variables: dict[str, Constraint]) -> None:
    word, _, rest = text.partition(" ")
    rest = rest.strip() if word != "example" else rest.lstrip(" ")
    match word:
        case "where":
            for part in _split(rest):
                name, _, constraint = (p.strip() for p in part.partition(":"))
                variables[name] = _constraint(constraint, where)
        case "attr":
            op.attributes.append(_attribute(rest, where))
        case "region":
            op.regions += rest.split()
        case "traits":
            op.traits += rest.split()
        case "rule":
            op.rule = rest
        case "loops":
            op.loops = " ".join(rest.split())
            _check_loops(op, where)
        case "form":
            op.form = rest.split()
        case "domain":
            _domain(op, rest, where)
        case "error":
            op.errors += [_error(part, where) for part in _split(rest)]
        case "at":
            op.points += [_point(op, part, where) for part in _split(rest)]
        case "function":
            op.function = rest
        case "doc":
            op.doc = rest
        case "given":
            op.given = rest
        case "example":
            op.example = rest
        case _:
            raise UserError(f"unknown word '{word}'", where, hint=", ".join(WORDS))


def _check_loops(op: OpText, where: Location) -> None:
    try:
        loops = read_loops(op.loops)
    except ValueError as error:
        raise UserError(str(error), where, hint="loops r@axes p -> p with r reduction") from None
    known = {a.name for a in op.attributes}
    if missing := sorted(loops.attributes - known):
        raise UserError(f"op {op.name} has no attribute '{missing[0]}' above this line", where)
    if not loops.repeated and len(loops.operands) != len(op.operands):
        raise UserError(f"op {op.name} has {len(op.operands)} operands", where)
    if len(loops.results) != len(op.results):
        raise UserError(f"op {op.name} has {len(op.results)} results", where)


def _attribute(text: str, where: Location) -> AttributeText:
    found = _ATTRIBUTE.match(text)
    if found is None or (found["kind"] not in KINDS and not found["kind"].startswith("enum(")):
        raise UserError("expected: attr name: kind [?] [= default]", where, hint="kinds: " + ", ".join(KINDS))
    return AttributeText(found["name"], found["kind"], found["default"], bool(found["optional"]))


def _number(text: str, where: Location) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"'{text}' is not a number", where, hint="such as -0.5, 1e-3, inf or nan") from None


def _domain(op: OpText, text: str, where: Location) -> None:
    """`lhs: 0.1..4  rhs: -4..4 ordinary  offsets: 0..9 rising`."""
    at = 0
    while at < len(text):
        found = _DOMAIN.match(text, at)
        if found is None:
            raise UserError(
                f"expected 'operand: low..high [ordinary|rising]' at '{text[at:].strip()}'",
                where,
                hint="domain input: -1..1",
            )
        operand = next((o for o in op.operands if o.name == found[1]), None)
        if operand is None:
            raise UserError(
                f"op {op.name} has no operand '{found[1]}'",
                where,
                hint=", ".join(o.name for o in op.operands),
            )
        low, high = _number(found[2], where), _number(found[3], where)
        if not isfinite(low) or not isfinite(high) or low >= high:
            raise UserError(
                f"{found[2]}..{found[3]} is no range", where, hint="two numbers, the lesser first"
            )
        kind = (found[4] or "").strip()
        operand.domain = Domain(low, high, not kind, kind == "rising")
        at = found.end()


def _error(text: str, where: Location) -> tuple[str, float]:
    """`f32 1.5`."""
    element, _, ulps = text.partition(" ")
    if element not in COMPUTED_FLOATS or not ulps:
        raise UserError(f"expected 'element ulps', found '{text}'", where, hint="error f32 1.5, f64 1.1")
    error = _number(ulps, where)
    if not error >= 0.5:
        raise UserError(f"no rounding errs by only {ulps} units in the last place", where)
    return element, error


def _point(op: OpText, text: str, where: Location) -> tuple[tuple[float, ...], float]:
    """`-0.0 = -inf`, or with two operands `0 -1 = inf`."""
    given, equals, result = text.partition("=")
    numbers = tuple(_number(n, where) for n in given.split())
    if not equals or len(numbers) != len(op.operands):
        raise UserError(
            f"expected {len(op.operands)} numbers, '=' and the result, found '{text}'",
            where,
            hint="at 0 = -inf, 1 = 0",
        )
    return numbers, _number(result.strip(), where)


def _bind(op: OpText, variables: dict[str, Constraint], where: Location) -> None:
    for item in op.operands + op.results:
        if item.variable in variables:
            item.constraint = variables[item.variable]
    used = {i.variable for i in op.operands + op.results}
    for name in variables:
        if name not in used:
            raise UserError(f"type variable {name} is not used in the signature", where)


def _finish(op: OpText) -> None:
    for item in op.operands + op.results:
        if item.variable and item.constraint.text == "any":
            raise UserError(f"type variable {item.variable} has no 'where' line", op.location)
    if not op.doc:
        raise UserError(f"op {op.name} has no 'doc' line", op.location)
    if not op.example:
        raise UserError(f"op {op.name} has no 'example' line", op.location)
    if "math" in op.traits and {"f32", "f64"} - {element for element, _ in op.errors}:
        raise UserError(
            f"op {op.name} is of the math library, but does not say its error in f32 and f64",
            op.location,
            hint="error f32 1.5, f64 1.5",
        )
    if "flat" in op.traits and "stops" in op.traits:
        raise UserError(f"op {op.name} is either flat or stops gradients", op.location)
    if op.function and op.function != "none" and not op.function.isidentifier():
        raise UserError(f"'{op.function}' is no name of a function", op.location)
    if not op.form:
        for operand in op.operands:
            op.form += [",", f"${operand.name}"] if op.form else [f"${operand.name}"]
    op.attributes += [AttributeText(o.name, "i64", optional=True) for o in op.operands if o.static]
    attributes, operands = {a.name for a in op.attributes}, {o.name for o in op.operands}
    for operand in op.operands:
        if operand.counted and operand.counted not in attributes:
            raise UserError(f"no attribute {operand.counted} counts '{operand.name}'", op.location)
    if sum(o.variadic and not o.counted for o in op.operands) > 1:
        raise UserError(
            f"op {op.name} has several variadic operands that nothing counts",
            op.location,
            hint="inits: any...carried, with 'attr carried: i64'",
        )
    try:
        parts = named(read_form(op.form))
    except ValueError as error:
        raise UserError(str(error), op.location) from None
    typed = operands | {r.name for r in op.results}
    known = {"value": operands | attributes, "types": typed}
    for part in parts:
        if part.kind in known and part.text not in known[part.kind]:
            what = "neither operand nor attribute" if part.kind == "value" else "neither operand nor result"
            raise UserError(f"the form names ${part.text}, which is {what}", op.location)
        if part.kind == "arguments" and part.start and part.start not in operands:
            raise UserError(f"the form names ${part.start}, which is no operand", op.location)
