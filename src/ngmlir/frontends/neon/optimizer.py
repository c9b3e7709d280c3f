# SPDX-License-Identifier: Apache-2.0
"""Optimizers: `optimizer(cost)` is an op of value 0 that computes gradients and then changes the variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any

from ...op_graph import functions as ng
from ...op_graph.calls import listed
from ...op_graph.deriv import deriv
from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.source import assigned_name
from ...op_graph.state import AssignableTensorOp, assign, doall, persistent_tensor, sequential
from ...op_graph.tensor import Tensor
from ...op_graph.values import as_op
from ..common.given import is_named
from ..common.learning_rate_policies import get_learning_rate_policy_callback
from .graph import ComputationalGraph, SubGraph
from .selectors import own_name

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "GradientDescentMomentum",
    "Optimizer",
    "RMSProp",
    "clip_gradient_norm",
    "clip_gradient_value",
    "clip_weight_value",
]


def clip_gradient_norm(grad_list: Iterable[Tensor], clip_norm: float | None = None) -> Tensor | float:
    """By what to multiply gradients so that the norm of all of them together is at most `clip_norm`; 1 for None."""
    if clip_norm is None:
        return 1.0
    norm = sum([ng.sum(grad * grad, out_axes=()) for grad in grad_list], ng.constant(0))
    return clip_norm / ng.maximum(ng.sqrt(norm), clip_norm)


def clip_gradient_value(grad: Tensor, clip_value: float | None = None) -> Tensor:
    """The gradient, each element held between -clip_value and clip_value; itself for None."""
    return grad if clip_value is None else ng.clip(grad, -abs(clip_value), abs(clip_value))


def clip_weight_value(
    weight: Tensor, clip_value: float | None = None, min_value_override: float | None = None
) -> Tensor:
    """The weight, each element held between -clip_value (or `min_value_override`) and clip_value; itself for None."""
    if clip_value is None:
        return weight
    least = -abs(clip_value) if min_value_override is None else min_value_override
    return ng.clip(weight, least, abs(clip_value))


class Optimizer(SubGraph):
    """What optimizers have in common.

    A subclass says in `updated` what becomes of a variable. `learning_rate` is a number, a tensor, a policy such as
    `{"name": "step", "base_lr": 0.1, "gamma": 0.5, "step": 100}`, or a function from `iteration` to a tensor.
    """

    def __init__(
        self,
        learning_rate: Any,
        iteration: Any = 0,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        weight_clip_value: float | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.lrate = get_learning_rate_policy_callback(learning_rate)(iteration)
        self.gradient_clip_norm = gradient_clip_norm
        self.gradient_clip_value = gradient_clip_value
        self.weight_clip_value = weight_clip_value

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        """(what the variable becomes, writes to what this optimizer keeps for it). `scale` is that of the gradients' norm."""
        raise NotImplementedError(f"{type(self).__name__} does not say what becomes of a variable")

    def begin(self) -> Sequence[Op]:
        """Writes to what this optimizer keeps once for all variables."""
        return ()

    @SubGraph.scope_op_creation
    def __call__(
        self,
        cost_func: Tensor,
        variables: Iterable[Tensor] | Mapping[Any, Tensor] | None = None,
        subgraph: ComputationalGraph | None = None,
    ) -> Tensor:
        """A sequence of the gradients, the updates, and 0. It runs where it is asked for, and nowhere else.

        The cost is added up, and gradients are divided by the length of its batch axis. Changed are its variables, or
        those of a subgraph that it has, or those given. Raises UserError for variables and a subgraph at once, and
        where there is no variable.
        """
        cost = as_op(cost_func)
        chosen = _chosen(cost, variables, subgraph)
        total = ng.sum(cost, out_axes=())
        batch = ng.batch_size(cost)
        grads = [deriv(total, v) / batch for v in chosen]
        scale = clip_gradient_norm(grads, self.gradient_clip_norm)
        writes = [*self.begin()]
        for variable, grad in zip(chosen, grads, strict=True):
            value, kept = self.updated(variable, grad, scale)
            writes += [*kept, assign(variable, clip_weight_value(value, self.weight_clip_value))]
        return sequential([doall(grads), doall(writes), 0])

    def state(self, variable: Tensor, kind: str, initial: float = 0.0) -> Tensor:
        """Something kept for a variable from step to step, of its axes and elements."""
        made = persistent_tensor(variable.axes, dtype=variable.element, initial_value=initial)
        return _called(made, f"{_label(variable)}.{kind}")

    def count(self) -> Tensor:
        """The number of steps taken."""
        return _called(persistent_tensor((), initial_value=0), "step")


def _called(made: Tensor, name: str) -> Tensor:
    assert isinstance(made, AssignableTensorOp)
    made.automatic_name = name
    return made


def _label(variable: Tensor) -> str:
    """What a checkpoint calls a variable, scopes and all."""
    own = own_name(variable) or assigned_name(variable.location) or "variable"
    return f"{variable.scope}/{own}" if variable.scope else own


def _chosen(
    cost: Tensor,
    variables: Iterable[Tensor] | Mapping[Any, Tensor] | None,
    subgraph: ComputationalGraph | None,
) -> list[Tensor]:
    if variables is not None and subgraph is not None:
        fail(UserError, "variables and a subgraph are given", "give one of the two")
    found = cost.variables()
    if subgraph is not None:
        own = {*subgraph.variables.values()}
        found = [v for v in found if v in own]
    elif variables is not None:
        given: Any = variables
        found = listed(given.values() if is_named(given) else given, "variables")
    if not found:
        fail(UserError, "the cost has no variables to train", "ng.variable makes one; layers have theirs")
    return found


