# SPDX-License-Identifier: Apache-2.0
"""`ngmlir tune`: times how the kernel of each fusion can be cut on this machine, and writes the winners into the program.

What is predicted to be best competes with what is predicted to come next, then the fastest with its neighbours, one knob
turned at a time. The winners are text (`ng.schedule`) in the program that is written, and are obeyed wherever it is used.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..compiler import compile_module, resolve
from ..ir.core import Block, Module, Op, module
from ..ir.literals import dtype_of
from ..ir.structure import structure
from ..ir.types import FloatType, element_type, shape_of
from ..ops import func
from ..ops.builder import Builder, function
from ..ops.schedules import SCHEDULE, neighbours
from ..ops.settings import Schedule
from ..passes.schedule.choosing import buildable, candidates
from ..rewrite.pipeline_parser import parse_pipeline
from ..rewrite.sweep import sweep
from ..support.progress import Progress
from ..support.target import Target
from .importing import write_module
from .passes import PASSES
from .streams import Streams

#: A change must be faster by this much to be kept: less is noise.
GAIN = 0.97
#: Calls in a row are timed together for about this long, and so often.
SECONDS, ROUNDS = 0.002, 7
#: How often the fastest is compared with its neighbours.
CLIMBS = 3


def tune_file(parsed: Module, output: str, target: str, best: int, own: Streams) -> None:
    """Times the kernels of a program, writes the program with their schedules, and says what was gained."""
    machine = resolve(target)
    steps = parse_pipeline("canonical, check-target, fuse, chain", PASSES)
    fused = steps.from_stage_of(parsed).run(parsed, machine)
    fusions: dict[Hashable, Op] = {}

    def note(op: Op, _: Builder) -> None:
        fusions.setdefault(structure(op), op)

    whole = frozenset({"ng.fusion"})  # those of a chain have its schedule
    sweep(fused, note, whole, closed=whole)
    winners: dict[Hashable, Schedule] = {}
    lines: list[str] = []
    with Progress(len(fusions), "tuning") as progress:
        for key, fusion in fusions.items():
            winners[key], predicted, least = tuned(fusion, machine, target, best)
            lines.append(
                f"{fusion.location}: {predicted * 1e6:.1f} us as predicted, {least * 1e6:.1f} us "
                f"({predicted / least:.2f}x faster) with {winners[key].attribute()}"
            )
            progress.step(f"{predicted / least:.2f}x")

    def write(op: Op, builder: Builder) -> Sequence[Any]:
        attributes = {**op.attributes, SCHEDULE: winners[structure(op)].attribute()}
        return builder.add_op(op.rebuilt(attributes=attributes)).results

    write_module(sweep(fused, write, whole, closed=whole), output, own)
    for line in lines:
        own.say(line)


def tuned(fusion: Op, machine: Target, target: str, best: int) -> tuple[Schedule, float, float]:
    """The fastest schedule of one fusion, the seconds of the one that is predicted best, and its own."""
    trial = _Trial(fusion, target)
    tried = [c.schedule for c in candidates(fusion, machine)[: max(1, best)]]
    seconds = trial.seconds(tried)
    first = winner = tried[0]
    known: dict[Schedule, float] = dict(zip(tried, seconds, strict=True))
    for _ in range(CLIMBS):
        fastest = _fastest(known)
        if known[fastest] < GAIN * known[winner]:
            winner = fastest
        new = [s for s in neighbours(winner) if s not in known and buildable(s, machine, fusion)]
        if not new:
            break
        known |= zip(new, trial.seconds(new), strict=True)
        if min(known.values()) >= GAIN * known[winner]:
            break
        winner = _fastest(known)
    # Interleaved once more: what was timed at another time may have had other conditions.
    before, after = trial.seconds([first, winner])
    return (winner, before, after) if after < GAIN * before else (first, before, before)


def _fastest(known: Mapping[Schedule, float]) -> Schedule:
    return min(known, key=lambda schedule: known[schedule])


class _Trial:
    """One fusion as a separate program, with arguments to time it on."""

    def __init__(self, fusion: Op, target: str):
        self.fusion, self.target = fusion, target
        random = np.random.default_rng(0)
        self.arguments = [_sample(random, v.type) for v in fusion.operands]

    def program(self, schedule: Schedule) -> Module:
        given = self.fusion.operands
        block = Block([v.type for v in given], [v.name for v in given])
        builder = Builder(block, self.fusion.location)
        attributes = {**self.fusion.attributes, SCHEDULE: schedule.attribute()}
        made = builder.add_op(self.fusion.rebuilt(block.args, attributes=attributes))
        builder.end(func.ReturnOp, *made.results)
        return module([function("main", block, {}, kind=func.FuncOp)])

    def seconds(self, schedules: Sequence[Schedule]) -> list[float]:
        """The least time of one call of each, taken in turns."""
        calls = [compile_module(self.program(s), self.target) for s in schedules]
        counts: list[int] = []
        for call in calls:
            call(*self.arguments)
            start = time.perf_counter()
            call(*self.arguments)
            counts.append(max(1, int(SECONDS / max(1e-9, time.perf_counter() - start))))
        least = [float("inf")] * len(calls)
        for _ in range(ROUNDS):
            for at, (call, count) in enumerate(zip(calls, counts, strict=True)):
                start = time.perf_counter()
                for _ in range(count):
                    call(*self.arguments)
                least[at] = min(least[at], (time.perf_counter() - start) / count)
        return least


def _sample(random: np.random.Generator, type: Any) -> np.ndarray[Any, Any]:
    """Ordinary numbers: none is slower to compute with than others."""
    element, shape = element_type(type), shape_of(type)
    values = (
        random.uniform(0.5, 1.5, shape) if isinstance(element, FloatType) else random.integers(0, 2, shape)
    )
    return np.asarray(values).astype(dtype_of(element))
