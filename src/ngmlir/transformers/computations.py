# SPDX-License-Identifier: Apache-2.0
"""A computation of a transformer: a callable from values to values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, NoReturn, Protocol

from ..ir.core import Module
from ..op_graph.computation import Computation
from ..op_graph.errors import MissingValue, UserError, fail
from ..op_graph.kept import kept, named
from ..op_graph.lift import Lifted
from ..op_graph.node import Op
from ..op_graph.ordered import OrderedSet
from ..op_graph.ragged import Feeding, levels_of
from ..op_graph.tensor import Tensor
from ..ops.lengths import Changes
from ..runtime.threads import using_threads
from ..runtime.timing import Profile, listening
from ..support.lengths import NeedsLength
from ..support.spelling import counted
from .backends import BACKENDS
from .checkpoints import State, load, saved
from .futures import Future
from .host_steps import Backend, Run
from .programs import PROGRAMS_KEPT, Lengths, OtherLengths, Program
from .programs import Owner as ProgramOwner
from .specialise import Key, Make, Specialised
from .statistics import OutputStatistics

if TYPE_CHECKING:
    from ..runtime.open_cpu import OpenCpu
    from .report import Report


class Owner(ProgramOwner, Protocol):
    """What computations need of their transformer."""

    closed: bool
    statistics: OutputStatistics | None
    lock: threading.RLock
    threads: int | None
    target: str

    def transformed_module(self, module: Module) -> Module: ...

    def check_open(self) -> None: ...
    def begin(self) -> None: ...
    def run_passes_on(self, op: Computation) -> None: ...
    def compile(self, programs: Sequence[Program]) -> None: ...


class DeviceComputation:
    """A computation of a transformer: call it with values of its parameters, or with `feed_dict={op: value}`.

    Lengths of axes are read at the call: those that are set; and from the values, those of the batch axis N and of axes
    whose length is not set. If the rows along such an axis are independent, one program serves all its lengths;
    otherwise one program is made for each length, and cached.
    """

    def __init__(self, transformer: Owner, op: Computation, memory_limit: int = 0):
        self.transformer = transformer
        self._memory_limit = memory_limit
        self.computation_op = op
        self._taken = op.taken
        self._feeding = (
            Feeding(op.parameters, op.taken) if levels_of(a for p in op.parameters for a in p.axes) else None
        )
        self.programs: Specialised[Program] = Specialised(transformer.target, PROGRAMS_KEPT)
        self._program: Program | None = None  # the last one used
        self._seen = -1  # `Changes.serial` when it was chosen
        self._lengths: Lengths | None = None

    @property
    def profile(self) -> Profile | None:
        """The profile of its programs if the transformer profiles; else None."""
        return self.programs.profile

    @property
    def name(self) -> str:
        """The name that it was given; otherwise a generated one."""
        return self.computation_op.name

    @property
    def returns(self) -> tuple[Op, ...]:
        """The ops whose values it returns."""
        return self.computation_op.returns

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The ops that are fed."""
        return self.computation_op.parameters

    @property
    def ops(self) -> OrderedSet[Op]:
        """All ops that the results depend on, with forwarding applied, in order of creation."""
        return OrderedSet(Op.ordered_ops(self.returns))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.name})>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        what = (
            f"{self!r} holds machine code and the state of its transformer, and cannot be copied or pickled"
        )
        fail(
            UserError,
            what,
            "ng.save(path, f) writes it, and ng.load reads it; f.state() is its state as arrays",
        )

    @property
    def lengths(self) -> Lengths:
        """The lengths in which its programs differ."""
        if self._lengths is None:
            self._lengths = Lengths(self.computation_op)
        return self._lengths

    @property
    def executor(self) -> Run | None:
        """The callable of the program that was used last; None before the first."""
        return None if self._program is None else self._program.executor

    @property
    def program(self) -> Program:
        """The program that was used last; made now if there was none."""
        return self._program or self._lifted_for({})

    @property
    def lifted(self) -> Lifted:
        """The `ng` program that was used last; made now if there was none."""
        return self.program.lifted

    @property
    def module(self) -> Module:
        return self.lifted.module

    def report(self) -> Report:
        """Its compilation: `print(computation.report())` for the text of each stage, kernels, launches, memory and
        time; `.html(path)` for a page with pictures. Raises AxisLengthError if a length must come from values."""
        from .report import report  # imports the compiler

        program = self.program
        module = self.transformer.transformed_module(program.lifted.module)
        return report(module, self.transformer.target, program.entry)

    def state(self) -> State:
        """The state that this computation keeps between calls, by name: variables, and the state of optimizers and
        random numbers.

        Names are those given (`name=`, `named`, prefixed by `ng.name_scope`), else the variable names to which the
        program assigned the storage. The arrays are copies. Raises UserError if two storages have the same name.
        """
        self.transformer.check_open()
        return saved(named(kept([self.computation_op])), self.transformer.storage_of)

    def load_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Restores what `state()` returned, bit for bit: here, or in a program that builds the same graph.

        Raises UserError, and changes nothing, if an array has another shape or type than its storage, and (unless
        `strict` is false) for unknown or missing names.
        """
        self.transformer.check_open()
        load(state, named(kept([self.computation_op])), self.transformer.storage_of, strict)

    def transform(self) -> None:
        """Compiles the program, once; if a length must come from values, their first call does."""
        self.transformer.begin()
        program = self.prepare()
        if program is not None:
            self._compile(program)

    def _compile(self, program: Program) -> None:
        with listening(self.profile):
            self.transformer.compile([program])

    def listen(self, profile: Profile) -> None:
        """Discards its programs, so that they are compiled again with a profile."""
        self.programs = Specialised(self.transformer.target, PROGRAMS_KEPT, profile)
        self._program, self._seen = None, -1

    def prepare(self) -> Program | None:
        """The program, with its state allocated, to be compiled; None if it is compiled already, or if a length must
        come from values."""
        self.transformer.run_passes_on(self.computation_op)
        if self.executor is not None or self.lengths.follow_from_values():
            return None
        with self.transformer.lock:
            change = Changes.serial
            program = self._lifted_for({})
            if program.executor is None:
                program.allocate()
            self._program, self._seen = program, change
            return program if program.executor is None else None

    def allocate(self) -> None:
        """Allocates the state of this computation with its initial values, if the lengths are set."""
        if self._program is None and not self.lengths.follow_from_values():
            self._lifted_for({}).allocate()

    def _lifted_for(self, given: Mapping[int, int]) -> Program:
        self.transformer.run_passes_on(self.computation_op)
        key = self.lengths.key(given)
        found = self.programs.find(key)
        if found is None:
            found = Program(self.computation_op, self.lengths, key, self.transformer, self._memory_limit)
            self.programs.add(key, found)
        return found

    def _choose(self, given: Mapping[int, int]) -> Program:
        """The program for these lengths. Using an existing one does not wait for others that are being made."""
        if self._seen == Changes.serial:
            found = self.programs.ready(self.lengths.key(given))
            if found is not None and found.executor is not None:
                self._program = found
                return found
        with self.transformer.lock:
            change = Changes.serial
            program = self._for_lengths(given) or self._lifted_for(given)
            if program.executor is None:
                program.allocate()
                self._compile_for(program, given)
            self._program, self._seen = program, change
            return program

    def _for_lengths(self, given: Mapping[int, int]) -> Program | None:
        """The program for these lengths if there is one, or one from code for all lengths; else None."""
        key = self.lengths.key(given)
        found = self.programs.find(key)
        if found is not None or self._memory_limit:
            return found  # a limit needs known lengths
        at = self.lengths.opened(given)
        made: list[Program] = []

        def make(opened: Mapping[str, int]) -> Module:
            wanted = tuple([opened[at[i]] if i in at else length for i, length in enumerate(key)])
            made.append(Program(self.computation_op, self.lengths, wanted, self.transformer))
            if len(made[-1].lifted.module.ops) > 1:
                raise NeedsLength("what is computed by Python functions")
            return self.transformer.transformed_module(made[-1].lifted.module)

        def program(wanted: Key, lengths: Mapping[str, int], code: OpenCpu) -> Program:
            return made[0].at(wanted, code.at(lengths))

        with self.programs.making(), using_threads(self.transformer.threads):
            is_ragged = self._feeding is not None
            return self.programs.for_lengths(key, at, [Make(make)], program, of_sequences=is_ragged)

    def _compile_for(self, program: Program, given: Mapping[int, int]) -> None:
        """Compiles a program for these lengths alone."""
        if 0 in given.values() and self.programs.device.runs_on_host and not program.lifted.tied:
            # Empty input is not worth a compilation: NumPy runs it.
            module = self.transformer.transformed_module(program.lifted.module)
            program.bind(BACKENDS["numpy"](module), program.entry)
            return
        self._compile(program)
        self.programs.count(self._compiled_for)

    def _compiled_for(self, made: int) -> str:
        """The text of a warning: for which lengths this many programs were compiled."""
        keys = self.programs.keys()
        names = [a.name for i, a in enumerate(self.lengths.roots) if len({key[i] for key in keys}) > 1]
        where = self.computation_op.location
        return (
            f"the computation of {where} was compiled for {made} lengths of {', '.join(dict.fromkeys(names))}"
        )

    def __call__(self, *values: Any, feed_dict: Mapping[Op, Any] | None = None, **unknown: Never) -> Any:
        """Runs once; returns new arrays, in the structure of the results that were requested.

        A value is a number, an array or nested lists, broadcast to its parameter's axes and converted to its type.
        Raises UserError for one that does not fit, MissingValue for one that `feed_dict` does not have, and
        UninitializedVariable if a variable is read to which nothing has been assigned.
        """
        if self.transformer.closed:
            self.transformer.check_open()
        if unknown:
            fail(
                UserError,
                f"a computation takes no keyword arguments, such as {next(iter(unknown))}",
                "pass arguments by position, or as feed_dict={parameter: value}",
            )
        if feed_dict is not None or len(values) != self._taken:
            values = self._by_position(values, feed_dict)
        if self._feeding is not None:
            values = self._feeding.flat(values)
        program = self._program
        if program is None or program.executor is None or self._seen != Changes.serial:
            program = self._current(values)
        try:
            results = program(values)
        except OtherLengths:
            results = self._choose(self.lengths.given(values))(values)
        if self.transformer.statistics is not None:
            self.transformer.statistics.note(self.name, self.returns, results)
        return results

    def _current(self, values: Sequence[Any]) -> Program:
        """The program that was used last, if nothing has changed since; else the one for the values."""
        program = self._program
        if program is None:
            self.transformer.begin()
        if program is None or program.executor is None or self._seen != Changes.serial:
            program = self._choose(self.lengths.given(values))
        return program

    def call_async(
        self, *values: Any, feed_dict: Mapping[Op, Any] | None = None, stream: Any = None
    ) -> Future:
        """Like a call, but on a GPU it returns before the results are computed: `.result()` of the returned future
        waits for them, `.done()` says whether they are complete. On other devices they are computed when it returns.

        The given arrays may be changed as soon as it returns. With a CUDA `stream` (its handle, or an object of torch,
        CuPy or another library), the work comes after the work submitted to that stream before, and before work
        submitted to it afterwards. Raises what a call raises; errors of kernels are raised by `.result()`.
        """
        return self._apart(Program.start, values, feed_dict, stream)

    def on_device(self, *values: Any, feed_dict: Mapping[Op, Any] | None = None, stream: Any = None) -> Any:
        """Like a call, with results that stay on the device: on a GPU, `DeviceArray`s (with DLPack and
        `__cuda_array_interface__`, for other libraries and for further calls), returned before they are computed.
        `stream` as for `call_async`."""
        return self._apart(Program.on_device, values, feed_dict, stream)

    def _apart(
        self,
        run: Callable[[Program, Sequence[Any], Any], Any],
        values: tuple[Any, ...],
        feed_dict: Mapping[Op, Any] | None,
        stream: Any,
    ) -> Any:
        self.transformer.check_open()
        values = self._by_position(values, feed_dict)
        if self._feeding is not None:
            values = self._feeding.flat(values)
        try:
            return run(self._current(values), values, stream)
        except OtherLengths:
            return run(self._choose(self.lengths.given(values)), values, stream)

    def prepared(
        self, values: tuple[Any, ...], feed_dict: Mapping[Op, Any] | None, backend: Backend
    ) -> tuple[Program, tuple[Any, ...]]:
        """A separate program for these values, compiled by another backend; and the values by position."""
        self.transformer.check_open()
        values = self._by_position(values, feed_dict)
        if self._feeding is not None:
            values = self._feeding.flat(values)
        self.transformer.begin()
        self.transformer.run_passes_on(self.computation_op)
        given = self.lengths.given(values)
        with self.transformer.lock:
            key = self.lengths.key(given)
            program = Program(self.computation_op, self.lengths, key, self.transformer)
            program.allocate()
            program.bind(backend(program.lifted.module), program.entry)
        return program, values

    def _by_position(self, values: tuple[Any, ...], feed_dict: Mapping[Op, Any] | None) -> tuple[Any, ...]:
        """The values in the order of the parameters; UserError for missing or extra ones."""
        parameters = self.computation_op.parameters[: self._taken]
        if feed_dict is not None:
            if values:
                fail(UserError, "values are passed both by position and in feed_dict", "use one of them")
            if isinstance(feed_dict, dict) and all([p in feed_dict for p in parameters]):
                values = tuple([feed_dict[p] for p in parameters])
            else:
                given = self._by_parameter(feed_dict)
                values = tuple([self._value(given, p) for p in parameters])
        if len(values) != len(parameters):
            names = ", ".join(p.called for p in parameters)
            fail(
                UserError,
                f"the computation takes {counted(len(parameters), 'value')} ({names}), but {len(values)} {'was' if len(values) == 1 else 'were'} given",
                f"its parameters were named at {self.computation_op.location}",
            )
        return values

    @staticmethod
    def _by_parameter(feed_dict: Mapping[Op, Any]) -> Mapping[Op, Any]:
        """The values by parameter, with forwarding applied."""
        if not isinstance(feed_dict, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(
                UserError,
                f"feed_dict is {feed_dict!r}",
                "feed_dict must be a dictionary from parameters to values",
            )
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
