# SPDX-License-Identifier: Apache-2.0
"""A transformer runs computations, and holds the state that they share."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Never

import numpy as np

from ..decl.target_text import load_target
from ..ir.core import Module
from ..ir.types import DYNAMIC
from ..op_graph.calls import listed
from ..op_graph.computation import Computation, computation
from ..op_graph.errors import MissingValue, NotAssignable, UserError, fail
from ..op_graph.lift import Lifted
from ..op_graph.node import Op
from ..op_graph.state import AssignableTensorOp
from ..op_graph.tensor import Tensor
from ..ops import ng
from ..ops.lengths import Changes
from .backends import BACKENDS
from .checkpoints import State, kept, load, named, saved
from .host_steps import Backend, Run
from .programs import Lengths, OtherLengths, Program, Programs
from .stepping import Stepper
from .storage import DeviceBufferStorage, DeviceTensor


class DeviceComputation:
    """A computation of a transformer: call it with values of its parameters, or with `feed_dict={op: value}`.

    Lengths of axes are read at the call: those that are set, and of the batch axis N, and of axes whose length is not
    set, those of the values. For each a program is made and kept.
    """

    def __init__(self, transformer: Transformer, op: Computation):
        self.transformer = transformer
        self.computation_op = op
        self.programs = Programs()
        self._program: Program | None = None  # the one that was used last
        self._seen = -1  # the change of lengths that it was chosen after
        self._lengths: Lengths | None = None

    @property
    def lengths(self) -> Lengths:
        """What programs of this computation differ in."""
        if self._lengths is None:
            self._lengths = Lengths(self.computation_op)
        return self._lengths

    @property
    def executor(self) -> Run | None:
        """What runs the program that was used last; None before the first."""
        return None if self._program is None else self._program.executor

    @property
    def lifted(self) -> Lifted:
        """The `ng` program that was used last; made now if there was none."""
        return (self._program or self._lifted_for({})).lifted

    @property
    def module(self) -> Module:
        return self.lifted.module

    def state(self) -> State:
        """What this computation keeps from call to call, by name: variables and what optimizers and random numbers need.

        Names are those given (`name=`, `named`, after those of `ng.name_scope`), else those that the program assigned
        the storage to. The arrays are copies. Raises UserError where a name was given to two storages.
        """
        self.transformer.check_open()
        return saved(named(kept([self.computation_op])), self.transformer.storage_of)

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Puts back what `state()` gave, bit for bit: here, or in a program that builds the same graph.

        Raises UserError, and changes nothing, where an array has another shape or type than what it is for, and (unless
        `strict` is false) for names that are not here or lack.
        """
        self.transformer.check_open()
        load(state, named(kept([self.computation_op])), self.transformer.storage_of, strict)

    def transform(self) -> None:
        """Makes the program and what runs it, once; where values are to say a length, their first call does."""
        if self.executor is None and not self.lengths.follow_from_values():
            self._choose({})

    def allocate(self) -> None:
        """Gives the state that this computation uses its initial values, where the lengths are set."""
        if self._program is None and not self.lengths.follow_from_values():
            self._lifted_for({}).allocate()

    def _lifted_for(self, given: Mapping[int, int]) -> Program:
        key = self.lengths.key(given)
        found = self.programs.find(key)
        if found is None:
            found = Program(self.computation_op, self.lengths, key, self.transformer.storage_of)
            self.programs.add(key, found, self.lengths.roots)
        return found

    def _choose(self, given: Mapping[int, int]) -> Program:
        """The program for these lengths."""
        with self.transformer.lock:
            change = Changes.serial
            program = self._lifted_for(given)
            if program.executor is None:
                program.allocate()
                program.compile(BACKENDS[self.transformer.transformer_name])
            self._program, self._seen = program, change
            return program

    def __call__(self, *values: Any, feed_dict: Mapping[Op, Any] | None = None, **unknown: Never) -> Any:
        """Runs once: new arrays, in the structure that was asked for.

        A value is a number, an array or nested lists, broadcast to its parameter's axes and converted to its type.
        Raises UserError for one that does not fit, MissingValue for one that `feed_dict` lacks, and
        UninitializedVariable where a variable is read that nothing has been assigned to.
        """
        if self.transformer.closed:
            self.transformer.check_open()
        if unknown:
            fail(
                UserError,
                f"a computation takes no values by name, such as {next(iter(unknown))}",
                "give them by position, or feed_dict={parameter: value}",
            )
        if feed_dict is not None or len(values) != len(self.computation_op.parameters):
            values = self._by_position(values, feed_dict)
        program = self._program
        if program is None:
            self.transformer.begin()
        if program is None or program.executor is None or self._seen != Changes.serial:
            program = self._choose(self.lengths.given(values))
        try:
            return program(values)
        except OtherLengths:
            return self._choose(self.lengths.given(values))(values)

    def prepared(
        self, values: tuple[Any, ...], feed_dict: Mapping[Op, Any] | None, backend: Backend
    ) -> tuple[Program, tuple[Any, ...]]:
        """A program of its own for these values, compiled by another backend, and the values by position."""
        self.transformer.check_open()
        values = self._by_position(values, feed_dict)
        self.transformer.begin()
        given = self.lengths.given(values)
        with self.transformer.lock:
            key = self.lengths.key(given)
            program = Program(self.computation_op, self.lengths, key, self.transformer.storage_of)
            program.allocate()
            program.compile(backend)
        return program, values

    def _by_position(self, values: tuple[Any, ...], feed_dict: Mapping[Op, Any] | None) -> tuple[Any, ...]:
        """The values of the parameters in their order; UserError where one lacks or is too many."""
        parameters = self.computation_op.parameters
        if feed_dict is not None:
            if values:
                fail(UserError, "values are given by position and in feed_dict", "use one of them")
            if isinstance(feed_dict, dict) and all([p in feed_dict for p in parameters]):
                values = tuple([feed_dict[p] for p in parameters])
            else:
                given = self._by_parameter(feed_dict)
                values = tuple([self._value(given, p) for p in parameters])
        if len(values) != len(parameters):
            names = ", ".join(p.called for p in parameters)
            fail(
                UserError,
                f"the computation takes {len(parameters)} values ({names}), but {len(values)} were given",
                f"its parameters were named at {self.computation_op.location}",
            )
        return values

    @staticmethod
    def _by_parameter(feed_dict: Mapping[Op, Any]) -> Mapping[Op, Any]:
        """The values by what stands in the place of the parameters now."""
        if not isinstance(feed_dict, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"feed_dict is {feed_dict!r}", "it is a dictionary from parameters to values")
        return {op.forwarded if isinstance(op, Op) else op: value for op, value in feed_dict.items()}  # pyright: ignore[reportUnnecessaryIsInstance]

    @staticmethod
    def _value(feed_dict: Mapping[Op, Any], parameter: Tensor) -> Any:
        if parameter not in feed_dict:
            fail(
                MissingValue,
                f"feed_dict has no value for {parameter.called}",
                f"the parameter was made at {parameter.location}",
            )
        return feed_dict[parameter]


