# SPDX-License-Identifier: Apache-2.0
"""Decoding a kernel: variables get their offsets, instructions become operations, and facts about the whole kernel are
collected for the detectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import access, arithmetic, bits, budget, comparison, conversion, copies, matrix, moves, warp, wgmma
from .barriers import is_block_barrier
from .budget import decode_ready
from .decoding import Reader, decoder_of, reader
from .fences import reaches_blocks
from .formats import STORAGE
from .frame import WARP
from .inline import expand_calls
from .mbarriers import decode_wait
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
from .registers import Slots
from .schedule import Code, Operation
from .unset import Watched, watch
from .warp import member_mask_operand

#: The modules whose import registers the decoders.
OPERATIONS = (access, arithmetic, bits, budget, comparison, conversion, copies, matrix, moves, warp, wgmma)

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
    talks: bool  # whether blocks may synchronise by fences and atomic operations


def decode(program: Program, entry: Function, addresses: Mapping[str, int]) -> Kernel:
    """An entry of a program whose variables are at `addresses`, ready to run."""
    function = expand_calls(program, entry)
    symbols = dict(addresses)
    local_bytes = _lay_out([v for v in function.variables.values() if v.space == "local"], symbols)
    shared = [v for v in program.variables.values() if v.space == "shared"]
    shared += [v for v in function.variables.values() if v.space == "shared"]
    static_shared = _lay_out([v for v in shared if v.bytes], symbols)
    for variable in shared:  # dynamic shared memory follows static; all its names alias
        if not variable.bytes:
            static_shared = -(-static_shared // variable.alignment) * variable.alignment
    symbols |= {v.name: static_shared for v in shared if not v.bytes}
    parameter_bytes = _lay_out(function.parameters, symbols)
    slots = Slots(function, symbols, program.source)
    operations = [_operation(slots, function, instruction) for instruction in function.instructions]
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
        frozenset(i.operands[1] for i in function.instructions if i.head == "atom" and "cas" in i.modifiers),
        any(reaches_blocks(i) for i in function.instructions),
    )


def _operation(slots: Slots, function: Function, instruction: Instruction) -> Operation:
    guard = None if instruction.guard is None else reader(slots, instruction, instruction.guard, "pred")
    head = instruction.head
    if head in ("bra", "brx"):
        return _branch(slots, function, instruction, guard)
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


def _branch(slots: Slots, function: Function, instruction: Instruction, guard: Reader | None) -> Operation:
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
    """Records in each operation which registers it may read before they are written; returns the names of all of them."""
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
    """For each instruction except matrix products: the registers that it uses, those it writes, and those of them that
    products use."""
    products = [o.instruction for o in operations if "mma_async" in o.instruction.modifiers]
    shared = {name for i in products for name in _registers([o for o in i.operands if isinstance(o, Vector)])}
    copies = [o.instruction.operands for o in operations if o.instruction.head == "mov"]
    for _ in copies:  # sources of copies into them, transitively
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
    """Assigns each variable an offset, adds it to `symbols` and returns the total bytes."""
    end = 0
    for variable in variables:
        start = -(-end // variable.alignment) * variable.alignment
        symbols[variable.name] = start
        end = start + variable.bytes
    return end


def _global_granule(instructions: Sequence[Instruction]) -> int:
    """The width of the narrowest access of global memory."""
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
    """The width of the narrowest access of shared memory: neighbours of that size may belong to different warps."""
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
