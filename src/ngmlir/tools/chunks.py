# SPDX-License-Identifier: Apache-2.0
"""`--split-input-file`: one file, several programs, parted by lines `// -----`."""

from __future__ import annotations

import re
from typing import NamedTuple

MARK = "// -----"
#: The marker is alone on its line; `// -----// IR Dump ...` is a comment like any other.
_MARK = re.compile(r"^[ \t]*// -----[ \t]*$")


class Chunk(NamedTuple):
    """One program, and the number of its first line in the file."""

    text: str
    line: int


def split(text: str) -> list[Chunk]:
    """The programs in order."""
    chunks: list[tuple[list[str], int]] = [([], 1)]
    for number, line in enumerate(text.split("\n"), 1):
        if _MARK.match(line):
            chunks.append(([], number + 1))
        else:
            chunks[-1][0].append(line)
    return [Chunk("\n".join(lines), number) for lines, number in chunks]


def join(texts: list[str]) -> str:
    """The programs in one text again."""
    return f"{MARK}\n".join(texts)
