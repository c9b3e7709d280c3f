# SPDX-License-Identifier: Apache-2.0
"""Programs for inference that were read from files: `ng.compile` makes functions of arrays of them.

A program is compiled for each shape of what is fed, exactly as an executor of the front end compiles it, so results have the
same bits as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import TensorType
from ..op_graph.answers import answered
from ..op_graph.values import converted, numbers
from ..programs.descriptions import Variable
from ..programs.fitting import check_fed, has_shape
from ..programs.interface import random_state
from ..programs.models import StoredModel, read_model
from ..programs.names import RANDOM
from ..runtime.timing import Profile
from ..support.diagnostics import UserError
from ..support.spelling import counted, did_you_mean
from .compiled_programs import compiled
from .host_steps import Run
from .outputs import Outputs
from .specialise import Specialised

Array = np.ndarray[Any, Any]
#: Programs of one model that are kept.
_KEPT = 64


class ProgramModel:
    """A program for inference and the values of its variables: `ng.compile(model, target="cpu")` makes a function of arrays."""

    def __init__(self, stored: StoredModel):
        self.stored = stored
        self.inputs: Sequence[Variable] = stored.feeds
        self._outputs = stored.fetches

    @property
    def input_names(self) -> list[str]:
        return [variable.name for variable in self.inputs]

    @property
    def output_names(self) -> list[str]:
        return [variable.name for variable in self._outputs]

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledProgram:
        """A function of arrays; a profile listens to its programs, which use so many threads."""
        return CompiledProgram(self, target, profile, threads)

    def __repr__(self) -> str:
        return f"<program from {', '.join(self.input_names) or 'nothing'} to {', '.join(self.output_names)}>"


class CompiledProgram:
    """A program as a function: called with arrays in the order of its inputs, or by their names.

    It is compiled for each shape of the arrays, and kept. What it keeps from call to call, it keeps for itself. Raises UserError
    for arrays that do not fit.
    """

    def __init__(
        self, model: ProgramModel, target: str, profile: Profile | None = None, threads: int | None = None
    ):
        self.model, self.target, self.profile = model, target, profile
        self._programs: Specialised[tuple[Run, bool]] = Specialised(target, _KEPT, profile, threads)
        self.threads = self._programs.threads
        self._state: dict[str, _Value] = {}
        self._outputs = Outputs.of(model.output_names)

    @answered
    def __call__(self, *values: Any, **named: Any) -> Outputs:
        """The outputs in order; `outputs["name"]` is one by its name."""
        arrays = self._arrays(values, named)
        shapes = tuple([array.shape for array in arrays])
        sizes: tuple[int, ...] = ()
        while True:
            run, measures = self._programs.get((*shapes, sizes), partial(self._made, shapes, sizes))
            results = [np.asarray(result) for result in run(*arrays)]
            if not measures:
                return self._outputs(results)
            sizes = (*sizes, results[0].item())

    def _arrays(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        names = self.model.input_names
        if values and named:
            raise UserError("inputs are given by position and by name", hint="use one of them")
        if named:
            if lost := [name for name in named if name not in names]:
                hint = did_you_mean(lost[0], names, f"the inputs are {', '.join(names)}")
                raise UserError(f"there is no input '{lost[0]}'", hint=hint)
            values = [named[name] for name in names if name in named]
        if len(values) != len(names):
            raise UserError(
                f"the program takes {counted(len(names), 'input')}, but {len(values)} were given",
                hint=f"its inputs are {', '.join(names)}",
            )
        return [_fitting(v, value) for v, value in zip(self.model.inputs, values, strict=True)]

    def _made(self, shapes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> tuple[Run, bool]:
        """What runs the program for inputs of these shapes, and whether it computes a length that comes after `sizes`."""
        program = self.model.stored.program.copy()
        for variable, shape in zip(self.model.inputs, shapes, strict=True):
            program.top.visible(variable.name).type = TensorType(shape, variable.element)
        names = ", ".join(self.model.input_names)
        self._programs.count(lambda made: f"the program was compiled for {made} shapes of {names}")
        interface, bind, measures = compiled(program, self.target, sizes)
        first = len(interface.feeds)
        state = {first + i: self._value(each.name) for i, each in enumerate(interface.states)}
        run = bind("main", state, interface.tied, tuple)
        order = [self.model.input_names.index(name) for name in interface.feeds]
        if order == [*range(len(shapes))]:
            return run, measures
        return lambda *arrays: run(*[arrays[i] for i in order]), measures

    def _value(self, name: str) -> _Value:
        """What it keeps under a name, which all its programs share."""
        if name not in self._state:
            if name == RANDOM:
                array = random_state(self.model.stored.program.random_seed)
            else:
                array = self.model.stored.values[name].array.copy()
            self._state[name] = _Value(array)
        return self._state[name]


class _Value:
    """What a program keeps from call to call, on the host or on a GPU."""

    def __init__(self, array: Array):
        self.host = array
        self._device: Any = None

    def on(self, device: Any) -> Any:
        if self._device is None:
            from ..runtime.gpu_device import to_device
            from ..support.diagnostics import UNKNOWN

            element = type_of_dtype(self.host.dtype).text
            self._device = to_device(device, self.host, element, "tensor", UNKNOWN)
        return self._device

    def get(self) -> Array:
        return self.host.copy() if self._device is None else self._device.numpy()


def _fitting(variable: Variable, value: Any) -> Array:
    """A value as the array of an input; numbers of other types are converted where they have the same values."""
    what = f"the value for '{variable.name}'"
    array = numbers(value, what)
    if array.dtype != dtype_of(variable.element) and has_shape(variable, array.shape):
        array = converted(array, variable.element, what)
    check_fed(variable, array)
    return array


def read_program(path: Path) -> ProgramModel:
    """The program for inference in a folder or file. Raises what `read_model` raises."""
    return ProgramModel(read_model(path))
