# SPDX-License-Identifier: Apache-2.0
"""A program of named variables compiled for the lengths of its inputs: for the first ones alone, and then for all.

Lengths are the dimensions that the program leaves open (batches, rows of sequences, numbers of sequences), and those
that depend on values, which a run of a part of the program computes (`programs.lower`). Which dimensions are the same
length is inferred from the inputs: those that have always been equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ..ir.core import Module
from ..ir.types import DYNAMIC
from ..ops.memory_limit import with_limit
from ..programs.descriptions import Program
from ..programs.interface import Interface
from ..programs.lookups import Agreement, Lookup, agreements, lookups
from ..programs.lower import lower
from ..programs.names import LEVEL
from ..programs.numbers_computed import Computed, changes_nothing, numbers_computed
from ..programs.select_kernels import with_kernels
from ..runtime.timing import Profile
from ..support.length_text import identifier
from ..support.lengths import LEAST, NeedsLength
from .backends import in_memory
from .compiled_programs import Compiled, compiled, looking
from .specialise import Key, Make, Specialised

if TYPE_CHECKING:
    from ..runtime.open_cpu import OpenCpu

V = TypeVar("V")
Shapes = Sequence[Sequence[int]]
#: How many calls are compared to infer which lengths are the same.
_COMPARED = 8


class Place(NamedTuple):
    """A dimension that may have any length: of an input, under a name; it is `more` than the length that it depends on."""

    input: int
    dimension: int
    name: str
    more: int = 0


def places_of(program: Program, ranks: Mapping[str, int]) -> list[Place]:
    """The open dimensions of a program's inputs, of which `ranks` has the ranks; including the lengths of offsets,
    which are one more than the number of sequences."""
    made: list[Place] = []
    for at, (name, rank) in enumerate(ranks.items()):
        if LEVEL in name:
            made.append(Place(at, 0, f"{name.partition(LEVEL)[0]}_sequences", 1))
            continue
        variable = program.top.find(name)
        stated = variable.type.shape if variable is not None else ()
        made += [
            Place(at, d, f"{name}_{d}" if d else name)
            for d, size in enumerate(stated)
            if size == DYNAMIC and len(stated) == rank
        ]
    return made


class FedProgram(Generic[V]):
    """A program for a target: its callables, by the shapes of its inputs and the value-dependent `sizes`, of which a
    call passes those that are known. The `most` recently used are cached.

    `make` returns the program with its `feed` and `fetch` operators for shapes; `alone` compiles it for those lengths
    alone, with the known sizes; `use` turns a compiled program into a callable. `places` are the dimensions of any
    length. Temporaries take at most `memory_limit` bytes (0: no limit). Programs are compiled under `profile`, for
    `threads` threads. A warning is issued if more programs that serve only one key are made than are cached.
    """

    def __init__(
        self,
        make: Callable[[Shapes], Program],
        alone: Callable[[Program, Sequence[int]], Compiled],
        use: Callable[[Compiled], V],
        places: Sequence[Place],
        target: str,
        most: int,
        memory_limit: int = 0,
        profile: Profile | None = None,
        threads: int | None = None,
    ):
        self.make, self.alone, self.use = make, alone, use
        self.places, self.target = places, target
        self._most, self._limit, self._profile, self._threads = most, memory_limit, profile, threads
        self._open = {(place.input, place.dimension) for place in places}
        #: By the number of known sizes.
        self._stages: list[_Stage[V]] = []
        self._finds: FedProgram[Compiled] | None = None

    def find(self, shapes: Shapes, sizes: Sequence[int] = ()) -> V | None:
        """The callable for these lengths; None if there is none yet."""
        return self._stage(len(sizes)).programs.find(self._key(shapes, sizes))

    def get(self, shapes: Shapes, sizes: Sequence[int] = ()) -> V:
        """The callable for these lengths, made if there is none yet. Raises what `compiled` raises."""
        stage, key = self._stage(len(sizes)), self._key(shapes, sizes)
        return stage.programs.get(key, lambda: self._made(stage, key, shapes, sizes))

    def _stage(self, count: int) -> _Stage[V]:
        while len(self._stages) <= count:
            self._stages.append(_Stage(Specialised(self.target, self._most, self._profile, self._threads)))
        return self._stages[count]

    def _key(self, shapes: Shapes, sizes: Sequence[int]) -> Key:
        closed = tuple(
            [n for i, shape in enumerate(shapes) for d, n in enumerate(shape) if (i, d) not in self._open]
        )
        return (*[shapes[p.input][p.dimension] - p.more for p in self.places], *sizes, closed)

    def _made(self, stage: _Stage[V], key: Key, shapes: Shapes, sizes: Sequence[int]) -> V:
        for at in stage.namings(key, [p.name for p in self.places]):
            found = self._for_lengths(stage.programs, key, at, shapes, sizes)
            if found is not None:
                return found
        if self.places:
            names = ", ".join(dict.fromkeys(place.name for place in self.places))
            stage.programs.count(lambda made: f"the program was compiled for {made} lengths of {names}")
        return self.use(self.alone(self.make(shapes), sizes))

    def _for_lengths(
        self, programs: Specialised[V], key: Key, at: Mapping[int, str], shapes: Shapes, sizes: Sequence[int]
    ) -> V | None:
        """The callable from code for all lengths, whose names are given by `at`; None if there is no such code for
        these."""
        told: list[tuple[Sequence[Lookup], Sequence[Agreement], Computed, bool, Interface, bool]] = []

        def make(lengths: Mapping[str, int]) -> Module:
            known = [lengths[at[i]] if i in at else size for i, size in enumerate(key)]
            program = self.make(self._shapes(shapes, known))
            computed = numbers_computed(program)
            is_apart = bool(computed.names) and not changes_nothing(program)
            lowered = lower(
                with_kernels(program if is_apart else computed.fetching(), self.target),
                sizes=known[len(self.places) : len(self.places) + len(sizes)],
            )
            if lowered.calls_python:
                raise NeedsLength("what Python functions compute")
            agreed = agreements(program, lowered.interface.agreed)
            told[:] = [(lookups(program), agreed, computed, is_apart, lowered.interface, lowered.measures)]
            return with_limit(lowered.module, self._limit)

        def use(key: Key, lengths: Mapping[str, int], code: OpenCpu) -> V:
            ((fed, agreed, computed, is_apart, interface, measures),) = told
            bind = in_memory(code.at(lengths))
            if not measures:
                of = self._shapes(shapes, key)
                guard = partial(self._finding().get, of) if is_apart else None
                bind = looking(fed, agreed, computed, interface, bind, guard)
            return self.use(Compiled(interface, bind, measures))

        return programs.for_lengths(key, at, [Make(make)], use)

    def _shapes(self, shapes: Shapes, known: Sequence[int]) -> list[list[int]]:
        """The shapes with these lengths in the open dimensions."""
        made = [list(shape) for shape in shapes]
        for place, length in zip(self.places, known, strict=False):
            made[place.input][place.dimension] = length + place.more
        return made

    def _finding(self) -> FedProgram[Compiled]:
        """The program that computes the numbers to check."""
        if self._finds is None:

            def make(shapes: Shapes) -> Program:
                return numbers_computed(self.make(shapes)).alone()

            def alone(program: Program, sizes: Sequence[int]) -> Compiled:
                return compiled(program, self.target, sizes)

            self._finds = FedProgram(make, alone, lambda made: made, self.places, self.target, self._most)
        return self._finds


class _Stage(Generic[V]):
    """The programs for one number of known sizes."""

    def __init__(self, programs: Specialised[V]):
        self.programs = programs
        self._namings: list[dict[int, str]] = []

    def namings(self, key: Key, names: Sequence[str]) -> list[dict[int, str]]:
        """Possible names of the lengths of a key, by index: those of existing code that fit, else one name for lengths
        that have always been equal, first of those that are given alone. Lengths of 0 and 1 have no name."""
        fitting = [each for each in self._namings if _fits(each, key)]
        open_places = [i for i, n in enumerate(key) if isinstance(n, int) and n >= LEAST]
        earlier = [
            k
            for k in self.programs.keys()
            if all(a == b for i, (a, b) in enumerate(zip(k, key, strict=True)) if i not in open_places)
            and all(k[i] >= LEAST for i in open_places)
        ][-_COMPARED:]
        if fitting or not earlier or not open_places:
            return fitting
        # A length that a run computes may be another one by chance, or has to be: then it is refused under a name of its own.
        own, shared = (self._named(key, earlier, open_places, names, separate) for separate in (True, False))
        made = [own] if own == shared else [own, shared]
        self._namings += made
        return made

    def _named(
        self, key: Key, earlier: Sequence[Key], places: Sequence[int], names: Sequence[str], separate: bool
    ) -> dict[int, str]:
        """One name for lengths that have always been equal; `separate`: but not for one that is given and one that a run computes."""
        found: dict[tuple[bool, tuple[int, ...]], str] = {}
        made: dict[int, str] = {}
        for i in places:
            is_given = i < len(names)
            name = identifier(names[i]) if is_given else f"size{i - len(names)}"
            lengths = (*[k[i] for k in earlier], key[i])
            made[i] = found.setdefault((separate and not is_given, lengths), name)
        return made


def _fits(naming: Mapping[int, str], key: Key) -> bool:
    """Whether lengths with the same name are equal, and all unnamed ones are 0 or 1."""
    said: dict[str, int] = {}
    numbers = [i for i, n in enumerate(key) if isinstance(n, int)]
    same = all(said.setdefault(name, key[i]) == key[i] for i, name in naming.items())
    return same and all((key[i] >= LEAST) == (i in naming) for i in numbers)
