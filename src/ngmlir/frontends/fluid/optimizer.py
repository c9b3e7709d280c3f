# SPDX-License-Identifier: Apache-2.0
"""Optimizers: `minimize(loss)` appends gradients, clips, regularization and updates to a program.

States of an optimizer are persistable variables, which the start-up program fills.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from ...programs.attributes import OpRole
from ...support.diagnostics import Diagnostic, UserError
from ...support.undo import changing
from . import unique_name
from .backward import append_backward
from .clip import (
    BaseGradientClipAttr,
    append_gradient_clip_ops,
    error_clip_callback,
    set_gradient_clip,
)
from .framework import Block, Operator, Parameter, Program, Variable, default_startup_program, program_guard
from .initializer import Constant
from .layer_helper import LayerHelper
from .layers.learning_rate_scheduler import lars_rates
from .model_average import ExponentialMovingAverage as ExponentialMovingAverage
from .model_average import ModelAverage as ModelAverage
from .param_attr import checked
from .regularizer import append_regularization_ops

Pairs = Sequence[tuple[Any, Any]]


class Optimizer:
    """The base of all optimizers. One of your own defines `_append_optimize_op(block, (parameter, gradient))`, and makes its states in
    `_create_accumulators(block, parameters)`."""

    #: The type of the operator that updates a parameter, where the class is not called like it.
    operator: ClassVar[str] = ""
    #: Accumulators that each parameter has: name -> the value that they begin with.
    states: ClassVar[Mapping[str, float]] = {}

    def __init__(
        self,
        learning_rate: Any,
        regularization: Any = None,
        LARS_weight_decay: float = 0.0,
        name: str | None = None,
        grad_clip: BaseGradientClipAttr | None = None,
    ):
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float, Variable)):
            raise TypeError(f"a learning rate is a number or a variable, not {learning_rate!r}")
        self.type = type(self).__name__.removesuffix("Optimizer").lower()
        self.regularization = checked(regularization, "regularizer", "regularizer.L2Decay(1e-4)")
        self._clip = grad_clip
        self._given_rate = learning_rate
        self._rates: dict[int, Variable] = {}
        self._accumulators: dict[str, dict[str, Variable]] = {}
        self._name = name
        self.helper = LayerHelper(self.type, name=name)
        self.LARS_weight_decay = LARS_weight_decay
        self._lars: dict[str, Variable] = {}

    # ---- learning rate

    def _global_learning_rate(self, program: Program | None = None) -> Variable:
        """The variable of the learning rate in a program."""
        program = self.helper.main_program if program is None else program
        found = self._rates.get(id(program))
        if found is not None:
            return found
        if isinstance(self._given_rate, Variable):
            made = self._given_rate
        else:
            name = unique_name.generate("learning_rate")
            made = program.global_block().create_var(name=name, shape=[1], dtype="float32", persistable=True)
            self.helper.set_variable_initializer(made, Constant(float(self._given_rate)))
        self._rates[id(program)] = made
        return made

    def _rate_of(self, parameter: Any) -> Variable:
        """The learning rate of a parameter: the optimizer's times its own factor."""
        factor = parameter.optimize_attr["learning_rate"] if isinstance(parameter, Parameter) else 1.0
        rate = self._lars.get(parameter.name) or self._global_learning_rate()
        return rate if factor == 1.0 else rate * factor

    # ---- states

    def _add_accumulator(
        self,
        name: str,
        param: Variable,
        dtype: Any = None,
        fill_value: float = 0.0,
        shape: Sequence[int] | None = None,
    ) -> Variable:
        """A state of a parameter, filled with a number by the start-up program."""
        known = self._accumulators.setdefault(name, {})
        if param.name in known:
            raise UserError(f"the optimizer has a state '{name}' of '{param.name}' already")
        made = self.helper.create_global_variable(
            name=unique_name.generate(f"{param.name}_{name}"),
            persistable=True,
            dtype=dtype or param.dtype,
            shape=param.shape if shape is None else shape,
        )
        self.helper.set_variable_initializer(made, Constant(fill_value))
        known[param.name] = made
        return made

    def _get_accumulator(self, name: str, param: Variable) -> Variable:
        """The state of that name of a parameter."""
        found = self._accumulators.get(name, {}).get(param.name)
        if found is None:
            raise UserError(f"the optimizer has no state '{name}' of '{param.name}'")
        return found

    def _create_accumulators(self, block: Block, parameters: Sequence[Variable]) -> None:
        for parameter in parameters:
            for name, value in self.states.items():
                self._add_accumulator(name, parameter, fill_value=value)

    # ---- updates

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        raise NotImplementedError(
            f"{type(self).__name__} does not say how it updates a parameter: define _append_optimize_op"
        )

    def _finish_update(self, block: Block, parameters: Sequence[Variable]) -> None:
        """Appends what follows all updates."""

    def _create_optimization_pass(
        self, parameters_and_grads: Pairs, loss: Variable, startup_program: Program | None = None
    ) -> list[Operator]:
        """Appends the updates of parameters; gives all operators that are of the optimization."""
        changing(self)
        program = loss.block.program
        with program_guard(program, startup_program or default_startup_program()):
            block = program.global_block()
            first = len(block.view.operators)
            wanted = [(p, g) for p, g in parameters_and_grads if g is not None]
            with program.role(OpRole.Optimize):
                self._create_accumulators(block, [p for p, _ in wanted])
                rate = self._global_learning_rate()
                if self.LARS_weight_decay > 0:
                    self._lars = lars_rates(wanted, rate, self.LARS_weight_decay)
            for parameter, gradient in wanted:
                with program.optimized_guard([parameter, gradient]):
                    self._append_optimize_op(block, (parameter, gradient))
            with program.role(OpRole.Optimize):
                self._finish_update(block, [p for p, _ in wanted])
            return block.ops[first:]

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Collection[Variable | str] | None = None,
        checkpoints: Sequence[Variable | str] | None = None,
    ) -> tuple[list[Operator], list[tuple[Variable, Variable | None]]]:
        """Appends gradients, clips, regularization and updates: the operators of the updates, and pairs (parameter, gradient).
        `checkpoints` as for `append_backward`."""
        pairs = self.gradients(loss, parameter_list, no_grad_set, checkpoints)
        return self.updates(pairs, loss, startup_program)

    def gradients(
        self,
        loss: Variable,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Collection[Variable | str] | None = None,
        checkpoints: Sequence[Variable | str] | None = None,
    ) -> list[tuple[Variable, Variable | None]]:
        """Appends gradients alone: pairs (parameter, gradient), by the names of the parameters."""
        pairs = append_backward(loss, parameter_list, no_grad_set, [error_clip_callback], checkpoints)
        if not pairs:
            raise UserError(
                Diagnostic(
                    f"there is nothing to optimize: '{loss.name}' depends on no trainable parameter",
                    loss.view.location,
                    hint="layers.fc and others make parameters; stop_gradient, no_grad_set= and ParamAttr(trainable=False) exclude them",
                )
            )
        return sorted(pairs, key=lambda pair: pair[0].name)

    def updates(
        self,
        pairs: Sequence[tuple[Variable, Variable | None]],
        loss: Variable,
        startup_program: Program | None = None,
    ) -> tuple[list[Operator], list[tuple[Variable, Variable | None]]]:
        """Appends clips, regularization and updates for gradients: the operators of the updates, and the pairs after the clips."""
        if self._clip is not None:
            set_gradient_clip(self._clip, [p for p, _ in pairs], loss.block.program)
        decayed = append_regularization_ops(append_gradient_clip_ops(pairs), self.regularization)
        return self._create_optimization_pass(decayed, loss, startup_program), decayed

    def _update(
        self,
        block: Block,
        pair: tuple[Any, Any],
        states: Mapping[str, str],
        attrs: Mapping[str, Any],
        others: Mapping[str, Any] | None = None,
        given: Mapping[str, str] | None = None,
        rate: bool = True,
    ) -> Operator:
        """Appends the operator of this optimizer: slot -> state, which it reads as `slot` and writes as `<slot>Out` (or as `given`
        says); `others` are slots that it reads alone."""
        parameter, gradient = pair
        held = {slot: [self._get_accumulator(state, parameter)] for slot, state in states.items()}
        taken: dict[str, Any] = {"Param": [parameter], "Grad": [gradient], **held, **(others or {})}
        if rate:
            taken["LearningRate"] = [self._rate_of(parameter)]
        names = given or {slot: f"{slot}Out" for slot in states}
        outputs = {"ParamOut": [parameter], **{names[slot]: value for slot, value in held.items()}}
        return block.append_op(
            type=self.operator or self.type, inputs=taken, outputs=outputs, attrs=dict(attrs)
        )


