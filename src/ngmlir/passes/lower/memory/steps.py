# SPDX-License-Identifier: Apache-2.0
"""What a planned program does: steps on buffers, loops and choices among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ....ir.core import Op
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, TensorType, Type
from ....support.diagnostics import Location


@dataclass(eq=False)
class Buffer:
    """Bytes that hold values. `first` and `last` are the steps between which it holds something needed."""

    bytes: int
    role: str  # "argument", "result", "constant", "prepared", "temporary"
    type: MemRefType
    name: str = ""
    index: int = 0
    first: int = 1 << 60
    last: int = -1
    offset: int = 0

    def use(self, step: int) -> None:
        self.first, self.last = min(self.first, step), max(self.last, step)


@dataclass(eq=False)
class Slot:
    """One slice per loop step of a buffer: what a scan's body sees of a sequence."""

    of: Buffer
    whole: MemRefType  # the sequence: the buffer may hold it under another shape
    type: MemRefType
    loop: Loop


@dataclass(eq=False)
class Part:
    """Some neighbouring elements of what a buffer or a slice of it holds, from a byte on."""

    of: Buffer | Slot
    offset: int
    type: MemRefType


Home = Buffer | Slot | Part


@dataclass(eq=False)
class Launch:
    op: Op
    places: list[Home]


@dataclass(eq=False)
class Copy:
    source: Home
    target: Home
    location: Location
    update: bool = False  # brings a variable's new value home, after everything else


@dataclass(eq=False)
class Loop:
    """`length` steps (a scan, forwards or backwards)."""

    length: int
    reverse: bool
    location: Location
    steps: list[Step] = field(default_factory=list["Step"])


@dataclass(eq=False)
class While:
    condition: list[Step]
    flag: Home
    location: Location
    steps: list[Step] = field(default_factory=list["Step"])


@dataclass(eq=False)
class Choice:
    """Each branch ends by copying what it gives to the buffers of `results`."""

    flag: Home
    location: Location
    results: list[Buffer]
    then: list[Step] = field(default_factory=list["Step"])
    other: list[Step] = field(default_factory=list["Step"])


Step = Launch | Copy | Loop | While | Choice


def memref_of(type: Type) -> MemRefType:
    """The contiguous buffer of a tensor."""
    assert isinstance(type, TensorType) and type.static  # by the rules of the stage `kernels`
    return MemRefType(type.shape, type.element)


def bytes_of(type: MemRefType) -> int:
    return type.size * item_bytes(type.element)


def buffer_of(home: Home) -> Buffer:
    while not isinstance(home, Buffer):
        home = home.of
    return home


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        match step:
            case Loop():
                yield from walk(step.steps)
            case While():
                yield from walk([*step.condition, *step.steps])
            case Choice():
                yield from walk([*step.then, *step.other])
            case _:
                pass


def used_in(steps: Sequence[Step]) -> Iterator[Buffer]:
    """The buffers that some steps read or write, those in loops and choices among them."""
    return (buffer_of(home) for step in walk(steps) for home in homes_of(step))


def homes_of(step: Step) -> Sequence[Home]:
    match step:
        case Launch():
            return step.places
        case Copy():
            return (step.source, step.target)
        case While() | Choice():
            return (step.flag,)
        case _:
            return ()
