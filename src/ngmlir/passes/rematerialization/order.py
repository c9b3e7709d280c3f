# SPDX-License-Identifier: Apache-2.0
"""An order of steps in which values are needed for a shorter time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .steps import Held, Step

#: So many steps are looked at together, of which the first takes memory and the last give it back.
_TOGETHER = 6
#: Values of so many bytes do not count: rates, counters and the like.
_SMALL = 256


def early(steps: Sequence[Step]) -> list[Step]:
    """The steps in their order, but each as soon as it can run that gives more memory back than it takes, alone or with some that can
    run behind it: such as the gradient of a weight and the update that uses it up (list scheduling by memory, as in XLA). Steps on a few
    numbers run as soon as they can, so that others can.

    What a variable becomes is computed after all that reads what it was.
    """
    return _Scheduling(steps).done


class _Scheduling:
    def __init__(self, steps: Sequence[Step]):
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
        self.touched: dict[
            Step, None
        ] = {}  # what became able to run, or to give memory back, since it was looked at
        for step in (*(s for s in steps if not self.missing[s] and _is_small(s)), *steps):
            if step not in self.ran:
                self.run([step])
                while chain := self.best():
                    self.run(chain)

    def run(self, chain: Sequence[Step]) -> None:
        for step in chain:
            self.done.append(step)
            self.ran.add(step)
            self.left.subtract(step.reads)
            for later in self.next[step]:
                self.missing[later] -= 1
            self.touched.update(dict.fromkeys(self.next[step]))
            self.touched.update(dict.fromkeys(reader for read in step.reads for reader in read.readers))

    def best(self) -> list[Step]:
        """The steps that should run now, before the next one in order; none where none should."""
        able = [step for step in self.touched if not self.missing[step] and step not in self.ran]
        small = [step for step in able if _is_small(step)]
        if small:
            return small
        chains = [chain for step in able if (chain := self.chain(step))]
        if not chains:
            self.touched = {}
            return []
        return max(chains, key=self.freed)

    def chain(self, first: Step) -> list[Step]:
        """A step, and those with which it gives most memory back; none where that is nothing."""
        chain, best, most = [first], 1, self.freed([first])
        while len(chain) < _TOGETHER:
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
