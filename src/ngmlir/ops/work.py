# SPDX-License-Identifier: Apache-2.0
"""The work of a kernel launch: floating-point operations, and the bytes of its operands and results. Sizes that depend on open
lengths count with their usual values."""

from __future__ import annotations

from math import prod

from ..ir.core import Block, Op
from ..ir.literals import item_bytes
from ..ir.types import FloatType, ShapedType, element_type, shape_of
from ..support.artifact import Measure
from ..support.lengths import usual
from . import tile
from .fields import known


def measure(launch: Op, kernel: tile.KernelOp) -> Measure:
    """The work of one launch, as far as it is known before it runs."""
    taken = sum(_bytes(value.type) for value in dict.fromkeys(launch.operands))
    place = launch.location if launch.location.file else kernel.location
    return Measure(kernel.symbol, place, operations(kernel), taken)


def operations(kernel: tile.KernelOp) -> int | None:
    """Floating-point operations as the kernel states them; None if a loop's length is unknown."""
    each = _operations(kernel.block)
    return None if each is None else each * prod(usual(tuple(kernel.grid)))


def _bytes(type: object) -> int:
    assert isinstance(type, ShapedType)
    return usual(type.size) * item_bytes(type.element)


def _operations(block: Block) -> int | None:
    """The same for one program."""
    total = 0
    for op in block.ops:
        inside = [_operations(b) for region in op.regions for b in region.blocks]
        found = [count for count in inside if count is not None]
        if len(found) < len(inside):
            return None
        if isinstance(op, tile.ForOp):
            lower, upper, step = known(op.lower), known(op.upper), known(op.step)
            if lower is None or upper is None or not step:
                return None
            total += sum(found) * len(range(lower, upper, step))
        elif inside:
            total += max(found)  # one of them runs
        else:
            total += _of(op)
    return total


def _of(op: Op) -> int:
    if isinstance(op, tile.DotOp):
        (rows, depth), columns = shape_of(op.operands[0].type), shape_of(op.operands[1].type)[-1]
        return 2 * rows * depth * columns
    traits = op.traits
    if not op.results or not isinstance(element_type(op.result.type), FloatType):
        return 0
    if "elementwise" in traits:
        return prod(shape_of(op.result.type))
    if "reduction" in traits or "cumulative" in traits:
        return prod(shape_of(op.operands[0].type))
    return 0
