# SPDX-License-Identifier: Apache-2.0
"""Layers of windows: convolution, deconvolution, pooling. Axes come back in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....op_graph import functions as ng
from ....op_graph.axes import Axes, Axis
from ....op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ....op_graph.functions.sliding import RULES, Slide
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ...common.given import is_named, is_several
from ..axis import Spatial, make_shadow_axis, reorder_spatial_axes, spatial_names
from ..graph import SubGraph
from .base import Activation, Layer, Transform
from .linear import LABELS, shifted

#: A setting for all dimensions, one for each, or {dimension: setting}.
Setting = Any


def per_dimension(given: Setting, names: str, default: Any, what: str) -> dict[str, Any]:
    """A setting for each of some dimensions; those that a mapping does not name stand at the default."""
    if is_named(given):
        unknown = [name for name in given if name not in [*names]]
        if unknown:
            fail(UserError, f"{what} for {unknown[0]!r}, which is none of {', '.join(names)}")
        return {name: given.get(name, default) for name in names}
    if is_several(given):
        if len(given) != len(names):
            fail(UserError, f"{len(given)} numbers as {what} of {len(names)} dimensions ({', '.join(names)})")
        return dict(zip(names, given, strict=True))
    return dict.fromkeys(names, given)


@dataclass(frozen=True)
class Window:
    """How a window lies along one dimension (C, D, H or W)."""

    taps: int
    stride: Any
    padding: Any
    dilation: Any

    def border(self, axis: Axis) -> tuple[int, int]:
        """Elements before and after an axis."""
        if not isinstance(self.padding, str):
            before, after = self.padding if is_several(self.padding) else (self.padding, self.padding)
            return before, after
        if self.padding not in RULES:
            fail(
                UserError,
                f"padding is one of {', '.join(RULES)}, or numbers of elements, not {self.padding!r}",
            )
        return Slide(axis, Axis(self.taps), self.stride, self.dilation).border(self.padding)


def windows(
    shape: Mapping[str, int], strides: Setting, padding: Setting, dilation: Setting
) -> dict[str, Window]:
    """The windows along the dimensions of a shape."""
    names = "".join(shape)
    if is_several(padding) and len(names) == 1 and len(padding) == 2:
        padding = [padding]  # before and after the one dimension
    settings = [
        per_dimension(given, names, default, what)
        for given, default, what in (
            (strides, 1, "strides"),
            (padding, 0, "padding"),
            (dilation, 1, "dilation"),
        )
    ]
    return {name: Window(shape[name], *(s[name] for s in settings)) for name in names}


def shape_of(given: Any, endings: tuple[str, ...], what: str) -> dict[str, int]:
    """A shape by dimension: a mapping, or a number for each of the last dimensions."""
    if is_named(given):
        known = endings[-1]
        unknown = [name for name in given if name not in [*known]]
        if unknown:
            fail(UserError, f"{what} has {unknown[0]!r}, which is none of {', '.join(known)}")
        return {name: given[name] for name in known if name in given}
    numbers: tuple[Any, ...] = (given,) if isinstance(given, int) else tuple(given)
    names = next((e for e in endings if len(e) == len(numbers)), None)
    if names is None:
        forms = ", ".join(f"({', '.join(e)})" for e in endings)
        fail(UserError, f"{what} is one of {forms}, or a dictionary, not {given!r}")
    return dict(zip(names, numbers, strict=True))


@dataclass(frozen=True)
class Lying:
    """How filters lie along the axes of a tensor; `dimensions` says which of D, H and W these are."""

    over: Mapping[Axis, Axis]
    strides: list[int]
    dilations: list[int]
    borders: list[tuple[int, int]]
    dimensions: Mapping[str, Axis]


class ConvBase(Layer):
    """What convolution and deconvolution share: filters, and how their windows lie."""

    def __init__(
        self,
        filter_shape: Any,
        init: Any,
        strides: Setting = 1,
        padding: Setting = 0,
        dilation: Setting = 1,
        spatial_axes: Spatial | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        shape = shape_of(filter_shape, ("WK", "HWK", "DHWK"), "the shape of filters")
        if "K" not in shape:
            fail(UserError, "the shape of filters lacks K, the number of channels that they make")
        self.nout = shape.pop("K")
        self.windows = windows(shape, strides, padding, dilation)
        self.init, self.spatial_axes = init, spatial_axes

    def lying(
        self, x: Tensor, channel_axes: str, spatial_axes: Spatial | None
    ) -> tuple[Tensor, Tensor, Lying]:
        """What comes in, with channels; the filters, with taps of their own and without dimensions that it lacks; and how
        windows lie along those that it has."""
        spatial = spatial_axes or self.spatial_axes
        five = reorder_spatial_axes(x, channel_axes, spatial)
        channel, held = five.axes[0], five.axes[1:4]
        taps = [
            Axis(self.windows[d].taps if d in self.windows else 1, a.name)
            for d, a in zip("DHW", held, strict=True)
        ]
        filters = self.parameter(
            "W", Axes((channel, *taps, make_shadow_axis(Axis(self.nout, "K")))), self.init, LABELS["weight"]
        )
        filters = ng.cast_role(filters, [channel, *(Axis(a.length) for a in filters.axes[1:])])
        lacking = [a not in x.axes for a in held]
        lost = [
            a.name for a, tap, lacks in zip(held, taps, lacking, strict=True) if lacks and tap.length != 1
        ]
        if lost:
            fail(
                IncompatibleAxesError,
                f"filters slide along {', '.join(lost)}, which ({', '.join(x.axes.names)}) lacks",
            )
        kept = [0 if lacks else slice(None) for lacks in (False, *lacking, False)]
        here = {d: a for d, a, lacks in zip("DHW", held, lacking, strict=True) if not lacks}
        filters = ng.tensor_slice(filters, kept)
        along = [self.windows.get(d, Window(1, 1, 0, 1)) for d in here]
        return (
            x if channel in x.axes else ng.broadcast(x, [channel, *x.axes]),
            filters,
            Lying(
                dict(zip(here.values(), filters.axes[1:-1], strict=True)),
                [w.stride for w in along],
                [w.dilation for w in along],
                [w.border(axis) for w, axis in zip(along, here.values(), strict=True)],
                here,
            ),
        )


def _back(made: Tensor, channel: str, out: Axis, x: Axes) -> Tensor:
    """The result in the order of x, `out` under the name of its channels."""
    made = ng.map_roles(made, {out.name: channel})
    return ng.axes_with_order(made, [made.axes[name] for name in x.names])


class ConvolutionBase(ConvBase):
    """The convolution alone, without flipping of filters."""

    layer_type = "convolution"

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, channel_axes: str = "C", spatial_axes: Spatial | None = None) -> Tensor:
        x, filters, lying = self.lying(as_op(in_obj), channel_axes, spatial_axes)
        made = ng.convolve(x, filters, lying.over, lying.strides, lying.dilations, lying.borders)
        return _back(made, channel_axes, filters.axes[-1], x.axes)


class DeconvolutionBase(ConvBase):
    """The deconvolution alone: the adjoint of a convolution that gives what comes in."""

    layer_type = "deconvolution"

    def __init__(self, filter_shape: Any, init: Any, deconv_out_shape: Any = None, **arguments: Any):
        super().__init__(filter_shape, init, **arguments)
        whole = is_several(deconv_out_shape) and len(deconv_out_shape) == len(self.windows)
        self.out_shape: dict[str, int] = (
            {} if deconv_out_shape is None
            else dict(zip(self.windows, deconv_out_shape, strict=True)) if whole
            else shape_of(deconv_out_shape, ("W", "HW", "DHW"), "the shape of the result")
        )  # fmt: skip

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, channel_axes: str = "C", spatial_axes: Spatial | None = None) -> Tensor:
        x, filters, lying = self.lying(as_op(in_obj), channel_axes, spatial_axes)
        made = ng.deconvolve(x, filters, lying.over, lying.strides, lying.dilations, lying.borders)
        cuts = {
            axis.name: self._cut(made.axes[axis.name], self.out_shape[name])
            for name, axis in lying.dimensions.items()
            if name in self.out_shape
        }
        made = ng.tensor_slice(made, [cuts.get(a.name, slice(None)) for a in made.axes])
        return _back(made, channel_axes, filters.axes[-1], x.axes)

    @staticmethod
    def _cut(axis: Axis, wanted: int) -> slice:
        missing = wanted - axis.known_length
        if missing > 0:
            fail(
                AxisLengthError,
                f"the result has {axis.length} elements along {axis.name}, fewer than {wanted}",
            )
        before = -missing // 2
        return slice(before, before + wanted)


class _Filtered(Layer):
    """A product of windows, then a bias or batch normalization, then an activation."""

    conv: ConvolutionBase | DeconvolutionBase

    def __init__(self, bias_init: Any, activation: Transform | None, batch_norm: bool, **arguments: Any):
        super().__init__(**arguments)
        self.bias, self.batch_norm = shifted(bias_init, batch_norm, always=False)
        self.activation = Activation(activation)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, channel_axes: str = "C", spatial_axes: Spatial | None = None) -> Tensor:
        made = self.conv(in_obj, channel_axes, spatial_axes)
        for layer in (self.bias, self.batch_norm, self.activation):
            made = made if layer is None else layer(made)
        return made


class Convolution(_Filtered):
    """Filters along the windows of what comes in: over W, (H, W) or (D, H, W), whichever the filters have.

    `filter_shape` is (W, K), (H, W, K), (D, H, W, K) or a dictionary of these; the filters have axes (C, D, H, W, K), K a
    shadow. `padding` is a number, a pair (before, after) of one dimension, one of `same valid full causal`, or one of these
    for each dimension; `strides` and `dilation` are numbers, or one for each dimension. There is a bias only where
    `bias_init` is given. `spatial_axes={"W": "time"}` says which axes these are.
    """

    def __init__(
        self,
        filter_shape: Any,
        filter_init: Any,
        strides: Setting = 1,
        padding: Setting = 0,
        dilation: Setting = 1,
        bias_init: Any = None,
        activation: Transform | None = None,
        batch_norm: bool = False,
        spatial_axes: Spatial | None = None,
        **arguments: Any,
    ):
        super().__init__(bias_init, activation, batch_norm, **arguments)
        self.conv = ConvolutionBase(filter_shape, filter_init, strides, padding, dilation, spatial_axes)


class Deconvolution(_Filtered):
    """The same transposed: as long as what a convolution with these settings would make it from, cut in the middle to
    `deconv_out_shape` where that is given."""

    def __init__(
        self,
        filter_shape: Any,
        filter_init: Any,
        strides: Setting = 1,
        padding: Setting = 0,
        dilation: Setting = 1,
        bias_init: Any = None,
        activation: Transform | None = None,
        batch_norm: bool = False,
        deconv_out_shape: Any = None,
        spatial_axes: Spatial | None = None,
        **arguments: Any,
    ):
        super().__init__(bias_init, activation, batch_norm, **arguments)
        self.conv = DeconvolutionBase(
            filter_shape, filter_init, deconv_out_shape, strides=strides, padding=padding, dilation=dilation,
            spatial_axes=spatial_axes,
        )  # fmt: skip


class Pooling(Layer):
    """The greatest element (`max`) or the mean (`avg`) of each window.

    `pool_shape` is (W), (H, W), (D, H, W), (C, D, H, W) or a dictionary of these; `strides` and `padding` are as those of
    Convolution. What is padded counts for nothing.
    """

    layer_type = "pooling"

    def __init__(
        self,
        pool_shape: Any,
        strides: Setting = 1,
        padding: Setting = 0,
        pool_type: str = "max",
        spatial_axes: Spatial | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        if pool_type not in ("max", "avg"):
            fail(UserError, f"windows are pooled by 'max' or 'avg', not {pool_type!r}")
        shape = shape_of(pool_shape, ("W", "HW", "DHW", "CDHW"), "the shape of windows")
        self.windows = windows(shape, strides, padding, 1)
        self.pool_type, self.spatial_axes = pool_type, spatial_axes

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, channel_axes: str = "C", spatial_axes: Spatial | None = None) -> Tensor:
        x = as_op(in_obj)
        spatial = spatial_axes or self.spatial_axes
        reorder_spatial_axes(x, channel_axes, spatial)  # which names the axes that are missing, or too many
        names = dict(zip("CDHW", (channel_axes, *spatial_names(spatial)), strict=True))
        along = {names[d]: w for d, w in self.windows.items() if names[d] in x.axes.names}
        lost = [names[d] for d, w in self.windows.items() if names[d] not in x.axes.names and w.taps > 1]
        if lost:
            fail(
                IncompatibleAxesError,
                f"windows slide along {', '.join(lost)}, which ({', '.join(x.axes.names)}) lacks",
            )
        return ng.pool(
            x,
            {x.axes[name]: w.taps for name, w in along.items()},
            "max" if self.pool_type == "max" else "mean",
            [w.stride for w in along.values()],
            1,
            [w.border(x.axes[name]) for name, w in along.items()],
        )
