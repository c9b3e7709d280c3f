# SPDX-License-Identifier: Apache-2.0
"""A program of named variables compiled for the lengths of its inputs: for all, if there are sequences among these or lengths that a run
computes; else for the first ones alone, and then for all.

Lengths are the dimensions that the program leaves open (batches, rows of sequences, numbers of sequences), and those
that depend on values, which a run of a part of the program computes (`programs.lower`). Which of them are the same length follows from
the program: those that it needs to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ..ir.core import Module
from ..ir.types import DYNAMIC
from ..programs.descriptions import Program
from ..programs.interface import Interface
from ..programs.lookups import Agreement, Lookup, agreements, lookups
from ..programs.lower import lower
from ..programs.lowered import Lowered
from ..programs.names import LEVEL
from ..programs.numbers_computed import Computed, changes_nothing, numbers_computed
from ..programs.select_kernels import with_kernels
from ..runtime.timing import Profile
from ..support.diagnostics import Limit, UserError
from ..support.expressions import Expression, named
from ..support.length_text import identifier
from ..support.lengths import SEVERAL, Length, NeedsLength, by_value, guarding
from ..support.samples import unlike_sizes
from .backends import in_memory
from .compiled_programs import Compiled, compiled, looking
from .specialise import Key, Make, Specialised

if TYPE_CHECKING:
    from ..runtime.open_cpu import OpenCpu

V = TypeVar("V")
Shapes = Sequence[Sequence[int]]


#: In keys: that all programs for some lengths are for these alone.
_ALONE = "alone"


class _Alone(Exception):
    """The programs for some lengths have to be for these alone, from the first one on, which may be `made`: sizes that code for all lengths
    computes may be others than those that such a program asks for."""

    def __init__(self, made: Compiled | None = None):
        super().__init__()
        self.made = made


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
            own, _, level = name.partition(LEVEL)
            made.append(Place(at, 0, f"{own}_sequences" + (f"_{level}" if int(level) else ""), 1))
            continue
        variable = program.top.find(name)
        stated = variable.type.shape if variable is not None else ()
        made += [
            Place(at, d, f"{name}_{d}" if d else name)
            for d, size in enumerate(stated)
            if size == DYNAMIC and len(stated) == rank
        ]
    return made


class _Parts(NamedTuple):
    """A program that was lowered, and what finds the numbers to check: the program itself, unless that `is_apart`."""

    program: Program
    computed: Computed
    is_apart: bool
    lowered: Lowered


class FedProgram(Generic[V]):
    """A program for a target: its callables, by the shapes of its inputs and the value-dependent `sizes`, of which a
    call passes those that are known. The `most` recently used are cached.

    `make` returns the program with its `feed` and `fetch` operators for shapes; `alone` compiles it for those lengths
    alone, with the known sizes; `use` turns a compiled program into a callable. `places` are the dimensions of any
    length; without them there is a program for each set of lengths, also of those that it computes. Programs are compiled under
    `profile`, for `threads` threads. A warning is issued if more programs that serve only one key are made than are cached.
    """

    def __init__(
        self,
        make: Callable[[Shapes], Program],
        alone: Callable[[Program, Sequence[int]], Compiled],
        use: Callable[[Compiled], V],
        places: Sequence[Place] | None,
        target: str,
        most: int,
        profile: Profile | None = None,
        threads: int | None = None,
    ):
        self.make, self.alone, self.use = make, alone, use
        self.places, self.target = places or (), target
        self._may_open = places is not None
        self._most, self._profile, self._threads = most, profile, threads
        self._open = {(place.input, place.dimension) for place in self.places}
        #: Numbers of rows of sequences are others in each batch.
        self._opens_at_once = any(place.more for place in self.places)
        #: The keys, without sizes, of which no program is for other lengths.
        self._alone: dict[Key, None] = {}
        #: By the number of known sizes.
        self._stages: list[_Stage[V]] = []
        self._finds: FedProgram[Compiled] | None = None

    def find(self, shapes: Shapes, sizes: Sequence[int] = ()) -> V | None:
        """The callable for these lengths; None if there is none yet."""
        return self._stage(len(sizes)).programs.find(self._key(shapes, sizes))

    def get(self, shapes: Shapes, sizes: Sequence[int] = ()) -> tuple[V, Sequence[int]]:
        """The callable for these lengths, made if there is none yet, and the sizes that it is for: none, where other ones have to be computed
        than by the programs before. Raises what `compiled` raises."""
        stage, key = self._stage(len(sizes)), self._key(shapes, sizes)
        try:
            return stage.programs.get(key, lambda: self._made(stage, key, shapes, sizes)), sizes
        except _Alone as found:
            self._alone[self._key(shapes, ())] = None
            while len(self._alone) > self._most:
                del self._alone[next(iter(self._alone))]
            if found.made is not None:
                self._stage(0).programs.add(self._key(shapes, ()), self.use(found.made))
            return self.get(shapes)

    def _stage(self, count: int) -> _Stage[V]:
        while len(self._stages) <= count:
            self._stages.append(_Stage(Specialised(self.target, self._most, self._profile, self._threads)))
        return self._stages[count]

    def _key(self, shapes: Shapes, sizes: Sequence[int]) -> Key:
        closed = tuple(
            [n for i, shape in enumerate(shapes) for d, n in enumerate(shape) if (i, d) not in self._open]
        )
        lengths = [shapes[p.input][p.dimension] - p.more for p in self.places]
        key = (*lengths, closed)
        return (*lengths, *sizes, (*closed, _ALONE) if key in self._alone else closed)

    def _made(self, stage: _Stage[V], key: Key, shapes: Shapes, sizes: Sequence[int]) -> V:
        opens = self._may_open and key[-1][-1:] != (_ALONE,) and stage.programs.has_code_for_all
        at_once = self._opens_at_once or bool(sizes)
        if opens and (at_once or stage.programs.keys()):
            found = self._for_all(stage, key, shapes, sizes)
            if found is not None:
                return found
            if sizes:
                raise _Alone
        made = self.alone(self.make(shapes), sizes)
        if opens and made.measures:
            # Code for all lengths and for these alone may ask for others.
            found = None if at_once else self._for_all(stage, key, shapes, sizes)
            if found is not None:
                return found
            raise _Alone(made)
        if self.places:
            names = ", ".join(dict.fromkeys(place.name for place in self.places))
            stage.programs.count(lambda made: f"the program was compiled for {made} lengths of {names}")
        return self.use(made)

    def _for_all(self, stage: _Stage[V], key: Key, shapes: Shapes, sizes: Sequence[int]) -> V | None:
        """The callable from code for all lengths; None if there is none for these."""
        for naming in stage.fitting(key) or [stage.added(self._named(key, shapes, len(sizes)))]:
            found = self._for_lengths(stage.programs, key, naming, shapes, sizes)
            if found is not None:
                return found
        return None

    def _named(self, key: Key, shapes: Shapes, sizes: int) -> _Naming:
        """Names of the lengths of a key, of those from SEVERAL on: one for lengths that the program needs to be equal, and none for those that
        it needs to be computed of others. It is lowered with a name for each, and numbers that are equal only where those of the key are."""
        names = [identifier(p.name) for p in self.places] + [f"size{i}" for i in range(sizes)]
        lengths = {name: key[i] for i, name in enumerate(names) if key[i] >= SEVERAL}
        each: Mapping[str, Expression] = {name: named(name) for name in lengths}
        unlike = unlike_sizes({str(n): n for n in lengths.values()})
        present = {name: Length.named(name, unlike[str(n)]) for name, n in lengths.items()}
        while True:
            known = [
                each[name].value(present) if name in each else n for name, n in zip(names, key, strict=False)
            ]
            ended, before = False, dict(each)
            with guarding() as guards, by_value(), suppress(NeedsLength, UserError, Limit):
                self._lowered(shapes, known, sizes)
                ended = True
            # Where types are compared it ends at the first lengths that have to be equal, and goes on when these have one name. Only if that
            # is not enough, lengths are computed of others: what is compared may be equal by chance.
            for are_named in (True, False):
                for guard in guards:
                    each = _solved(guard.expression.replaced(each), each, lengths, are_named)
                if ended or each != before:
                    break
            if ended or each == before:
                return _Naming({i: each[name] for i, name in enumerate(names) if name in each})

    def _lowered(self, shapes: Shapes, known: Sequence[int], sizes: int) -> _Parts:
        """The program for lengths of a key, which may be open, the last `sizes` of which it computes. Raises what `lower` raises."""
        program = self.make(self._shapes(shapes, known))
        computed = numbers_computed(program)
        is_apart = bool(computed.names) and not changes_nothing(program)
        first = len(self.places)
        lowered = lower(
            with_kernels(program if is_apart else computed.fetching(), self.target),
            sizes=known[first : first + sizes],
        )
        return _Parts(program, computed, is_apart, lowered)

    def _for_lengths(
        self,
        programs: Specialised[V],
        key: Key,
        naming: _Naming,
        shapes: Shapes,
        sizes: Sequence[int],
    ) -> V | None:
        """The callable from code for all lengths, whose names are given by `naming`; None if there is no such code for
        these."""
        told: list[tuple[Sequence[Lookup], Sequence[Agreement], Computed, bool, Interface, bool]] = []

        each = naming.lengths

        def make(lengths: Mapping[str, int]) -> Module:
            known = [each[i].value(lengths) if i in each else size for i, size in enumerate(key)]
            program, computed, is_apart, lowered = self._lowered(shapes, known, len(sizes))
            if lowered.calls_python:
                raise NeedsLength("what Python functions compute")
            agreed = agreements(program, lowered.interface.agreed)
            told[:] = [(lookups(program), agreed, computed, is_apart, lowered.interface, lowered.measures)]
            return lowered.module

        def use(key: Key, lengths: Mapping[str, int], code: OpenCpu) -> V:
            ((fed, agreed, computed, is_apart, made, measures),) = told
            interface, bind = made.at(lengths), in_memory(code.at(lengths))
            if not measures:
                of = self._shapes(shapes, key)
                guard = partial(self._finding().get, of) if is_apart else None
                bind = looking(fed, agreed, computed, interface, bind, guard)
            return self.use(Compiled(interface, bind, measures))

        return programs.for_lengths(
            key,
            naming.at,
            [Make(make)],
            use,
            follows=naming.follows,
            first=True,
            of_sequences=self._opens_at_once,
        )

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


def _solved(
    zero: Expression, each: Mapping[str, Expression], lengths: Mapping[str, int], are_named: bool
) -> Mapping[str, Expression]:
    """What the lengths are where an expression is 0, if it is for these ones; `are_named`: where one length is another."""
    found = [
        (name, length)
        for name, length in zero.solutions()
        if lengths[name] == length.value(lengths) and bool(length.name) == are_named
    ]
    if not found:
        return each
    order = list(lengths)
    name, length = max(found, key=lambda solution: order.index(solution[0]))  # the first one keeps its name
    return {n: of.replaced({name: length}) for n, of in each.items()}


class _Naming(NamedTuple):
    """The lengths of a key that are no constants in the code for it, by index, as they follow from named ones."""

    lengths: Mapping[int, Expression]

    @property
    def at(self) -> dict[int, str]:
        """The names of lengths."""
        return {i: length.name for i, length in self.lengths.items() if length.name}

    @property
    def follows(self) -> dict[int, Expression]:
        """The lengths without names, which are computed of the others."""
        return {i: length for i, length in self.lengths.items() if not length.name}

    def fits(self, key: Key) -> bool:
        """Whether lengths with the same name are equal, the others follow from these, and all constants are 0 or 1."""
        said: dict[str, int] = {}
        numbers = [i for i, n in enumerate(key) if isinstance(n, int)]
        return (
            all((key[i] >= SEVERAL) == (i in self.lengths) for i in numbers)
            and all(said.setdefault(name, key[i]) == key[i] for i, name in self.at.items())
            and all(length.value(said) == key[i] for i, length in self.follows.items())
        )


class _Stage(Generic[V]):
    """The programs for one number of known sizes."""

    def __init__(self, programs: Specialised[V]):
        self.programs = programs
        self._namings: list[_Naming] = []

    def fitting(self, key: Key) -> list[_Naming]:
        """The names of the lengths of a key under which code was made that may serve it."""
        return [each for each in self._namings if each.fits(key)]

    def added(self, naming: _Naming) -> _Naming:
        """Keeps names under which code is made."""
        self._namings.append(naming)
        return naming
