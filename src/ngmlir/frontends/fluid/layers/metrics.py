# SPDX-License-Identifier: Apache-2.0
"""How good a model is, as variables of the program."""

from __future__ import annotations

from ..framework import Variable
from ..initializer import Constant
from ..layer_helper import LayerHelper, one_op
from .shaping import topk

__all__ = ["accuracy", "auc", "mean_iou"]


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of rows whose right class is among the k greatest scores; how many these are and how many rows there are is written to
    `correct` and `total`."""
    helper = LayerHelper("accuracy")
    values, places = topk(input, k)
    share = helper.create_tmp_variable("float32", stop_gradient=True)
    correct = helper.create_tmp_variable("int32", stop_gradient=True) if correct is None else correct
    total = helper.create_tmp_variable("int32", stop_gradient=True) if total is None else total
    helper.append_op(
        type="accuracy",
        inputs={"Out": [values], "Indices": [places], "Label": [label]},
        outputs={"Accuracy": [share], "Correct": [correct], "Total": [total]},
    )
    return share


def auc(
    input: Variable, label: Variable, curve: str = "ROC", num_thresholds: int = 200, topk: int = 1
) -> tuple[Variable, list[Variable]]:
    """The area under the curve over all rows so far, float64 [1], and the four counts that it is computed from, which are kept from run
    to run. `input` holds two probabilities a row."""
    helper = LayerHelper("auc")
    states: list[Variable] = []
    for _ in range(4):
        made = helper.create_global_variable(persistable=True, dtype="int64", shape=[num_thresholds])
        helper.set_variable_initializer(made, Constant(0))
        states.append(made)
    area = helper.create_tmp_variable("float64", stop_gradient=True)
    slots = dict(zip(("TP", "FP", "TN", "FN"), states, strict=True))
    helper.append_op(
        type="auc",
        inputs={"Predict": [input], "Label": [label], **slots},
        outputs={"AUC": [area], **{f"{slot}Out": state for slot, state in slots.items()}},
        attrs={"curve": curve, "num_thresholds": num_thresholds},
    )
    tp, fp, tn, fn = states
    return area, [tp, tn, fp, fn]


def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]:
    """The mean over classes of the share of rows that both sides give to it, and wrong and right rows of each class."""
    outputs = {"OutMeanIou": "float32", "OutWrong": "int32", "OutCorrect": "int32"}
    return one_op("mean_iou", {"Predictions": input, "Labels": label}, outputs, {"num_classes": num_classes})
