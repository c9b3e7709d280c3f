# SPDX-License-Identifier: Apache-2.0
"""Sizes and parameters of windows, and a plain optimizer, for front ends that import models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...op_graph import functions as ng
from ...op_graph.axes import Axis
from ...op_graph.calls import listed
from ...op_graph.deriv import deriv
from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.state import assign, doall, placeholder
from ...op_graph.tensor import Tensor
from ...ops.sliding import count_of, covered_by, same_border, span_of
from .learning_rate_policies import get_learning_rate_policy_callback
from .windows import border_of

__all__ = [
    "CommonSGDOptimizer",
    "ConvParameters",
    "common_conv2d_pool_output_shape",
    "common_conv2d_pool_padding",
    "conv_output_dim",
    "deconv_output_dim",
    "get_learning_rate_policy_callback",
    "make_convparams",
    "make_poolparams",
    "squeeze_axes",
]


def conv_output_dim(
    X: int, S: int, padding: Any, strides: int, pooling: bool = False, dilation: int = 1
) -> int:
    """How many windows there are along an axis.

    Args:
        X: the length of the axis.
        S: the number of taps of a window.
        padding: elements on each side; a pair, before and after; or one of `same`, `valid`, `full`, `causal`.
        strides: how far apart windows are.
        pooling: whether padding as wide as a window is refused.
        dilation: how far apart the taps of a window are.

    Raises UserError for a number below 0, in pooling for padding as wide as the window, and for padding of another name.
    """
    before, after = border_of(padding, Axis(X), S, strides, dilation)
    if pooling and max(before, after) >= S:
        fail(UserError, f"padding by {padding} is too much for windows of {S}", "pad by less than a window")
    size = count_of(X + before + after, span_of(S, dilation), strides)
    if size < 0:
        fail(UserError, f"windows of {S} along {X} elements: {size} of them cannot be")
    return size


def deconv_output_dim(X: int, S: int, padding: Any, strides: int, dilation: int = 1) -> int:
    """The length of an axis of which a convolution with these settings gives X elements.

    Arguments as of `conv_output_dim`; a name is the padding of the X elements, as of a deconvolution layer. Raises UserError for
    a length below 0.
    """
    before, after = border_of(padding, Axis(X), S, strides, dilation)
    size = covered_by(X, span_of(S, dilation), strides) - before - after
    if size < 0:
        fail(UserError, f"a deconvolution of {X} elements cannot give {size}", "pad by less")
    return size


class ConvParameters:
    """Padding, strides and dilations along depth, height and width, by name, and as a dictionary for `ng.convolution`."""

    def __init__(
        self,
        pad_d: int = 0,
        pad_h: int = 0,
        pad_w: int = 0,
        str_d: int = 1,
        str_h: int = 1,
        str_w: int = 1,
        dil_d: int = 1,
        dil_h: int = 1,
        dil_w: int = 1,
    ):
        self.pad_d, self.pad_h, self.pad_w = pad_d, pad_h, pad_w
        self.str_d, self.str_h, self.str_w = str_d, str_h, str_w
        self.dil_d, self.dil_h, self.dil_w = dil_d, dil_h, dil_w

    def get_parameters(self) -> dict[str, int]:
        """The nine by their names."""
        return dict(self.__dict__)


def make_convparams(
    nout: int,
    filter_shape: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> dict[str, int]:
    """The parameters of `ng.convolution`; each sequence has one number for depth, height and width."""
    T, R, S = filter_shape
    made = {"K": nout, "T": T, "R": R, "S": S}
    for kind, settings in (("str", strides), ("pad", padding), ("dil", dilation)):
        made.update({f"{kind}_{d}": n for d, n in zip("dhw", settings, strict=True)})
    return made


def make_poolparams(
    op: str, pool_shape: Sequence[int], strides: Sequence[int], padding: Sequence[int]
) -> dict[str, Any]:
    """The parameters of `ng.pooling`; each sequence has one number for channels, depth, height and width."""
    made: dict[str, Any] = {"op": op, **dict(zip("JTRS", pool_shape, strict=True))}
    for kind, settings in (("str", strides), ("pad", padding)):
        made.update({f"{kind}_{d}": n for d, n in zip("cdhw", settings, strict=True)})
    return made


def squeeze_axes(inputs: Iterable[Tensor]) -> list[Tensor]:
    """The tensors without their axes of one element."""
    return [
        ng.tensor_slice(x, [0 if axis.length == 1 else slice(None) for axis in x.axes])
        for x in listed(inputs, "tensors")
    ]


class CommonSGDOptimizer:
    """Gradient descent without momentum; the learning rate is a number or a policy."""

    def __init__(self, lrate: Any):
        self._iteration = placeholder((), dtype=np.uint32, name="iteration", initial_value=0)
        self._rate = get_learning_rate_policy_callback(lrate)

    def get_iter_buffer(self) -> Tensor:
        """The placeholder for the number of the iteration, of which policies are functions."""
        return self._iteration

    def minimize(self, cost: Tensor, variables: Iterable[Tensor]) -> Op:
        """A group that takes a step: each variable less its gradient times the rate."""
        wanted = listed(variables, "variables")
        rate = self._rate(self._iteration)
        made = [(v, v - rate * deriv(cost, v)) for v in wanted]
        with Op.saved_user_deps():
            return doall([assign(v, value) for v, value in made])


def _windowed(
    input_NHWC: Sequence[int], filter_HWIO: Sequence[int], strides: Sequence[int], padding: str
) -> Any:
    """(length, taps, stride) of height and width; strides for H and W, or for N, H, W, C."""
    steps = strides[1:3] if len(strides) == 4 else strides
    if padding not in ("SAME", "VALID"):
        fail(UserError, f"padding is 'SAME' or 'VALID', not {padding!r}")
    return zip(input_NHWC[1:3], filter_HWIO[:2], steps, strict=True)


def common_conv2d_pool_output_shape(
    input_NHWC: Sequence[int], filter_HWIO: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[int, int, int, int]:
    """The shape (N, H, W, O) of a convolution or pooling with padding `SAME` or `VALID`."""
    height, width = (
        -(-n // step) if padding == "SAME" else count_of(n, taps, step)
        for n, taps, step in _windowed(input_NHWC, filter_HWIO, strides, padding)
    )
    return input_NHWC[0], height, width, filter_HWIO[3]


def common_conv2d_pool_padding(
    input_NHWC: Sequence[int], filter_HWIO: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[int, int, int, int]:
    """(top, bottom, left, right): the elements around for padding `SAME` or `VALID`; of an odd number the greater half comes
    after."""
    found: list[int] = []
    for n, taps, step in _windowed(input_NHWC, filter_HWIO, strides, padding):
        found += same_border(n, taps, step) if padding == "SAME" else (0, 0)
    top, bottom, left, right = found
    return top, bottom, left, right
