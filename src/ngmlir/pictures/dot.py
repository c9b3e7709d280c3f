# SPDX-License-Identifier: Apache-2.0
"""Drawings as text for Graphviz."""

from __future__ import annotations

from .drawing import Drawing
from .svg import COLOURS


def dot_of(drawing: Drawing) -> str:
    """A drawing in the DOT language; boxes with drawings inside are clusters. Nothing is left out."""
    lines = [
        "digraph {",
        '  node [shape=box, style="rounded,filled", fontname=monospace, fontsize=10]',
        "  compound=true",
    ]
    _write(drawing, "n", "  ", lines)
    return "\n".join([*lines, "}"]) + "\n"


def _write(drawing: Drawing, prefix: str, indent: str, lines: list[str]) -> None:
    for number, box in enumerate(drawing.boxes):
        fill, stroke = COLOURS.get(box.kind, COLOURS["op"])
        name = f"{prefix}{number}"
        label = quoted("\n".join(box.lines))
        place = f", tooltip={quoted(str(box.place))}" if box.place.known else ""
        if box.inside is not None and box.inside.boxes:
            lines.append(f"{indent}subgraph cluster_{name} {{")
            lines.append(f"{indent}  color={quoted(stroke)}")
            lines.append(
                f"{indent}  {name} [label={label}, color={quoted(stroke)}, fillcolor={quoted(fill)}{place}]"
            )
            _write(box.inside, f"{name}_", indent + "  ", lines)
            lines.append(f"{indent}}}")
        else:
            lines.append(
                f"{indent}{name} [label={label}, color={quoted(stroke)}, fillcolor={quoted(fill)}{place}]"
            )
    for arrow in drawing.arrows:
        style = " [style=dashed]" if arrow.order else ""
        lines.append(f"{indent}{prefix}{arrow.source} -> {prefix}{arrow.target}{style}")


def quoted(text: str) -> str:
    """A string of the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
