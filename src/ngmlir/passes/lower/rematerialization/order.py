# SPDX-License-Identifier: Apache-2.0
"""An order of steps in which values are needed for a shorter time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .steps import Held, Step

#: Values of so many bytes do not count: rates, counters and the like.
_SMALL = 256
#: So many steps are looked at together, of which the first may take memory and the last give it back.
_TOGETHER = 6


def orders(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in several orders; which needs least memory follows from sizes and lives, so all are to be tried.

    In all but the last, which is that of the text, each step that gives more memory back than it takes runs as soon as it can (list
    scheduling by memory, as in XLA): alone; or with some that it lets run, such as the gradient of a weight and the update that uses it up,
    wherever that raises no peak, or anywhere. What a variable becomes is computed after all that reads what it was, where
    that can be.
    """
    made = [
        _Scheduling(steps, together, rises).done
        for together, rises in ((1, True), (_TOGETHER, True), (_TOGETHER, False))
    ]
    found: list[list[Step]] = []
    for order in (*made, list(steps)):
        if order not in found:
            found.append(order)
    return found


class _Scheduling:
    def __init__(self, steps: Sequence[Step], together: int, rises: bool):
        self.together, self.rises = together, rises
        self.missing = dict.fromkeys(steps, 0)
        self.next: dict[Step, list[Step]] = {}
        self.before: dict[Step, list[Step]] = {step: [] for step in steps}
        self.left: Counter[Held] = Counter()  # how many steps are still to read a value
        for step in steps:
            readers = (reader for given in step.gives for reader in given.readers)
            self.next[step] = [*dict.fromkeys([*readers, *step.changes])]
            self.left.update(step.reads)
            for later in self.next[step]:
                self.missing[later] += 1
                self.before[later].append(step)
        self.done: list[Step] = []
        self.ran: set[Step] = set()
        self.live = self.peak = 0  # bytes in memory, and the most by now
        #: What became able to run, or to give memory back, since it was looked at.
        self.touched: dict[Step, None] = {}
        for step in steps:
            if not self.missing[step] and _is_small(step):
                self.follow(step)
        left = list(steps)
        while left:
            for step in left:
                if not self.missing[step]:
                    self.follow(step)
            # Where updates wait for each other, one of them does not.
            blocked = [step for step in left if step not in self.ran]
            if len(blocked) == len(left):
                self.follow(next(s for s in left if all(read.maker in self.ran for read in s.reads)))
            left = blocked

    def follow(self, step: Step) -> None:
        """Runs a step, if it has not, and what should run behind it."""
        if step not in self.ran:
            self.run([step])
            while chain := self.best():
                self.run(chain)

    def run(self, chain: Sequence[Step]) -> None:
        self.live, self.peak = self.after(chain)
        for step in chain:
            self.done.append(step)
            self.ran.add(step)
            self.left.subtract(step.reads)
            for later in self.next[step]:
                self.missing[later] -= 1
            self.touched.update(dict.fromkeys(self.next[step]))
            self.touched.update(dict.fromkeys(reader for read in step.reads for reader in read.readers))

    def after(self, chain: Sequence[Step]) -> tuple[int, int]:
        """What lies in memory after some steps, and the most that has by then."""
        live, peak = self.live, self.peak
        used: Counter[Held] = Counter()
        for step in chain:
            live += sum(given.bytes for given in step.gives)
            used.update(step.reads)
            ended = {read for read in step.reads if used[read] == self.left[read]}
            peak = max(peak, live + step.scratch - step.saved(ended))
            ended.update(given for given in step.gives if not self.left[given])
            live -= sum(held.bytes for held in ended)
        return live, peak

    def best(self) -> list[Step]:
        """The steps that should run now, before the next one in order; none where none should."""
        self.touched = {step: None for step in self.touched if step not in self.ran}
        ready = [step for step in self.touched if not self.missing[step]]
        small = [step for step in ready if _is_small(step)]
        if small:
            return small
        chains = {step: self.chain(step) for step in ready}
        for step, chain in chains.items():
            if not chain:
                del self.touched[step]  # until something else changes
        able = [c for c in chains.values() if c and (self.rises or self.after(c)[1] <= self.peak)]
        return max(able, key=self.freed) if able else []

    def chain(self, first: Step) -> list[Step]:
        """A step, and those with which it gives most memory back; none where that is nothing."""
        chain, best, most = [first], 1, self.freed([first])
        while len(chain) < self.together:
            options = [*self.options(chain)]
            if not options:
                break
            chain += max(options, key=lambda more: self.freed([*chain, *more]))
            if self.freed(chain) > most:
                best, most = len(chain), self.freed(chain)
        return chain[:best] if most > 0 else []

    def options(self, chain: Sequence[Step]) -> Iterator[list[Step]]:
        """What can run behind some steps: one that needs these, with what else it needs, where that can run now."""
        for later in dict.fromkeys(later for step in chain for later in self.next[step]):
            lacking = [s for s in self.before[later] if s not in self.ran and s not in chain]
            if later not in chain and not any(self.missing[s] for s in lacking):
                yield [*lacking, later]

    def freed(self, chain: Sequence[Step]) -> int:
        """The bytes that some steps give back in all; negative for those that they take."""
        reads = Counter(read for step in chain for read in step.reads)
        given = {held for step in chain for held in step.gives}
        last = sum(
            read.bytes for read, count in reads.items() if read not in given and self.left[read] == count
        )
        return last - sum(held.bytes for held in given if self.left[held] > reads[held])


def _is_small(step: Step) -> bool:
    """Whether it does not matter for memory when a step runs, except that others can run behind it."""
    return all(held.bytes <= _SMALL for held in (*step.reads, *step.gives)) and step.scratch <= _SMALL
