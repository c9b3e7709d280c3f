# SPDX-License-Identifier: Apache-2.0
"""Loads object code and calls it: `load(artifact)(x, y)` returns new arrays.

There are two ways to call the code. The fast one is a builtin made for the signature (see `entry`); calls that it does
not accept (lists, other element types, arrays with strides) go through `Call`, which converts the arguments or raises
an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

from ..support.artifact import Artifact, Check, Entry
from ..support.diagnostics import Bug, UserError
from ..support.memory import empty_bytes
from ..support.signature import Signature
from . import profile, timing, weights
from .buffers import DTYPES, Passing, empty_like, in_file, in_memory, where_it_lies
from .cache import default_cache, key_of
from .context import Context, invoke
from .entry import builtin
from .executable import Prepare, as_array, check_count, in_place, raise_noted
from .library import Library
from .pool import default_pool
from .profile import SharedLibrary
from .shared import prepared

#: A call that accesses fewer bytes takes about as long as releasing and reacquiring the GIL.
_LARGE_BYTES = 64 * 1024
_numbers = count()


class Code:
    """Linked code with its constants and the buffers prepared from them; keeps all in memory.

    `key` identifies the artifact with all bytes of its constants: prepared buffers are looked up, and may be stored,
    under it (`runtime.weights`).
    """

    def __init__(self, artifact: Artifact, key: str | None = None):
        if artifact.kind != "object":
            raise Bug(f"{artifact.kind} code cannot be loaded by the CPU")
        self.artifact = artifact.without_spent()
        imports = {"ngmlir_parallel": default_pool().address}
        symbols = [entry.symbol for entry in (*artifact.entries, *artifact.prepared)]
        library = SharedLibrary if profile.wanted() else Library
        self.library = library(artifact.code, symbols, imports, artifact.kernels)
        constants = {i: c for i, c in enumerate(artifact.constants) if i not in artifact.spent}
        #: Constants that are in files, but not aligned as programs need them. The choice depends on nothing else, so it
        #: is the same in all processes.
        self._moved = [i for i, c in constants.items() if in_file(c) and where_it_lies(c) is None]
        self._key = (
            None if key is None else key_of("weights", key, _digest(artifact), repr(self._layout(artifact)))
        )
        found = self._found(artifact)
        #: Whether the prepared and moved buffers are mapped from the cache.
        self.kept = found is not None
        #: The prepared buffers, which other programs may share; empty if they are mapped.
        self.shared = [] if found else [prepared(artifact, entry) for entry in artifact.prepared]
        self.prepared, moved = found or ([a for each in self.shared for a in each.arrays], {})
        lasting = {i: moved[i] if i in moved else in_memory(c) for i, c in constants.items()}
        self.constants_in_memory = lasting
        self.checks = np.empty(len(artifact.checks), np.int64)
        self.checking = Lock()  # all calls share one buffer
        self.timer = timing.Timer(timing.current() or timing.Profile()) if artifact.timed else None
        tables = [self.checks, *self.prepared, *([self.timer.table] if self.timer else [])]
        addresses = [lasting[i].ctypes.data if i in lasting else 0 for i in range(len(artifact.constants))]
        addresses += [array.ctypes.data for array in tables]
        self.constants = (ctypes.c_void_p * len(addresses))(*addresses)
        if not self.kept:
            self._prepare(artifact)

    def _layout(self, artifact: Artifact) -> tuple[list[int], list[tuple[int, int]]]:
        """The layout of what is stored: the sizes of the prepared buffers, and the numbers and sizes of the moved
        constants."""
        return [p.bytes for p in artifact.kept], [(i, artifact.constants[i].bytes) for i in self._moved]

    def _found(self, artifact: Artifact) -> tuple[list[np.ndarray], dict[int, np.ndarray]] | None:
        """The prepared buffers and moved constants from the cache, or None."""
        store = default_cache()
        if store is None or self._key is None:
            return None
        prepared, moved = self._layout(artifact)
        arrays = weights.kept(store, self._key, prepared, [size for _, size in moved])
        if arrays is None:
            return None
        made = zip(arrays, artifact.kept, strict=False)
        return [a.view(DTYPES[p.dtype]).reshape(p.shape) for a, p in made], dict(
            zip(self._moved, arrays[len(prepared) :], strict=True)
        )

    @property
    def can_keep(self) -> bool:
        """Whether there is a key, and the prepared and moved buffers are large enough to store under it, fit, and are
        not stored yet."""
        store, moved = default_cache(), [self.constants_in_memory[i] for i in self._moved]
        size = sum(array.nbytes for array in (*self.prepared, *moved))
        return (
            store is not None
            and self._key is not None
            and not self.kept
            and weights.LEAST <= size <= store.weights_bytes
        )

    def keep(self) -> None:
        """Stores the prepared and moved buffers, if possible, for later loads with the same key."""
        store = default_cache()
        if store is not None and self._key is not None and self.can_keep:
            used = [array.reshape(-1).view(np.uint8) for array in self.prepared]
            weights.keep(store, self._key, used, [self.constants_in_memory[i] for i in self._moved])

    def touched(self, signature: Signature) -> int:
        """The most bytes that a call of a function reads and writes."""
        touched = sum(parameter.bytes for parameter in (*signature.arguments, *signature.results))
        touched += self.artifact.constant_bytes + sum(array.nbytes for array in self.prepared)
        return touched + signature.arena_bytes

    @property
    def is_watched(self) -> bool:
        """Whether checks or timings are read after each call, which a builtin does not do."""
        return bool(self.artifact.checks) or self.timer is not None

    def _prepare(self, artifact: Artifact) -> None:
        """Calls the functions that are called once. Constants that only they read are in memory only meanwhile: so no
        program needs more than a part of its constants in addition to the prepared buffers."""
        spent, passing = set(artifact.spent), Passing()
        # They run in sequence and share one arena, so that its pages are touched for the first time only once; those that need
        # most first, while little is prepared yet.
        arena, pairs = Arena(0), zip(artifact.prepared, self.shared, strict=True)
        for entry, made in sorted(pairs, key=lambda pair: pair[0].signature.arena_bytes, reverse=True):
            with made.filling:
                if made.ready:
                    continue
                needed = entry.signature.arena_bytes
                if not needed <= len(arena.bytes) <= 2 * needed:
                    arena = Arena(needed)
                numbers = [n for n in entry.reads if n in spent]
                arrays = passing.arrays([artifact.constants[n] for n in numbers])
                for number, array in zip(numbers, arrays, strict=True):
                    self.constants[number] = array.ctypes.data
                Program(self, entry, arena).run(made.arrays)
                for number in numbers:
                    self.constants[number] = None
                made.ready = True


def _digest(artifact: Artifact) -> str:
    """A digest of the artifact's code."""
    found = sha256()
    for code in (artifact.code, *artifact.kernels):
        found.update(sha256(code).digest())
    return found.hexdigest()


