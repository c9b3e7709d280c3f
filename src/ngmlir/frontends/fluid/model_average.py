# SPDX-License-Identifier: Apache-2.0
"""The average of parameters over the last updates, in place of the parameters."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ...programs.attributes import OpRole
from . import unique_name
from .executor import Executor
from .framework import Parameter, Program, Variable, default_main_program, program_guard
from .initializer import Constant
from .layer_helper import LayerHelper
from .layers.tensor import assign, cast, sums

_SUMS = ("sum_1", "sum_2", "sum_3")
_COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")


class ModelAverage:
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
        self.helper = LayerHelper("model_average", name=kwargs.get("name"))
        program = default_main_program()
        block = program.global_block()
        self._states: dict[str, dict[str, Variable]] = {}
        attributes = {
            "average_window": float(average_window_rate),
            "min_average_window": int(min_average_window),
            "max_average_window": int(max_average_window),
        }
        self._params = [p for p in block.all_parameters() if p.trainable]
        with program.role(OpRole.Optimize):
            for param in self._params:
                states = self._states[param.name] = {
                    name: self._state(param, name) for name in (*_SUMS, *_COUNTS)
                }
                block.append_op(
                    type="average_accumulates",
                    inputs={"param": [param], **{f"in_{name}": [v] for name, v in states.items()}},
                    outputs={f"out_{name}": [v] for name, v in states.items()},
                    attrs=attributes,
                )
        self._apply, self._restore = Program(), Program()
        with program_guard(self._apply, Program()):
            for param in self._params:
                self._averaged(param)
        with program_guard(self._restore, Program()):
            for param in self._params:
                assign(
                    _same(self._restore, param, f"{param.name}@KEPT"), _same(self._restore, param, param.name)
                )

    def _state(self, param: Parameter, name: str) -> Variable:
        is_sum = name in _SUMS
        made = self.helper.create_global_variable(
            name=unique_name.generate(f"{param.name}_{name}"),
            persistable=True,
            dtype=param.dtype if is_sum else "int64",
            shape=list(param.shape) if is_sum else [1],
        )
        self.helper.set_variable_initializer(made, Constant(0))
        return made

    def _averaged(self, param: Parameter) -> None:
        here = self._apply
        held = {name: _same(here, v, v.name) for name, v in self._states[param.name].items()}
        value = _same(here, param, param.name)
        assign(value, _same(here, param, f"{param.name}@KEPT"))
        total = sums([held[name] for name in _SUMS])
        count = cast(sums([held["num_accumulates"], held["old_num_accumulates"]]), param.dtype)
        assign(total / count, value)

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


def _same(program: Program, like: Variable, name: str) -> Variable:
    """A persistable variable of that name in another program."""
    block = program.global_block()
    return block.create_var(name=name, shape=like.shape, dtype=like.dtype, persistable=True)
