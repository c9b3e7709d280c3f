# SPDX-License-Identifier: Apache-2.0
"""The grid of a kernel, mapped to the three grid dimensions of CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...llvm.text import Function
from ...llvm.types import Value, i32, i64

#: The most blocks along x, and therefore of any launch.
MOST_BLOCKS = 2**31 - 1
#: The most blocks along y and z.
_MOST = 65535


def _direct(grid: Sequence[int]) -> bool:
    return len(grid) <= 3 and all(size <= _MOST for size in grid[:-1])


def blocks(grid: Sequence[int]) -> tuple[int, int, int]:
    """Blocks along x, y, z: the last dimension of the grid is x; a grid of more than three dimensions is flattened to
    x."""
    if not _direct(grid):
        return prod(grid), 1, 1
    x, y, z = (*reversed(grid), 1, 1, 1)[:3]
    return x, y, z


def positions(b: Function, grid: Sequence[int]) -> list[Value]:
    """The index of this block along each dimension of the grid."""

    def read(axis: str) -> Value:
        return b.zext(b.intrinsic(f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}", i32, overload=()), i64)

    if _direct(grid):
        return [read(axis) for axis in reversed("xyz"[: len(grid)])]
    rest = read("x")
    found: list[Value] = []
    for size in reversed(grid):
        found.insert(0, b.urem(rest, size))
        rest = b.udiv(rest, size)
    return found
