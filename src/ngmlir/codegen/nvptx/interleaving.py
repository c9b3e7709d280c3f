# SPDX-License-Identifier: Apache-2.0
"""Which ops of a kernel are lowered together, a few elements at a time, instead of op by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...ir.core import Op
from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...ops import ng, tile
from ...ops.layouts import Layout
from ...support.machines import REGISTER_BYTES

#: Elements that a thread computes at a time: enough that an instruction seldom waits for the previous one, and few
#: enough that their temporaries fit into registers in addition to whole tiles.
SIDE_BY_SIDE = 8
#: Registers of a thread that two operands of an op may occupy if one of them is loaded as a whole; the rest are for
#: addresses and predicates.
_MOST_HELD = 160


def elements_at_once(op: tile.LoadOp, layout: Layout) -> int:
    """How many elements of a loaded tile fit into registers in addition to the whole of another tile of the same
    layout."""
    room = _MOST_HELD // -(-item_bytes(element_type(op.result.type)) // REGISTER_BYTES) - layout.registers
    return max(SIDE_BY_SIDE, 1 << max(0, room).bit_length() >> 1)


def interleaved(
    ops: Sequence[Op], layout_of: Callable[[Op], Layout | None]
) -> Iterator[tuple[Layout | None, list[Op]]]:
    """All ops in order: runs of ops on tiles of one layout that are computed a few elements at a time, which constants
    do not end; all others singly, with None as layout."""
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
