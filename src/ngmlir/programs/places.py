# SPDX-License-Identifier: Apache-2.0
"""Places of what is made and said: the lines of operators."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..op_graph.answers import locate
from ..op_graph.source import located
from ..support.diagnostics import Location, NgmlirError


@contextmanager
def at(location: Location) -> Generator[None]:
    """Ops that are made inside are from this place, and errors that know no place are about it."""
    with located(location):
        try:
            yield
        except NgmlirError as error:
            locate(error)
            raise
