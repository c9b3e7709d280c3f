# SPDX-License-Identifier: Apache-2.0
"""Products of tensors."""

from __future__ import annotations

from typing import Any

from ..axes import AxesOrNames
from ..errors import IncompatibleAxesError, fail
from ..ragged import refuse_ragged
from ..tensor import Tensor
from ..verbs import VERBS
from .coerce import check_lengths, operand, result_element
from .elementwise import multiply


def dot(x: Any, y: Any, *, batch_axes: AxesOrNames = (), dtype: Any = None) -> Tensor:
    """Multiplies, and sums over all axes that both operands have, except `batch_axes`, which are kept.

    Axes of the result: the batch axes, those that only x has, those that only y has.
    """
    element = result_element(dtype, x, y, whole=True)
    x, y = operand(x, element), operand(y, element)
    if not x.axes or not y.axes:
        return multiply(x, y, dtype)
    batch = x.axes.chosen(batch_axes)
    common = [n for n in x.axes.names if n in y.axes.names]
    for axis in batch:
        if axis.name not in common:
            fail(
                IncompatibleAxesError,
                f"the batch axis {axis.name} must be in both operands",
                f"left ({', '.join(x.axes.names)}), right ({', '.join(y.axes.names)})",
            )
    check_lengths(x.axes, y.axes)
    contract = [n for n in common if n not in batch.names]
    refuse_ragged(
        [x.axes[x.axes.index(n)] for n in contract],
        "a product cannot sum over",
        "ng.sum(x * y, axis) gives a sum for each sequence, ng.sum(x * y, out_axes=()) that of all rows",
    )
    return VERBS.dot(
        x, y,
        lhs_contract=tuple(map(x.axes.index, contract)), rhs_contract=tuple(map(y.axes.index, contract)),
        lhs_batch=tuple(map(x.axes.index, batch)), rhs_batch=tuple(map(y.axes.index, batch)),
    )  # fmt: skip
