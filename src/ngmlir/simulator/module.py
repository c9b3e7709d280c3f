# SPDX-License-Identifier: Apache-2.0
"""Runs PTX kernels in NumPy, for machines without a GPU.

A `Module` places the variables of a program in device memory and decodes its kernels; `launch` runs one over a grid, in
batches of blocks. Errors that a GPU does not report (accesses out of bounds, races, reads of copies in flight, shuffles
from inactive lanes, deadlocks) raise `SimulationFault`. Not modelled: relaxed memory order, clusters, the error of
approximate instructions, time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NoReturn

import numpy as np

from ..support.diagnostics import UserError
from .budget import at_launch
from .counters import Counters
from .fences import FencedTraffic
from .frame import Frame, Shape
from .kernel import Kernel, decode
from .limits import check_launch
from .memory import DeviceMemory
from .program import Instruction, Program
from .reader import read
from .sampling import representatives
from .schedule import run
from .traffic import Traffic

#: Threads of one batch: enough to amortise NumPy's cost per call, few enough to stay in the cache.
BATCH_THREADS = 1 << 15
#: Shared memory of all blocks of one batch.
BATCH_SHARED_BYTES = 1 << 25


class Module:
    """A PTX program loaded into `memory`."""

    def __init__(self, source: str, memory: DeviceMemory):
        self.program: Program = read(source)
        self.memory = memory
        self.addresses: dict[str, int] = {}
        self._kernels: dict[str, Kernel] = {}
        self._place_variables()

    def _place_variables(self) -> None:
        variables = [v for v in self.program.variables.values() if v.space in ("global", "const")]
        for variable in variables:
            self.addresses[variable.name] = self.memory.allocate(variable.bytes, variable.space == "global")
        for variable in variables:
            data = np.zeros(variable.bytes, np.uint8)
            data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            for offset, name, addend in variable.relocations:
                value = self.addresses.get(name, 0) + addend
                data[offset : offset + 8] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
            self.memory.bytes_at(self.addresses[variable.name], variable.bytes)[:] = data

    def kernel(self, name: str) -> Kernel:
        if name not in self._kernels:
            function = self.program.entries.get(name)
            if function is None:
                known = ", ".join(sorted(self.program.entries)) or "none"
                raise UserError(f"the PTX has no kernel {name!r}", hint=f"its kernels: {known}")
            self._kernels[name] = decode(self.program, function, self.addresses)
        return self._kernels[name]

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        threads: int | tuple[int, int, int],
        arguments: Sequence[int | bytes | np.generic],
        shared_bytes: int = 0,
        *,
        seed: int | None = None,
        check_races: bool = True,
        counters: Counters | None = None,
        batch_threads: int = BATCH_THREADS,
        step_limit: int = 5_000_000,
        sample: int | None = None,
    ) -> None:
        """Runs kernel `name` to its end. With a `seed`, warps and asynchronous copies run in a random order.

        `counters` count the costs of the launch on a GPU, which takes time; with a `sample`, about that many blocks
        run, and represent all (`sampling`). If blocks may wait for one another, all of them run.
        """
        kernel = self.kernel(name)
        shape_of_block = (threads, 1, 1) if isinstance(threads, int) else threads
        if len(arguments) != len(kernel.parameters):
            raise UserError(
                f"kernel {name!r} takes {len(kernel.parameters)} arguments, {len(arguments)} were given"
            )
        check_launch(
            kernel.function, self.program.target, grid, shape_of_block, kernel.static_shared, shared_bytes
        )
        shape = Shape(
            name,
            self.program.source,
            grid,
            shape_of_block,
            kernel.static_shared + shared_bytes,
            kernel.local_bytes,
            kernel.granule,
            check_races,
            kernel.proxies,
            at_launch(prod(shape_of_block), kernel.function.directives),
            kernel.watched,
            kernel.guesses,
        )
        parameters = self._pack(kernel, arguments)
        total = prod(grid)
        batch = max(1, batch_threads // shape.block_threads)
        batch = max(1, min(batch, BATCH_SHARED_BYTES // shape.shared_span, total))
        if counters is not None:
            counters.begin(kernel.function, total, shape.block_threads, shape.shared_bytes)
        random = np.random.default_rng(seed) if seed is not None else None

        def stop(kind: str, message: str, instruction: Instruction, thread: int) -> NoReturn:
            raise shape.fault(kind, message, instruction, thread)

        traffic = None
        if check_races and kernel.talks:
            granule, ordered = kernel.global_granule, kernel.ordered
            traffic = FencedTraffic(granule, shape.block_threads, total, ordered, stop)
        elif check_races:
            traffic = Traffic(kernel.global_granule, shape.block_threads, kernel.ordered, stop)
        few = total if sample is None or kernel.talks else sample
        parts: list[tuple[Counters, float]] = []
        with np.errstate(all="ignore"):
            for chosen, weight in representatives(total, few):
                part = None if counters is None else Counters()
                for first in range(0, len(chosen), batch):
                    frame = Frame(
                        shape,
                        kernel.slots.table,
                        kernel.function.registers,
                        self.memory,
                        parameters,
                        chosen[first : first + batch],
                        random,
                        traffic,
                        part,
                    )
                    run(frame, kernel.code, step_limit)
                if part is not None:
                    parts.append((part, weight))
            if traffic is not None:
                traffic.compare()
        if counters is not None:
            counters.end(parts, [(region.start, region.end) for region in self.memory.regions])

    def _pack(self, kernel: Kernel, arguments: Sequence[int | bytes | np.generic]) -> np.ndarray:
        data = np.zeros(-(-max(kernel.parameter_bytes, 1) // 16) * 16, np.uint8)
        for (offset, size), argument in zip(kernel.parameters, arguments, strict=True):
            if isinstance(argument, int):
                raw = (argument & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            else:
                raw = argument if isinstance(argument, bytes) else argument.tobytes()
            if len(raw) != size:
                raise UserError(
                    f"kernel {kernel.function.name!r}: an argument of {len(raw)} bytes, not {size}"
                )
            data[offset : offset + size] = np.frombuffer(raw, np.uint8)
        return data
