# SPDX-License-Identifier: Apache-2.0
"""Layers over sequences: rows of a ragged variable, which sequences cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....support.diagnostics import UserError
from ..framework import Variable
from ..layer_helper import LayerHelper, one_op
from ..lists import listed

__all__ = [
    "im2sequence", "lod_reset", "row_conv", "sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step",
    "sequence_pad", "sequence_pool", "sequence_reshape", "sequence_softmax", "sequence_unpad",
]  # fmt: skip


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: Any = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
) -> Variable:
    """A convolution along each sequence: `filter_size` rows around a row, joined, times a filter [filter_size * columns,
    num_filters], plus a bias, and the activation. Rows outside of the sequence are zeros."""
    helper = LayerHelper("sequence_conv", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act)
    dtype = helper.input_dtype()
    weight = helper.create_parameter(helper.param_attr, [filter_size * input.shape[1], num_filters], dtype)
    made = helper.create_tmp_variable(dtype)
    fields = {
        "contextStride": filter_stride,
        "contextStart": -int(filter_size // 2),
        "contextLength": filter_size,
    }
    inputs = {"X": [input], "Filter": [weight]}
    helper.append_op(type="sequence_conv", inputs=inputs, outputs={"Out": [made]}, attrs=fields)
    return helper.append_activation(helper.append_bias_op(made))


def sequence_pool(input: Variable, pool_type: str) -> Variable:
    """The rows of each sequence as one: their `average`, `sum`, `sqrt` (the sum over the root of their number), `max`, `first` or
    `last`; 0 for an empty sequence."""
    helper = LayerHelper("sequence_pool", input=input)
    made = helper.create_tmp_variable(input.dtype)
    most = helper.create_tmp_variable("int32", stop_gradient=True)
    outputs = {"Out": [made], "MaxIndex": [most]}
    fields = {"pooltype": pool_type.upper()}
    helper.append_op(type="sequence_pool", inputs={"X": [input]}, outputs=outputs, attrs=fields)
    return made


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    return sequence_pool(input, "last")


def sequence_softmax(
    input: Variable, param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True
) -> Variable:
    """Softmax over the rows of each sequence."""
    return one_op("sequence_softmax", {"X": input}, {"Out": input.dtype})


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Each item of x (a row; a sequence where x is ragged) as often as the item of y at a level is long; -1 is its last level."""
    return one_op("sequence_expand", {"X": x, "Y": y}, {"Out": x.dtype}, {"ref_level": ref_level}, name)


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """The elements of each sequence in rows of another width."""
    return one_op("sequence_reshape", {"X": input}, {"Out": input.dtype}, {"new_dim": new_dim})


def sequence_pad(x: Variable, pad_value: Variable, maxlen: int | None = None) -> Variable:
    """Sequences as items of one length, that of the longest or `maxlen`, filled with a number or a row."""
    fields = {"padded_length": -1 if maxlen is None else maxlen}
    return one_op("sequence_pad", {"X": x, "PadValue": pad_value}, {"Out": x.dtype}, fields)


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Items [sequences, most, ...] as sequences, of which so many rows each count: int64 [sequences, 1] or [sequences]."""
    return one_op("sequence_unpad", {"X": x, "Length": length}, {"Out": x.dtype}, None, name)


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None) -> Variable:
    """The rows of x as other sequences: those of y, or those that the offsets `target_lod` cut; where y is not ragged, its elements
    are the offsets. Raises UserError where neither is given."""
    if y is None and target_lod is None:
        raise UserError("lod_reset takes y or target_lod", hint="lod_reset(x, target_lod=[0, 2, 5])")
    fields = {} if y is not None else {"target_lod": list(target_lod or ())}
    return one_op("lod_reset", {"X": x, "Y": y}, {"Out": x.dtype}, fields)


def row_conv(
    input: Variable, future_context_size: int, param_attr: Any = None, act: str | None = None
) -> Variable:
    """The sum of a row and the `future_context_size` rows after it, each times a row of weights."""
    helper = LayerHelper("row_conv", input=input, param_attr=param_attr, act=act)
    shape = [future_context_size + 1, input.shape[1]]
    weight = helper.create_parameter(helper.param_attr, shape, input.dtype)
    made = helper.create_tmp_variable(input.dtype)
    helper.append_op(type="row_conv", inputs={"X": [input], "Filter": [weight]}, outputs={"Out": [made]})
    return helper.append_activation(made)


def im2sequence(
    input: Variable,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    input_image_size: Variable | None = None,
    out_stride: int | Sequence[int] = 1,
    name: str | None = None,
) -> Variable:
    """Images as sequences of windows, row by row. `padding` is up, left, down, right; two numbers are up and down, left and right."""
    kernels, strides, smaller = (_pair(n) for n in (filter_size, stride, out_stride))
    around = [int(n) for n in listed(padding)]
    around = around * 4 if len(around) == 1 else around * 2 if len(around) == 2 else around
    fields = {"kernels": kernels, "strides": strides, "paddings": around}
    if input_image_size is not None:
        fields["out_stride"] = smaller
    return one_op("im2sequence", {"X": input, "Y": input_image_size}, {"Out": input.dtype}, fields, name)


def _pair(given: int | Sequence[int]) -> list[int]:
    made = [int(n) for n in listed(given)]
    return made * 2 if len(made) == 1 else made
