# SPDX-License-Identifier: Apache-2.0
"""A shared library made here, with no compiler and no linker: each function jumps to an address that is written later.
One more, `nothing`, gives 0.

Two pages: the names and the jumps, which are code, and the table of addresses, which may be written. Nothing in it
needs to be relocated. For x86-64 and AArch64 on Linux.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Sequence
from pathlib import Path

_PAGE = 0x10000  # the largest page of either processor
_MACHINES = {"x86_64": 62, "aarch64": 183}

#: Numbers of the ELF format.
_SHARED, _LOAD, _DYNAMIC, _STACK = 3, 1, 2, 0x6474E551
_HASH, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE, _NAME = 4, 5, 6, 10, 11, 14
_FUNCTION, _OBJECT = 0x12, 0x11  # both global


#: Code that returns 0.
_NOTHING = {"x86_64": b"\x31\xc0\xc3", "aarch64": struct.pack("<II", 0x52800000, 0xD65F03C0)}


def supported() -> bool:
    """Whether such a library can be made for this machine."""
    return platform.system() == "Linux" and platform.machine() in _MACHINES


def _jump(at: int, slot: int) -> bytes:
    """Code at `at` that goes on where the word at `slot` says."""
    if platform.machine() == "x86_64":
        return b"\xff\x25" + struct.pack("<i", slot - (at + 6)) + b"\x90\x90"
    return struct.pack("<II", 0x58000010 | ((slot - at) >> 2 & 0x7FFFF) << 5, 0xD61F0200)


def image(name: str, functions: Sequence[str]) -> bytes:
    """The library's bytes. `functions` are its symbols, and `slots` their addresses, in that order."""
    symbols = [*functions, "nothing", "slots"]
    strings = b"\0" + b"".join(s.encode() + b"\0" for s in (*symbols, name))

    def string(s: str) -> int:
        return strings.index(b"\0" + s.encode() + b"\0") + 1

    headers = 64 + 56 * 4
    at_symbols = -(-headers // 16) * 16
    at_strings = at_symbols + 24 * (len(symbols) + 1)
    at_hash = -(-(at_strings + len(strings)) // 16) * 16
    # One bucket: a chain of all symbols, for there are few.
    hashes = struct.pack("<III", 1, len(symbols) + 1, 1)
    hashes += struct.pack(f"<{len(symbols) + 1}I", 0, *range(2, len(symbols) + 1), 0)
    at_code = -(-(at_hash + len(hashes)) // 16) * 16
    code_end = at_code + 8 * (len(functions) + 1)
    assert code_end <= _PAGE
    at_slots = _PAGE + 16 * 8
    end = at_slots + 8 * len(functions)

    dynamic = [(_NAME, string(name)), (_HASH, at_hash), (_STRINGS, at_strings), (_SYMBOLS, at_symbols)]
    dynamic += [(_STRINGS_SIZE, len(strings)), (_SYMBOL_SIZE, 24), (0, 0)]
    places = [(at_code + 8 * i, _FUNCTION, 1) for i in range(len(functions) + 1)] + [(at_slots, _OBJECT, 1)]
    jumps = b"".join(_jump(at_code + 8 * i, at_slots + 8 * i) for i in range(len(functions)))
    table = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", string(s), kind, 0, section, place, 8)
        for s, (place, kind, section) in zip(symbols, places, strict=True)
    )
    segments = [
        (_LOAD, 5, 0, code_end, _PAGE),
        (_LOAD, 6, _PAGE, end - _PAGE, _PAGE),
        (_DYNAMIC, 6, _PAGE, 16 * len(dynamic), 8),
        (_STACK, 6, 0, 0, 16),
    ]
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH",
        _SHARED,
        _MACHINES[platform.machine()],
        1,
        0,
        64,
        0,
        0,
        64,
        56,
        len(segments),
        64,
        0,
        0,
    )
    for kind, flags, place, size, alignment in segments:
        head += struct.pack("<IIQQQQQQ", kind, flags, place, place, place, size, size, alignment)

    data = bytearray(end)
    for place, part in (
        (0, head),
        (at_symbols, table),
        (at_strings, strings),
        (at_hash, hashes),
        (at_code, jumps + _NOTHING[platform.machine()]),
        (_PAGE, b"".join(struct.pack("<QQ", *entry) for entry in dynamic)),
    ):
        data[place : place + len(part)] = part
    return bytes(data)


class Trampolines:
    """A loaded library of that kind. It stays loaded as long as the process lives."""

    def __init__(self, path: Path, functions: Sequence[str]):
        path.write_bytes(image(path.name, functions))
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self._slots = (ctypes.c_uint64 * len(functions)).in_dll(self._library, "slots")
        self._numbers = {name: number for number, name in enumerate(functions)}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def address(self, name: str) -> int:
        """Where the function lies."""
        found = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert found is not None
        return found

    def lead(self, name: str, address: int) -> None:
        """Makes the function go on at `address`."""
        self._slots[self._numbers[name]] = address
