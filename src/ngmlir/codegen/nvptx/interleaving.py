# SPDX-License-Identifier: Apache-2.0
"""Which ops of a kernel are computed a few elements after the other, and not op after op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...ir.core import Op
from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...ops import ng, tile
from ...ops.layouts import Layout
from ...support.machines import REGISTER_BYTES

#: Elements that a thread computes side by side: so many that an instruction seldom waits for the one before, so few that what
#: they need meanwhile finds registers beside all that a tile holds.
SIDE_BY_SIDE = 8
#: Registers of a thread that two tiles may fill for one to be loaded at once that meets the other; the rest are for places and predicates.
_MOST_HELD = 160


def at_once(op: tile.LoadOp, layout: Layout) -> int:
    """The elements of a loaded tile that find registers beside all of another one that it meets."""
    room = _MOST_HELD // -(-item_bytes(element_type(op.result.type)) // REGISTER_BYTES) - layout.registers
    return max(SIDE_BY_SIDE, 1 << max(0, room).bit_length() >> 1)


def together(
    ops: Sequence[Op], layout_of: Callable[[Op], Layout | None]
) -> Iterator[tuple[Layout | None, list[Op]]]:
    """All ops in turn: those that are made side by side as runs on tiles of one layout, which constants do not end, others one
    by one, without a layout."""
    run, shared = list[Op](), None
    for op in ops:
        if isinstance(op, ng.ConstantOp):
            yield None, [op]
            continue
        layout = layout_of(op)
        if run and layout != shared:
            yield shared, run
            run = []
        if layout is None:
            yield None, [op]
        else:
            run.append(op)
        shared = layout
    if run:
        yield shared, run
