# SPDX-License-Identifier: Apache-2.0
"""Sides of a product on a GPU that are staged in shared memory: which ones, in which chunks they are copied, and their size."""

from __future__ import annotations

from math import gcd

from ...ir.literals import bytes_of, item_bytes
from ...ir.types import MemRefType, Type
from ...support.machines import CHUNK_BYTES, SECTOR_BYTES
from ...support.target import Target
from ..analysis.product import Product
from ..analysis.sides import Implicit, Strided, copied_chunk


def can_stage(product: Product, target: Target) -> bool:
    """Whether both sides are copied tile by tile in memory order, for matrix instructions to read. Where tiles extend beyond a
    side, zeros are copied."""
    atom = product.atom(target)
    return atom is not None and all(_pieces(product))


def _pieces(product: Product) -> list[int]:
    """The chunks in which each side is copied asynchronously, in bytes; 0 for one that is not."""
    sides = (
        (product.lhs, product.lhs_element, product.lhs_depth_first),
        (product.rhs, product.rhs_element, product.rhs_depth_first),
    )
    found: list[int] = []
    for (side, element, depth_first), length in zip(sides, product.row_lengths, strict=True):
        if isinstance(side, Strided):
            length = gcd(length, side.distance)
        scattered = isinstance(side, Implicit) or (
            isinstance(side, Strided) and side.row != len(side.shape) - 2
        )
        found.append(0 if scattered else copied_chunk(length, item_bytes(element), not depth_first))
    return found


def copies(product: Product, tile: tuple[int, int], step: int) -> int:
    """The number of copies in one iteration, of the side that needs more of them."""
    buffers = zip(staged_buffers(product, tile, step), _pieces(product), strict=True)
    return max(bytes_of(type) // bytes for type, bytes in buffers)


def staged_buffers(product: Product, tile: tuple[int, int], step: int) -> tuple[MemRefType, MemRefType]:
    """The shared buffers of one iteration, for the left and the right side."""
    left = (step, tile[0]) if product.lhs_depth_first else (tile[0], step)
    right = (step, tile[1]) if product.rhs_depth_first else (tile[1], step)
    return _padded(left, product.lhs_element), _padded(right, product.rhs_element)


def _padded(shape: tuple[int, int], element: Type) -> MemRefType:
    """A buffer with rows an odd number of chunks apart, so the eight that one instruction reads are in different banks."""
    piece = CHUNK_BYTES // item_bytes(element)
    pieces = -(-shape[1] // piece)
    return MemRefType(shape, element, ((pieces | 1) * piece, 1), 0, 3)


def stage_bytes(product: Product, tile: tuple[int, int], step: int) -> int:
    """Bytes of the buffers of both sides in one iteration."""
    return sum(type.extent * item_bytes(type.element) for type in staged_buffers(product, tile, step))


def asked_bytes(product: Product, tile: tuple[int, int], step: int) -> int:
    """Bytes of the sectors that both sides of one iteration are in: a row that does not begin at a sector is in one more."""
    total = 0
    for type, length in zip(staged_buffers(product, tile, step), product.row_lengths, strict=True):
        (rows, columns), item = type.shape, item_bytes(type.element)
        total += rows * (columns * item + SECTOR_BYTES - gcd(columns * item, length * item, SECTOR_BYTES))
    return total
