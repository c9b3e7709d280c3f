# SPDX-License-Identifier: Apache-2.0
"""Names that programs reserve: those of gradients, of nothing, and of values that no program declares."""

from __future__ import annotations

#: The name in a slot without a variable.
EMPTY = "@EMPTY@"
#: Begins a name that an operator may choose.
TEMPORARY = "@TEMP@"
GRADIENT = "@GRAD"
ZERO = "@ZERO"
#: Begins what the offsets of a ragged level are called, after the name of the variable: `x@LOD0` is the outermost level of x.
LEVEL = "@LOD"
#: The state of the random numbers of a scope: two ui64, the key and the counter.
RANDOM = "@RANDOM@"


def gradient_name(name: str) -> str:
    """What the gradient of a variable is called."""
    return name + GRADIENT


def offsets_name(name: str, level: int) -> str:
    """What the offsets of a level of a ragged variable are called; level 0 is the outermost one."""
    return f"{name}{LEVEL}{level}"


def offsets_names(name: str, levels: int) -> list[str]:
    """What the offsets of all levels of a ragged variable are called."""
    return [offsets_name(name, level) for level in range(levels)]


def contribution_name(name: str, number: int) -> str:
    """What one of several contributions to a gradient is called: `x@GRAD@RENAME@0`."""
    return f"{name}@RENAME@{number}"


def text(name: str | bytes) -> str:
    """A name that may come as bytes."""
    return name.decode("utf-8") if isinstance(name, bytes) else name


def forward_type(type: str) -> str:
    """The operator that one is the gradient of, or the gradient of a gradient; itself where it is none."""
    while type.endswith("_grad"):
        type = type.removesuffix("_grad")
    return type