def touches_much(bytes: int) -> bool:
    """Whether calls that touch so many bytes are long enough to release the interpreter lock."""
    return bytes >= _LARGE_BYTES


class Arena:
    """Memory for the temporaries of a call, and a word that says whether a call uses it."""

    def __init__(self, size: int):
        self.bytes = empty_bytes(size)
        self.busy = ctypes.c_int64(0)


class Program:
    """One entry of linked code with an arena, its own unless one is given; keeps all that it needs in memory. `lengths`
    are the values of its open lengths, if it has any."""

    def __init__(
        self, code: Code, entry: Entry, arena: Arena | None = None, lengths: np.ndarray | None = None
    ):
        self.code = code
        self.entry, self.number = entry, next(_numbers)
        self.signature = signature = entry.signature
        self.arena = Arena(signature.arena_bytes) if arena is None else arena
        self._lengths = lengths
        #: Addresses that follow those of the buffers in the table of a call.
        self.behind = [] if lengths is None else [lengths.ctypes.data]
        self.context = Context(
            code.library[entry.symbol],
            self.arena.bytes.ctypes.data,
            ctypes.addressof(code.constants),
            signature.arena_bytes,
            ctypes.addressof(self.arena.busy),
        )

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        """One call on buffers that have been checked: the arguments, then the results."""
        addresses = [*(array.ctypes.data for array in arrays), *self.behind]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        if self.code.timer is not None and self.entry.measures:
            measures = self.entry.measures
            self.code.timer.run(self.signature.name, self.number, measures, lambda: self._run(table))
            return
        self._run(table)

    def _run(self, table: ctypes.Array[ctypes.c_void_p]) -> None:
        if not self.code.artifact.checks:
            invoke(self.context, table)
            return
        with self.code.checking:
            self.code.checks.fill(Check.FINE)
            invoke(self.context, table)
            raise_noted(self.code.artifact.checks, self.code.checks)


class Call:
    """A program with some arguments bound; called with the others, which it converts as needed."""

    def __init__(self, program: Program, bound: Mapping[int, np.ndarray]):
        self.program = program
        self.bound = dict(bound)
        signature = program.signature
        self.open = [i for i in range(len(signature.arguments)) if i not in self.bound]
        self.parameters = [signature.arguments[i] for i in self.open]
        self.overwritten = {argument for _, argument in signature.tied}
        #: The arrays that the program changes in place: no other argument may share memory with them.
        self.states = [self.bound[i] for i in sorted(self.overwritten & self.bound.keys())]

    def __call__(self, *values: Any) -> tuple[np.ndarray, ...]:
        signature = self.program.signature
        check_count(signature.name, self.parameters, values)
        arguments = dict(self.bound)
        for index, parameter, value in zip(self.open, self.parameters, values, strict=True):
            array = as_array(parameter, value, copy=index in self.overwritten)
            if any(np.may_share_memory(array, state) for state in self.states):
                array = array.copy()
            arguments[index] = array
        results: list[np.ndarray] = []
        returned: list[np.ndarray] = []
        for index, parameter in enumerate(signature.results):
            tied = signature.tied_argument(index)
            results.append(empty_like(parameter) if tied is None else arguments[tied])
            if tied not in self.bound:
                returned.append(results[-1])
        self.program.run([*(arguments[i] for i in range(len(arguments))), *results])
        return tuple(returned)