class SGDOptimizer(Optimizer):
    """p - lr g."""

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        return self._update(block, param_and_grad, {}, {})


class MomentumOptimizer(Optimizer):
    """v = mu v + g; p - lr v, or with `use_nesterov` p - lr (g + mu v)."""

    states: ClassVar = {"velocity": 0.0}

    def __init__(
        self, learning_rate: float | Variable, momentum: float, use_nesterov: bool = False, **kwargs: Any
    ):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"mu": float(momentum), "use_nesterov": bool(use_nesterov)}

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        return self._update(block, param_and_grad, {"Velocity": "velocity"}, self.attributes)


class AdamOptimizer(Optimizer):
    """Running means of gradients and of their squares, corrected for their beginning at 0."""

    states: ClassVar = {"moment1": 0.0, "moment2": 0.0}

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)}

    def _create_accumulators(self, block: Block, parameters: Sequence[Variable]) -> None:
        super()._create_accumulators(block, parameters)
        # In float64: near 1 the powers differ from it by less than float32 tells.
        for parameter in parameters:
            for power in ("beta1", "beta2"):
                self._add_accumulator(f"{power}_pow", parameter, "float64", self.attributes[power], [1])

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        parameter = param_and_grad[0]
        powers = {
            f"{p.capitalize()}Pow": [self._get_accumulator(f"{p}_pow", parameter)] for p in ("beta1", "beta2")
        }
        held = {"Moment1": "moment1", "Moment2": "moment2"}
        return self._update(block, param_and_grad, held, self.attributes, powers)

    def _finish_update(self, block: Block, parameters: Sequence[Variable]) -> None:
        for parameter in parameters:
            for power in ("beta1", "beta2"):
                _scale(block, self._get_accumulator(f"{power}_pow", parameter), self.attributes[power])


