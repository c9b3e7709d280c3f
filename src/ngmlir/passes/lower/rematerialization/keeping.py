# SPDX-License-Identifier: Apache-2.0
"""Which values are kept, and which are computed again: a simulation of the steps within a limit of memory.

When something does not fit, the value is dropped that costs least to recompute, per byte and per time until its next use. Before that
use it is recomputed, with all dropped values that this needs. This is how M. Kirisame et al., "Dynamic Tensor Rematerialization"
(ICLR 2021), train in a fixed memory; here the steps are known in advance, so the time until the next use replaces the time since
the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from .steps import Step, StoredValue

#: The most steps that are executed, as a multiple of the number of steps.
_REPEATED = 8
#: Of a variable of at most this many bytes, both the old and the new value may be kept.
_SMALL = 4096


class LimitExceeded(Exception):
    """A step that exceeds the limit; `there` are the values in memory, none of which can be dropped, and those that it computes."""

    def __init__(self, step: Step, needed: int, there: Sequence[StoredValue], limit: float):
        super().__init__()
        self.step, self.needed, self.there, self.limit = step, needed, there, limit


class Execution(NamedTuple):
    """A step that is executed, and those of its results that it computes."""

    step: Step
    given: Collection[StoredValue]


def sequence(
    steps: Sequence[Step], dropped: Mapping[Step, Iterable[StoredValue]], limit: float
) -> list[Execution]:
    """The steps to be executed, some of them several times, such that memory never exceeds `limit` bytes. `dropped` are values that
    are not kept after a step. Raises LimitExceeded."""
    run = _Run(steps, limit)
    for step in steps:
        run.reach(step)
        for held in dropped.get(step, ()):
            run.drop(held)
    return run.done


class _Run:
    def __init__(self, steps: Sequence[Step], limit: float):
        self.limit, self.most = limit, _REPEATED * len(steps)
        self.place = {step: at for at, step in enumerate(steps)}
        self.now = 0
        self.used = 0
        self.there: dict[StoredValue, None] = {}
        self.done: list[Execution] = []
        self.uses: dict[StoredValue, list[int]] = {}  # the steps that have yet to read it, the last first
        for step in reversed(steps):
            for read in step.reads:
                self.uses.setdefault(read, []).append(self.place[step])
        #: Until when each step can be repeated: then a value that it depends on, directly or transitively, has changed.
        self.until: dict[Step, float] = {}
        for step in steps:
            above = [self.until[read.maker] for read in step.reads if read.bytes]
            changes = [self.place[change] for change, size in step.changes.items() if size > _SMALL]
            own = changes if step.repeatable else [-1]
            self.until[step] = min([inf, *above, *own])
        #: For each value, when the dropped values that are computed from it are needed again.
        self.wanted: dict[StoredValue, dict[StoredValue, float]] = {}

    # ---- when values are needed

    def next_use(self, held: StoredValue) -> float:
        """The next step that needs a value, directly or to recompute others; infinity if none does."""
        own = self.uses.get(held)
        return min([own[-1] if own else inf, *self.wanted.get(held, {}).values()])

    def in_memory(self, held: StoredValue) -> bool:
        return not held.bytes or held in self.there

    def missing(self, held: StoredValue) -> list[Step] | None:
        """The steps that have to be repeated to recompute a value; None if that is not possible."""
        found: dict[Step, None] = {}
        waiting = [held.maker]
        until = max([*self.uses.get(held, ())[:1], self.next_use(held)])
        while waiting:
            step = waiting.pop()
            if step in found:
                continue
            if self.until[step] < until:
                return None
            found[step] = None
            waiting += [read.maker for read in step.reads if not self.in_memory(read)]
        return list(found)

    # ---- running

    def reach(self, step: Step) -> None:
        """Executes a step, after those that have to be repeated for it."""
        self.now = self.place[step]
        stack = [step]
        while stack:
            top = stack[-1]
            gone = [read for read in top.reads if not self.in_memory(read)]
            if gone:
                stack.append(min(gone, key=lambda held: self.place[held.maker]).maker)
                continue
            locked = {read for each in stack for read in each.reads}
            self.do(top, locked, top is step)
            stack.pop()

    def do(self, step: Step, locked: Collection[StoredValue], is_first: bool) -> None:
        if is_first:
            for read in step.reads:
                self.uses[read].pop()
        given = dict.fromkeys(step.gives)
        while self.used + (needed := self.added(step, given)) > self.limit:
            own = [held for held in step.optional if held in given] if len(given) > 1 else []
            spare = [held for held in own if held in self.there or self.next_use(held) is inf]
            for held in spare[: len(given) - 1]:
                del given[held]
            if spare:
                continue
            best = self.cheapest([*self.there, *own], locked)
            if best is None:
                raise self.exceeded(step, needed)
            if best in own:
                del given[best]
                self.want(best)
            else:
                self.drop(best)
        self.done.append(Execution(step, given))
        if len(self.done) > self.most:
            raise self.exceeded(step, needed)
        for held in given:
            if held.bytes and held not in self.there:
                self.there[held] = None
                self.used += held.bytes
        if not is_first:
            for read in step.reads:
                for held in given:
                    self.wanted.get(read, {}).pop(held, None)
        self.release([*step.reads, *step.gives])

    def added(self, step: Step, given: Collection[StoredValue]) -> int:
        """The bytes that a step adds to those in memory."""
        return step.added(given, {read for read in step.reads if self.next_use(read) is inf})

    def exceeded(self, step: Step, needed: int) -> LimitExceeded:
        """The error at a step that needs `needed` more bytes."""
        there = dict.fromkeys([*self.there, *step.gives])
        return LimitExceeded(step, self.used + needed, [*there], self.limit)

    def release(self, values: Iterable[StoredValue]) -> None:
        """Frees the values that no later step needs."""
        for held in values:
            if held in self.there and self.next_use(held) is inf:
                del self.there[held]
                self.used -= held.bytes

    def cheapest(self, values: Iterable[StoredValue], locked: Collection[StoredValue]) -> StoredValue | None:
        """The value that costs least to recompute, per byte and per time until its next use; None if none can be dropped."""
        best, least = None, inf
        for held in values:
            if held in locked:
                continue
            steps = self.missing(held)
            if steps is None:
                continue
            time = self.next_use(held) - self.now + 1
            score = sum(step.cost for step in steps) / (held.bytes * time)
            if score < least:
                best, least = held, score
        return best

    def drop(self, held: StoredValue) -> None:
        """Drops a value that is needed later, if it can be recomputed."""
        if held not in self.there or self.missing(held) is None:
            return
        del self.there[held]
        self.used -= held.bytes
        self.want(held)

    def want(self, held: StoredValue) -> None:
        """Notes when a value that is not in memory is needed: what it is computed from is then needed too."""
        waiting = [held]
        while waiting:
            gone = waiting.pop()
            when = self.next_use(gone)
            for read in gone.maker.reads:
                known = self.wanted.setdefault(read, {})
                if known.get(gone, inf) > when:
                    known[gone] = when
                    if not self.in_memory(read):
                        waiting.append(read)
