# SPDX-License-Identifier: Apache-2.0
"""Initial values: functions from axes to arrays, drawn from NumPy's global generator (`np.random.seed` repeats them)."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from ...op_graph.axes import AxesLike, make_axes
from ...training.initial_values import glorot, he, uniform_bound
from ..common.described import Described
from .axis import is_shadow_axis

Array = np.ndarray[Any, Any]


class Initializer(Described):
    """A function from axes to an array of their lengths."""

    def __call__(self, axes: AxesLike) -> Array:
        raise NotImplementedError


def fans(axes: AxesLike) -> tuple[int, int]:
    """(fan in, fan out): how many elements a weight sums over, and how many it makes, which are its shadow axes."""
    axes = make_axes(axes)
    inside = prod(a.known_length for a in axes if not is_shadow_axis(a))
    return inside, prod(a.known_length for a in axes if is_shadow_axis(a))


class GaussianInit(Initializer):
    """Normal numbers."""

    def __init__(self, mean: float = 0.0, std: float = 0.01):
        self.mean, self.std = mean, std

    def __call__(self, axes: AxesLike) -> Array:
        return np.random.normal(self.mean, self.std, make_axes(axes).known_shape)


class UniformInit(Initializer):
    """Uniform numbers from low to high."""

    def __init__(self, low: float = -0.01, high: float = 0.01):
        self.low, self.high = low, high

    def __call__(self, axes: AxesLike) -> Array:
        return np.random.uniform(self.low, self.high, make_axes(axes).known_shape)


class ConstantInit(Initializer):
    """One number everywhere."""

    def __init__(self, val: float = 0.0):
        self.val = val

    def __call__(self, axes: AxesLike) -> Array:
        return np.full(make_axes(axes).known_shape, self.val, np.float64)


class GlorotInit(Initializer):
    """Uniform, at most sqrt(6 / (fan in + fan out))."""

    def __call__(self, axes: AxesLike) -> Array:
        bound = uniform_bound(glorot(*fans(axes)))
        return np.random.uniform(-bound, bound, make_axes(axes).known_shape)


class XavierInit(Initializer):
    """Uniform, at most sqrt(3 / fan in)."""

    def __call__(self, axes: AxesLike) -> Array:
        bound = sqrt(3 / fans(axes)[0])
        return np.random.uniform(-bound, bound, make_axes(axes).known_shape)


class KaimingInit(Initializer):
    """Normal, with deviation sqrt(2 / fan in)."""

    def __call__(self, axes: AxesLike) -> Array:
        return np.random.normal(0.0, he(fans(axes)[0]), make_axes(axes).known_shape)