class AdamaxOptimizer(Optimizer):
    """As Adam, with the running maximum of magnitudes in place of the mean of squares."""

    states: ClassVar = {"moment": 0.0, "inf_norm": 0.0}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)}

    def _create_accumulators(self, block: Block, parameters: Sequence[Variable]) -> None:
        super()._create_accumulators(block, parameters)
        for parameter in parameters:
            self._add_accumulator("beta1_pow", parameter, "float64", self.attributes["beta1"], [1])

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        power = self._get_accumulator("beta1_pow", param_and_grad[0])
        held = {"Moment": "moment", "InfNorm": "inf_norm"}
        return self._update(block, param_and_grad, held, self.attributes, {"Beta1Pow": [power]})

    def _finish_update(self, block: Block, parameters: Sequence[Variable]) -> None:
        for parameter in parameters:
            _scale(block, self._get_accumulator("beta1_pow", parameter), self.attributes["beta1"])


class LambOptimizer(Optimizer):
    """Steps of Adam without its corrections, plus `lamb_weight_decay` times the parameter, as long as the learning rate times the parameter
    is. The decay is off for parameters for which `exclude_from_weight_decay_fn(parameter)` is true."""

    states: ClassVar = {"moment1": 0.0, "moment2": 0.0}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)}
        self._decay, self._excludes = float(lamb_weight_decay), exclude_from_weight_decay_fn

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        is_excluded = self._excludes is not None and self._excludes(param_and_grad[0])
        attributes = {**self.attributes, "weight_decay": 0.0 if is_excluded else self._decay}
        return self._update(block, param_and_grad, {"Moment1": "moment1", "Moment2": "moment2"}, attributes)


class AdagradOptimizer(Optimizer):
    """m += g^2; p - lr g / (sqrt(m) + epsilon)."""

    states: ClassVar = {"moment": 0.0}

    def __init__(self, learning_rate: Any, epsilon: float = 1e-6, **kwargs: Any):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"epsilon": float(epsilon)}

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        return self._update(block, param_and_grad, {"Moment": "moment"}, self.attributes)


class DecayedAdagradOptimizer(Optimizer):
    """m = d m + (1 - d) g^2; p - lr g / (sqrt(m) + epsilon)."""

    operator = "decayed_adagrad"
    states: ClassVar = {"moment": 0.0}

    def __init__(self, learning_rate: Any, decay: float = 0.95, epsilon: float = 1e-6, **kwargs: Any):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"decay": float(decay), "epsilon": float(epsilon)}

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        return self._update(block, param_and_grad, {"Moment": "moment"}, self.attributes)


class AdadeltaOptimizer(Optimizer):
    """Updates of the size of those before, over that of the gradients; the learning rate has no effect."""

    states: ClassVar = {"squared_grad": 0.0, "squared_update": 0.0}

    def __init__(self, learning_rate: Any, epsilon: float = 1e-6, rho: float = 0.95, **kwargs: Any):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"epsilon": float(epsilon), "rho": float(rho)}

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        held = {"AvgSquaredGrad": "squared_grad", "AvgSquaredUpdate": "squared_update"}
        return self._update(block, param_and_grad, held, self.attributes, rate=False)


class RMSPropOptimizer(Optimizer):
    """ms = rho ms + (1 - rho) g^2; mom = mu mom + lr g / sqrt(ms + epsilon); p - mom."""

    states: ClassVar = {"momentum": 0.0, "mean_square": 0.0}

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"decay": float(rho), "epsilon": float(epsilon), "momentum": float(momentum)}

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        held = {"Moment": "momentum", "MeanSquare": "mean_square"}
        return self._update(block, param_and_grad, held, self.attributes)


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader, by coordinate."""

    states: ClassVar = {"squared": 0.0, "linear": 0.0}

    def __init__(
        self, learning_rate: Any, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, **kwargs: Any
    ):
        super().__init__(learning_rate, **kwargs)
        self.attributes = {"l1": float(l1), "l2": float(l2), "lr_power": float(lr_power)}

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Operator:
        held = {"SquaredAccumulator": "squared", "LinearAccumulator": "linear"}
        given = {"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"}
        return self._update(block, param_and_grad, held, self.attributes, given=given)


def _scale(block: Block, variable: Variable, factor: float) -> None:
    """Multiplies a variable in place."""
    block.append_op(
        type="scale", inputs={"X": [variable]}, outputs={"Out": [variable]}, attrs={"scale": factor}
    )


SGD, Momentum, Adam, Adamax = SGDOptimizer, MomentumOptimizer, AdamOptimizer, AdamaxOptimizer
Adagrad, DecayedAdagrad, Adadelta = AdagradOptimizer, DecayedAdagradOptimizer, AdadeltaOptimizer
RMSProp, Ftrl, Lamb = RMSPropOptimizer, FtrlOptimizer, LambOptimizer
