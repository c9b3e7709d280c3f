# SPDX-License-Identifier: Apache-2.0
"""Layers of images: convolutions, pooling, normalization, other sizes."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ....support.diagnostics import UserError
from ....support.spelling import did_you_mean
from ..framework import Variable
from ..initializer import Constant, Normal
from ..layer_helper import LayerHelper, one_op
from ..lists import listed
from ..param_attr import ParamAttr

__all__ = [
    "batch_norm", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "layer_norm", "lrn", "pool2d", "pool3d",
]  # fmt: skip


def _each(given: Any, rank: int, what: str) -> list[int]:
    """One number for each length."""
    found = [int(n) for n in listed(given)]
    if len(found) == 1:
        found *= rank
    if len(found) != rank:
        raise UserError(f"{what} is one number or {rank}, not {given!r}")
    return found


def _convolution(
    type: str,
    rank: int,
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int | None,
    param_attr: Any,
    bias_attr: Any,
    act: Any,
    name: str | None,
) -> Variable:
    helper = LayerHelper(type, input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    channels, groups = input.shape[1], groups or 1
    if len(input.shape) != rank + 2 or channels < 1:
        raise UserError(
            f"'{input.name}' has the shape {list(input.shape)}, and images of {type} a batch, channels and {rank} lengths"
        )
    if channels % groups or num_filters % groups:
        raise UserError(
            f"{channels} channels and {num_filters} filters are not both cut into {groups} groups"
        )
    taps = _each(filter_size, rank, "filter_size")
    spread = sqrt(2.0 / (taps[0] ** rank * channels))
    weight = helper.create_parameter(
        helper.param_attr,
        [num_filters, channels // groups, *taps],
        input.dtype,
        default_initializer=Normal(0.0, spread),
    )
    made = helper.create_tmp_variable(input.dtype)
    fields = {
        "strides": _each(stride, rank, "stride"),
        "paddings": _each(padding, rank, "padding"),
        "dilations": _each(dilation, rank, "dilation"),
        "groups": groups,
    }
    inputs = {"Input": [input], "Filter": [weight]}
    helper.append_op(type=type, inputs=inputs, outputs={"Output": [made]}, attrs=fields)
    return helper.append_activation(helper.append_bias_op(made, 1, 2))


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    use_mkldnn: bool = False,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """The convolution of images [batch, channels, rows, columns] with learned filters; a bias for each, and the activation. As many
    groups as channels, without `use_cudnn`, is a `depthwise_conv2d`."""
    is_depthwise = (
        groups is not None and groups == input.shape[1] and not num_filters % groups and not use_cudnn
    )
    type = "depthwise_conv2d" if is_depthwise else "conv2d"
    return _convolution(
        type,
        2,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        param_attr,
        bias_attr,
        act,
        name,
    )


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    use_mkldnn: bool = False,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """As `conv2d`, of images with three lengths."""
    return _convolution(
        "conv3d",
        3,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        param_attr,
        bias_attr,
        act,
        name,
    )


def _transposed(
    type: str,
    rank: int,
    input: Variable,
    num_filters: int,
    output_size: Any,
    filter_size: Any,
    padding: Any,
    stride: Any,
    dilation: Any,
    groups: int | None,
    param_attr: Any,
    bias_attr: Any,
    act: Any,
    name: str | None,
) -> Variable:
    helper = LayerHelper(type, input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    strides, paddings, dilations = (
        _each(stride, rank, "stride"),
        _each(padding, rank, "padding"),
        _each(dilation, rank, "dilation"),
    )
    if filter_size is None:
        if output_size is None:
            raise UserError(f"{type} takes filter_size, or the output_size that it follows from")
        wanted = _each(output_size, rank, "output_size")
        taps = [
            (o - (h - 1) * s + 2 * p - 1) // d + 1
            for o, h, s, p, d in zip(wanted, input.shape[2:], strides, paddings, dilations, strict=True)
        ]
    else:
        taps = _each(filter_size, rank, "filter_size")
    groups = groups or 1
    weight = helper.create_parameter(
        helper.param_attr, [input.shape[1], num_filters // groups, *taps], input.dtype
    )
    made = helper.create_tmp_variable(input.dtype)
    fields = {"strides": strides, "paddings": paddings, "dilations": dilations, "groups": groups}
    inputs = {"Input": [input], "Filter": [weight]}
    helper.append_op(type=type, inputs=inputs, outputs={"Output": [made]}, attrs=fields)
    return helper.append_activation(helper.append_bias_op(made, 1, 2))


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """The adjoint of a convolution, with learned filters [channels, filters / groups, ...]; with `output_size` alone the filters are as
    long as that asks for."""
    is_depthwise = groups is not None and groups == input.shape[1] == num_filters and not use_cudnn
    type = "depthwise_conv2d_transpose" if is_depthwise else "conv2d_transpose"
    return _transposed(
        type,
        2,
        input,
        num_filters,
        output_size,
        filter_size,
        padding,
        stride,
        dilation,
        groups,
        param_attr,
        bias_attr,
        act,
        name,
    )


def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """As `conv2d_transpose`, of images with three lengths."""
    return _transposed(
        "conv3d_transpose", 3, input, num_filters, output_size, filter_size, padding, stride, dilation, groups, param_attr, bias_attr,
        act, name,
    )  # fmt: skip


# ---- pooling


def _pool(
    rank: int,
    input: Variable,
    size: Any,
    kind: str,
    stride: Any,
    padding: Any,
    whole: bool,
    ceil_mode: bool,
    name: str | None,
    exclusive: bool,
) -> Variable:
    if kind not in ("max", "avg"):
        raise UserError(
            f"pool_type is max or avg, not {kind!r}", hint=did_you_mean(str(kind), ("max", "avg"))
        )
    if not whole and listed(size) == [-1]:
        raise UserError("pool_size says how long windows are", hint="or give global_pooling=True")
    fields = {
        "pooling_type": kind,
        "ksize": [1] * rank if whole else _each(size, rank, "pool_size"),
        "strides": _each(stride, rank, "pool_stride"),
        "paddings": _each(padding, rank, "pool_padding"),
        "global_pooling": whole,
        "ceil_mode": ceil_mode,
        "exclusive": exclusive,
    }
    return one_op(f"pool{rank}d", {"X": input}, {"Out": input.dtype}, fields, name)


def pool2d(
    input: Variable,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    use_mkldnn: bool = False,
    name: str | None = None,
    exclusive: bool = True,
) -> Variable:
    """The greatest element (`max`) or the mean (`avg`) of each window; of the whole image with `global_pooling`. The mean is that of elements
    inside the image, or with `exclusive=False` of all, those outside as 0."""
    return _pool(
        2, input, pool_size, pool_type, pool_stride, pool_padding, global_pooling, ceil_mode, name, exclusive
    )


def pool3d(
    input: Variable,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    use_mkldnn: bool = False,
    name: str | None = None,
    exclusive: bool = True,
) -> Variable:
    """As `pool2d`, of images with three lengths."""
    return _pool(
        3, input, pool_size, pool_type, pool_stride, pool_padding, global_pooling, ceil_mode, name, exclusive
    )


# ---- normalization


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    use_mkldnn: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = False,
    fuse_with_relu: bool = False,
) -> Variable:
    """Each channel with the mean 0 and the variance 1 over the batch, times a learned scale plus a learned shift. In use (`is_test`)
    with running means and variances, which training updates."""
    helper = LayerHelper(
        "batch_norm", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    channels = input.shape[-1] if data_layout == "NHWC" or len(input.shape) == 2 else input.shape[1]
    dtype, shape = input.dtype, [channels]
    scale = helper.create_parameter(helper.param_attr, shape, dtype, default_initializer=Constant(1.0))
    shift_attr = ParamAttr() if helper.bias_attr is False else helper.bias_attr
    shift = helper.create_parameter(shift_attr, shape, dtype, is_bias=True)
    running: list[Variable] = []
    for given, value in ((moving_mean_name, 0.0), (moving_variance_name, 1.0)):
        attr = ParamAttr(
            name=given,
            initializer=Constant(value),
            trainable=False,
            do_model_average=do_model_average_for_mean_and_var,
        )
        made = helper.create_parameter(attr, shape, dtype)
        made.stop_gradient = True
        running.append(made)
    saved = [helper.create_tmp_variable(dtype, stop_gradient=True) for _ in range(2)]
    out = helper.create_tmp_variable(dtype)
    helper.append_op(
        type="batch_norm",
        inputs={
            "X": [input],
            "Scale": [scale],
            "Bias": [shift],
            "Mean": [running[0]],
            "Variance": [running[1]],
        },
        outputs={
            "Y": [out],
            "MeanOut": [running[0]],
            "VarianceOut": [running[1]],
            "SavedMean": [saved[0]],
            "SavedVariance": [saved[1]],
        },
        attrs={
            "is_test": is_test,
            "momentum": momentum,
            "epsilon": epsilon,
            "data_layout": data_layout,
            "fuse_with_relu": fuse_with_relu,
        },
    )
    return helper.append_activation(out)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Each row, of the dimensions from `begin_norm_axis` on, with the mean 0 and the variance 1, times a learned scale plus a learned
    shift."""
    helper = LayerHelper(
        "layer_norm", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    size = 1
    for length in input.shape[begin_norm_axis:]:
        if length < 1:
            raise UserError(
                f"a length of '{input.name}', {list(input.shape)}, is not known from {begin_norm_axis} on"
            )
        size *= length
    inputs: dict[str, Any] = {"X": [input]}
    if scale:
        inputs["Scale"] = [
            helper.create_parameter(helper.param_attr, [size], input.dtype, default_initializer=Constant(1.0))
        ]
    if shift and helper.bias_attr is not False:
        inputs["Bias"] = [helper.create_parameter(helper.bias_attr, [size], input.dtype, is_bias=True)]
    made = {slot: helper.create_tmp_variable(input.dtype) for slot in ("Y", "Mean", "Variance")}
    fields = {"epsilon": epsilon, "begin_norm_axis": begin_norm_axis}
    helper.append_op(type="layer_norm", inputs=inputs, outputs=made, attrs=fields)
    return helper.append_activation(made["Y"])


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
) -> Variable:
    """Each element over a power of the squares in neighbouring channels."""
    if len(input.shape) != 4:
        raise UserError(f"lrn takes images, and '{input.name}' has the shape {list(input.shape)}")
    fields = {"n": n, "k": k, "alpha": alpha, "beta": beta}
    return one_op("lrn", {"X": input}, {"Out": input.dtype, "MidOut": input.dtype}, fields, name)[0]


# ---- other sizes
