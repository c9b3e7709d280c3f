# SPDX-License-Identifier: Apache-2.0
"""An order of steps in which values are needed for a shorter time."""

from __future__ import annotations

from collections.abc import Sequence

from .steps import Held, Step


def early(steps: Sequence[Step]) -> list[Step]:
    """The steps in their order, but each that gives more memory back than it takes as soon as it can run, the most first: such as
    the update of a weight, once nobody else needs the gradient that it reads (list scheduling by memory, as in XLA).

    What a variable becomes is computed after all that reads what it was.
    """
    missing = dict.fromkeys(steps, 0)
    next_: dict[Step, list[Step]] = {step: [] for step in steps}
    left: dict[Held, int] = {}
    for step in steps:
        for later in {*(reader for given in step.gives for reader in given.readers), *step.changes}:
            next_[step].append(later)
            missing[later] += 1
        for read in step.reads:
            left[read] = left.get(read, 0) + 1
    ready = {step: None for step in steps if not missing[step]}

    def freed(step: Step) -> int:
        last = sum(read.bytes for read in step.reads if left[read] == 1)
        return last - sum(given.bytes for given in step.gives)

    done: list[Step] = []
    ran: set[Step] = set()

    def run(step: Step) -> None:
        done.append(step)
        ran.add(step)
        ready.pop(step, None)
        for read in step.reads:
            left[read] -= 1
        for later in next_[step]:
            missing[later] -= 1
            if not missing[later]:
                ready[later] = None

    for step in steps:
        if step in ran:
            continue
        run(step)
        while ready:
            best = max(ready, key=lambda s: (freed(s), -s.number))
            if freed(best) <= 0:
                break
            run(best)
    return done
