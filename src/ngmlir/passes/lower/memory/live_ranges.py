# SPDX-License-Identifier: Apache-2.0
"""Live ranges of buffers, which buffers share memory, and the offset of each in the arena."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ....ir.core import Op, callee
from ....ops.fields import get_i64s
from ....support.arena import Part, assign_offsets, spacing
from ....support.lengths import ARENA, ARENA_PART, Length, is_open, is_same, usual
from ....support.target import Target
from .schedule import Schedule
from .slices import Access, accesses
from .steps import (
    Buffer,
    Choice,
    Copy,
    Launch,
    Loop,
    Slot,
    Step,
    Storage,
    While,
    buffer_of,
    storage_of,
    used_in,
    walk,
)


class Moves(NamedTuple):
    """Buffers that will use the memory of another one, and the copies that this makes redundant."""

    buffers: list[Buffer]
    copies: list[Copy]


class LiveRanges:
    """The first and last use of every buffer, then the sharing that these allow.

    `root(buffer)` is the buffer whose memory it uses, `dropped` are the steps (by id) that sharing makes redundant.
    """

    def __init__(self, schedule: Schedule, kernels: Mapping[str, Op]):
        self.schedule, self.kernels = schedule, kernels
        self.clock = 0
        self.times: dict[int, int] = {}
        self.parts: list[Part] = []
        self.ends: dict[int, int] = {}  # of loops and choices
        self.live(schedule.program)
        self.share(schedule.program)

    def arena(self, target: Target) -> int:
        """Assigns an offset to every temporary; returns the size of the arena. If sizes depend on open lengths, offsets and size are
        lengths too, which a call computes from `parts`."""
        buffers = self.schedule.buffers
        wanted = [b for b in buffers if b.role == "temporary" and b.last >= 0 and b not in self.moved]
        parts = [Part(b.bytes, b.first, b.last) for b in wanted]
        usual_parts = [Part(usual(b.bytes), b.first, b.last) for b in wanted]
        offsets, size = assign_offsets(usual_parts, *spacing(target))
        if is_open([b.bytes for b in wanted]):
            self.parts = parts
            offsets = [Length.named(f"{ARENA_PART}{i}", offset) for i, offset in enumerate(offsets)]
            size = Length.named(ARENA, size)
        for buffer, offset in zip(wanted, offsets, strict=True):
            buffer.offset = offset
        return size

    def live(self, steps: Sequence[Step]) -> None:
        """Numbers the steps and records the uses of buffers; a buffer used inside a loop but filled before is live for the whole loop."""
        for step in steps:
            self.times[id(step)] = self.clock
            match step:
                case Launch():
                    for home in step.places:
                        buffer_of(home).use(self.clock)
                case Copy():
                    buffer_of(step.source).use(self.clock)
                    # An update does not use the old value of the variable.
                    if not step.update:
                        buffer_of(step.target).use(self.clock)
                case Loop() | While() | Choice():
                    self.nested(step)
            self.clock += 1

    def nested(self, step: Loop | While | Choice) -> None:
        before = {b: b.first for b in self.schedule.buffers if b.last >= 0}
        start = self.clock
        self.clock += 1
        if isinstance(step, Choice):
            buffer_of(step.flag).use(start)
            self.live(step.then)
            self.live(step.other)
        elif isinstance(step, While):
            self.live(step.condition)
            buffer_of(step.flag).use(self.clock)
            self.clock += 1
            self.live(step.steps)
        else:
            self.live(step.steps)
        self.ends[id(step)] = self.clock
        for buffer in self.schedule.buffers:
            if buffer.last < start:
                continue
            if buffer in before:  # filled before the loop: every iteration may need it
                buffer.use(self.clock)
            elif not isinstance(step, Choice) and self.read_first(buffer, step):
                buffer.use(start)
                buffer.use(self.clock)

    def read_first(self, buffer: Buffer, step: Loop | While) -> bool:
        """Whether a buffer keeps values from one iteration to the next: one that is filled slice by slice."""
        return any(
            isinstance(home, Slot) and buffer_of(home) is buffer
            for inner in walk(step.steps)
            for home in storage_of(inner)
        )

    def share(self, steps: Sequence[Step]) -> None:
        """Lets outputs reuse the buffers of inputs whose last use this is, and new values those of their variables."""
        self.moved: dict[Buffer, Buffer] = {}
        self.sliced: dict[Buffer, Buffer] = {}  # of them, those that are written slice by slice
        self.dropped: set[int] = set()
        final: dict[Buffer, Copy] = {
            s.source: s
            for s in steps
            if isinstance(s, Copy) and isinstance(s.source, Buffer) and s.source in self.schedule.wanted
        }
        wanted = self.preferred_variable(steps)
        for step in steps:
            time = self.times[id(step)]
            for source, target in self.given_on(step):
                if target in self.moved or target.role != "temporary":
                    continue
                variable, root = wanted.get(target), self.root(source)
                free = variable is None or (variable.last >= time and target not in self.schedule.wanted)
                if variable is root:  # the source uses the variable's buffer already
                    ends = source.last == time
                else:
                    ends = free and root.role == "temporary" and root.last == time
                if not ends or not is_same(root.bytes, target.bytes):
                    continue
                self.move(target, root, final.get(target))
                if isinstance(step, Copy):
                    self.dropped.add(id(step))
            if isinstance(step, Choice):
                for result in step.results:
                    variable = wanted.get(result)
                    if variable is not None and variable.last <= self.ends[id(step)]:
                        self.choose(step, result, variable, final.get(result))
            if not isinstance(step, Launch):
                continue
            for target in step.places:
                if (
                    isinstance(target, Buffer)
                    and target.first == time
                    and target in wanted
                    and target not in self.moved
                ):
                    variable = wanted[target]
                    if variable.last < time:
                        self.move(target, variable, final.get(target))
        for step in walk(steps):
            if isinstance(step, Loop | While):
                self.carry(step.steps)
        for step in walk(steps):
            if isinstance(step, Choice):
                for result in step.results:
                    self.choose(step, result, result)
        self.share_slices(steps)

    def share_slices(self, steps: Sequence[Step]) -> None:
        """Lets loops write values of all steps over others, slice by slice, where nothing reads these any more."""
        made: dict[Buffer, list[Access]] = {}
        for access in accesses(steps):
            made.setdefault(self.root(access.buffer), []).append(access)
        known = {b: a for b, a in made.items() if b.role == "temporary" and not is_open([b.bytes])}
        for target in sorted(known, key=lambda buffer: buffer.first):
            if not any(access.slice for access in known[target]):
                continue
            for source in known:
                overlap = source.first < target.first <= source.last
                if not overlap or source in self.moved or source.bytes != target.bytes:
                    continue
                if all(read.is_before(write) for write in known[target] for read in known[source]):
                    self.move(target, source, None)
                    self.sliced[target] = source
                    known[source] += known[target]
                    break

    def choose(self, step: Choice, result: Buffer, place: Buffer, copy: Copy | None = None) -> bool:
        """Lets both branches compute a result in `place`, if possible; otherwise `copy` copies it there. Returns whether it is."""
        if result in self.moved or not is_same(result.bytes, place.bytes):
            return False
        moves = self.in_branches(step, result, place, ())
        if moves is None:
            return False
        if place is not result:
            self.move(result, self.root(place), copy)
        for buffer in moves.buffers:
            self.move(buffer, self.root(place), None)
        self.dropped.update(map(id, moves.copies))
        return True

    def in_branches(
        self, choice: Choice, result: Buffer, place: Buffer, there: Collection[Buffer]
    ) -> Moves | None:
        """The moves with which either branch leaves a result in `place`, whose memory the buffers `there` use already; None if a branch
        still reads a value that it would have overwritten. No step after the choice reads the old contents of the place."""
        found = Moves([], [])
        for steps in (choice.then, choice.other):
            moves = self.in_branch(steps, result, place, there)
            if moves is None:
                return None
            found.buffers.extend(moves.buffers)
            found.copies.extend(moves.copies)
        return found

    def in_branch(
        self, steps: Sequence[Step], result: Buffer, place: Buffer, there: Collection[Buffer]
    ) -> Moves | None:
        """The same for one branch."""
        end, copy = next((n, s) for n, s in enumerate(steps) if isinstance(s, Copy) and s.target is result)
        given, whole, moves = copy.source, self.root(place), Moves([], [])
        uses = [{self.root(b) for b in used_in([step])} for step in steps]
        uses[end] = {self.root(buffer_of(given))}

        def holds(buffer: Buffer) -> bool:
            return self.root(buffer) is whole or buffer in there or buffer in moves.buffers

        def needed(number: int) -> bool:
            """Whether a step after this one reads the memory of the place."""
            return any(holds(buffer) for used in uses[number + 1 :] for buffer in used)

        if isinstance(given, Buffer) and holds(given):
            return Moves([], [copy])
        chain = self.on_the_way({given: place}, steps) if isinstance(given, Buffer) else {}
        for number, step in enumerate(steps):
            over = [target for source, target in self.given_on(step) if holds(source)]
            new = step.results if isinstance(step, Choice) else over
            if isinstance(step, Launch):
                new = [b for b in step.places if isinstance(b, Buffer) and b.first == self.times[id(step)]]
            for target in new:
                fits = target in chain and target.role == "temporary" and is_same(target.bytes, place.bytes)
                if not fits or target in self.moved or holds(target):
                    continue
                # A kernel that does not work in place must not read the place either.
                if needed(number - 1 if isinstance(step, Launch) and target not in over else number):
                    continue
                if isinstance(step, Choice):
                    inner = self.in_branches(step, target, place, [*there, *moves.buffers])
                    if inner is None:
                        continue
                    moves.buffers.extend(inner.buffers)
                    moves.copies.extend(inner.copies)
                elif isinstance(step, Copy):
                    moves.copies.append(step)
                moves.buffers.append(target)
        if given in moves.buffers:
            return Moves(moves.buffers, [*moves.copies, copy])
        # Otherwise it is copied there, unless it is a part of a buffer that is there already.
        return None if holds(buffer_of(given)) or needed(end) else moves

    def given_on(self, step: Step) -> Iterator[tuple[Buffer, Buffer]]:
        """Pairs of a buffer that a step reads and one, filled for the first time, that it may compute in place of it. The step accesses
        the former only once."""
        pairs: list[tuple[Storage, Storage]] = []
        if isinstance(step, Launch):
            pairs = [(step.places[i], step.places[o]) for i, o in self.pairs(step)]
        elif isinstance(step, Copy) and not step.update:
            pairs = [(step.source, step.target)]
        for source, target in pairs:
            # Not for parts of a buffer and slices in a loop: other elements of the buffer may be needed.
            alone = [*map(buffer_of, storage_of(step))].count(buffer_of(source)) == 1
            if isinstance(source, Buffer) and isinstance(target, Buffer) and alone:
                if target.first == self.times[id(step)]:
                    yield source, target

    def preferred_variable(self, steps: Sequence[Step]) -> dict[Buffer, Buffer]:
        """Which variable's buffer a temporary should use: that of which it is the new value, or from which that is computed in place."""
        return self.on_the_way(dict(self.schedule.wanted), steps)

    def on_the_way(self, found: dict[Buffer, Buffer], steps: Sequence[Step]) -> dict[Buffer, Buffer]:
        """Extends `found`, the buffers that temporaries should use, to the temporaries from which these are computed in place."""
        for step in reversed(steps):
            branches = [*step.then, *step.other] if isinstance(step, Choice) else []
            pairs = [*self.given_on(step)]
            for copy in branches:
                if isinstance(copy, Copy) and isinstance(copy.source, Buffer):
                    pairs.append((copy.source, buffer_of(copy.target)))
            for source, target in pairs:
                same = target in found and is_same(source.bytes, target.bytes)
                if same and source.role == "temporary":
                    found.setdefault(source, found[target])
            self.on_the_way(found, branches)
        return found

    def carry(self, steps: Sequence[Step]) -> None:
        """Computes values that an iteration passes to the next one in place, where the old value is not needed any more."""
        back: dict[Buffer, tuple[int, Copy]] = {}
        into: dict[Buffer, Buffer] = {}
        for number, step in enumerate(steps):
            if isinstance(step, Copy) and isinstance(step.source, Buffer) and isinstance(step.target, Buffer):
                back[step.source], into[step.source] = (number, step), step.target
        ends = {into[source]: number for source, (number, _) in back.items()}
        wanted = self.on_the_way(into, steps)
        uses = [set(used_in([step])) for step in steps]
        held: dict[Buffer, set[Buffer]] = {}  # the buffers that use the memory of a carried value
        for number, step in enumerate(steps):
            for source, target in self.given_on(step):
                carried = wanted.get(target)
                if carried is None or target in self.moved or target.role != "temporary":
                    continue
                there, end = held.setdefault(carried, {carried}), ends[carried]
                needed = any(there & used for n, used in enumerate(uses) if n > number and n != end)
                # Until the next value is copied to that place; the source of this copy stays there.
                late = target not in back and any(target in used for used in uses[end + 1 :])
                if source not in there or needed or late or not is_same(source.bytes, target.bytes):
                    continue
                self.move(target, self.root(carried), back[target][1] if target in back else None)
                there.add(target)
                if isinstance(step, Copy):
                    self.dropped.add(id(step))
            if isinstance(step, Choice):
                for result in step.results:
                    if result not in back:
                        continue
                    carried = wanted[result]
                    there, end = held.setdefault(carried, {carried}), ends[carried]
                    needed = any(there & used for n, used in enumerate(uses) if n > number and n != end)
                    if not needed and self.choose(step, result, carried, back[result][1]):
                        there.add(result)

    def move(self, target: Buffer, place: Buffer, copy: Copy | None) -> None:
        """Lets `target` use the memory of `place`, so the copy between them is redundant."""
        self.moved[target] = place
        place.first, place.last = min(place.first, target.first), max(place.last, target.last)
        if copy is not None:
            self.dropped.add(id(copy))

    def root(self, buffer: Buffer) -> Buffer:
        while buffer in self.moved:
            buffer = self.moved[buffer]
        return buffer

    def pairs(self, step: Launch) -> Iterator[tuple[int, int]]:
        flat = get_i64s(self.kernels[callee(step.op)], "in_place")
        return zip(flat[::2], flat[1::2], strict=True)
