# SPDX-License-Identifier: Apache-2.0
"""Where, what, why, what next: the messages of the whole project.

Three kinds of failure and no more: `UserError` (the input is wrong), `Limit` (the input is right, this
version cannot do it yet) and `Bug` (ngmlir itself is wrong; carries a reproducer).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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


#: Longer messages lose their middle.
_LONGEST = 2000


@dataclass(frozen=True)
class Diagnostic:
    """One message. `length` columns are underlined from `location` on; notes follow below it."""

    message: str
    location: Location = UNKNOWN
    severity: Severity = "error"
    hint: str = ""
    length: int = 1
    notes: tuple[Diagnostic, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.message) > _LONGEST:  # it quotes a type or a name of the user's, who knows it
            half = _LONGEST // 2
            object.__setattr__(self, "message", f"{self.message[:half]} ... {self.message[-half:]}")

    def render(self, sources: Sources | None = None) -> str:
        """The message as a person reads it, with the source line and a caret where the text can be read."""
        sources = sources if sources is not None else Sources()
        head = f"{self.location}: " if self.location.known else ""
        lines = [f"{head}{self.severity}: {self.message}"]
        text = sources.line(self.location)
        if text is not None:
            text, column = _excerpt(text, max(self.location.column, 1))
            # A tab before the caret keeps the caret under its character, whatever the tab width.
            pad = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
            carets = "^" * max(1, min(self.length, len(text) - column + 1))
            # What a terminal would obey, or cannot write.
            text = "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
            lines += [f"  {text}", f"  {pad}{carets}"]
        lines += [note.render(sources) for note in self.notes]
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


#: Larger files are not read for the sake of a message.
_LARGEST = 1 << 24


class Sources:
    """The texts that messages speak of: those given by name, and files; each is split into lines once."""

    def __init__(self, texts: Mapping[str, str] | None = None):
        self.texts = dict(texts or {})
        self.lines: dict[str, list[str]] = {}

    def line(self, location: Location) -> str | None:
        """The line of a place; None where there is none to show."""
        if not location.known:
            return None
        lines = self.lines.get(location.file)
        if lines is None:
            text = self.texts.get(location.file)
            lines = self.lines[location.file] = (_read(location.file) if text is None else text).split("\n")
        return lines[location.line - 1].rstrip("\r") if location.line <= len(lines) else None


def _read(file: str) -> str:
    try:
        if os.path.isfile(file) and os.path.getsize(file) <= _LARGEST:
            with open(file, encoding="utf-8", errors="replace") as stream:
                return stream.read(_LARGEST)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        pass
    return ""


#: The default number of messages that are shown.
SHOWN_ERRORS = 20


def render_all(
    diagnostics: Sequence[Diagnostic], sources: Sources | None = None, limit: int = SHOWN_ERRORS
) -> list[str]:
    """The first `limit` messages (0 = all) as a person reads them, and how many more there are."""
    sources = sources if sources is not None else Sources()
    shown = diagnostics[:limit] if limit else diagnostics
    texts = [d.render(sources) for d in shown]
    if len(shown) < len(diagnostics):
        texts.append(f"note: {len(diagnostics) - len(shown)} more errors are not shown")
    return texts


class NgmlirError(Exception):
    """Base of all errors; `diagnostics` holds every message, in source order. `source` is the text that the first
    one speaks of, where that is no file. The words are put together when somebody reads them."""

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
        self.diagnostics = (message,) if isinstance(message, Diagnostic) else tuple(message)
        place = self.diagnostics[0].location.file if self.diagnostics else ""
        self.sources = {} if source is None else {place: source}
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(render_all(self.diagnostics, Sources(self.sources)))


class UserError(NgmlirError, ValueError):
    """The input is wrong: the message says where, what, why and what to do next."""


class Limit(NgmlirError, NotImplementedError):
    """The input is valid, but this version of ngmlir does not support it on this target."""


class Bug(NgmlirError, AssertionError):
    """A bug in ngmlir; the message names a file that reproduces it."""
