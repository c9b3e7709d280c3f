# SPDX-License-Identifier: Apache-2.0
"""A model that was read, and what it becomes when it is compiled: a program for each shape that it is called with.

What a model holds (`contents`) is looked at only where it has to be: of what was compiled before, programs are on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import accumulate
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...ir.core import Module
from ...ir.literals import dtype_of
from ...runtime.threads import checked_threads
from ...runtime.timing import Profile
from ...support.diagnostics import UserError
from ...support.lengths import SEVERAL, NeedsLength, is_open
from ...transformers.fitted import Fitted
from ...transformers.fitting import fitted, multiples, reaching
from ...transformers.kept import KeptPrograms
from ...transformers.outputs import Outputs
from ...transformers.specialise import Key, Make, Specialised
from .calls import Decides, Program, Quick, Unready, Waits, in_order, quick_of, unready
from .files import Files
from .open_lengths import both, changing, limits, open_places
from .opened import Opened, Stated, opened, reader_version
from .places import at_the_users_line
from .ports import Array, Given, content, given_of, leaves_of, without_elements

if TYPE_CHECKING:
    from ...runtime.cpu import Code, CpuExecutable
    from ...runtime.open_cpu import OpenCpu
    from ...support.mapping import Mapping as MappedFile
    from ...transformers.report import Report
    from .contents import Contents, Part
    from .cut import Cut
    from .parts import Compiled, Parts

#: Operations in products from which on a program is compiled for one call.
_HEAVY = 1 << 30
#: Programs of one model that are kept.
_KEPT = 64


class Model:
    """A model: `ng.compile(model, target="cpu")` makes a function of arrays."""

    def __init__(self, source: Any, threads: int | None = None, exact: bool = False):
        self.exact = exact
        self.threads = None if threads is None else checked_threads(threads)
        with at_the_users_line():
            self._open(source)

    def _open(self, source: Any) -> None:
        found = opened(source)
        if isinstance(found, Opened):
            self._opened, self.files = found, found.files
            stated = found.stated()
        else:
            from .parsing import contents_of

            self._opened, self.files, stated = None, Files(), None
            self.contents = contents_of(found, None, "the model", {}, self.files)
            self.contents.exact = self.exact
        if stated is None:
            contents = self.contents
            stated = Stated(contents.inputs, contents.output_names, [])
            if self._opened is not None and (beside := contents.beside()) is not None:
                self._opened.note(stated._replace(beside=beside))
        self.inputs, self.output_names, _ = stated

    @cached_property
    def contents(self) -> Contents:
        """Nodes and weights, read when they are first needed: that brings the package onnx with it."""
        from .parsing import parsed

        assert self._opened is not None
        found = parsed(self._opened)
        found.exact = self.exact
        return found

    @property
    def input_names(self) -> list[str]:
        return [port.name for port in self.inputs]

    @property
    def deciding(self) -> set[tuple[int, int]]:
        """Leaves of the inputs whose elements decide shapes, by what has been found so far."""
        return self.contents.deciding if "contents" in self.__dict__ else set()

    @property
    def initializers(self) -> list[str]:
        """The names of its weights."""
        return list(self.contents.initializers)

    def array(self, name: str) -> Array:
        """An initializer, read once."""
        return self.contents.array(name)

    def module(self, values: Sequence[Given]) -> Module:
        """One function of tensors for inputs of these shapes, whose results are the outputs in order, with their names.

        Limit where there is none: where elements of an input decide shapes, or an output is no tensor.
        """
        with at_the_users_line():
            return self.contents.module(values)

    def kept(self) -> KeptPrograms | None:
        """Its programs on disk; None where no bytes tell it from others."""
        what = ("onnx", reader_version(), *["exact"] * self.exact)
        return None if self._opened is None else KeptPrograms(self._opened.pieces, *what)

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledModel:
        """A function of arrays; a profile may record its programs, which use so many threads, or as many as `load` was told."""
        return CompiledModel(self, target, profile, self.threads if threads is None else threads)


class CompiledModel:
    """A model as a function: called with arrays in the order of its inputs, or by their names.

    Threads may call it at once; those whose program is there never wait for one that is being made.
    """

    def __init__(
        self,
        model: Model | Contents,
        target: str,
        profile: Profile | None = None,
        threads: int | None = None,
        *,
        once: bool = False,
    ):
        self.model = model
        self.target = target
        self.profile = profile
        self._programs: Specialised[_Made] = Specialised(target, _KEPT, profile, threads)
        self.threads = self._programs.threads
        #: Whether most programs are for one call, so that one is compiled only when it is asked for again.
        self._once = once
        self._parts: Parts | None = None
        #: The last program, for arrays that fit it.
        self._quick: Quick | None = None
        #: The quick ways of programs for all lengths: lengths of 1 have programs of their own.
        self._quick_for_any: dict[OpenCpu, Quick | None] = {}
        self._names, self._outputs = model.input_names, Outputs.of(model.output_names)
        #: The inputs of the last call, without their elements.
        self._asked: list[Given] | None = None
        #: The lengths for which code for all lengths is known to be right, by the places of those lengths in keys.
        self._seen: dict[tuple[int, ...], dict[str, range]] = {}
        #: The model with some of its initializers as inputs, by their names.
        self._overridden: dict[tuple[str, ...], CompiledModel] = {}
        self._kept = model.kept() if self._programs.device.runs_on_host and not once else None
        shapes = [port.shape for port in model.inputs if port.kind == "tensor"]
        if len(shapes) == len(model.inputs) and all(
            s is not None and all(isinstance(d, int) for d in s) for s in shapes
        ):
            asked: list[Given] = [
                np.zeros([d for d in p.shape or () if isinstance(d, int)], dtype_of(p.element))
                for p in model.inputs
            ]
            self._asked = asked
            with at_the_users_line():
                self._made(asked, early=True)

    def __call__(self, *values: Any, **named: Any) -> Outputs:
        """The outputs in order. By name, initializers that the model lists among its inputs may be given too, in the place of
        their elements. Raises UserError for values that do not fit the inputs."""
        for run, files in self._quick_ways():
            for mapping, size in files:
                if mapping.size() < size:
                    self.model.files.check()
            try:
                return self._outputs(run(*(in_order(self._names, values, named) if named else values)))
            except Unready:
                pass
        with at_the_users_line():
            if any(name not in self.model.input_names for name in named) and (
                other := self._overriding(named)
            ):
                return other(*values, **named)
            given = given_of(self.model.inputs, values, named)
            self.model.files.check()
            return self._outputs(self._results(given))

    def part(self, *given: Given) -> Sequence[Any]:
        """The outputs for what other parts of a model gave: it fits the inputs, and the caller has checked the files."""
        for quick in self._quick_ways():
            try:
                return quick.run(*given)
            except Unready:
                pass
        return self._results(given)

    def _quick_ways(self) -> list[Quick]:
        """Those there are, that of the last program first."""
        return [quick for quick in (self._quick, *self._quick_for_any.values()) if quick is not None]

    def _overriding(self, named: Mapping[str, Any]) -> CompiledModel | None:
        """What takes the initializers among these names as inputs; None where there are none."""
        contents = self.model.contents
        names = tuple(name for name in contents.overridable if name in named)
        if names and names not in self._overridden:
            made = CompiledModel(contents.overriding(names), self.target, self.profile, self.threads)
            self._overridden.setdefault(names, made)
        return self._overridden[names] if names else None

    def report(self, *values: Any, **named: Any) -> Report:
        """The compilation report of the model, as that of `DeviceComputation.report`: for inputs like these; without any for those that
        the model states, or that it was called with last. Raises UserError where there are none, Limit where there is no one
        program: where elements of an input decide shapes."""
        from ...transformers.report import report  # brings the compiler along

        with at_the_users_line():
            given = given_of(self.model.inputs, values, named) if values or named else self._asked
            if given is None:
                raise UserError(
                    "the model leaves lengths of its inputs open", hint="call it first, or report(*arrays)"
                )
            return report(self.model.contents.module(given), self.target)

    def _results(self, given: Sequence[Given]) -> Sequence[Any]:
        if self._parts is None:
            try:
                program, run, quick, settled = self._made(given)
            except Waits as found:
                with self._programs.lock:
                    self._parts = self._parts or self._in_parts(found.cut)
            else:
                leaves = leaves_of(given)
                made = list(run(*[leaves[i][1] for i in program.fed])) if run is not None else []
                if settled and not self.model.deciding:
                    self._quick = quick or quick_of(given, program, run, self.model.files)
                    self._asked = [v if v is None else without_elements(v) for v in given]
                return program.shown(made)
        return self._parts(given)

    def _in_parts(self, cut: Cut) -> Parts:
        from .parts import Parts

        def compiled(part: Part, which: str) -> Compiled:
            # What waits for what a run chose is mostly for one call.
            return CompiledModel(part, self.target, threads=self.threads, once=which == "rest").part

        return Parts(self.model.contents, cut, compiled, self._programs.device.compiles)

    def _made(self, given: Sequence[Given], early: bool = False) -> _Made:
        """The program for such inputs, and what runs it."""
        found = self._programs.find(self._key(given))
        if found is not None and found.settled:
            return found
        with self._programs.making():
            key = self._key(given)
            found = self._programs.find(key)  # another thread may have made it meanwhile
            if found is not None and found.settled:
                return found
            if found is not None:
                return self._programs.add(key, _Made(found.program, *self._runner(found.program, False, key)))
            found = self._on_disk(key) or self._for_lengths(key, given)
            if found is not None:
                return self._programs.add(key, found)
            try:
                program = self.model.contents.attempt(given) if early else None
            except (Decides, Waits):  # zeros say nothing about shapes
                return _Made(Program(None, (), ()), None, None)
            return self._anew(given, program)

    def _anew(self, given: Sequence[Given], program: Program | None) -> _Made:
        contents, early = self.model.contents, program is not None
        self._note_changes(given)
        program = program or contents.program(given)
        key = self._key(given)
        # What is made for these elements or shapes alone is compiled when they come again, or where it is heavy.
        light = self._once and contents.products(program) < _HEAVY
        interpreted = self._once and (bool(self.model.deciding) or light)
        # Of nothing there is nothing to compute: that is not worth a compilation.
        empty = not early and any(0 in array.shape for _, array in leaves_of(given))
        run, quick = self._runner(program, interpreted or empty, key)
        if not self._once:
            self._programs.count(self._compiled_for)
        return self._programs.add(key, _Made(program, run, quick, not interpreted))

    def _note_changes(self, given: Sequence[Given]) -> None:
        """Notes which elements that decide shapes are others than in a call before."""
        deciding = self.model.deciding
        if deciding:
            at, key = len(given), self._key(given)
            for place, a in leaves_of(given):
                at += 2 + a.ndim
                if place in deciding and any(
                    at <= len(k) and k[at - 1] != key[at - 1] for k in self._programs.keys()
                ):
                    self.model.contents.changed(place)

    def _compiled_for(self, made: int) -> str:
        """What so many programs are for."""
        names = [self.model.inputs[i].name for i, _ in self.model.deciding]
        what = f"shapes of the inputs, or elements of {', '.join(names)}" if names else "shapes of the inputs"
        return f"the model was compiled for {made} {what}"

    def _for_lengths(self, key: Key, given: Sequence[Given]) -> _Made | None:
        """The program for such inputs that code for all lengths gives, of which the model leaves some open."""
        from .emitter import FOLDED_SHAPES  # reads models, of which what is on disk needs nothing

        leaves = leaves_of(given)
        if len(leaves) != len(self.model.inputs):
            return None
        begins = [*accumulate((2 + a.ndim for _, a in leaves), initial=len(given))]
        at = open_places(self.model.inputs, leaves, begins, self.model.deciding)
        if any(port.shape is None for port in self.model.inputs):
            at = changing(key, self._programs.keys(), at)
        if refused := self._programs.refuses(key, at):
            at = changing(key, self._programs.keys(), at)
        seen = self._seen.setdefault(tuple([i for i in at if key[i] >= SEVERAL]), {})

        def beyond(key: Key) -> bool:
            """Whether it is unknown if the code is right for these lengths; 0 and 1 are in none."""
            known = {i: seen[name] for i, name in at.items() if name in seen}
            return any(key[i] >= SEVERAL and key[i] not in each for i, each in known.items())

        if beyond(key):
            return None
        told: list[Program] = []  # which inputs the code takes, and what it gives

        def read(lengths: Mapping[str, int]) -> Module:
            sizes = [
                tuple([lengths.get(at.get(begin + 1 + d, ""), size) for d, size in enumerate(a.shape)])
                for begin, (_, a) in zip(begins, leaves, strict=False)
            ]
            try:
                found = self.model.contents.attempt(given, whole=True, folded=FOLDED_SHAPES, shapes=sizes)
            except (Decides, Waits):
                raise NeedsLength("which elements of the inputs decide") from None
            if found.module is None or not found.can_be_kept:
                raise NeedsLength("outputs that are known before the model runs")
            told[:] = [Program(None, found.fed, found.results)]
            return found.module

        made: list[Fitted] = []

        def opened(lengths: Mapping[str, int]) -> Mapping[str, int]:
            return {name: length for name, length in lengths.items() if is_open([length])}

        def directly(lengths: Mapping[str, int]) -> Module:
            """Operators compute their shapes from shapes alone, most of them without NumPy."""
            return read(opened(lengths))

        def from_samples(lengths: Mapping[str, int]) -> Module:
            if not made:
                found, ranges = fitted(read, opened(lengths))
                for name, each in ranges.items():
                    seen[name] = both(each, seen.get(name, each))
                made.append(found)
            return made[0].module(opened(lengths))

        files = cache(self._files_of)  # the same for all lengths

        def reaches(lengths: Mapping[str, int]) -> bool:
            """Whether the code is right for lengths beyond those that it was verified for."""
            wider = reaching(read, made[0], {n: seen[n] for n in lengths}, lengths) if made else None
            seen.update(wider or {})
            return wider is not None

        def program(key: Key, lengths: Mapping[str, int], code: OpenCpu) -> _Made | None:
            if made and beyond(key) and not reaches(lengths):
                return None
            run = code.ready(lengths)
            steps = {name: key[i] // lengths[name] for i, name in at.items() if name in code.names}
            guards = limits(seen if made else {}, self._programs.items(), at, steps, told[0], key)
            quick = self._quick_of(told[0], code.quick(unready, guards), files(code.code))
            self._quick_for_any = {**self._quick_for_any, code: quick}
            return _Made(told[0], run, quick)

        makes = [Make(from_samples)]
        if not self.model.contents.tells_lengths:
            makes = [Make(directly), Make(directly, partial(multiples, read)), *makes]
        made_for_all = self._programs.for_lengths(key, at, makes, program)
        again = made_for_all is None and not refused and self._programs.refuses(key, at)
        return self._for_lengths(key, given) if again else made_for_all

    def _on_disk(self, key: Key) -> _Made | None:
        """The program for such inputs, where it was compiled before."""
        if self.model.deciding or self._kept is None or (found := self._kept.find(repr(key))) is None:
            return None
        made, (fed, results) = found
        program = Program(None, tuple(fed), tuple(results))
        return _Made(program, made.bind({}, tuple), self._quickly(program, made))

    def _runner(
        self, program: Program, interpreted: bool, key: Key
    ) -> tuple[Callable[..., Sequence[Any]] | None, Quick | None]:
        """What runs a program, by NumPy where that is not worth a compilation; and the quick way for arrays that fit it."""
        if program.module is None:
            return None, None
        if self._kept is not None and not interpreted and not self.model.deciding and program.can_be_kept:
            facts = [program.fed, program.results]
            made = self._kept.compiled(program.module, facts, repr(key))
            return made.bind({}, tuple), self._quickly(program, made)
        from ...transformers.backends import backend_for  # brings the interpreter along

        bind = backend_for("numpy" if interpreted else self.target)(program.module)
        run = bind("main", {}, (), tuple)
        if not isinstance(run, BuiltinFunctionType):
            return run, None
        return run, self._quick_of(program, bind("main", {}, (), unready), self.model.files.mapped)

    def _quickly(self, program: Program, made: CpuExecutable) -> Quick | None:
        return self._quick_of(program, made.bind({}, unready), self._files_of(made.program.code))

    def _files_of(self, code: Code) -> tuple[tuple[MappedFile, int], ...]:
        """The files that contain constants of a program."""
        return self.model.files.lying(code.constants_in_memory.values())

    def _quick_of(
        self, program: Program, run: Callable[..., Sequence[Any]], files: tuple[tuple[MappedFile, int], ...]
    ) -> Quick | None:
        """A builtin that takes the inputs as they are and gives the outputs; None where a program takes or gives others."""
        inputs, outputs = range(len(self.model.inputs)), range(len(self.model.output_names))
        tensors = all(port.kind == "tensor" for port in self.model.inputs)
        same = tensors and program.fed == tuple(inputs)
        same = same and program.can_be_kept and program.results == tuple(outputs)
        return Quick(run, files) if same and isinstance(run, BuiltinFunctionType) else None

    def _key(self, given: Sequence[Given]) -> Key:
        deciding = self.model.deciding
        key: list[Any] = [-1 if v is None else len(v) if isinstance(v, list) else -2 for v in given]
        for place, a in leaves_of(given):
            key += a.dtype.str, *a.shape, content(a) if place in deciding else b""
        return tuple(key)


class _Made(NamedTuple):
    """A program, what runs it, and the quick way for arrays that fit it, if there is one. One that is not settled is run by
    NumPy, and compiled when it is asked for again."""

    program: Program
    run: Callable[..., Sequence[Any]] | None
    quick: Quick | None
    settled: bool = True
