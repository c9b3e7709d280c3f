# SPDX-License-Identifier: Apache-2.0
"""A report as one self-contained HTML page: pictures, tables, and texts next to the lines of Python that they come
from."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Any

from ..ir.core import Module
from ..ir.printer import to_text
from ..pictures.curves import curve
from ..pictures.drawing import Drawing
from ..pictures.shown import drawing
from ..pictures.svg import COLOURS, svg_of
from ..support.diagnostics import Location

#: Of files with more than this many lines, only the lines around those that ops come from are shown, with this many
#: lines of context.
_WHOLE, _AROUND = 400, 12
_PLACE = re.compile(r' loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)\)$|  ?loc\(unknown\)$')

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; color: #111827; background: #fff }
header { padding: 16px 24px; background: #f3f4f6; border-bottom: 1px solid #d1d5db }
h1 { font-size: 22px; margin: 0 0 8px } h2 { font-size: 18px; margin: 26px 0 4px } h3 { font-size: 14px; margin: 14px 0 4px }
p { margin: 4px 0 10px; color: #4b5563 }
.facts { display: flex; flex-wrap: wrap; gap: 10px } .facts div { background: #fff; border: 1px solid #d1d5db; border-radius: 6px;
  padding: 6px 14px } .facts b { display: block; font-size: 17px } .facts span { color: #4b5563; font-size: 13px }
main { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 24px; padding: 0 24px 40px }
pre { font: 12px/1.5 ui-monospace, 'DejaVu Sans Mono', Menlo, monospace; background: #f9fafb; border: 1px solid #e5e7eb;
  border-radius: 5px; padding: 8px; overflow: auto; margin: 0; max-height: 34em }
.side { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto }
.side pre { max-height: none }
.picture { overflow: auto; border: 1px solid #e5e7eb; border-radius: 5px; max-height: 46em }
.picture svg { max-width: none !important }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0 0 8px; font-size: 13px }
.legend i { display: inline-block; width: 14px; height: 11px; border: 1px solid; border-radius: 3px; margin-right: 5px }
table { border-collapse: collapse; font-size: 13px; width: 100% } td, th { padding: 3px 10px; text-align: left }
td:first-child { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 12px }
td.n, th.n { text-align: right } tr:nth-child(even) { background: #f9fafb }
.bar { display: inline-block; height: 9px; background: #f59e0b; border-radius: 2px; margin-right: 6px }
a { color: inherit; text-decoration: none } pre a:hover, table a:hover { background: #fde68a; text-decoration: underline }
table a { color: #1d4ed8 }
.line { display: block; white-space: pre } .line:target { background: #fde68a } .number { color: #9ca3af; user-select: none }
details details { margin-left: 16px } summary { cursor: pointer; font-weight: 600; padding: 4px 0 } @media (max-width: 900px) { main { display: block } }
"""

#: The name of each kind of box in the legend.
_LEGEND = {
    "input": "input",
    "state": "variable",
    "constant": "constant",
    "op": "other op",
    "elementwise": "elementwise op",
    "reduction": "reduction",
    "view": "same elements in another shape or order",
    "control": "control flow",
    "kernel": "kernel",
    "write": "assignment",
    "result": "result",
}

#: The description of each stage.
_STAGES = {
    "named": "the program as it was traced: tensors with named axes",
    "plain": "composite ops are decomposed, axis names are gone, constants are folded",
    "fused": "ops that run in one loop nest are grouped, and each group has a schedule",
    "kernels": "each group is a kernel: loops over tiles with loads, vector ops and stores",
    "planned": "every buffer has an address in one block of memory",
}


