# SPDX-License-Identifier: Apache-2.0
"""Layers of windows: convolution, deconvolution, pooling. Axes come back in the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....op_graph import functions as ng
from ....op_graph.axes import Axes, Axis
from ....op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ...common.given import is_several
from ...common.windows import Setting, Window, shape_of, windows
from ..axis import Spatial, make_shadow_axis, reorder_spatial_axes, spatial_names
from ..graph import SubGraph
from .base import Activation, Layer, Transform
from .linear import LABELS, shifted


@dataclass(frozen=True)
class Lying:
    """How filters lie along the axes of a tensor; `dimensions` says which of D, H and W these are."""

    over: Mapping[Axis, Axis]
    strides: list[int]
    dilations: list[int]
    borders: list[tuple[int, int]]
    dimensions: Mapping[str, Axis]


class _Filters(Layer):
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


class ConvBase(_Filters):
    """The convolution alone, without flipping of filters.

    Args:
        filter_shape: (W, K), (H, W, K), (D, H, W, K) or a dictionary of these; K is the number of channels that come out.
        init: initial value of the filters, whose axes are (C, D, H, W, K), K a shadow.
        strides, padding, dilation, spatial_axes, name, metadata: as of Convolution.
    """

    layer_type = "convolution"

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any, channel_axes: str = "C", spatial_axes: Spatial | None = None) -> Tensor:
        x, filters, lying = self.lying(as_op(in_obj), channel_axes, spatial_axes)
        made = ng.convolve(x, filters, lying.over, lying.strides, lying.dilations, lying.borders)
        return _back(made, channel_axes, filters.axes[-1], x.axes)


class DeconvBase(_Filters):
    """The deconvolution alone: the adjoint of a convolution that gives what comes in.

    Args:
        filter_shape: (W, K), (H, W, K), (D, H, W, K) or a dictionary of these; K is the number of channels that come out.
        init: initial value of the filters, whose axes are (C, D, H, W, K), K a shadow.
        deconv_out_shape: the lengths of the result, which is cut in the middle to them.
        strides, padding, dilation, spatial_axes, name, metadata: as of Convolution.
    """

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


def make_conv(
    filter_shape: Any,
    init: Any,
    strides: Setting = 1,
    padding: Setting = 0,
    dilation: Setting = 1,
    deconv: bool = False,
    **arguments: Any,
) -> ConvBase | DeconvBase:
    """A ConvBase, or with `deconv` a DeconvBase, of these settings; other arguments are those of the class."""
    settings: dict[str, Any] = {"strides": strides, "padding": padding, "dilation": dilation, **arguments}
    return (DeconvBase if deconv else ConvBase)(filter_shape, init, **settings)


class _Filtered(Layer):
    """A product of windows, then a bias or batch normalization, then an activation."""

    conv: ConvBase | DeconvBase

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

    Axes come back in the order in which they came. A call takes `channel_axes` and `spatial_axes` too, where axes have other
    names. The parts are `conv`, `bias`, `batch_norm` and `activation`.

    Args:
        filter_shape: (W, K), (H, W, K), (D, H, W, K) or a dictionary of these; K is the number of channels that come out.
        filter_init: initial value of the filters, whose axes are (C, D, H, W, K), K a shadow.
        strides: a number, or one for each dimension (a sequence, or a dictionary by D, H and W).
        padding: a number; a pair of numbers, before and after each dimension; one of `same`, `valid`, `full`, `causal`; or
            one of these for each dimension, in a dictionary by D, H and W or in a sequence.
        dilation: a number, or one for each dimension.
        bias_init: initial value of the bias; with None there is no bias.
        activation: a function of a tensor; None is the identity.
        batch_norm: whether batch normalization follows the product.
        spatial_axes: `{"W": "time"}` says which axes of the input are D, H and W.
        name, metadata, trainable, dtype, param_dtype: as of Layer.

    Raises UserError for settings that no window has, and for a bias and batch normalization at once.
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
        self.conv = make_conv(
            filter_shape, filter_init, strides, padding, dilation, spatial_axes=spatial_axes
        )


class Deconvolution(_Filtered):
    """The same transposed: as long as what a convolution with these settings would make it from.

    Args:
        filter_shape: (W, K), (H, W, K), (D, H, W, K) or a dictionary of these; K is the number of channels that come out.
        filter_init: initial value of the filters, whose axes are (C, D, H, W, K), K a shadow.
        strides, padding, dilation: as of Convolution.
        bias_init: initial value of the bias; with None there is no bias.
        activation: a function of a tensor; None is the identity.
        batch_norm: whether batch normalization follows the product.
        deconv_out_shape: the lengths of the result, which is cut in the middle to them.
        spatial_axes: `{"W": "time"}` says which axes of the input are D, H and W.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
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
        deconv_out_shape: Any = None,
        spatial_axes: Spatial | None = None,
        **arguments: Any,
    ):
        super().__init__(bias_init, activation, batch_norm, **arguments)
        self.conv = make_conv(
            filter_shape, filter_init, strides, padding, dilation, deconv=True,
            deconv_out_shape=deconv_out_shape, spatial_axes=spatial_axes,
        )  # fmt: skip


class PoolBase(Layer):
    """The greatest element or the mean of each window.

    What is padded counts for nothing. A call takes `channel_axes` and `spatial_axes` too, where axes have other names.

    Args:
        pool_shape: (W), (H, W), (D, H, W), (C, D, H, W) or a dictionary of these.
        strides, padding: as of Convolution, for the dimensions that the shape has.
        pool_type: `max` or `avg`, in capitals or not.
        spatial_axes: `{"W": "time"}` says which axes of the input are D, H and W.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
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
        kind = str(pool_type).lower()
        if kind not in ("max", "avg"):
            fail(UserError, f"windows are pooled by 'max' or 'avg', not {pool_type!r}")
        shape = shape_of(pool_shape, ("W", "HW", "DHW", "CDHW"), "the shape of windows")
        self.windows = windows(shape, strides, padding, 1)
        self.pool_type, self.spatial_axes = kind, spatial_axes

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


class Pooling(PoolBase):
    """The greatest element (`max`) or the mean (`avg`) of each window.

    Args:
        pool_shape: (W), (H, W), (D, H, W), (C, D, H, W) or a dictionary of these.
        strides: a number, or one for each dimension.
        padding: as of Convolution; what is padded counts for nothing.
        pool_type: `max` or `avg`, in capitals or not.
        spatial_axes: `{"W": "time"}` says which axes of the input are D, H and W.
        name, metadata, trainable, dtype, param_dtype: as of Layer.

    Raises UserError for settings that no window has.
    """
