# SPDX-License-Identifier: Apache-2.0
"""The arguments and results of a compiled function: the record that comes with its code."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .diagnostics import UNKNOWN, Location
from .lengths import Guard

#: Element types by their MLIR spelling -> size in bytes as stored in memory (i1 is one byte: 0 or 1; those of
#: 2 and 4 bits are the low bits of a byte, the others zero).
ITEM_BYTES = {
    "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "ui8": 1, "ui16": 2, "ui32": 4, "ui64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
    "f8E4M3FN": 1, "f8E4M3FNUZ": 1, "f8E5M2": 1, "f8E5M2FNUZ": 1, "f8E8M0FNU": 1, "f4E2M1FN": 1,
    "i4": 1, "ui4": 1, "i2": 1, "ui2": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One array: C-contiguous, `shape` in elements, `dtype` in MLIR spelling (`f32`, `i64`, `i1` ...)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    location: Location = UNKNOWN

    @property
    def bytes(self) -> int:
        return prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Signature:
    """Arguments and results of one entry point.

    `tied` maps a result to the argument that it overwrites: the two share one buffer, so state is updated
    in place. `arena_bytes` is the planned peak of temporaries; the arena is aligned to 64 bytes.

    A program for all lengths has sizes that follow from `lengths` (support/lengths.py): the code finds their values in a table of
    64-bit integers, whose address follows those of its buffers. Those called `arena` and `arena.0`, `arena.1` ... are the end of
    the arena and the offsets of its parts, which a caller finds by placing `arena`: of each part its bytes, and the first and the
    last step in which it is needed (support/arena.py). The code is right for lengths for which all `guards` hold.
    """

    name: str
    arguments: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    tied: tuple[tuple[int, int], ...] = ()  # (result index, argument index)
    arena_bytes: int = 0
    lengths: tuple[str, ...] = ()
    arena: tuple[tuple[int, int, int], ...] = ()
    guards: tuple[Guard, ...] = ()

    def tied_argument(self, result: int) -> int | None:
        """The argument that `result` overwrites, or None if it has its own buffer."""
        return dict(self.tied).get(result)
