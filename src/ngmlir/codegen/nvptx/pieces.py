# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of up to 16 bytes, by one instruction of each thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...ir.types import MemRefType
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, bits_of, element_of, i8, i32, i64, lanes_of, vector
from .access import Bound
from .block import SHARED, Block

#: In which threads an access happens: in all, or in those in which a value is true.
Inside: TypeAlias = Value | Literal[True]


@dataclass(frozen=True)
class Buffer:
    """A buffer in a kernel. `steady`: nothing writes it while the kernel runs. For a masked subview, `bounds` are those
    it may cross of the buffer in which it begins at index `starts`."""

    pointer: Value
    type: MemRefType
    steady: bool
    bounds: tuple[Bound, ...] = ()
    starts: tuple[Value, ...] = ()

    @property
    def space(self) -> str:
        return "shared" if self.pointer.type == SHARED else "global"


class Pieces:
    """Emits such instructions into a block."""

    def __init__(self, block: Block):
        self.block = block
        self.b = block.b

    def fetch(
        self,
        buffer: Buffer,
        place: Value,
        kind: LlvmType,
        count: int,
        inside: Inside,
        pad: Value,
        behind: int = 0,
    ) -> Value:
        """Loads `count` elements, `behind` elements after an address; gives `pad` where `inside` is false."""
        b = self.b
        type = vector(count, kind)
        if inside is True:
            place = self.found(kind, place, behind)
            invariant = b.module.invariant if buffer.steady else ""
            words, width = _words(count, kind)
            loaded = vector(words, f"i{width}") if bits_of(kind) == 8 else type
            found = b.load(loaded, place, align=count * bits_of(kind) // 8, attach=invariant)
            return b.bitcast(found, type)
        words, width = _words(count, kind)
        fill, word = b.bitcast(b.splat(pad, count), vector(words, f"i{width}")), f"i{width}"
        if width == 8:  # a byte takes a 32-bit register: from one of 16 bits it would be widened twice
            fill, word = b.zext(fill, i32), i32
        cached = ".nc" if buffer.steady else ""
        number = "" if words == 1 else f".v{words}"
        targets = ",".join(f"${i}" for i in range(words))
        text = f"@${words} ld.{buffer.space}{cached}{number}.b{width} {{{targets}}}, [${words + 1}{_further(kind, behind)}];"
        letter = _register(bits_of(word))
        constraints = ",".join(
            [f"={letter}"] * words
            + ["b", "l"]
            + [str(i) for i in range(words)]
            + ([] if buffer.steady else ["~{memory}"])
        )
        kinds = word if words == 1 else f"{{{','.join([word] * words)}}}"
        got = b.assembly(
            kinds,
            text if words > 1 else text.replace("{$0}", "$0"),
            constraints,
            inside,
            self._address(place),
            *self.block.unpack(fill, words),
            side_effects=not buffer.steady,
        )
        if width == 8:
            return b.bitcast(b.trunc(got, i8), type)
        parts = [got] if words == 1 else [b.extract_value(got, i, word) for i in range(words)]
        return b.bitcast(self.block.pack(parts), type)

    def put(self, buffer: Buffer, place: Value, value: Value, inside: Inside, behind: int = 0) -> None:
        """Stores a scalar or vector where `inside` holds, `behind` elements after an address."""
        b = self.b
        count, kind = lanes_of(value.type), element_of(value.type)
        if inside is True:
            place = self.found(kind, place, behind)
            b.store(value, place, align=count * bits_of(kind) // 8)
            return
        words, width = _words(count, kind)
        parts = self.block.unpack(b.bitcast(value, vector(words, f"i{width}")), words)
        number = "" if words == 1 else f".v{words}"
        sources = ",".join(f"${i + 2}" for i in range(words))
        sources = sources if words == 1 else f"{{{sources}}}"
        constraints = ",".join(["b", "l", *[_register(width)] * words, "~{memory}"])
        text = f"@$0 st.{buffer.space}{number}.b{width} [$1{_further(kind, behind)}], {sources};"
        b.assembly("void", text, constraints, inside, self._address(place), *parts, side_effects=True)

    def found(self, kind: LlvmType, place: Value, behind: int) -> Value:
        return self.b.getelementptr(kind, place, behind) if behind else place

    def _address(self, place: Value) -> Value:
        """The address as an operand of inline assembly: 64 bits in every address space."""
        return self.b.cast("ptrtoint", place, i64)


def _words(count: int, kind: LlvmType) -> tuple[int, int]:
    """The words of a predicated access: how many, and their width in bits."""
    bits = count * bits_of(kind)
    # Elements of 64 bits take one register each: if they were loaded in halves, instructions that join these would
    # follow each load.
    width = max(32, bits_of(kind))
    return (bits // width, width) if bits >= 32 else (1, bits)


def _further(kind: LlvmType, behind: int) -> str:
    """The constant offset of an address in inline assembly, which is part of the instruction."""
    return f"+{behind * bits_of(kind) // 8}" if behind else ""


def _register(width: int) -> str:
    return {64: "l", 32: "r"}.get(width, "h")
