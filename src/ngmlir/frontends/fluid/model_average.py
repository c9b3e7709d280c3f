# SPDX-License-Identifier: Apache-2.0
"""Averages of parameters over updates, in place of the parameters."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ...programs.attributes import OpRole
from . import unique_name
from .executor import Executor
from .framework import Parameter, Program, Variable, default_main_program, program_guard
from .initializer import Constant
from .layer_helper import LayerHelper
from .layers.made import layer
from .layers.tensor import assign, cast, fill_constant, sums

_SUMS = ("sum_1", "sum_2", "sum_3")
_COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")


class _Average:
    """Averages of the trainable parameters of the main program, which `apply` puts in their place."""

    def __init__(self, kind: str, name: str | None):
        self.helper = LayerHelper(kind, name=name)
        self._params = [p for p in default_main_program().global_block().all_parameters() if p.trainable]
        self._apply, self._restore = Program(), Program()

    def _average(self, param: Parameter) -> Variable:
        """The average of a parameter, in the program that is built now."""
        raise NotImplementedError

    def _build(self) -> None:
        """Builds the programs that put averages in the place of parameters, and these back."""
        for program, kept in ((self._apply, False), (self._restore, True)):
            with program_guard(program, Program()):
                for param in self._params:
                    value, before = (_same(program, param, n) for n in (param.name, f"{param.name}@KEPT"))
                    if kept:
                        assign(before, value)
                    else:
                        assign(value, before)
                        assign(self._average(param), value)

    def _state(self, name: str, dtype: Any, shape: Sequence[int], value: float = 0) -> Variable:
        made = self.helper.create_global_variable(
            name=unique_name.generate(name), persistable=True, dtype=dtype, shape=list(shape)
        )
        self.helper.set_variable_initializer(made, Constant(value))
        return made

    def _here(self, state: Variable) -> Variable:
        """A state, in the program that is built now."""
        return _same(default_main_program(), state, state.name)

    @contextmanager
    def apply(self, executor: Executor, need_restore: bool = True) -> Generator[None]:
        """Runs what is inside with the averages; then, unless `need_restore` is off, the parameters are put back."""
        executor.run(self._apply)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Executor) -> None:
        """Puts the parameters back."""
        executor.run(self._restore)


class ModelAverage(_Average):
    """Sums parameters after each update; made after the optimizer's `minimize`.

    `with average.apply(executor):` runs with the averages; after it the parameters are what they were. The window is
    `average_window_rate` of all updates, but at least `min_average_window` and at most `max_average_window` of them.
    """

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        **kwargs: Any,
    ):
        super().__init__("model_average", kwargs.get("name"))
        program = default_main_program()
        self._states: dict[str, dict[str, Variable]] = {}
        attributes = {
            "average_window": float(average_window_rate),
            "min_average_window": int(min_average_window),
            "max_average_window": int(max_average_window),
        }
        with program.role(OpRole.Optimize):
            for param in self._params:
                states = self._states[param.name] = {
                    **{name: self._state(f"{param.name}_{name}", param.dtype, param.shape) for name in _SUMS},
                    **{name: self._state(f"{param.name}_{name}", "int64", [1]) for name in _COUNTS},
                }
                program.global_block().append_op(
                    type="average_accumulates",
                    inputs={"param": [param], **{f"in_{name}": [v] for name, v in states.items()}},
                    outputs={f"out_{name}": [v] for name, v in states.items()},
                    attrs=attributes,
                )
        self._build()

    def _average(self, param: Parameter) -> Variable:
        held = {name: self._here(v) for name, v in self._states[param.name].items()}
        total = sums([held[name] for name in _SUMS])
        return total / cast(sums([held["num_accumulates"], held["old_num_accumulates"]]), param.dtype)


class ExponentialMovingAverage(_Average):
    """Running means of parameters: `update()`, after the optimizer's `minimize`, appends m = d m + (1 - d) p to the main program.

    d is `decay`; with `thres_steps`, the number of updates so far, at most (1 + thres_steps) / (10 + thres_steps). `with
    average.apply(executor):` runs with the means, corrected for their beginning at 0; after it the parameters are what they were.
    """

    def __init__(self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None):
        super().__init__("exponential_moving_average", name)
        program = default_main_program()
        with program.role(OpRole.Optimize):
            self._means = {p.name: self._state(f"{p.name}_ema", p.dtype, p.shape) for p in self._params}
            # How much of the beginning is in the means.
            self._rest = self._state("ema_rest", "float32", [1], 1.0)
            self._decay = fill_constant([1], "float32", decay)
            if thres_steps is not None:
                steps = cast(thres_steps, "float32")
                self._decay = layer("elementwise_min")((steps + 1.0) / (steps + 10.0), self._decay)
        self._build()

    def update(self) -> None:
        """Appends what updates the means."""
        program = default_main_program()
        with program.role(OpRole.Optimize):
            for param in self._params:
                mean, decay = self._means[param.name], cast(self._decay, param.dtype)
                assign(mean * decay + param * (1.0 - decay), mean)
            assign(self._rest * self._decay, self._rest)

    def _average(self, param: Parameter) -> Variable:
        rest = cast(self._here(self._rest), param.dtype)
        return self._here(self._means[param.name]) / (1.0 - rest)


def _same(program: Program, like: Variable, name: str) -> Variable:
    """A persistable variable of that name in another program."""
    block = program.global_block()
    return block.create_var(name=name, shape=like.shape, dtype=like.dtype, persistable=True)
