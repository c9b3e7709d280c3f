# SPDX-License-Identifier: Apache-2.0
"""Optimizers: `optimizer(cost)` is an op of value 0 that computes gradients and then changes the variables."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ...op_graph import functions as ng
from ...op_graph.calls import listed
from ...op_graph.deriv import deriv
from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.source import user_location
from ...op_graph.state import assign, doall, sequential
from ...op_graph.tensor import Tensor
from ...op_graph.values import as_op
from ..common import updates
from ..common.accumulation import LossScale, accumulated
from ..common.clips import clip_gradient_norm, clip_gradient_value, clip_weight_value
from ..common.given import is_named
from ..common.learning_rate_policies import learning_rate_of
from .graph import ComputationalGraph, SubGraph

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "GradientDescentMomentum",
    "LearningRateOptimizer",
    "LossScale",
    "Optimizer",
    "RMSProp",
    "clip_gradient_norm",
    "clip_gradient_value",
    "clip_weight_value",
]


class Optimizer(SubGraph):
    """What optimizers have in common: which variables are trained, and in which order things happen.

    A subclass says in `variable_update` how a variable changes. Most are LearningRateOptimizers.

    Args:
        name: of the scope that its ops are made in; that of the class without one.
        metadata: entries for the metadata of its ops.
        accumulate: after how many calls variables change: by the mean of the gradients of so many batches.
        loss_scale: a factor of the cost, by which gradients are divided again: a number, or a LossScale, which follows what
            gradients are. For layers that compute in f16.

    Raises UserError for numbers that are none of these.
    """

    metadata = {"layer_type": "optimizer"}  # noqa: RUF012
    accumulate: int = 1
    loss_scale: LossScale | float | None = None

    def __init__(
        self,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        accumulate: int = 1,
        loss_scale: LossScale | float | None = None,
    ):
        super().__init__(name, metadata)
        if not isinstance(accumulate, int) or accumulate < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"gradients of {accumulate!r} batches are accumulated", "a number from 1 on")
        if not isinstance(loss_scale, LossScale | None) and not loss_scale > 0:
            fail(
                UserError,
                f"the cost is multiplied by {loss_scale!r}",
                "a number greater than 0, or LossScale()",
            )
        self.accumulate, self.loss_scale = accumulate, loss_scale

    #: Limits of the norm of all gradients together, and of the elements of weights after a step; None for none.
    gradient_clip_norm: float | None = None
    weight_clip_value: float | None = None

    def variable_update(self, variable: Tensor, grad: Tensor, scale_factor: Any) -> Op:
        """An op that changes a variable, and what is kept for it.

        `grad` is its gradient, divided by the length of the batch axis; `scale_factor` is what clips the norm of all gradients,
        by which it is to be multiplied: 1 unless `gradient_clip_norm` is given.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say in variable_update what changes a variable"
        )

    def begin_step(self) -> Sequence[Op]:
        """Ops that run once in a step, before variables change; asked for before any `variable_update`."""
        return ()

    def gradients(self, cost: Tensor, variables: Iterable[Tensor]) -> list[Tensor]:
        """The derivatives of the cost, added up and divided by the length of its batch axis."""
        total, batch = ng.sum(cost, out_axes=()), ng.batch_size(cost)
        scale = self.loss_scale.value if isinstance(self.loss_scale, LossScale) else self.loss_scale
        if scale is None:
            return [deriv(total, v) / batch for v in variables]
        # In two divisions: their product may be too great for the elements.
        scaled = total * scale
        return [deriv(scaled, v) / scale / batch for v in variables]

    def _steps(self, variables: Sequence[Tensor], grads: Sequence[Tensor]) -> Sequence[Op]:
        """The step by these gradients; where gradients are accumulated, or may be infinite, the one that is due."""

        def step(grads: Sequence[Tensor]) -> Sequence[Op]:
            if self.accumulate == 1:
                return self.step(variables, grads)
            return [accumulated(variables, grads, self.accumulate, partial(self.step, variables))]

        return (
            [self.loss_scale.guarded(grads, step)] if isinstance(self.loss_scale, LossScale) else step(grads)
        )

    def step(self, variables: Sequence[Tensor], grads: Sequence[Tensor]) -> list[Op]:
        """What changes the variables by these gradients: groups of writes, to run in this order."""
        scale = clip_gradient_norm(grads, self.gradient_clip_norm)
        begun = self.begin_step()
        changes = [self._change(v, g, scale) for v, g in zip(variables, grads, strict=True)]
        groups: list[Op] = [doall([*begun, *changes])]
        if self.weight_clip_value is not None:
            groups.append(doall([assign(v, clip_weight_value(v, self.weight_clip_value)) for v in variables]))
        return groups

    def _change(self, variable: Tensor, grad: Tensor, scale: Any) -> Op:
        made: Any = self.variable_update(variable, grad, scale)
        if not isinstance(made, Op):
            fail(
                UserError,
                f"variable_update of {type(self).__name__} gives {made!r}, which is no op",
                "it gives what changes the variable: return ng.assign(variable, ...)",
            )
        return made

    @SubGraph.scope_op_creation
    def __call__(
        self,
        cost_func: Tensor,
        variables: Iterable[Tensor] | Mapping[Any, Tensor] | None = None,
        subgraph: ComputationalGraph | None = None,
        warning: bool = False,
    ) -> Tensor:
        """A sequence of the gradients, the updates, and 0. It runs where it is asked for, and nowhere else.

        The cost is added up, and gradients are divided by the length of its batch axis.

        Args:
            cost_func: the cost: a number, or one for each sample.
            variables: what is trained; all variables of the cost without them. Those that are frozen are left out.
            subgraph: a part of the graph, such as a model, whose variables are trained.
            warning: whether to warn of given variables that the cost does not depend on.

        Raises UserError for variables and a subgraph at once, and where there is no variable.
        """
        cost = as_op(cost_func)
        chosen = _chosen(cost, variables, subgraph, warning)
        grads = self.gradients(cost, chosen)
        return sequential([doall(grads), *self._steps(chosen, grads), 0])


