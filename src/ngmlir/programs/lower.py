# SPDX-License-Identifier: Apache-2.0
"""From names to values: a walk over the blocks of a program with an environment, which builds an op graph and lifts it.

An operator's variables are looked up, its function builds it, and what it writes are the new values of names. A variable that
is fed is an argument, one that is fetched a result. A persistable variable is state: an argument, and where the program writes
it also a result that is tied to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.core import Module
from ..ir.types import TensorType, ui64
from ..op_graph.computation import Computation
from ..op_graph.host_ops import HostOp
from ..op_graph.lift import Trace, lift
from ..op_graph.node import Op
from ..op_graph.positions import Positions
from ..op_graph.raising import FixedAxis
from ..op_graph.state import AssignableTensorOp, Role, doall
from ..op_graph.tensor import Tensor
from ..op_graph.values import ConstantOp
from ..op_graph.verbs import VERBS
from ..op_graph.writes import AssignOp, ReadOp
from ..support.diagnostics import Diagnostic, UserError
from .attributes import values_of
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .interface import Interface
from .kernel_values import kernel_values
from .kernels import KERNELS
from .names import EMPTY, RANDOM
from .places import at
from .sparse_rows import SparseRows, all_dense, dense


@dataclass(frozen=True)
class Written:
    """What an operator writes to a variable: the result of that number among those that are tied to no argument."""

    operator: Operator
    name: str
    result: int


@dataclass(frozen=True)
class Lowered:
    """A program as a function of values; `fetches` names its results that are tied to no argument. `written` is what its operators
    write, in their order, where every value is a result too. The Python functions that it calls live as long as this does."""

    module: Module
    interface: Interface
    fetches: tuple[str, ...]
    written: tuple[Written, ...]
    trace: Trace

    @property
    def calls_python(self) -> bool:
        """Whether functions of Python compute a part of it."""
        return any(isinstance(t.op, HostOp) for ops in self.trace.ops.values() for t in ops)


def lower(program: Program, *, every: bool = False) -> Lowered:
    """A program as a function of what its `feed` operators take and its state; what its `fetch` operators give are results, and with
    `every` then all that operators write.

    Raises UserError, at the operator's line, where an operator reads what nothing gave a value, where shapes do not fit, and
    where the length of something that is fed is not known.
    """
    with Op.saved_user_deps():
        lowering = _Lowering(program)
        lowering.run(program.top)
        return lowering.finished(every)


@dataclass
class _Lowering:
    """The context that operators are built in."""

    program: Program
    values: dict[str, Tensor | SparseRows] = field(default_factory=dict[str, Tensor | SparseRows])
    feeds: dict[str, AssignableTensorOp] = field(default_factory=dict[str, AssignableTensorOp])
    states: dict[str, AssignableTensorOp] = field(default_factory=dict[str, AssignableTensorOp])
    fetches: dict[int, tuple[str, Tensor]] = field(default_factory=dict[int, tuple[str, Tensor]])
    written: list[tuple[Operator, str, Tensor | SparseRows]] = field(
        default_factory=list[tuple[Operator, str, Tensor | SparseRows]]
    )
    drawn: int = 0

    def run(self, block: BlockView) -> None:
        """Builds the operators of a block, one after the other."""
        for operator in block.operators:
            with at(operator.location):
                match operator.type:
                    case "feed":
                        self.feed(operator)
                    case "fetch":
                        (name,) = operator.inputs["X"]
                        self.fetches[operator.attribute("col")] = (
                            name,
                            ReadOp(dense(self.read(operator, name))),
                        )
                    case "delete_var":
                        pass  # memory is planned when the program is compiled
                    case _:
                        self.build(operator)

    def build(self, operator: Operator) -> None:
        definition = REGISTRY.get(operator.type)
        inputs = {
            slot: [None if n == EMPTY else self.read(operator, n) for n in names]
            for slot, names in operator.inputs.items()
        }
        attributes = values_of(definition.entry, operator.dictionary)
        if label := attributes.get("kernel"):
            kernel = KERNELS.get(operator.type, label, operator.location)
            made = kernel_values(kernel, self, all_dense(inputs), attributes, operator.dictionary)
        elif definition.needs_kernel:
            hint = "the pass program-kernels chooses one; ngmlir.programs.custom.kernel registers one"
            message = f"operator {operator.type} has no function of its own, and no kernel was chosen for it"
            raise UserError(Diagnostic(message, operator.location, hint=hint))
        else:
            made = definition.values(self, inputs, attributes)
        for slot, names in operator.outputs.items():
            for name, value in zip(names, made.get(slot, ()), strict=False):
                if name != EMPTY and value is not None:
                    self.write(operator, name, value)

    # ---- variables

    def feed(self, operator: Operator) -> None:
        (name,) = operator.outputs["Out"]
        variable = operator.block.visible(name, operator.location)
        if not variable.type.static:
            message = f"the shape of '{name}', which is fed, is not known: {variable.type}"
            raise UserError(
                Diagnostic(message, variable.location, hint="declare it with the lengths of what is fed")
            )
        self.feeds[name] = self.values[name] = _storage(name, variable.type, Role.PLACEHOLDER)

    def read(self, operator: Operator, name: str) -> Tensor | SparseRows:
        """The value that a variable has now."""
        found = self.values.get(name)
        if found is not None:
            return found
        variable = operator.block.visible(name, operator.location)
        if variable.persistable:
            return self.state(name, variable.type)
        if variable.flag("data"):
            hint = f'feed={{"{name}": array}} gives it one'
        else:
            hint = "an operator before this one has to write it"
        message = f"operator {operator.type} reads '{name}', which has no value yet"
        raise UserError(Diagnostic(message, operator.location, hint=hint))

    def write(self, operator: Operator, name: str, value: Tensor | SparseRows) -> None:
        variable = operator.block.visible(name, operator.location)
        if variable.persistable:
            value = new = dense(value)
            held = self.state(name, variable.type, new)
            if held.type.shape != new.type.shape or held.element is not new.element:
                message = f"'{name}' keeps {held.type} from run to run, and cannot become {new.type}"
                raise UserError(Diagnostic(message, operator.location))
        self.values[name] = value
        self.written.append((operator, name, value))

    def state(self, name: str, type: TensorType, value: Tensor | None = None) -> AssignableTensorOp:
        """The storage of a persistable variable, which begins as what the scope holds."""
        if name not in self.states:
            if value is not None:
                type = TensorType(value.type.shape, value.element)
            if not type.static:
                raise UserError(
                    Diagnostic(f"'{name}' is kept from run to run, so its shape must be known: {type}")
                )
            self.states[name] = _storage(name, type, Role.PERSISTENT)
            self.values.setdefault(name, self.states[name])
        return self.states[name]

    # ---- random numbers

    def random_key(self, seed: int) -> Tensor:
        if seed:
            return ConstantOp(np.array([seed, 0], np.uint64), Positions.of([2]), ui64)
        key = self.state(RANDOM, TensorType((2,), ui64))
        self.drawn += 1
        # Each operator draws from a stream of its own.
        return self.moved(key, 0, self.drawn << 32)

    def moved(self, key: Tensor, *by: int) -> Tensor:
        return VERBS.add(key, ConstantOp(np.array(by, np.uint64), key.axes, ui64))

    # ---- the end

    def finished(self, every: bool) -> Lowered:
        if RANDOM in self.states:
            # The next run draws other numbers.
            self.values[RANDOM] = self.moved(self.states[RANDOM], 1, 0)
        changed = [name for name, storage in self.states.items() if self.values[name] is not storage]
        new = [ReadOp(dense(self.values[name])) for name in changed]
        writes = [AssignOp(self.states[name], value) for name, value in zip(changed, new, strict=True)]
        fetched = [self.fetches[column] for column in sorted(self.fetches)]
        shown = [(operator, name, dense(value)) for operator, name, value in self.written] if every else []
        returns: list[Op] = [*[value for _, value in fetched], *[value for _, _, value in shown]]
        group = [doall(writes)] if writes else []
        parameters: Sequence[Any] = [*self.feeds.values(), *self.states.values()]
        made = Computation([*returns, *group], parameters, tuple)
        made.location = self.program.location
        lifted = lift(made)
        interface = Interface.of(lifted.module, [*self.feeds], [*self.states], lifted.tied)
        written = [Written(operator, name, at) for at, (operator, name, _) in enumerate(shown, len(fetched))]
        names = tuple([name for name, _ in fetched])
        return Lowered(lifted.module, interface, names, tuple(written), lifted.trace)


def _storage(name: str, type: TensorType, role: Role) -> AssignableTensorOp:
    axes = Positions([FixedAxis(n) for n in type.shape])
    made = AssignableTensorOp(axes, type.element, role)
    made.given_name = name
    return made
