# SPDX-License-Identifier: Apache-2.0
"""A model that was read, and what it becomes when it is compiled: a program for each shape that it is called with.

What a model holds (`contents`) is looked at only where it has to be: of what was compiled before, programs are on disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.core import Module
from ...ir.literals import dtype_of
from ...runtime.threads import checked_threads, using_threads
from ...runtime.timing import Profile, listening
from ...support.diagnostics import UserError
from ...support.rows import Length
from ...support.spelling import did_you_mean
from ...transformers.kept import KeptPrograms
from ...transformers.sizes import Families, warn_of_many
from .calls import Decides, Last, Outputs, Program, Waits
from .files import Files
from .opened import Opened, Stated, opened, reader_version
from .ports import Array, Given, given_of, leaves_of

if TYPE_CHECKING:
    from ...transformers.host_steps import Backend
    from .contents import Contents, Part
    from .cut import Cut
    from .parts import Parts

#: Operations in products from which on a program is compiled for one call.
_HEAVY = 1 << 30
#: Programs of one model that are kept.
_KEPT = 64


class Model:
    """A model: `ng.compile(model, target="cpu")` makes a function of arrays."""

    def __init__(self, source: Any):
        found = opened(source)
        if isinstance(found, Opened):
            self._opened, self.files = found, found.files
            stated = found.stated()
        else:
            from .parsing import contents_of

            self._opened, self.files, stated = None, Files(), None
            self.contents = contents_of(found, None, "the model", {}, self.files)
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
        return parsed(self._opened)

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
        return self.contents.module(values)

    def kept(self) -> KeptPrograms | None:
        """Its programs on disk; None where no bytes tell it from others."""
        return None if self._opened is None else KeptPrograms(self._opened.pieces, "onnx", reader_version())

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledModel:
        """A function of arrays; a profile listens to its programs."""
        return CompiledModel(self, target, profile, threads)


class CompiledModel:
    """A model as a function: called with arrays in the order of its inputs, or by their names."""

    def __init__(
        self,
        model: Model | Contents,
        target: str,
        profile: Profile | None = None,
        threads: int | None = None,
        *,
        once: bool = False,
    ):
        if target != "cpu":
            _backend(target)
        self.model = model
        self.target = target
        self.profile = profile
        self.threads = None if threads is None else checked_threads(threads)
        self._programs: OrderedDict[Any, tuple[Program, Callable[..., Sequence[Any]] | None]] = OrderedDict()
        self._programs_made = 0
        self._warned = False
        self._lock = Lock()
        #: Whether most programs are for one call, so that one is compiled only when it is asked for again.
        self._once = once
        self._unsettled: set[Any] = set()
        self._parts: Parts | None = None
        self._last: Last | None = None
        self._families = Families(target, _KEPT)
        self._kept = model.kept() if target == "cpu" and not once else None
        shapes = [port.shape for port in model.inputs if port.kind == "tensor"]
        if len(shapes) == len(model.inputs) and all(
            s is not None and all(isinstance(d, int) for d in s) for s in shapes
        ):
            self._made(
                [
                    np.zeros([d for d in p.shape or () if isinstance(d, int)], dtype_of(p.element))
                    for p in model.inputs
                ],
                early=True,
            )

    def __call__(self, *values: Any, **named: Any) -> Outputs:
        """The outputs in order. Raises UserError for values that do not fit the inputs."""
        last = self._last
        if last is not None and not named and last.takes(values):
            self.model.files.check()
            return Outputs(self.model.output_names, last.results(values))
        given = given_of(self.model.inputs, values, named)
        self.model.files.check()
        return Outputs(self.model.output_names, self._results(given))

    def _results(self, given: Sequence[Given]) -> Sequence[Any]:
        if self._parts is None:
            try:
                program, run = self._made(given)
            except Waits as found:
                self._parts = self._in_parts(found.cut)
            else:
                leaves = leaves_of(given)
                made = list(run(*[leaves[i][1] for i in program.fed])) if run is not None else []
                if run is not None and not self.model.deciding and not self._once:
                    self._last = Last.of(given, program, run)
                return program.shown(made)
        return self._parts(given)

    def _in_parts(self, cut: Cut) -> Parts:
        from .parts import Parts

        def compiled(part: Part, which: str) -> CompiledModel:
            # What waits for what a run chose is mostly for one call; a node by itself is run in NumPy.
            target = "numpy" if which == "node" else self.target
            return CompiledModel(part, target, threads=self.threads, once=which in ("node", "rest"))

        return Parts(self.model.contents, cut, compiled)

    def _made(
        self, given: Sequence[Given], early: bool = False
    ) -> tuple[Program, Callable[..., Sequence[Any]] | None]:
        """The program for such inputs, and what runs it."""
        with self._lock:
            key = self._key(given)
            found = self._programs.get(key)
            if found is None and (found := self._found(key)) is not None:
                self._programs[key] = found
            if found is None:
                contents = self.model.contents
                if early:
                    try:
                        program = contents.attempt(given)
                    except (Decides, Waits):  # zeros say nothing about shapes
                        return Program(None, (), ()), None
                else:
                    program = contents.program(given)
                    key = self._key(given)
                # What is made for these elements or shapes alone is compiled when they come again, or where it is heavy.
                light = self._once and contents.products(program) < _HEAVY
                interpreted = self._once and (bool(self.model.deciding) or light)
                run = self._for_any(program, given)
                if run is None:
                    # Of nothing there is nothing to compute: that is not worth a compilation.
                    empty = not early and any(0 in array.shape for _, array in leaves_of(given))
                    run = self._runner(program, interpreted or empty, key)
                    self._programs_made += 1
                found = self._programs[key] = (program, run)
                if interpreted:
                    self._unsettled.add(key)
                while len(self._programs) > _KEPT:
                    self._unsettled.discard(self._programs.popitem(last=False)[0])
                if self._programs_made == _KEPT + 1 and not self._once and not self._warned:
                    self._warn()
            elif key in self._unsettled:
                self._unsettled.discard(key)
                found = self._programs[key] = (found[0], self._runner(found[0], False, key))
            self._programs.move_to_end(key)
            return found

    def _warn(self) -> None:
        """Once, where programs are made and thrown away again."""
        self._warned = True
        names = [self.model.inputs[i].name for i, _ in self.model.deciding]
        what = f"shapes of the inputs, or elements of {', '.join(names)}" if names else "shapes of the inputs"
        made = f"the model was compiled for {self._programs_made} {what}"
        warn_of_many(made, _KEPT, self._families.reasons())

    def _for_any(self, program: Program, given: Sequence[Given]) -> Callable[..., Sequence[Any]] | None:
        """What runs a program for these and any other lengths of what the model leaves open; None where these need programs
        of their own."""
        if program.module is None or self._once:
            return None
        numbers = {place: i for i, (place, _) in enumerate(leaves_of(given))}
        places: dict[str, list[tuple[int, int]]] = {}
        for at, port in enumerate(self.model.inputs):
            leaf = numbers.get((at, 0))
            if port.kind != "tensor" or port.shape is None or leaf not in program.fed:
                continue
            for d, stated in enumerate(port.shape):
                if not isinstance(stated, int):
                    name = stated or f"dimension {d}"
                    places.setdefault(name, []).append((program.fed.index(leaf), d))
        lengths = [Length(name, tuple(each)) for name, each in places.items()]
        with listening(self.profile), using_threads(self.threads):
            return self._families.find(program.module, lengths) if lengths else None

    def _found(self, key: Any) -> tuple[Program, Callable[..., Sequence[Any]]] | None:
        """The program for such inputs, if it is on disk."""
        if self._kept is None or self.model.deciding:
            return None
        with listening(self.profile), using_threads(self.threads):
            found = self._kept.find(repr(key))
        if found is None:
            return None
        made, (fed, results) = found
        return Program(None, tuple(fed), tuple(results)), made.bind({}, tuple)

    def _runner(self, program: Program, interpreted: bool, key: Any) -> Callable[..., Sequence[Any]] | None:
        """What runs a program: by NumPy where that is not worth a compilation."""
        if program.module is None:
            return None
        with listening(self.profile), using_threads(self.threads):
            if self._kept is not None and not interpreted and not self.model.deciding and program.can_be_kept:
                facts = [program.fed, program.results]
                return self._kept.compiled(program.module, facts, repr(key)).bind({}, tuple)
            return _backend("numpy" if interpreted else self.target)(program.module)("main", {}, (), tuple)

    def _key(self, given: Sequence[Given]) -> Any:
        kinds = tuple(-1 if v is None else len(v) if isinstance(v, list) else -2 for v in given)
        deciding = self.model.deciding
        return kinds, tuple(
            (a.shape, a.dtype.str, a.tobytes() if place in deciding else b"") for place, a in leaves_of(given)
        )


def _backend(target: str) -> Backend:
    """What runs modules on a target. UserError where there is none."""
    from ...transformers.backends import BACKENDS, backend_for  # these bring the interpreter along

    found = backend_for(target)
    if found is None:
        hint = did_you_mean(str(target), BACKENDS, f"one of {', '.join(BACKENDS)}")
        raise UserError(f"there is no target '{target}'", hint=hint)
    return found
