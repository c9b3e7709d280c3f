# SPDX-License-Identifier: Apache-2.0
"""The steps of an entry, bound to buffers, as callables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..support.artifact import Branch, Launch, Place, Repeat, Step
from .gpu_device import GpuDevice

Go = Callable[[], None]

#: How many sets of buffers have their steps cached; a training loop needs one.
BINDINGS = 16


def bound_steps(
    device: GpuDevice,
    module: Any,
    steps: Sequence[Step],
    address: Callable[[Place], int],
    before: Sequence[Any] = (),
    after: Sequence[Any] = (),
) -> list[Go]:
    """The steps in order: consecutive launches are one piece of the device, together with bound copies `before` and
    `after` them. With copies `after`, the last piece waits.

    The host evaluates the conditions of branches and loops: it waits for the device, and continues from there.
    """

    def is_true(flag: int) -> bool:
        answer = np.empty(1, np.uint8)
        device.copy_all_out([(flag, answer)])
        return bool(answer[0])

    def branch(flag: int, then: Sequence[Go], other: Sequence[Go]) -> Go:
        return lambda: run(then if is_true(flag) else other)

    def repeat(flag: int, asked: Sequence[Go], steps: Sequence[Go]) -> Go:
        def go() -> None:
            run(asked)
            while is_true(flag):
                run(steps)
                run(asked)

        return go

    def every(steps: Iterable[Step], before: Sequence[Any] = (), after: Sequence[Any] = ()) -> list[Go]:
        made: list[Go] = []
        launches = list(before)

        def finish(waits: bool = False) -> None:
            if launches:
                made.append(device.piece(list(launches), waits))
                launches.clear()

        for step in steps:
            match step:
                case Launch():
                    if prod(step.grid):  # an empty grid has nothing to do, and no GPU accepts one
                        places = [address(place) for place in step.buffers]
                        launches.append(
                            device.bind(
                                module, step.kernel, step.grid, step.threads, step.shared_bytes, places
                            )
                        )
                case Branch():
                    finish()
                    made.append(branch(address(step.flag), every(step.then), every(step.other)))
                case Repeat():
                    finish()
                    made.append(repeat(address(step.flag), every(step.asked), every(step.steps)))
        launches += after
        finish(waits=bool(after))
        return made

    return every(steps, before, after)


def run(steps: Iterable[Go]) -> None:
    """Runs the steps in order."""
    for step in steps:
        step()