class GradientDescentMomentum(Optimizer):
    """Gradient descent with momentum (Nesterov's if asked for) and weight decay.

    u = -rate * (gradient + wdecay * w), v <- momentum * v + u, and w moves by v, or by momentum * v + u. What is lost
    when w is rounded is kept, and added in the next step (Kahan's sum).
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum_coef: float = 0.0,
        wdecay: float = 0.0,
        nesterov: bool = False,
        iteration: Any = 0,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.momentum_coef, self.wdecay, self.nesterov = momentum_coef, wdecay, nesterov

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        u = -self.lrate * (
            scale * clip_gradient_value(grad, self.gradient_clip_value) + self.wdecay * variable
        )
        writes: list[Op] = []
        move = u
        if self.momentum_coef:
            velocity = self.state(variable, "velocity")
            v = self.momentum_coef * velocity + u
            move = self.momentum_coef * v + u if self.nesterov else v
            writes.append(assign(velocity, v))
        lost = self.state(variable, "lost")
        y = move - lost
        made = variable + y
        return made, [*writes, assign(lost, (made - variable) - y)]


class RMSProp(Optimizer):
    """r <- decay_rate * r + (1 - decay_rate) * gradient**2, from 1; v <- momentum * v + rate * gradient / sqrt(r + epsilon)
    + rate * wdecay * w; w <- w - v."""

    def __init__(
        self,
        decay_rate: float = 0.95,
        learning_rate: Any = 2e-3,
        epsilon: float = 1e-6,
        wdecay: float = 0.0,
        momentum_coef: float = 0.0,
        iteration: Any = 0,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.decay_rate, self.epsilon = decay_rate, epsilon
        self.wdecay, self.momentum_coef = wdecay, momentum_coef

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        g = clip_gradient_value(grad, self.gradient_clip_value)
        mean = self.state(variable, "mean_square", 1.0)
        r = self.decay_rate * mean + (1 - self.decay_rate) * g * g
        v = self.lrate * scale * g / ng.sqrt(r + self.epsilon)
        writes = [assign(mean, r)]
        if self.wdecay:
            v = v + self.lrate * self.wdecay * variable
        if self.momentum_coef:
            velocity = self.state(variable, "velocity")
            v = self.momentum_coef * velocity + v
            writes.append(assign(velocity, v))
        return variable - v, writes


class Adagrad(Optimizer):
    """G <- G + gradient**2, w <- w - rate * gradient / sqrt(G + epsilon)."""

    def __init__(
        self, learning_rate: Any = 1e-3, epsilon: float = 1e-8, iteration: Any = 0, **arguments: Any
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.epsilon = epsilon

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        g = clip_gradient_value(grad, self.gradient_clip_value)
        total = self.state(variable, "squares")
        made = total + g * g
        return variable - scale * self.lrate * g / ng.sqrt(made + self.epsilon), [assign(total, made)]


class Adadelta(Optimizer):
    """s <- rho * s + (1 - rho) * gradient**2, d = sqrt(m + epsilon) / sqrt(s + epsilon) * gradient, m <- rho * m + (1 - rho)
    * d**2, w <- w - rate * d."""

    def __init__(
        self,
        learning_rate: Any = 1.0,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        iteration: Any = 0,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.rho, self.epsilon = rho, epsilon

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        g = scale * clip_gradient_value(grad, self.gradient_clip_value)
        squares, moves = self.state(variable, "squares"), self.state(variable, "moves")
        s = self.rho * squares + (1 - self.rho) * g * g
        move = ng.sqrt(moves + self.epsilon) / ng.sqrt(s + self.epsilon) * g
        m = self.rho * moves + (1 - self.rho) * move * move
        return variable - self.lrate * move, [assign(squares, s), assign(moves, m)]


class Adam(Optimizer):
    """m and v, running averages of the gradient and of its square, which start from 0 and are corrected for that in the
    step: w <- w - rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(v) + epsilon)."""

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        iteration: Any = 0,
        **arguments: Any,
    ):
        super().__init__(learning_rate, iteration, **arguments)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def begin(self) -> Sequence[Op]:
        steps = self.count()
        t = steps + 1
        # 1 - beta**t without the rounding of a power near 1.
        first, second = (-ng.expm1(t * log(beta)) for beta in (self.beta_1, self.beta_2))
        self._first, self._second = first, second
        return [assign(steps, t)]

    def moments(self, variable: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Sequence[Op]]:
        """(m, v, writes to both)."""
        first, second = self.state(variable, "moment"), self.state(variable, "mean_square")
        m = self.beta_1 * first + (1 - self.beta_1) * grad
        v = self.beta_2 * second + (1 - self.beta_2) * grad * grad
        return m, v, [assign(first, m), assign(second, v)]

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        m, v, writes = self.moments(variable, clip_gradient_value(grad, self.gradient_clip_value))
        rate = scale * self.lrate * ng.sqrt(self._second) / self._first
        return variable - rate * m / (ng.sqrt(v) + self.epsilon), writes


class AdamW(Adam):
    """Adam with decay of the weights beside it: w <- w - rate * (m' / (sqrt(v') + epsilon) + wdecay * w), where m' and v' are
    the corrected averages of the (clipped) gradient and its square."""

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        wdecay: float = 1e-2,
        iteration: Any = 0,
        **arguments: Any,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, iteration, **arguments)
        self.wdecay = wdecay

    def updated(self, variable: Tensor, grad: Tensor, scale: Any) -> tuple[Tensor, Sequence[Op]]:
        m, v, writes = self.moments(variable, scale * clip_gradient_value(grad, self.gradient_clip_value))
        move = m / self._first / (ng.sqrt(v / self._second) + self.epsilon)
        return variable - self.lrate * (move + self.wdecay * variable), writes
