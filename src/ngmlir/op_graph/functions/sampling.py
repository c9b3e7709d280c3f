# SPDX-License-Identifier: Apache-2.0
"""Sampling of positions with given probabilities."""

from __future__ import annotations

from typing import Any

from ...ir.types import f32, f64
from ...ops import ng
from ..axes import Axis
from ..errors import IncompatibleAxesError, UserError, fail
from ..tensor import Tensor
from ..values import element_of
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import Positions, as_op, one_of
from .elementwise import maximum
from .random import draw
from .reductions import argmax


def categorical(
    logits: Any = None,
    axis: Positions = None,
    seed: int | None = None,
    *,
    probabilities: Any = None,
    dtype: Any = None,
) -> Tensor:
    """A position along an axis, drawn with the probabilities `softmax(logits, axis)`; a new one at every execution.

    The result has the other axes of the logits: one independent draw at each place. It is the position of the greatest of the
    logits with numbers of a Gumbel distribution added, so that logits may have any constant added to them, and those of -inf are
    never drawn (position 0 where all are -inf).

    Args:
        logits: logarithms of probabilities, up to a constant.
        axis: the axis of the positions, by name or number; without it the only axis other than N and REC.
        seed: equal seeds give equal draws; without one each call has a separate stream.
        probabilities: in place of the logits; they need not add up to 1.
        dtype: the elements of the result, int32 without it.

    Raises UserError for both and for neither of logits and probabilities, IncompatibleAxesError where no axis is given and
    there is not exactly one other than N and REC.
    """
    if (logits is None) == (probabilities is None):
        fail(UserError, "a draw needs logits or probabilities: one of the two", "ng.categorical(logits)")
    given = as_op(probabilities if logits is None else logits)
    along = _axis(given, axis)
    element = f64 if given.element is f64 else f32
    x = cast_elements(given, element)
    if logits is None:
        x = VERBS.log(x)
    # A draw of 0 would have an infinite logarithm.
    least = 2.0**-33 if element is f64 else 2.0**-25
    unit = maximum(draw(ng.RandomUniformOp, x.axes, element, seed), least, dtype=element)
    exponential = VERBS.negative(VERBS.log(unit))
    made = argmax(VERBS.subtract(x, VERBS.log(exponential)), reduction_axes=along)
    return made if dtype is None else cast_elements(made, element_of(dtype))


def _axis(x: Tensor, axis: Positions) -> Axis:
    chosen = one_of(x, None, axis)
    axes = x.axes.feature_axes() if chosen is None else x.axes.chosen(chosen)
    if len(axes) != 1:
        fail(
            IncompatibleAxesError,
            f"a position is drawn along one axis, not along ({', '.join(axes.names)})",
            "axis= says along which: ng.categorical(logits, axis=V)",
        )
    return x.axes[x.axes.index(axes[0])]
