# SPDX-License-Identifier: Apache-2.0
"""Profiles of the time of programs: by kernel with its source line, and by stage of compilation.

Programs that are compiled while a `Profile` is active record when each launch begins and ends; others are not changed.
With NGMLIR_TIMING=1, a profile of all programs of a process is printed at its end; NGMLIR_TIMING=FILE.json writes a
trace instead, for Perfetto (ui.perfetto.dev) or chrome://tracing.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.artifact import Artifact, Entry, Measure
from ..support.diagnostics import UserError
from ..support.files import write_file
from .threads import thread_count, using_threads

if TYPE_CHECKING:
    from .gpu_device import GpuDevice
    from .roof import Roof

#: The most launches of one call that are recorded; further ones are only counted.
_NOTES = 1 << 16
#: The most launches that are kept for a trace; sums include the others.
_EVENTS = 1 << 20
_HEADER, _NOTE = 3, 3


@dataclass
class Row:
    """One launch of a program, over all calls."""

    program: str
    measure: Measure
    calls: int = 0
    seconds: float = 0.0
    #: The shortest and the longest call, in seconds.
    shortest: float = float("inf")
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """Adds one call."""
        self.calls += 1
        self.seconds += seconds
        self.shortest, self.longest = min(self.shortest, seconds), max(self.longest, seconds)

    @property
    def flops(self) -> float | None:
        """Floating point operations per second."""
        done = self.measure.operations
        return None if done is None or not self.seconds else done * self.calls / self.seconds

    @property
    def bandwidth(self) -> float:
        """Bytes of operands and results per second."""
        return self.measure.bytes * self.calls / self.seconds if self.seconds else 0.0

    def share(self, of: Roof) -> float:
        """The fraction of the peak that is reached: of arithmetic or of memory, whichever is greater."""
        return max((self.flops or 0.0) / of.flops, self.bandwidth / of.bandwidth)


class Profile:
    """The time of programs that were compiled while it was active: `print(profile)`, `to_json()`, `trace()`,
    `write(path)`."""

    #: Whether it counts the costs of kernels on a simulated GPU, instead of their time on this machine.
    counts = False

    def __init__(self, threads: int | None = None) -> None:
        #: Threads of the programs, if not the default number.
        self.threads = threads
        self._rows: dict[tuple[int, int], Row] = {}
        self._events: list[tuple[str, int, int, Measure | None]] = []
        self.stages: dict[str, float] = {}
        self.lost = 0
        self._lock = Lock()

    def _roof(self) -> Roof:
        from .roof import roof  # imports LLVM

        with using_threads(self.threads):
            return roof(thread_count())

    @property
    def rows(self) -> list[Row]:
        """The launches with a recorded time, the longest first."""
        return sorted((row for row in self._rows.values() if row.calls), key=lambda row: -row.seconds)

    def clear(self) -> None:
        """Forgets all calls so far, such as warm-up calls."""
        with self._lock:
            self._rows.clear()
            self._events.clear()
            self.lost = 0

    def stage(self, name: str, seconds: float) -> None:
        """Adds time of a stage of compilation, which ends now."""
        end = time.perf_counter_ns()
        with self._lock:
            self.stages[name] = self.stages.get(name, 0.0) + seconds
            self._event(f"compile: {name}", end - int(seconds * 1e9), end, None)

    def call(
        self, program: str, key: int, measures: Sequence[Measure], table: np.ndarray, begin: int
    ) -> None:
        """Reads the records of one call of a program."""
        end = time.perf_counter_ns()
        notes: list[list[int]] = table[_HEADER : int(table[0])].reshape(-1, _NOTE).tolist()
        with self._lock:
            self.lost += int(table[2])
            self._event(f"@{program}", begin, end, None)
            for number, started, ended in notes:
                row = self._rows.get((key, number))
                if row is None:
                    row = self._rows[key, number] = Row(program, measures[number])
                row.add((ended - started) / 1e9)
                self._event(row.measure.kernel, started, ended, row.measure)

    def _event(self, name: str, begin: int, end: int, measure: Measure | None) -> None:
        if len(self._events) < _EVENTS:
            self._events.append((name, begin, end, measure))

    def counted_steps(
        self, device: GpuDevice, artifact: Artifact, entry: Entry, steps: Sequence[Callable[[], None]]
    ) -> list[Callable[[], None]]:
        """The steps of a program on a GPU; a profile that counts wraps them."""
        return list(steps)

    def _stages(self) -> list[str]:
        if not self.stages:
            return []
        whole = sum(self.stages.values())
        lines = [f"compiled in {whole:.3f} s"]
        for name, seconds in sorted(self.stages.items(), key=lambda each: -each[1]):
            lines.append(f"{seconds:10.3f} s {100 * seconds / (whole or 1):5.1f}%  {name}")
        return lines

    def __str__(self) -> str:
        """Two tables: the stages of compilation, and the launches, the longest first."""
        lines = self._stages()
        rows = self.rows
        if rows:
            most = self._roof()
            whole = sum(row.seconds for row in rows)
            lines.append(f"ran kernels for {whole * 1e3:.3f} ms; the roof is {most}")
            lines.append("  ms a call      %  calls     GF/s     GB/s  roof  kernel, from")
            lines += [_line(row, whole, most) for row in rows]
        if self.lost:
            lines.append(f"{self.lost} launches did not fit into the log and are not counted")
        return "\n".join(lines) or "nothing has run"

    def to_json(self) -> dict[str, Any]:
        """The same as numbers: seconds, operations and bytes per second, fraction of the peak."""
        rows = self.rows
        most = self._roof() if rows else None
        return {
            "stages": dict(self.stages),
            "roof": None if most is None else {"flops": most.flops, "bandwidth": most.bandwidth},
            "kernels": [
                {
                    "kernel": row.measure.kernel,
                    "program": row.program,
                    "source": source(row.measure),
                    "calls": row.calls,
                    "seconds": row.seconds,
                    "operations": row.measure.operations,
                    "bytes": row.measure.bytes,
                    "flops": row.flops,
                    "bandwidth": row.bandwidth,
                    "share": None if most is None else row.share(most),
                }
                for row in rows
            ],
            "lost": self.lost,
        }

    def trace(self) -> dict[str, Any]:
        """Events in the format of Chrome's tracing, which Perfetto reads; microseconds of the system's clock."""
        return {
            "displayTimeUnit": "ns",
            "traceEvents": [
                {
                    "name": name,
                    "cat": "kernel" if measure is not None else "call",
                    "ph": "X",
                    "pid": os.getpid(),
                    "tid": 1,
                    "ts": begin / 1e3,
                    "dur": (end - begin) / 1e3,
                    "args": {} if measure is None else {"source": source(measure), "bytes": measure.bytes},
                }
                for name, begin, end, measure in self._events
            ],
        }

    def write(self, path: str | Path) -> None:
        """Writes the trace to a file. UserError if that is not possible."""
        write_file(str(path), [json.dumps(self.trace()).encode()])


def source(measure: Measure) -> str:
    """The source line that a launch comes from; for a model without lines, the node."""
    place = measure.location
    return f"{place.file}:{place.line}" if place.known else place.file


def _line(row: Row, whole: float, most: Roof) -> str:
    flops = "-" if row.flops is None else f"{row.flops / 1e9:.1f}"
    return (
        f"{row.seconds / row.calls * 1e3:11.4f} {100 * row.seconds / (whole or 1):6.1f} {row.calls:6d} {flops:>8} "
        f"{row.bandwidth / 1e9:8.1f} {100 * row.share(most):4.0f}%  {row.measure.kernel}, {source(row.measure) or '?'}"
    )


_listening: ContextVar[Profile | None] = ContextVar("profile", default=None)


@contextmanager
def listening(profile: Profile | None) -> Generator[None]:
    """Makes a profile active: programs that are compiled inside are timed. None changes nothing."""
    if profile is None:
        yield
        return
    token = _listening.set(profile)
    try:
        yield
    finally:
        _listening.reset(token)


def current() -> Profile | None:
    """The active profile: of the innermost `listening`, else that of the environment."""
    return _listening.get() or (
        _of_process() if os.environ.get("NGMLIR_TIMING", "0") not in ("", "0") else None
    )


@cache
def _of_process() -> Profile:
    profile = Profile()

    def tell() -> None:
        wanted = os.environ.get("NGMLIR_TIMING", "")
        if not wanted.endswith(".json"):
            print(profile, file=sys.stderr)
            return
        try:
            profile.write(wanted)
        except UserError as error:
            print(f"NGMLIR_TIMING: {error}", file=sys.stderr)

    atexit.register(tell)
    return profile


class Timer:
    """The table of records of one program that was compiled while a profile was active."""

    def __init__(self, profile: Profile):
        self.profile = profile
        self.table = np.zeros(_HEADER + _NOTE * _NOTES, np.int64)
        self._lock = Lock()  # all calls share one table

    def run(self, name: str, key: int, measures: Sequence[Measure], call: Callable[[], None]) -> None:
        """Runs one call, and adds its records to the profile."""
        with self._lock:
            self.table[:_HEADER] = _HEADER, len(self.table), 0
            begin = time.perf_counter_ns()
            call()
            self.profile.call(name, key, measures, self.table, begin)
