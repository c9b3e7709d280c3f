# SPDX-License-Identifier: Apache-2.0
"""Groups of layers that networks are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...support.diagnostics import UserError
from . import layers
from .framework import Variable
from .lists import listed

__all__ = [
    "glu",
    "img_conv_group",
    "scaled_dot_product_attention",
    "sequence_conv_pool",
    "simple_img_conv_pool",
]


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    pool_size: Any,
    pool_stride: Any,
    pool_padding: Any = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Any = 1,
    conv_padding: Any = 0,
    conv_dilation: Any = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    use_cudnn: bool = True,
    use_mkldnn: bool = False,
) -> Variable:
    """A convolution, then pooling."""
    made = layers.conv2d(
        input,
        num_filters,
        filter_size,
        conv_stride,
        conv_padding,
        conv_dilation,
        conv_groups,
        param_attr,
        bias_attr,
        act=act,
    )
    return layers.pool2d(made, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: Any = None,
    act: str = "sigmoid",
    pool_type: str = "max",
) -> Variable:
    """A convolution along each sequence, then its rows as one."""
    made = layers.sequence_conv(input, num_filters, filter_size, param_attr=param_attr, act=act)
    return layers.sequence_pool(made, pool_type)


def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: Any,
    conv_padding: Any = 1,
    conv_filter_size: Any = 3,
    conv_act: str | None = None,
    param_attr: Any = None,
    conv_with_batchnorm: Any = False,
    conv_batchnorm_drop_rate: Any = 0.0,
    pool_stride: Any = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
    use_mkldnn: bool = False,
) -> Variable:
    """Convolutions, each with batch normalization and dropout where asked, then one pooling. What is a list has a value for each
    convolution."""
    count = len(conv_num_filter)

    def each(given: Any) -> list[Any]:
        found = listed(given) if isinstance(given, (list, tuple)) else [given] * count
        if len(found) != count:
            raise UserError(f"{given!r} says {len(found)} values for {count} convolutions")
        return found

    made = input
    settings = zip(
        conv_num_filter, each(conv_padding), each(conv_filter_size), each(param_attr), each(conv_with_batchnorm),
        each(conv_batchnorm_drop_rate), strict=True,
    )  # fmt: skip
    for filters, padding, size, attr, has_norm, rate in settings:
        act = None if has_norm else conv_act
        made = layers.conv2d(made, filters, size, padding=padding, param_attr=attr, act=act)
        if has_norm:
            made = layers.batch_norm(made, act=conv_act)
            if abs(rate) > 1e-5:
                made = layers.dropout(made, rate)
    return layers.pool2d(made, pool_size, pool_type, pool_stride)


def glu(input: Variable, dim: int = -1) -> Variable:
    """a sigmoid(b) of the two halves along a dimension."""
    a, b = layers.split(input, 2, dim)
    return layers.elementwise_mul(a, layers.sigmoid(b))


def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """softmax(q k^T / sqrt(d)) v of batches of sequences [batch, steps, width]; several heads each see a part of the width, after a fully
    connected layer of each of q, k and v."""
    if not len(queries.shape) == len(keys.shape) == len(values.shape) == 3:
        shapes = [list(v.shape) for v in (queries, keys, values)]
        raise UserError(f"queries, keys and values are [batch, steps, width], and have the shapes {shapes}")
    if queries.shape[-1] != keys.shape[-1]:
        raise UserError(f"queries have the width {queries.shape[-1]}, and keys {keys.shape[-1]}")
    if keys.shape[-2] != values.shape[-2]:
        raise UserError(f"there are {keys.shape[-2]} keys and {values.shape[-2]} values")
    if keys.shape[-1] % num_heads or values.shape[-1] % num_heads:
        raise UserError(
            f"the widths {keys.shape[-1]} and {values.shape[-1]} are not both cut into {num_heads} heads"
        )

    def by_heads(x: Variable) -> Variable:
        if num_heads == 1:
            return x
        x = layers.fc(x, x.shape[-1], num_flatten_dims=2)
        parts = layers.reshape(x, [0, 0, num_heads, x.shape[-1] // num_heads])
        return layers.transpose(parts, [0, 2, 1, 3])

    q, k, v = by_heads(queries), by_heads(keys), by_heads(values)
    scores = layers.matmul(
        layers.scale(q, scale=float(keys.shape[-1] // num_heads) ** -0.5), k, transpose_y=True
    )
    weights = layers.softmax(scores)
    if dropout_rate:
        weights = layers.dropout(weights, dropout_rate)
    made = layers.matmul(weights, v)
    if num_heads == 1:
        return made
    joined = layers.transpose(made, [0, 2, 1, 3])
    return layers.reshape(joined, [0, 0, joined.shape[2] * joined.shape[3]])
