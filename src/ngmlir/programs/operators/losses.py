# SPDX-License-Identifier: Apache-2.0
"""Losses: how far what a model gives is from what is right."""

from __future__ import annotations

from collections.abc import Sequence

from ... import numpy as np
from ...ir.types import IntegerType
from ...op_graph.tensor import Tensor
from ...ops import ng
from ...support.diagnostics import UserError
from ...support.lengths import are_same, is_same
from ..definition import Context
from ..registry import operator
from .activations import below_largest, between, softplus
from .filling import drawn

#: What the logarithm of 0 counts as.
LEAST_LOGARITHM = -1e20


def _check(x: Tensor, label: Tensor, soft_label: bool) -> None:
    shape = x.type.shape
    wanted = shape if soft_label else (*shape[:-1], 1)
    if label.type.shape != wanted:
        raise UserError(
            f"the label of {list(shape)} has the shape {list(wanted)}, not {list(label.type.shape)}"
        )
    if soft_label and isinstance(label.element, IntegerType):
        hint = "soft_label=False takes the number of each row's class"
        raise UserError(f"labels are probabilities here, and these are {label.element}", hint=hint)


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


@operator
def hinge_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return _above(np.subtract(1, np.multiply(logits, _signed(labels))))


def _signed(labels: Tensor) -> Tensor:
    """-1 and 1 of 0 and 1."""
    return np.subtract(np.multiply(labels, 2), 1)


def _above(x: Tensor) -> Tensor:
    """The greater of x and 0; at 0 the gradient is 0."""
    return np.where(np.greater(x, 0), x, 0)


@operator
def huber_loss(x: Tensor, y: Tensor, *, delta: float) -> tuple[Tensor, Tensor]:
    residual = np.subtract(y, x)
    size = np.absolute(residual)
    near = np.multiply(np.square(residual), 0.5)
    far = np.multiply(np.subtract(size, 0.5 * delta), delta)
    return residual, np.where(np.less_equal(size, delta), near, far)