def _chosen(
    cost: Tensor,
    variables: Iterable[Tensor] | Mapping[Any, Tensor] | None,
    subgraph: ComputationalGraph | None,
    warning: bool,
) -> list[Tensor]:
    """The variables that are trained."""
    if variables is not None and subgraph is not None:
        fail(UserError, "variables and a subgraph are given", "give one of the two")
    found = cost.variables()
    if subgraph is not None:
        own = {*subgraph.variables.values()}
        found = [v for v in found if v in own]
    elif variables is not None:
        given: Any = variables
        asked: list[Tensor] = listed(given.values() if is_named(given) else given, "variables")
        if warning and (apart := [v.called for v in asked if v not in {*found}]):
            place = user_location()
            text = f"the cost does not depend on {', '.join(apart)}: training does not change them"
            warnings.warn_explicit(text, UserWarning, place.file, place.line)
        found = asked
    if found and not (found := [v for v in found if v.metadata.get("trainable", True)]):
        fail(UserError, "all variables are frozen", "unfreeze() of the layer, before the optimizer is called")
    if not found:
        fail(UserError, "the cost has no variables to train", "ng.variable makes one; layers have theirs")
    return found


class LearningRateOptimizer(Optimizer):
    """What optimizers with a learning rate have in common. A program's own one subclasses this, and says in
    `variable_update(variable, grad, scale_factor)` what changes a variable, by `self.lrate`.

    Args:
        learning_rate: a number; a tensor; a policy such as
            `{"name": "step", "base_lr": 0.1, "gamma": 0.5, "step": 100}`; or a function from the iteration to a tensor.
        iteration: the number of the iteration, which policies and functions need: a placeholder, as
            `make_placeholders(include_iteration=True)` makes one, or a tensor.
        gradient_clip_norm: the greatest norm of all gradients together; None for no limit.
        gradient_clip_value: the greatest magnitude of an element of a gradient.
        weight_clip_value: the greatest magnitude of an element of a variable after a step.
        name: of the scope that its ops are made in; that of the class without one.
        metadata: entries for the metadata of its ops.
        accumulate, loss_scale: as of Optimizer.

    Raises UserError for a policy that depends on the iteration where none is given.
    """

    def __init__(
        self,
        learning_rate: Any,
        iteration: Any = None,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        weight_clip_value: float | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        #: The learning rate, as a tensor.
        self.lrate = learning_rate_of(learning_rate, iteration)
        self.learning_rate = learning_rate
        self.gradient_clip_norm = gradient_clip_norm
        self.gradient_clip_value = gradient_clip_value
        self.weight_clip_value = weight_clip_value

    def clipped(self, grad: Tensor) -> Tensor:
        """A gradient, its elements held within `gradient_clip_value`."""
        return clip_gradient_value(grad, self.gradient_clip_value)

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        """The new value of a variable by one of the rules of `frontends.common.updates`; `grad` is clipped."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say in variable_update what changes a variable"
        )

    def variable_update(self, variable: Tensor, grad: Tensor, scale_factor: Any) -> Op:
        value, writes = self.updated(variable, self.clipped(grad), scale_factor)
        return doall([*writes, assign(variable, value)])


class GradientDescentMomentum(LearningRateOptimizer):
    """Gradient descent with momentum (Nesterov's if asked for) and weight decay.

    u = -rate * (gradient + wdecay * w), v <- momentum_coef * v + u, and w moves by v, or by momentum_coef * v + u. What is
    lost when w is rounded is kept, and added in the next step (Kahan's sum).

    Args:
        learning_rate: a number, a tensor, a policy or a function of the iteration: see LearningRateOptimizer.
        momentum_coef: the share of a step that goes on in the next one.
        wdecay: what is added to the gradient for each unit of the weight.
        nesterov: whether the momentum is Nesterov's.
        iteration: the number of the iteration, for policies.
        gradient_clip_norm, gradient_clip_value, weight_clip_value, name, metadata, accumulate,
            loss_scale: as of LearningRateOptimizer.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum_coef: float = 0.0,
        wdecay: float = 0.0,
        nesterov: bool = False,
        iteration: Any = None,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.momentum_coef, self.wdecay, self.nesterov = momentum_coef, wdecay, nesterov

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        return updates.momentum(
            variable, grad, scale, self.lrate, self.momentum_coef, self.wdecay, self.nesterov
        )


class RMSProp(LearningRateOptimizer):
    """r <- decay_rate * r + (1 - decay_rate) * gradient**2, from 1; v <- momentum_coef * v + rate * gradient
    / sqrt(r + epsilon) + rate * wdecay * w; w <- w - v.

    Args:
        decay_rate: the share of the running average of squares that stays in a step.
        learning_rate: a number, a tensor, a policy or a function of the iteration: see LearningRateOptimizer.
        epsilon: what is added below the root.
        wdecay: the decay of weights.
        momentum_coef: the share of a step that goes on in the next one.
        iteration: the number of the iteration, for policies.
        gradient_clip_norm, gradient_clip_value, weight_clip_value, name, metadata, accumulate,
            loss_scale: as of LearningRateOptimizer.
    """

    def __init__(
        self,
        decay_rate: float = 0.95,
        learning_rate: Any = 2e-3,
        epsilon: float = 1e-6,
        wdecay: float = 0.0,
        momentum_coef: float = 0.0,
        iteration: Any = None,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.decay_rate, self.epsilon = decay_rate, epsilon
        self.wdecay, self.momentum_coef = wdecay, momentum_coef

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        return updates.rms_prop(
            variable, grad, scale, self.lrate, self.decay_rate, self.epsilon, self.wdecay, self.momentum_coef
        )


class Adagrad(LearningRateOptimizer):
    """G <- G + gradient**2, w <- w - rate * gradient / sqrt(G + epsilon).

    Args:
        learning_rate: a number, a tensor, a policy or a function of the iteration: see LearningRateOptimizer.
        epsilon: what is added below the root.
        iteration: the number of the iteration, for policies.
        gradient_clip_norm, gradient_clip_value, weight_clip_value, name, metadata, accumulate,
            loss_scale: as of LearningRateOptimizer.
    """

    def __init__(
        self, learning_rate: Any = 1e-3, epsilon: float = 1e-8, iteration: Any = None, **arguments: Any
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.epsilon = epsilon

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        return updates.adagrad(variable, grad, scale, self.lrate, self.epsilon)


class Adadelta(LearningRateOptimizer):
    """s <- rho * s + (1 - rho) * gradient**2, d = sqrt(m + epsilon) / sqrt(s + epsilon) * gradient, m <- rho * m + (1 - rho)
    * d**2, w <- w - rate * d.

    Args:
        learning_rate: a number, a tensor, a policy or a function of the iteration: see LearningRateOptimizer.
        rho: the share of the running averages that stays in a step.
        epsilon: what is added below the roots.
        iteration: the number of the iteration, for policies.
        gradient_clip_norm, gradient_clip_value, weight_clip_value, name, metadata, accumulate,
            loss_scale: as of LearningRateOptimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 1.0,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        iteration: Any = None,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.rho, self.epsilon = rho, epsilon

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        return updates.adadelta(variable, grad, scale, self.lrate, self.rho, self.epsilon)


class Adam(LearningRateOptimizer):
    """m and v, running averages of the gradient and of its square, which start from 0 and are corrected for that in the
    step: w <- w - rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(v) + epsilon).

    Args:
        learning_rate: a number, a tensor, a policy or a function of the iteration: see LearningRateOptimizer.
        beta_1: the share of m that stays in a step.
        beta_2: the share of v that stays in a step.
        epsilon: what is added to the root.
        iteration: the number of the iteration, for policies; t is counted by itself.
        gradient_clip_norm, gradient_clip_value, weight_clip_value, name, metadata, accumulate,
            loss_scale: as of LearningRateOptimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        iteration: Any = None,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def begin_step(self) -> Sequence[Op]:
        self._moments = updates.Moments(self.beta_1, self.beta_2)
        return [self._moments.write]

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        return updates.adam(variable, grad, scale, self.lrate, self._moments, self.epsilon)


class AdamW(Adam):
    """Adam with decoupled weight decay: w <- w - rate * (m' / (sqrt(v') + epsilon) + wdecay * w), where m' and v' are
    the corrected averages of the (clipped) gradient and its square.

    Args:
        learning_rate: a number, a tensor, a policy or a function of the iteration: see LearningRateOptimizer.
        beta_1: the share of m that stays in a step.
        beta_2: the share of v that stays in a step.
        epsilon: what is added to the root.
        wdecay: the share of a weight that is taken off in a step, times the rate.
        iteration: the number of the iteration, for policies.
        gradient_clip_norm, gradient_clip_value, weight_clip_value, name, metadata, accumulate,
            loss_scale: as of LearningRateOptimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        wdecay: float = 1e-2,
        iteration: Any = None,
        **arguments: Any,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, iteration, **arguments)
        self.wdecay = wdecay

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> updates.Update:
        return updates.adam_w(variable, grad, scale, self.lrate, self._moments, self.epsilon, self.wdecay)
