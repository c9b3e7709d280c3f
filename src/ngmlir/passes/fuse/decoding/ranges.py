# SPDX-License-Identifier: Apache-2.0
"""Upper bounds of integer values."""

from __future__ import annotations

from ....ir.core import Op, Value
from ....ir.types import IntegerType, element_type
from ....ops.fields import constant_elements


def most(value: Value, known: dict[Value, int | None] | None = None, deep: int = 64) -> int | None:
    """An upper bound of the elements of a value that are known to be nonnegative; None where they are not."""
    known = {} if known is None else known
    if value not in known:
        known[value] = _most(value, known, deep)
    return known[value]


def _most(value: Value, known: dict[Value, int | None], deep: int) -> int | None:
    op, element = value.owner, element_type(value.type)
    if not isinstance(element, IntegerType) or element.width < 2:
        return None
    greatest = (1 << element.width) - 1 if element.unsigned else None
    if deep == 0 or not isinstance(op, Op):
        return greatest

    def of(at: int) -> int | None:
        return most(op.operands[at], known, deep - 1)

    def number(at: int) -> int | None:
        literal = constant_elements(op.operands[at])
        if literal is not None and literal.splat and literal.type.size:
            return int(literal.array().flat[0])
        return None

    found: int | None = None
    match op.name:
        case "ng.bitwise_and":
            limits = [
                limit for limit in (of(0), of(1), number(0), number(1)) if limit is not None and limit >= 0
            ]
            found = min(limits, default=None)
        case "ng.shift_right_arithmetic" | "ng.shift_right_logical":
            limit, by = of(0), number(1)
            found = limit if limit is None or by is None or by < 0 else limit >> by
        case "ng.shift_left":
            limit, by, room = of(0), number(1), element.width - (not element.unsigned)
            fits = limit is not None and by is not None and by >= 0 and limit << min(by, 64) < 1 << room
            found = limit << by if fits and limit is not None and by is not None else None
        case "ng.bitwise_or" | "ng.bitwise_xor":
            limits = [of(0), of(1)]
            wide = [limit for limit in limits if limit is not None]
            found = (1 << max(wide).bit_length()) - 1 if len(wide) == 2 else None
        case "ng.concatenate":
            limits = [most(v, known, deep - 1) for v in op.operands]
            wide = [limit for limit in limits if limit is not None]
            found = max(wide) if len(wide) == len(limits) else None
        case "ng.cast":
            limit, room = of(0), 1 << (element.width - (not element.unsigned))
            found = limit if limit is not None and limit < room else None
        case _ if op.traits & {"moves", "gathers"}:
            found = of(0)
        case _:
            pass
    limits = [limit for limit in (found, greatest) if limit is not None]
    return min(limits, default=None)
