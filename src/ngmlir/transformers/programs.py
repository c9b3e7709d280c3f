# SPDX-License-Identifier: Apache-2.0
"""The programs of a computation: one for each set of lengths of its axes, made when values with these lengths are fed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from ..ir import core
from ..ir.attributes import StringAttr
from ..ir.core import Module, count_uses, module
from ..ir.literals import dtype_of
from ..op_graph.axes import Axis
from ..op_graph.computation import Computation
from ..op_graph.errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..op_graph.fed_checks import FedCheck, fed_checks
from ..op_graph.lift import Lifted
from ..op_graph.node import Op, closure
from ..op_graph.order import schedule
from ..op_graph.state import AssignableTensorOp
from ..op_graph.tensor import Tensor
from ..op_graph.values import ValueFor, numbers
from ..ops.lengths import reading
from ..ops.memory_limit import with_limit
from ..runtime.targets import device_named
from ..support.arrays import shape_on_device
from ..support.collector import collecting_rarely
from ..support.length_text import identifier
from .backends import in_memory
from .futures import Future
from .host_steps import Bind, Run
from .storage import DeviceBufferStorage, UninitializedVariable, fit

if TYPE_CHECKING:
    from ..runtime.cpu import CpuExecutable

#: How many programs a computation caches; the least recently used one is evicted.
PROGRAMS_KEPT = 16


Array = np.ndarray[Any, Any]
Key = tuple[int | None, ...]


class OtherLengths(Exception):
    """The values of a call have other lengths than the program."""


class Lengths:
    """The axes of a computation whose lengths its programs depend on, and how to read the lengths from the values of a
    call."""

    def __init__(self, computation: Computation):
        self.computation = computation
        roots: dict[int, Axis] = {}
        self._of_storage: set[int] = set()
        self._of_state: set[int] = set()
        # Parameters have lengths even if they are not used.
        for op in (*closure([computation]), *computation.parameters):
            for axis in op.axes if isinstance(op, Tensor) else ():
                found = {id(root): root for root in axis.roots}
                roots |= found
                if isinstance(op, AssignableTensorOp):
                    self._of_storage.update(found)
                    if op.is_persistent or op.initial_value is not None:
                        self._of_state.update(found)
        #: All axes whose lengths the programs depend on.
        self.roots = tuple(roots.values())

    def given(self, values: Sequence[Any]) -> Mapping[int, int]:
        """The lengths (by `id` of the axis) of the fed values: of the batch axis, and of axes without a length."""
        said: dict[str, tuple[int, Tensor]] = {}
        shapes: dict[Tensor, tuple[int, ...]] = {}
        for op, value in zip(self.computation.parameters, values, strict=True):
            if isinstance(op, AssignableTensorOp) and op.is_persistent:
                continue  # a variable: the shape of state cannot change
            there = shape_on_device(value)
            shape = numbers(value, ValueFor(op)).shape if there is None else there
            if len(shape) > len(op.axes):
                self._refuse(op, shape)
            shapes[op] = shape
            for along, size in zip(op.axes[len(op.axes) - len(shape) :], shape, strict=True):
                axis, length = along.said(size)
                if not axis.is_open:
                    continue
                known, first = said.setdefault(axis.name, (length, op))
                if known != length:
                    fail(
                        AxisLengthError,
                        f"the arguments differ along {axis.name}: {known} for {first.called}, {length} for {op.called}",
                        f"all arguments of a call must have the same length along {axis.name}",
                    )
        for op, shape in shapes.items():
            if any(axis.length is None and axis.is_open and axis.name not in said for axis in op.axes):
                self._refuse(op, shape)
        # Axes are identified by name: a length applies to all axes of that name.
        return {
            id(axis): said[axis.name][0]
            for axis in self.roots
            if axis.name in said and axis.is_open and (axis.length is None or id(axis) in self._of_storage)
        }

    def _refuse(self, op: Tensor, shape: tuple[int, ...]) -> NoReturn:
        """Raises the error for a value that leaves the length of an axis undetermined, or has more dimensions than
        axes."""
        unset = [a.name for a in op.axes if a.length is None]
        order = ", ".join(p.called for p in self.computation.parameters)
        hint = f"arguments are in the order of the parameters: {order}"
        what = f"{op.called} has axes ({op.axes.shown}), a value of shape {shape}"
        if len(shape) > len(op.axes):
            fail(IncompatibleAxesError, f"{what} cannot be broadcast to them", hint)
        names = ", ".join(unset)
        fail(
            AxisLengthError,
            f"the length of axis {names} is not set: {what} does not say it",
            f"{hint}; or set it before the call: {names}.length = ...",
        )

    def of_state(self, axes: Iterable[Axis]) -> bool:
        """Whether state has one of these axes."""
        return any(id(axis) in self._of_state for axis in axes)

    def key(self, given: Mapping[int, int]) -> Key:
        """All lengths, given those of the values: the key of a program."""
        return tuple([given.get(id(axis), axis.length) for axis in self.roots])

    def all_given(self, key: Key) -> Mapping[int, int]:
        """The lengths of a key by `id` of the axis."""
        return {id(axis): length for axis, length in zip(self.roots, key, strict=True) if length is not None}

    def opened(self, given: Mapping[int, int]) -> dict[int, str]:
        """The lengths that values determine and on which no state depends: their index in a key -> their name."""
        return {
            i: identifier(axis.name)
            for i, axis in enumerate(self.roots)
            if id(axis) in given and not self.of_state([axis])
        }

    def follow_from_values(self) -> bool:
        """Whether a length is not set, and must come from the values of a call."""
        fed = {
            axis.name
            for op in self.computation.parameters
            if not op.is_persistent
            for along in op.axes
            if (axis := along.said(0)[0]).is_open
        }
        return any(axis.length is None and axis.name in fed for axis in self.roots)


class Owner(Protocol):
    """What programs need of their transformer."""

    target: str

    def transform_ordered_ops(self, ordered_ops: Sequence[Op], name: str = "main") -> Lifted: ...
    def storage_of(self, op: AssignableTensorOp) -> DeviceBufferStorage: ...
    def initialize_state(self, ops: Iterable[AssignableTensorOp]) -> None: ...


class Program:
    """A computation for certain lengths: its `ng` program, and the callable that runs it on the transformer's state."""

    def __init__(
        self, computation: Computation, lengths: Lengths, key: Key, transformer: Owner, memory_limit: int = 0
    ):
        self.computation = computation
        self.lengths = lengths
        self.key = key
        self.given = given = lengths.all_given(key)
        self._transformer = transformer
        self.executor: Run | None = None
        self._stays_there = device_named(transformer.target).has_memory
        self.entry = computation.safe_name if computation.given_name else "main"
        with reading(given), collecting_rarely():
            ordered = schedule(closure([computation]))
            asked = fed_checks(ordered)
            lifted = transformer.transform_ordered_ops(ordered, self.entry)
        self.lifted: Lifted = replace(lifted, module=with_limit(lifted.module, memory_limit))
        #: Checks of the values of parameters, by position.
        with reading(given):
            self._checks: list[tuple[int, FedCheck, int | None]] = [
                (i, check, check.axis.length)
                for i, op in enumerate(computation.parameters)
                for check in asked.get(op, ())
            ]
        self._fed: list[tuple[AssignableTensorOp, tuple[int, ...], Any]] = []  # parameters that are not state
        self._stored: dict[int, DeviceBufferStorage] = {}  # parameters that are state, by position
        self._free: list[int | None] = []
        self._in_order = False  # whether the results are returned unchanged
        self._unset: list[DeviceBufferStorage] = []  # read, and maybe without a value
        self._writes: list[DeviceBufferStorage] = []
        self._state: dict[int, DeviceBufferStorage] = {}
        self._shapes: list[tuple[int, ...]] = []  # of all parameters
        self._unsaid = key == lengths.key({})  # whether these are the lengths if values determine none

    @property
    def fed(self) -> Mapping[int, Tensor]:
        """The arguments that are not state, by number."""
        return {i: op for i, op in enumerate(self.lifted.arguments) if i not in self._state}

    def allocate(self) -> None:
        """Allocates the state of this program with its initial values, unless it has some already."""
        parameters = self.computation.parameters
        overwritten = {argument for _, argument in self.lifted.tied}
        with reading(self.given):
            for i, op in enumerate(self.lifted.arguments):
                if (
                    op not in parameters
                    or op.is_persistent
                    or op.initial_value is not None
                    or i in overwritten
                ):
                    self._state[i] = self._transformer.storage_of(op)
            self._transformer.initialize_state([storage.op for storage in self._state.values()])
            for storage in self._state.values():
                storage.allocate()
                storage.check_shape()

    def bind(self, bind: Bind, entry: str) -> None:
        """Makes its callable, from a backend's `bind`."""
        parameters, lifted, state = self.computation.parameters, self.lifted, self._state
        block = lifted.module.ops[0].block
        used = count_uses(block)
        for i, op in enumerate(lifted.arguments):
            if i in state and op not in parameters and used.get(block.args[i]):
                self._unset.append(state[i])
        with reading(self.given):
            for i, op in enumerate(lifted.arguments[: len(parameters)]):
                self._shapes.append(op.axes.known_shape)
                if i in state:
                    self._stored[i] = state[i]
                else:
                    self._fed.append((op, op.axes.known_shape, dtype_of(op.element)))
        # Results that are new contents of state are not returned.
        results = [i for i in range(len(block.ops[-1].operands)) if i not in dict(lifted.tied)]
        self._free = [None if place is None else results.index(place) for place in lifted.outputs]
        self._in_order = self._free == list(range(len(results)))
        self._writes = [state[i] for i in sorted({argument for _, argument in lifted.tied})]
        self.executor = bind(entry, state, lifted.tied, self._prepare)

    def at(self, key: Key, executable: CpuExecutable) -> Program:
        """This program, whose lengths are open, for given lengths, with the executable for them."""
        found = copy(self)
        found.key, found.given = key, self.lengths.all_given(key)
        found._fed, found._stored, found._unset, found._shapes = [], {}, [], []
        found._unsaid = key == self.lengths.key({})
        with reading(found.given):
            found._checks = [(i, check, check.axis.length) for i, check, _ in self._checks]
        if not found._state:
            found.allocate()
        found.bind(in_memory(executable), self.entry)
        return found

    def _prepare(self, values: Sequence[Any]) -> Sequence[Any]:
        """Arrays of the values that are not state; OtherLengths if they belong to another program."""
        if not self._stored:
            values = self._checked(values)
        if self._stays_there:  # arrays on the device are used in place
            return [
                fit(value, *fed) if shape_on_device(value) is None else value
                for value, fed in zip(values, self._fed, strict=True)
            ]
        return [fit(value, *fed) for value, fed in zip(values, self._fed, strict=True)]

    def _looked_at(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values; UserError for those that violate a check of an op. Arrays on a device are not checked."""
        values = self._checked(values)
        for i, check, length in self._checks:
            if type(values[i]) is np.ndarray:
                check.check(values[i], length)
        return values

    def _checked(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values, as arrays unless they are on the device; OtherLengths if they belong to another program."""
        arrays = [
            value
            if type(value) is np.ndarray or (self._stays_there and shape_on_device(value) is not None)
            else numbers(value, ValueFor(op))
            for value, op in zip(values, self.computation.parameters, strict=True)
        ]
        # A scalar determines no length.
        whole = all(
            array.shape == shape or (self._unsaid and not array.shape)
            for array, shape in zip(arrays, self._shapes, strict=True)
        )
        if whole or self.lengths.key(self.lengths.given(arrays)) == self.key:
            return arrays
        raise OtherLengths

    def _check_set(self) -> None:
        """UninitializedVariable if something is read that has no value."""
        for storage in self._unset:
            if not storage.initialized:
                fail(
                    UninitializedVariable,
                    f"{storage.op.called} is read before it is initialized",
                    f"give it an initial_value where it is created ({storage.op.location}), pass a value, or assign to it first",
                )
        self._unset = []  # values are never removed

    def __call__(self, values: Sequence[Any]) -> Any:
        if self._checks or self._unset or self._stored:
            values = self.begin(values)
        assert self.executor is not None
        return self.finish(self.executor(*values))

    def start(self, values: Sequence[Any], stream: Any) -> Future:
        """Like a call; returns a future of the results."""
        if self._checks or self._unset or self._stored:
            values = self.begin(values)
        assert self.executor is not None
        start = getattr(self.executor, "start", None)
        if start is None:
            _refuse_stream(stream)
            return Future(self.finish(self.executor(*values)))
        pending = start(values, stream)
        for storage in self._writes:
            storage.initialized = True
        return Future(pending, self.finish)

    def on_device(self, values: Sequence[Any], stream: Any) -> Any:
        """Like a call, with results that stay on the device."""
        if self._checks or self._unset or self._stored:
            values = self.begin(values)
        assert self.executor is not None
        run = getattr(self.executor, "run_on_device", None)
        if run is None:
            _refuse_stream(stream)
            return self.finish(self.executor(*values))
        return self.finish(run(values, stream))

    def begin(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values that are not state, after writing the others to their state. Raises OtherLengths, and errors for
        values that do not fit, before anything changes."""
        if self._checks:
            values = self._looked_at(values)
        if self._unset:
            self._check_set()
        if self._stored:
            values = self._checked(values)
            # Values that do not fit raise before anything changes.
            rest = self._prepare([value for i, value in enumerate(values) if i not in self._stored])
            ready = [(storage, storage.fitted(values[i])) for i, storage in self._stored.items()]
            for storage, array in ready:
                storage.write(array)
            values = rest
        return values

    def finish(self, results: Sequence[Any]) -> Any:
        """The return value, from the results that are not state."""
        for storage in self._writes:
            storage.initialized = True
        pack = self.computation.pack
        return pack(results if self._in_order else [None if i is None else results[i] for i in self._free])


def _refuse_stream(stream: Any) -> None:
    if stream is not None:
        fail(UserError, "this program does not run on a GPU, so stream= has no meaning", "leave stream= out")


def joined(programs: Sequence[Program]) -> tuple[Module, list[str]]:
    """One module with the functions of several programs, and the name of each program's function in it."""
    functions: list[core.Op] = []
    names: list[str] = []
    for program in programs:
        function, *others = program.lifted.module.ops
        assert not others or len(programs) == 1
        name, count = function.symbol, 0
        while name in names:
            count += 1
            name = f"{function.symbol}_{count}"
        names.append(name)
        renamed = {**function.attributes, "sym_name": StringAttr(name)}
        functions.append(function if name == function.symbol else function.rebuilt(attributes=renamed))
    if len(functions) == 1:
        return programs[0].lifted.module, names
    return module(functions, location=programs[0].computation.location), names
