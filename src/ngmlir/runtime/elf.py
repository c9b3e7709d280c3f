# SPDX-License-Identifier: Apache-2.0
"""Links x86-64 ELF objects in memory, without LLVM: a program that was compiled before needs no compiler to run.

Sections are grouped by kind: code, read-only data, writable data. A table of addresses (GOT) is in the read-only data,
and a jump through it (PLT), for each function that is out of reach, in the code. Pages are writable while they are
filled, and are then protected by kind. Objects with features that are not supported here (another machine, a relocation
type that our code does not use) are left to LLVM's linker, which also reports what is wrong with a damaged object.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

_ALLOCATED, _WRITTEN, _CODE = 2, 1, 4  # flags of sections
_BYTES, _SYMBOLS, _RELOCATIONS, _NOTHING = 1, 2, 4, 8  # kinds of sections
_LOCAL, _WEAK = 0, 2
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
#: Relocation types: absolute, relative, call (PLT), relative to an entry of the table (GOTPCREL), and relative with 64
#: bits.
_WHOLE, _HERE, _CALL, _TABLE, _FAR = 1, 2, 4, (9, 41, 42), 24
_JUMP = bytes([0xFF, 0x25])  # jmp [rip + four bytes]
_JUMP_SIZE = 8


class Unforeseen(Exception):
    """An object that this linker does not support."""


@dataclass(eq=False)
class _Section:
    flags: int
    data: memoryview
    size: int
    alignment: int
    relocations: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    at: int = 0  # its offset in the memory

    @property
    def kind(self) -> int:
        return 0 if self.flags & _CODE else 2 if self.flags & _WRITTEN else 1


@dataclass(eq=False)
class _Symbol:
    name: str
    binding: int
    section: _Section | None
    value: int
    absolute: bool


@cache
def fits() -> bool:
    """Whether this process is of the kind that this linker supports."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32