@operator
def modified_huber_loss(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    z = np.multiply(x, _signed(y))
    near = np.square(_above(np.subtract(1, z)))
    return z, np.where(np.less(z, -1), np.multiply(z, -4), near)


@operator
def smooth_l1_loss(
    x: Tensor, y: Tensor, inside: Tensor | None, outside: Tensor | None, *, sigma: float
) -> tuple[Tensor, Tensor]:
    if (inside is None) != (outside is None):
        raise UserError(
            "smooth_l1_loss takes both weights or none", hint="give InsideWeight and OutsideWeight"
        )
    difference = np.subtract(x, y) if inside is None else np.multiply(np.subtract(x, y), inside)
    size, square = np.absolute(difference), sigma * sigma
    near = np.multiply(np.square(difference), 0.5 * square)
    loss = np.where(np.less(size, 1 / square), near, np.subtract(size, 0.5 / square))
    loss = loss if outside is None else np.multiply(loss, outside)
    rows = x.type.shape[0]
    return difference, np.sum(np.reshape(loss, (rows, -1)), axis=1, keepdims=True)


@operator
def log_loss(predicted: Tensor, labels: Tensor, *, epsilon: float) -> Tensor:
    right = np.multiply(labels, np.log(np.add(predicted, epsilon)))
    wrong = np.multiply(np.subtract(1, labels), np.log(np.add(np.subtract(1, predicted), epsilon)))
    return np.negative(np.add(right, wrong))


@operator
def margin_rank_loss(first: Tensor, second: Tensor, label: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
    lost = np.add(np.negative(np.multiply(label, np.subtract(first, second))), margin)
    return np.astype(np.greater(lost, 0), lost.dtype), _above(lost)


@operator
def rank_loss(label: Tensor, left: Tensor, right: Tensor) -> Tensor:
    difference = np.subtract(left, right)
    return np.subtract(softplus(difference), np.multiply(label, difference))


@operator
def sigmoid_cross_entropy_with_logits(x: Tensor, label: Tensor) -> Tensor:
    return np.subtract(softplus(x), np.multiply(x, label))


@operator
def squared_l2_distance(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    difference = np.reshape(np.subtract(x, y), (x.type.shape[0], -1))
    return difference, np.sum(np.square(difference), axis=1, keepdims=True)


@operator
def label_smooth(x: Tensor, prior: Tensor | None, *, epsilon: float) -> Tensor:
    kept = np.multiply(x, 1 - epsilon)
    return np.add(kept, epsilon / x.type.shape[-1] if prior is None else np.multiply(prior, epsilon))


@operator
def hierarchical_sigmoid(
    x: Tensor, w: Tensor, label: Tensor, bias: Tensor, *, num_classes: int
) -> tuple[Tensor, Tensor]:
    """The code of class k is k + num_classes; without its first bit it is the path from the root. Node of level j: (code >> (j + 1)) - 1."""
    rows, longest = x.type.shape[0], (num_classes - 1).bit_length()
    if not are_same(label.type.shape, (rows, 1)):
        raise UserError(f"a row has one label: the shape [{rows}, 1], not {list(label.type.shape)}")
    codes = np.add(np.reshape(label, (rows, 1)), num_classes)
    levels = np.arange(longest)
    above = np.right_shift(codes, np.add(levels, 1))
    is_there = np.greater(above, 0)
    nodes = np.maximum(np.subtract(above, 1), 0)
    bits = np.astype(np.bitwise_and(np.right_shift(codes, levels), 1), x.dtype)
    scores = np.einsum("nd,njd->nj", x, np.take(w, nodes, axis=0))
    scores = between(
        np.add(scores, np.take(np.reshape(bias, (num_classes - 1,)), nodes, axis=0)), -40.0, 40.0
    )
    scores = np.where(is_there, scores, 0)
    # A level that a code does not have counts as log 2, as score 0 and bit 0 do.
    loss = np.subtract(softplus(scores), np.multiply(np.where(is_there, bits, 0), scores))
    return np.sum(loss, axis=1, keepdims=True), scores


@operator
def nce(
    input: Tensor,
    label: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sample_weight: Tensor | None,
    *,
    context: Context,
    num_total_classes: int,
    num_neg_samples: int,
    custom_neg_classes: Sequence[int],
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = label.type.shape
    if len(shape) != 2 or not is_same(shape[0], input.type.shape[0]):
        raise UserError(
            f"{input.type.shape[0]} rows have labels of the shape [rows, labels], not {list(shape)}"
        )
    rows, labels = shape
    if custom_neg_classes:
        samples = np.broadcast_to(np.asarray(list(custom_neg_classes)), (rows, len(custom_neg_classes)))
    else:
        u = drawn(ng.RandomUniformOp, context, [rows, num_neg_samples], seed)
        samples = np.astype(np.floor(np.multiply(u, float(num_total_classes))), np.int64)
    classes = np.concatenate([np.astype(label, np.int64), np.astype(samples, np.int64)], 1)
    scores = np.einsum("nd,njd->nj", input, np.take(weight, classes, axis=0))
    if bias is not None:
        scores = np.add(scores, np.take(np.reshape(bias, (num_total_classes,)), classes, axis=0))
    share = np.sigmoid(scores)
    noise = num_neg_samples / num_total_classes
    is_label = np.less(np.arange(classes.type.shape[1]), labels)
    chosen = np.where(
        is_label, np.divide(share, np.add(share, noise)), np.divide(noise, np.add(share, noise))
    )
    cost = np.negative(np.sum(np.log(chosen), axis=1, keepdims=True))
    if sample_weight is not None:
        cost = np.multiply(cost, np.reshape(sample_weight, (rows, 1)))
    return cost, share, classes


@operator
def kldiv_loss(x: Tensor, target: Tensor, *, reduction: str) -> Tensor:
    if not are_same(x.type.shape, target.type.shape):
        raise UserError(
            f"X and Target have one shape, not {list(x.type.shape)} and {list(target.type.shape)}"
        )
    counts = np.greater(target, 0)
    loss = np.multiply(target, np.subtract(np.log(np.where(counts, target, 1)), x))
    loss = np.where(counts, loss, 0)
    if reduction == "none":
        return loss
    if reduction == "batchmean":
        loss = np.sum(np.reshape(loss, (loss.type.shape[0], -1)), axis=1)
    return np.reshape(np.sum(loss) if reduction == "sum" else np.mean(loss), [1])
