# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a program: variables that are kept for gradients, while what is computed on the way between them is computed again
(T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from ..support.diagnostics import Diagnostic, UserError
from .attributes import OpRole, completed
from .catalogue import REGISTRY
from .descriptions import BlockView
from .names import EMPTY


def mark_checkpoints(block: BlockView, names: Sequence[str]) -> None:
    """Puts an operator `recompute` behind each checkpoint, before gradients are appended. What is read behind a checkpoint is
    kept too; what comes after the last one is kept as ever.

    Raises UserError for a variable that does not exist, and for one that no operator of the block computes.
    """
    writers = {name: at for at, operator in enumerate(block.operators) for name in operator.writes}
    for name in names:
        variable = block.visible(name)
        if name not in writers:
            message = f"the checkpoint '{name}' is computed by no operator of block {block.index}"
            hint = "a checkpoint is the result of a layer; what is fed and parameters are kept in any case"
            raise UserError(Diagnostic(message, variable.location, hint=hint))
    last_read = {name: at for at, operator in enumerate(block.operators) for name in operator.reads}
    entry = REGISTRY.get("recompute").entry
    fields = completed(entry, {"op_role": int(OpRole.Backward)})
    ends = sorted({writers[name] for name in names})
    kept: list[str] = []
    for number, end in enumerate(ends):
        own = [name for name in names if writers[name] == end]
        crossing = [name for name, at in writers.items() if at <= end < last_read.get(name, -1)]
        new = [name for name in dict.fromkeys([*own, *crossing]) if name not in kept and _counts(block, name)]
        slots = {"X": new, "Kept": list(kept)} if kept else {"X": new}
        # Those before it are in the block by now.
        at = end + number + 1
        block.insert(at, "recompute", slots, {}, fields, block.operators[at - 1].location)
        kept += new


def _counts(block: BlockView, name: str) -> bool:
    return name != EMPTY and not block.visible(name).persistable
