# SPDX-License-Identifier: Apache-2.0
"""How often a loop runs, where its condition follows from constants: what it follows from is computed while the loop is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..ops.interpreter import run
from .lift import lift
from .state import AssignableTensorOp
from .tensor import Tensor

Array = np.ndarray[Any, Any]


def iterations(
    condition: Tensor,
    after: Sequence[Tensor],
    others: Sequence[Tensor],
    parameters: Sequence[AssignableTensorOp],
    begins: Sequence[Array],
) -> Iterator[tuple[bool, list[Array], list[Array]]]:
    """For each iteration: whether the condition holds before it, the values of the parameters before it, and the values of `others` in it.

    `after` are the values of the first parameters after an iteration; the other parameters are constant. The iterator is
    infinite: the caller stops where the condition fails, or at its limit.
    """
    module = lift([condition, *after, *others], parameters).module
    values = list(begins)
    while True:
        holds, *made = run(module, *values)
        yield bool(holds.reshape(-1)[0]), values, made[len(after) :]
        values = [*made[: len(after)], *values[len(after) :]]
