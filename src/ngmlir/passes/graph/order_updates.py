# SPDX-License-Identifier: Apache-2.0
"""Scatters of many updates on GPUs: sorted by index first, so that each thread block finds the updates of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.core import Module, Op, Value
from ...ir.types import DYNAMIC, TensorType, element_type, i16, i32, i64, shape_of, with_element
from ...ops.builder import Builder
from ...ops.ng import ScatterOp
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target
from ..analysis.indices import position

#: Most updates that are not sorted: each thread block reads all indices itself, which is faster.
FEW = 128


@contract(needs=("named", "plain"), anchor="function", only="gpu")
def order_updates(module: Module, target: Target) -> Module:
    """Sorts the indices of scatters on GPUs, stably, and permutes the updates accordingly. Indices out of range, which have
    no effect, come last.

    Before:
        func.func @main(%x: tensor<9x3xf32>, %i: tensor<200xi32>, %u: tensor<200x3xf32>) -> tensor<9x3xf32> {
          %0 = ng.scatter %x[%i], %u axis 0 {combine = "add"} : (tensor<9x3xf32>, tensor<200xi32>, tensor<200x3xf32>) -> tensor<9x3xf32>
          return %0 : tensor<9x3xf32>
        }
    After:
        func.func @main(%x: tensor<9x3xf32>, %i: tensor<200xi32>, %u: tensor<200x3xf32>) -> tensor<9x3xf32> {
          ...
          %11 = ng.cast %10 : (tensor<200xi64>) -> tensor<200xi16>
          %12 = ng.argsort %11 axis 0 : (tensor<200xi16>) -> tensor<200xi32>
          %13 = ng.gather %11[%12] axis 0 : (tensor<200xi16>, tensor<200xi32>) -> tensor<200xi16>
          %14 = ng.reshape %u : tensor<200x3xf32>
          %15 = ng.gather %14[%12] axis 0 : (tensor<200x3xf32>, tensor<200xi32>) -> tensor<200x3xf32>
          %16 = ng.scatter %x[%13], %15 axis 0 {ascending, combine = "add"} : (tensor<9x3xf32>, tensor<200xi16>, tensor<200x3xf32>) -> tensor<9x3xf32>
          func.return %16 : tensor<9x3xf32>
        }
    """

    def ordered(op: Op, b: Builder) -> Sequence[Value] | None:
        assert isinstance(op, ScatterOp)
        x, indices, updates = op.operands
        if op.ascending or any(DYNAMIC in shape_of(v.type) for v in op.operands):
            return None
        axis, shape, count = op.axis, shape_of(x.type), prod(shape_of(indices.type))
        if count <= FEW or 0 in shape:
            return None
        flat = TensorType((count,), element_type(indices.type))
        place = _places(b, b.reshape(indices, type=flat), shape[axis])
        order = b.argsort(place, type=with_element(flat, i32 if count < 1 << 31 else i64), axis=0)
        lines = TensorType((*shape[:axis], count, *shape[axis + 1 :]), element_type(x.type))
        return [
            b.scatter(
                x,
                b.gather(place, order, axis=0),
                b.gather(b.reshape(updates, type=lines), order, axis=axis),
                axis=axis,
                combine=op.combine,
                ascending=True,
            )
        ]

    return sweep(module, ordered, frozenset(("ng.scatter",)))


def _places(b: Builder, index: Value, size: int) -> Value:
    """Positions along an axis of length `size`, in the narrowest integer type; `size` for an index out of range."""
    place = position(b, index, size)
    extent = b.number(size, place.type)
    inside = b.bitwise_and(b.greater_equal(place, b.number(0, place.type)), b.less(place, extent))
    short = next((n for n, bits in ((i16, 15), (i32, 31)) if size < 1 << bits), i64)
    return b.cast(b.select(inside, place, extent), type=with_element(place.type, short))
