# SPDX-License-Identifier: Apache-2.0
"""Axes of which two are known by their role, that of samples and that of steps, and all others, the features, by their
place. The target chooses the positions of samples and steps (the pass `place-samples`).

Features are named by their distance from the last one, `_0` being that: so tensors are matched by name as any others are,
and features of fewer dimensions by their last ones, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ops.roles import feature_name, feature_number
from .axes import Axes
from .axis import Axis
from .errors import IncompatibleAxesError, fail


class SimpleAxes(Axes):
    """The axis of samples, that of steps (each may lack), and features in their order."""

    __slots__ = ()

    called = "simple axes"
    made_by = "ng.simple.asarray(x) takes N and REC of x by their role, and its other axes in their order"

    @staticmethod
    def of(shape: Iterable[int], samples: Axis | None = None, steps: Axis | None = None) -> SimpleAxes:
        """The axes of samples and of steps, where there are such, and new ones for features of these lengths."""
        shape = tuple(shape)
        roles = [axis for axis in (samples, steps) if axis is not None]
        features = [Axis(n, feature_name(len(shape) - 1 - d)) for d, n in enumerate(shape)]
        return SimpleAxes([*roles, *features])

    @property
    def samples(self) -> Axis | None:
        return self.batch_axis()

    @property
    def steps(self) -> Axis | None:
        return self.recurrent_axis()

    @property
    def roles(self) -> tuple[Axis, ...]:
        """The axes of samples and of steps, as far as there are such."""
        return tuple(axis for axis in (self.samples, self.steps) if axis is not None)

    @property
    def features(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self if not axis.is_batch and not axis.is_recurrent)

    @property
    def feature_lengths(self) -> tuple[int, ...]:
        """The lengths of the features; an error where one is not set."""
        return tuple([axis.known_length for axis in self.features])

    def __repr__(self) -> str:
        roles = [f"{a.name}: {'?' if a.length is None else a.length}" for a in self.roles]
        return f"SimpleAxes({', '.join([*roles, str(tuple(a.length for a in self.features))])})"


def canonical(axes: Axes) -> Axes:
    """Samples, steps, then features: those that are numbered in their order, before them others as they come."""
    roles = [axis for axis in (axes.batch_axis(), axes.recurrent_axis()) if axis is not None]
    rest = [axis for axis in axes if not axis.is_batch and not axis.is_recurrent]
    others = [axis for axis in rest if feature_number(axis.name) is None]
    numbered = [axis for axis in rest if feature_number(axis.name) is not None]
    numbered.sort(key=lambda axis: -(feature_number(axis.name) or 0))
    if others and numbered:
        names = ", ".join(axis.name for axis in others)
        fail(IncompatibleAxesError, f"axes {names} are not features", "features are identified by position")
    return Axes([*roles, *others, *numbered])
