# SPDX-License-Identifier: Apache-2.0
"""Compiled code as bytes, with all that a device needs to load and call it (and no compiler)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from .diagnostics import UNKNOWN, Diagnostic, Location, UserError
from .signature import Parameter, Signature
from .spelling import did_you_mean


@dataclass(frozen=True)
class Place:
    """The location of a buffer: byte `offset` into argument, result, constant or prepared buffer number `index`, into the arena,
    or into the records of checks."""

    space: Literal["argument", "result", "arena", "constant", "checks", "prepared"]
    index: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch: `grid` blocks of `threads` threads, buffers by place, in parameter order."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    buffers: tuple[Place, ...]
    shared_bytes: int = 0  # dynamic shared memory


@dataclass(frozen=True)
class Branch:
    """Steps that run if the byte at `flag` is not 0 by then, and others that run if it is."""

    flag: Place
    then: tuple[Step, ...]
    other: tuple[Step, ...]


@dataclass(frozen=True)
class Repeat:
    """`asked` runs, and while the byte at `flag` is not 0 after it, `steps` and then `asked` again."""

    asked: tuple[Step, ...]
    flag: Place
    steps: tuple[Step, ...]


Step = Launch | Branch | Repeat


def launches_of(steps: Iterable[Step]) -> Iterator[Launch]:
    """All launches among steps, in order, whether or not they will run."""
    for step in steps:
        match step:
            case Launch():
                yield step
            case Branch():
                yield from launches_of((*step.then, *step.other))
            case Repeat():
                yield from launches_of((*step.asked, *step.steps))


@dataclass(frozen=True)
class Constant:
    """An array that the code reads: the bytes of `data`, `count` times, at a multiple of `alignment`.

    The buffer is used without a copy if it is aligned and immutable.
    """

    data: bytes | memoryview
    count: int = 1
    alignment: int = 64

    @property
    def bytes(self) -> int:
        return len(self.data) * self.count


@dataclass(frozen=True)
class Check:
    """Something that may go wrong in a checked program: what to say before and after the number that is wrong."""

    before: str
    after: str
    location: Location = UNKNOWN

    #: What a word of the program's buffer for checks holds where nothing is wrong.
    FINE: ClassVar[int] = -(1 << 63)

    def diagnostic(self, number: int) -> Diagnostic:
        return Diagnostic(f"{self.before} {number} {self.after}", self.location)


@dataclass(frozen=True)
class Measure:
    """What is known of a launch before it runs: the line (or node of a model) that it comes from, how many operations on
    floats it does (None where that depends on what is computed), and the bytes of all that it takes and gives."""

    kernel: str
    location: Location
    operations: int | None
    bytes: int


@dataclass(frozen=True)
class Entry:
    """One function to call: what it takes and gives and, of PTX, what it does, in order; of a timed program, what it
    launches; of one that is called once, the numbers of the constants that it `reads`, and a digest of what it does with
    them, equal in all programs that do the same ("" where that is not known)."""

    signature: Signature
    steps: tuple[Step, ...] = ()
    measures: tuple[Measure, ...] = ()
    reads: tuple[int, ...] = ()
    digest: str = ""

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernels that it launches, also those that a condition decides over."""
        return tuple(launches_of(self.steps))

    @property
    def symbol(self) -> str:
        """What an object file calls the function; no C function has such a name."""
        return f"{self.signature.name}.entry"


@dataclass(frozen=True)
class Artifact:
    """`code` is a relocatable object ("object") or PTX text ("ptx").

    Object: exports `void <entry.symbol>(ptr buffers, ptr arena, ptr constants)` per entry, where `buffers` points
    to one pointer per argument and then one per result, and `constants` to one per constant; it imports
    `ngmlir_parallel` (see runtime/pool_text.py) and what `kernels` export, more objects to be linked with it: a name of each
    says what it computes and tells it from every other. All entries share the constants. A checked program has one i64 per
    check, `Check.FINE` before each call; an object finds them behind the constants.

    A timed program records its launches in a table whose pointer follows all of these: i64 words, the index of the next record, the
    capacity, and the number of records that were dropped; then the records, of three words each: which of the entry's
    `measures`, and the nanoseconds of the system's clock when it began and ended.

    `prepared` are called once, in their order, when the code is loaded: without arguments, and with results that stay.
    These are numbered on from one to the next, and an object finds them behind the checks. Constants whose numbers are in
    `spent` have no other readers: each is needed only from the first of `prepared` that reads it to the last.
    """

    kind: Literal["object", "ptx"]
    code: bytes
    entries: tuple[Entry, ...]
    target: str  # triple, cpu and features, as the cache key needs them
    constants: tuple[Constant, ...] = ()
    checks: tuple[Check, ...] = ()
    kernels: tuple[bytes, ...] = ()
    prepared: tuple[Entry, ...] = ()
    spent: tuple[int, ...] = ()

    @property
    def timed(self) -> bool:
        """Whether its launches are noted."""
        return any(entry.measures for entry in (*self.entries, *self.prepared))

    @property
    def constant_bytes(self) -> int:
        """Memory that the constants take."""
        return sum(constant.bytes for constant in self.constants)

    @property
    def kept(self) -> list[Parameter]:
        """What is prepared, by number."""
        return [parameter for entry in self.prepared for parameter in entry.signature.results]

    def without_spent(self) -> Artifact:
        """The artifact without the constants that are not read after preparation."""
        if not self.spent:
            return self
        left = [replace(c, data=b"") if i in self.spent else c for i, c in enumerate(self.constants)]
        return replace(self, constants=tuple(left))

    def entry(self, name: str | None = None) -> Entry:
        """The entry of that name; without one @main, or the only one. UserError where there is none such."""
        found = {entry.signature.name: entry for entry in self.entries}
        if name is None and len(found) == 1:
            return self.entries[0]
        wanted = "main" if name is None else name
        if wanted not in found:
            known = [f"@{each}" for each in found]
            hint = did_you_mean(f"@{wanted}", known, f"its entries: {', '.join(known[:20]) or 'none'}")
            raise UserError(f"the program has no entry @{wanted}", hint=hint)
        return found[wanted]
