# SPDX-License-Identifier: Apache-2.0
"""Orders of the steps with shorter live ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .steps import Step, StoredValue

#: Values of at most this many bytes are ignored: learning rates, counters and the like.
_SMALL = 256
#: The most steps that are considered together, of which the first may take memory and the last free it.
_TOGETHER = 6


def orders(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in several orders; which needs least memory depends on sizes and live ranges, so all are to be tried.

    The last is the order of the text. In the others, each step that frees more memory than it takes runs as early as it can (list
    scheduling by memory, as in XLA): alone; or with steps that it makes ready, such as the gradient of a weight and the update that
    consumes it, wherever that does not raise the peak, or anywhere. The new value of a variable is computed after all reads of the old
    one, where possible.
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
        self.left: Counter[StoredValue] = Counter()  # the number of steps that have yet to read a value
        for step in steps:
            readers = (reader for given in step.gives for reader in given.readers)
            self.next[step] = [*dict.fromkeys([*readers, *step.changes])]
            self.left.update(step.reads)
            for later in self.next[step]:
                self.missing[later] += 1
                self.before[later].append(step)
        self.done: list[Step] = []
        self.ran: set[Step] = set()
        self.live = self.peak = 0  # bytes in memory, and the peak so far
        #: Steps that became ready, or may free more memory, since they were considered.
        self.touched: dict[Step, None] = {}
        for step in steps:
            if not self.missing[step] and _is_small(step):
                self.follow(step)
        left = list(steps)
        while left:
            for step in left:
                if not self.missing[step]:
                    self.follow(step)
            # Where updates wait for each other, one of them runs anyway.
            blocked = [step for step in left if step not in self.ran]
            if len(blocked) == len(left):
                self.follow(next(s for s in left if all(read.maker in self.ran for read in s.reads)))
            left = blocked

    def follow(self, step: Step) -> None:
        """Runs a step, unless it has run, and the steps that should run after it."""
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
        """The bytes in memory after some steps, and the peak until then."""
        live, peak = self.live, self.peak
        used: Counter[StoredValue] = Counter()
        for step in chain:
            used.update(step.reads)
            ended = {read for read in step.reads if used[read] == self.left[read]}
            peak = max(peak, live + step.added(step.gives, ended))
            live += sum(given.bytes for given in step.gives)
            ended.update(given for given in step.gives if not self.left[given])
            live -= sum(held.bytes for held in ended)
        return live, peak

    def best(self) -> list[Step]:
        """The steps that should run now, before the next one in order; empty if there are none."""
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
        """A step, and those with which it frees most memory; empty if they free none."""
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
        """The continuations of a chain: a step that depends on it, preceded by its other dependencies, where these can run now."""
        for later in dict.fromkeys(later for step in chain for later in self.next[step]):
            lacking = [s for s in self.before[later] if s not in self.ran and s not in chain]
            if later not in chain and not any(self.missing[s] for s in lacking):
                yield [*lacking, later]

    def freed(self, chain: Sequence[Step]) -> int:
        """The bytes that some steps free in all; negative if they take more than they free."""
        reads = Counter(read for step in chain for read in step.reads)
        given = {held for step in chain for held in step.gives}
        last = sum(
            read.bytes for read, count in reads.items() if read not in given and self.left[read] == count
        )
        return last - sum(held.bytes for held in given if self.left[held] > reads[held])


def _is_small(step: Step) -> bool:
    """Whether a step takes and frees so little memory that only the steps after it matter."""
    return all(held.bytes <= _SMALL for held in (*step.reads, *step.gives)) and step.scratch <= _SMALL
