# SPDX-License-Identifier: Apache-2.0
"""Runs PTX kernels in NumPy: the GPU of every machine that has none.

A `Module` places the variables of a program in device memory and decodes its kernels; `launch` runs one over
a grid, as many blocks at a time as is good for speed. What a GPU would do wrongly in silence (accesses out of
bounds, races, reads of copies in flight, shuffles of lanes that are elsewhere, deadlocks) is a
`SimulationFault` here. Not modelled: proxy fences and relaxed memory order, clusters, the error of
approximate instructions, time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np

from ..support.diagnostics import UserError
from . import access, arithmetic, bits, budget, comparison, conversion, copies, matrix, moves, warp, wgmma
from .barriers import is_block_barrier
from .budget import at_launch, decode_ready
from .counters import Counters
from .decoding import Reader, decoder_of, reader
from .formats import STORAGE
from .frame import WARP, Frame, Shape
from .inline import expand_calls
from .limits import check_launch
from .mbarriers import decode_wait
from .memory import DeviceMemory
from .program import (
    Address,
    Function,
    Instruction,
    Integer,
    Operand,
    Pair,
    Program,
    Register,
    Symbol,
    Variable,
    Vector,
)
from .reader import read
from .registers import Slots
from .sampling import representatives
from .schedule import Code, Operation, run
from .traffic import Traffic
from .unset import Watched, watch
from .warp import member_mask_operand

#: The modules whose import fills the table of decoders.
OPERATIONS = (access, arithmetic, bits, budget, comparison, conversion, copies, matrix, moves, warp, wgmma)

#: Threads of one batch: enough to hide NumPy's cost per call, few enough to stay in the cache.
BATCH_THREADS = 1 << 15
#: Shared memory of one batch, all blocks together.
BATCH_SHARED_BYTES = 1 << 25

_ALIGNED_WARP = {"mma", "ldmatrix", "stmatrix", "movmatrix"}


@dataclass
class Kernel:
    """A decoded entry function."""

    function: Function
    code: Code
    slots: Slots
    parameters: tuple[tuple[int, int], ...]  # (offset, bytes)
    parameter_bytes: int
    static_shared: int
    local_bytes: int
    granule: int
    proxies: bool
    watched: tuple[str, ...]
    global_granule: int
    ordered: bool  # whether only barriers of the whole block order its threads
    guesses: frozenset[Operand]
    talks: bool  # whether blocks may order one another, by fences and atomic operations


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
            self._kernels[name] = self._decode(function)
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
        """Runs kernel `name` to its end. A `seed` lets warps and asynchronous copies run in a random order.
        `counters` count what the launch asks of a GPU, which takes time; with a `sample`, about so many blocks run, and
        are counted for all (`sampling`). Blocks that may wait for one another all run."""
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
        traffic = None
        if check_races and not kernel.talks:

            def stop(kind: str, message: str, instruction: Instruction, thread: int) -> NoReturn:
                raise shape.fault(kind, message, instruction, thread)

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

    # ---- decoding

    def _decode(self, entry: Function) -> Kernel:
        function = expand_calls(self.program, entry)
        symbols = dict(self.addresses)
        local_bytes = _lay_out([v for v in function.variables.values() if v.space == "local"], symbols)
        shared = [v for v in self.program.variables.values() if v.space == "shared"]
        shared += [v for v in function.variables.values() if v.space == "shared"]
        static_shared = _lay_out([v for v in shared if v.bytes], symbols)
        for variable in shared:  # dynamic shared memory follows the static; all its names are one place
            if not variable.bytes:
                static_shared = -(-static_shared // variable.alignment) * variable.alignment
        symbols |= {v.name: static_shared for v in shared if not v.bytes}
        parameter_bytes = _lay_out(function.parameters, symbols)
        slots = Slots(function, symbols, self.program.source)
        operations = [self._operation(slots, function, instruction) for instruction in function.instructions]
        if any(operation.instruction.head == "wgmma" for operation in operations):
            _note_registers(operations)
        code = Code(operations, set(function.labels.values()))
        return Kernel(
            function,
            code,
            slots,
            tuple((symbols[p.name], p.bytes) for p in function.parameters),
            parameter_bytes,
            static_shared,
            -(-local_bytes // 16) * 16,
            _granule(function.instructions),
            any(i.head in ("mbarrier", "wgmma") or "bulk" in i.modifiers for i in function.instructions),
            _watch(function, code, slots),
            _global_granule(function.instructions),
            not any(
                i.head in ("mbarrier", "wgmma", "cp")
                or i.opcode.startswith("bar.warp")
                or (is_block_barrier(i) and len(i.operands) > 1)
                for i in function.instructions
            ),
            frozenset(
                i.operands[1] for i in function.instructions if i.head == "atom" and "cas" in i.modifiers
            ),
            any(i.head in ("membar", "fence") and _reaches_blocks(i) for i in function.instructions),
        )

    def _operation(self, slots: Slots, function: Function, instruction: Instruction) -> Operation:
        guard = None if instruction.guard is None else reader(slots, instruction, instruction.guard, "pred")
        head = instruction.head
        if head in ("bra", "brx"):
            return self._branch(slots, function, instruction, guard)
        if head in ("ret", "exit"):
            return Operation(instruction, "exit", guard=guard)
        decoder = decoder_of(slots, instruction)
        operation = Operation(instruction, "step", decoder(slots, instruction), guard)
        if is_block_barrier(instruction):
            operation.kind = "barrier"
            aligned = head == "bar" or "aligned" in instruction.modifiers
            operation.group = WARP if aligned else 0
        elif instruction.opcode.startswith("mbarrier.try_wait"):
            if guard is not None:
                raise slots.limit(instruction, "a guarded wait is not simulated")
            operation.kind, operation.ready = "wait", decode_wait(slots, instruction)
        elif head == "setmaxnreg":
            if guard is not None:
                raise slots.limit(instruction, "a guarded change of registers is not simulated")
            operation.kind, operation.ready = "wait", decode_ready(slots, instruction)
            operation.group = 4 * WARP
        elif head == "wgmma":
            operation.group = 4 * WARP
        elif head in _ALIGNED_WARP or "aligned" in instruction.modifiers:
            operation.group = WARP
        members = member_mask_operand(instruction)
        if members is not None:
            operation.group = WARP
            operation.members = reader(slots, instruction, members, "u32")
        return operation

    def _branch(
        self, slots: Slots, function: Function, instruction: Instruction, guard: Reader | None
    ) -> Operation:
        target = instruction.operands[-1]
        if not isinstance(target, Symbol):
            raise slots.limit(instruction, "an indirect branch is not simulated")
        table = instruction.head == "brx"
        names = function.branch_tables.get(target.name, ()) if table else (target.name,)
        missing = [name for name in names if name not in function.labels]
        if missing or not names:
            raise slots.wrong(instruction, f"label {(missing or [target.name])[0]!r} is not defined")
        targets = tuple(function.labels[name] for name in names)
        if table:
            if guard is not None:
                raise slots.limit(instruction)
            choose = reader(slots, instruction, instruction.operands[0], "u32")
            return Operation(instruction, "table", targets=targets, choose=choose)
        return Operation(instruction, "branch", guard=guard, targets=targets)


def _watch(function: Function, code: Code, slots: Slots) -> tuple[str, ...]:
    """Notes in each operation which registers it may read before they are set; the names of all of them."""
    ends = {i for i, o in enumerate(code.operations) if o.kind in ("branch", "table", "exit")}
    starts = {i + 1 for i in ends} | set(function.labels.values())
    found = watch(function.instructions, list(function.registers), code.successors, starts)
    for place, (reads, writes) in found.items():
        operation = code.operations[place]
        instruction = operation.instruction
        choice = None
        if instruction.head == "selp":
            choice = reader(slots, instruction, instruction.operands[3], "pred")
            reads = [o.name if isinstance(o, Register) else "" for o in instruction.operands[1:4]]
        operation.watched = Watched(tuple(reads), tuple(writes), instruction.head in ("mov", "selp"), choice)
    return tuple({name for reads, writes in found.values() for name in (*reads, *writes)})


def _note_registers(operations: Sequence[Operation]) -> None:
    """For each instruction but the matrix products themselves: the registers that it uses, those it writes, and those
    of them that products use."""
    products = [o.instruction for o in operations if "mma_async" in o.instruction.modifiers]
    shared = {name for i in products for name in _registers([o for o in i.operands if isinstance(o, Vector)])}
    copies = [o.instruction.operands for o in operations if o.instruction.head == "mov"]
    for _ in copies:  # what is copied into them, from copy to copy
        more = {
            name for to, *of in copies if shared.intersection(_registers([to])) for name in _registers(of)
        }
        if more <= shared:
            break
        shared |= more
    for operation in operations:
        instruction = operation.instruction
        if instruction.head != "wgmma":
            operation.touched = frozenset(_registers(instruction.operands))
            results = instruction.operands[:1]
            stores = results and isinstance(results[0], Address)
            operation.written = frozenset() if stores else frozenset(_registers(results))
            operation.copies = instruction.head == "mov"
            operation.disturbs = operation.touched & shared


def _registers(operands: Sequence[Operand]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Register(name):
                yield name
            case Vector(items):
                yield from _registers(items)
            case Pair(first, second):
                yield from _registers((first, second))
            case Address(base):
                yield from _registers((base,))
            case _:
                pass


def _lay_out(variables: Sequence[Variable], symbols: dict[str, int]) -> int:
    """Gives each variable an offset, enters it in `symbols` and returns the bytes of all."""
    end = 0
    for variable in variables:
        start = -(-end // variable.alignment) * variable.alignment
        symbols[variable.name] = start
        end = start + variable.bytes
    return end


def _reaches_blocks(fence: Instruction) -> bool:
    return bool({"gl", "gpu", "sys"} & set(fence.modifiers))


def _global_granule(instructions: Sequence[Instruction]) -> int:
    """The narrowest access of global memory."""
    granule = 16
    for instruction in instructions:
        modifiers = {m.partition("::")[0] for m in instruction.modifiers}
        if "bulk" in modifiers:
            return 1
        if instruction.head in ("ld", "st", "atom", "red") and not modifiers & {
            "shared",
            "const",
            "param",
            "local",
        }:
            dtype, lanes = STORAGE[instruction.type]
            granule = min(granule, dtype.itemsize * lanes)
        elif instruction.head == "cp" and len(instruction.operands) > 2:
            granule = 1 if len(instruction.operands) > 3 else min(granule, 4)
    return granule


def _granule(instructions: Sequence[Instruction]) -> int:
    """The narrowest access of shared memory: neighbours of that size may belong to different warps."""
    granule = 16
    for instruction in instructions:
        modifiers = {m.partition("::")[0] for m in instruction.modifiers}
        if instruction.head in ("ld", "st", "atom", "red"):
            generic = not modifiers & {"global", "const", "param", "local"}
            if "shared" in modifiers or generic:
                dtype, lanes = STORAGE[instruction.type]
                granule = min(granule, dtype.itemsize * lanes)
        elif instruction.head == "mbarrier":
            granule = min(granule, 8)
        elif instruction.head == "cp" and len(instruction.operands) > 2:
            size = instruction.operands[2]
            granule = min(granule, size.value if isinstance(size, Integer) else granule)
    return granule
