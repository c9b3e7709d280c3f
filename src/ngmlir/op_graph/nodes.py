# SPDX-License-Identifier: Apache-2.0
"""Where something was made."""

from __future__ import annotations

from ..support.diagnostics import Location
from .source import user_location


class DebugInfo:
    """Knows the file and the line of the user's program that made it."""

    def __init__(self) -> None:
        self.location: Location = user_location()

    @property
    def filename(self) -> str:
        return self.location.file

    @property
    def lineno(self) -> int:
        return self.location.line

    @property
    def file_info(self) -> str:
        """File and line as debuggers and editors make clickable."""
        return f'File "{self.location.file}", line {self.location.line}'
