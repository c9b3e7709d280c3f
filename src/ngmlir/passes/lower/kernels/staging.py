# SPDX-License-Identifier: Apache-2.0
"""Operands of a product that are staged in shared memory on a GPU: tiles of later iterations are copied while those of the current one
are multiplied, and matrix instructions read them in the layout of the buffer."""

from __future__ import annotations

from ....ir.core import Value
from ....ir.types import VectorType, element_type, shape_of
from ....ops.builder import Builder
from ...analysis.product import Product
from ...schedule.staging import staged_buffers
from .reading import Matrix


class StagedOperands:
    """The two operands of a product, staged in shared memory."""

    def __init__(self, b: Builder, product: Product, tile: tuple[int, int], step: int):
        self.b = b
        self.step = step
        self.depth_first = (product.lhs_depth_first, product.rhs_depth_first)
        self.buffers = [b.alloc(type=type) for type in staged_buffers(product, tile, step)]

    def copy_in(self, places: list[tuple[Matrix, Value, Value, bool]]) -> None:
        """Copies the tiles of one iteration. `places` has for each operand, the left one first, the matrix, the offsets of its tile across and
        along the depth, and whether the tile may extend beyond the operand."""
        b = self.b
        for (matrix, across, k, masked), depth_first, buffer in zip(
            places, self.depth_first, self.buffers, strict=True
        ):
            place = (k, across) if depth_first else (across, k)
            b.copy(matrix.window(*place, _sizes(buffer), masked), buffer)
        b.barrier()

    def read(self, k: int, depth: int) -> tuple[Value, ...]:
        """Slices of both tiles of `depth` steps from `k` on, as rows x depth and depth x columns."""
        b, tiles = self.b, list[Value]()
        for number, (depth_first, buffer) in enumerate(zip(self.depth_first, self.buffers, strict=True)):
            turned = depth_first == (number == 0)
            rows, columns = _sizes(buffer)
            shape, place = ((depth, columns), (k, 0)) if depth_first else ((rows, depth), (0, k))
            type = VectorType(shape[::-1] if turned else shape, element_type(buffer.type))
            tiles.append(b.load(buffer, [*map(b.index, place)], type=type, dims=[1, 0] if turned else None))
        return tuple(tiles)


def _sizes(buffer: Value) -> tuple[int, int]:
    """The rows and columns of a buffer in memory order."""
    rows, columns = shape_of(buffer.type)
    return rows, columns
