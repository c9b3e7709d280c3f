# SPDX-License-Identifier: Apache-2.0
"""How widely initial weights are spread, by the inputs and outputs that elements of a layer have (fans)."""

from __future__ import annotations

from math import sqrt

__all__ = ["glorot", "he", "uniform_bound"]


def glorot(fan_in: float, fan_out: float) -> float:
    """The standard deviation sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    return sqrt(2 / (fan_in + fan_out))


def he(fan_in: float) -> float:
    """The standard deviation sqrt(2 / fan_in) (He and others, 2015)."""
    return sqrt(2 / fan_in)


def uniform_bound(deviation: float) -> float:
    """The bound b of uniform numbers from -b to b that have a standard deviation."""
    return sqrt(3) * deviation
