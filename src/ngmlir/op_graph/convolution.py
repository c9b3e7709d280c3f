# SPDX-License-Identifier: Apache-2.0
"""Convolution under one path: its functions, the classes of what they give, and its gradients asked for by themselves."""

from __future__ import annotations

from typing import Any

from .deriv import deriv
from .functions import convolution as convolution
from .functions import convolve as convolve
from .functions import deconvolution as deconvolution
from .functions import deconvolve as deconvolve
from .functions import five_axes
from .tensor import Tensor
from .user_ops import class_of

#: The classes of what `convolution` and `deconvolution` give.
ConvolutionOp, DeconvolutionOp = class_of(five_axes.convolution), class_of(five_axes.deconvolution)


def bprop_conv(delta: Any, inputs: Tensor, filters: Tensor, fprop: Tensor) -> Tensor:
    """The gradient by the inputs of `fprop`, a convolution, weighted with delta. `ng.deriv` gives the same."""
    return deriv(fprop, inputs, delta)


def update_conv(delta: Any, inputs: Tensor, filters: Tensor, fprop: Tensor) -> Tensor:
    """The gradient by the filters of `fprop`, a convolution, weighted with delta. `ng.deriv` gives the same."""
    return deriv(fprop, filters, delta)


def DeconvDerivOp(delta: Any, fprop: Tensor) -> Tensor:
    """The gradient by the inputs of `fprop`, a deconvolution, weighted with delta. `ng.deriv` gives the same."""
    inputs = fprop.args[0]
    assert isinstance(inputs, Tensor)
    return deriv(fprop, inputs, delta)
