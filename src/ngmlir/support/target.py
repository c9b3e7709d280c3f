# SPDX-License-Identifier: Apache-2.0
"""What a device can do: the only thing that travels down through the compiler beside the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """A plain record; passes ask what the target can do, never what it is called.

    `execution` is how a kernel runs one program of its grid: "vector" = one thread with vector registers,
    "warps" = a block of `threads` threads in warps of 32 with shared memory.
    """

    name: str
    triple: str
    cpu: str
    features: str = ""
    execution: Literal["vector", "warps"] = "vector"
    vector_bytes: int = 64  # one vector register
    vector_registers: int = 32
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    cores: int = 1
    threads: int = 128  # per block, "warps" only
    shared_bytes: int = 0  # per block, "warps" only
    alignment: int = 64  # of every buffer in the arena

    @property
    def key(self) -> str:
        """All that decides the generated code, for caches."""
        return f"{self.triple}|{self.cpu}|{self.features}|{self.vector_bytes}|{self.threads}|{self.cores}"

    def lanes(self, item_bytes: int) -> int:
        """Elements of `item_bytes` bytes in one vector register."""
        return max(1, self.vector_bytes // item_bytes)
