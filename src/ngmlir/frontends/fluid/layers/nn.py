# SPDX-License-Identifier: Apache-2.0
"""Layers of networks: products, embeddings, cells, losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ....support.diagnostics import UserError
from ..framework import Variable
from ..initializer import Constant
from ..layer_helper import LayerHelper, one_op
from ..param_attr import ParamAttr
from .made import layer
from .shaping import one_hot, reduce_sum
from .tensor import compared, concat

__all__ = [
    "cos_sim", "cross_entropy", "dice_loss", "dropout", "embedding", "fc", "gru_unit", "hsigmoid", "l2_normalize", "label_smooth",
    "lstm_unit", "matmul", "nce", "prelu", "rank_loss", "smooth_l1", "softmax", "softmax_with_cross_entropy", "square_error_cost",
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


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The product of matrices, of each item of a batch, times `alpha`."""
    fields = {"transpose_X": transpose_x, "transpose_Y": transpose_y}
    made = one_op("matmul", {"X": x, "Y": y}, {"Out": x.dtype}, fields, name)
    return made if alpha == 1 else made * alpha


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Elements set to 0 with a probability; in use, all of them times the probability that they stay, or with `upscale_in_train` as they are:
    then those that stay are divided by it in training. Without a seed that of the main program is taken."""
    helper = LayerHelper("dropout", name=name)
    number = helper.main_program.random_seed if seed is None else seed
    fields = {
        "dropout_prob": dropout_prob,
        "is_test": is_test,
        "fix_seed": seed is not None,
        "seed": number,
        "dropout_implementation": dropout_implementation,
    }
    made, mask = helper.create_tmp_variable(x.dtype), helper.create_tmp_variable(x.dtype, stop_gradient=True)
    helper.append_op(type="dropout", inputs={"X": [x]}, outputs={"Out": [made], "Mask": [mask]}, attrs=fields)
    return made


def prelu(x: Variable, mode: str, param_attr: Any = None, name: str | None = None) -> Variable:
    """x, or a learned slope times x where x is not above 0: one slope (`all`), one for each `channel`, or one for each `element`."""
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    shapes = {
        "all": [1],
        "channel": [1, x.shape[1], 1, 1] if len(x.shape) > 1 else [1],
        "element": [1, *x.shape[1:]],
    }
    if mode not in shapes:
        raise UserError(f"the mode of prelu is all, channel or element, not {mode!r}")
    alpha = helper.create_parameter(
        helper.param_attr, shapes[mode], x.dtype, default_initializer=Constant(1.0)
    )
    return one_op("prelu", {"X": x, "Alpha": alpha}, {"Out": x.dtype}, {"mode": mode}, name)


def softmax(
    input: Variable,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    name: str | None = None,
    axis: int = -1,
) -> Variable:
    """exp(x) over its sum, along a dimension."""
    return one_op("softmax", {"X": input}, {"Out": input.dtype}, {"axis": axis}, name)


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x over the root of its summed squares along a dimension."""
    helper = LayerHelper("l2_normalize", name=name)
    made, norm = helper.create_tmp_variable(x.dtype), helper.create_tmp_variable(x.dtype)
    fields = {"axis": 1 if axis is None else axis, "epsilon": epsilon}  # pyright: ignore[reportUnnecessaryComparison]
    helper.append_op(type="norm", inputs={"X": [x]}, outputs={"Out": [made], "Norm": [norm]}, attrs=fields)
    return made


# ---- cells


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """One step of an LSTM: (hidden, cell). Input and hidden state go through a fully connected layer first."""
    size = cell_t_prev.shape[1]
    gates = fc(concat([x_t, hidden_t_prev], axis=1), 4 * size, param_attr=param_attr, bias_attr=bias_attr)
    outputs = {"C": x_t.dtype, "H": x_t.dtype}
    cell, hidden = one_op(
        "lstm_unit", {"X": gates, "C_prev": cell_t_prev}, outputs, {"forget_bias": forget_bias}, name
    )
    return hidden, cell


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """One step of a GRU: (hidden, reset hidden, gate). The input has 3 D = `size` columns: its part of the gates. In `origin_mode` the update
    gate is the share of the state before, else of the candidate."""
    helper = LayerHelper("gru_unit", param_attr=param_attr, bias_attr=bias_attr)
    numbers = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}
    width = size // 3
    weight = helper.create_parameter(helper.param_attr, [width, 3 * width], input.dtype)
    inputs: dict[str, Any] = {"Input": [input], "HiddenPrev": [hidden], "Weight": [weight]}
    if helper.bias_attr is not False:
        inputs["Bias"] = [
            helper.create_parameter(helper.bias_attr, [1, 3 * width], input.dtype, is_bias=True)
        ]
    made = {slot: helper.create_tmp_variable(input.dtype) for slot in ("Gate", "ResetHiddenPrev", "Hidden")}
    fields = {
        "activation": numbers[activation],
        "gate_activation": numbers[gate_activation],
        "origin_mode": origin_mode,
    }
    helper.append_op(type="gru_unit", inputs=inputs, outputs=made, attrs=fields)
    return made["Hidden"], made["ResetHiddenPrev"], made["Gate"]


