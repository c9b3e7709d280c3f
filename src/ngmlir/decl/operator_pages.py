# SPDX-License-Identifier: Apache-2.0
"""What the entries of operators say, as a page of Markdown and as JSON: docs/operators.md, and `ngopt --doc-ops`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from .operator_text import AttributeEntry, OperatorEntry, Slot

_HEAD = """\
# Operators of programs

Generated from `dialects/program.operators` by `python -m ngmlir.decl.generate`; do not edit. `ngopt --doc-ops=md` prints this page,
`ngopt --doc-ops=json` the same for programs; both with the operators that packages register.

A slot takes one variable; "list" marks one that takes several, "optional" one that may be empty, and "for the gradient" a result that
exists for it. An attribute without a default has to be given. Every operator may also have `op_role`, `op_role_var`, `stage`, and `library`, `place` and `kernel` (docs/operators-of-your-own.md).
"""


def markdown(entries: Iterable[OperatorEntry]) -> str:
    """The page of all operators, by name."""
    return _HEAD + "".join(_section(entry) for entry in sorted(entries, key=lambda e: e.type))


def _section(entry: OperatorEntry) -> str:
    lines = ["", f"## {entry.type}", "", entry.doc, "", "| | name | kind | meaning |", "|---|---|---|---|"]
    for side, slots in (("in", entry.inputs), ("out", entry.outputs)):
        lines += [f"| {side} | `{slot.name}` | {_marks(slot)} | {_cell(slot.doc)} |" for slot in slots]
    lines += [f"| attr | `{a.name}` | {_cell(kind_of(a))} | {_cell(a.doc)} |" for a in entry.attributes]
    return "\n".join([*lines, "", _gradient(entry), ""])


def _marks(slot: Slot) -> str:
    marks = (("list", slot.many), ("optional", slot.optional), ("for the gradient", slot.intermediate))
    return ", ".join(mark for mark, holds in marks if holds)


def kind_of(entry: AttributeEntry) -> str:
    """The type of an attribute, its range and its default: `int at least 0, default 1`."""
    limits = "".join(f" {limit}" for limit in entry.limits)
    return entry.type + limits + ("" if entry.required else f", default {default_text(entry)}")


def default_text(entry: AttributeEntry) -> str:
    """The default of an attribute, as Python writes it; of an element type its name."""
    return str(entry.default) if entry.type == "dtype" else repr(entry.default)


def _gradient(entry: OperatorEntry) -> str:
    if entry.gradient is None:
        return "Gradient: of all inputs that hold floats."
    if not entry.gradient:
        return "Gradient: none."
    return f"Gradient: of {', '.join(f'`{name}`' for name in entry.gradient)}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def json_text(entries: Iterable[OperatorEntry]) -> str:
    """A JSON list of all operators, by name."""
    found = [_record(entry) for entry in sorted(entries, key=lambda e: e.type)]
    return json.dumps(found, indent=1) + "\n"


def _record(entry: OperatorEntry) -> dict[str, Any]:
    return {
        "type": entry.type,
        "comment": entry.doc,
        "inputs": _slots(entry.inputs),
        "outputs": _slots(entry.outputs),
        "attrs": [
            {
                "name": a.name,
                "type": a.type,
                "comment": a.doc,
                "required": a.required,
                "default": a.default,
                "limits": [{"kind": limit.kind, "bound": limit.bound} for limit in a.limits],
            }
            for a in entry.attributes
        ],
        "gradient": entry.gradient,
    }


def _slots(slots: Sequence[Slot]) -> list[dict[str, Any]]:
    return [
        {
            "name": slot.name,
            "comment": slot.doc,
            "duplicable": slot.many,
            "dispensable": slot.optional,
            "intermediate": slot.intermediate,
        }
        for slot in slots
    ]
