# SPDX-License-Identifier: Apache-2.0
"""What a cross entropy is given as prediction and target, where that is likely to be a mistake."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.types import IntegerType
from ..ops import ng
from .axes import Axes
from .errors import UnmatchedAxesError, UserError, fail
from .fed_checks import FedCheck, shown
from .node import Op
from .source import user_location
from .tensor import Tensor
from .values import ConstantOp

#: Ops behind which numbers of any sign and size are still such, as far as can be seen without computing them.
_STILL = (
    ng.AddOp, ng.SubtractOp, ng.NegativeOp, ng.BroadcastOp, ng.CastAxesOp, ng.CastOp, ng.ReshapeOp, ng.TransposeOp,
    ng.SliceOp, ng.ConcatenateOp, ng.TanhOp,
)  # fmt: skip


@dataclass(frozen=True)
class Labels(FedCheck):
    """A cross entropy counts `source` as labels of the classes along `axis`: noted in its `schemas`."""

    def check(self, values: np.ndarray[Any, Any], length: int | None) -> None:
        """UserError for a label that is no class. Samples with negative labels are ignored."""
        classes = length
        if classes is not None and values.size and (greatest := values.max()) >= classes:
            fail(
                UserError,
                f"{self.source.called} holds the label {greatest}, but {self.axis.name} has the classes 0 to {classes - 1}",
                f"labels count from 0; set the length ({self.axis.name}.length = {int(greatest) + 1}), or give a negative label "
                "to what is to cost nothing",
            )


def labels_of(target: Tensor) -> Labels | None:
    """Where a target is the one-hot of a placeholder or a constant, these labels."""
    hot = shown(target)
    if hot.operation is not ng.OneHotOp:
        return None
    source = shown(hot.args[0])
    assert isinstance(hot, Tensor)
    if isinstance(source, Tensor) and (source.is_placeholder or isinstance(source, ConstantOp)):
        return Labels(source, hot.axes[0])
    return None


def check_target(y: Tensor, t: Tensor, normalized: Axes) -> None:
    """UnmatchedAxesError for labels where a distribution over the classes is meant: a target without their axes."""
    among = t.axes and normalized and t.axes.is_sub_set(y.axes)
    if not among or any(axis in t.axes for axis in normalized):
        return
    classes = ", ".join(normalized.names)
    integers = isinstance(t.element, IntegerType) or t.dtype.kind in "iu"
    what = "labels" if integers else "one number for each sample"
    fail(
        UnmatchedAxesError,
        f"the target has the axes ({', '.join(t.axes.names)}), which are {what}; a target is a distribution along {classes}",
        f"ng.one_hot({t.called}, axis) with the axis {classes} of the prediction makes one of labels",
    )


def warn_of_logits(y: Tensor, function: str) -> None:
    """A warning where a prediction is a sum of products, and so no distribution, whose logarithm would not be a number."""
    stack: list[Op] = [y]
    seen: set[Op] = set()
    while stack:
        op = stack.pop().forwarded
        if op in seen:
            continue
        seen.add(op)
        if op.operation is ng.DotOp:
            place = user_location()
            text = (
                f"the prediction {y.called} of this cross entropy is not a distribution: it is the result of a product ({op.location}), and "
                f"its logarithm may be no number; write ng.{function}(...) around it"
            )
            warnings.warn_explicit(text, UserWarning, place.file or "<unknown>", place.line)
            return
        if op.operation in _STILL:
            stack += op.args
        elif getattr(op, "is_alias", False):
            stack.append(op.aliased)  # type: ignore[attr-defined]
