# SPDX-License-Identifier: Apache-2.0
"""PTX as records: produced by the reader, and run by the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Width in bytes of the fundamental types; predicates are not included.
TYPE_BYTES = {
    f"{kind}{bits}": bits // 8
    for kind, widths in {"b": (8, 16, 32, 64, 128), "u": (8, 16, 32, 64), "s": (8, 16, 32, 64)}.items()
    for bits in widths
} | {"s16x2": 4, "u16x2": 4, "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "tf32": 4, "f64": 8}


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register, a special register (`%tid.x`) or, with `negated`, the complement of a predicate."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Integer:
    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point literal, as its bits: `0f3F800000`, `0d...`."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter, function or label; `offset` bytes are added to an address."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; a bulk tensor copy adds coordinates: `[map, {x, y}]`."""

    base: Register | Symbol | Integer
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`, or the parenthesised lists of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`%r1|%p1`: a result and its predicate."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that is discarded."""


Operand = Register | Integer | Real | Symbol | Address | Vector | Pair | Sink


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement; `modifiers` are the parts of the opcode after its head (`ld` of `ld.global.v4.b32`)."""

    line: int
    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    text: str

    @property
    def head(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    @property
    def type(self) -> str:
        """The last part of the opcode: in most instructions, the type of its operands."""
        return self.opcode.rpartition(".")[2]


@dataclass(frozen=True)
class Variable:
    """A variable or parameter. `relocations` are the 8-byte addresses of symbols within `initial`."""

    name: str
    space: str
    bytes: int
    alignment: int
    initial: bytes = b""
    relocations: tuple[tuple[int, str, int], ...] = ()  # (byte offset, symbol, addend)


@dataclass
class Function:
    """A kernel (`entry`) or a device function, with its registers, variables and instructions in order."""

    name: str
    entry: bool
    line: int
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...] = ()
    registers: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass
class Program:
    """One PTX module."""

    source: str
    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    functions: dict[str, Function] = field(default_factory=dict[str, Function])

    @property
    def entries(self) -> dict[str, Function]:
        return {name: function for name, function in self.functions.items() if function.entry}
