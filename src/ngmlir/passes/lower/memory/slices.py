# SPDX-License-Identifier: Apache-2.0
"""Which bytes of buffers steps access when: values of all steps of a loop can be written over others of which the loop has read the same
slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....ir.literals import bytes_of
from .steps import Buffer, Loop, Part, Slot, Step, Storage, buffer_of, storage_of, walk


@dataclass(frozen=True)
class Access:
    """An access to the bytes from `first` to `end` of a buffer, by a step of the program. In a loop `inner` is the step of its body; if
    that accesses one slice of these bytes at each iteration, `slice` is its size, and otherwise 0."""

    buffer: Buffer
    step: int
    first: int
    end: int
    inner: int = 0
    slice: int = 0

    def is_before(self, other: Access) -> bool:
        """Whether it accesses no byte any more that the other one has accessed, if both buffers begin at the same address."""
        if self.step < other.step or self.end <= other.first or other.end <= self.first:
            return True
        same = (self.step, self.first, self.end, self.slice) == (
            other.step,
            other.first,
            other.end,
            other.slice,
        )
        return same and self.slice > 0 and self.inner < other.inner


def accesses(steps: Sequence[Step]) -> Iterator[Access]:
    """The accesses of a program."""
    for number, step in enumerate(steps):
        loop = step if isinstance(step, Loop) else None
        for position, inner in enumerate(loop.steps if loop is not None else [step]):
            for each in walk([inner]):
                yield from (_access(home, number, loop, position) for home in storage_of(each))


def _access(home: Storage, step: int, loop: Loop | None, inner: int) -> Access:
    if isinstance(home, Part) and isinstance(home.of, Slot):
        home = home.of
    buffer, first, end, slice = buffer_of(home), 0, buffer_of(home).bytes, 0
    if isinstance(home, Slot):
        slice = bytes_of(home.type) if home.loop is loop else 0
        if isinstance(home.of, Part):
            first, end = _bytes_of(home.of)
    elif isinstance(home, Part):
        first, end = _bytes_of(home)
    return Access(buffer, step, first, end, inner, slice)


def _bytes_of(part: Part) -> tuple[int, int]:
    return part.offset, part.offset + bytes_of(part.type)
