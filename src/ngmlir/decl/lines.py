# SPDX-License-Identifier: Apache-2.0
"""What the readers of `lowering/` share: lines without comments, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..support.diagnostics import Diagnostic, Location, UserError


def entries(path: Path) -> Iterator[tuple[Location, str]]:
    """Each entry with the place where it starts; an indented line continues the one above it."""
    pending: tuple[Location, str] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].rstrip()
        if not text:
            continue
        if text[0].isspace() and pending is not None:
            pending = (pending[0], f"{pending[1]} {text.strip()}")
            continue
        if pending is not None:
            yield pending
        pending = (Location(str(path), number, len(text) - len(text.lstrip()) + 1), text.strip())
    if pending is not None:
        yield pending


def complaint(message: str, where: Location, hint: str = "") -> UserError:
    """An error at an entry."""
    return UserError(Diagnostic(message, where, hint=hint))
