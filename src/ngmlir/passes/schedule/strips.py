# SPDX-License-Identifier: Apache-2.0
"""How chains are cut: how many rows a program takes through all kernels, and how each of these is cut then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.core import Value
from ...ir.literals import item_bytes
from ...ops.schedules import Panels, Rows
from ...ops.settings import Schedule
from ...support.target import Target
from ..fuse.links import Link, handed, places

#: The part of the near cache that strips fill, beside what they are multiplied by; and how far beyond it they may go.
PART_OF_CACHE, CACHES = 2, 2
#: So many rows, or all there are, read the sides of products seldom enough: that many multiply-adds for each element.
ENOUGH_ROWS = 32
#: How often what is handed on would pass between the caches: memory that is written is read before.
PASSES = 3


def strip_rows(links: Sequence[Link], target: Target) -> int:
    """Rows of one program: as many as the near cache has room for, in strips of about the same length."""
    rows = next(link.rows for link in links if link.product)
    most = max(ENOUGH_ROWS, target.l2_bytes // PART_OF_CACHE // _row_bytes(links))
    even = -(-rows // -(-rows // most))
    # A last strip that is like the others needs no code of its own.
    return next((n for n in range(even, max(1, even * 3 // 4), -1) if rows % n == 0), even)


def fits(links: Sequence[Link], target: Target) -> bool:
    """Whether strips stay near, and for that no more is read again of what each of them is multiplied by."""
    rows, row_bytes = strip_rows(links, target), _row_bytes(links)
    products = [link.product for link in links if link.product]
    right_bytes = sum(p.depth * p.columns * item_bytes(p.rhs_element) for p in products)
    again = right_bytes * (-(-products[0].rows // rows) - 1)
    handed_bytes = sum(_handed(links).values()) * products[0].rows
    return rows * row_bytes <= CACHES * target.l2_bytes and again <= PASSES * handed_bytes


def _row_bytes(links: Sequence[Link]) -> int:
    """Of what a strip holds for each of its rows."""
    where = places(links)
    return max(1, sum(size for value, size in _handed(links).items() if where[value] is value))


def _handed(links: Sequence[Link]) -> dict[Value, int]:
    """What one link hands to others, and how many bytes of each row that is."""
    return {value: link.row_bytes(link.results[value]) for value, link in handed(links).items()}


def within(schedule: Schedule, link: Link, rows: int) -> Schedule:
    """How a fusion is cut that is a link of a chain: its programs are those of the chain."""
    match schedule:
        case Panels() if link.product is not None:
            unit = schedule.part or schedule.tile[1]
            columns = -(-link.product.columns // unit) * unit
            return replace(schedule, block=(rows, columns), batch=1)
        case Rows():
            return replace(schedule, rows=rows, unroll=1)
        case _:
            return schedule
