# SPDX-License-Identifier: Apache-2.0
"""Activations: functions of tensors, with their settings."""

from __future__ import annotations

from ...op_graph import functions as ng
from ...op_graph.axes import AxesOrNames
from ...op_graph.tensor import Tensor
from ..common.described import Described

__all__ = [
    "Explin",
    "Identity",
    "Logistic",
    "Normalizer",
    "Rectlin",
    "Rectlinclip",
    "Softmax",
    "Tanh",
]


class Identity(Described):
    """x."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


class Rectlin(Described):
    """max(x, 0) + slope * min(0, x)."""

    def __init__(self, slope: float = 0.0):
        self.slope = slope

    def __call__(self, x: Tensor) -> Tensor:
        return ng.maximum(x, 0) + self.slope * ng.minimum(0, x) if self.slope else ng.maximum(x, 0)


class Rectlinclip(Described):
    """The rectifier, held below `cutoff`."""

    def __init__(self, slope: float = 0.0, cutoff: float = 20.0):
        self.rectifier = Rectlin(slope)
        self.slope, self.cutoff = slope, cutoff

    def __call__(self, x: Tensor) -> Tensor:
        return ng.minimum(self.rectifier(x), self.cutoff)


class Explin(Described):
    """max(x, 0) + alpha * (exp(min(x, 0)) - 1)."""

    def __init__(self, alpha: float = 1.0):
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        return ng.maximum(x, 0) + self.alpha * ng.expm1(ng.minimum(x, 0))


class Normalizer(Described):
    """x / divisor."""

    def __init__(self, divisor: float = 128.0):
        self.divisor = divisor

    def __call__(self, x: Tensor) -> Tensor:
        return x / self.divisor


class Softmax(Described):
    """exp(x) over its sum along some axes: all but N and REC, unless others are given."""

    def __init__(self, axes: AxesOrNames | None = None):
        self.axes = axes

    def __call__(self, x: Tensor) -> Tensor:
        return ng.softmax(x, self.axes)


class Tanh(Described):
    """The hyperbolic tangent."""

    def __call__(self, x: Tensor) -> Tensor:
        return ng.tanh(x)


class Logistic(Described):
    """1 / (1 + exp(-x))."""

    def __call__(self, x: Tensor) -> Tensor:
        return ng.sigmoid(x)