class Transformer:
    """Runs computations on one kind of device. State is its own: each transformer starts from initial values."""

    transformer_name = ""
    #: What its devices carry out: a table in `lowering/`; without one, every op.
    table: ClassVar[str] = ""
    #: Name -> class, of all kinds.
    transformers: ClassVar[dict[str, type[Transformer]]] = {}
    default_rtol = 1e-5
    default_atol = 1e-8

    def __init_subclass__(cls) -> None:
        Transformer.transformers[cls.transformer_name] = cls

    def __init__(self) -> None:
        self.computations: dict[Computation, DeviceComputation] = {}
        self.device_buffers: dict[AssignableTensorOp, DeviceBufferStorage] = {}
        self._of_other_shapes: dict[tuple[AssignableTensorOp, tuple[int, ...]], DeviceBufferStorage] = {}
        self.closed = False
        self._begun = False
        self.lock = threading.RLock()  # held while programs are made

    def computation(self, results: Any, *parameters: Any) -> DeviceComputation:
        """A callable from values of `parameters` to values of `results`; compiled at its first call."""
        return self.add_computation(computation(results, *parameters))

    def stepped(self, results: Any, *parameters: Any) -> Stepper:
        """Runs a computation op by op: one that was made (`stepped(computation)`), or one of results and parameters.

        See `Stepper`: values of any op, breakpoints, and where the first NaN comes from.
        """
        if isinstance(results, DeviceComputation):
            return Stepper(results)
        made = results if isinstance(results, Computation) else computation(results, *parameters)
        return Stepper(self.add_computation(made))

    @classmethod
    def base_set(cls) -> frozenset[str]:
        """The semi-primitive ops of this kind of device, by name (`ng.add`): standard transformations write every other
        op in terms of these, and leave these as they are."""
        if not cls.table:
            return frozenset(ng.OPS)
        entries = load_target(cls.table).ops.items()
        return frozenset(name for name, found in entries if any(entry.how != "refused" for entry in found))

    def add_computation(self, op: Computation) -> DeviceComputation:
        """The callable of a computation op; the same one for the same op."""
        self.check_open()
        if op not in self.computations:
            self.computations[op] = DeviceComputation(self, op)
        return self.computations[op]

    def initialize(self) -> None:
        """Compiles all computations made so far and gives their state its initial values. Calls do it by themselves."""
        self.check_open()
        for made in self.computations.values():
            made.transform()

    def begin(self) -> None:
        """At the first call of any computation: gives all state that computations use by now its initial values.

        In the order in which it was made, so that what initial values draw from is the same whatever is called first.
        State whose lengths are not set waits for the values that say them.
        """
        with self.lock:
            if self._begun:
                return
            self._begun = True
            for op in kept(self.computations):
                if op.initial_value is not None and None not in op.axes.lengths:
                    self.storage_of(op).allocate()

    def allocate(self) -> None:
        """Gives the state known so far its memory and initial values."""
        for storage in self.device_buffers.values():
            storage.allocate()

    allocate_storage = allocate

    def close(self) -> None:
        """Frees all state; the transformer cannot be used after it."""
        for storage in (*self.device_buffers.values(), *self._of_other_shapes.values()):
            storage.release()
        self.computations.clear()
        self.closed = True

    def check_open(self) -> None:
        if self.closed:
            fail(UserError, "the transformer is closed", "make another one")

    def __enter__(self) -> Transformer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- state

    def state(self) -> State:
        """What all computations made so far keep from call to call, by name; see `DeviceComputation.state`."""
        self.check_open()
        return saved(named(kept(self.computations)), self.storage_of)

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Puts back what `state()` gave; see `DeviceComputation.load_state`."""
        self.check_open()
        load(state, named(kept(self.computations)), self.storage_of, strict)

    def storage_of(self, op: AssignableTensorOp) -> DeviceBufferStorage:
        """The contents that this transformer has for a storage; for what is only fed, one for each shape."""
        found = self.device_buffers.get(op)
        if found is None:
            found = self.device_buffers[op] = DeviceBufferStorage(op)
        if op.is_persistent or found.shape in (None, shape := op.axes.shape) or DYNAMIC in shape:
            return found
        return self._of_other_shapes.setdefault((op, shape), DeviceBufferStorage(op))

    def get_op_tensor_view(self, op: Tensor) -> DeviceTensor:
        """A storage, or a view of one, to look at and to set (`view[...] = value`)."""
        self.check_open()
        found = getattr(op, "forwarded", None)
        if not isinstance(found, Tensor):
            fail(
                NotAssignable, f"{op!r} is no tensor: it has no contents", "give a variable or a view of one"
            )
        storage = found.storage_now
        if not isinstance(storage, AssignableTensorOp):
            fail(
                NotAssignable,
                f"{found.called} is computed: it has no contents between runs",
                "return it from a computation, or look at it in transformer.stepped(computation)",
            )
        return DeviceTensor(self.storage_of(storage), found)

    def get_tensor_view_value(
        self, op: Tensor, host_tensor: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """A copy of the contents of a storage or of a view of one."""
        return self.get_op_tensor_view(op).get(host_tensor)

    def host_to_device(self, computation: Any, parameters: Any, args: Any) -> None:
        """Puts values into the storage of parameters of a computation; calls feed by themselves.

        Raises UserError for another number of values than parameters, NotAssignable for what is no storage.
        """
        given, values = listed(parameters, "parameters"), listed(args, "values")
        if len(given) != len(values):
            fail(UserError, f"{len(given)} parameters, but {len(values)} values")
        for parameter, value in zip(given, values, strict=True):
            self.get_op_tensor_view(parameter)[...] = value

    def device_to_host(
        self, computation: Any, op: Tensor, tensor: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """A copy of the contents of a storage, or of a view of one, that a computation uses; in `tensor`, if one is given."""
        return self.get_tensor_view_value(op, tensor)

    def get_default_tolerance(self, desired: Any) -> tuple[float, float]:
        """(relative, absolute) tolerance that results of this transformer keep."""
        return self.default_rtol, self.default_atol


class NumPyTransformer(Transformer):
    """Runs ops one by one in NumPy: the reference."""

    transformer_name = "numpy"


class CPUTransformer(Transformer):
    """Compiles for this machine's CPU."""

    transformer_name = "cpu"
    table = "cpu"


class CUDATransformer(Transformer):
    """Compiles for an NVIDIA GPU."""

    transformer_name = "cuda"
    table = "nvptx"


class CUDASimTransformer(Transformer):
    """Compiles for an NVIDIA GPU and runs the result on a simulator of one."""

    transformer_name = "cuda-sim"
    table = "nvptx"
