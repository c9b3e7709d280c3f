# SPDX-License-Identifier: Apache-2.0
"""`Executor`: runs programs at a place. A program is compiled once for each set of feeds (their shapes) and fetches."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ...ir.literals import dtype_of
from ...ir.types import Type, shape_of
from ...op_graph.answers import answered
from ...programs import names
from ...programs.descriptions import Program as ProgramView
from ...programs.lower import Lowered, lower
from ...support.diagnostics import Diagnostic, UserError
from ...transformers.backends import backend_for
from ...transformers.host_steps import Bind, Run
from .feeding import fed, fits, with_io
from .framework import Program, default_main_program
from .places import CPUPlace, Place
from .printing import Printed, printed_in, show
from .scope import LoDTensor, Scope, global_scope, moves, scope_guard
from .variables import Variable

__all__ = ["Executor", "global_scope", "scope_guard"]

#: Compiled programs that an executor keeps.
KEPT = 64

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]


@dataclass
class _Prepared:
    """A program that was compiled for some feeds and fetches, and how it is bound to the state of a scope."""

    program: ProgramView
    lowered: Lowered
    bind: Bind
    #: Of each state its type, and whether the program reads what it begins as.
    states: Sequence[tuple[str, Type, bool]]
    #: What is printed after each run; its values come after those that are fetched.
    printed: Sequence[Printed] = ()
    scope: Scope | None = None
    moves: int = -1
    run: Run | None = None

    def bound(self, scope: Scope) -> Run:
        """What runs it on the state of a scope. A state that the program makes is made here, and is in the scope once the
        program has run."""
        tensors: dict[int, LoDTensor] = {}
        made: list[tuple[str, LoDTensor]] = []
        first = len(self.lowered.feeds)
        for at, (name, type, is_read) in enumerate(self.states):
            found = scope.find_var(name)
            tensor = found.value if found is not None and isinstance(found.value, LoDTensor) else None
            if tensor is None or not tensor.is_initialized or (not is_read and not _is_of(tensor, type)):
                if name == names.RANDOM:
                    seed = self.program.random_seed or int.from_bytes(os.urandom(8), "little")
                    tensor = LoDTensor(np.array([seed, 0], np.uint64))
                elif is_read:
                    raise self._uninitialized(name)
                else:
                    tensor = LoDTensor()
                    tensor.hold(np.zeros(shape_of(type), dtype_of(type)))
                made.append((name, tensor))
            elif not _is_of(tensor, type):
                shape = tensor.shape()
                raise UserError(
                    f"'{name}' is {type} in the program, and the scope holds {tensor.host.dtype} of shape {shape}",
                    hint="it was made by another program, or loaded from a file of one",
                )
            tensors[first + at] = tensor
        run = self.bind("main", tensors, self.lowered.lifted.tied, tuple)  # pyright: ignore[reportArgumentType]
        if not made:
            self.run, self.scope, self.moves = run, scope, moves()
            return run

        def once(*values: Any) -> Sequence[Any]:
            results = run(*values)
            for name, tensor in made:
                held = scope.find_var(name) or scope.var(name)
                # Who holds the tensor of the scope sees what was computed.
                if isinstance(held.value, LoDTensor):
                    held.value.become(tensor)
                else:
                    held.value = tensor
            return results

        return once

    def _uninitialized(self, name: str) -> UserError:
        variable = self.program.top.find(name)
        where = variable.location if variable is not None else None
        message = f"'{name}' has no value in this scope"
        hint = "run the start-up program first: executor.run(fluid.default_startup_program())"
        return UserError(
            Diagnostic(message, where, hint=hint) if where is not None else Diagnostic(message, hint=hint)
        )


def _is_of(tensor: LoDTensor, type: Type) -> bool:
    return tensor.is_of(shape_of(type), dtype_of(type))


class Executor:
    """Runs programs at a place: `Executor(fluid.CPUPlace()).run(program, feed={...}, fetch_list=[...])`."""

    def __init__(self, place: Place | None = None):
        self.place = CPUPlace() if place is None else place
        if not isinstance(self.place, Place):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"an executor runs at a place, not at {place!r}", hint="fluid.Executor(fluid.CPUPlace())"
            )
        self._prepared: OrderedDict[Key, _Prepared] = OrderedDict()

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
        results = run(*[arrays[name] for name in prepared.lowered.feeds])
        if prepared.printed:
            show(prepared.printed, results[len(fetches) :])
            results = results[: len(fetches)]
        if return_numpy:
            return [_array(result) for result in results]
        return [LoDTensor(_array(result)) for result in results]

    def _prepare(
        self, program: Program, arrays: Mapping[str, Array], fetches: Sequence[str], key: Key
    ) -> _Prepared:
        for name, array in arrays.items():
            fits(program, name, array)
        printed = printed_in(program.view)
        lowered = lower(with_io(program.view, arrays, [*fetches, *[each.fetched for each in printed]]))
        backend = backend_for(self.place.target)
        assert backend is not None
        block = lowered.module.ops[0].block
        used = {value for op in block.ops[:-1] for inner in op.walk() for value in inner.operands}
        used |= {v for i, v in enumerate(block.ops[-1].operands) if i not in dict(lowered.lifted.tied)}
        arguments = block.args[len(lowered.feeds) :]
        states = [(n, a.type, a in used) for n, a in zip(lowered.states, arguments, strict=True)]
        made = _Prepared(program.view, lowered, backend(lowered.module), states, printed)
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