class _Sources:
    """The source files of ops, the one with most ops first, and the anchors of their lines in the page."""

    def __init__(self, modules: Iterable[Module]):
        self.lines: dict[str, set[int]] = {}
        ops: Counter[str] = Counter()
        for module in modules:
            for function in module.ops:
                for op in function.walk():
                    if op.location.known:
                        self.lines.setdefault(op.location.file, set()).add(op.location.line)
                        ops[op.location.file] += 1
        self.files = [file for file, _ in ops.most_common() if linecache.getlines(file)]

    def link(self, place: Location) -> str:
        """The anchor of a source line in the page; '' if it is not shown."""
        if place.file not in self.lines or place.file not in self.files:
            return ""
        return f"#s{self.files.index(place.file)}-{place.line}"

    def html(self) -> str:
        parts: list[str] = []
        for number, file in enumerate(self.files):
            lines, used = linecache.getlines(file), self.lines[file]
            first, last = min(used) - _AROUND, max(used) + _AROUND
            shown = {
                i
                for i in range(max(first, 1), min(last, len(lines)) + 1)
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
            name = escape(file.rpartition("/")[2])
            parts.append(f'<h3 title="{escape(file)}">{name}</h3><pre>{"".join(rows)}</pre>')
        return "".join(parts)


def page(report: Any) -> str:
    """The page of a report (`report.Report`, which uses this)."""
    sources = _Sources(report.modules.values())
    graph = drawing(report.module)
    parts: list[str] = []
    for name, values in report.curves.items():
        parts += [f"<h2>{escape(_capital(name))}</h2>", _picture(curve(values, "step"))]
    parts += [
        "<h2>Graph</h2>",
        "<p>The program as it was written, with its gradients. Click a box for its line of Python.</p>",
        _legend(graph),
        _picture(svg_of(graph, sources.link)),
    ]
    if report.kernels:
        parts += [
            "<h2>Kernels</h2>",
            "<p>What runs: each kernel is a group of ops of the graph, compiled as one loop nest.</p>",
            _table(report, sources),
        ]
        texts = "".join(_folded(f"@{name}", "", escape(text)) for name, text in report.kernels.items())
        parts.append(f"<details><summary>text of the kernels</summary>{texts}</details>")
    if report.memory is not None:
        parts += [
            "<h2>Memory</h2>",
            "<p>Temporary buffers: their addresses, from top to bottom, and the launches during which each is in use, from "
            "left to right. A buffer is labelled with the kernel that writes it.</p>",
            _picture(report.memory._repr_svg_()),
        ]
    parts += [
        "<h2>Stages</h2>",
        f"<p>The program after each group of passes, for ngopt to read.</p><pre>{escape(report.summary)}</pre>",
    ]
    for name, module in report.modules.items():
        parts.append(
            _folded(name, _STAGES[name], _linked(to_text(module, locations=True, elide=64), sources))
        )
    if report.assembly:
        parts.append(_folded("machine code", "", escape(report.assembly)))
    title = escape(report.title or f"@{report.name}")
    facts = "".join(f"<div><b>{escape(v)}</b><span>{escape(k)}</span></div>" for k, v in report.facts.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>'
        f'<body><header><h1>{title}</h1><div class="facts">{facts}</div></header><main>'
        f'<div>{"".join(parts)}</div><div class="side"><h2>Source</h2>{sources.html()}</div></main></body></html>\n'
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _picture(svg: str) -> str:
    return f'<div class="picture">{svg}</div>'


def _legend(graph: Drawing) -> str:
    """The colours that occur in a drawing, with their meaning."""
    kinds = graph.kinds()
    parts = [
        f'<span><i style="background:{fill};border-color:{stroke}"></i>{_LEGEND[kind]}</span>'
        for kind, (fill, stroke) in COLOURS.items()
        if kind in kinds
    ]
    return f'<div class="legend">{"".join(parts)}</div>'


def _folded(title: str, about: str, content: str) -> str:
    about = f"<p>{escape(about)}</p>" if about else ""
    return f"<details><summary>{escape(title)}</summary>{about}<pre>{content}</pre></details>"


def _linked(text: str, sources: _Sources) -> str:
    """A text with locations, whose lines link to the source lines that they come from."""
    lines: list[str] = []
    for line in text.splitlines():
        found = _PLACE.search(line)
        bare = escape(line[: found.start()] if found else line)
        link = sources.link(Location(found[1], int(found[2]), int(found[3]))) if found and found[1] else ""
        lines.append(f'<a href="{link}">{bare}</a>' if link else bare)
    return "\n".join(lines)


def _table(report: Any, sources: _Sources) -> str:
    """The kernels, those with the longest time first, with the share of time of each."""
    rows: list[str] = []
    shares = report.shares()
    most = max(shares.values(), default=0.0)
    for kernel in report.by_time():
        place, times = report.place_of(kernel), report.times
        link = sources.link(place)
        where = escape(f"{place.file.rpartition('/')[2]}:{place.line}") if place.known else ""
        where = f'<a href="{link}">{where}</a>' if link else where
        time, share = "", ""
        if kernel in times:
            time = f"{times[kernel] * 1e6:.1f}"
            width = 90 * shares[kernel] / most
            share = f'<span class="bar" style="width:{width:.0f}px"></span>{shares[kernel]:.1%}'
        rows.append(
            f'<tr><td>@{escape(kernel)}</td><td>{where}</td><td class="n">{report.count(kernel)}</td>'
            f'<td class="n">{time}</td><td>{share}</td></tr>'
        )
    head = (
        '<tr><th>kernel</th><th>source line</th><th class="n">launches</th><th class="n">\u00b5s per launch</th>'
        "<th>share of time</th></tr>"
    )
    return f"<table>{head}{''.join(rows)}</table>"
