# SPDX-License-Identifier: Apache-2.0
"""Reads `dialects/neighbours`: what ops of dialects that people know are called here.

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

_ENTRY = re.compile(r'(?:(?P<op>[\w.]+)|"(?P<advice>[^"]*)")\s*=\s*(?P<theirs>[\w.]+(?:\s+[\w.]+)*)$')
_OP = re.compile(r"\b[a-z]+\.\w+")


def read_neighbours(path: Path, ops: Collection[str] | None = None) -> Mapping[str, str]:
    """The hint for each op of another dialect; with `ops`, the names that may stand on the left."""
    hints: dict[str, str] = {}
    for where, text in entries(path):
        found = _ENTRY.match(text)
        if found is None:
            raise complaint('expected: op = other.op ..., or "what to do" = other.op ...', where)
        hint = found["advice"] or f"{found['op']} computes this"
        for op in _OP.findall(hint):
            if ops is not None and op not in ops:
                raise complaint(f"unknown op '{op}'", where, did_you_mean(op, ops))
        for theirs in found["theirs"].split():
            if theirs in hints or theirs in (ops or ()):
                raise complaint(f"'{theirs}' has a meaning already", where)
            hints[theirs] = hint
    return hints


@cache
def neighbours() -> Mapping[str, str]:
    """`dialects/neighbours`."""
    return read_neighbours(folder("dialects") / "neighbours")
