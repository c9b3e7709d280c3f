# SPDX-License-Identifier: Apache-2.0
"""A transformer runs computations, and holds the state that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Never

import numpy as np

from ..ir.core import Module, count_uses
from ..ir.literals import dtype_of
from ..op_graph.computation import Computation, computation
from ..op_graph.errors import MissingValue, NotAssignable, UserError, fail
from ..op_graph.lift import Lifted, lift
from ..op_graph.node import Op
from ..op_graph.state import AssignableTensorOp
from ..op_graph.tensor import Tensor
from .backends import BACKENDS, Run
from .storage import DeviceBufferStorage, DeviceTensor, UninitializedVariable, fit


class DeviceComputation:
    """A computation of a transformer: call it with values of its parameters, or with `feed_dict={op: value}`."""

    def __init__(self, transformer: Transformer, op: Computation):
        self.transformer = transformer
        self.computation_op = op
        self.executor: Run | None = None
        self._lifted: Lifted | None = None
        self._fed: list[tuple[AssignableTensorOp, tuple[int, ...], Any]] = []  # parameters that are no state
        self._stored: dict[int, DeviceBufferStorage] = {}  # those that are, by position
        self._free: list[int | None] = []
        self._in_order = False  # whether the results are what is to be returned
        self._unset: list[DeviceBufferStorage] = []  # read, and not known to have a value
        self._writes: list[DeviceBufferStorage] = []

    @property
    def lifted(self) -> Lifted:
        """The `ng` program, made at the first call (or when it is looked at)."""
        if self._lifted is None:
            self._lifted = lift(self.computation_op)
        return self._lifted

    @property
    def module(self) -> Module:
        return self.lifted.module

    def transform(self) -> None:
        """Makes the program and what runs it, once."""
        if self.executor is not None:
            return
        lifted = self.lifted
        parameters = self.computation_op.parameters
        overwritten = {argument for _, argument in lifted.tied}
        state: dict[int, DeviceBufferStorage] = {}
        for i, op in enumerate(lifted.arguments):
            if op not in parameters or op.is_persistent or op.initial_value is not None or i in overwritten:
                state[i] = self.transformer.storage_of(op)
        block = self.module.ops[0].block
        used = count_uses(block)
        for i, op in enumerate(lifted.arguments):
            if i in state and op not in parameters and used.get(block.args[i]):
                self._unset.append(state[i])
        for i, op in enumerate(lifted.arguments[: len(parameters)]):
            if i in state:
                self._stored[i] = state[i]
            else:
                self._fed.append((op, op.axes.known_shape, dtype_of(op.element)))
        # Results that are new contents of state do not come back.
        results = [i for i in range(len(block.ops[-1].operands)) if i not in dict(lifted.tied)]
        self._free = [None if place is None else results.index(place) for place in lifted.outputs]
        self._in_order = self._free == list(range(len(results)))
        for storage in state.values():
            storage.allocate()
        backend = BACKENDS[self.transformer.transformer_name]
        self.executor = backend(self.module, state, lifted.tied, self._prepare)
        self._writes = [state[i] for i in sorted(overwritten)]

    def __call__(self, *values: Any, feed_dict: Mapping[Op, Any] | None = None, **unknown: Never) -> Any:
        """Runs once: new arrays, in the structure that was asked for.

        A value is a number, an array or nested lists, broadcast to its parameter's axes and converted to its type.
        Raises UserError for one that does not fit, MissingValue for one that `feed_dict` lacks, and
        UninitializedVariable where a variable is read that nothing has been assigned to.
        """
        self.transformer.check_open()
        if unknown:
            fail(
                UserError,
                f"a computation takes no values by name, such as {next(iter(unknown))}",
                "give them by position, or feed_dict={parameter: value}",
            )
        parameters = self.computation_op.parameters
        if feed_dict is not None:
            if values:
                fail(UserError, "values are given by position and in feed_dict", "use one of them")
            values = tuple(self._value(feed_dict, p) for p in parameters)
        if len(values) != len(parameters):
            names = ", ".join(p.name for p in parameters)
            fail(
                UserError,
                f"the computation takes {len(parameters)} values ({names}), but {len(values)} were given",
                f"its parameters were named at {self.computation_op.location}",
            )
        if self.executor is None:
            self.transform()
        return self._run(values)

    @staticmethod
    def _value(feed_dict: Mapping[Op, Any], parameter: Tensor) -> Any:
        if not isinstance(feed_dict, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"feed_dict is {feed_dict!r}", "it is a dictionary from parameters to values")
        if parameter not in feed_dict:
            fail(
                MissingValue,
                f"feed_dict has no value for {parameter.name}",
                f"the parameter was made at {parameter.location}",
            )
        return feed_dict[parameter]

    def _prepare(self, values: Sequence[Any]) -> Sequence[Any]:
        """Arrays of the values that are no state."""
        return [fit(value, *fed) for value, fed in zip(values, self._fed, strict=True)]

    def _run(self, values: Sequence[Any]) -> Any:
        for storage in self._unset:
            if not storage.initialized:
                fail(
                    UninitializedVariable,
                    f"{storage.op.name} is read before it has a value",
                    f"give it an initial_value where it is made ({storage.op.location}), feed it, or assign to it first",
                )
        self._unset = []  # what has a value keeps one
        if self._stored:
            # What does not fit is refused before anything changes.
            rest = self._prepare([value for i, value in enumerate(values) if i not in self._stored])
            for i, storage in self._stored.items():
                storage.set(values[i])
            values = rest
        assert self.executor is not None
        results = self.executor(*values)
        for storage in self._writes:
            storage.initialized = True
        pack = self.computation_op.pack
        return pack(results if self._in_order else [None if i is None else results[i] for i in self._free])


class Transformer:
    """Runs computations on one kind of device. State is its own: each transformer starts from initial values."""

    transformer_name = ""
    #: Name -> class, of all kinds.
    transformers: ClassVar[dict[str, type[Transformer]]] = {}
    default_rtol = 1e-5
    default_atol = 1e-8

    def __init_subclass__(cls) -> None:
        Transformer.transformers[cls.transformer_name] = cls

    def __init__(self) -> None:
        self.computations: dict[Computation, DeviceComputation] = {}
        self.device_buffers: dict[AssignableTensorOp, DeviceBufferStorage] = {}
        self.closed = False

    def computation(self, results: Any, *parameters: Any) -> DeviceComputation:
        """A callable from values of `parameters` to values of `results`; compiled at its first call."""
        return self.add_computation(computation(results, *parameters))

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

    def allocate(self) -> None:
        """Gives the state known so far its memory and initial values."""
        for storage in self.device_buffers.values():
            storage.allocate()

    allocate_storage = allocate

    def close(self) -> None:
        """Frees all state; the transformer cannot be used after it."""
        for storage in self.device_buffers.values():
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

    def storage_of(self, op: AssignableTensorOp) -> DeviceBufferStorage:
        """The contents that this transformer has for a storage."""
        if op not in self.device_buffers:
            self.device_buffers[op] = DeviceBufferStorage(op)
        return self.device_buffers[op]

    def get_op_tensor_view(self, op: Tensor) -> DeviceTensor:
        """A storage, or a view of one, to look at and to set (`view[...] = value`)."""
        self.check_open()
        found = getattr(op, "forwarded", None)
        if not isinstance(found, Tensor):
            fail(
                NotAssignable, f"{op!r} is no tensor: it has no contents", "give a variable or a view of one"
            )
        if not isinstance(found.storage, AssignableTensorOp):
            fail(
                NotAssignable,
                f"{found.name} is computed: it has no contents between runs",
                "return it from a computation",
            )
        return DeviceTensor(self.storage_of(found.storage), found)

    def get_tensor_view_value(
        self, op: Tensor, host_tensor: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """A copy of the contents of a storage or of a view of one."""
        return self.get_op_tensor_view(op).get(host_tensor)

    def get_default_tolerance(self, desired: Any) -> tuple[float, float]:
        """(relative, absolute) tolerance that results of this transformer keep."""
        return self.default_rtol, self.default_atol


class NumPyTransformer(Transformer):
    """Runs ops one by one in NumPy: the reference."""

    transformer_name = "numpy"


class CPUTransformer(Transformer):
    """Compiles for this machine's CPU."""

    transformer_name = "cpu"


class CUDATransformer(Transformer):
    """Compiles for an NVIDIA GPU."""

    transformer_name = "cuda"


class CUDASimTransformer(Transformer):
    """Compiles for an NVIDIA GPU and runs the result on a simulator of one."""

    transformer_name = "cuda-sim"
