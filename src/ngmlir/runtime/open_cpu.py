# SPDX-License-Identifier: Apache-2.0
"""Programs with open lengths on the CPU: the same code for all lengths, and a table of numbers for the lengths of a
call.

For new lengths, sizes are computed and offsets in the arena are assigned: those of lengths a little larger, so that
similar lengths share the same offsets and the same memory. Nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ge
from threading import RLock
from typing import Any

import numpy as np

from ..support.arena import Part, assign_offsets
from ..support.artifact import Artifact, Entry
from ..support.diagnostics import UserError
from ..support.length_places import length_places
from ..support.lengths import (
    ARENA,
    ARENA_PART,
    SEVERAL,
    Guard,
    Length,
    expression_of,
    is_of_call,
    is_open,
    value_at,
)
from ..support.lru import LruCache
from ..support.signature import Parameter, Signature
from .cpu import Arena, Code, CpuExecutable, Program, touches_much
from .entry import builtin_of, plan_of
from .executable import check_count
from .sizes import Sizes

#: How many sets of lengths have their executables cached.
_READY = 64
#: How many arena layouts a quick call tries.
_QUICK = 16
#: How many ways to handle what no layout serves have their builtins cached.
_CHAINS = 4
#: Before the name of a length: the greatest one that a layout has room for.
_MOST = "most."
_LARGEST = (1 << 63) - 1


def size_class(length: int) -> int:
    """The smallest of a few sizes that is at least `length`; at most 1/8 larger."""
    step = 1 << max(0, length.bit_length() - 4)
    return -(-length // step) * step


@dataclass(frozen=True)
class _Places:
    """The entries of the table of lengths that give the offsets of the arena's parts, and the size of the arena in
    bytes."""

    table: Mapping[str, int]
    bytes: int


class _Chain:
    """Builtins of which each calls the one before it for lengths that its arena layout has no room for. Their plans differ
    only in the offsets of the layout and in the greatest lengths that it has room for."""

    def __init__(self, of: OpenCpu, otherwise: Callable[..., Any], guards: Iterable[Guard]):
        signature, self.otherwise = of.signature, otherwise
        self.links: list[tuple[tuple[int, ...], Callable[..., Any]]] = []
        self.program: Program | None = None
        self._names, self._touched = of.names, of.code.touched(signature)
        words = [*signature.lengths, *[_MOST + name for name in of.names]]
        sizes = Sizes(words)
        for name, dimension in of.where.items():
            sizes.read(name, *dimension)
        for name in of.names:
            length, most = Length.named(name, of.least), Length.named(_MOST + name, of.least)
            sizes.require(Guard(expression_of(length - of.least), ">="))
            sizes.require(Guard(expression_of(most - length), ">="))
        for guard in (*signature.guards, *guards):
            sizes.require(guard)
        self._plan = plan_of(signature, {}, sizes=sizes)
        first = 0 if self._plan is None else len(self._plan) - len(sizes.words)
        self._words = {name: first + i for i, name in enumerate(words)}

    @property
    def head(self) -> Callable[..., Any]:
        return self.links[-1][1] if self.links else self.otherwise

    def add(self, above: tuple[int, ...], places: _Places, program: Program) -> None:
        """Serves lengths up to those `above` by a layout in the arena of the program, unless it does already."""
        most = dict(zip(self._names, above, strict=True))
        if self._plan is None or max(above, default=0) > _LARGEST or any(above == a for a, _ in self.links):
            return
        # A layout for lesser lengths is not tried any more.
        while self.links and all(map(ge, above, self.links[-1][0])):
            self.links.pop()
        if len(self.links) >= _QUICK:
            self.links.clear()
        plan = self._plan.copy()
        for name, value in (
            *places.table.items(),
            *[(_MOST + name, length) for name, length in most.items()],
        ):
            if name in self._words:
                plan[self._words[name]] = value
        releases = touches_much(value_at(self._touched, {**most, **places.table}))
        name = program.signature.name
        made = builtin_of(plan, name, program.context, releases, self.head, program)
        self.links.append((above, made))


class OpenCpu:
    """A function of arrays with any lengths, of `least` and more, for which its guards hold."""

    def __init__(self, code: Code, entry: Entry, spacing: tuple[int, int], least: int = SEVERAL):
        self.least = least
        self.code, self._entry, self._spacing = code, entry, spacing
        self.signature: Signature = entry.signature
        #: The lengths that the arguments of a call have, and the dimension from which each is read, if there is one.
        self.names = [name for name in entry.signature.lengths if is_of_call(name)]
        places = length_places([argument.shape for argument in entry.signature.arguments])
        self.where = {name: places[name] for name in self.names if name in places}
        self._ready: LruCache[tuple[int, ...], CpuExecutable] = LruCache(_READY)
        self._alone: LruCache[tuple[int, ...], CpuExecutable] = LruCache(_READY)
        self._placed: LruCache[tuple[int, ...], _Places] = LruCache(_READY)
        self._arena = Arena(0)
        self._program = self._whole()
        #: Makes the executable for lengths for which the guards do not hold.
        self.otherwise: Callable[[Mapping[str, int]], CpuExecutable] | None = None
        self._lock = RLock()
        self._chains: LruCache[tuple[Callable[..., Any], frozenset[Guard]], _Chain] = LruCache(_CHAINS)
        self._run = self._run_slowly

    def serves(self, lengths: Mapping[str, int]) -> bool:
        """Whether the code is right for these lengths."""
        given = [lengths[name] for name in self.names]
        return min(given, default=self.least) >= self.least and all(
            g.holds(lengths) for g in self.signature.guards
        )

    def find(self, lengths: Mapping[str, int]) -> CpuExecutable | None:
        """The executable for arrays of these lengths; None if the guards do not hold."""
        key = tuple([lengths[name] for name in self.names])
        found = self._ready.find(key)
        if found is None and self.serves(lengths):
            with self._lock:
                found = self._ready.find(key) or self._ready.add(key, self._made(lengths))
        return found

    def at(self, lengths: Mapping[str, int]) -> CpuExecutable:
        """The executable for these lengths, which may be compiled for them alone. UserError if there is none."""
        found = self.find(lengths)
        if found is None:
            key = tuple([lengths[name] for name in self.names])
            with self._lock:
                found = self._alone.find(key) or self._alone.add(key, self._otherwise(lengths))
        return found

    def __call__(self, *values: Any) -> tuple[np.ndarray, ...]:
        return self._run(*values)

    def _run_slowly(self, *values: Any) -> tuple[np.ndarray, ...]:
        lengths, before = self.lengths(values), self._run
        if self.serves(lengths):
            self._room(lengths)
        self._run = self.quick(self._run_slowly)
        # A new builtin may serve these values: an executable of their lengths is made only if it does not.
        return (self.at(lengths) if self._run == before else self._run)(*values)

    def ready(self, lengths: Mapping[str, int]) -> Callable[..., tuple[np.ndarray, ...]]:
        """What takes arrays of these lengths, for which the guards hold; builtins that are asked for from now on take them
        too."""
        self._room(lengths)
        return self if len(self.where) == len(self.names) else self.at(lengths)

    def quick(self, otherwise: Callable[..., Any], guards: Iterable[Guard] = ()) -> Callable[..., Any]:
        """A builtin for arrays of all lengths that an arena layout exists for and these guards hold for. It calls
        `otherwise` with all other values."""
        if self.code.is_watched or len(self.where) < len(self.names):
            return otherwise
        with self._lock:
            key = otherwise, frozenset(guards)
            chain = self._chains.find(key) or self._chains.add(key, _Chain(self, *key))
            kept = self._placed.items()[-1:]
            if chain.program is not self._program:
                chain.program, chain.links = self._program, []
                kept = self._placed.items()[-_QUICK:]
            for above, places in kept:
                if places.bytes <= len(self._arena.bytes):
                    chain.add(above, places, self._program)
            return chain.head

    def lengths(self, values: Sequence[Any]) -> dict[str, int]:
        """The lengths that the arguments of a call have. UserError for arguments of another rank."""
        check_count(self.signature.name, self.signature.arguments, values)
        shapes = [np.shape(value) for value in values]
        for parameter, shape in zip(self.signature.arguments, shapes, strict=True):
            if len(shape) != len(parameter.shape):
                wanted = ", ".join(map(str, parameter.shape))
                message = f"argument '{parameter.name}' has shape {list(shape)}, not [{wanted}]"
                raise UserError(message, parameter.location)
        if lost := [name for name in self.names if name not in self.where]:
            raise UserError(
                f"no argument of {self.signature.name} has the length {', '.join(lost)}",
                hint="at(lengths) takes it",
            )
        return {name: place.length(shapes) for name, place in self.where.items()}

    def peak(self, lengths: Mapping[str, int]) -> int:
        """Bytes of temporaries of a call."""
        return self._placed_for({name: size_class(lengths[name]) for name in self.names}).bytes

    def _otherwise(self, lengths: Mapping[str, int]) -> CpuExecutable:
        if self.otherwise is None:
            told = ", ".join(f"{name} = {length}" for name, length in lengths.items())
            guards = " and ".join(map(str, self.signature.guards)) or f"lengths of {self.least} and more"
            raise UserError(f"{self.signature.name} is compiled for {guards}, not for {told}")
        return self.otherwise(lengths)

    def _made(self, lengths: Mapping[str, int]) -> CpuExecutable:
        places = self._room(lengths)
        known = {**lengths, **places.table}
        signature = _closed(self.signature, known, places.bytes)
        table = np.array([known[name] for name in self.signature.lengths], np.int64)
        entry = replace(self._entry, signature=signature)
        return CpuExecutable.of(Program(self.code, entry, self._arena, table))

    def _room(self, lengths: Mapping[str, int]) -> _Places:
        """Offsets for these lengths that fit into the present arena; it is replaced if there are none."""
        with self._lock:
            places = self._roomy(lengths) or self._placed_for(self._above(lengths))
            if places.bytes > len(self._arena.bytes):
                # The cached executables use the smaller arena, which no call needs any more.
                self._ready = LruCache(_READY)
                self._arena = Arena(places.bytes)
                self._program = self._whole()
            return places

    def _whole(self) -> Program:
        """The program with the present arena, and shapes that follow from the lengths of each call."""
        signature = replace(self.signature, arena_bytes=len(self._arena.bytes))
        return Program(self.code, replace(self._entry, signature=signature), self._arena)

    def _above(self, lengths: Mapping[str, int]) -> dict[str, int]:
        """Lengths for which to make a new layout: also those that the last one has room for, if these take at most 1/8 more memory."""
        least = {name: size_class(lengths[name]) for name in self.names}
        if not (last := self._placed.keys()[-1:]):
            return least
        wide = {name: max(most, least[name]) for name, most in zip(self.names, last[0], strict=True)}
        return wide if 8 * self._bytes(wide) <= 9 * self._bytes(least) else least

    def _bytes(self, lengths: Mapping[str, int]) -> int:
        """The bytes of all temporaries together."""
        return sum(value_at(size, lengths) for size, _, _ in self.signature.arena)

    def _roomy(self, lengths: Mapping[str, int]) -> _Places | None:
        """Offsets that were assigned for larger lengths and fit into the present arena."""
        wanted = [lengths[name] for name in self.names]
        for above in reversed(self._placed.keys()):
            if all(map(ge, above, wanted)) and (found := self._placed.find(above)) is not None:
                return found if found.bytes <= len(self._arena.bytes) else None
        return None

    def _placed_for(self, above: Mapping[str, int]) -> _Places:
        key = tuple(above.values())
        found = self._placed.find(key)
        if found is None:
            parts = [Part(*[value_at(number, above) for number in part]) for part in self.signature.arena]
            offsets, end = assign_offsets(parts, *self._spacing)
            table = {f"{ARENA_PART}{i}": offset for i, offset in enumerate(offsets)} | {ARENA: end}
            size = value_at(self.signature.arena_bytes, {**above, **table})
            found = self._placed.add(key, _Places(table, size))
        return found


def load_open(
    artifact: Artifact,
    guards: Sequence[Guard],
    spacing: tuple[int, int],
    entry: str | None = None,
    least: int = SEVERAL,
) -> OpenCpu:
    """Links the code of a program for all lengths, from `least` on, for which the `guards` hold; `spacing` as for `support.arena.place`."""
    found = artifact.entry(entry)
    found = replace(found, signature=replace(found.signature, guards=tuple(guards)))
    return OpenCpu(Code(artifact), found, spacing, least)


def _closed(signature: Signature, lengths: Mapping[str, int], arena_bytes: int) -> Signature:
    """The signature for given lengths."""

    def parameter(of: Parameter) -> Parameter:
        if not is_open(of.shape):
            return of
        return replace(of, shape=tuple([value_at(d, lengths) for d in of.shape]))

    return replace(
        signature,
        arguments=tuple([parameter(p) for p in signature.arguments]),
        results=tuple([parameter(p) for p in signature.results]),
        arena_bytes=arena_bytes,
        lengths=(),
        arena=(),
        guards=(),
    )
