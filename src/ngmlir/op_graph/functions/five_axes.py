# SPDX-License-Identifier: Apache-2.0
"""Convolution and pooling of inputs with five axes, by the parameters that layers hold: channels, three axes that
windows slide along, and samples. `ng.convolve`, `ng.deconvolve` and `ng.pool` are the same for any axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..axes import Axes, AxesLike, Axis
from ..errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..tensor import Tensor
from ..user_ops import one_op
from .coerce import as_op, check_lengths, floating
from .convolution import convolve, deconvolve, ordered
from .pooling import pool
from .shape import cast_axes, cast_role


def _five(x: Tensor, what: str, names: str) -> Tensor:
    if len(x.axes) != 5:
        fail(
            IncompatibleAxesError,
            f"{what} must must have five axes {names}, not ({', '.join(x.axes.names)})",
            "ng.convolve, ng.deconvolve and ng.pool take any",
        )
    return x


def _settings(params: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Parameters of these names; UserError where some are missing."""
    missing = [name for name in names if name not in params]
    if missing:
        fail(UserError, f"missing parameters: {', '.join(missing)}")
    return [params[name] for name in names]


@one_op("ConvolutionOp")
def convolution(conv_params: Mapping[str, int], inputs: Any, filters: Any, axes: AxesLike) -> Tensor:
    """A convolution of inputs (C, D, H, W, N) with filters (C, T, R, S, K), whose first axes are the same by name.

    `conv_params` holds `pad_`, `str_` and `dil_` for each of d, h and w: zeros on both sides, strides and dilations.
    `axes` are those of the result, (K, D, H, W, N) under any names. `ng.convolve` is the same for axes in any number
    and order.

    Raises UserError for a parameter that is missing, IncompatibleAxesError and AxisLengthError for axes that do not fit.
    """
    inputs = _five(floating(inputs), "inputs", "(C, D, H, W, N)")
    filters = _five(floating(filters), "filters", "(C, T, R, S, K)")
    if inputs.axes[0] != filters.axes[0]:
        fail(
            IncompatibleAxesError,
            f"the first axis of the inputs is {inputs.axes[0].name}, that of the filters {filters.axes[0].name}",
        )
    check_lengths(inputs.axes[:1], filters.axes[:1])
    return _slid(convolve, conv_params, inputs, filters, 0, axes)


@one_op("DeconvolutionOp")
def deconvolution(conv_params: Mapping[str, int], inputs: Any, filters: Any, axes: AxesLike) -> Tensor:
    """The adjoint of `ng.convolution`: inputs (K, D, H, W, N), filters (C, T, R, S, K), whose last axis is as long as the
    inputs' first; `axes` are those of the result, (C, D, H, W, N) under any names.

    Along each axis str * (n - 1) + dil * (taps - 1) + 1 - 2 * pad elements. Raises what `ng.convolution` raises.
    """
    inputs = _five(floating(inputs), "inputs", "(K, D, H, W, N)")
    filters = _five(floating(filters), "filters", "(C, T, R, S, K)")
    channels, of_filters = inputs.axes[0].length, filters.axes[4].length
    if channels != of_filters:
        fail(
            AxisLengthError,
            f"the first axis of the inputs has {channels} elements, the last one of the filters {of_filters}",
        )
    return _slid(deconvolve, conv_params, inputs, filters, 4, axes)


def _slid(
    function: Callable[..., Tensor],
    params: Mapping[str, int],
    inputs: Tensor,
    filters: Tensor,
    shared: int,
    axes: AxesLike,
) -> Tensor:
    """Filters that slide over inputs; axis `shared` of the filters is summed over, the one at their other end is new."""
    found = _settings(params, [f"{kind}_{d}" for kind in ("str", "dil", "pad") for d in "dhw"])
    # Axes of the filters' own, but for the one that is summed over: whatever they are called, no other is one of the inputs'.
    channel = inputs.axes[0]
    own = cast_role(filters, [channel if i == shared else Axis(a.length) for i, a in enumerate(filters.axes)])
    over = dict(zip(inputs.axes[1:4], own.axes[1:4], strict=True))
    made = function(inputs, own, over, found[:3], found[3:6], found[6:])
    return cast_axes(ordered(made, Axes((own.axes[4 - shared], *inputs.axes[1:]))), axes)


@one_op("PoolingOp")
def pooling(pool_params: Mapping[str, Any], inputs: Any, axes: AxesLike) -> Tensor:
    """Pooling of inputs (C, D, H, W, N): `pool_params` holds `op` (`max` or `avg`), the taps `J T R S` and `pad_` and
    `str_` for each of c, d, h and w. `axes` are those of the result under any names. `ng.pool` is the same for axes in
    any number and order.

    Raises UserError for a parameter that is missing, and what `ng.pool` raises.
    """
    inputs = _five(as_op(inputs), "inputs", "(C, D, H, W, N)")
    names = ["op", *"JTRS", *(f"{kind}_{d}" for kind in ("pad", "str") for d in "cdhw")]
    op, *found = _settings(pool_params, names)
    kinds: dict[Any, Any] = {"max": "max", "avg": "mean"}
    if op not in kinds:
        fail(UserError, f"op must be 'max' or 'avg', not {op!r}")
    taps, pads, strides = found[:4], found[4:8], found[8:]
    return cast_axes(
        pool(inputs, dict(zip(inputs.axes[:4], taps, strict=True)), kinds[op], strides, 1, pads), axes
    )
