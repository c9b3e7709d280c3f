# SPDX-License-Identifier: Apache-2.0
"""The axes that programs of layers share, and second axes of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...op_graph import functions as ng
from ...op_graph.axes import Axes, AxesLike, AxesMap, Axis, make_axes, make_axis
from ...op_graph.errors import IncompatibleAxesError, fail
from ...op_graph.tensor import Tensor

__all__ = [
    "SHADOW",
    "PredefinedAxes",
    "ax",
    "is_shadow_axis",
    "make_shadow_axis",
    "reorder_spatial_axes",
    "shadow_axes",
    "shadow_axes_map",
    "spatial_names",
    "unshadowed",
]

SHADOW = "__NG_SHADOW"


class PredefinedAxes:
    """`ax.N`, `ax.C` ...: one axis of each name for all programs. Iterators set the lengths of N and REC, programs that of
    Y; more can be added: `ax.T = ng.make_axis(name="T")`."""

    def __init__(self) -> None:
        self.N = make_axis(name="N", docstring="the samples of a batch")
        self.REC = make_axis(name="REC", docstring="the steps of a sequence")
        self.Y = make_axis(name="Y", docstring="the classes of a target")
        self.C = make_axis(name="C", docstring="channels")
        self.D = make_axis(name="D", docstring="depth")
        self.H = make_axis(name="H", docstring="height")
        self.W = make_axis(name="W", docstring="width")
        self.K = make_axis(name="K", docstring="channels that filters make")
        self.T = make_axis(name="T", docstring="taps of filters along depth")
        self.R = make_axis(name="R", docstring="taps of filters along height")
        self.S = make_axis(name="S", docstring="taps of filters along width")

    def __setattr__(self, name: str, axis: Axis) -> None:
        object.__setattr__(self, name, axis)

    def __getattr__(self, name: str) -> Axis:
        raise AttributeError(
            f"there is no predefined axis {name}; make it: ax.{name} = ng.make_axis(name={name!r})"
        )


ax = PredefinedAxes()


def make_shadow_axis(axis: Axis) -> Axis:
    """An axis as long as another, of another name: so that a weight can have both as axes."""
    return axis.renamed(axis.name + SHADOW)


def is_shadow_axis(axis: Axis) -> bool:
    """Whether an axis stands for the output of a weight."""
    return axis.name.endswith(SHADOW)


def shadow_axes(axes: AxesLike) -> Axes:
    """All axes as shadows."""
    return Axes(make_shadow_axis(axis) for axis in make_axes(axes))


def shadow_axes_map(axes: AxesLike) -> AxesMap:
    """The renaming that makes axes their shadows, for `ng.map_roles`."""
    return AxesMap({axis.name: axis.name + SHADOW for axis in make_axes(axes)})


def unshadowed(x: Tensor) -> Tensor:
    """The tensor with its shadow axes under their own names."""
    names = {a.name: a.name.removesuffix(SHADOW) for a in x.axes if is_shadow_axis(a)}
    return ng.map_roles(x, names) if names else x


#: (D, H, W), by which name an axis of the input is known in their places.
Spatial = Mapping[str, str] | Sequence[str]


def spatial_names(spatial_axes: Spatial | None) -> tuple[str, str, str]:
    """The names of depth, height and width; those that a mapping does not give are D, H and W."""
    if spatial_axes is None:
        return "D", "H", "W"
    if isinstance(spatial_axes, Mapping):
        unknown = [name for name in spatial_axes if name not in ("D", "H", "W")]
        if unknown:
            fail(
                IncompatibleAxesError,
                f"{', '.join(map(str, unknown))} is none of D, H and W",
                '{"W": "time"}',
            )
        depth, height, width = (_name(spatial_axes.get(name, name)) for name in ("D", "H", "W"))
    else:
        depth, height, width = map(_name, spatial_axes)
    return depth, height, width


def _name(axis: Any) -> str:
    return axis.name if isinstance(axis, Axis) else str(axis)


def reorder_spatial_axes(
    tensor: Tensor, channel_axes: str = "C", spatial_axes: Spatial | None = None
) -> Tensor:
    """The tensor as (C, D, H, W, N); axes that it lacks are there with one element.

    Raises IncompatibleAxesError for a tensor without N, without any of D, H and W, or with any other axis.
    """
    names = (_name(channel_axes), *spatial_names(spatial_axes))
    batch = tensor.axes.batch_axis()
    held = ", ".join(tensor.axes.names)
    if batch is None:
        fail(IncompatibleAxesError, f"({held}) has no batch axis N")
    if not any(name in tensor.axes.names for name in names[1:]):
        fail(
            IncompatibleAxesError,
            f"({held}) has none of the axes {', '.join(names[1:])} that windows slide along",
            'give its names: spatial_axes={"H": "height", "W": "width"}',
        )
    others = [a.name for a in tensor.axes if a.name not in names and not a.is_batch]
    if others:
        fail(
            IncompatibleAxesError,
            f"({held}) has {', '.join(others)} besides {', '.join(names)} and N",
            'spatial_axes={"W": "time"} says which axis is the width',
        )
    axes = [tensor.axes[n] if n in tensor.axes.names else make_axis(1, n) for n in names]
    return ng.broadcast(tensor, [*axes, batch])
