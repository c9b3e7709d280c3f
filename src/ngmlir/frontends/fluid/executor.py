# SPDX-License-Identifier: Apache-2.0
"""`Executor`: runs programs at a place. A program is compiled once for each set of feeds (their shapes) and fetches."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ...op_graph.answers import answered
from ...ops.memory_limit import checked_limit
from ...programs import names
from ...programs.descriptions import Program as ProgramView
from ...programs.names import LEVEL
from ...programs.ragged import cut
from ...runtime import timing
from ...support.diagnostics import UserError
from ...transformers.compiled_programs import Compiled, compiled
from ...transformers.fed_programs import FedProgram, places_of
from ...transformers.host_steps import Run
from ...transformers.single_steps import OneByOne
from .feeding import Shaped, fed, fits, offsets_of, with_io
from .file_operators import Loading, Saving, as_before_on_failure, carry_out, loadings, write_files
from .framework import Program, default_main_program
from .lists import listed
from .places import CPUPlace, Place
from .prepared import Prepared
from .printing import printed_in, show
from .scope import LoDTensor, Scope, global_scope, moves, scope_guard
from .scope_lists import InLists
from .stepping import Step, Watch, by_steps, check_finite
from .variables import Variable

__all__ = ["Executor", "Step", "global_scope", "scope_guard"]

#: Compiled programs that an executor keeps.
KEPT = 64

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]


class _Source(NamedTuple):
    """A program with some feeds and fetches: the names that it is `fed` with arrays, and what it is for their shapes."""

    view: ProgramView
    fed: Sequence[str]
    programs: FedProgram[Prepared]


class Executor:
    """Runs programs at a place: `Executor(fluid.CPUPlace()).run(program, feed={...}, fetch_list=[...])`.

    With `memory_limit` the temporaries of a run take at most so many bytes at once, in addition to fed arrays, variables and results: where
    they would take more, values are recomputed instead of kept. A program is compiled for each set of lengths then, and a run has the bits of
    a program for these lengths alone. A run of a program for which that is not enough raises UserError, at the line of the operator that
    does not fit. Runs operator by operator have no limit.
    """

    def __init__(self, place: Place | None = None, memory_limit: int | None = None):
        self.place = CPUPlace() if place is None else place
        if not isinstance(self.place, Place):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"an executor runs at a place, not at {place!r}", hint="fluid.Executor(fluid.CPUPlace())"
            )
        self._memory_limit = 0 if memory_limit is None else checked_limit(memory_limit)
        self._outside: OrderedDict[int, tuple[ProgramView | None, int, tuple[Sequence[Loading], InLists]]] = (
            OrderedDict()
        )
        #: Programs with what they are fed and what is fetched of them.
        self._sources: OrderedDict[Key, _Source] = OrderedDict()
        #: For runs operator by operator: the function that computes one op, and the observer of each operator.
        self._compute: OneByOne | None = None
        self._watchers: list[Watch] = []
        self._checks = os.environ.get("FLAGS_check_nan_inf", "").lower() in ("1", "true")

    def close(self) -> None:
        """Drops the compiled programs."""
        self._sources.clear()
        self._outside.clear()
        self._compute = None

    @answered
    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        stepped: bool | Watch = False,
        check_nan_inf: bool | None = None,
    ) -> list[Any]:
        """Runs a program (by default the main program): what is fetched, in order, as arrays (as `LoDTensor`s without
        `return_numpy`).

        `feed` gives arrays, LoDTensors or numbers by name; `fetch_list` variables or names, or one alone. Persistable variables are those of `scope`
        (by default the global one). Compiled programs are kept for each set of feeds, with their shapes, and fetches.

        With `stepped` the program runs operator by operator, and `stepped(step)` is called after each where it is a function: see
        `Step`. With `check_nan_inf` (by default, where the environment had FLAGS_check_nan_inf=1 when the executor was made) it runs so too, and ends at
        the first operator that writes a NaN or an infinity. Both are slow.

        Files that operators `save` write are written when the program has run, all or none.

        Raises UserError for feeds that do not fit, for a fetch that nothing computes, where a variable is read that has no
        value, for files that cannot be read or written, and for a NaN that is looked for; then no variable has changed.
        """
        program = default_main_program() if program is None else program
        if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"an executor runs programs, not {program!r}",
                hint="executor.run(fluid.default_main_program(), ...)",
            )
        scope = global_scope() if scope is None else scope
        arrays = fed(program, feed or {})
        fetches = tuple(
            [f.name if isinstance(f, Variable) else _fetched(f) for f in listed(fetch_list or ())]
        )
        view = program.view
        files, lists = self._around(view)
        if lists.feeds:
            arrays |= lists.taken(scope, arrays)
        read = {name: array for loading in files for name, array in loading.read().items()} if files else {}
        if read:
            arrays |= read
        self._watchers = [stepped] if callable(stepped) else []
        if self._checks if check_nan_inf is None else check_nan_inf:
            self._watchers.append(check_finite)
        is_stepped = bool(stepped or self._watchers)
        ragged = offsets_of(view, fetches)
        if ragged and return_numpy:
            message = f"'{ragged[0].partition(LEVEL)[0]}' is ragged, and an array has no offsets"
            raise UserError(message, hint="return_numpy=False gives tensors with lod()")
        source = self._source(program, arrays, read, fetches, is_stepped)
        shapes, sizes = [array.shape for array in arrays.values()], tuple[int, ...]()
        while True:
            prepared = source.programs.find(shapes, sizes)
            if prepared is None:
                for name in source.fed:
                    fits(program, name, arrays[name])
                prepared, sizes = source.programs.get(shapes, sizes)
            run = prepared.run
            if run is None or prepared.scope is not scope or prepared.moves != moves():
                run = prepared.bound(scope)
            given = [arrays[name] for name in prepared.interface.feeds]
            if not prepared.measures:
                break
            sizes = (*sizes, *_array(run(*given)[0]).tolist())
        results = self._and_files(prepared, scope, run, given) if prepared.savings else run(*given)
        if lists.fetches:
            count = len(results) - len(lists.fetches)
            lists.give(scope, [_array(result) for result in results[count:]])
            results = results[:count]
        if prepared.printed:
            first = len(fetches) + len(ragged)
            show(prepared.printed, results[first:])
            results = results[:first]
        if return_numpy:
            return [_array(result) for result in results]
        offsets = dict(zip(ragged, results[len(fetches) :], strict=True))
        return [_tensor(view, name, result, offsets) for name, result in zip(fetches, results, strict=False)]

    def _around(self, program: ProgramView) -> tuple[Sequence[Loading], InLists]:
        """The files that a program reads, and what it takes from the scope's lists and gives to them."""
        known, edits, found = self._outside.get(id(program), (None, 0, ((), InLists((), ()))))
        if known is not program or edits != program.edits:
            found = tuple(loadings(program)), InLists.of(program)
            self._outside[id(program)] = program, program.edits, found
            while len(self._outside) > KEPT:
                self._outside.popitem(last=False)
        return found

    def _and_files(self, prepared: Prepared, scope: Scope, run: Run, given: Sequence[Array]) -> Sequence[Any]:
        """Runs a program, and writes the files that it saves. No variable and no file has changed where that fails."""
        for saving in prepared.savings:
            saving.check()
        with as_before_on_failure(scope, prepared.interface.changed):
            results = run(*given)
            count = sum(len(saving.names) for saving in prepared.savings)
            write_files(prepared.savings, [_array(result) for result in results[-count:]])
        return results[:-count]

    def _source(
        self,
        program: Program,
        arrays: Mapping[str, Array],
        read: Mapping[str, Array],
        fetches: Sequence[str],
        is_stepped: bool,
    ) -> _Source:
        """The program with such feeds and fetches."""
        view, kinds = program.view, [(name, array.ndim, array.dtype) for name, array in arrays.items()]
        key = (id(view), view.edits, tuple(kinds), fetches, timing.current(), is_stepped)
        found = self._sources.get(key)
        if found is None or found.view is not view:
            found = self._sources[key] = self._sourced(program, arrays, read, fetches, is_stepped)
            while len(self._sources) > KEPT:
                self._sources.popitem(last=False)
        return found

    def _sourced(
        self,
        program: Program,
        arrays: Mapping[str, Array],
        read: Mapping[str, Array],
        fetches: Sequence[str],
        is_stepped: bool,
    ) -> _Source:
        view, own = program.view, [name for name in arrays if name not in read]
        printed = printed_in(view)
        shown = [*fetches, *offsets_of(view, fetches), *[each.fetched for each in printed]]
        columns = len(shown) + len(InLists.of(view).fetches)
        dtypes = {name: arrays[name].dtype for name in own}
        savings: list[Saving] = []

        def make(shapes: Sequence[Sequence[int]]) -> ProgramView:
            by_name = dict(zip(arrays, shapes, strict=True))
            whole = with_io(view, {n: Shaped(tuple(by_name[n]), dtypes[n]) for n in own}, shown)
            savings[:] = carry_out(whole, read, columns)
            return whole

        def alone(whole: ProgramView, sizes: Sequence[int]) -> Compiled:
            if not is_stepped:
                return compiled(whole, self.place.target, sizes, self._memory_limit)
            self._compute = self._compute or OneByOne(self.place.target)
            return by_steps(whole, self._compute, self._tell, sizes)

        def use(made: Compiled) -> Prepared:
            return Prepared(view, *made, printed, savings)

        # Files may hold any shape, and are read again in each run. How much memory a program takes depends on its lengths.
        is_closed = bool(read) or is_stepped or self._memory_limit > 0
        places = None if is_closed else places_of(view, {n: a.ndim for n, a in arrays.items()})
        programs = FedProgram(make, alone, use, places, self.place.target, KEPT, timing.current())
        return _Source(view, own, programs)

    def _tell(self, step: Step) -> None:
        for watch in self._watchers:
            watch(step)


def _fetched(name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise UserError(
            f"what is fetched is a variable or its name, not {name!r}", hint="fetch_list=[loss, 'fc_0.w_0']"
        )
    return names.text(name)


def _tensor(program: ProgramView, name: str, result: Any, offsets: Mapping[str, Any]) -> LoDTensor:
    """A result as a tensor, with the offsets of its levels."""
    variable = program.top.find(name)
    levels = names.offsets_names(name, variable.ragged if variable is not None else 0)
    rows, cuts = cut(_array(result), [_array(offsets[each]) for each in levels])
    made = LoDTensor(rows)
    made.hold_offsets(cuts)
    return made


def _array(result: Any) -> Array:
    return cast("Array", result) if isinstance(result, np.ndarray) else result.numpy()