class CpuExecutable:
    """A compiled function on the CPU: `executable(x, y)` returns new arrays, one per result.

    Arguments are converted and copied as needed, and never changed. `entry` gives the program's other functions.
    """

    # Python looks up `__call__` on the class, where the slot's descriptor returns the builtin itself: a method would
    # take longer than the builtin does.
    __slots__ = ("__call__", "__weakref__", "program", "release_gil", "signature")
    __call__: Callable[..., tuple[np.ndarray, ...]]

    def __init__(self, code: Code, entry: Entry, *, release_gil: bool | None = None):
        self._set(Program(code, entry), release_gil)

    def _set(self, program: Program, release_gil: bool | None) -> None:
        self.program, code = program, program.code
        self.signature = signature = program.signature
        self.release_gil = touches_much(code.touched(signature)) if release_gil is None else release_gil
        self.__call__ = self._fastest(Call(self.program, {}), {})

    @staticmethod
    def of(program: Program, *, release_gil: bool | None = None) -> CpuExecutable:
        """The executable that calls a program."""
        made = object.__new__(CpuExecutable)
        made._set(program, release_gil)
        return made

    def entry(self, name: str) -> CpuExecutable:
        """Another function of the same program, sharing its code and constants. UserError if there is none of that
        name."""
        code = self.program.code
        return CpuExecutable(code, code.artifact.entry(name))

    def bind(
        self, arrays: Mapping[int, np.ndarray], prepare: Prepare | None = None
    ) -> Callable[..., tuple[np.ndarray, ...]]:
        """A callable for the arguments that `arrays` leaves open, in their order.

        Bound arrays are used in place. A result tied to one of them is written there and not returned. If the values of
        a call are not all arrays of the right kind, `prepare` converts them first.
        """
        signature = self.signature
        overwritten = {argument for _, argument in signature.tied}
        for index, array in arrays.items():
            if index not in range(len(signature.arguments)):
                count = len(signature.arguments)
                raise UserError(
                    f"{signature.name} has {count} arguments, so argument {index} cannot be bound"
                )
            in_place(signature.arguments[index], array, writable=index in overwritten)
        if (found := _shared(arrays, overwritten)) is not None:
            state, reader = (signature.arguments[i] for i in found)
            raise UserError(
                f"'{state.name}' changes, but '{reader.name}' is bound to the same memory",
                state.location,
                hint="bind a copy of one",
            )

        @cache
        def call() -> Callable[..., tuple[np.ndarray, ...]]:
            return self._fastest(Call(self.program, arrays), arrays)

        if prepare is None:
            return call()
        return self._fastest(lambda *values: call()(*prepare(values)), arrays)

    def _fastest(
        self, call: Callable[..., Any], bound: Mapping[int, np.ndarray]
    ) -> Callable[..., tuple[np.ndarray, ...]]:
        program = self.program
        if program.code.is_watched:
            return call  # a builtin does not read checks and timings after the call
        return builtin(self.signature, program.context, bound, self.release_gil, call, program.behind) or call


def _shared(arrays: Mapping[int, np.ndarray], changed: Collection[int]) -> tuple[int, int] | None:
    """The indices of a changed array and of another one that overlaps it; None if there are none. All are contiguous."""
    spans = [(a.__array_interface__["data"][0], a.nbytes, i) for i, a in arrays.items() if a.nbytes]
    #: The greatest end of the arrays so far, and the index of that array: of all, and of those that change.
    all_end, all_last, changed_end, changed_last = 0, 0, 0, 0
    for start, size, i in sorted(spans):
        if i in changed and start < all_end:
            return i, all_last
        if start < changed_end:
            return changed_last, i
        end = start + size
        if end > all_end:
            all_end, all_last = end, i
        if i in changed and end > changed_end:
            changed_end, changed_last = end, i
    return None


def load(
    artifact: Artifact, *, entry: str | None = None, release_gil: bool | None = None, key: str | None = None
) -> CpuExecutable:
    """Links the code; returns @main (or the only entry), or the entry asked for.

    `release_gil` lets other Python threads run during a call (by default, if it is large); `key` as for `Code`.
    """
    return CpuExecutable(Code(artifact, key), artifact.entry(entry), release_gil=release_gil)
