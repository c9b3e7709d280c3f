# SPDX-License-Identifier: Apache-2.0
"""Costs by name: functions of what a model gives and of a target, one number for each sample (and step)."""

from __future__ import annotations

from typing import Any

from ...op_graph import functions as ng
from ...op_graph.tensor import Tensor
from ..common.described import Described

__all__ = [
    "CrossEntropyBinary",
    "CrossEntropyMulti",
    "MeanSquared",
    "SmoothL1",
    "SumSquared",
]


class CrossEntropyBinary(Described):
    """-(t log y + (1 - t) log(1 - y)), added up."""

    def __init__(self, usebits: bool = False):
        self.usebits = usebits

    def __call__(self, y: Tensor, t: Any) -> Tensor:
        return ng.cross_entropy_binary(y, t, usebits=self.usebits)


class CrossEntropyMulti(Described):
    """-t log y, added up."""

    def __init__(self, usebits: bool = False):
        self.usebits = usebits

    def __call__(self, y: Tensor, t: Any) -> Tensor:
        return ng.cross_entropy_multi(y, t, usebits=self.usebits)


class SumSquared(Described):
    """Half of the squared differences, added up."""

    def __call__(self, y: Tensor, t: Any) -> Tensor:
        return 0.5 * ng.sum(ng.square(y - t))


class MeanSquared(Described):
    """The mean of the squared differences."""

    def __call__(self, y: Tensor, t: Any) -> Tensor:
        return ng.mean(ng.square(y - t))


class SmoothL1(Described):
    """Half of the squared differences where they are below 1, else their magnitudes less a half; added up."""

    def __call__(self, y: Tensor, t: Any) -> Tensor:
        apart = ng.absolute(y - t)
        return ng.sum(ng.where(apart < 1, 0.5 * apart * apart, apart - 0.5))
