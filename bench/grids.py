# SPDX-License-Identifier: Apache-2.0
"""The grid and the useful threads of every GPU kernel of the op suite, and of programs of `.ngir` files: counts, no times.

A kernel starves where it has fewer blocks than two for each multiprocessor though each of them has much to do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from op_cases import cases

from ngmlir.compiler import lower
from ngmlir.ir.attributes import IntegerAttr
from ngmlir.ir.core import Block, Module, Op
from ngmlir.ir.types import MemRefType, shape_of
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops import tile
from ngmlir.ops.fields import get_i64s
from ngmlir.ops.words import from_text
from ngmlir.support.target import Target

#: Elements of one block that take less than some 5 us.
LITTLE = 1 << 15
#: More rounds than a loop of unknown ends has.
MANY = 1 << 62


class Grid(NamedTuple):
    """What one kernel is given: blocks, threads of each, those that have an element of the largest tile, and the elements
    that it loads or stores of the buffer of which these are the most."""

    kernel: str
    blocks: int
    threads: int
    useful: int
    elements: int

    def starves(self, target: Target) -> bool:
        return self.blocks < 2 * target.multiprocessors and self.elements > LITTLE * self.blocks


def grids(lowered: Module) -> Iterator[Grid]:
    """Of all kernels of a lowered module."""
    for kernel in lowered.ops:
        if kernel.name == "tile.kernel":
            threads = kernel.attributes["threads"]
            assert isinstance(threads, IntegerAttr)
            useful = max((_elements(op) for op in kernel.walk()), default=1)
            blocks = prod(get_i64s(kernel, "grid"))
            elements = max(_moved(kernel.block, blocks), default=0)
            yield Grid(kernel.symbol, blocks, threads.value, min(threads.value, useful), elements)


#: Ops that say how much of a buffer they move.
_TILES = frozenset({"tile.load", "tile.store", "tile.gather"})


def _moved(block: Block, rounds: int) -> Iterator[int]:
    """The elements of a buffer that each op of a block moves, where so many rounds of all loops around it run: no more than
    there are, and all that there are, unless it says which."""
    for op in block.ops:
        buffers = [v.type for v in op.operands if isinstance(v.type, MemRefType)]
        known = op.name in _TILES
        yield from (min(prod(b.shape), rounds * _elements(op)) if known else prod(b.shape) for b in buffers)
        inner = rounds
        if isinstance(op, tile.ForOp):
            low, high, step = op.lower, op.upper, op.step
            inner = MANY
            if isinstance(low, int) and isinstance(high, int) and isinstance(step, int):
                inner = rounds * -(-(high - low) // step)
        for region in op.regions:
            yield from _moved(region.block, inner)


def _elements(op: Op) -> int:
    """Of the tile that an op moves, those that are inside the buffer."""
    if op.name not in _TILES:
        return 1
    if op.name == "tile.gather":
        return prod(shape_of(op.results[0].type))
    value, buffer = (op.results[0], op.operands[0]) if op.name == "tile.load" else op.operands[:2]
    part, whole = shape_of(value.type), shape_of(buffer.type)
    dims = get_i64s(op, "dims") if "dims" in op.attributes else range(len(whole) - len(part), len(whole))
    return prod(min(size, whole[d]) for size, d in zip(part, dims, strict=True))


def programs(elements: int, files: Sequence[Path]) -> Iterator[tuple[str, Module]]:
    if not files:
        for case in cases(elements):
            yield case.name, from_text(case.text)
    for path in files:
        yield path.name, from_text(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="programs; without any, the op suite")
    parser.add_argument("--elements", type=int, default=1 << 20, help="of each case of the op suite")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--starving", action="store_true", help="only kernels with too few blocks")
    given = parser.parse_args()
    target = nvptx_target(given.target)
    print(f"{target.name}: {target.multiprocessors} multiprocessors")
    print(f"{'program':32}{'kernel':36}{'blocks':>9}{'threads':>9}{'useful':>8}{'elements':>12}")
    starving = total = 0
    for name, module in programs(given.elements, given.files):
        for grid in grids(lower(module, target)):
            total += 1
            starves = grid.starves(target)
            starving += starves
            if starves or not given.starving:
                mark = "  starves" if starves else ""
                print(
                    f"{name:32}{grid.kernel:36}{grid.blocks:9}{grid.threads:9}{grid.useful:8}{grid.elements:12}{mark}"
                )
    print(f"{starving} of {total} kernels starve")


if __name__ == "__main__":
    main()
