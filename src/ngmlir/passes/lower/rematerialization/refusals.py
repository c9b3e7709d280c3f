# SPDX-License-Identifier: Apache-2.0
"""The error where no recomputation keeps a function within its limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.core import Op, callee, op_name
from ....support.diagnostics import Diagnostic, UserError
from .keeping import LimitExceeded
from .steps import Step, StoredValue

#: How many of the largest values the error names.
_NAMED = 3


def refusal(stuck: LimitExceeded, steps: Sequence[Step], limit: int, size: int, least: int) -> UserError:
    """The error, where `size` is needed without a limit and `least` can be held: at the op that alone needs more than the limit, or at the
    step where nothing more can be recomputed."""
    largest = max(steps, key=lambda step: step.needed)
    alone = largest.needed > limit
    step = largest if alone else stuck.step
    there = [*largest.reads, *largest.gives] if alone else stuck.there
    amount = largest.needed if alone else stuck.needed
    why = "at once"
    if not alone:
        gaps = limit - int(stuck.limit)
        why = f"at this point, of which no more can be computed again, with {gaps:,} in gaps between buffers"
    message = f"{_called(step.op)} needs {amount:,} bytes of memory {why}; the limit is {limit:,}"
    notes = [
        Diagnostic(f"{held.bytes:,} bytes: {_name(held)}", held.maker.op.location, severity="note")
        for held in sorted(there, key=lambda held: -held.bytes)[:_NAMED]
        if held.bytes
    ]
    share = f"{math.ceil(100 * least / size)} % of what is needed without a limit"
    hint = f"a limit of {least:,} bytes can be held, {share}; smaller batches need less"
    return UserError(Diagnostic(message, step.op.location, hint=hint, notes=tuple(notes)))


def _called(op: Op) -> str:
    return f"kernel @{callee(op)}" if callee(op) else op_name(op)


def _name(held: StoredValue) -> str:
    type, name = held.value.type, held.value.name
    return f"%{name}, {type}" if name else f"{type} of {_called(held.maker.op)}"
