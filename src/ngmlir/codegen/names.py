# SPDX-License-Identifier: Apache-2.0
"""What code calls the parts of a kernel: LLVM's names of values and blocks, and loops in debug info.

Names say nothing to LLVM, so kernels that differ in names only have the same code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.core import Op, Value
from ..ops import ng, tile

_ODD = re.compile(r"[^\w$]", re.ASCII)
#: The names that code generation gives itself; all others of its own have a dot in them.
_OWN = re.compile(r"v\d+|entry", re.ASCII)


def plain(name: str) -> str:
    """A name as LLVM spells it without quotes and dots; "" where there is none."""
    clean = _ODD.sub("_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean


def argument_names(values: Sequence[Value]) -> list[str]:
    """What the parameters of a function are called: like the values, each once."""
    names: list[str] = []
    for i, value in enumerate(values):
        name = plain(value.name) or f"b{i}"
        names.append(f"b{i}.{name}" if name in names or _OWN.fullmatch(name) else name)
    return names


def stem_of(op: Op) -> str:
    """What the values begin with that an op becomes: the name of its result, where it has one."""
    name = plain(op.results[0].name) if op.results else ""
    return f"{name}." if name else "v"


def index_name(op: tile.ForOp) -> str:
    """What a loop runs over."""
    return plain(op.body.block.args[0].name) or "i"


def loop_name(op: Op) -> str:
    """What tools call a loop; "" for what is none."""
    match op:
        case tile.ForOp():
            return f"{index_name(op)}_loop"
        case ng.WhileOp():
            return "while_loop"
        case _:
            return ""
