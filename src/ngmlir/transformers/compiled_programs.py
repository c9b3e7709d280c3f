# SPDX-License-Identifier: Apache-2.0
"""Programs compiled for what they are fed: found on disk by their text, where they were compiled before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..ops.memory_limit import with_limit
from ..programs.catalogue import REGISTRY
from ..programs.descriptions import Program
from ..programs.interface import Interface
from ..programs.lookups import Agreement, Lookup, agreements, lookups, program_of_ids
from ..programs.lower import lower
from ..programs.lowered import Lowered
from ..programs.select_kernels import with_kernels
from ..programs.text import program_text
from ..runtime.executable import Prepare
from ..runtime.targets import device_named
from ..support.lengths import is_open
from .backends import backend_for, in_memory
from .host_steps import Bind, Run, Storage
from .kept import KeptPrograms


class Compiled(NamedTuple):
    """A program: what it takes and gives, its functions, and whether they compute lengths that have to be known to compile the rest."""

    interface: Interface
    bind: Bind
    measures: bool


def compiled(program: Program, target: str, sizes: Sequence[int] = (), memory_limit: int = 0) -> Compiled:
    """A program with its `feed` and `fetch` operators, for a target. `sizes` are the lengths that depend on values and are known, in
    order; temporaries take at most `memory_limit` bytes (0: as many as they need), or a UserError says which op does not fit. The
    functions raise UserError for numbers of rows that a table does not have, before anything has changed."""
    made = _compiled(program, target, sizes, memory_limit)
    if made.measures:
        return made
    return made._replace(bind=with_checked_ids(program, made.interface, made.bind, target))


def with_checked_ids(program: Program, interface: Interface, bind: Bind, target: str) -> Bind:
    """The functions of a program, which look at the numbers of rows of tables first."""
    agreed = agreements(program, interface.agreed)
    return looking_first(
        lookups(program),
        agreed,
        interface,
        bind,
        lambda names: _compiled(program_of_ids(program, names), target),
    )


def looking_first(
    found: tuple[Sequence[Lookup], Sequence[Lookup]],
    agreed: Sequence[Agreement],
    interface: Interface,
    bind: Bind,
    ids: Callable[[Sequence[str]], Compiled],
) -> Bind:
    """The same with what `lookups` and `agreements` found; `ids` gives the program that computes these variables alone."""
    fed, computed = found
    if not fed and not computed and not agreed:
        return bind
    at = {name: i for i, name in enumerate(interface.feeds)}
    # How many rows something fed has is seen in a run. How many a computed value has may follow from lengths.
    places = [
        (at[each.ids], at.get(each.table) if each.things == "row" else None, each)
        for each in fed
        if each.ids in at and ((each.things == "row" and each.table in at) or not is_open([each.height]))
    ]
    pairs = [(at[each.offsets], at[each.others], each) for each in agreed]
    names = [*dict.fromkeys(each.ids for each in computed)]
    guard = ids(names) if names else None
    if guard is not None and guard.measures:
        guard = None  # how many rows there are depends on values too, and these are not computed once more

    def bound(
        entry: str, state: Mapping[int, Storage], tied: Sequence[tuple[int, int]], prepare: Prepare
    ) -> Run:
        run = bind(entry, state, tied, prepare)
        first = None if guard is None or guard.interface.tied else _bound_by_name(guard, interface, state)

        def call(*values: Any) -> Sequence[Any]:
            for i, other, each in pairs:
                each.check(values[i], values[other])
            for i, table, each in places:
                each.check(values[i], None if table is None else values[table])
            if first is not None:
                found = dict(zip(names, first(*values), strict=True))
                for each in computed:
                    each.check(found[each.ids])
            return run(*values)

        return call

    return bound


def _bound_by_name(guard: Compiled, whole: Interface, state: Mapping[int, Storage]) -> Run:
    """A function of what another program is fed, on its states."""
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
    """The functions of a program, which keep the Python functions that they call."""

    def bound(*how: Any) -> Run:
        run = bind(*how)

        def call(*values: Any, of: Lowered = lowered) -> Sequence[Any]:
            return run(*values)

        return call

    return bound


def _is_builtin(program: Program) -> bool:
    """Whether the text of a program and the version of ngmlir say all of what it computes."""
    found = [(REGISTRY.find(operator.type), operator.attribute("kernel")) for operator in program.walk()]
    return all(
        definition is not None and definition.is_builtin and not kernel for definition, kernel in found
    )
