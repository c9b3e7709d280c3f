# SPDX-License-Identifier: Apache-2.0
"""Numbers that are known when a program is compiled: what is computed of nothing but constants."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ops.interpreter import run
from ..support.lengths import is_open
from .errors import limit
from .lift import lift
from .node import Op, closure
from .order import schedule
from .regions import ControlOp, RegionParameter, within
from .replay import Replay
from .state import AssignableTensorOp
from .tensor import Tensor
from .user_ops import OpaqueOp

#: Values of more elements, or of more ops, are not looked at.
_MOST_ELEMENTS, _MOST_OPS = 64, 500


def known_value(value: Tensor) -> np.ndarray[Any, Any] | None:
    """What a small value is, where it is computed of constants; else None, as for one of a length that only a call says."""
    if is_open(value.type.shape) or prod(value.type.shape) > _MOST_ELEMENTS:
        return None
    ops = closure([value])
    if len(ops) > _MOST_OPS or any(_depends(op) for op in ops):
        return None
    with Op.saved_user_deps(), Op.all_ops(isolate=True), within(None):
        (found,) = run(lift([outside(value)]).module)
    return found


def outside(value: Tensor) -> Tensor:
    """A value that a loop or branch computes, computed outside of it. Limit where it follows from what differs from iteration to iteration."""
    ops = closure([value])
    if all(op.region is None for op in ops):
        return value
    if depends_on_parameters(value):
        limit(
            f"a length depends on what a loop computes: on {value.called}",
            "compute it before the loop",
            value.location,
        )
    with within(None):
        replay = Replay({op: op for op in ops if op.region is None})
        replay.run(schedule(ops))
        (found,) = replay.results([value])
    return found


def depends_on_parameters(value: Tensor) -> bool:
    """Whether a value follows from what differs from iteration to iteration of a loop."""
    return any(isinstance(op, RegionParameter) for op in closure([value]))


def known_integer(value: Tensor) -> int | None:
    """The known value of one element, as an integer."""
    found = known_value(value)
    return None if found is None or found.size != 1 else int(found.reshape(-1)[0])


def _depends(op: Op) -> bool:
    return isinstance(op, (AssignableTensorOp, RegionParameter, ControlOp, OpaqueOp))
