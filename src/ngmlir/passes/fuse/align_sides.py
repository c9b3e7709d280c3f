# SPDX-License-Identifier: Apache-2.0
"""Align sides: copies of operands of products that matrix instructions cannot read in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...ir.core import Module, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import FloatType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.machines import CHUNK_BYTES
from ...support.target import Target
from ..analysis.sides import Side, Strided, copied_chunk, depths
from ..analysis.views import source

#: Least number of times that each element of a side is read, and least numbers of multiplications, for which copies of both sides
#: by two kernels before the product are worth it. `_BYTES_WORTH`: for sides of one-byte elements that are not contiguous along
#: the depth, which the product would read byte by byte.
_READ, _BYTES_WORTH, _ROWS_WORTH = 64, 1 << 25, 1 << 28


@contract(needs=("named", "plain"), anchor="function")
def align_sides(module: Module, target: Target) -> Module:
    """Copies operands of large products on GPUs so that rows are contiguous along the contracted dimension and
    aligned to 16 bytes, if asynchronous copies and matrix instructions cannot read them in place: rows that begin
    within a word, and elements of one byte across the contracted dimension. The contracted dimension of both
    operands is padded with zeros.

    Before:
        func.func @main(%x: tensor<1001x1001xbf16>, %w: tensor<1001x512xbf16>) -> tensor<1001x512xf32> {
          %0 = ng.dot %x, %w contract [1] x [0] : (tensor<1001x1001xbf16>, tensor<1001x512xbf16>) -> tensor<1001x512xf32>
          return %0 : tensor<1001x512xf32>
        }
    After:
        func.func @main(%x: tensor<1001x1001xbf16>, %w: tensor<1001x512xbf16>) -> tensor<1001x512xf32> {
          %0 = ng.pad %x low [0, 0] high [0, 7] : (tensor<1001x1001xbf16>) -> tensor<1001x1008xbf16>
          %1 = ng.pad %w low [0, 0] high [7, 0] : (tensor<1001x512xbf16>) -> tensor<1008x512xbf16>
          %2 = ng.dot %0, %1 contract [1] x [0] : (tensor<1001x1008xbf16>, tensor<1008x512xbf16>) -> tensor<1001x512xf32>
          func.return %2 : tensor<1001x512xf32>
        }
    """
    if not target.matrix:
        return module

    def rule(op: Op, b: Builder) -> Sequence[Value] | None:
        return _aligned(op, b, target)

    return sweep(module, rule, frozenset({"ng.dot"}))


@dataclass(frozen=True)
class _Matrix:
    """A side of a product, [batch,] rows x columns, whose dimension `depth` is summed over."""

    value: Value
    depth: int

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.value.type)

    @property
    def item(self) -> int:
        return item_bytes(element_type(self.value.type))

    @property
    def along(self) -> bool:
        """Whether it is contiguous along the depth."""
        return self.depth == len(self.shape) - 1

    @property
    def ready(self) -> bool:
        """Whether it can be read in place."""
        return copied_chunk(self.shape[-1], self.item, self.along) > 0

    @property
    def across(self) -> int:
        """The size of its dimension other than the depth."""
        first, second = self.shape[-2:]
        return first if self.along else second

    def aligned(self, b: Builder, missing: int) -> _Matrix:
        """The side transposed, if it cannot be read in place and is not contiguous along the depth, and with the depth padded with
        `missing` zeros at its end."""
        value, depth, rank = self.value, self.depth, len(self.shape)
        if not (self.ready or self.along):
            value = b.transpose(value, permutation=[*range(rank - 2), rank - 1, rank - 2])
            depth = rank - 1
        if missing:
            value = b.pad(value, low=[0] * rank, high=[missing * (d == depth) for d in range(rank)])
        return _Matrix(value, depth)


def is_aligned(side: Value, depth: int, found: Side) -> bool:
    """Whether a side that a product could read as `found`, through a transpose, was transposed by this pass to be contiguous along
    `depth`: then the copy is stored."""
    if not isinstance(found, Strided) or not found.is_transposed or not _Matrix(side, depth).along:
        return False
    item = item_bytes(element_type(side.type))
    return item <= 2 and not copied_chunk(found.shape[-1], item, along=False)


def _aligned(op: Op, b: Builder, target: Target) -> Sequence[Value] | None:
    sides = [_Matrix(value, depth) for value, depth in zip(op.operands, depths(op), strict=True)]
    if SCHEDULE in op.attributes or not _multiplies(op, target) or all(side.ready for side in sides):
        return None
    turned = [side for side in sides if not (side.ready or side.along)]
    depth, item = sides[0].shape[sides[0].depth], min(side.item for side in sides)
    missing = 0 if copied_chunk(depth, item, along=True) else -depth % (CHUNK_BYTES // item)
    single_bytes = not missing and all(side.item == 1 for side in turned)
    least = _BYTES_WORTH if single_bytes else _ROWS_WORTH
    worth = (
        min(side.across for side in sides) >= _READ and prod(shape_of(op.results[0].type)) * depth >= least
    )
    if not worth or not all(_computed(side.value) for side in sides):
        return None
    lhs, rhs = (side.aligned(b, missing) for side in sides)
    batch = list(range(len(lhs.shape) - 2))
    batches = {"lhs_batch": batch, "rhs_batch": batch} if batch else {}
    return [
        b.dot(
            lhs.value,
            rhs.value,
            lhs_contract=[lhs.depth],
            rhs_contract=[rhs.depth],
            **batches,
            type=op.results[0].type,
        )
    ]


def _multiplies(op: Op, target: Target) -> bool:
    """Whether matrix instructions compute a product of two matrices, or two stacks of them."""
    lhs, rhs = (element_type(side.type) for side in op.operands)
    total = "f32" if isinstance(lhs, FloatType) else element_type(op.results[0].type).text
    return min(depths(op)) >= 0 and target.gpu.atom(lhs.text, rhs.text, total) is not None


def _computed(side: Value) -> bool:
    """Whether a side is not a rearrangement of another value, such as windows of an image, which would have to be stored."""
    owner = source(side).owner
    return not (isinstance(owner, Op) and ("moves" in owner.traits or owner.name == "ng.pad"))
