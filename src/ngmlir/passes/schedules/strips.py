# SPDX-License-Identifier: Apache-2.0
"""How chains are cut: how many rows a program takes through all kernels, and how each of these is cut then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ops.schedules import Panels, Rows, Schedule
from ...support.target import Target
from ..kernels.links import Link, places

#: The part of the near cache that strips fill, beside what they are multiplied by; and how far beyond it they may go.
PART_OF_CACHE, CACHES = 2, 2
#: So many rows, or all there are, read the sides of products seldom enough: that many multiply-adds for each element.
ENOUGH_ROWS = 32


def strip_rows(links: Sequence[Link], target: Target) -> int:
    """Rows of one program: as many as the near cache has room for, in strips of about the same length."""
    rows = next(link.rows for link in links if link.product)
    most = max(ENOUGH_ROWS, target.l2_bytes // PART_OF_CACHE // _row_bytes(links))
    even = -(-rows // -(-rows // most))
    # A last strip that is like the others needs no code of its own.
    return next((n for n in range(even, max(1, even * 3 // 4), -1) if rows % n == 0), even)


def fits(links: Sequence[Link], target: Target) -> bool:
    """Whether strips stay near."""
    return strip_rows(links, target) * _row_bytes(links) <= CACHES * target.l2_bytes


def _row_bytes(links: Sequence[Link]) -> int:
    own = {value: link for link in links for value in link.fusion.results}
    return max(
        1, sum(own[v].row_bytes(own[v].results[v]) for v, place in places(links).items() if v is place)
    )


def within(schedule: Schedule, link: Link, rows: int) -> Schedule:
    """How a fusion is cut that is a link of a chain: its programs are those of the chain."""
    match schedule:
        case Panels() if link.product is not None:
            unit = schedule.part or schedule.tile[1]
            columns = -(-link.product.columns // unit) * unit
            return replace(schedule, block=(rows, columns), batch=1)
        case Rows():
            return replace(schedule, rows=rows)
        case _:
            return schedule
