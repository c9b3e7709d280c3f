# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page without other files: pictures, tables, texts beside the lines of Python that they are from."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from ..ir.core import Module
from ..ir.printer import to_text
from ..pictures.shown import drawing
from ..pictures.svg import svg_of
from ..support.diagnostics import Location

#: Files of more lines show only those around the ones that ops are from.
_WHOLE, _AROUND = 400, 12
_PLACE = re.compile(r' loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)\)$|  ?loc\(unknown\)$')

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 0; color: #111827; background: #fff }
header { padding: 14px 22px; background: #f3f4f6; border-bottom: 1px solid #d1d5db }
h1 { font-size: 19px; margin: 0 0 6px } h2 { font-size: 16px; margin: 22px 0 8px }
main { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 20px; padding: 0 22px 40px }
pre { font: 12px/1.5 ui-monospace, 'DejaVu Sans Mono', Menlo, monospace; background: #f9fafb; border: 1px solid #e5e7eb;
  border-radius: 5px; padding: 8px; overflow: auto; margin: 0; max-height: 34em }
.side { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto }
.side pre { max-height: none }
.picture { overflow: auto; border: 1px solid #e5e7eb; border-radius: 5px; max-height: 46em }
table { border-collapse: collapse; font: 12px/1.5 ui-monospace, monospace } td, th { padding: 2px 10px; text-align: left }
td.n, th.n { text-align: right } tr:nth-child(even) { background: #f9fafb }
a { color: inherit; text-decoration: none } pre a:hover, table a:hover { background: #fde68a; text-decoration: underline }
.line { display: block; white-space: pre } .line:target { background: #fde68a } .number { color: #9ca3af; user-select: none }
summary { cursor: pointer; font-weight: 600; padding: 4px 0 } @media (max-width: 900px) { main { display: block } }
"""


class _Sources:
    """The files that ops are from, and where in the page their lines are."""

    def __init__(self, modules: Iterable[Module]):
        self.lines: dict[str, set[int]] = {}
        for module in modules:
            for function in module.ops:
                for op in function.walk():
                    if op.location.known:
                        self.lines.setdefault(op.location.file, set()).add(op.location.line)
        self.files = [file for file in self.lines if linecache.getlines(file)]

    def link(self, place: Location) -> str:
        """Where in the page a place is shown; '' where it is not."""
        if place.file not in self.lines or place.file not in self.files:
            return ""
        return f"#s{self.files.index(place.file)}-{place.line}"

    def html(self) -> str:
        parts: list[str] = []
        for number, file in enumerate(self.files):
            lines, used = linecache.getlines(file), self.lines[file]
            shown = {
                i
                for i in range(1, len(lines) + 1)
                if len(lines) <= _WHOLE or any(abs(i - u) <= _AROUND for u in used)
            }
            rows: list[str] = []
            for i in sorted(shown):
                if i - 1 not in shown and i > 1:
                    rows.append('<span class="line number">  \u22ee</span>')
                weight = ' style="font-weight:600"' if i in used else ""
                rows.append(
                    f'<span class="line" id="s{number}-{i}"{weight}><span class="number">{i:>4}  </span>{escape(lines[i - 1].rstrip())}</span>'
                )
            parts.append(f"<h2>{escape(file)}</h2><pre>{''.join(rows)}</pre>")
        return "".join(parts)


def page(report: Any) -> str:
    """The page of a report (`report.Report`, which uses this)."""
    sources = _Sources(report.modules.values())
    parts = [
        "<h2>Graph</h2>",
        f'<div class="picture">{svg_of(drawing(report.module), sources.link)}</div>',
    ]
    if report.memory is not None:
        picture = report.memory._repr_svg_()  # pyright: ignore[reportPrivateUsage]
        parts += ["<h2>Memory</h2>", f'<div class="picture">{picture}</div>']
    if report.kernels:
        parts += ["<h2>Kernels</h2>", _table(report, sources)]
        parts += [_folded(f"@{name}", escape(text)) for name, text in report.kernels.items()]
    parts.append("<h2>Stages</h2>")
    for name, module in report.modules.items():
        parts.append(_folded(name, _linked(to_text(module, locations=True, elide=64), sources)))
    if report.assembly:
        parts.append(_folded("machine code", escape(report.assembly)))
    title = escape(f"@{report.name}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>'
        f"<body><header><h1>{title}</h1><pre>{escape(report.summary)}</pre></header><main>"
        f'<div>{"".join(parts)}</div><div class="side">{sources.html()}</div></main></body></html>\n'
    )


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{content}</pre></details>"


def _linked(text: str, sources: _Sources) -> str:
    """A text with locations, whose lines lead to the lines that they are from."""
    lines: list[str] = []
    for line in text.splitlines():
        found = _PLACE.search(line)
        bare = escape(line[: found.start()] if found else line)
        link = sources.link(Location(found[1], int(found[2]), int(found[3]))) if found and found[1] else ""
        lines.append(f'<a href="{link}">{bare}</a>' if link else bare)
    return "\n".join(lines)


def _table(report: Any, sources: _Sources) -> str:
    rows: list[str] = []
    counts: dict[str, int] = {}
    places: dict[str, Location] = {}
    for kernel, place in report.launches:
        counts[kernel] = counts.get(kernel, 0) + 1
        places.setdefault(kernel, place)
    times = report.times
    for kernel in sorted(report.kernels, key=lambda k: -times.get(k, 0.0) * counts.get(k, 0)):
        place = places.get(kernel, Location())
        link = sources.link(place)
        where = escape(f"{place.file.rpartition('/')[2]}:{place.line}") if place.known else ""
        time = f"{times[kernel] * 1e6:.1f}" if kernel in times else ""
        rows.append(
            f'<tr><td>@{escape(kernel)}</td><td class="n">{counts.get(kernel, 0)}</td><td class="n">{time}</td>'
            f'<td><a href="{link}">{where}</a></td></tr>'
        )
    head = '<tr><th>kernel</th><th class="n">launches</th><th class="n">\u00b5s each</th><th>line</th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"
