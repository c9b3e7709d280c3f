# SPDX-License-Identifier: Apache-2.0
"""Reads `dialects/neighbours` and `lowering/neighbours`: what ops and passes that people know are called here.

ng.dot = linalg.matmul tosa.matmul
"ops here make their own results; leave it out" = tensor.empty
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from ..support.home import folder
from ..support.spelling import did_you_mean
from .lines import complaint, entries

_ENTRY = re.compile(r'(?:(?P<ours>[\w.-]+)|"(?P<advice>[^"]*)")\s*=\s*(?P<theirs>[\w.-]+(?:\s+[\w.-]+)*)$')
_OP = re.compile(r"\b[a-z]+\.\w+")


def read_neighbours(path: Path, ours: Collection[str] | None = None) -> Mapping[str, str]:
    """The hint for each name of another library; with `ours`, the names that are allowed on the left."""
    hints: dict[str, str] = {}
    for where, text in entries(path):
        found = _ENTRY.match(text)
        if found is None:
            raise complaint('expected: ours = theirs ..., or "what to do" = theirs ...', where)
        name: str | None = found["ours"]
        hint = found["advice"] if name is None else f"{name} {'computes' if '.' in name else 'does'} this"
        for known in [name] if name is not None else _OP.findall(hint):
            if ours is not None and known not in ours:
                raise complaint(f"there is no '{known}' here", where, did_you_mean(known, ours))
        for theirs in found["theirs"].split():
            if theirs in hints or theirs in (ours or ()):
                raise complaint(f"'{theirs}' has a meaning already", where)
            hints[theirs] = hint
    return hints


@cache
def op_neighbours() -> Mapping[str, str]:
    """`dialects/neighbours`."""
    return read_neighbours(folder("dialects") / "neighbours")


@cache
def pass_neighbours() -> Mapping[str, str]:
    """`lowering/neighbours`."""
    return read_neighbours(folder("lowering") / "neighbours")
