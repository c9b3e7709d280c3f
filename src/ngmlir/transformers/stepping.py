# SPDX-License-Identifier: Apache-2.0
"""Stepped execution: a computation op by op, on any transformer, with values of any op, breakpoints, and the origin of
NaNs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from ..ir.core import Module
from ..op_graph.calls import takes
from ..op_graph.computation import Computation
from ..op_graph.errors import NotAssignable, UserError, fail
from ..op_graph.node import Op, closure
from ..op_graph.regions import ControlOp, GraphRegion
from ..op_graph.selection import find_op
from ..op_graph.state import AssignOp
from ..op_graph.tensor import Tensor
from ..op_graph.user_ops import CompositeOp
from ..ops.lengths import reading
from ..runtime.executable import Prepare
from ..support.diagnostics import Location
from .host_steps import Backend, Bind, Storage
from .nonfinite import nonfinite_place, summary
from .programs import Program
from .single_steps import OneByOne, Ran, Round, Walk
from .storage import DeviceBufferStorage, DeviceTensor, view_of

Array = np.ndarray[Any, Any]


class Steppable(Protocol):
    """A computation of a transformer."""

    transformer: Any
    computation_op: Computation

    def prepared(
        self, values: tuple[Any, ...], feed_dict: Mapping[Op, Any] | None, backend: Backend
    ) -> tuple[Program, tuple[Any, ...]]:
        """A separate program for these values, compiled by another backend; and the values by position."""
        ...


class Step(NamedTuple):
    """An op that has just run: its value (for a write, the value written) and those of its arguments."""

    number: int
    op: Op
    value: Array | None
    inputs: tuple[tuple[Op, Array], ...]
    within: tuple[Round, ...]

    @property
    def location(self) -> Location:
        """The line of the user's program that made the op."""
        return self.op.location

    @property
    def name(self) -> str:
        return self.op.called

    def __str__(self) -> str:
        rounds = "".join(
            f", in {r.kind}" + (f" round {r.number}" if r.kind != "cond" else "") for r in self.within
        )
        value = "" if self.value is None else f" = {summary(self.value)}"
        return f"step {self.number}: {self.name}{value}{rounds} ({self.location})"


@dataclass(frozen=True)
class NonFinite:
    """The origin of the first NaN or infinity of a computation."""

    op: Op
    value: Array
    place: tuple[int, ...]
    inputs: tuple[tuple[Op, Array], ...]
    within: tuple[Round, ...]
    step: int | None  # None: it was fed, or was in state before

    @property
    def location(self) -> Location:
        """The line of the user's program that made the op."""
        return self.op.location

    @property
    def number(self) -> float:
        """The NaN or infinity itself."""
        return float(self.value[self.place])

    def __str__(self) -> str:
        at = f" at [{', '.join(map(str, self.place))}]" if self.place else ""
        rounds = "".join(f" in {r.kind} round {r.number}" for r in self.within)
        how = "holds" if self.step is None else "gives"
        lines = [f"{self.location}: {self.op.called} {how} {self.number}{at}{rounds}: {summary(self.value)}"]
        for op, value in self.inputs:
            same = value.shape == self.value.shape and bool(self.place)
            here = f", {value[self.place]}{at}" if same else ""
            lines.append(f"  from {op.called} = {summary(value)}{here}")
        return "\n".join(lines)


class _Recorder:
    """A backend that compiles nothing, and records what it would compile."""

    def __call__(self, module: Module) -> Bind:
        self.module = module
        return self._bind

    def _bind(
        self,
        entry: str,
        state: Mapping[int, Storage],
        tied: Sequence[tuple[int, int]],
        prepare: Prepare,
    ) -> Any:
        self.entry, self.tied, self.prepare = entry, tied, prepare
        self.state = cast("Mapping[int, DeviceBufferStorage]", state)
        return self


class _Run:
    """One run in progress."""

    def __init__(self, program: Program, recorder: _Recorder, values: Sequence[Any], compute: OneByOne):
        self.program, self.recorder = program, recorder
        given = iter(recorder.prepare(program.begin(values)))
        main = recorder.module.lookup(recorder.entry)
        assert main is not None
        arguments = program.lifted.arguments
        arrays = [
            recorder.state[i].get() if i in recorder.state else np.array(next(given))
            for i in range(len(arguments))
        ]
        self.walk = Walk(recorder.module, program.lifted.trace, compute)
        self.walk.states.update(zip(arguments, arrays, strict=True))
        self.going: Generator[Ran, None, list[Any]] = self.walk.block(main.block, arrays)
        self.count = 0
        self.results: list[Any] | None = None

    def advance(self) -> Ran | None:
        """Runs to the next op of the graph; None after the last one."""
        with np.errstate(all="ignore"):
            try:
                return next(self.going)
            except StopIteration as end:
                self.results = end.value
                return None

    def commit(self) -> Any:
        """Writes the new contents of state; returns the results of the computation."""
        assert self.results is not None
        overwritten = dict(self.recorder.tied)
        for i, value in enumerate(self.results):
            if i in overwritten:
                self.recorder.state[overwritten[i]].write(np.asarray(value))
        return self.program.finish([np.array(r) for i, r in enumerate(self.results) if i not in overwritten])


