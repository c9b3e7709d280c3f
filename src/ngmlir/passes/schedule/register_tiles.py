# SPDX-License-Identifier: Apache-2.0
"""Register tiles of matrix products on a CPU: which fit, and their cost."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ...ir.literals import item_bytes
from ...ir.types import FloatType
from ...support.lengths import usual
from ...support.target import Target
from ..analysis.product import Product, split
from ..analysis.sides import Implicit, Strided

#: Cycles per vector that is loaded from the L2 cache.
FAR_CYCLES = 2


def register_tiles(product: Product, target: Target, widest: int) -> Iterable[tuple[int, int]]:
    """Rows and columns of all register tiles that fit into the registers, of at most `widest` vectors."""
    lanes = target.lanes(item_bytes(product.accumulator))
    columns = -(-product.columns // lanes)  # in vectors

    def fits(rows: int, vectors: int) -> bool:
        """Whether a tile fits, with the registers that the allocator has to spare."""
        needed = registers_of(product, target, rows, vectors)
        return needed + target.spare_registers <= target.vector_registers

    return [
        (rows, vectors * lanes)
        for vectors in range(1, min(widest, columns, target.vector_registers) + 1)
        for rows in range(1, min(product.rows, target.vector_registers, _most_rows(product, target)) + 1)
        if fits(rows, vectors)
    ]


def registers_of(product: Product, target: Target, rows: int, vectors: int) -> int:
    """The registers of a tile: accumulators, a row of the right side, unless that is used once, and an element of the left;
    without an instruction that multiplies and adds, also the product."""
    return rows * vectors + (vectors if rows > 1 else 0) + 1 + (not adds(product, target))


def adds(product: Product, target: Target) -> bool:
    """Whether one instruction multiplies and adds."""
    atom = target.dot(product.words)
    return atom.adds if atom else isinstance(product.accumulator, FloatType) and target.can("fma")


def tile_cost(product: Product, target: Target, tile: tuple[int, int]) -> tuple[float, float]:
    """Cycles and loads of one product in register tiles: each step of the depth issues a multiply-add per accumulator,
    a load per vector and one per row, and an accumulator is used again only when its sum is complete. Vectors of a panel
    that exceeds the L1 cache are loaded from the next one; spilled sums are stored, and loaded again before they are added to."""
    lanes, item = target.lanes(item_bytes(product.accumulator)), item_bytes(product.accumulator)
    columns, most, wide = -(-product.columns // lanes), tile[0], max(1, tile[1] // lanes)
    away = FAR_CYCLES if product.depth * tile[1] * item > target.l1_bytes else 0

    each = 2 if product.words and not adds(product, target) else 1

    def cycles(rows: int, vectors: int) -> float:
        loads = (rows + vectors) / target.loads
        spilled = max(0, registers_of(product, target, rows, vectors) - target.vector_registers)
        return max(rows * vectors * each / target.fmas, loads, vectors * away, target.fma_cycles) + spilled

    widths = [(columns // wide, wide), (1, columns % wide)]
    tiles = [(n * m, rows, v) for n, rows in split(product.rows, most) for m, v in widths if m and v]
    loads = sum(count * (rows + v) for count, rows, v in tiles)
    return product.depth * sum(count * cycles(rows, v) for count, rows, v in tiles), product.depth * loads


def _most_rows(product: Product, target: Target) -> int:
    """How many rows of the left side can be read at once before they evict each other from the L1 cache: rows whose
    distance is a multiple of the size of a way share its sets. Two ways are left for other data."""
    if product.lhs_depth_first or isinstance(product.lhs, Implicit):
        return target.vector_registers
    elements = usual(product.lhs.distance) if isinstance(product.lhs, Strided) else product.depth
    distance = elements * item_bytes(product.lhs_element)
    return max(1, target.l1_ways - 2) * distinct_cache_sets(target, distance)


def distinct_cache_sets(target: Target, distance: int) -> int:
    """How many rows at a distance of so many bytes map to different sets of the L1 cache."""
    way = target.l1_bytes // target.l1_ways
    return way // gcd(way, distance)


def multiplications(product: Product) -> int:
    """The multiplications of a product."""
    return max(1, product.batch) * product.rows * product.columns * product.depth


def rate(product: Product, target: Target) -> float:
    """Multiply-adds per cycle; those of words, if the depth is counted in words."""
    atom = product.dot_atom(target)
    group = (1 if product.words else atom.group) / (1 if atom.adds else 2) if atom else 1
    return group * target.fmas * target.lanes(item_bytes(product.accumulator))
