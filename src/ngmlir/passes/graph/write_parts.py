# SPDX-License-Identifier: Apache-2.0
"""Partial updates written as a concatenation, as scatters, which do not copy what is unchanged."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

from ...ir.core import Block, Module, Op, Value
from ...ir.elements import elements_from_bytes
from ...ir.types import DYNAMIC, FloatType, IntegerType, as_tensor, element_type, i64, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64, get_i64s
from ...ops.rules import names_of, reshaped
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_found
from ...support.target import Target
from .dead_code import without_dead

#: View ops: if the result leaves a block, so does the operand.
_SHOWING = frozenset({"ng.reshape", "ng.cast_axes"})


@contract(needs=("named", "plain"), anchor="function", only="cpu")
def write_parts(module: Module, target: Target) -> Module:
    """Rewrites concatenations that a function returns or a loop body yields, and of which at least half are slices of one value at
    their old positions, as scatters: on a CPU a scatter writes in place if the old value has no later use.

    Before:
        func.func @main(%x: tensor<8x3xf32>, %u: tensor<1x3xf32>) -> tensor<8x3xf32> {
          %0 = ng.slice %x from [0, 0] to [5, 3] step [1, 1] : (tensor<8x3xf32>) -> tensor<5x3xf32>
          %1 = ng.slice %x from [6, 0] to [8, 3] step [1, 1] : (tensor<8x3xf32>) -> tensor<2x3xf32>
          %2 = ng.concatenate %0, %u, %1 axis 0 : (tensor<5x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<8x3xf32>
          return %2 : tensor<8x3xf32>
        }
    After:
        func.func @main(%x: tensor<8x3xf32>, %u: tensor<1x3xf32>) -> tensor<8x3xf32> {
          %0 = ng.constant dense<5> : tensor<1xi64>
          %1 = ng.scatter %x[%0], %u axis 0 : (tensor<8x3xf32>, tensor<1xi64>, tensor<1x3xf32>) -> tensor<8x3xf32>
          func.return %1 : tensor<8x3xf32>
        }
    """
    return module.with_ops([_function(op) if op.name == "func.func" else op for op in module.ops])


def _function(function: Op) -> Op:
    blocks = [b for op in function.walk() for region in op.regions for b in region.blocks]
    found = {op: whole for block in blocks for op, whole in _writes(block).items()}
    made = sweep_found(function, found, lambda op, kept, b: [_scatter(op, kept, b)])
    return function if made is function else without_dead(made)


def _writes(block: Block) -> dict[Op, list[bool]]:
    """The concatenations of a block that replace a part of a value and leave the block; for each operand whether it is an
    unchanged part."""
    leaving = set(block.ops[-1].operands) if block.ops else set[Value]()
    found: dict[Op, list[bool]] = {}
    for op in reversed(block.ops):
        if not any(result in leaving for result in op.results):
            continue
        if op.name in _SHOWING or op.name == "ng.scatter":
            leaving.add(op.operands[0])
        elif op.name == "ng.concatenate" and (whole := _kept(op)) is not None:
            value, found[op] = whole
            leaving.add(value)
    return found


def _kept(op: Op) -> tuple[Value, list[bool]] | None:
    """The value that at least half of a concatenation consists of, and for each operand whether it is a slice of it at its old
    position."""
    axis, type = get_i64(op, "axis"), op.results[0].type
    element = element_type(type)
    narrow = isinstance(element, IntegerType) and element.width < 8
    if DYNAMIC in shape_of(type) or not isinstance(element, (FloatType, IntegerType)) or narrow:
        return None
    lengths = [shape_of(v.type)[axis] for v in op.operands]
    starts = [0, *accumulate(lengths)]
    pieces = [_piece(v, axis, start) for v, start in zip(op.operands, starts, strict=False)]
    for value in dict.fromkeys(v for v in pieces if v is not None and v.type is type):
        kept = [piece is value for piece in pieces]
        if 2 * sum(n for n, stays in zip(lengths, kept, strict=True) if stays) >= starts[-1]:
            return value, kept
    return None


def _piece(value: Value, axis: int, start: int) -> Value | None:
    """The value that an operand is a slice of, if it starts at `start` along the axis and has all of the other dimensions."""
    op = value.owner
    if not isinstance(op, Op) or op.name != "ng.slice":
        return None
    begins = [start if d == axis else 0 for d in range(len(shape_of(value.type)))]
    whole = shape_of(op.operands[0].type)
    across = all(
        n == m for d, (n, m) in enumerate(zip(shape_of(value.type), whole, strict=True)) if d != axis
    )
    steps = [*get_i64s(op, "steps")]
    fits = [*get_i64s(op, "starts")] == begins and steps == [1] * len(steps)
    return op.operands[0] if across and fits else None


def _scatter(op: Op, kept: Sequence[bool], b: Builder) -> Value:
    """The concatenation as a scatter of its changed operands."""
    axis, type = get_i64(op, "axis"), op.results[0].type
    whole = next(v for v, stays in zip(op.operands, kept, strict=True) if stays).owner
    assert isinstance(whole, Op)
    places: list[int] = []
    start = 0
    for value, stays in zip(op.operands, kept, strict=True):
        length = shape_of(value.type)[axis]
        places += [] if stays else range(start, start + length)
        start += length
    new = [v for v, stays in zip(op.operands, kept, strict=True) if not stays]
    if not places:
        return whole.operands[0]
    updates = new[0] if len(new) == 1 else b.concatenate(new, axis=axis)
    names = names_of(type)
    data = array("q", places).tobytes()
    indices = as_tensor(reshaped(type, [len(places)], names and [names[axis]], i64))
    at = b.constant(type=indices, value=elements_from_bytes(data, indices))
    return b.scatter(whole.operands[0], at, updates, axis=axis)
