# SPDX-License-Identifier: Apache-2.0
"""`Executor`: runs programs at a place. A program is compiled once for each set of feeds (their shapes) and fetches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...op_graph.answers import answered
from ...programs import names
from ...support.diagnostics import UserError
from ...transformers.compiled_programs import compiled
from .feeding import fed, fits, with_io
from .framework import Program, default_main_program
from .places import CPUPlace, Place
from .prepared import Prepared
from .printing import printed_in, show
from .scope import LoDTensor, Scope, global_scope, moves, scope_guard
from .variables import Variable

__all__ = ["Executor", "global_scope", "scope_guard"]

#: Compiled programs that an executor keeps.
KEPT = 64

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]


class Executor:
    """Runs programs at a place: `Executor(fluid.CPUPlace()).run(program, feed={...}, fetch_list=[...])`."""

    def __init__(self, place: Place | None = None):
        self.place = CPUPlace() if place is None else place
        if not isinstance(self.place, Place):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"an executor runs at a place, not at {place!r}", hint="fluid.Executor(fluid.CPUPlace())"
            )
        self._prepared: OrderedDict[Key, Prepared] = OrderedDict()

    def close(self) -> None:
        """Drops the compiled programs."""
        self._prepared.clear()

    @answered
    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable | str] | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
    ) -> list[Any]:
        """Runs a program (by default the main program): what is fetched, in order, as arrays (as `LoDTensor`s without
        `return_numpy`).

        `feed` gives arrays, LoDTensors or numbers by name; `fetch_list` variables or names. Persistable variables are those of `scope`
        (by default the global one). Compiled programs are kept for each set of feeds, with their shapes, and fetches.

        Raises UserError for feeds that do not fit, for a fetch that nothing computes, and where a variable is read that has no
        value; then no variable has changed.
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
            [f.name if isinstance(f, Variable) else _fetched(program, f) for f in fetch_list or ()]
        )
        view = program.view
        shapes = tuple([(name, array.shape, array.dtype) for name, array in arrays.items()])
        key = (id(view), view.edits, shapes, fetches)
        prepared = self._prepared.get(key)
        if prepared is None or prepared.program is not view:
            prepared = self._prepare(program, arrays, fetches, key)
        run = prepared.run
        if run is None or prepared.scope is not scope or prepared.moves != moves():
            run = prepared.bound(scope)
        results = run(*[arrays[name] for name in prepared.interface.feeds])
        if prepared.printed:
            show(prepared.printed, results[len(fetches) :])
            results = results[: len(fetches)]
        if return_numpy:
            return [_array(result) for result in results]
        return [LoDTensor(_array(result)) for result in results]

    def _prepare(
        self, program: Program, arrays: Mapping[str, Array], fetches: Sequence[str], key: Key
    ) -> Prepared:
        for name, array in arrays.items():
            fits(program, name, array)
        printed = printed_in(program.view)
        whole = with_io(program.view, arrays, [*fetches, *[each.fetched for each in printed]])
        made = Prepared(program.view, *compiled(whole, self.place.target), printed)
        self._prepared[key] = made
        while len(self._prepared) > KEPT:
            self._prepared.popitem(last=False)
        return made


def _fetched(program: Program, name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise UserError(f"what is fetched is a variable or its name, not {name!r}")
    return names.text(name)


def _array(result: Any) -> Array:
    return cast("Array", result) if isinstance(result, np.ndarray) else result.numpy()
