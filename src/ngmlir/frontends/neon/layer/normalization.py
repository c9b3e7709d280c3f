# SPDX-License-Identifier: Apache-2.0
"""Layers that do one thing in training and another in inference: batch normalization and dropout."""

from __future__ import annotations

from typing import Any

from ....ir.types import f32
from ....op_graph import functions as ng
from ....op_graph.axes import Axes
from ....op_graph.functions.steps import row_places
from ....op_graph.ragged import ragged_among
from ....op_graph.tensor import Tensor
from ....op_graph.values import as_op
from ..graph import SubGraph
from .base import Layer, wide_float


class BatchNorm(Layer):
    """gamma * (x - mean) / sqrt(variance + eps) + beta, of each channel, or of each feature where there are no channels.

    In training the mean and the (biased) variance are those of the batch, and running averages move towards them:
    old * rho + new * (1 - rho). In inference the averages are used; they start from 0 and 1.

    Args:
        rho: the share of a running average that stays in a step.
        eps: what is added to the variance.
        init_gamma: initial value of gamma.
        init_beta: initial value of beta.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    layer_type = "batch_norm"

    def __init__(
        self,
        rho: float = 0.9,
        eps: float = 1e-3,
        init_gamma: Any = 1.0,
        init_beta: Any = 0.0,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.rho, self.eps = rho, eps
        self.init_gamma, self.init_beta = init_gamma, init_beta
        self._tuning: Tensor | None = None

    def set_tuning_iteration(self, iteration: Any) -> None:
        """Makes graphs that are built from now on for training give all batches the same weight in the averages.

        `iteration` is the number of the batch, from 1: a tensor, such as `inputs["iteration"]`. After one pass over the data
        without training the averages are those of the data. None is the running average again.
        """
        self._tuning = None if iteration is None else as_op(iteration)

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        x = as_op(in_obj)
        channel = x.axes.channel_axis()
        axes = x.axes.feature_axes() if channel is None else Axes((channel,))
        gamma = self.parameter("gamma", axes, self.init_gamma, "weight")
        beta = self.parameter("beta", axes, self.init_beta, "bias")
        averages = [self.parameter(n, axes, v, trained=False) for n, v in (("gmean", 0.0), ("gvar", 1.0))]
        with wide_float() as element:  # a sum of squares needs more digits than bf16 has
            made = ng.batch_norm(
                x,
                gamma,
                beta,
                *averages,
                reduction_axes=x.axes - axes,
                epsilon=self.eps,
                momentum=self.rho if self._tuning is None else 1 - 1 / self._tuning,
                training=not self.inference_mode,
            )
        return ng.cast(made, element) if made.element is f32 else made


class Dropout(Layer):
    """In training, elements at random set to 0: each stays with probability `keep`, the same ones for all samples of the
    batch, drawn again at each run. Elements that stay are not scaled; in inference all is multiplied by `keep`. Along a ragged axis they are
    drawn for each step, the same ones for all sequences.

    After a call in training `layer.mask` is the tensor of what stays: 1 or 0, over all axes but N, and over the steps of a ragged axis.

    Args:
        keep: the probability to stay.
        seed: of the random numbers; without one each layer has a separate stream.
        name, metadata, trainable, dtype, param_dtype: as of Layer.
    """

    layer_type = "dropout"

    def __init__(self, keep: float = 0.5, seed: int | None = None, **arguments: Any):
        super().__init__(**arguments)
        self.keep, self.seed = keep, seed
        #: What stays of the last call in training.
        self.mask: Tensor | None = None

    @SubGraph.scope_op_creation
    def __call__(self, in_obj: Any) -> Tensor:
        x = as_op(in_obj)
        if self.inference_mode:
            return x * self.keep
        ragged = ragged_among(x.axes)
        steps = Axes() if ragged is None else ragged.steps.axes
        ones = ng.constant(1, steps | (x.axes.sample_axes() - Axes(() if ragged is None else (ragged,))))
        self.mask = ng.dropout(ones, self.keep, rescale=False, seed=self.seed)
        if ragged is None:
            return ng.where(self.mask, x, 0)
        stays = ng.gather(self.mask, row_places(ragged), steps[0])
        return ng.where(ng.axes_with_order(stays, x.axes), x, 0)
