# SPDX-License-Identifier: Apache-2.0
"""Concatenations that are operands of computations, as selections by position instead of copies in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod

from ...ir.core import Block, Module, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import TensorType, Type, as_tensor, element_type, i32, shape_of, with_element
from ...ops.builder import Builder
from ...ops.fields import get_i64, get_i64s
from ...ops.rules import names_of, reshaped
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_found
from ...support.target import Target
from ..analysis.access import MOVES, is_long, masks
from ..analysis.group import fusible, has_elements, indexed, reads, splat, with_type
from ..analysis.views import source
from ..graph.dead_code import without_dead

#: Most parts of a concatenation that is replaced: each is a separate loop, or one more load for every element.
MOST_PARTS = 4
#: Positions are counted in 32 bits.
_MOST_POSITIONS = (1 << 31) - 1
#: Ops that are cheap enough to be computed in the reader, also on padding.
_CHEAP = frozenset(
    {
        "ng.add",
        "ng.subtract",
        "ng.multiply",
        "ng.negative",
        "ng.absolute",
        "ng.maximum",
        "ng.minimum",
        "ng.cast",
    }
)
#: View ops: the readers of their result count as readers of their operand.
_SHOWING = frozenset({"ng.reshape", "ng.broadcast"})


@contract(needs=("named", "plain"), anchor="function")
def select_parts(module: Module, target: Target) -> Module:
    """Replaces concatenations of a few tensors, if only elementwise ops and reductions use them, by selections by position:
    their kernels read each part in place, in loops that end where a part does.

    The padding of a part is never selected. An operand without other readers may be computed in the same kernel.

    Before:
        func.func @main(%x: tensor<2x4xf32>, %y: tensor<3x4xf32>) -> tensor<5x4xf32> {
          %0 = ng.concatenate %x, %y axis 0 : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
          %1 = ng.tanh %0 : tensor<5x4xf32>
          return %1 : tensor<5x4xf32>
        }
    After:
        func.func @main(%x: tensor<2x4xf32>, %y: tensor<3x4xf32>) -> tensor<5x4xf32> {
          %0 = ng.pad %x low [0, 0] high [3, 0] : (tensor<2x4xf32>) -> tensor<5x4xf32>
          %1 = ng.pad %y low [2, 0] high [0, 0] : (tensor<3x4xf32>) -> tensor<5x4xf32>
          %2 = ng.iota {dimension = 0 : i64} : tensor<5x4xi32>
          %3 = ng.constant dense<2> : tensor<5x4xi32>
          %4 = ng.less %2, %3 : (tensor<5x4xi32>, tensor<5x4xi32>) -> tensor<5x4xi1>
          %5 = ng.select %4, %0, %1 : (tensor<5x4xi1>, tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
          %6 = ng.tanh %5 : tensor<5x4xf32>
          func.return %6 : tensor<5x4xf32>
        }
    """
    return module.with_ops([_function(op, target) if op.name == "func.func" else op for op in module.ops])


def _function(function: Op, target: Target) -> Op:
    blocks = [b for op in function.walk() for region in op.regions for b in region.blocks]
    found = {op: parts for block in blocks for op, parts in _selections(block, target)}
    made = sweep_found(function, found, _selection)
    return function if made is function else without_dead(made)


def _selections(block: Block, target: Target) -> Iterator[tuple[Op, Sequence[bool]]]:
    """The concatenations of a block that become selections, and for each operand whether it has no other reader."""
    readers: dict[Value, list[Op]] = {}
    for op in block.ops:
        for value in reads(op):
            readers.setdefault(value, []).append(op)

    def computed_with(value: Value) -> bool:
        """Whether all readers of a value are elementwise ops or reductions."""
        return all(
            computed_with(op.result) if op.name in _SHOWING else fusible(op) and not indexed(op)
            for op in readers.get(value, [op])
        )

    for op in block.ops:
        if op.name == "ng.concatenate" and _suits(op, target) and computed_with(op.result):
            yield op, [len(readers[v]) == 1 for v in op.operands]


def _suits(op: Op, target: Target) -> bool:
    """Whether the parts of a concatenation can be read in place."""
    if not 1 < len(op.operands) <= MOST_PARTS or not all(has_elements(v) for v in (*op.operands, op.result)):
        return False
    axis, item = get_i64(op, "axis"), item_bytes(element_type(op.result.type))
    rows = [prod(shape_of(v.type)[axis:]) for v in op.operands]
    # Without masks short rows are read element by element.
    return masks(item, target) or target.has_thread_blocks or all(is_long(row, item, target) for row in rows)


def _selection(op: Op, alone: Sequence[bool], b: Builder) -> Sequence[Value] | None:
    """The concatenation as a selection; None where an operand is a move that cannot be padded and still be read in place."""
    axis, size = get_i64(op, "axis"), shape_of(op.result.type)[get_i64(op, "axis")]
    if size > _MOST_POSITIONS:
        return None
    starts = [0, *accumulate(shape_of(v.type)[axis] for v in op.operands)]
    parts = [
        _computed(b, value, axis, start, size) if single else _spread(b, value, axis, start, size)
        for value, start, single in zip(op.operands, starts, alone, strict=False)
    ]
    count = b.iota(type=with_element(op.result.type, i32), dimension=axis)
    selected = parts[-1]
    for part, end in reversed([*zip(parts[:-1], starts[1:], strict=False)]):
        if part is None or selected is None:
            return None
        selected = b.select(b.less(count, b.number(end, count.type)), part, selected)
    return None if selected is None else [selected]


def _computed(b: Builder, value: Value, axis: int, start: int, size: int) -> Value | None:
    """An operand without other readers, extended to `size`: the operands of a cheap op are extended, and it is computed on them."""
    op, shape = value.owner, shape_of(value.type)
    if isinstance(op, Op) and op.name == "ng.reshape":
        op = op.operands[0].owner
    if not isinstance(op, Op) or op.name not in _CHEAP:
        return _spread(b, value, axis, start, size)
    seen = [_seen(v, shape) for v in op.operands]
    if any(shape_of(v.type) != shape for v in seen):
        return _spread(b, value, axis, start, size)
    operands = [_spread(b, v, axis, start, size) for v in seen]
    known = [v for v in operands if v is not None]
    if len(known) < len(operands):
        return None
    return b.add_op(op.rebuilt(known, types=[_grown(value.type, axis, size)])).result


def _seen(value: Value, shape: tuple[int, ...]) -> Value:
    """The operand of a reshape, if it has this shape; else the value itself."""
    op = value.owner
    if isinstance(op, Op) and op.name == "ng.reshape" and shape_of(op.operands[0].type) == shape:
        return op.operands[0]
    return value


def _spread(b: Builder, value: Value, axis: int, start: int, size: int) -> Value | None:
    """A tensor of `size` along an axis that has a value from `start` on and arbitrary elements elsewhere. None where a kernel
    could not read the value in place through it."""
    op, type = value.owner, _grown(value.type, axis, size)
    if isinstance(op, Op) and op.name == "ng.constant" and splat(op):
        return with_type(op, type, b)
    if isinstance(op, Op) and op.name == "ng.broadcast":
        dimensions, inner = get_i64s(op, "dimensions"), op.operands[0]
        if axis not in dimensions:
            return b.broadcast(inner, type=type, dimensions=dimensions)
        made = _spread(b, inner, dimensions.index(axis), start, size)
        return None if made is None else b.broadcast(made, type=type, dimensions=dimensions)
    first = [0] * len(shape_of(type))
    if isinstance(op, Op) and op.name == "ng.slice" and set(get_i64s(op, "steps")) <= {1}:
        value, first = op.operands[0], list(get_i64s(op, "starts"))
    lies = source(value).owner
    if isinstance(lies, Op) and lies.name in MOVES:
        return None
    # A slice is extended within its operand, as far as that goes; only the rest is padded.
    low = start - first[axis]
    high = size - low - shape_of(value.type)[axis]
    first[axis] = max(-low, 0)
    around = [0] * len(first)
    if low > 0 or high > 0:
        before, behind = list(around), list(around)
        before[axis], behind[axis] = max(low, 0), max(high, 0)
        value = b.pad(value, low=before, high=behind)
    if shape_of(value.type) == shape_of(type):
        return value
    limits = [at + n for at, n in zip(first, shape_of(type), strict=True)]
    return b.slice(value, starts=first, limits=limits, steps=[1] * len(first))


def _grown(type: Type, axis: int, size: int) -> TensorType:
    """The type with `size` along an axis."""
    shape = list(shape_of(type))
    shape[axis] = size
    return as_tensor(reshaped(type, shape, names_of(type)))
