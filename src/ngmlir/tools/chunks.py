# SPDX-License-Identifier: Apache-2.0
"""`--split-input-file`: one file, several programs, parted by lines `// -----`."""

from __future__ import annotations

import re

MARK = "// -----"
#: The marker stands alone on its line; `// -----// IR Dump ...` is a comment like any other.
_MARK = re.compile(r"^[ \t]*// -----[ \t]*$")


def split(text: str) -> list[str]:
    """The programs in order. Each starts with as many empty lines as stand above it in the file, so every
    message about it has the line number that an editor shows."""
    chunks: list[list[str]] = [[]]
    for number, line in enumerate(text.split("\n"), 1):
        if _MARK.match(line):
            chunks.append([""] * number)
        else:
            chunks[-1].append(line)
    return ["\n".join(lines) for lines in chunks]


def join(texts: list[str]) -> str:
    """The programs in one text again."""
    return f"{MARK}\n".join(texts)
