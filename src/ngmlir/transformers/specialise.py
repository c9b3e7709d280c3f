# SPDX-License-Identifier: Apache-2.0
"""The programs made from one source, each for certain lengths.

A call (lengths of axes, or shapes and element types) has a key: a tuple. A source is compiled for a key at the first
call with it. A program serves one key, or, on CPUs, all keys that differ in open lengths.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..ir.core import Module
from ..op_graph.source import user_location
from ..rewrite.remarks import remark
from ..runtime.targets import device_named
from ..runtime.threads import checked_threads, using_threads
from ..runtime.timing import Profile, listening
from ..support.collector import collecting_rarely
from ..support.diagnostics import Limit, UserError
from ..support.expressions import Expression
from ..support.lengths import LEAST, SEVERAL, NeedsLength
from ..support.lru import LruCache

if TYPE_CHECKING:
    from ..runtime.open_cpu import OpenCpu

V = TypeVar("V")
#: The topic of the remarks of this module.
TOPIC = "lengths"
Key = tuple[Any, ...]


def _steps_of_one(usual: Mapping[str, int]) -> Mapping[str, int]:
    return {}


class Make(NamedTuple):
    """How the function for all lengths is made: `module` gives it, with sizes that follow from these lengths; for lengths that are multiples
    of `steps`, by name, which are found out when they are needed, for about these lengths."""

    module: Callable[[Mapping[str, int]], Module]
    steps: Callable[[Mapping[str, int]], Mapping[str, int]] = _steps_of_one


@dataclass(frozen=True)
class _ForAll(Generic[V]):
    """Code for all lengths: `key` has None at the indices in `at`, which are lengths of these names, and in `follows`, which
    are computed of them; `program` makes the program for a key and the lengths of the code, or returns None if that is
    impossible. The lengths of keys are `steps` times those of the code."""

    key: Key
    at: Mapping[int, str]
    follows: Mapping[int, Expression]
    steps: Mapping[str, int]
    code: OpenCpu
    program: Callable[[Key, Mapping[str, int], OpenCpu], V | None]

    def find(self, key: Key) -> V | None:
        """The program for a key; None if the code does not serve it."""
        lengths = self._lengths(key)
        return self.program(key, lengths, self.code) if lengths and self.code.serves(lengths) else None

    def is_above(self, key: Key) -> bool:
        """Whether the code is for greater multiples than a length of a key, which other code is not for either; 0 and 1 are no lengths of
        code."""
        return any(
            length < SEVERAL <= length * self.steps.get(name, 1)
            for name, length in self._lengths(key).items()
        )

    def _lengths(self, key: Key) -> dict[str, int]:
        """The lengths of the code for a key; empty where it is a key of other code."""
        lengths = {name: key[i] for i, name in self.at.items() if i < len(key)}
        if _without(key, {**self.at, **self.follows}) != self.key:
            return {}
        if any(key[i] != lengths[name] for i, name in self.at.items()):
            return {}
        if any(key[i] != length.value(lengths) for i, length in self.follows.items()):
            return {}
        if any(lengths[name] % step for name, step in self.steps.items()):
            return {}
        return {name: length // self.steps.get(name, 1) for name, length in lengths.items()}


def _without(key: Key, places: Container[int]) -> Key:
    return tuple([None if i in places else part for i, part in enumerate(key)])


class Specialised(Generic[V]):
    """The programs made from one source for a target, by key. The `most` recently used are cached.

    Threads that ask for an existing program never wait for one that is being made. Programs are compiled under
    `profile`, for `threads` threads. Raises UserError for a target that does not exist.
    """

    def __init__(self, target: str, most: int, profile: Profile | None = None, threads: int | None = None):
        self.target, self.most, self.profile = target, most, profile
        self.device = device_named(target)
        self.threads = None if threads is None else checked_threads(threads)
        #: Held while a program is made.
        self.lock = RLock()
        #: Why there is no program for all lengths; "" if none has been requested, or there is one.
        self.refused = ""
        self._refused: set[tuple[Key, tuple[str, ...]]] = set()
        self._exact: LruCache[Key, V] = LruCache(most)
        self._for_any: list[_ForAll[V]] = []
        self._counted = 0

    def __len__(self) -> int:
        return len(self._exact)

    @property
    def has_code_for_all(self) -> bool:
        """Whether code for all lengths can be made."""
        return self.device.runs_on_host and self.profile is None

    def keys(self) -> list[Key]:
        """The keys that have a program, the least recently used first."""
        return self._exact.keys()

    def items(self) -> list[tuple[Key, V]]:
        """What it has programs for, with them."""
        return self._exact.items()

    @contextmanager
    def making(self) -> Generator[None]:
        """A program is made inside: no other thread makes one meanwhile."""
        with self.lock, listening(self.profile), using_threads(self.threads), collecting_rarely():
            yield

    def ready(self, key: Key) -> V | None:
        """A program that was found or added for a key before; None if there is none, or it was evicted."""
        return self._exact.find(key)

    def find(self, key: Key) -> V | None:
        """The program for a key; None if there is neither one yet, nor code that serves the key."""
        if (found := self.ready(key)) is not None:
            return found
        for code in self._for_any:
            if (found := code.find(key)) is not None:
                return self._exact.add(key, found)
        return None

    def add(self, key: Key, value: V) -> V:
        """Caches a program for a key."""
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

    def for_lengths(
        self,
        key: Key,
        at: Mapping[int, str],
        makes: Sequence[Make],
        program: Callable[[Key, Mapping[str, int], OpenCpu], V | None],
        entry: str | None = None,
        *,
        follows: Mapping[int, Expression] | None = None,
        first: bool = False,
        of_sequences: bool = False,
    ) -> V | None:
        """The program for a key from code for all lengths; `at` gives the names of the lengths at indices of a key, and
        `follows` others, which are computed of these.

        Such code is made for the second set of lengths (for the `first` if set): a caller with only one set gets code
        for that, and does not wait for more. The first of `makes` whose code is valid for all lengths is used. `program`
        makes the program for a key from that code, or returns None if it does not serve the key. Lengths of 0 and 1, for
        which different facts hold than for others, are constants in the code. That `of_sequences`, whose lengths are of all kinds, serves
        lengths of 1 too; a dense batch of one row is worth a program, which is faster. Returns None if the device does not support
        it, if all lengths are 0 or 1, or if no code is valid for all: `refused` says why.
        """
        if not self.has_code_for_all or not at:
            return None
        lengths = {name: key[i] for i, name in at.items()}
        if any(key[i] != lengths[name] for i, name in at.items()):
            return None  # one name for two different lengths
        few = {name: length for name, length in lengths.items() if length < SEVERAL}
        at = {i: name for i, name in at.items() if name not in few}
        follows = {} if few else follows or {}
        places = {**at, **follows}
        pattern = _without(key, places)
        keys = self.keys()
        others = first or any(_without(k, places) == pattern for k in keys if len(k) == len(key))
        if self.refuses(key, at, follows) or not at or not others or len(self._for_any) >= self.most:
            return None
        if any(code.is_above(key) for code in self._for_any):
            return None
        from ..compiler import compile_open

        usual = {name: length for name, length in lengths.items() if name not in few}
        why = ""
        for make in makes:
            try:
                steps = make.steps(usual)
                code = compile_open(
                    lambda opened, make=make: make.module({**few, **opened}),
                    usual,
                    steps=steps,
                    entry=entry,
                    least=LEAST if of_sequences else SEVERAL,
                )
                break
            except (NeedsLength, UserError, Limit) as error:  # programs for each length are correct too
                why = f"{type(error).__name__}: {error}"
        else:
            self.refused = why
            self._refused.add((pattern, tuple(at.values())))
            remark(TOPIC, f"a program for each length: {why}", user_location())
            return None
        # If it does not serve these lengths, it may serve the next.
        self._for_any.append(_ForAll(pattern, at, follows, steps, code, program))
        return self.find(key)

    def refuses(self, key: Key, at: Mapping[int, str], follows: Iterable[int] = ()) -> bool:
        """Whether no code is valid for all lengths of these names, and for those that `follows` has the indices of."""
        at = {i: name for i, name in at.items() if key[i] >= SEVERAL}
        return (_without(key, {*at, *follows}), tuple(at.values())) in self._refused

    def count(self, what: Callable[[int], str]) -> None:
        """Counts a program that serves only one key. Warns once if more are made than are cached; `what` returns the
        text for their number."""
        self._counted += 1
        if self._counted == self.most + 1:
            reasons = f"; there is none for all, because of {self.refused}" if self.refused else ""
            place = user_location()
            warnings.warn_explicit(
                f"{what(self._counted)}, and only {self.most} programs are kept; "
                f"pad batches to a few lengths, so that programs are reused{reasons}",
                UserWarning,
                place.file or "<unknown>",
                place.line,
            )