# ---- losses


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine between rows, [rows, 1]; Y may have one row for all."""
    return one_op("cos_sim", {"X": X, "Y": Y}, {"Out": X.dtype, "XNorm": X.dtype, "YNorm": X.dtype})[0]


def cross_entropy(
    input: Variable, label: Variable, soft_label: bool = False, ignore_index: int | None = None
) -> Variable:
    """-log of the probability of the right class, of each row; label int64, with a last dimension of 1 or without, or probabilities.
    Rows whose class is `ignore_index` have no loss."""
    label, counts = _counting(input, label, soft_label, ignore_index)
    made = one_op(
        "cross_entropy", {"X": input, "Label": label}, {"Y": input.dtype}, {"soft_label": soft_label}
    )
    return made if counts is None else made * counts


def _counting(
    scores: Variable, label: Variable, soft_label: bool, ignore_index: int | None
) -> tuple[Variable, Variable | None]:
    """Classes with a last dimension of 1, 0 where they are `ignore_index`, and a factor for the loss of each row, 0 there; no factor where
    no row can be."""
    rank = len(label.shape)
    if not soft_label and rank == len(scores.shape) - 1:
        label = one_op("unsqueeze", {"X": label}, {"Out": label.dtype}, {"axes": [rank]})
    if soft_label or ignore_index is None:
        return label, None
    counts = compared("not_equal", label, label * 0 + ignore_index, None)
    return label * counts.astype(label.dtype), counts.astype(scores.dtype)


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int | None = None,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
) -> Any:
    """The cross entropy of the softmax of scores, of each row, as `cross_entropy` takes it; with `return_softmax` the softmax too. No score is
    too great for it, so `numeric_stable_mode` has no effect."""
    label, counts = _counting(logits, label, soft_label, ignore_index)
    outputs = {"Softmax": logits.dtype, "Loss": logits.dtype}
    inputs = {"Logits": logits, "Label": label}
    shares, made = one_op("softmax_with_cross_entropy", inputs, outputs, {"soft_label": soft_label})
    made = made if counts is None else made * counts
    return (made, shares) if return_softmax else made


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2."""
    helper = LayerHelper("square_error_cost")
    difference, made = helper.create_tmp_variable(input.dtype), helper.create_tmp_variable(input.dtype)
    inputs = {"X": [input], "Y": [label]}
    helper.append_op(type="elementwise_sub", inputs=inputs, outputs={"Out": [difference]})
    helper.append_op(type="square", inputs={"X": [difference]}, outputs={"Out": [made]})
    return made


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """The smooth L1 loss of each row: quadratic for small differences, linear for large ones."""
    inputs = {"X": x, "Y": y, "InsideWeight": inside_weight, "OutsideWeight": outside_weight}
    return one_op(
        "smooth_l1_loss",
        inputs,
        {"Out": x.dtype, "Diff": x.dtype},
        {"sigma": 1.0 if sigma is None else sigma},
    )[0]


def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """log(1 + exp(o)) - label o, with o = left - right."""
    return one_op(
        "rank_loss", {"Label": label, "Left": left, "Right": right}, {"Out": left.dtype}, None, name
    )


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """(1 - epsilon) label + epsilon prior; without a prior all classes are equal."""
    made = one_op(
        "label_smooth",
        {"X": label, "PriorDist": prior_dist},
        {"Out": dtype},
        {"epsilon": float(epsilon)},
        name,
    )
    return made


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5) -> Variable:
    """1 - 2 sum(x q) / (sum x + sum q + epsilon) of each item, and the mean of these; q is the label as one 1 in a row."""
    rest = list(range(1, len(input.shape)))
    wanted = one_hot(label, input.shape[-1])
    both = reduce_sum(layer("elementwise_mul")(input, wanted), dim=rest)
    whole = layer("elementwise_add")(reduce_sum(input, dim=rest), reduce_sum(wanted, dim=rest))
    return layer("mean")(1 - both * 2 / (whole + epsilon))


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
) -> Variable:
    """Noise contrastive estimation over many classes: labels against `num_neg_samples` (10) that are drawn; the loss of each row, over
    the number of these and one."""
    helper = LayerHelper("nce", param_attr=param_attr, bias_attr=bias_attr)
    samples = 10 if num_neg_samples is None else int(num_neg_samples)
    weight = helper.create_parameter(helper.param_attr, [num_total_classes, input.shape[1]], input.dtype)
    inputs: dict[str, Any] = {"Input": input, "Label": label, "Weight": weight, "SampleWeight": sample_weight}
    if helper.bias_attr is not False:
        inputs["Bias"] = helper.create_parameter(
            helper.bias_attr, [num_total_classes, 1], input.dtype, is_bias=True
        )
    outputs = {"Cost": input.dtype, "SampleLogits": input.dtype, "SampleLabels": label.dtype}
    fields = {"num_total_classes": num_total_classes, "num_neg_samples": samples}
    cost = one_op("nce", inputs, outputs, fields)[0]
    return cost / (samples + 1)


def hsigmoid(
    input: Variable, label: Variable, num_classes: int, param_attr: Any = None, bias_attr: Any = None
) -> Variable:
    """The loss over the path to the right class, in a complete binary tree of classes."""
    helper = LayerHelper("hierarchical_sigmoid", param_attr=param_attr, bias_attr=bias_attr)
    if num_classes < 2:
        raise UserError(f"a tree has two classes or more, not {num_classes}")
    weight = helper.create_parameter(helper.param_attr, [num_classes - 1, input.shape[1]], input.dtype)
    bias_attr = ParamAttr() if helper.bias_attr is False else helper.bias_attr
    bias = helper.create_parameter(bias_attr, [1, num_classes - 1], input.dtype, is_bias=True)
    inputs = {"X": input, "W": weight, "Label": label, "Bias": bias}
    return one_op(
        "hierarchical_sigmoid",
        inputs,
        {"Out": input.dtype, "PreOut": input.dtype},
        {"num_classes": num_classes},
    )[0]
