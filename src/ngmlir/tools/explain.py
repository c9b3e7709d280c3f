# SPDX-License-Identifier: Apache-2.0
"""What one op or one pass is, in words: all of it from `dialects/`, `lowering/` and the pass itself."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent, wrap

from ..decl.pipeline_text import Pipelines, step_names
from ..decl.target_text import TargetText, load_target
from ..ir.core import Op
from ..ir.definition import ELEMENTS, EVERYWHERE, AttributeField, OpDefinition, Operand
from ..ir.forms import Part
from ..ir.types import bf16, f16, f32, f64, i1, i8, i16, i32, i64, index, ui8, ui16, ui32, ui64
from ..op_graph.control_gradients import CONTROL_GRADIENTS
from ..ops.decompositions import DECOMPOSITIONS
from ..ops.gradients import GRADIENTS, NO_GRADIENT
from ..ops.words import WORDS
from ..rewrite.contracts import contract_of
from ..rewrite.options import declared_options
from ..rewrite.pipeline import Passes
from ..support.diagnostics import UserError
from ..support.home import folder
from ..support.spelling import did_you_mean
from .lists import ops

Rows = Sequence[tuple[str, str]]


def help_op(name: str, width: int | None = None, words: Mapping[str, type[Op]] = WORDS) -> str:
    """All about the op `name`, or the list of the ops of a dialect; UserError for what is neither."""
    if name in words:
        definition = words[name].definition
        return _op(words[name], definition, _width(width)) if definition is not None else f"{name}\n"
    of_dialect = {full: op for full, op in words.items() if full.partition(".")[0] == name}
    if of_dialect:
        return ops(of_dialect)
    known = [*words, *{full.partition(".")[0] for full in words}]
    without = [full for full in words if full.partition(".")[2] == name]
    hint = f"did you mean {' or '.join(without)}?" if without else did_you_mean(name, known)
    raise UserError(f"unknown op '{name}'", hint=hint or "see ngopt --list-ops")


def help_pass(name: str, passes: Passes, pipelines: Pipelines, width: int | None = None) -> str:
    """All about the pass `name`, or the steps of a named pipeline; UserError for what is neither."""
    columns = _width(width)
    for entry in pipelines.entries:
        if entry.name == name:
            return "\n".join([f"{name}: a pipeline", *_filled(pipelines.expanded(entry.steps), columns), ""])
    if name not in passes:
        raise UserError(
            f"unknown pass '{name}'",
            hint=did_you_mean(name, [*passes, *pipelines.names], "see ngopt --list-passes"),
        )
    function = passes[name]
    contract = contract_of(function)
    text, before, examples = (inspect.getdoc(function) or "").partition("\nBefore:\n")
    inside = [e.name for e in pipelines.entries if name in step_names(e.steps)]
    rows = [
        ("stages", contract.stages),
        ("runs on", "the whole module" if contract.anchor == "module" else "each function separately"),
        ("targets", f"{contract.only} only" if contract.only else "all"),
        ("pipelines", ", ".join(inside) or "none"),
    ]
    options = [(option.assignment, option.help) for option in declared_options(function).values()]
    lines = [name]
    for paragraph in text.strip().split("\n\n"):
        lines += ["", *_filled(paragraph, columns)]
    lines += _section("Contract", rows, columns) + _section("Options", options, columns)
    return "\n".join(lines) + "\n" + (f"\n{before.strip()}\n{examples.rstrip()}\n" if examples else "")


#: What tensors, tiles and buffers hold.
_ELEMENT_TYPES = (f16, bf16, f32, f64, i8, i16, i32, i64, ui8, ui16, ui32, ui64, index, i1)


# -- ops -------------------------------------------------------------------------------------------------------------


def _op(op: type[Op], d: OpDefinition, width: int) -> str:
    takes = ", ".join(f"{o.name}{'...' if o.variadic else ''}" for o in d.operands)
    gives = ", ".join(f"{r.name}{'...' if r.variadic else ''}" for r in d.results)
    lines = [f"{d.name}({takes}){f' -> {gives}' if gives else ''}", "", *_filled(d.doc, width)]
    lines += _section("Operands", [(o.name, _constraint(o)) for o in d.operands], width)
    lines += _section(
        "Attributes", [(f"{a.name}: {a.kind.replace('|', ' | ')}", _presence(a)) for a in d.attributes], width
    )
    lines += _section("Results", [(r.name, _constraint(r)) for r in d.results], width)
    lines += _section("Regions", [(name, "") for name in d.regions], width)
    lines += ["", "Form", f"  {_form(d)}"]
    lines += _section("Numbers", list(_numbers(d)), width)
    lines += _section("Traits", [(", ".join(sorted(d.traits)), "")] if d.traits else [], width)
    lines += ["", "Example", indent(d.example, "  ")]
    lines += _section("Gradient", [(_gradient(op, d), "")], width)
    lines += _section("Targets", list(_targets(d)), width)
    return "\n".join(lines) + "\n"


def _constraint(operand: Operand) -> str:
    """`T: tensor(float): f16, bf16, f32, f64`."""
    c = operand.constraint
    words = "any number of " if operand.variadic else ""
    words += f"{operand.variable}: {c.text}" if operand.variable else c.text
    accepts = ELEMENTS.get(c.element)
    held = [str(t) for t in _ELEMENT_TYPES if accepts and accepts(t)]
    return f"{words}: {', '.join(held)}" if len(held) > 1 else words


def _presence(field: AttributeField) -> str:
    if field.default is not None:
        return f"= {field.default}"
    return "optional" if field.optional else "required"


def _form(d: OpDefinition) -> str:
    if "function" in d.traits:
        clauses = (
            f" or {d.name} @name {' '.join(f'{word}(...)' for word in d.form)} {{ body }}" if d.form else ""
        )
        return f"{d.name} @name(%argument: type, ...) -> type attributes {{...}} {{ body }}{clauses}"
    results = ", ".join(f"%{r.name}{'...' if r.variadic else ''}" for r in d.results)
    words = _words(d, d.parts)
    if not d.states_types:
        words += [*_dictionary(d), *([":", "types"] if d.operands or d.results else [])]
    text = f"{f'{results} = ' if results else ''}{' '.join([d.name, *words])}"
    text = re.sub(r" ([,\])\[(])", r"\1", text)
    text = re.sub(r"([\[(]) ", r"\1", text)
    return text + "".join(f" {word} {{ ... }}" for word in ["", *d.regions[1:]][: len(d.regions)]).replace(
        "  ", " "
    )


def _words(d: OpDefinition, parts: Sequence[Part]) -> list[str]:
    words: list[str] = []
    for part in parts:
        match part.kind:
            case "word":
                words.append(part.text)
            case "value":
                operand = d.operand(part.text)
                counted = f"*{operand.counted}" if operand is not None and operand.counted else ""
                words.append(f"%{part.text}{counted}" if operand is not None else part.text)
            case "arguments":
                words.append(
                    f"%{part.text}"
                    + (": type" if part.typed else "")
                    + f" = %{part.start}, ..." * bool(part.start)
                )
            case "types":
                words.append(f"type-of-{part.text}")
            case "group":
                words += ["{", *_words(d, part.parts), "}?"]
            case _:
                words += _dictionary(d)
    return words


def _dictionary(d: OpDefinition) -> list[str]:
    """The attributes that the form does not show by other means."""
    rest = [f"{a.name} = ..." for a in d.attributes if a.name not in d.shown]
    return [f"{{{', '.join(rest)}}}"] if rest else []


def _numbers(d: OpDefinition) -> Iterator[tuple[str, str]]:
    """The domain of the op, its largest error, and its results at special points."""
    for operand in d.operands:
        domain = operand.domain
        if domain != EVERYWHERE:
            special = "" if domain.special else ", rising" if domain.rising else ", ordinary numbers only"
            yield f"{operand.name}", f"{domain.low:g} to {domain.high:g}{special}"
    if d.errors:
        texts = [f"{element} {ulps:g}" for element, ulps in d.errors]
        yield "error", f"at most {', '.join(texts)} units in the last place"
    for given, result in d.points:
        yield f"at {', '.join(f'{n:g}' for n in given)}", f"gives {result:g}"


def _gradient(op: type[Op], d: OpDefinition) -> str:
    if d.name in GRADIENTS or op in CONTROL_GRADIENTS:
        return "defined, also for higher derivatives"
    if d.name in NO_GRADIENT:
        return "none: " + ("the derivative is zero" if "flat" in d.traits else "stopped by definition")
    return "none"


def _targets(d: OpDefinition) -> Iterator[tuple[str, str]]:
    """How each target of lowering/ computes the op."""
    composite = d.name in DECOMPOSITIONS
    for path in sorted(folder("lowering").glob("*.target")):
        table = load_target(path.stem)
        if table.ops.keys() & {d.name}:
            ways = _ways(table, d.name)
            yield path.stem, f"{'by decomposition; ' if composite else ''}{ways}"
        elif composite:
            yield path.stem, "by decomposition"
        elif any(name.startswith(f"{d.dialect}.") for name in table.ops):
            yield path.stem, "not supported yet"
        else:
            yield path.stem, "always supported (structure of programs and kernels)"
    yield "numpy", "the reference for all targets"


_HOW = {
    "legal": "by the code generator",
    "library": "by the math library (lowering/math)",
    "refused": "not supported yet",
}


def _ways(table: TargetText, name: str) -> str:
    """The entries for an op, those that others decide over left out."""
    shown: list[str] = []
    seen: set[str] = set()
    for entry in table.ops[name]:
        elements = [e for e in entry.elements if e not in seen and "element" not in seen]
        seen |= set(elements)
        if elements:
            kinds = ", ".join("any element" if e == "element" else e for e in elements)
            shown.append(f"{kinds}: {_HOW[entry.how]}")
    return "; ".join(shown)


# -- text ------------------------------------------------------------------------------------------------------------


def _width(given: int | None) -> int:
    """Columns to fill: those of the terminal, but lines that are easy to read."""
    return max(40, min(given or shutil.get_terminal_size().columns, 100))


def _filled(text: str, width: int, margin: str = "") -> list[str]:
    return wrap(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _section(title: str, rows: Rows, width: int) -> list[str]:
    """A heading, and rows of a name and its description; nothing for no rows."""
    if not rows:
        return []
    lines = ["", title]
    column = min(max(len(name) for name, _ in rows), width // 2)
    for name, text in rows:
        if not text:
            lines += _filled(name, width, "  ")
            continue
        filled = _filled(text, width - column - 4)
        if len(name) > column:
            lines += _filled(name, width, "  ")
        else:
            lines.append(f"  {name:{column}}  {filled.pop(0)}".rstrip())
        lines += [" " * (column + 4) + line for line in filled]
    return lines
