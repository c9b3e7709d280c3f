# SPDX-License-Identifier: Apache-2.0
"""Contiguous parts of a value."""

from __future__ import annotations

from ..ir.core import Op
from ..ir.types import shape_of
from ..support.lengths import is_same, may_be_several
from .fields import get_i64s


def first_of_part(op: Op) -> int | None:
    """The index, in the operand, of the first element of a slice that is contiguous in the operand's memory; None for other
    slices."""
    shape, part = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    starts, steps = get_i64s(op, "starts"), get_i64s(op, "steps")
    position, several = 0, False
    for size, count, start, step in zip(shape, part, starts, steps, strict=True):
        # After a dimension with several elements all others must be whole.
        if (several and not is_same(count, size)) or (may_be_several(count) and step != 1):
            return None
        several = several or may_be_several(count)
        position = position * size + start
    return position if 0 not in part else None
