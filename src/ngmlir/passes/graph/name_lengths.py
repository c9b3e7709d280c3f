# SPDX-License-Identifier: Apache-2.0
"""Names for the lengths that arguments leave open."""

from __future__ import annotations

from ...ir.core import Module, Op
from ...ir.types import DYNAMIC, shape_of
from ...ops.open_lengths import open_lengths
from ...rewrite.contracts import contract
from ...support.length_places import LengthPlace
from ...support.length_text import UsualLengths
from ...support.lengths import Length
from ...support.target import Target
from .known_lengths import with_lengths


@contract(needs=("named", "plain"), anchor="function")
def name_lengths(module: Module, target: Target) -> Module:
    """Gives each open length (`?`) of a function the name of its axis, or of its dimension, and all values the lengths that follow from
    these. Dimensions of arguments that have the same name have the same length.

    Before:
        func.func @main(%x: tensor<?x4xf32, #ng.axes<N, C>>) -> tensor<?xf32, #ng.axes<N>> {
          %0 = ng.max %x axes [1] : (tensor<?x4xf32, #ng.axes<N, C>>) -> tensor<?xf32, #ng.axes<N>>
          return %0 : tensor<?xf32, #ng.axes<N>>
        }
    After:
        func.func @main(%x: tensor<[N]x4xf32, #ng.axes<N, C>>) -> tensor<[N]xf32, #ng.axes<N>> {
          %0 = ng.max %x axes [1] : (tensor<[N]x4xf32, #ng.axes<N, C>>) -> tensor<[N]xf32, #ng.axes<N>>
          func.return %0 : tensor<[N]xf32, #ng.axes<N>>
        }
    """
    return module.with_ops([_named(op) for op in module.ops])


def _named(op: Op) -> Op:
    if op.name != "func.func" or not op.regions[0].blocks:
        return op
    shapes = [shape_of(value.type) for value in op.block.args]
    if not any(DYNAMIC in shape for shape in shapes):
        return op
    usual = UsualLengths()
    known: dict[LengthPlace, int] = {}
    for length in open_lengths(op):
        named = [p.length(shapes) for p in length.places if shapes[p.argument][p.dimension] != DYNAMIC]
        number = named[0] if named else Length.named(length.name, usual[length.name])
        known |= dict.fromkeys(length.places, number)
    return with_lengths(op, known)
