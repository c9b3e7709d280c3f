# SPDX-License-Identifier: Apache-2.0
"""The body of a fusion that decodes a weight, applied to tiles: what the kernels of such fusions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ....ir.core import Op, Value
from ....ir.elements import ElementsAttr
from ....ir.types import VectorType, element_type, shape_of
from ....ops.builder import Builder

#: Ops that only move or repeat the elements of their operand.
_MOVES = frozenset({"ng.broadcast", "ng.transpose", "ng.reshape", "ng.slice"})


def apply_to_tiles(
    b: Builder,
    ops: Iterable[Op],
    known: dict[Value, Value],
    constant_type: Callable[[Value], VectorType | None],
    moved: Callable[[Op, Value], Value],
) -> None:
    """Adds the tiles of the results of `ops` to `known`.

    `constant_type` returns the type of the tile of a constant, None for one that has none; `moved` the tile of the result of an op that only
    moves or repeats elements. Ops with operands that are not `known` unpack codes, which kernels do themselves: they are skipped.
    """
    for op in ops:
        value, literal = op.result, op.attributes.get("value")
        if value in known:
            continue
        if isinstance(literal, ElementsAttr) and literal.splat:
            if (type := constant_type(value)) is not None:
                known[value] = b.constant(type=type, value=literal.of_type(type))
        elif not op.operands or any(v not in known for v in op.operands):
            continue
        elif op.name in _MOVES:
            known[value] = moved(op, known[op.operands[0]])
        else:
            operands = [known[v] for v in op.operands]
            type = VectorType(shape_of(operands[0].type), element_type(value.type))
            known[value] = b.add_op(op.rebuilt(operands, types=[type])).result