class Linked:
    """Linked objects; `addresses` of their exports are valid as long as this object."""

    def __init__(self, objects: Sequence[bytes], exports: Iterable[str], imports: Mapping[str, int]):
        """Raises Unforeseen for what this linker does not support."""
        try:
            read = [_Object(memoryview(each)) for each in objects]
        except (struct.error, IndexError, ValueError) as error:
            raise Unforeseen from error
        defined: dict[str, _Symbol] = {}
        for each in read:
            for symbol in each.symbols:
                if symbol.binding != _LOCAL and (symbol.section is not None or symbol.absolute):
                    if symbol.name in defined and _WEAK not in (symbol.binding, defined[symbol.name].binding):
                        raise Unforeseen(symbol.name)
                    if symbol.name not in defined or defined[symbol.name].binding == _WEAK:
                        defined[symbol.name] = symbol
        self._defined, self._imports = defined, imports
        self._table: dict[int, int] = {}  # address -> offset of its entry in the table
        self._jumps: dict[int, int] = {}  # address -> offset of the jump to it
        sections = [s for each in read for s in each.sections.values()]
        count = sum(len(s.relocations) for s in sections)
        # Space for the largest possible number of jumps and table entries.
        sizes = [_JUMP_SIZE * count, 8 * count, 0]
        starts = [sizes[kind] for kind in range(3)]
        for section in sections:
            at = -(-starts[section.kind] // section.alignment) * section.alignment
            section.at, starts[section.kind] = at, at + section.size
        page = mmap.PAGESIZE
        ends = [-(-size // page) * page for size in starts]
        bases = [0, ends[0], ends[0] + ends[1]]
        try:
            self.memory = mmap.mmap(-1, sum(ends) or page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError) as error:
            raise Unforeseen("more than there is memory") from error
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self._jump_at, self._table_at = 0, bases[1]
        for section in sections:
            section.at += bases[section.kind]
            self.memory[section.at : section.at + len(section.data)] = section.data
        for each in read:
            for section in each.sections.values():
                for where, form, number, addend in section.relocations:
                    self._relocate(section, where, form, each.symbols[number], addend)
        for start, size, allowed in zip(
            bases, ends, (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ), strict=False
        ):
            if size:
                _protect(self.base + start, size, allowed)
        if missing := [name for name in exports if name not in defined]:
            raise Unforeseen(missing[0])
        self.addresses = {name: self._address(defined[name]) for name in exports}

    def _address(self, symbol: _Symbol) -> int:
        if symbol.absolute:
            return symbol.value
        if symbol.section is not None:
            return self.base + symbol.section.at + symbol.value
        found = self._defined.get(symbol.name)
        if found is not None:
            return self._address(found)
        if symbol.name in self._imports:
            return self._imports[symbol.name]
        address = _process_address(symbol.name)
        if not address and symbol.binding != _WEAK:
            raise Unforeseen(symbol.name)
        return address

    def _relocate(self, section: _Section, where: int, form: int, symbol: _Symbol, addend: int) -> None:
        place, target = section.at + where, self._address(symbol)
        here = self.base + place
        try:
            if form == _WHOLE:
                struct.pack_into("<Q", self.memory, place, (target + addend) & (1 << 64) - 1)
            elif form == _FAR:
                struct.pack_into("<q", self.memory, place, target + addend - here)
            elif form in _TABLE:
                struct.pack_into("<i", self.memory, place, self.base + self._in_table(target) + addend - here)
            elif form == _CALL and not -(1 << 31) <= target + addend - here < 1 << 31:
                struct.pack_into("<i", self.memory, place, self.base + self._jump(target) + addend - here)
            elif form in (_HERE, _CALL):
                struct.pack_into("<i", self.memory, place, target + addend - here)
            else:
                raise Unforeseen(f"form {form}")
        except (struct.error, ValueError) as error:
            raise Unforeseen from error

    def _in_table(self, target: int) -> int:
        if target not in self._table:
            self._table[target] = self._table_at
            struct.pack_into("<Q", self.memory, self._table_at, target)
            self._table_at += 8
        return self._table[target]

    def _jump(self, target: int) -> int:
        if target not in self._jumps:
            at = self._jumps[target] = self._jump_at
            self._jump_at += _JUMP_SIZE
            self.memory[at : at + 2] = _JUMP
            struct.pack_into("<i", self.memory, at + 2, self._in_table(target) - (at + 6))
        return self._jumps[target]


class _Object:
    """The sections of an object that are loaded, and its symbols."""

    def __init__(self, data: memoryview):
        if bytes(data[:6]) != b"\x7fELF\2\1" or struct.unpack_from("<HH", data, 16) != (1, 62):
            raise Unforeseen("no object for x86-64")
        (headers,) = struct.unpack_from("<Q", data, 40)
        size, count, _ = struct.unpack_from("<HHH", data, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, headers + size * i) for i in range(count)]
        self.sections: dict[int, _Section] = {}
        self.symbols: list[_Symbol] = []
        for number, (_, kind, flags, _, at, length, _, _, alignment, _) in enumerate(rows):
            if flags & _ALLOCATED and kind in (_BYTES, _NOTHING):
                held = data[at : at + length] if kind == _BYTES else data[:0]
                if kind == _BYTES and len(held) != length:
                    raise Unforeseen("a section beyond the end")
                self.sections[number] = _Section(flags, held, length, max(alignment, 1))
        for _, kind, _, _, at, length, link, _, _, each in rows:
            if kind == _SYMBOLS:
                names = data[rows[link][4] : rows[link][4] + rows[link][5]]
                self.symbols = [
                    self._symbol(struct.unpack_from("<IBBHQQ", data, at + each * i), names)
                    for i in range(length // each)
                ]
        for _, kind, _, _, at, length, _, target, _, each in rows:
            if kind == _RELOCATIONS and target in self.sections:
                section = self.sections[target]
                for i in range(length // each):
                    where, what, addend = struct.unpack_from("<QQq", data, at + each * i)
                    form, number = what & 0xFFFFFFFF, what >> 32
                    if where + 4 > section.size or number >= len(self.symbols):
                        raise Unforeseen("an address outside its section")
                    section.relocations.append((where, form, number, addend))

    def _symbol(self, row: tuple[int, ...], names: memoryview) -> _Symbol:
        name, info, _, number, value, _ = row
        text = bytes(names[name : name + 4096]).split(b"\0", 1)[0].decode()
        section = self.sections.get(number)
        absolute = number == _ABSOLUTE
        if section is None and not absolute and number != _UNDEFINED and info >> 4 != _LOCAL:
            raise Unforeseen(f"{text} lies in a section that is no part of the program")
        return _Symbol(text, info >> 4, section, value, absolute)


def _process_address(name: str) -> int:
    """The address of a function in this process, such as memcpy; 0 if there is none."""
    try:
        return ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value or 0
    except (AttributeError, OSError):
        return 0


def _protect(start: int, size: int, allowed: int) -> None:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if function(start, size, allowed):
        raise Unforeseen(os.strerror(ctypes.get_errno()))
