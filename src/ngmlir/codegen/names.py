# SPDX-License-Identifier: Apache-2.0
"""The LLVM names of values and blocks of a kernel, and the names of loops in debug info.

LLVM ignores names, so kernels that differ in names only have the same code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.core import Op, Value
from ..ops import ng, tile

_ODD = re.compile(r"[^\w$]", re.ASCII)
#: Names that code generation generates; all its other names contain a dot.
_OWN = re.compile(r"v\d+|entry", re.ASCII)


def plain(name: str) -> str:
    """A name without characters that LLVM would have to quote, and without dots; "" if there is none."""
    clean = _ODD.sub("_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean


def argument_names(values: Sequence[Value]) -> list[str]:
    """Unique names for the parameters of a function, after the values."""
    names: list[str] = []
    for i, value in enumerate(values):
        name = plain(value.name) or f"b{i}"
        names.append(f"b{i}.{name}" if name in names or _OWN.fullmatch(name) else name)
    return names


def stem_of(op: Op) -> str:
    """The prefix of the names of the values that an op is lowered to: the name of its result, if it has one."""
    name = plain(op.results[0].name) if op.results else ""
    return f"{name}." if name else "v"


def index_name(op: tile.ForOp) -> str:
    """The name of a loop's index."""
    return plain(op.body.block.args[0].name) or "i"


def loop_name(op: Op) -> str:
    """The name of a loop in debug info; "" for other ops."""
    match op:
        case tile.ForOp():
            return f"{index_name(op)}_loop"
        case ng.WhileOp():
            return "while_loop"
        case _:
            return ""
