# SPDX-License-Identifier: Apache-2.0
"""Layers that are products: linear, bias, affine, and the rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....op_graph import functions as ng
from ....op_graph.axes import Axes, AxesOrNames, Axis
from ....op_graph.errors import IncompatibleAxesError, UserError, fail
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ..axis import is_shadow_axis, shadow_axes
from ..graph import SubGraph
from .base import Activation, Layer, Transform, wanted_axes
from .normalization import BatchNorm

#: The labels of parameters, by which they can be selected.
LABELS = {"weight": "weight", "bias": "bias"}


class Linear(Layer):
    """The product of a weight with what comes in, over all of its axes but `keep_axes`.

    The output has one axis of `nout` elements, or `axes`, and then those that are kept.

    Args:
        init: initial value of the weight: an Initializer, a number, an array, or a function from axes to an array.
        nout: the number of elements of the output.
        axes: the axes of the output, in place of `nout`.
        keep_axes: axes of the input that are not summed over; N and REC without them.
        name, metadata, trainable, dtype, param_dtype: as of Layer.

    Raises UserError for both and for neither of nout and axes, and for axes with N or REC.
    """

    layer_type = "linear"

    def __init__(
        self,
        init: Any,
        nout: int | None = None,
        axes: Any = None,
        keep_axes: AxesOrNames | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.init, self.keep_axes = init, keep_axes
        self.axes = wanted_axes(nout, axes)
        _refuse_shadows(self.axes)

    @SubGraph.scope_op_creation
    def weight(self, summed: Axes) -> Tensor:
        """The weight, with the axes of the output as shadows and those that it sums over."""
        return self.parameter("W", shadow_axes(self.axes) + summed, self.init, LABELS["weight"])

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        x = as_op(in_obj)
        _refuse_shadows(x.axes)
        kept = x.axes - x.axes.feature_axes() if self.keep_axes is None else x.axes & self.keep_axes
        made = ng.dot(self.weight(x.axes - kept), x)
        return ng.cast_axes(made, [*self.axes, *made.axes[len(self.axes) :]])


def _refuse_shadows(axes: Axes) -> None:
    shadows = [axis.name for axis in axes if is_shadow_axis(axis)]
    if shadows:
        fail(
            IncompatibleAxesError,
            f"{', '.join(shadows)} is the axis of a weight's output",
            "name the axis itself; the layer makes the shadow of it",
        )


class Bias(Layer):
    """Adds a parameter: one for each channel if there are channels and it is `shared`, else for each feature.

    Args:
        init: initial value of the parameter; None means 0.
        shared: whether the elements of a channel share one number.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    layer_type = "bias"

    def __init__(self, init: Any = None, shared: bool = True, **arguments: Any):
        super().__init__(**arguments)
        self.init, self.shared = 0 if init is None else init, shared

    @SubGraph.scope_op_creation
    def value(self, features: Axes) -> Tensor:
        """The parameter for an output with these feature axes."""
        channel = features.channel_axis()
        axes = features if channel is None or not self.shared else Axes((channel,))
        return ng.axes_with_order(self.parameter("W", axes, self.init, LABELS["bias"]), axes)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        x = as_op(in_obj)
        return x + self.value(x.axes.feature_axes())


class Affine(Layer):
    """Linear, then a bias or batch normalization, then an activation. Its parts are `linear`, `bias`, `batch_norm`, `activation`.

    Args:
        weight_init: initial value of the weight: an Initializer, a number, an array, or a function from axes to an array.
        nout: the number of elements of the output.
        bias_init: initial value of the bias; None means 0.
        activation: a function of a tensor; None is the identity.
        batch_norm: whether batch normalization replaces the bias.
        axes: the axes of the output, in place of `nout`.
        keep_axes: axes of the input that are not summed over; N and REC without them.
        name, metadata, trainable, dtype, param_dtype: as of Layer.

    Raises UserError for a bias and batch normalization at once, for both and for neither of nout and axes, and for axes with
    N or REC.
    """

    layer_type = "affine"

    def __init__(
        self,
        weight_init: Any,
        nout: int | None = None,
        bias_init: Any = None,
        activation: Transform | None = None,
        batch_norm: bool = False,
        axes: Any = None,
        keep_axes: AxesOrNames | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.linear = Linear(weight_init, nout=nout, axes=axes, keep_axes=keep_axes)
        self.bias, self.batch_norm = shifted(bias_init, batch_norm, always=True)
        self.activation = Activation(activation)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        made = self.linear(in_obj)
        for layer in (self.bias, self.batch_norm, self.activation):
            made = made if layer is None else layer(made)
        return made


def shifted(bias_init: Any, batch_norm: bool, always: bool) -> tuple[Bias | None, BatchNorm | None]:
    """The bias or the batch normalization after a product; `always` where one of the two is there unasked."""
    if bias_init is not None and batch_norm:
        fail(
            UserError,
            "batch normalization takes away the mean, and with it any bias before it",
            "leave bias_init out: batch normalization adds a shift of its own",
        )
    return (
        Bias(bias_init) if bias_init is not None or (always and not batch_norm) else None,
        BatchNorm() if batch_norm else None,
    )


class LookupTable(Layer):
    """Rows of a table, by the indices that come in. The output has axes (F, REC, N), and behind them any others of the indices.

    Args:
        vocab_size: how many rows the table has.
        embed_dim: how many columns, the length of F.
        init: initial value of the table: an Initializer, a number, an array, or a function from axes to an array.
        update: whether the table is trained.
        pad_idx: a row that starts as 0 and is not trained.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    layer_type = "lookup_table"

    def __init__(
        self,
        vocab_size: int,
        embed_dim: int,
        init: Any,
        update: bool = True,
        pad_idx: int | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.vocab_size, self.embed_dim, self.init = vocab_size, embed_dim, init
        self.update, self.pad_idx = update, pad_idx
        self.role_axis = Axis(embed_dim, "F")

    def lut_init(self, axes: Axes) -> np.ndarray[Any, Any]:
        """The table as it starts."""
        value: Any = self.init(axes) if callable(self.init) else self.init
        table: np.ndarray[Any, Any] = np.array(np.broadcast_to(value, axes.known_shape))
        if self.pad_idx is not None:
            table[self.pad_idx] = 0
        return table

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        x = as_op(in_obj)
        recurrent = x.axes.recurrent_axis()
        rows = Axis(self.vocab_size, "V")
        table = self.parameter(
            "W", Axes((rows, self.role_axis)), self.lut_init, LABELS["weight"], self.update
        )
        order = Axes(() if recurrent is None else (recurrent,)) | x.axes.batch_axes() | x.axes
        found = ng.lookuptable(table, x, [*x.axes, self.role_axis], self.update, self.pad_idx)
        return ng.axes_with_order(found, [self.role_axis, *order])
