# SPDX-License-Identifier: Apache-2.0
"""What memory a program takes, from the plan that it is compiled with: told before it runs.

Temporaries share memory in every program that is compiled, so `memory_optimize` and `release_memory` change nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ...compiler import lower as lower_module
from ...ir.literals import dtype_of
from ...ir.types import DYNAMIC, Type, shape_of
from ...op_graph.answers import answered
from ...pictures.memory import memory_plan
from ...programs.descriptions import Program as ProgramView
from ...programs.lower import lower
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean
from .feeding import offsets_of, with_io
from .framework import Program

_UNITS = ("B", "KB", "MB", "GB")


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of a program at the CPU: what it keeps from run to run, what is fed, what it gives, constants of the compiled program,
    and what it computes on the way (`planned`, and `separate` if nothing shared memory)."""

    state: int
    feeds: int
    results: int
    constants: int
    planned: int
    separate: int

    @property
    def peak(self) -> int:
        """All bytes that a run touches."""
        return self.state + self.feeds + self.results + self.constants + self.planned

    @property
    def most(self) -> int:
        """The peak, if nothing shared memory."""
        return self.peak - self.planned + self.separate


def memory_use(program: Program, batch_size: int) -> MemoryUse:
    """What a program takes where lengths that are not known are `batch_size`, and all that it computes and does not use is fetched."""
    top = program.view.top
    fed = {
        name: np.broadcast_to(
            np.zeros((), dtype_of(v.element)), [batch_size if n == DYNAMIC else n for n in v.shape]
        )
        for name, v in top.variables.items()
        if v.flag("data")
    }
    # As many sequences as rows.
    offsets = np.zeros(batch_size + 1, np.int32)
    fed |= dict.fromkeys(offsets_of(program.view, fed), offsets)
    read = {name for operator in program.view.walk() for name in operator.reads}
    written = dict.fromkeys(name for operator in top.operators for name in operator.writes)
    results = [name for name in written if name not in read and not top.visible(name).persistable]
    return memory_of(with_io(program.view, fed, results), batch_size)


def memory_of(program: ProgramView, sizes: int | Sequence[int]) -> MemoryUse:
    """What a program with its `feed` and `fetch` operators takes; `sizes` are the lengths that depend on values, as `lower` takes them."""
    lowered = lower(program, sizes=sizes)
    module = lower_module(lowered.module, "cpu")
    function = module.lookup(lowered.module.ops[0].symbol)
    assert function is not None
    # Arguments, results that are tied to none of these, constants, and the memory of temporaries.
    *buffers, _ = [_bytes(value.type) for value in function.block.args]
    count, feeds = len(lowered.module.ops[0].block.args), len(lowered.interface.feeds)
    given = count + len(lowered.fetches)
    plan = memory_plan(module, function.symbol)
    return MemoryUse(
        state=sum(buffers[feeds:count]),
        feeds=sum(buffers[:feeds]),
        results=sum(buffers[count:given]),
        constants=sum(buffers[given:]),
        planned=plan.size,
        separate=sum(held.stop - held.start for held in plan.held),
    )


def _bytes(type: Type) -> int:
    return int(np.prod(shape_of(type), dtype=np.int64)) * dtype_of(type).itemsize


@answered
def memory_usage(program: Program, batch_size: int) -> tuple[float, float, str]:
    """What a program takes for batches of a size: least, most, and the unit of both ("MB").

    The least is what it takes as it is compiled for the CPU: state, feeds, results, constants, and the planned memory of
    temporaries. The most is what it would take if no temporaries shared memory. Raises UserError where it cannot be compiled for such batches.
    """
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"memory_usage takes a program, not {program!r}")
    if batch_size < 1:
        raise UserError(f"a batch has one row or more, not {batch_size}")
    use = memory_use(program, batch_size)
    step = next((i for i in range(len(_UNITS)) if use.most < 1024 ** (i + 1)), len(_UNITS) - 1)
    return use.peak / 1024**step, use.most / 1024**step, _UNITS[step]


def _check(program: Program, skip_opt_set: Collection[str] | None) -> None:
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a program, not {program!r}")
    for name in skip_opt_set or ():
        if program.view.top.find(name) is None:
            raise UserError(
                f"the program has no variable '{name}' to skip",
                hint=did_you_mean(name, program.view.top.variables),
            )


@answered
def memory_optimize(
    input_program: Program,
    skip_opt_set: Collection[str] | None = None,
    print_log: bool = False,
    level: int = 0,
) -> None:
    """Has temporaries share memory, which they do in any case; with `print_log` it prints what that saves for a batch of one row.

    What is fetched is kept, so nothing needs to be skipped. Raises UserError for a name in `skip_opt_set` that the program does
    not have, and for another level than 0 (memory of equal shapes) and 1 (of any).
    """
    _check(input_program, skip_opt_set)
    if level not in (0, 1):
        raise UserError(f"the level is 0 or 1, not {level!r}")
    if print_log:
        use = memory_use(input_program, 1)
        print(
            f"memory of temporaries, batch of 1: {use.planned:,} bytes, {use.separate:,} without sharing",
            file=sys.stderr,
        )


@answered
def release_memory(input_program: Program, skip_opt_set: Collection[str] | None = None) -> None:
    """Has temporaries give their memory back as early as possible, which they do in any case."""
    _check(input_program, skip_opt_set)
