# SPDX-License-Identifier: Apache-2.0
"""Operators that run by themselves on the variables of a scope: `Operator("scale", X="x", Out="y", scale=2.0).run(scope, place)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.literals import type_of_dtype
from ...ir.types import TensorType, i32
from ...op_graph.answers import answer_methods, answered
from ...programs import names
from ...programs.attributes import completed
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import Program as ProgramView
from ...programs.infer import infer_types
from ...programs.ragged import check_offsets
from ...programs.verify import check_program
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean
from .executor import Executor
from .framework import Program
from .lists import listed
from .places import Place
from .protos import op_proto
from .scope import LoDTensor, Scope


class SingleOperator:
    """An operator with the names of its variables. What `fluid.op.Operator(type, ...)` gives."""

    def __init__(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attributes: Mapping[str, Any],
    ):
        self._type, self._inputs, self._outputs = type, inputs, outputs
        self._attributes = completed(REGISTRY.get(type).entry, attributes)

    def type(self) -> str:
        return self._type

    def inputs(self) -> dict[str, list[str]]:
        """Slot -> the names of its variables."""
        return {slot: list(each) for slot, each in self._inputs.items()}

    def outputs(self) -> dict[str, list[str]]:
        """Slot -> the names of its variables."""
        return {slot: list(each) for slot, each in self._outputs.items()}

    @answered
    def run(self, scope: Scope, place: Place) -> None:
        """Computes it at a place: it reads and writes variables of the scope, with their raggedness. UserError where one that it reads has
        no value, and where offsets do not fit its rows."""
        view = ProgramView()
        offsets: dict[str, Any] = {}
        read = [n for each in self._inputs.values() for n in each if n != names.EMPTY]
        for name in dict.fromkeys(read):
            tensor = scope.tensor(name)
            type = TensorType(tuple(tensor.shape()), type_of_dtype(tensor.host.dtype))
            levels = [np.array(level, np.int32) for level in tensor.lod()]
            variable = view.top.declare(name, type, ragged=len(levels), flags=["persistable"])
            if levels:
                check_offsets(variable, levels, tensor.shape()[0])
                for each, level in zip(names.offsets_names(name, len(levels)), levels, strict=True):
                    view.top.declare(each, TensorType((len(level),), i32))
                    offsets[each] = level
        written = [n for each in self._outputs.values() for n in each if n != names.EMPTY]
        for name in dict.fromkeys(written):
            if name not in view.top.variables:
                view.top.declare(name, flags=["persistable"])
        made = view.top.insert(0, self._type, self._inputs, self._outputs, self._attributes)
        check_program(view)
        infer_types(made)
        wanted = {n: names.offsets_names(n, view.top.visible(n).ragged) for n in dict.fromkeys(written)}
        flat = [each for levels in wanted.values() for each in levels]
        results = iter(Executor(place).run(Program(view), offsets, flat, scope=scope))
        for name, levels in wanted.items():
            found = scope.find_var(name)
            if found is not None and isinstance(found.value, LoDTensor):
                found.value.hold_offsets([next(results) for _ in levels])

    def __repr__(self) -> str:
        return f"<operator {self._type} {self.inputs()} -> {self.outputs()}>"


class OperatorFactory:
    """Makes operators that run by themselves, and answers what operators take."""

    def __call__(self, type: str, **given: Any) -> SingleOperator:
        """The operator of a type: a slot is given a name or a list of names, an attribute its value.

        Raises UserError for an operator, a slot or an attribute that there is not, and for values out of range.
        """
        proto = op_proto(type)
        inputs, outputs = self.get_op_inputs(type), self.get_op_outputs(type)
        slots = {**dict(inputs), **dict(outputs)}
        known = [*slots, *[a.name for a in proto.attrs]]
        for name in given:
            if name not in known:
                raise UserError(
                    f"operator {type} has neither a slot nor an attribute '{name}'",
                    hint=did_you_mean(name, known, f"it has {', '.join(known)}"),
                )
        return SingleOperator(
            type,
            {slot: _names(given[slot]) for slot, _ in inputs if slot in given},
            {slot: _names(given[slot]) for slot, _ in outputs if slot in given},
            {name: value for name, value in given.items() if name not in slots},
        )

    def get_op_inputs(self, type: str) -> list[tuple[str, bool]]:
        """The input slots, and whether each takes a list."""
        return [(slot.name, slot.duplicable) for slot in op_proto(type).inputs]

    def get_op_outputs(self, type: str) -> list[tuple[str, bool]]:
        """The output slots, and whether each takes a list."""
        return [(slot.name, slot.duplicable) for slot in op_proto(type).outputs]

    def get_op_attr_names(self, type: str) -> list[str]:
        """The names of the attributes."""
        return [a.name for a in op_proto(type).attrs]

    def types(self) -> list[str]:
        """The types of all operators."""
        return sorted(REGISTRY.listed())


def _names(given: Any) -> list[str]:
    return [names.text(name) for name in listed(given)]


answer_methods(OperatorFactory, called="fluid.op")
Operator = OperatorFactory()
