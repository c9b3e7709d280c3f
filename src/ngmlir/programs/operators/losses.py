# SPDX-License-Identifier: Apache-2.0
"""Losses: how far what a model gives is from what is right."""

from __future__ import annotations

from ... import numpy as np
from ...ir.types import IntegerType
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ..registry import operator
from .activations import below_largest

#: What the logarithm of 0 counts as.
LEAST_LOGARITHM = -1e20


def _check(x: Tensor, label: Tensor, soft_label: bool) -> None:
    shape = x.type.shape
    wanted = shape if soft_label else (*shape[:-1], 1)
    if label.type.shape != wanted:
        raise UserError(
            f"the label of {list(shape)} has the shape {list(wanted)}, not {list(label.type.shape)}"
        )
    if isinstance(label.element, IntegerType) == soft_label:
        kind = "probabilities" if soft_label else "classes, int64"
        raise UserError(
            f"labels are {kind} here, and these are {label.element}", hint="soft_label= says which they are"
        )


def _of_label(x: Tensor, label: Tensor, soft_label: bool) -> Tensor:
    """-sum of x over the last dimension, weighted with the label; or -x[label]."""
    if soft_label:
        return np.negative(np.sum(np.multiply(label, x), axis=-1, keepdims=True))
    return np.negative(np.take_along_axis(x, label, axis=-1))


@operator
def cross_entropy(x: Tensor, label: Tensor, *, soft_label: bool) -> Tensor:
    _check(x, label, soft_label)
    if soft_label:
        return _of_label(_logarithm(x), label, True)
    return _logarithm(np.take_along_axis(x, label, axis=-1), -1.0)


def _logarithm(x: Tensor, times: float = 1.0) -> Tensor:
    return np.multiply(np.maximum(np.log(x), LEAST_LOGARITHM), times)


@operator
def softmax_with_cross_entropy(logits: Tensor, label: Tensor, *, soft_label: bool) -> tuple[Tensor, Tensor]:
    _check(logits, label, soft_label)
    scores = below_largest(logits)
    return np.softmax(scores, axis=-1), _of_label(np.log_softmax(scores, axis=-1), label, soft_label)