class Stepper:
    """Runs a computation op by op: `transformer.stepped(results, *parameters)`.

    `start(values)` begins a run; `step()` runs the next op, `run()` runs to a breakpoint, `finish()` runs the rest. In
    between, `value(op)` is the value of any op that has run, and the present contents of state. Each op is compiled as
    a separate program for the transformer's target, so its value is that in the whole program: with the same bits, or,
    if a kernel sums in another order, within the error that the op states. The steps in bodies of loops and branches
    are included, for each iteration. State changes when the last op has run, all at once; a run that is abandoned
    changes nothing (except that values fed to variables are kept, as in any call).
    """

    def __init__(self, computation: Steppable):
        self.computation = computation
        self.transformer = computation.transformer
        self.result: Any = None
        self._compute = OneByOne(self.transformer.target)
        self._breaks: list[tuple[Op | None, Callable[[Any], Any] | None]] = []
        self._run: _Run | None = None
        self._finished = False

    # ---- running

    def start(self, *values: Any, feed_dict: Mapping[Op, Any] | None = None) -> Stepper:
        """Begins a run with values of the parameters, as a call of the computation does; returns the stepper itself.

        Raises what a call raises for values that do not fit.
        """
        recorder = _Recorder()
        program, given = self.computation.prepared(values, feed_dict, recorder)
        with reading(program.given):
            self._run = _Run(program, recorder, given, self._compute)
        self.result, self._finished = None, False
        return self

    def step(self) -> Step | None:
        """Runs the next op; None when all have run and state has its new contents."""
        found = self._next()
        if found is None and not self._finished:
            self.result, self._finished = self._now().commit(), True
        return found

    def _next(self) -> Step | None:
        run = self._now()
        while not self._finished and (ran := run.advance()) is not None:
            op = ran.traced.op
            if op.is_tensor_op and ran.traced.value is not None and not getattr(op, "is_constant", False):
                value = run.walk.at[op]
            elif isinstance(op, AssignOp):
                value = np.asarray(self._of(op.args[1]))
            else:
                continue
            run.count += 1
            inputs = [(a, v) for a in op.args if a.is_tensor_op and (v := self._known(a)) is not None]
            return Step(run.count, op, value, tuple(inputs), ran.within)
        return None

    def run(self) -> Step | None:
        """Runs to a breakpoint, and returns the step at which it stopped; None when all ops have run."""
        for step in self:
            if any(self._holds(wanted, condition, step) for wanted, condition in self._breaks):
                return step
        return None

    def finish(self) -> Any:
        """Runs the rest, ignoring breakpoints; returns the results of the computation."""
        while self.step() is not None:
            pass
        return self.result

    def __iter__(self) -> Iterator[Step]:
        """The remaining steps, each after it ran."""
        while (step := self.step()) is not None:
            yield step

    def _now(self) -> _Run:
        if self._run is None:
            fail(UserError, "no run has been started", "stepper.start(*values) begins one")
        self.transformer.check_open()
        return self._run

    # ---- breakpoints

    def break_at(self, op: Op | str, when: Callable[[Any], Any] | None = None) -> None:
        """Makes `run` stop after an op (or one of a name), each time, or only where `when(value)` holds."""
        if when is not None:
            takes(when, 1, "the condition")
        self._breaks.append((self.op(op), when))

    def break_when(self, condition: Callable[[Step], Any]) -> None:
        """Makes `run` stop after any op for which `condition(step)` holds."""
        takes(condition, 1, "the condition")
        self._breaks.append((None, condition))

    def clear_breaks(self) -> None:
        """Forgets all breakpoints."""
        self._breaks.clear()

    def _holds(self, wanted: Op | None, condition: Callable[[Any], Any] | None, step: Step) -> bool:
        if wanted is None:
            assert condition is not None
            return bool(np.any(condition(step)))
        if wanted is not step.op:
            return False
        return condition is None or bool(np.any(condition(step.value)))

    # ---- values

    def value(self, op: Op | str) -> Array:
        """A copy of the present value of an op (or one of a name): in a loop that of the last iteration that ran; for
        storage its present contents. UserError for an op that has not run yet, or is not in the computation."""
        return np.array(self._of(self.op(op)))

    __getitem__ = value

    def get_tensor_view_value(self, op: Op | str, host_tensor: Array | None = None) -> Array:
        """A copy of the value of an op that has run; in `host_tensor`, which must have the same shape, if one is given."""
        return self.get_op_tensor_view(op).get(host_tensor)

    def get_op_tensor_view(self, op: Op | str) -> DeviceTensor:
        """The value of any op that has run, as a tensor to read: shape, strides, element type, parts."""
        found = self.op(op)
        value = self._of(found)
        assert isinstance(found, Tensor)
        return DeviceTensor(
            ValueStorage(found, value, self._now().program.given, self.transformer), found, whole=True
        )

    def op(self, op: Op | str) -> Op:
        """The op of the computation with this name; for an op, the op that it is forwarded to."""
        if isinstance(op, str):
            return find_op(self.ops(), op)
        if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"{op!r} is not an op", "give an op, or its name")
        return op.forwarded

    def ops(self) -> list[Op]:
        """All ops of the computation, including those in bodies, in order of creation."""
        found = closure([self.computation.computation_op], _and_bodies)
        return sorted(found, key=lambda op: op.serial)

    def _of(self, op: Op) -> Array:
        known = self._known(op)
        if known is not None:
            return known
        op = op.forwarded
        if not op.is_tensor_op:
            fail(UserError, f"{op.called} has no value", "a write's is that of the storage it writes")
        if op not in self.ops():
            fail(
                UserError,
                f"{op.called} is not in this computation",
                "ask for it by name, or return it from the computation too",
            )
        fail(UserError, f"{op.called} has not run yet", "use stepper.break_at(op) and stepper.run()")

    def _known(self, op: Op) -> Array | None:
        """The value of an op, if it has one by now."""
        op, walk = op.forwarded, self._now().walk
        if op in walk.at:
            return walk.at[op]
        if op in walk.states:
            return walk.states[op]
        storage = op.storage_now
        if storage is not None and storage in walk.states:
            with reading(self._now().program.given):
                return view_of(op, walk.states[storage])
        return None

    # ---- the origin of NaNs and infinities

    def first_nonfinite(
        self,
        *values: Any,
        feed_dict: Mapping[Op, Any] | None = None,
        nan: bool = True,
        infinity: bool = True,
    ) -> NonFinite | None:
        """The origin of the first NaN (or infinity) in a run with these values: the first op that returns one and none
        of whose arguments has one, or a value that was fed or is in state already; None if all numbers are finite.
        State does not change."""
        self.start(*values, feed_dict=feed_dict)
        try:
            return self._first_nonfinite(nan, infinity)
        finally:
            self._finished = True  # the run ends without writing state

    def _first_nonfinite(self, nan: bool, infinity: bool) -> NonFinite | None:
        for op, value in self._now().walk.states.items():
            if op in self.ops() and (index := nonfinite_place(value, nan, infinity)) is not None:
                return NonFinite(op, value, index, (), (), None)
        while (step := self._next()) is not None:
            if step.value is None or isinstance(step.op, (AssignOp, CompositeOp)):
                continue
            had = [v for _, v in step.inputs]
            is_new = all(nonfinite_place(v, True, False) is None for v in had)
            index = nonfinite_place(step.value, True, False) if nan and is_new else None
            if (
                index is None
                and infinity
                and not any(nonfinite_place(v, True, True) is not None for v in had)
            ):
                index = nonfinite_place(step.value, False, True)
            if index is not None:
                return NonFinite(step.op, step.value, index, step.inputs, step.within, step.number)
        return None


class ValueStorage(DeviceBufferStorage):
    """The value of an op, for reading."""

    def __init__(self, op: Tensor, value: Array, lengths: Mapping[int, int], transformer: Any):
        super().__init__(cast(Any, op), transformer)
        self.shape, self.lengths, self.initialized = value.shape, lengths, True
        self._host = value

    def change(self, show: Any, item: Any, value: Any) -> None:
        fail(NotAssignable, f"{self.op.called} is a value of this run and cannot be assigned to")


def _and_bodies(op: Op) -> Iterator[Op]:
    """The ops that an op depends on, and those in its bodies."""
    for needed in (*op.args, *op.members, *op.other_deps):
        yield needed.forwarded
    if isinstance(op, ControlOp):
        for region in op.regions:
            yield from _inside(region)


def _inside(region: GraphRegion) -> Iterator[Op]:
    for op in (*region.parameters, *region.results):
        yield op.forwarded
