# SPDX-License-Identifier: Apache-2.0
"""Operators of images: batches of channels of lengths. They are the functions of named axes, on axes that are named here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy

from ... import numpy as np
from ...numpy import getitem
from ...op_graph.axis import Axis
from ...op_graph.functions.composed import stop_gradient
from ...op_graph.functions.convolution import convolve, deconvolve
from ...op_graph.functions.pooling import pool
from ...op_graph.functions.shape import cast_axes
from ...op_graph.tensor import Tensor
from ...ops.sliding import count_of, covered_by, span_of
from ...support.diagnostics import UserError
from ..definition import Context
from ..registry import operator, operators


def named(x: Tensor, names: Sequence[str]) -> Tensor:
    """An array with named axes."""
    return cast_axes(x, [Axis(n, name) for n, name in zip(x.type.shape, names, strict=True)])


def _lengths(x: Tensor, *settings: Sequence[int]) -> list[str]:
    """Names for the lengths of images; UserError where settings are not one for each."""
    rank = len(x.type.shape) - 2
    if rank < 1:
        raise UserError(f"images have a batch, channels and lengths, not the shape {list(x.type.shape)}")
    for given in settings:
        if len(given) != rank:
            raise UserError(f"{list(given)} says {len(given)} numbers for images of {rank} lengths")
    return [f"length{d}" for d in range(rank)]


def _convolved(
    x: Tensor,
    filters: Tensor,
    strides: Sequence[int],
    paddings: Sequence[int],
    groups: int,
    dilations: Sequence[int],
    adjoint: bool,
) -> Tensor:
    lengths = _lengths(x, strides, paddings, dilations)
    taps = [f"taps{d}" for d in range(len(lengths))]
    channels = x.type.shape[1]
    wanted = channels if adjoint else filters.type.shape[1] * groups
    if (
        wanted != channels
        or filters.type.shape[0] % groups
        or (adjoint and filters.type.shape[0] != channels)
    ):
        raise UserError(
            f"filters of shape {list(filters.type.shape)} do not fit {channels} channels in {groups} groups"
        )
    images = named(x, ["batch", "channels", *lengths])
    weights = named(filters, ["channels", "out", *taps] if adjoint else ["out", "channels", *taps])
    function = deconvolve if adjoint else convolve
    made = function(
        images,
        weights,
        dict(zip(lengths, taps, strict=True)),
        strides=list(strides),
        dilations=list(dilations),
        padding=[(p, p) for p in paddings],
        groups=groups,
        axes=[Axis(1, name) for name in ("batch", "out", *lengths)],
        dtype=x.dtype,
    )
    return np.asarray(made)


@operators("conv2d", "conv3d", "depthwise_conv2d")
def convolution(
    x: Tensor,
    filters: Tensor,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    groups: int,
    dilations: Sequence[int],
) -> Tensor:
    return _convolved(x, filters, strides, paddings, groups, dilations, False)


@operators("conv2d_transpose", "conv3d_transpose", "depthwise_conv2d_transpose")
def transposed_convolution(
    x: Tensor,
    filters: Tensor,
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    groups: int,
    dilations: Sequence[int],
) -> Tensor:
    return _convolved(x, filters, strides, paddings, groups, dilations, True)


# ---- pooling


def _around(
    x: Tensor, ksize: Sequence[int], strides: Sequence[int], paddings: Sequence[int], ceil_mode: bool
) -> list[tuple[int, int]]:
    """How many elements come before and after, so that the last window is whole."""
    pairs: list[tuple[int, int]] = []
    for n, k, s, p in zip(x.type.shape[2:], ksize, strides, paddings, strict=True):
        if k > n + 2 * p:
            raise UserError(f"a window of {k} elements does not fit into {n} with {p} on either side")
        # Rounded up, the last window may end beyond the padding.
        count = count_of(n + 2 * p + s - 1, k, s)
        pairs.append((p, covered_by(count, k, s) - n - p if ceil_mode else p))
    return pairs


def _pooled(
    x: Tensor,
    kind: str,
    ksize: Sequence[int],
    global_pooling: bool,
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    exclusive: bool = True,
) -> Tensor:
    if global_pooling:
        ksize, paddings = x.type.shape[2:], [0] * (len(x.type.shape) - 2)
    lengths = _lengths(x, ksize, strides, paddings)
    images = named(x, ["batch", "channels", *lengths])
    around = _around(x, ksize, strides, paddings, ceil_mode)
    over = dict(zip(lengths, ksize, strict=True))
    combine = "max" if kind == "max" else "mean" if exclusive else "sum"
    made = np.asarray(pool(images, over, combine, strides=list(strides), padding=around, dtype=x.dtype))
    return np.divide(made, prod(ksize)) if combine == "sum" else made


@operators("pool2d", "pool3d")
def pooling(
    x: Tensor,
    *,
    pooling_type: str,
    ksize: Sequence[int],
    global_pooling: bool,
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    exclusive: bool,
) -> Tensor:
    return _pooled(x, pooling_type, ksize, global_pooling, strides, paddings, ceil_mode, exclusive)


@operators("max_pool2d_with_index", "max_pool3d_with_index")
def pooling_with_index(
    x: Tensor, *, ksize: Sequence[int], global_pooling: bool, strides: Sequence[int], paddings: Sequence[int]
) -> tuple[Tensor, Tensor]:
    if global_pooling:
        ksize, paddings = x.type.shape[2:], [0] * (len(x.type.shape) - 2)
    _lengths(x, ksize, strides, paddings)
    batch, channels, *lengths = x.type.shape
    around = _around(x, ksize, strides, paddings, False)
    places = numpy.arange(prod(lengths), dtype=numpy.int32).reshape(lengths)
    chosen: list[numpy.ndarray] = []
    for n, k, s, (p, _) in zip(lengths, ksize, strides, around, strict=True):
        count = count_of(n + 2 * p, span_of(k, 1), s)
        chosen.append(numpy.arange(count)[:, None] * s + numpy.arange(k)[None, :] - p)
    grids = numpy.meshgrid(*[c.reshape(-1) for c in chosen], indexing="ij")
    inside = numpy.logical_and.reduce([(g >= 0) & (g < n) for g, n in zip(grids, lengths, strict=True)])
    at = places[tuple([numpy.clip(g, 0, n - 1) for g, n in zip(grids, lengths, strict=True)])]
    counts = [c.shape[0] for c in chosen]
    split = [m for c in chosen for m in c.shape]
    order = [*range(0, 2 * len(lengths), 2), *range(1, 2 * len(lengths), 2)]
    taps = prod(ksize)
    at = at.reshape(split).transpose(order).reshape(-1, taps)
    inside = inside.reshape(split).transpose(order).reshape(-1, taps)
    flat = np.reshape(x, (batch, channels, prod(lengths)))
    windows = np.reshape(np.take(flat, at.reshape(-1), axis=2), (batch, channels, *at.shape))
    seen = np.where(inside, windows, stop_gradient(np.full((1,), -numpy.inf, x.dtype)))
    first = np.argmax(seen, axis=-1)
    mask = np.take_along_axis(np.broadcast_to(at, seen.type.shape), np.expand_dims(first, -1), axis=-1)
    out = np.take_along_axis(seen, np.expand_dims(first, -1), axis=-1)
    shape = (batch, channels, *counts)
    return np.reshape(out, shape), np.astype(np.reshape(mask, shape), np.int32)


@operator
def unpool(
    x: Tensor,
    indices: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    unpooling_type: str,
) -> Tensor:
    batch, channels, *lengths = x.type.shape
    whole = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(lengths, strides, paddings, ksize, strict=True)]
    flat, places = np.reshape(x, (batch, channels, -1)), np.reshape(indices, (batch, channels, -1))
    empty = np.zeros((batch, channels, prod(whole)), x.dtype)
    return np.reshape(np.put_along_axis(empty, places, flat, axis=2), (batch, channels, *whole))


@operator
def spp(x: Tensor, *, pyramid_height: int, pooling_type: str) -> Tensor:
    levels: list[Tensor] = []
    for level in range(pyramid_height):
        bins = 2**level
        ksize = [-(-n // bins) for n in x.type.shape[2:]]
        paddings = [(k * bins - n + 1) // 2 for k, n in zip(ksize, x.type.shape[2:], strict=True)]
        made = _pooled(x, pooling_type, ksize, False, ksize, paddings, False)
        levels.append(np.reshape(made, (x.type.shape[0], -1)))
    return np.concatenate(levels, 1)


def _number(length: int) -> Tensor:
    return np.astype(np.asarray(length), numpy.float64)


@operator
def bilinear_interp(x: Tensor, size: Tensor | None, *, out_h: int, out_w: int, context: Context) -> Tensor:
    if size is not None:
        flat = np.reshape(size, (2,))
        context.require(np.all(np.greater_equal(flat, 1)), "images have one row and column at least")
        out_h, out_w = (context.size(getitem(flat, slice(d, d + 1))) for d in range(2))
    made = x
    for axis, length in ((2, out_h), (3, out_w)):
        old = x.type.shape[axis]
        places = np.arange(length, dtype=numpy.float64)
        if length > 1:  # the first and the last row stay where they are
            places = np.multiply(places, np.divide(_number(old - 1), _number(length - 1)))
        low = np.minimum(np.astype(places, numpy.int64), old - 1)
        high = np.minimum(np.add(low, 1), old - 1)
        weight = np.astype(np.subtract(places, np.astype(low, numpy.float64)), x.dtype)
        weight = np.reshape(weight, (length, 1) if axis == 2 else (length,))
        below, above = np.take(made, low, axis=axis), np.take(made, high, axis=axis)
        made = np.add(below, np.multiply(np.subtract(above, below), weight))
    return made
