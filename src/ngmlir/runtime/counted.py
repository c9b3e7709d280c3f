# SPDX-License-Identifier: Apache-2.0
"""The costs of a program's kernels on a GPU, counted on the simulated GPU, with the registers that ptxas reports if it
is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..simulator.counters import Counters
from ..support.artifact import Artifact
from ..support.machines import Gpu
from ..support.signature import Parameter
from . import ptxas
from .buffers import DTYPES
from .cuda_sim import CudaSimDevice
from .gpu import GpuCode, GpuExecutable

#: Random numbers that are generated for an argument; a larger one repeats them.
_RANDOM = 1 << 16 | 1


@dataclass(frozen=True)
class Counted:
    """One kernel of a program that ran once. `registers` and `spills` are None without ptxas."""

    counters: Counters
    registers: int | None
    spills: int | None

    def blocks_at_once(self, gpu: Gpu) -> int:
        """Resident blocks per multiprocessor."""
        return self.counters.blocks_at_once(gpu, self.registers or 0)

    def occupancy(self, gpu: Gpu) -> float:
        """The fraction of a multiprocessor's threads that can be resident."""
        return min(1.0, self.blocks_at_once(gpu) * self.counters.threads / gpu.threads)

    def bytes_in_flight(self, gpu: Gpu) -> int:
        """Bytes of loads in flight on one multiprocessor."""
        return self.counters.bytes_in_flight(gpu, self.registers or 0)

    def bound(self, gpu: Gpu) -> tuple[float, str]:
        """A lower bound on the seconds of one launch, and the resource that limits it."""
        return self.counters.bound(gpu, self.registers or 0)

    def to_json(self, gpu: Gpu) -> dict[str, Any]:
        """All figures as numbers: of one launch, in bytes and seconds."""
        c, launches = self.counters, max(1, self.counters.launches)
        seconds, what = self.bound(gpu)
        return {
            "blocks": c.blocks // launches,
            "threads": c.threads,
            "registers": self.registers,
            "spills": self.spills,
            "shared_bytes": c.shared_bytes,
            "occupancy": self.occupancy(gpu),
            "useful_threads": c.useful_threads,
            "sectors": c.globally_asked.parts // launches,
            "sectors_per_request": c.globally_asked.per_request,
            "sectors_over_ideal": c.globally_asked.ratio,
            "wavefronts": c.shared.parts // launches,
            "wavefronts_per_request": c.shared.per_request,
            "wavefronts_over_ideal": c.shared.ratio,
            "instructions": c.warp_instructions // launches,
            "mix": {kind: number // launches for kind, number in c.mix.most_common()},
            "bytes": c.memory_bytes // launches,
            "bytes_in_flight": self.bytes_in_flight(gpu),
            "seconds": seconds,
            "bound": what,
            "bounds": c.bounds(gpu, self.registers or 0),
        }

    def seconds(self, gpu: Gpu) -> float:
        """A lower bound on the seconds of all its launches."""
        return self.counters.launches * self.bound(gpu)[0]

    def lines(self, gpu: Gpu) -> Iterator[str]:
        """All figures as text."""
        c, launches = self.counters, max(1, self.counters.launches)
        registers = "unknown registers (no ptxas)"
        if self.registers is not None:
            registers = f"{self.registers} registers" + (f", {self.spills} spilled bytes" * bool(self.spills))
        seconds, what = self.bound(gpu)
        mix = ", ".join(f"{kind} {n / max(1, c.warp_instructions):.0%}" for kind, n in c.mix.most_common(5))
        yield f"{c.blocks // launches} blocks of {c.threads} threads, {registers}, {c.shared_bytes} bytes of shared memory"
        yield f"occupancy {self.occupancy(gpu):.0%} ({self.blocks_at_once(gpu)} blocks per multiprocessor), active threads {c.useful_threads:.0%}"
        yield f"global sectors {c.globally_asked.ratio:.2f} times the minimum, shared wavefronts {c.shared.ratio:.2f}"
        yield f"instructions of warps: {c.warp_instructions // launches} ({mix})"
        yield f"{self.bytes_in_flight(gpu)} bytes in flight per multiprocessor"
        yield f"predicted: {1e6 * seconds:.2f} us at least, bound by {what}; not timed on a device"


def counted(
    artifact: Artifact, arch: str, sample: int | None = None, arguments: Sequence[np.ndarray] | None = None
) -> list[Counted]:
    """Runs the entries of PTX once, with the given arguments or with small numbers, and returns the counts of each of
    their kernels, in order of launching.

    With a `sample`, about that many blocks of each launch run, and their counts are scaled to all blocks
    (`simulator.sampling`): so programs of any size can be counted. The values that kernels compute are then wrong: a
    loop whose condition depends on them may not terminate.
    """
    device = CudaSimDevice(count=True, check_races=False, sample=sample)
    code = GpuCode(artifact, device)
    for entry in artifact.entries:
        GpuExecutable(code, entry).run(arguments or [_made_up(p) for p in entry.signature.arguments])
    known = registers_of(artifact, arch)
    return [Counted(c, *known.get(name, (None, None))) for name, c in (device.counted or {}).items()]


def registers_of(artifact: Artifact, arch: str) -> dict[str, tuple[int, int]]:
    """The registers of each kernel and its bytes of spills; empty if there is no ptxas that supports this architecture."""
    if not ptxas.available():
        return {}
    try:
        kernels = ptxas.assemble(artifact.code.decode(), arch).kernels
    except ptxas.UnknownArchitecture:
        return {}
    return {name: (found.registers, found.spill_stores) for name, found in kernels.items()}


def table(kernels: Sequence[Counted], gpu: Gpu) -> Iterator[str]:
    """A table with a header: for each kernel, the costs of one launch, and the bound on a GPU."""
    yield (
        f"{'us':>9} {'blocks':>8}{'threads':>8}{'regs':>5}{'occ.':>6}{'useful':>7}{'sectors':>8}{'banks':>6}"
        f"{'flight':>8}{'instr.':>10}  {'bound by':9} kernel"
    )
    for each in kernels:
        c = each.counters
        seconds, what = each.bound(gpu)
        registers = "-" if each.registers is None else each.registers
        yield (
            f"{1e6 * seconds:9.2f} {c.blocks // max(1, c.launches):8}{c.threads:8}{registers:>5}{each.occupancy(gpu):6.0%}"
            f"{c.useful_threads:7.0%}{c.globally_asked.ratio:8.2f}{c.shared.ratio:6.2f}{each.bytes_in_flight(gpu) / 1024:7.1f}K"
            f"{c.warp_instructions // max(1, c.launches):10}  {what:9} {c.kernel}"
        )


def _made_up(parameter: Parameter) -> np.ndarray:
    """Small numbers of an argument's type: used as indices they stay inside."""
    few = np.random.default_rng(0).integers(0, 3, min(prod(parameter.shape), _RANDOM))
    return np.resize(few.astype(DTYPES[parameter.dtype]), parameter.shape)
