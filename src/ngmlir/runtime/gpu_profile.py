# SPDX-License-Identifier: Apache-2.0
"""A profile of programs on the simulated GPU: the counted costs of each kernel, with the source lines it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..simulator.counters import Counters
from ..support.artifact import Artifact, Entry
from ..support.machines import Gpu
from .counted import Counted, registers_of, table
from .cuda_sim import CudaSimDevice
from .gpu_device import GpuDevice
from .gpu_steps import Go, run
from .timing import Profile, source


@dataclass
class _Program:
    """One entry of a program that was compiled while the profile was active."""

    artifact: Artifact
    entry: Entry
    counters: dict[str, Counters]

    def sources(self, kernel: str) -> list[str]:
        """The source lines that launches of a kernel come from."""
        return list(dict.fromkeys(source(m) for m in self.entry.measures if m.kernel == kernel))


@dataclass(frozen=True)
class GpuRow:
    """One kernel of a program, over all launches."""

    program: str
    sources: list[str]
    counted: Counted

    @property
    def calls(self) -> int:
        """How often it was launched."""
        return self.counted.counters.launches


class GpuProfile(Profile):
    """Like `Profile`, for `cuda-sim`: counts instead of times, and a lower bound on the time on `gpu` that follows from
    them.

    Nothing here is measured on a device. Counting makes the simulator slower.
    """

    counts = True

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()
        self.gpu = gpu
        self._programs: dict[tuple[int, str], _Program] = {}
        self._calls: list[tuple[_Program, dict[str, int]]] = []

    def clear(self) -> None:
        """Forgets all calls so far."""
        super().clear()
        for program in self._programs.values():
            program.counters.clear()
        self._calls.clear()

    def counted_steps(
        self, device: GpuDevice, artifact: Artifact, entry: Entry, steps: Sequence[Go]
    ) -> list[Go]:
        if not isinstance(device, CudaSimDevice):
            return list(steps)
        program = self._programs.setdefault(
            (id(artifact), entry.signature.name), _Program(artifact, entry, {})
        )

        def go() -> None:
            with device.counting(program.counters):
                before = {name: c.launches for name, c in program.counters.items()}
                run(steps)
                launched = {name: c.launches - before.get(name, 0) for name, c in program.counters.items()}
            self._calls.append((program, {name: n for name, n in launched.items() if n}))

        return [go]

    def _by_kernel(self) -> dict[tuple[int, str], GpuRow]:
        """The rows of all kernels, by program and kernel."""
        found: dict[tuple[int, str], GpuRow] = {}
        for program in self._programs.values():
            known = registers_of(program.artifact, self.gpu.name) if program.counters else {}
            for name, counters in program.counters.items():
                counted = Counted(counters, *known.get(name, (None, None)))
                row = GpuRow(program.entry.signature.name, program.sources(name), counted)
                found[id(program), name] = row
        return found

    @property
    def kernels(self) -> list[GpuRow]:
        """The kernels that were launched, those with the longest time first."""
        return sorted(self._by_kernel().values(), key=lambda row: -row.counted.seconds(self.gpu))

    def __str__(self) -> str:
        """The stages of compilation, and the kernels."""
        lines = self._stages()
        rows = self.kernels
        if rows:
            whole = sum(row.counted.seconds(self.gpu) for row in rows)
            lines.append(
                f"kernels take {whole * 1e6:.2f} us at least on {self.gpu.name}: counted, not timed on a device"
            )
            head, *each = table([row.counted for row in rows], self.gpu)
            lines.append(f"      % calls  {head}, from")
            for row, line in zip(rows, each, strict=True):
                share = row.counted.seconds(self.gpu) / (whole or 1)
                lines.append(f"{100 * share:7.1f} {row.calls:5}  {line}, {', '.join(row.sources) or '?'}")
        return "\n".join(lines) or "nothing has run"

    def to_json(self) -> dict[str, Any]:
        """The same as numbers: of one launch, in bytes and seconds."""
        return {
            "stages": dict(self.stages),
            "gpu": self.gpu.name,
            "kernels": [
                {
                    "kernel": row.counted.counters.kernel,
                    "program": row.program,
                    "source": next(iter(row.sources), ""),
                    "sources": row.sources,
                    "calls": row.calls,
                    **row.counted.to_json(self.gpu),
                }
                for row in self.kernels
            ],
        }

    def trace(self) -> dict[str, Any]:
        """Events in the format of Chrome's tracing, which Perfetto reads: all calls in sequence, each launch as long as
        its lower bound on the GPU."""
        rows, at = self._by_kernel(), 0.0
        events: list[dict[str, Any]] = []
        for program, launched in self._calls:
            begin = at
            for name, number in launched.items():
                row = rows[id(program), name]
                seconds, what = row.counted.bound(self.gpu)
                for _ in range(number):
                    told = {"source": ", ".join(row.sources), "bound": what}
                    events.append(_event(name, "kernel", at, seconds, told))
                    at += seconds
            events.append(_event(f"@{program.entry.signature.name}", "call", begin, at - begin, {}))
        return {"displayTimeUnit": "ns", "traceEvents": events}


def _event(name: str, kind: str, begin: float, seconds: float, told: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name, "cat": kind, "ph": "X", "pid": 1, "tid": 1, "ts": begin * 1e6, "dur": seconds * 1e6, "args": told,
    }  # fmt: skip
