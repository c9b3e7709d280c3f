# SPDX-License-Identifier: Apache-2.0
"""Align sides: copies of sides of products that matrix instructions cannot take as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ir.core import Module, Op, Value
from ..ir.literals import item_bytes
from ..ir.types import FloatType, element_type, shape_of
from ..ops.builder import Builder
from ..ops.schedules import SCHEDULE
from ..rewrite.contracts import contract
from ..rewrite.sweep import sweep
from ..support.machines import COPIED_BYTES, PIECE_BYTES
from ..support.target import Target
from .access import MOVES
from .implicit import Implicit, depths
from .sides import Side

#: What gives elements some place, and nothing else.
_PLACING = MOVES | {"ng.broadcast"}
#: Times that each element of a side is read at least, and multiplications, so that copies of both sides, two kernels before
#: the product, are worth it: of sides of single bytes across rows, which are taken apart byte by byte, fewer.
_READ, _BYTES_WORTH, _ROWS_WORTH = 64, 1 << 25, 1 << 28


@contract(needs=("named", "plain"), anchor="function")
def align_sides(module: Module, target: Target) -> Module:
    """Copies sides of large products on GPUs so that their rows lie along the depth, in whole pieces of 16 bytes, where they
    are not copied in the background as they lie, and read from there by matrix instructions: rows that begin within a word,
    and elements of one byte across the depth. Zeros fill up the depth of both sides.

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
    if not target.multiprocessors or not target.gpu.matrix:
        return module

    def rule(op: Op, b: Builder) -> Sequence[Value] | None:
        return _aligned(op, b, target)

    return sweep(module, rule, frozenset({"ng.dot"}))


def _as_it_lies(item: int, row: int, along: bool) -> bool:
    """Whether rows of so many elements of `item` bytes are copied in the background, and matrix instructions then read them:
    `along` the depth, or across it, which `ldmatrix` turns for elements of 2 bytes alone."""
    return row * item % min(COPIED_BYTES) == 0 and (along or item == 2)


def is_aligned(side: Value, depth: int, found: Side | Implicit) -> bool:
    """Whether a side, which could be `found` by a product itself, is there so that none has to: it was put along `depth`."""
    if not isinstance(found, Side) or not found.turned or depth != len(shape_of(side.type)) - 1:
        return False
    item = item_bytes(element_type(side.type))
    return item <= 2 and not _as_it_lies(item, found.shape[-1], along=False)


def _aligned(op: Op, b: Builder, target: Target) -> Sequence[Value] | None:
    at = depths(op)
    kinds = [element_type(side.type) for side in op.operands]
    result = op.results[0].type
    total = "f32" if isinstance(kinds[0], FloatType) else element_type(result).text
    if (
        min(at) < 0
        or SCHEDULE in op.attributes
        or target.gpu.atom(kinds[0].text, kinds[1].text, total) is None
    ):
        return None
    shapes = [shape_of(side.type) for side in op.operands]
    along = [d == len(shape) - 1 for d, shape in zip(at, shapes, strict=True)]
    items = [item_bytes(kind) for kind in kinds]
    depth, batch = shapes[0][at[0]], len(shapes[0]) - 2
    ready = [_as_it_lies(*side) for side in zip(items, (s[-1] for s in shapes), along, strict=True)]
    turned = [not (is_ready or is_along) for is_ready, is_along in zip(ready, along, strict=True)]
    piece = PIECE_BYTES // min(items)
    lies_along = any(a or t for a, t in zip(along, turned, strict=True))
    missing = -depth % piece if lies_along and depth * min(items) % min(COPIED_BYTES) else 0
    others = [prod(shape[batch:]) // depth for shape in shapes] if depth else [0]
    bytes_apart = not missing and all(item == 1 for item, t in zip(items, turned, strict=True) if t)
    least = _BYTES_WORTH if bytes_apart else _ROWS_WORTH
    worth = min(others) >= _READ and prod(shape_of(result)) * depth >= least
    if all(ready) or not worth or not all(map(_computed, op.operands)):
        return None
    sides = list(op.operands)
    contract_at = list(at)
    for i, turn in enumerate(turned):
        if turn:
            sides[i] = b.transpose(sides[i], permutation=[*range(batch), batch + 1, batch])
            contract_at[i] = batch + 1
        if missing:
            high = [missing if d == contract_at[i] else 0 for d in range(batch + 2)]
            sides[i] = b.pad(sides[i], low=[0] * len(high), high=high)
    over = {"lhs_contract": [contract_at[0]], "rhs_contract": [contract_at[1]]}
    batches = {name: list(range(batch)) for name in ("lhs_batch", "rhs_batch")} if batch else {}
    return [b.dot(*sides, **over, **batches, type=result)]


def _computed(side: Value) -> bool:
    """Whether a side is no rearrangement of something else, such as windows of a picture, which would be made in memory."""
    owner = side.owner
    while isinstance(owner, Op) and owner.name == "ng.reshape":
        owner = owner.operands[0].owner
    return not (isinstance(owner, Op) and owner.name in _PLACING)
