# SPDX-License-Identifier: Apache-2.0
"""How good a model is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...op_graph.verbs import VERBS
from ...support.diagnostics import UserError
from ...support.lengths import are_same
from ..definition import require_integers
from ..registry import operator


@operator
def accuracy(out: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = out.type.shape[0]
    if not (are_same((rows, 1), label.type.shape) or are_same((rows,), label.type.shape)):
        raise UserError(
            f"the labels of {rows} rows have the shape [{rows}, 1], not {list(label.type.shape)}",
            hint="a row has the number of its class",
        )
    require_integers(label, "Label", "class")
    found = np.any(np.equal(indices, np.reshape(np.astype(label, indices.dtype), (rows, 1))), axis=-1)
    correct = np.reshape(np.sum(np.astype(found, np.int32), dtype=np.int32), [1])
    total = VERBS.count_like(out, [0], correct)
    return np.divide(np.astype(correct, np.float32), np.astype(total, np.float32)), correct, total


@operator
def auc(
    predict: Tensor,
    label: Tensor,
    tp: Tensor,
    fp: Tensor,
    tn: Tensor,
    fn: Tensor,
    *,
    curve: str,
    num_thresholds: int,
) -> tuple[Tensor, ...]:
    require_integers(label, "Label", "class")
    rows = predict.type.shape[0]
    inner = [i / (num_thresholds - 1) for i in range(1, num_thresholds - 1)]
    thresholds = numpy.asarray([-1e-7, *inner, 1 + 1e-7], numpy.float32)
    score = np.reshape(np.take(predict, [1], axis=1), (rows, 1))
    is_above = np.greater_equal(score, thresholds)
    is_right = np.reshape(np.not_equal(label, 0), (rows, 1))

    def counted(above: Tensor, right: Tensor, held: Tensor) -> Tensor:
        both = np.astype(np.logical_and(above, right), np.int64)
        return np.add(held, np.reshape(np.sum(both, axis=0), held.type.shape))

    tp, fn = counted(is_above, is_right, tp), counted(np.logical_not(is_above), is_right, fn)
    wrong = np.logical_not(is_right)
    fp, tn = counted(is_above, wrong, fp), counted(np.logical_not(is_above), wrong, tn)
    a, b, c, d = [np.reshape(np.astype(n, np.float64), (num_thresholds,)) for n in (tp, fp, tn, fn)]
    small = 1e-6
    tpr = np.divide(np.add(a, small), np.add(np.add(a, d), small))
    if curve == "ROC":
        along, high = np.divide(b, np.add(np.add(b, c), small)), tpr
    else:
        along, high = tpr, np.divide(np.add(a, small), np.add(np.add(a, b), small))
    # The horizontal coordinate decreases with the thresholds.
    area = np.multiply(
        np.negative(np.diff(along)), np.multiply(np.add(_but_last(high), _but_first(high)), 0.5)
    )
    return np.reshape(np.sum(area), [1]), tp, fp, tn, fn


def _but_first(x: Tensor) -> Tensor:
    return np.take(x, list(range(1, x.type.shape[0])), axis=0)


def _but_last(x: Tensor) -> Tensor:
    return np.take(x, list(range(x.type.shape[0] - 1)), axis=0)


@operator
def precision_recall(
    max_probs: Tensor,
    indices: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    states: Tensor | None,
    *,
    class_number: int,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = indices.type.shape[0]
    classes = np.arange(class_number)
    guess = np.equal(np.reshape(np.astype(indices, np.int64), (rows, 1)), classes)
    right = np.equal(np.reshape(np.astype(labels, np.int64), (rows, 1)), classes)
    weight = np.ones((rows, 1), np.float32) if weights is None else np.reshape(weights, (rows, 1))

    def counted(chosen: Tensor) -> Tensor:
        return np.sum(np.where(chosen, weight, 0), axis=0)

    not_guess, not_right = np.logical_not(guess), np.logical_not(right)
    counts = [
        counted(np.logical_and(guess, right)),
        counted(np.logical_and(guess, not_right)),
        counted(np.logical_and(not_guess, not_right)),
        counted(np.logical_and(not_guess, right)),
    ]
    batch = np.stack(counts, axis=1)
    total = batch if states is None else np.add(states, batch)
    return _precision_recall(batch), _precision_recall(total), total


def _precision_recall(counts: Tensor) -> Tensor:
    """Macro precision, recall and F1 of counts TP, FP, TN, FN by class, then micro."""
    wide = np.astype(counts, np.float64)
    tp, fp, fn = [np.take(wide, i, axis=1) for i in (0, 1, 3)]

    def share(part: Tensor, other: Tensor) -> Tensor:
        whole = np.add(part, other)
        return np.where(np.greater(whole, 0), np.divide(part, np.where(np.greater(whole, 0), whole, 1)), 1)

    def f1(precision: Tensor, recall: Tensor) -> Tensor:
        both = np.add(precision, recall)
        return np.where(
            np.greater(both, 0),
            np.divide(np.multiply(np.multiply(precision, recall), 2), np.where(np.greater(both, 0), both, 1)),
            0,
        )

    macro = np.mean(share(tp, fp)), np.mean(share(tp, fn))
    all_tp, all_fp, all_fn = np.sum(tp), np.sum(fp), np.sum(fn)
    micro = share(all_tp, all_fp), share(all_tp, all_fn)
    return np.stack([*macro, f1(*macro), *micro, f1(*micro)], axis=0)


@operator
def positive_negative_pair(
    score: Tensor,
    label: Tensor,
    query: Tensor,
    positive: Tensor | None,
    negative: Tensor | None,
    neutral: Tensor | None,
    weight: Tensor | None,
    *,
    column: int,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = score.type.shape[0]
    s = np.take(np.reshape(score, (rows, -1)), column, axis=1)
    y, q = np.reshape(label, (rows,)), np.reshape(query, (rows,))
    w = np.ones((rows,), np.float32) if weight is None else np.reshape(weight, (rows,))

    def pairs(x: Tensor) -> tuple[Tensor, Tensor]:
        return np.reshape(x, (rows, 1)), np.reshape(x, (1, rows))

    places = np.arange(rows)
    counts = np.logical_and(
        np.less(*pairs(places)), np.logical_and(np.equal(*pairs(q)), np.not_equal(*pairs(y)))
    )
    mean = np.multiply(np.add(*pairs(w)), 0.5)
    order = np.multiply(np.subtract(*pairs(s)), np.subtract(*pairs(np.astype(y, s.dtype))))

    def total(chosen: Tensor, held: Tensor | None) -> Tensor:
        made = np.reshape(np.sum(np.where(np.logical_and(counts, chosen), mean, 0)), [1])
        return made if held is None else np.add(held, made)

    return (
        total(np.greater(order, 0), positive),
        total(np.less(order, 0), negative),
        total(np.equal(order, 0), neutral),
    )


@operator
def mean_iou(
    predictions: Tensor,
    labels: Tensor,
    wrongs: Sequence[Tensor],
    corrects: Sequence[Tensor],
    means: Sequence[Tensor],
    *,
    num_classes: int,
) -> tuple[Tensor, Tensor, Tensor]:
    classes = np.arange(num_classes, dtype=np.int32)
    guess = np.equal(np.reshape(np.astype(predictions, np.int32), (-1, 1)), classes)
    right = np.equal(np.reshape(np.astype(labels, np.int32), (-1, 1)), classes)

    def counted(chosen: Tensor) -> Tensor:
        return np.sum(np.astype(chosen, np.int32), axis=0, dtype=np.int32)

    wrong, correct = counted(np.logical_xor(guess, right)), counted(np.logical_and(guess, right))
    for held in wrongs:
        wrong = np.add(wrong, held)
    for held in corrects:
        correct = np.add(correct, held)
    whole = np.astype(np.add(wrong, correct), np.float32)
    occurs = np.greater(whole, 0)
    share = np.where(occurs, np.divide(np.astype(correct, np.float32), np.where(occurs, whole, 1)), 0)
    number = np.sum(np.astype(occurs, np.float32))
    mean = np.reshape(np.divide(np.sum(share), np.maximum(number, 1)), [1])
    for held in means:
        mean = np.add(mean, held)
    return mean, wrong, correct
