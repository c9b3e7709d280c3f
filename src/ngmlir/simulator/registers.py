# SPDX-License-Identifier: Apache-2.0
"""Operands as arrays over threads.

Decoding assigns each (operand, type) pair a slot number; a `Frame` fills the slots for one batch of blocks: views of
the registers, and constants broadcast over all threads without taking memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import EllipsisType

import numpy as np

from ..support.diagnostics import Limit, Location, UserError
from .formats import STORAGE
from .program import TYPE_BYTES, Function, Instruction, Integer, Operand, Real, Register, Sink, Symbol

#: The threads that execute an instruction: all of the batch (`...`), or their sorted numbers.
Threads = np.ndarray | EllipsisType

SPECIAL = {
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%dynamic_smem_size", "%total_smem_size",
    "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
    "%clock", "%clock64", "%globaltimer", "%clusterid.x", "%cluster_ctarank", "%cluster_nctarank",
    *(f"%{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid") for axis in "xyz"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """How to fill one slot: a view of a register, a special register, or a constant (its bits)."""

    kind: str
    register: str = ""
    bits: int = 0


class Slots:
    """Assigns slot numbers while a kernel is decoded."""

    def __init__(self, function: Function, symbols: Mapping[str, int], source: str):
        self.function = function
        self.symbols = symbols
        self.source = source
        self.table: list[Slot] = []
        self._numbers: dict[Slot, int] = {}

    def _number(self, slot: Slot) -> int:
        if slot not in self._numbers:
            self._numbers[slot] = len(self.table)
            self.table.append(slot)
        return self._numbers[slot]

    def limit(self, instruction: Instruction, why: str = "this instruction is not simulated") -> Limit:
        return Limit(
            f"{why}: {instruction.text}",
            Location("<ptx>", instruction.line, 1),
            hint="the simulator runs what LLVM's NVPTX back end prints for ngmlir's own kernels",
            source=self.source,
        )

    def wrong(self, instruction: Instruction, why: str) -> UserError:
        location = Location("<ptx>", instruction.line, 1)
        return UserError(f"{why}: {instruction.text}", location, source=self.source)

    def width(self, operand: Operand) -> int:
        """Bytes of a register; 8 for addresses."""
        if isinstance(operand, Register) and operand.name in self.function.registers:
            return TYPE_BYTES[self.function.registers[operand.name]]
        return 4 if isinstance(operand, Register) else 8

    def read(self, instruction: Instruction, operand: Operand, kind: str) -> int:
        """The slot of `operand` as values of type `kind`."""
        match operand:
            case Register(name, negated) if name in self.function.registers:
                return self._number(Slot("!pred" if negated else kind, name))
            case Register(name) if name in SPECIAL:
                return self._number(Slot(kind, name))
            case Integer(value):
                return self._constant(value, kind)
            case Real(bits, width):
                return self._constant(_as_kind(bits, width, kind), kind)
            case Symbol(name, offset) if name in self.symbols:
                return self._constant(self.symbols[name] + offset, kind)
            case _:
                raise self.wrong(instruction, f"unknown operand {getattr(operand, 'name', operand)!r}")

    def _constant(self, bits: int, kind: str) -> int:
        if kind == "pred":
            return self._number(Slot(kind, bits=int(bits != 0)))
        return self._number(Slot(kind, bits=bits & ((1 << 8 * TYPE_BYTES[kind]) - 1)))

    def write(self, instruction: Instruction, operand: Operand, kind: str) -> int | None:
        """The slot for results of type `kind`, None for `_`; narrow results are extended to the whole register."""
        if isinstance(operand, Sink):
            return None
        if not isinstance(operand, Register) or operand.name not in self.function.registers:
            raise self.wrong(instruction, "the result is not a register")
        declared = self.function.registers[operand.name]
        if (declared == "pred") != (kind == "pred"):
            raise self.wrong(instruction, f"the result {operand.name} is a .{declared} register")
        if kind != "pred" and TYPE_BYTES[declared] != TYPE_BYTES[kind]:
            if TYPE_BYTES[declared] < TYPE_BYTES[kind]:
                raise self.wrong(instruction, f"register {operand.name} is too narrow")
            kind = f"{'s' if kind[0] == 's' else 'u'}{8 * TYPE_BYTES[declared]}"
        return self._number(Slot(kind, operand.name))


def _as_kind(bits: int, width: int, kind: str) -> int:
    """The bits of a literal as `kind`; in PTX, `0f` literals represent bits of the same width only."""
    if TYPE_BYTES.get(kind) == width:
        return bits
    if kind == "f64" and width == 4:
        single = np.array([bits], np.uint32).view(np.float32)
        return int(single.astype(np.float64).view(np.uint64)[0])
    return bits


def fill(
    slots: list[Slot], registers: Mapping[str, str], count: int, special: Callable[[str], np.ndarray]
) -> list[np.ndarray]:
    """The arrays of all slots, for `count` threads. Registers start as 0xFF, so that reads of unwritten ones show."""
    files: dict[str, np.ndarray] = {}
    arrays: list[np.ndarray] = []
    for slot in slots:
        if slot.register in registers:
            base = files.get(slot.register)
            if base is None:
                base = _register(registers[slot.register], count)
                files[slot.register] = base
            arrays.append(base if slot.kind in ("pred", "!pred") else _view(base, slot.kind))
        elif slot.register:
            arrays.append(_view(special(slot.register), slot.kind))
        else:
            arrays.append(_spread(slot, count))
    return arrays


def _register(kind: str, count: int) -> np.ndarray:
    if kind == "pred":
        return np.zeros(count, np.bool_)
    return np.full(count, -1, f"i{TYPE_BYTES[kind]}").view(f"u{TYPE_BYTES[kind]}")


def _view(base: np.ndarray, kind: str) -> np.ndarray:
    """`base` viewed as `kind`; for a wider register, its low part (memory is little-endian)."""
    dtype, lanes = STORAGE[kind]
    if base.dtype.itemsize < dtype.itemsize * lanes:
        return base.astype(dtype)  # a 32-bit special register read as 64 bits
    if lanes > 1:
        return base.view(dtype).reshape(-1, lanes)
    ratio = base.dtype.itemsize // dtype.itemsize
    return base.view(dtype)[::ratio]


def _spread(slot: Slot, count: int) -> np.ndarray:
    if slot.kind == "pred":
        return np.broadcast_to(np.bool_(slot.bits), count)
    dtype, lanes = STORAGE[slot.kind]
    bits = slot.bits.to_bytes(dtype.itemsize * lanes, "little")
    value = np.frombuffer(bits, dtype)
    return np.broadcast_to(value, (count, lanes)) if lanes > 1 else np.broadcast_to(value[0], count)
