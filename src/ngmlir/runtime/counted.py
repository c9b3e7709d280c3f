# SPDX-License-Identifier: Apache-2.0
"""What the kernels of a program ask of a GPU, counted on the simulated one, with what ptxas says where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..simulator.counters import Counters, Requests
from ..support.artifact import Artifact
from ..support.machines import Gpu
from ..support.signature import Parameter
from . import ptxas
from .buffers import DTYPES
from .cuda_sim import CudaSimDevice
from .gpu import load


@dataclass(frozen=True)
class Counted:
    """One kernel of a program that ran once. `registers` and `spills` are None where there is no ptxas."""

    counters: Counters
    registers: int | None
    spills: int | None

    def blocks_at_once(self, gpu: Gpu) -> int:
        """Blocks that one multiprocessor holds."""
        return self.counters.blocks_at_once(gpu, self.registers or 0)

    def occupancy(self, gpu: Gpu) -> float:
        """The share of the threads of a multiprocessor that the kernel can have at once."""
        return min(1.0, self.blocks_at_once(gpu) * self.counters.threads / gpu.threads)

    def lines(self, gpu: Gpu) -> Iterator[str]:
        """What there is to say, as a person reads it."""
        c, launches = self.counters, max(1, self.counters.launches)
        every = Requests(0, c.reads.parts + c.writes.parts, c.reads.ideal + c.writes.ideal)
        registers = "registers not known without ptxas"
        if self.registers is not None:
            registers = f"{self.registers} registers" + (f", {self.spills} spilled bytes" * bool(self.spills))
        seconds, what = c.bound(gpu, self.registers or 0)
        mix = ", ".join(f"{kind} {n / max(1, c.warp_instructions):.0%}" for kind, n in c.mix.most_common(5))
        yield f"{c.blocks // launches} blocks of {c.threads} threads, {registers}, {c.shared_bytes} bytes of shared memory"
        yield f"occupancy {self.occupancy(gpu):.0%} ({self.blocks_at_once(gpu)} blocks a multiprocessor), useful threads {c.useful_threads:.0%}"
        yield f"global sectors {every.ratio:.2f} of the ideal, shared wavefronts {c.shared.ratio:.2f}"
        yield f"instructions of warps: {c.warp_instructions // launches} ({mix})"
        yield f"{c.bytes_in_flight(gpu, self.registers or 0)} bytes in flight a multiprocessor"
        yield f"predicted: {1e6 * seconds:.2f} us at least, bound by {what}; not timed on a device"


def counted(artifact: Artifact, arch: str) -> list[Counted]:
    """Runs an entry of PTX once, on small numbers, and gives what each of its kernels asked for, in order of launching."""
    device = CudaSimDevice(count=True, check_races=False)
    program = load(artifact, device)
    program.run([_made_up(p) for p in program.signature.arguments])
    report = ptxas.assemble(artifact.code.decode(), arch) if ptxas.available() else None
    out: list[Counted] = []
    for name, counters in (device.counted or {}).items():
        found = report.kernels.get(name) if report is not None else None
        registers = None if found is None else found.registers
        out.append(Counted(counters, registers, None if found is None else found.spill_stores))
    return out


def _made_up(parameter: Parameter) -> np.ndarray:
    """Small numbers of an argument's type: positions stay inside."""
    random = np.random.default_rng(0)
    return random.integers(0, 3, parameter.shape).astype(DTYPES[parameter.dtype])
