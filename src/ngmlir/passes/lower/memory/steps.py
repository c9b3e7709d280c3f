# SPDX-License-Identifier: Apache-2.0
"""The steps of a planned program: kernel launches, copies, loops and branches on buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ....ir.core import Op
from ....ir.types import MemRefType, TensorType, Type
from ....support.diagnostics import Location


@dataclass(eq=False)
class Buffer:
    """Bytes that hold values. `first` and `last` are the steps of its first and last use."""

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
    """The slice of a buffer at an iteration of a loop: what a scan's body sees of a sequence."""

    of: Buffer | Part
    whole: MemRefType  # of the sequence: the buffer may have another shape
    type: MemRefType
    loop: Loop


@dataclass(eq=False)
class Part:
    """A contiguous range of a buffer or a slice, from a byte offset on."""

    of: Buffer | Slot
    offset: int
    type: MemRefType


Storage = Buffer | Slot | Part


@dataclass(eq=False)
class Launch:
    op: Op
    places: list[Storage]


@dataclass(eq=False)
class Copy:
    source: Storage
    target: Storage
    location: Location
    update: bool = False  # copies the new value of a variable to its buffer, after everything else


@dataclass(eq=False)
class Loop:
    """A scan of `length` iterations, forwards or backwards."""

    length: int
    reverse: bool
    location: Location
    steps: list[Step] = field(default_factory=list["Step"])


@dataclass(eq=False)
class While:
    condition: list[Step]
    flag: Storage
    location: Location
    steps: list[Step] = field(default_factory=list["Step"])


@dataclass(eq=False)
class Choice:
    """A conditional. Each branch ends by copying its values to the buffers of `results`."""

    flag: Storage
    location: Location
    results: list[Buffer]
    then: list[Step] = field(default_factory=list["Step"])
    other: list[Step] = field(default_factory=list["Step"])


Step = Launch | Copy | Loop | While | Choice


def memref_of(type: Type) -> MemRefType:
    """The contiguous buffer of a tensor."""
    assert isinstance(type, TensorType) and type.static  # by the rules of the stage `kernels`
    return MemRefType(type.shape, type.element)


def buffer_of(home: Storage) -> Buffer:
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
    """The buffers that some steps read or write, including those in loops and branches."""
    return (buffer_of(home) for step in walk(steps) for home in storage_of(step))


def storage_of(step: Step) -> Sequence[Storage]:
    match step:
        case Launch():
            return step.places
        case Copy():
            return (step.source, step.target)
        case While() | Choice():
            return (step.flag,)
        case _:
            return ()
