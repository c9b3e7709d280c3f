# SPDX-License-Identifier: Apache-2.0
"""Layers of networks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ....support.diagnostics import UserError
from ..framework import Variable
from ..layer_helper import LayerHelper

__all__ = [
    "accuracy", "cross_entropy", "embedding", "fc", "softmax", "softmax_with_cross_entropy", "square_error_cost", "topk",
]  # fmt: skip


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_mkldnn: bool = False,
    act: str | None = None,
    is_test: bool = False,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: each input, as a matrix whose rows are its first `num_flatten_dims` dimensions, times a weight of its
    own, [columns, size]; their sum, plus a bias [size], and the activation."""
    helper = LayerHelper("fc", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    dtype = helper.input_dtype()
    inputs = helper.multiple_input()
    products: list[Variable] = []
    for each, attr in zip(inputs, helper.multiple_param_attr(len(inputs)), strict=True):
        lengths = each.shape[num_flatten_dims:]
        if not 0 < num_flatten_dims < len(each.shape) or -1 in lengths:
            raise UserError(
                f"'{each.name}', of shape {list(each.shape)}, is no matrix whose first {num_flatten_dims} dimensions are rows",
                hint="num_flatten_dims= says how many are rows; the lengths of the others must be known",
            )
        weight = helper.create_parameter(attr, [prod(lengths), size], dtype)
        made = helper.create_tmp_variable(dtype)
        fields = {"x_num_col_dims": num_flatten_dims, "y_num_col_dims": 1}
        helper.append_op(
            type="mul", inputs={"X": [each], "Y": [weight]}, outputs={"Out": [made]}, attrs=fields
        )
        products.append(made)
    total = products[0]
    if len(products) > 1:
        total = helper.create_tmp_variable(dtype)
        helper.append_op(type="sum", inputs={"X": products}, outputs={"Out": [total]})
    return helper.append_activation(helper.append_bias_op(total, num_flatten_dims))


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table, a parameter of shape `size`, by numbers: int64 with a last dimension of 1. The row `padding_idx`, counted
    from the end where it is negative, reads as zeros."""
    helper = LayerHelper("embedding", input=input, param_attr=param_attr)
    table = helper.create_parameter(helper.param_attr, size, dtype)
    made = helper.create_tmp_variable(dtype)
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    fields = {"is_sparse": is_sparse, "is_distributed": is_distributed, "padding_idx": padding}
    inputs = {"Ids": [input], "W": [table]}
    helper.append_op(type="lookup_table", inputs=inputs, outputs={"Out": [made]}, attrs=fields)
    return made


def softmax(input: Variable, use_cudnn: bool = True, name: str | None = None) -> Variable:
    """exp(x) over its sum, along the last dimension."""
    helper = LayerHelper("softmax", name=name)
    made = helper.create_tmp_variable(input.dtype)
    helper.append_op(type="softmax", inputs={"X": [input]}, outputs={"Out": [made]})
    return made


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False) -> Variable:
    """-log of the probability of the right class, of each row; label int64 with a last dimension of 1, or probabilities."""
    helper = LayerHelper("cross_entropy")
    made = helper.create_tmp_variable(input.dtype)
    inputs = {"X": [input], "Label": [label]}
    helper.append_op(
        type="cross_entropy", inputs=inputs, outputs={"Y": [made]}, attrs={"soft_label": soft_label}
    )
    return made


def softmax_with_cross_entropy(logits: Variable, label: Variable, soft_label: bool = False) -> Variable:
    """The cross entropy of the softmax of scores, of each row."""
    helper = LayerHelper("softmax_with_cross_entropy")
    probabilities, loss = helper.create_tmp_variable(logits.dtype), helper.create_tmp_variable(logits.dtype)
    helper.append_op(
        type="softmax_with_cross_entropy",
        inputs={"Logits": [logits], "Label": [label]},
        outputs={"Softmax": [probabilities], "Loss": [loss]},
        attrs={"soft_label": soft_label},
    )
    return loss


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2."""
    helper = LayerHelper("square_error_cost")
    difference, made = helper.create_tmp_variable(input.dtype), helper.create_tmp_variable(input.dtype)
    inputs = {"X": [input], "Y": [label]}
    helper.append_op(type="elementwise_sub", inputs=inputs, outputs={"Out": [difference]})
    helper.append_op(type="square", inputs={"X": [difference]}, outputs={"Out": [made]})
    return made


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The k greatest elements along the last dimension, the greatest first, and their positions, int64. No gradient flows through."""
    helper = LayerHelper("top_k", name=name)
    values = helper.create_tmp_variable(input.dtype, stop_gradient=True)
    places = helper.create_tmp_variable("int64", stop_gradient=True)
    outputs = {"Out": [values], "Indices": [places]}
    helper.append_op(type="top_k", inputs={"X": [input]}, outputs=outputs, attrs={"k": k})
    return values, places


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
