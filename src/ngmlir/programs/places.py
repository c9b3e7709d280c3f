# SPDX-License-Identifier: Apache-2.0
"""Places of what is made and said: the lines of operators."""

from __future__ import annotations

from ..op_graph.answers import locate
from ..op_graph.source import located
from ..support.diagnostics import NgmlirError


class at(located):
    """Ops that are made inside are from this place, and errors that know no place are about it."""

    __slots__ = ()

    def __exit__(self, *raised: object) -> None:
        if isinstance(raised[1], NgmlirError):
            locate(raised[1])
        super().__exit__(*raised)
