# SPDX-License-Identifier: Apache-2.0
"""Register tiles of matrix products on a CPU: which fit, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ...ir.literals import item_bytes
from ...ir.types import FloatType
from ...support.lengths import usual
from ...support.target import Target
from ..analysis.product import Product, split
from ..analysis.sides import Implicit, Strided

#: Cycles after which a vector comes from the second cache.
FAR_CYCLES = 2


def register_tiles(product: Product, target: Target, widest: int) -> Iterable[tuple[int, int]]:
    """Rows and columns of all accumulators that fit into the registers, of at most `widest` vectors."""
    lanes = target.lanes(item_bytes(product.accumulator))
    columns = -(-product.columns // lanes)  # in vectors

    def fits(rows: int, vectors: int) -> bool:
        """With what register allocation has to have in hand."""
        needed = registers_of(product, target, rows, vectors)
        return needed + target.spare_registers <= target.vector_registers

    return [
        (rows, vectors * lanes)
        for vectors in range(1, min(widest, columns, target.vector_registers) + 1)
        for rows in range(1, min(product.rows, target.vector_registers, _most_rows(product, target)) + 1)
        if fits(rows, vectors)
    ]


def registers_of(product: Product, target: Target, rows: int, vectors: int) -> int:
    """Vectors of a tile's accumulators, of a row of the right side, unless that is used once, and of an element of the left;
    where multiplying and adding are two, of the product between them."""
    return rows * vectors + (vectors if rows > 1 else 0) + 1 + (not adds(product, target))


def adds(product: Product, target: Target) -> bool:
    """Whether one instruction multiplies and adds."""
    atom = target.dot(product.words)
    return atom.adds if atom else isinstance(product.accumulator, FloatType) and target.can("fma")


def tile_cost(product: Product, target: Target, tile: tuple[int, int]) -> tuple[float, float]:
    """Cycles and loads of one product in register tiles: each step of the depth begins a multiply-add per accumulator,
    a load per vector and one per row, and no accumulator is added to again before its sum is there. Vectors of a panel
    that the near cache cannot hold come from the next one; sums that no register holds are stored, and loaded again before
    they are added to."""
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
    """How many rows of the left side can be read at once before they drive each other out of the near cache: rows whose
    distance is a multiple of what one way holds share its sets. Two ways are left to the rest."""
    if product.lhs_depth_first or isinstance(product.lhs, Implicit):
        return target.vector_registers
    elements = usual(product.lhs.distance) if isinstance(product.lhs, Strided) else product.depth
    distance = elements * item_bytes(product.lhs_element)
    return max(1, target.l1_ways - 2) * places(target, distance)


def places(target: Target, distance: int) -> int:
    """How many rows that lie so many bytes apart come to different sets of the near cache."""
    way = target.l1_bytes // target.l1_ways
    return way // gcd(way, distance)


def multiplications(product: Product) -> int:
    """Of all elements of the result."""
    return max(1, product.batch) * product.rows * product.columns * product.depth


def rate(product: Product, target: Target) -> float:
    """Multiply-adds in one cycle; of words, where the depth is counted in these."""
    atom = product.dot_atom(target)
    group = (1 if product.words else atom.group) / (1 if atom.adds else 2) if atom else 1
    return group * target.fmas * target.lanes(item_bytes(product.accumulator))
