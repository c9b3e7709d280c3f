# SPDX-License-Identifier: Apache-2.0
"""Which values are kept, and which are computed again: a run of the steps, in thought, in so much memory.

What does not fit has to go: the value whose computing again costs least for its bytes and the time until it is needed. Who needs it
then has it computed again, with all that is gone of what that needs. That is how M. Kirisame et al., "Dynamic Tensor
Rematerialization" (ICLR 2021), train in a fixed memory; here the steps are known beforehand, so the time until a value is needed
stands for the time since it was used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from .steps import Held, Step

#: So many times as many steps as there are may be done in all.
_REPEATED = 8
#: Of a variable of so many bytes both the old and the new value may as well be kept.
_SMALL = 4096


class Stuck(Exception):
    """A step that needs more than a limit, with what is `there`, and cannot be computed again."""

    def __init__(self, step: Step, needed: int, there: Sequence[Held], limit: float):
        super().__init__()
        self.step, self.needed, self.there, self.limit = step, needed, there, limit


def sequence(steps: Sequence[Step], dropped: Mapping[Step, Iterable[Held]], limit: float) -> list[Step]:
    """The steps to be done, one after the other, some of them several times, so that what lies in memory never takes more than
    `limit` bytes. `dropped` are values that are not kept from the end of a step on. Raises Stuck."""
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
        self.there: dict[Held, None] = {}
        self.done: list[Step] = []
        self.uses: dict[
            Held, list[int]
        ] = {}  # the steps of the original order that are still to read it, the last first
        for step in reversed(steps):
            for read in step.reads:
                self.uses.setdefault(read, []).append(self.place[step])
        #: Until when each step can be done again: then what it is computed from, itself or on the way, has changed.
        self.until: dict[Step, float] = {}
        for step in steps:
            above = [self.until[read.maker] for read in step.reads if read.bytes]
            changes = [self.place[change] for change, size in step.changes.items() if size > _SMALL]
            own = changes if step.repeatable else [-1]
            self.until[step] = min([inf, *above, *own])
        #: When others that are gone, and are made of a value, are needed again.
        self.wanted: dict[Held, dict[Held, float]] = {}

    # ---- when values are needed

    def next_use(self, held: Held) -> float:
        """The next step that needs a value, itself or for what has to be computed again of it; infinity where none does."""
        own = self.uses.get(held)
        return min([own[-1] if own else inf, *self.wanted.get(held, {}).values()])

    def is_there(self, held: Held) -> bool:
        return not held.bytes or held in self.there

    def missing(self, held: Held) -> list[Step] | None:
        """The steps that have to be done again to have a value again; None where that cannot be."""
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
            waiting += [read.maker for read in step.reads if not self.is_there(read)]
        return list(found)

    # ---- running

    def reach(self, step: Step) -> None:
        """Does a step, after those that have to be done again for it."""
        self.now = self.place[step]
        stack = [step]
        while stack:
            top = stack[-1]
            gone = [read for read in top.reads if not self.is_there(read)]
            if gone:
                stack.append(min(gone, key=lambda held: self.place[held.maker]).maker)
                continue
            locked = {read for each in stack for read in each.reads if read in self.there}
            self.do(top, locked, top is step)
            stack.pop()

    def do(self, step: Step, locked: Collection[Held], is_first: bool) -> None:
        if is_first:
            for read in step.reads:
                self.uses[read].pop()
        ending = {read for read in step.reads if self.next_use(read) is inf}
        needed = step.scratch + sum(given.bytes for given in step.gives) - step.saved(ending)
        while self.used + needed > self.limit:
            best = self.cheapest(locked)
            if best is None:
                raise Stuck(step, self.used + needed, [*self.there], self.limit)
            self.drop(best)
        self.done.append(step)
        if len(self.done) > self.most:
            raise Stuck(step, self.used + needed, [*self.there], self.limit)
        for given in step.gives:
            if given.bytes and given not in self.there:
                self.there[given] = None
                self.used += given.bytes
        if not is_first:
            for read in step.reads:
                for given in step.gives:
                    self.wanted.get(read, {}).pop(given, None)
        self.release([*step.reads, *step.gives])

    def release(self, values: Iterable[Held]) -> None:
        """Lets go what nothing needs any more."""
        for held in values:
            if held in self.there and self.next_use(held) is inf:
                del self.there[held]
                self.used -= held.bytes

    def cheapest(self, locked: Collection[Held]) -> Held | None:
        """The value that is best computed again: by its cost, for its bytes and for the time until it is needed."""
        best, least = None, inf
        for held in self.there:
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

    def drop(self, held: Held) -> None:
        """Lets a value go that is needed later, if it can be computed again; what it is computed from is needed then."""
        if held not in self.there or self.missing(held) is None:
            return
        del self.there[held]
        self.used -= held.bytes
        waiting = [held]
        while waiting:
            gone = waiting.pop()
            when = self.next_use(gone)
            for read in gone.maker.reads:
                known = self.wanted.setdefault(read, {})
                if known.get(gone, inf) > when:
                    known[gone] = when
                    if not self.is_there(read):
                        waiting.append(read)
