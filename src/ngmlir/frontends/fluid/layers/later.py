# SPDX-License-Identifier: Apache-2.0
"""Layers whose names are those of later releases, made of what is here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.literals import dtype_of
from ....programs.vartypes import element_of, vartype
from ....support.diagnostics import UserError
from ..framework import Variable
from ..initializer import Constant
from ..layer_helper import LayerHelper, one_op
from .nn import square_error_cost
from .sequences import lod_reset, sequence_expand
from .shaping import reduce_mean, split, squeeze, unsqueeze
from .tensor import assign, cast, compared, concat, fill_constant

__all__ = [
    "greater_equal", "greater_than", "group_norm", "huber_loss", "kldiv_loss", "less_equal", "log_loss", "margin_rank_loss", "mse_loss", "not_equal",
    "ones_like", "pad2d", "range", "sampling_id", "sequence_concat", "sequence_expand_as", "sequence_mask", "sequence_reverse", "sequence_slice",
    "stack", "unstack", "where", "zeros_like",
]  # fmt: skip


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """-y log(p + epsilon) - (1 - y) log(1 - p + epsilon) of each probability p and label y, which is 0 or 1."""
    given = {"Predicted": input, "Labels": label}
    return one_op("log_loss", given, {"Loss": input.dtype}, {"epsilon": float(epsilon)}, name)


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """r^2 / 2 of each difference r = label - input, and beyond delta: delta (|r| - delta / 2)."""
    given, made = {"X": input, "Y": label}, {"Out": input.dtype, "Residual": input.dtype}
    return one_op("huber_loss", given, made, {"delta": float(delta)})[0]


def margin_rank_loss(
    label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None
) -> Variable:
    """max(0, -label (left - right) + margin); the label is 1 where the left one is to be greater, else -1."""
    given, made = {"Label": label, "X1": left, "X2": right}, {"Out": left.dtype, "Activated": left.dtype}
    return one_op("margin_rank_loss", given, made, {"margin": float(margin)}, name)[0]


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of (input - label)^2, one number."""
    return reduce_mean(square_error_cost(input, label))


