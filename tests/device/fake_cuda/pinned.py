# SPDX-License-Identifier: Apache-2.0
"""Pinned memory of the host: which parts of it unfinished copies use, and what the host does with those parts meanwhile.

A driver does not see what the host reads and writes. Three rules find it all the same:

- A copy may use memory only once the host has waited for every earlier copy that uses it, unless both read it.
- What a copy reads or overwrites is as the host left it when the copy comes to be done.
- What a copy overwrites holds a pattern until then, so who reads it too early gets wrong values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_PATTERN = 0xA5


@dataclass(frozen=True)
class Range:
    """Bytes of the host that a copy reads or writes."""

    memory: PinnedMemory
    address: int
    size: int
    kind: str  # "read" or "write"

    def octets(self) -> np.ndarray[Any, Any]:
        return np.frombuffer((ctypes.c_uint8 * self.size).from_address(self.address), np.uint8)

    def overlaps(self, other: Range) -> bool:
        return self.address < other.address + other.size and other.address < self.address + self.size


@dataclass(frozen=True)
class Use:
    """An unfinished copy: when the host has seen `count` of the stream's clock, the copy is done."""

    range: Range
    stream: int
    count: int
    what: str
    expected: bytes

    def change(self) -> str:
        """What the host did with the memory before the copy was done; empty where it did nothing."""
        if self.range.octets().tobytes() == self.expected:
            return ""
        verb = "reads" if self.range.kind == "read" else "overwrites"
        return f"the host changed pinned memory at {self.range.address:#x}, which {self.what} still {verb}"


@dataclass(eq=False)
class PinnedMemory:
    """One allocation."""

    octets: Any  # which the array of ctypes owns
    uses: list[Use] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.octets)

    def unseen(self, host: Mapping[int, int]) -> list[Use]:
        """The uses that the host, with this clock, does not know to be done."""
        self.uses = [use for use in self.uses if host.get(use.stream, 0) < use.count]
        return self.uses

    def begin(self, wanted: Range, host: Mapping[int, int], stream: int, count: int, what: str) -> Use | str:
        """Notes that a copy uses a range from now on; words of what is wrong where it may not."""
        for use in self.unseen(host):
            if use.range.overlaps(wanted) and "write" in (use.range.kind, wanted.kind):
                return f"{what} uses pinned memory at {wanted.address:#x}, and nobody has waited for {use.what}, which uses it too"
        octets = wanted.octets()
        if wanted.kind == "write":
            octets[:] = _PATTERN
        use = Use(wanted, stream, count, what, octets.tobytes())
        self.uses.append(use)
        return use
