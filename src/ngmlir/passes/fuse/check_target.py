# SPDX-License-Identifier: Apache-2.0
"""Reports early, at the user's line, the ops that a target does not support."""

from __future__ import annotations

from ...decl.target_text import TargetText, load_target
from ...ir.core import Module, Op
from ...ir.types import TensorType, element_type, token
from ...ops.decompositions import DECOMPOSITIONS
from ...support.diagnostics import Diagnostic, Limit
from ...support.lengths import is_open
from ...support.target import Target


def check_target(module: Module, target: Target) -> Module:
    """Rejects ops of ng that the target's table in lowering/ does not list for their element type; changes nothing.

    Composite ops are accepted: `decompose` replaces them by others.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.exp %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.exp %x : tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
    """
    table = load_target(target.code)
    found = tuple(
        Diagnostic(f"{op.name} of {element} is not supported on target '{target.name}' yet", op.location)
        for op in module.walk()
        if (element := _unsupported(op, table)) is not None
    )
    found += tuple(
        Diagnostic(f"@{op.symbol} takes {value.type}, {why[0]}", op.location, hint=why[1])
        for op in module.ops
        if op.name == "func.func" and op.regions[0].blocks
        for value in op.block.args
        if isinstance(value.type, TensorType) and (why := _unknown_length(value.type, target))
    )
    if found:
        raise Limit(found)
    return module


def _unknown_length(type: TensorType, target: Target) -> tuple[str, str] | None:
    """The message and hint for a type with lengths that the target cannot compile for; else None."""
    if not type.static:
        return "whose length has no name", "run name-lengths first, or write a name: tensor<[N]x4xf32>"
    if target.has_thread_blocks and is_open(type.shape):
        return (
            f"but a program for {target.name} needs lengths as numbers",
            "write a number in its place, or call the program, which is compiled for the lengths that it is called with",
        )
    return None


def _unsupported(op: Op, table: TargetText) -> str | None:
    """The element type of an op for which the target does not support it, if so; else None."""
    # Tokens, which stand for asynchronous copies in flight, have no elements and need no code.
    types = [value.type for value in op.operands or op.results if value.type is not token]
    if not op.name.startswith("ng.") or op.name in DECOMPOSITIONS or not types:
        return None
    element = element_type(types[-1])
    return None if table.how(op.name, element) in ("legal", "library") else str(element)