def kldiv_loss(x: Variable, target: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """t (log(t) - x) of each logarithm x of a probability and target t, 0 where t is 0: `none` of them reduced, their `mean` or `sum`,
    or with `batchmean` their sum over the number of rows."""
    return one_op("kldiv_loss", {"X": x, "Target": target}, {"Loss": x.dtype}, {"reduction": reduction}, name)


def pad2d(
    input: Variable,
    paddings: Sequence[int] = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Images with rows above and below, and columns left and right, as many as `paddings` says, in this order: of `pad_value` (mode
    `constant`), of the elements inside, mirrored at the border (`reflect`), or of those of the border (`edge`)."""
    attrs = {
        "paddings": list(paddings),
        "mode": mode,
        "pad_value": float(pad_value),
        "data_format": data_format,
    }
    return one_op("pad2d", {"X": input}, {"Out": input.dtype}, attrs, name)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Each group of channels of an image with the mean 0 and the variance 1, times a learned scale plus a learned shift of each channel; without
    these where an attribute is False."""
    helper = LayerHelper(
        "group_norm", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    shape, inputs = [input.shape[-1 if data_layout == "NHWC" else 1]], {"X": [input]}
    if param_attr is not False:
        one = Constant(1.0)
        inputs["Scale"] = [
            helper.create_parameter(helper.param_attr, shape, input.dtype, default_initializer=one)
        ]
    if bias_attr is not False:
        inputs["Bias"] = [helper.create_parameter(helper.bias_attr, shape, input.dtype, is_bias=True)]
    made = {slot: helper.create_tmp_variable(input.dtype) for slot in ("Y", "Mean", "Variance")}
    attrs = {"groups": groups, "epsilon": epsilon, "data_layout": data_layout}
    helper.append_op(type="group_norm", inputs=inputs, outputs=made, attrs=attrs)
    return helper.append_activation(made["Y"])


def not_equal(x: Variable, y: Variable, cond: Variable | None = None, **ignored: Any) -> Variable:
    """Whether x is not y, written to `cond` where that is given."""
    return compared("not_equal", x, y, cond)


def less_equal(x: Variable, y: Variable, cond: Variable | None = None, **ignored: Any) -> Variable:
    """Whether x <= y, written to `cond` where that is given."""
    return compared("less_equal", x, y, cond)


def greater_than(x: Variable, y: Variable, cond: Variable | None = None, **ignored: Any) -> Variable:
    """Whether x > y, written to `cond` where that is given."""
    return compared("greater_than", x, y, cond)


def greater_equal(x: Variable, y: Variable, cond: Variable | None = None, **ignored: Any) -> Variable:
    """Whether x >= y, written to `cond` where that is given."""
    return compared("greater_equal", x, y, cond)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros in the shape of x, written to `out` where that is given."""
    return one_op("fill_zeros_like", {"X": x}, {"Out": x.dtype if out is None else out})


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones in the shape of x, written to `out` where that is given."""
    return one_op("fill_ones_like", {"X": x}, {"Out": x.dtype if out is None else out})


def stack(x: Sequence[Variable], axis: int = 0) -> Variable:
    """Variables of one shape along a new dimension, `axis` of the result."""
    axis = axis + len(x[0].shape) + 1 if axis < 0 else axis
    return concat([unsqueeze(each, [axis]) for each in x], axis)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The elements along a dimension, as variables without it. UserError where its length is open, or not `num`."""
    count, axis = x.shape[axis], axis % len(x.shape)
    if count < 0 or num not in (None, count):
        raise UserError(
            f"dimension {axis} of '{x.name}', whose shape is {list(x.shape)}, is not of {num or 'a known number of'} elements",
            hint="unstack makes a variable of each: layers.data(name, shape) says how many there are",
        )
    return [squeeze(each, [axis]) for each in split(x, count, axis)]


def range(start: Any, end: Any, step: Any, dtype: Any) -> Variable:
    """Numbers from `start` on, each by `step` more, before `end`; these are numbers or variables of one element."""
    if not any(isinstance(each, Variable) for each in (start, end, step)):
        numbers = np.arange(float(start), float(end), float(step))
        return cast(assign(numbers.astype(dtype_of(element_of(vartype(dtype))))), dtype)
    slots = zip(("Start", "End", "Step"), (start, end, step), strict=True)
    given = {
        slot: cast(each, dtype) if isinstance(each, Variable) else fill_constant([1], dtype, each)
        for slot, each in slots
    }
    return one_op("range", given, {"Out": dtype})


def where(condition: Variable) -> Variable:
    """Where bools are true: places [count, dimensions], int64, in the order of rows."""
    return one_op("where_index", {"Condition": condition}, {"Out": "int64"})


def sampling_id(
    x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = "int64"
) -> Variable:
    """A position of each row of probabilities, drawn with them; not the same at each run where the seed is 0."""
    fields = {"min": float(min), "max": float(max), "seed": seed}
    return cast(one_op("sampling_id", {"X": x}, {"Out": "int64"}, fields), dtype)


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Sequence i of each input, one after another, as sequence i of the result."""
    return one_op("sequence_concat", {"X": input}, {"Out": input[0].dtype}, {"axis": 0, "level": 0}, name)


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """Of each sequence so many rows from an offset on; both int64 [sequences, 1]."""
    given = {"X": input, "Offset": offset, "Length": length}
    return one_op("sequence_slice", given, {"Out": input.dtype}, None, name)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence, the last first."""
    return one_op("sequence_reverse", {"X": x}, {"Y": x.dtype}, None, name)


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of x as often as sequence i of y is long: sequences like those of y."""
    return lod_reset(sequence_expand(x, y, 0, name), y)


def sequence_mask(
    x: Variable, maxlen: int | None = None, dtype: Any = "int64", name: str | None = None
) -> Variable:
    """For each length in x `maxlen` numbers (by default as many as the greatest length): 1 for each position below it, 0 behind."""
    kind = vartype(dtype)
    attrs = {"maxlen": -1 if maxlen is None else maxlen, "out_dtype": kind}
    return one_op("sequence_mask", {"X": x}, {"Y": kind}, attrs, name)
