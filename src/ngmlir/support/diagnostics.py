# SPDX-License-Identifier: Apache-2.0
"""Where, what, why, what next: the messages of the whole project.

Three kinds of failure and no more: `UserError` (the input is wrong), `Limit` (the input is right, this
version cannot do it yet) and `Bug` (ngmlir itself is wrong; carries a reproducer).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class Location(NamedTuple):
    """A place in a file; lines and columns count from 1, 0 means "not known"."""

    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def known(self) -> bool:
        return self.line > 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.known else "<unknown>"


UNKNOWN = Location()

Severity = Literal["error", "warning", "remark", "note"]


@dataclass(frozen=True)
class Diagnostic:
    """One message. `length` columns are underlined from `location` on; notes follow below it."""

    message: str
    location: Location = UNKNOWN
    severity: Severity = "error"
    hint: str = ""
    length: int = 1
    notes: tuple[Diagnostic, ...] = field(default=())

    def render(self, source: str | None = None) -> str:
        """The message as a person reads it, with the source line and a caret where the file can be read."""
        head = f"{self.location}: " if self.location.known else ""
        lines = [f"{head}{self.severity}: {self.message}"]
        text = _source_line(self.location, source)
        if text is not None:
            text, column = _excerpt(text, max(self.location.column, 1))
            # A tab before the caret keeps the caret under its character, whatever the tab width.
            pad = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
            carets = "^" * max(1, min(self.length, len(text) - column + 1))
            lines += [f"  {text}", f"  {pad}{carets}"]
        lines += [note.render(source) for note in self.notes]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


#: Longer source lines are shown only around the column.
_SHOWN = 200


def _excerpt(text: str, column: int) -> tuple[str, int]:
    """The part of a line to show, and where the column is in it."""
    if len(text) <= _SHOWN:
        return text, column
    start = max(0, min(column - 1 - _SHOWN // 2, len(text) - _SHOWN))
    stop = start + _SHOWN
    before, after = "..." if start else "", "..." if stop < len(text) else ""
    return before + text[start:stop] + after, column - start + len(before)


def _source_line(location: Location, source: str | None) -> str | None:
    if not location.known:
        return None
    if source is None:
        if not os.path.isfile(location.file):
            return None
        try:
            with open(location.file, encoding="utf-8", errors="replace") as stream:
                source = stream.read()
        except OSError:
            return None
    lines = source.split("\n")
    return lines[location.line - 1].rstrip("\r") if location.line <= len(lines) else None


class NgmlirError(Exception):
    """Base of all errors; `diagnostics` holds every message, in source order."""

    def __init__(
        self,
        message: str | Diagnostic | Sequence[Diagnostic],
        location: Location = UNKNOWN,
        *,
        hint: str = "",
        source: str | None = None,
    ):
        if isinstance(message, str):
            message = Diagnostic(message, location, hint=hint)
        items: Iterable[Diagnostic] = (message,) if isinstance(message, Diagnostic) else message
        self.diagnostics = tuple(items)
        super().__init__("\n".join(d.render(source) for d in self.diagnostics))


class UserError(NgmlirError, ValueError):
    """The input is wrong: the message says where, what, why and what to do next."""


class Limit(NgmlirError, NotImplementedError):
    """The input is right, but this version of ngmlir cannot do it on this target."""


class Bug(NgmlirError, AssertionError):
    """ngmlir broke its own rules; the message names the file that reproduces it."""
