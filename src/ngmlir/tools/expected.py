# SPDX-License-Identifier: Apache-2.0
"""`--verify-diagnostics`, with mlir-opt's meaning: the messages of a run are those that its text announces.

%r = ng.add %a, %b : f32   // expected-error {{not defined}}
// expected-note@-1 {{...}}    also @+2, @above, @below, @unknown; -re: {{text with {{regular expressions}}}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..support.diagnostics import Diagnostic, Location, UserError

_DIRECTIVE = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<re>-re)?"
    r"\s*(?:@(?P<where>[+-][0-9]{1,9}|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}\s*$"
)


@dataclass
class Expected:
    """One announced message; line 0 = a message without a place."""

    severity: str
    line: int
    pattern: re.Pattern[str]
    text: str
    written: Location
    met: bool = False


def expectations(text: str, file: str, first_line: int = 1) -> list[Expected]:
    """What the comments of `text` announce, which may be a part of a file from `first_line` on."""
    lines = text.split("\n")
    found = [(number, _directive(line, number, file)) for number, line in enumerate(lines, first_line)]
    announcing = {number for number, match in found if match is not None}
    return [_expected(match, number, announcing, file) for number, match in found if match is not None]


def _directive(line: str, number: int, file: str) -> re.Match[str] | None:
    found = _DIRECTIVE.search(line)
    if found is None and (start := re.search(r"expected-(error|warning|remark|note)\b", line)):
        where = Location(file, number, start.start() + 1)
        raise UserError(
            "expected: expected-error@+1 {{text}}", where, hint="also @-1, @above, @below, @unknown"
        )
    return found


def _expected(found: re.Match[str], number: int, announcing: set[int], file: str) -> Expected:
    match found["where"]:
        case None:
            line = number
        case "unknown":
            line = 0
        case "above" | "below":
            # Several announcements may be together above or below the line that they refer to.
            step = 1 if found["where"] == "below" else -1
            line = number + step
            while line in announcing:
                line += step
        case offset:
            line = number + int(offset)
    text = found["text"]
    if found["re"]:
        parts = re.split(r"\{\{(.*?)\}\}", text)
        source = "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))
    else:
        source = re.escape(text)
    place = Location(file, number, found.start() + 1)
    try:
        pattern = re.compile(source)
    except (re.error, OverflowError) as error:
        raise UserError(f"not a regular expression: {error}", place) from None
    return Expected(found["severity"], line, pattern, text, place)


def compare(expected: Sequence[Expected], given: Iterable[Diagnostic], file: str) -> list[Diagnostic]:
    """The complaints: announced messages that did not come, and messages that nothing announced."""
    complaints = list[Diagnostic]()
    for diagnostic in _flat(given):
        line = diagnostic.location.line if diagnostic.location.file == file else 0
        for item in expected:
            if (
                not item.met
                and (item.severity, item.line) == (diagnostic.severity, line)
                and item.pattern.search(diagnostic.message)
            ):
                item.met = True
                break
        else:
            complaints.append(
                Diagnostic(f"unexpected {diagnostic.severity}: {diagnostic.message}", diagnostic.location)
            )
    complaints += [
        Diagnostic(f'expected {e.severity} "{e.text}" was not produced', e.written)
        for e in expected
        if not e.met
    ]
    return complaints


def _flat(given: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for diagnostic in given:
        yield diagnostic
        yield from _flat(diagnostic.notes)
