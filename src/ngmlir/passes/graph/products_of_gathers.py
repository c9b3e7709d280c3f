# SPDX-License-Identifier: Apache-2.0
"""Products of gathered rows, as gathers of the product with the table."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.core import Module, Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64, get_i64s
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.lengths import usual
from ...support.target import Target
from .gathered_rows import GatheredRows

#: Least contracted size at which a product takes longer than moving its result.
_DEEP = 16


@contract(needs=("plain",), anchor="function")
def products_of_gathers(module: Module, target: Target) -> Module:
    """Multiplies the rows of a table before they are gathered, if at least twice as many rows are gathered as the table has and the
    product does not contract them: a small embedding, for example, whose product may then be hoisted out of a loop. And gathers rows
    before they are multiplied, if that moves narrower rows and not many more than there are; so too where rows are scattered onto zeros.

    Before:
        func.func @main(%x: tensor<5x16xf32>, %i: tensor<12xi32>, %w: tensor<16x8xf32>) -> tensor<12x8xf32> {
          %0 = ng.gather %x[%i] axis 0 : (tensor<5x16xf32>, tensor<12xi32>) -> tensor<12x16xf32>
          %1 = ng.dot %0, %w contract [1] x [0] : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
          return %1 : tensor<12x8xf32>
        }
    After:
        func.func @main(%x: tensor<5x16xf32>, %i: tensor<12xi32>, %w: tensor<16x8xf32>) -> tensor<12x8xf32> {
          %0 = ng.gather %x[%i] axis 0 : (tensor<5x16xf32>, tensor<12xi32>) -> tensor<12x16xf32>
          %1 = ng.dot %x, %w contract [1] x [0] : (tensor<5x16xf32>, tensor<16x8xf32>) -> tensor<5x8xf32>
          %2 = ng.gather %1[%i] axis 0 : (tensor<5x8xf32>, tensor<12xi32>) -> tensor<12x8xf32>
          func.return %2 : tensor<12x8xf32>
        }
    """
    return module.with_ops([_function(op) if op.regions else op for op in module.ops])


def _function(function: Op) -> Op:
    rows = GatheredRows(function)

    def rule(op: Op, b: Builder) -> Sequence[Value] | None:
        made = _gathered_after(op, 0, b) or _gathered_after(op, 1, b) if op.name == "ng.dot" else None
        made = made or rows(op, b)
        return None if made is None else [made]

    return sweep_op(function, rule, frozenset({"ng.dot", "ng.gather", "ng.sum"}), follow=rows.follow)


def _gathered_after(op: Op, side: int, b: Builder) -> Value | None:
    """A gather of the product with the table that a side is gathered from; None where that is not less work."""
    gather = op.operands[side].owner
    if not isinstance(gather, Op) or gather.name != "ng.gather":
        return None
    table, indices = gather.operands
    axis, rank = get_i64(gather, "axis"), len(shape_of(indices.type))
    gone = range(axis, axis + rank)
    of = ("lhs", "rhs")[side]
    contract, batch = get_i64s(op, f"{of}_contract"), get_i64s(op, f"{of}_batch")
    whole, rows = shape_of(gather.result.type), usual(shape_of(table.type)[axis])
    gathered = prod(usual(whole[axis : axis + rank]))
    if not set(gone).isdisjoint((*contract, *batch)):
        return None
    if 2 * rows > gathered or prod(usual(whole[d]) for d in contract) < _DEEP:
        return None

    def before(dimension: int) -> int:
        """The dimension of the table that a dimension of the gather's result comes from."""
        return dimension if dimension < axis else dimension - rank + 1

    attributes = {name: list(get_i64s(op, name)) for name in _DIMENSIONS}
    for name in (f"{of}_contract", f"{of}_batch"):
        attributes[name] = [before(d) for d in attributes[name]]
    sides = [*op.operands]
    sides[side] = table
    # The dimensions of the result are the batch, the free ones of the left side, and those of the right side.
    left = [d for d in range(len(shape_of(table.type))) if d not in attributes[f"{of}_contract"]]
    left = [d for d in left if d not in attributes[f"{of}_batch"]]
    place = len(batch) + left.index(axis)
    if side == 1:
        lhs = len(shape_of(sides[0].type))
        place += lhs - len(attributes["lhs_contract"]) - len(attributes["lhs_batch"])
    shape = list(shape_of(op.result.type))
    shape[place : place + rank] = [shape_of(table.type)[axis]]
    type = TensorType(tuple(shape), element_type(op.result.type))
    product = b.dot(sides[0], sides[1], type=type, **attributes)
    return b.gather(product, indices, axis=place)


_DIMENSIONS = ("lhs_contract", "rhs_contract", "lhs_batch", "rhs_batch")
