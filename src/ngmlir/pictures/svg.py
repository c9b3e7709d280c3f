# SPDX-License-Identifier: Apache-2.0
"""Drawings as SVG, with nothing but this file to make them."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ..support.diagnostics import Location
from .drawing import Drawing, reduced
from .layout import INSET, LINE, Placed, Point, placed, text_height

#: Of each kind of box, the colours inside and around.
COLOURS = {
    "input": ("#dbeafe", "#2563eb"),
    "state": ("#fef3c7", "#b45309"),
    "constant": ("#f3f4f6", "#9ca3af"),
    "op": ("#ffffff", "#374151"),
    "elementwise": ("#ecfdf5", "#059669"),
    "reduction": ("#fdf2f8", "#be185d"),
    "view": ("#f9fafb", "#6b7280"),
    "control": ("#f5f3ff", "#7c3aed"),
    "kernel": ("#fff7ed", "#c2410c"),
    "write": ("#fee2e2", "#dc2626"),
    "result": ("#e0e7ff", "#4338ca"),
}
_STYLE = (
    "font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 11px; "
    "max-width: 100%; height: auto; background: #ffffff"
)
_MARGIN = 10.0

#: Where a box leads to; '' for nowhere.
Link = Callable[[Location], str]


def svg_of(drawing: Drawing, link: Link = lambda place: "") -> str:
    """A drawing as an SVG element; boxes tell where they are from, and lead to what `link` says."""
    made = placed(reduced(drawing))
    lines: list[str] = []
    _draw(made, _MARGIN, _MARGIN, link, lines)
    width, height = made.width + 2 * _MARGIN, made.height + 2 * _MARGIN
    if note := made.drawing.note:
        height += LINE
        width = max(width, len(note) * 7)
        lines.append(text(_MARGIN, height - _MARGIN / 2, note, "#6b7280"))
    return framed(width, height, lines)


def framed(width: float, height: float, lines: list[str]) -> str:
    """An SVG element of a size that holds these lines."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" style="{_STYLE}">'
    )
    marker = (
        '<defs><marker id="ng-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker></defs>'
    )
    return "\n".join([head, marker, *lines, "</svg>"])


def text(
    x: float, y: float, content: str, colour: str = "#111827", anchor: str = "start", more: str = ""
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"{more}>{escape(content)}</text>'
    )


def _draw(made: Placed, left: float, top: float, link: Link, lines: list[str]) -> None:
    for arrow, route in zip(made.drawing.arrows, made.routes, strict=True):
        path = _curve([(x + left, y + top) for x, y in route])
        dashes = ' stroke-dasharray="3 3"' if arrow.order else ""
        lines.append(f'<path d="{path}" fill="none" stroke="#9ca3af"{dashes} marker-end="url(#ng-tip)"/>')
    for number, (box, (x, y, width, height)) in enumerate(zip(made.drawing.boxes, made.boxes, strict=True)):
        x, y = x + left, y + top
        fill, stroke = COLOURS.get(box.kind, COLOURS["op"])
        where = f" at {box.place}" if box.place.known else ""
        leads = link(box.place) if box.place.known else ""
        lines.append(f'<a href="{escape(leads)}">' if leads else "<g>")
        lines.append(f"<title>{escape(' | '.join(box.lines) + where)}</title>")
        lines.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" fill="{fill}" stroke="{stroke}"/>'
        )
        for i, line in enumerate(box.lines):
            weight = ' font-weight="bold"' if i == 0 else ""
            colour = "#111827" if i == 0 else "#4b5563"
            lines.append(text(x + width / 2, y + INSET + 9 + LINE * i, line, colour, "middle", weight))
        lines.append("</a>" if leads else "</g>")
        inner = made.inside.get(number)
        if inner is not None:
            _draw(inner, x + (width - inner.width) / 2, y + text_height(box), link, lines)


def _curve(points: list[Point]) -> str:
    """A smooth line that begins and ends straight down at each point."""
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in rest:
        if abs(nx - x) < 0.5:
            parts.append(f"L{nx:.1f} {ny:.1f}")
        else:
            middle = (y + ny) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return "".join(parts)
