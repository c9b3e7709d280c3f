# SPDX-License-Identifier: Apache-2.0
"""Programs that one source becomes, each for the lengths that calls have.

What a call gives (lengths of axes, or shapes and element types) is its key: a tuple. A source is compiled for a key when it is
first called so. A program serves one key, or, where rows are computed apart, all keys that differ in the number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..ir.core import Module, module
from ..op_graph.source import user_location
from ..rewrite.remarks import remark
from ..runtime.targets import device_named, resolve
from ..runtime.threads import checked_threads, using_threads
from ..runtime.timing import Profile, listening
from ..support.diagnostics import Diagnostic, Limit, UserError
from ..support.lengths import LEAST, NeedsLength
from ..support.lru import LruCache
from ..support.rows import Length

if TYPE_CHECKING:
    from ..runtime.cpu import CpuExecutable
    from ..runtime.open_cpu import OpenCpu
    from ..runtime.rows import CpuRows, GpuRows

V = TypeVar("V")
#: The topic of its remarks.
TOPIC = "lengths"
Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Open(Generic[V]):
    """A program that has served some numbers of rows: `key` has None in the places of that number."""

    key: Key
    value: V
    rows: CpuRows | GpuRows
    lengths: set[int]

    def serves(self, key: Key) -> bool:
        """One row may be computed by a program of its own, where it is broadcast; none, where there is nothing to compute."""
        if len(self.lengths) < 2 or len(key) != len(self.key):
            return False
        rows = {given for given, wanted in zip(key, self.key, strict=True) if wanted is None}
        same = all(wanted in (None, given) for given, wanted in zip(key, self.key, strict=True))
        return same and len(rows) == 1 and min(rows) > 1


@dataclass(frozen=True)
class _ForAll(Generic[V]):
    """Code for all lengths: `key` has None in the places `at` which keys have lengths, by name; `program` makes what runs it for a
    key, if that can be."""

    key: Key
    at: Mapping[int, str]
    code: OpenCpu
    program: Callable[[Key, CpuExecutable], V | None]

    def find(self, key: Key) -> V | None:
        """What runs it for a key; None where the code is not for that."""
        if _without(key, self.at) != self.key:
            return None
        lengths = {name: key[i] for i, name in self.at.items()}
        if any(key[i] != lengths[name] for i, name in self.at.items()):
            return None
        found = self.code.find(lengths)
        return None if found is None else self.program(key, found)


def _without(key: Key, places: Mapping[int, str]) -> Key:
    return tuple([None if i in places else part for i, part in enumerate(key)])


class Specialised(Generic[V]):
    """The programs of one source for a target: what runs them, by key. The `most` used last are kept.

    Threads that ask for one that is there never wait for one that is being made. A profile listens to what is made, which uses
    so many threads. Raises UserError for a target that does not exist.
    """

    def __init__(self, target: str, most: int, profile: Profile | None = None, threads: int | None = None):
        self.target, self.most, self.profile = target, most, profile
        self.device = device_named(target)
        self.threads = None if threads is None else checked_threads(threads)
        #: Held while a program is made.
        self.lock = RLock()
        #: By the name of a length: why each needs a program of its own.
        self.why: dict[str, Diagnostic] = {}
        #: Why there is no program for all lengths; "" where nobody has asked for one, or there is one.
        self.refused = ""
        self._refused: set[Key] = set()
        self._exact: LruCache[Key, V] = LruCache(most)
        self._rows: LruCache[Any, CpuRows | GpuRows] = LruCache(most)
        self._open: list[_Open[V]] = []
        self._for_any: list[_ForAll[V]] = []
        self._counted = 0

    def __len__(self) -> int:
        return len(self._exact)

    def keys(self) -> list[Key]:
        """Those that it has programs for, from the one not used for longest."""
        return self._exact.keys()

    @contextmanager
    def making(self) -> Generator[None]:
        """A program is made inside: no other thread makes one meanwhile."""
        with self.lock, listening(self.profile), using_threads(self.threads):
            yield

    def ready(self, key: Key) -> V | None:
        """What `find` or another has given for a key before; None where there is nothing such, or no longer."""
        return self._exact.find(key)

    def find(self, key: Key) -> V | None:
        """The program for a key; None where there is none yet, nor code that is right for it."""
        if (found := self.ready(key)) is not None:
            return found
        for each in self._open:
            if each.serves(key):
                return self._exact.add(key, each.value)
        for code in self._for_any:
            if (found := code.find(key)) is not None:
                return self._exact.add(key, found)
        return None

    def add(self, key: Key, value: V) -> V:
        """Keeps a program for a key."""
        return self._exact.add(key, value)

    def get(self, key: Key, make: Callable[[], V]) -> V:
        """The program for a key, made by the first thread that asks for it."""
        found = self.find(key)
        if found is None:
            with self.making():
                found = self.find(key)
                if found is None:
                    found = self.add(key, make())
        return found

    def add_open(self, key: Key, places: Sequence[int], value: V, rows: CpuRows | GpuRows) -> V | None:
        """Keeps a program for any number of `rows`, which is what these places of a key are. For a source of which nothing but the
        program follows from that number: where two numbers have given the same program, it serves others too; then, it is given."""
        length = key[places[0]]
        pattern = tuple([None if i in places else part for i, part in enumerate(key)])
        if length < 2:
            return None
        found = next((each for each in self._open if each.rows is rows and each.key == pattern), None)
        if found is None:
            found = _Open(pattern, value, rows, set())
            self._open = [*self._open[1 - self.most :], found]
        found.lengths.add(length)
        return found.value if len(found.lengths) > 1 else None

    def for_rows(self, of: Module, lengths: Sequence[Length] | None = None) -> CpuRows | GpuRows | None:
        """What runs a module of one function for any number of rows, along the first of these lengths that allows it: each is one
        of many, whatever the types say. Without `lengths`, along those that the types leave open. None where no length allows
        it: `why` has the reasons."""
        if not self.device.compiles or len(of.ops) != 1:
            return None
        # The compiler is loaded with the first program.
        from ..compiler import compile_blocks
        from ..ir.structure import fingerprint
        from ..passes.graph.sizes import decision, decisions

        main, machine = of.ops[0], resolve(self.target)
        for found in (
            decisions(main, machine)
            if lengths is None
            else (decision(main, length, machine) for length in lengths)
        ):
            found.tell()
            if found.blocks is None:
                self.why[found.length.name] = found.why
                continue
            key = found.blocks.signature, fingerprint(module(found.blocks.functions))
            return self._rows.find(key) or self._rows.add(key, compile_blocks(found.blocks, self.target))
        return None

    def for_lengths(
        self,
        key: Key,
        at: Mapping[int, str],
        makes: Sequence[Callable[[Mapping[str, int]], Module]],
        program: Callable[[Key, CpuExecutable], V | None],
        entry: str | None = None,
        *,
        first: bool = False,
    ) -> V | None:
        """The program for a key that code for all lengths gives; `at` says where a key has lengths, and what they are called.

        From the second lengths on (the `first`, if said so): who calls with one only has code made for that, and waits for no other.
        Each of `makes` gives the function with sizes that follow from lengths of these names: the first counts whose code is right
        for all. `program` gives what runs that code for the lengths of a key, None where it is not for these. Lengths of 0 and 1, of
        which other things are true than of more, are numbers in the code, which is for the others. None where that is not for this
        device, where all lengths are so few, or where no code is right for all: `refused` says why.
        """
        if not self.device.runs_on_host or self.profile is not None or not at:
            return None
        lengths = {name: key[i] for i, name in at.items()}
        if any(key[i] != lengths[name] for i, name in at.items()):
            return None  # one name for two lengths
        few = {name: length for name, length in lengths.items() if length < LEAST}
        at = {i: name for i, name in at.items() if name not in few}
        pattern = _without(key, at)
        keys = self.keys()
        others = first or any(_without(k, at) == pattern for k in keys if len(k) == len(key))
        if pattern in self._refused or not at or not others or len(self._for_any) >= self.most:
            return None
        from ..compiler import compile_open

        usual = {name: length for name, length in lengths.items() if name not in few}
        why = ""
        for make in makes:
            try:
                code = compile_open(lambda opened, make=make: make({**few, **opened}), usual, entry=entry)
                break
            except (NeedsLength, UserError, Limit) as error:  # a program for each length is as right
                why = f"{type(error).__name__}: {error}"
        else:
            self.refused = why
            self._refused.add(pattern)
            remark(TOPIC, f"a program for each length: {why}", user_location())
            return None
        # Where it is not for these lengths it may be for the next.
        self._for_any.append(_ForAll(pattern, at, code, program))
        return self.find(key)

    def count(self, what: Callable[[int], str]) -> None:
        """Counts a program that serves one key only. Warns once, where more are made than are kept: `what` says of so many what they
        are for."""
        self._counted += 1
        if self._counted == self.most + 1:
            reasons = "".join(f"; along {n} {w.message} ({w.location})" for n, w in self.why.items())
            reasons += f"; there is none for all, because of {self.refused}" if self.refused else ""
            place = user_location()
            warnings.warn_explicit(
                f"{what(self._counted)}, and only {self.most} programs are kept; "
                f"pad batches to a few lengths, so that programs are reused{reasons}",
                UserWarning,
                place.file or "<unknown>",
                place.line,
            )
