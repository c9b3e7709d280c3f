# SPDX-License-Identifier: Apache-2.0
"""Where errors of models are: at the line that the exporter noted, else at the user's call; nodes are named in the message."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from ...op_graph.source import user_location
from ...support.diagnostics import Bug, Diagnostic, Location, NgmlirError


@contextmanager
def at_the_users_line() -> Generator[None]:
    """Errors without a line get that of the call into ngmlir that is being carried out."""
    try:
        yield
    except Bug:
        raise
    except NgmlirError as error:
        if all(d.location.known for d in error.diagnostics):
            raise
        place = user_location()
        found = type(error)([_placed(d, place) for d in error.diagnostics])
        found.sources = error.sources
        raise found.with_traceback(error.__traceback__) from error.__cause__


def _placed(diagnostic: Diagnostic, place: Location) -> Diagnostic:
    where = diagnostic.location
    if where.known:
        return diagnostic
    # Where no line is known, a node is its own place.
    named = not where.file or diagnostic.message.startswith(where.file)
    message = diagnostic.message if named else f"{where.file}: {diagnostic.message}"
    return replace(diagnostic, message=message, location=place)
