# SPDX-License-Identifier: Apache-2.0
"""Programs of named variables compiled for the shapes of their inputs; cached on disk by their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ops.memory_limit import with_limit
from ..programs.catalogue import REGISTRY
from ..programs.descriptions import Program
from ..programs.interface import Interface
from ..programs.lookups import Agreement, Lookup, agreements, lookups
from ..programs.lower import lower
from ..programs.lowered import Lowered
from ..programs.numbers_computed import Computed, changes_nothing, numbers_computed
from ..programs.select_kernels import with_kernels
from ..programs.text import program_text
from ..runtime.executable import Prepare
from ..runtime.targets import device_named
from ..support.lengths import is_open
from ..support.lru import LruCache
from .backends import backend_for, in_memory
from .host_steps import Bind, Run, Storage
from .kept import KeptPrograms

#: For how many sets of value-dependent lengths the programs that find invalid numbers are cached.
_KEPT = 8


class Compiled(NamedTuple):
    """A compiled program: its inputs and outputs, its functions, and whether it only computes lengths (`measures`) that
    must be known to compile the rest."""

    interface: Interface
    bind: Bind
    measures: bool


def compiled(program: Program, target: str, sizes: Sequence[int] = (), memory_limit: int = 0) -> Compiled:
    """A program with its `feed` and `fetch` operators, compiled for a target. `sizes` are the value-dependent lengths
    that are known, in order. Temporaries take at most `memory_limit` bytes (0: no limit); otherwise a UserError says
    which op does not fit. The functions raise UserError for invalid indices and similar numbers, before any state has
    changed."""
    computed = numbers_computed(program)
    if not computed.names or not changes_nothing(program):
        made = _compiled(program, target, sizes, memory_limit)
        if made.measures:
            return made
        return made._replace(bind=with_checked_numbers(program, made.interface, made.bind, target, computed))
    made = _compiled(computed.fetching(), target, sizes, memory_limit)
    if made.measures:
        return made
    agreed = agreements(program, made.interface.agreed)
    return made._replace(bind=looking(lookups(program), agreed, computed, made.interface, made.bind))


def with_checked_numbers(
    program: Program, interface: Interface, bind: Bind, target: str, computed: Computed | None = None
) -> Bind:
    """The functions of a program, which first check the numbers that select rows and the like; a separate program
    computes those that are not fed."""
    computed = numbers_computed(program) if computed is None else computed
    agreed = agreements(program, interface.agreed)
    if not computed.names:
        return looking(lookups(program), agreed, computed, interface, bind)
    alone = computed.alone()

    def guard(sizes: Sequence[int]) -> tuple[Compiled, Sequence[int]]:
        return _compiled(alone, target, sizes), sizes

    return looking(lookups(program), agreed, computed, interface, bind, guard)


def looking(
    fed: Sequence[Lookup],
    agreed: Sequence[Agreement],
    computed: Computed,
    interface: Interface,
    bind: Bind,
    guard: Callable[[Sequence[int]], tuple[Compiled, Sequence[int]]] | None = None,
) -> Bind:
    """The functions of a program, with the checks that `lookups`, `agreements` and `numbers_computed` found. `guard` gives, for the
    value-dependent lengths that are known, a program that computes the numbers before each run, and the lengths that it is for; without it
    the numbers are the last results of the run."""
    if not fed and not computed.names and not agreed:
        return bind
    at = {name: i for i, name in enumerate(interface.feeds)}
    # The length of an input is read at each run. The number of rows of a computed value may depend on open lengths.
    places = [
        (at[each.ids], at.get(each.of), each)
        for each in fed
        if each.ids in at and (each.of in at or not is_open([each.count]))
    ]
    pairs = [(at[each.offsets], at[each.others], each) for each in agreed]
    last = len(computed.names) if guard is None else 0

    def bound(
        entry: str, state: Mapping[int, Storage], tied: Sequence[tuple[int, int]], prepare: Prepare
    ) -> Run:
        run = bind(entry, state, tied, prepare)
        first = None if guard is None else _finding(guard, interface, state)

        def call(*values: Any) -> Sequence[Any]:
            for i, other, each in pairs:
                each.check(values[i], values[other])
            for i, of, each in places:
                each.check(values[i], None if of is None else values[of])
            if first is not None and (found := first(*values)):
                computed.check(found)
            results = run(*values)
            if not last:
                return results
            computed.check([np.asarray(found) for found in results[-last:]])
            return results[:-last]

        return call

    return bound


def _finding(
    guard: Callable[[Sequence[int]], tuple[Compiled, Sequence[int]]],
    whole: Interface,
    state: Mapping[int, Storage],
) -> Run:
    """A function of the program's inputs that computes the numbers to check, on its states; empty if that would change
    a state."""
    bound: LruCache[tuple[int, ...], tuple[Compiled, Run, Sequence[int]]] = LruCache(_KEPT)

    def call(*values: Any) -> Sequence[Any]:
        sizes: tuple[int, ...] = ()
        while True:
            if (kept := bound.find(sizes)) is None:
                made, given = guard(sizes)
                kept = bound.add(sizes, (made, _bound_by_name(made, whole, state), given))
            made, run, given = kept
            if made.interface.tied:
                return ()
            found = [np.asarray(each) for each in run(*values)]
            if not made.measures:
                return found
            sizes = (*given, *found[0].tolist())

    return call


def _bound_by_name(guard: Compiled, whole: Interface, state: Mapping[int, Storage]) -> Run:
    """The guard's function, called with the inputs of the whole program, on its states."""
    interface, bind, _ = guard
    at = {each.name: i for i, each in enumerate(whole.states, len(whole.feeds))}
    held = {i: state[at[each.name]] for i, each in enumerate(interface.states, len(interface.feeds))}
    run, order = bind("main", held, (), tuple), [whole.feeds.index(name) for name in interface.feeds]
    return lambda *values: run(*[values[i] for i in order])


def _compiled(program: Program, target: str, sizes: Sequence[int] = (), memory_limit: int = 0) -> Compiled:
    program = with_kernels(program, target)
    kept: KeptPrograms | None = None
    if device_named(target).runs_on_host and _is_builtin(program):
        text = program_text(program).encode()
        kept = KeptPrograms(lambda: [text], "program", str(memory_limit), *map(str, sizes))
        if (found := kept.find()) is not None:
            executable, facts = found
            return Compiled(Interface.from_facts(facts), in_memory(executable), bool(facts.get("measures")))
    lowered = lower(program, sizes=sizes)
    interface, module = lowered.interface, with_limit(lowered.module, memory_limit)
    if kept is not None and not lowered.calls_python:
        facts = {**interface.facts(), "measures": lowered.measures}
        return Compiled(interface, in_memory(kept.compiled(module, facts)), lowered.measures)
    bind = backend_for(target)(module)
    bind = _holding(bind, lowered) if lowered.calls_python else bind
    return Compiled(interface, bind, lowered.measures)


def _holding(bind: Bind, lowered: Lowered) -> Bind:
    """The functions of a program; they keep alive the Python functions that they call."""

    def bound(*how: Any) -> Run:
        run = bind(*how)

        def call(*values: Any, of: Lowered = lowered) -> Sequence[Any]:
            return run(*values)

        return call

    return bound


def _is_builtin(program: Program) -> bool:
    """Whether the text of a program and the version of ngmlir determine everything it computes."""
    found = [(REGISTRY.find(operator.type), operator.attribute("kernel")) for operator in program.walk()]
    return all(
        definition is not None and definition.is_builtin and not kernel for definition, kernel in found
    )
