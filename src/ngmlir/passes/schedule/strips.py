# SPDX-License-Identifier: Apache-2.0
"""Schedules of chains: how many rows a program computes in all kernels, and the schedule of each of these then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.core import Value
from ...ir.literals import item_bytes
from ...ops.schedules import Panels, Rows
from ...ops.settings import Schedule
from ...support.target import Target
from ..fuse.links import Link, passed_values, shared_buffers

#: Strips fill the L2 cache divided by PART_OF_CACHE, the rest is for operands of products; they take at most CACHES times that cache.
PART_OF_CACHE, CACHES = 2, 2
#: With this many rows, or all there are, operands of products are read seldom enough: that many multiply-adds per element.
ENOUGH_ROWS = 32
#: How often values between the kernels would be transferred between caches: memory that is written is read before.
PASSES = 3


def strip_rows(links: Sequence[Link], target: Target) -> int:
    """Rows of one program: as many as fit into the L2 cache, in strips of about the same length."""
    rows = next(link.rows for link in links if link.product)
    most = max(ENOUGH_ROWS, target.l2_bytes // PART_OF_CACHE // _row_bytes(links))
    even = -(-rows // -(-rows // most))
    # A last strip of the same length needs no separate code.
    return next((n for n in range(even, max(1, even * 3 // 4), -1) if rows % n == 0), even)


def fits(links: Sequence[Link], target: Target) -> bool:
    """Whether strips stay in the cache, without reading more of their operands again than this saves."""
    rows, row_bytes = strip_rows(links, target), _row_bytes(links)
    products = [link.product for link in links if link.product]
    right_bytes = sum(p.depth * p.columns * item_bytes(p.rhs_element) for p in products)
    again = right_bytes * (-(-products[0].rows // rows) - 1)
    handed_bytes = sum(_passed(links).values()) * products[0].rows
    return rows * row_bytes <= CACHES * target.l2_bytes and again <= PASSES * handed_bytes


def _row_bytes(links: Sequence[Link]) -> int:
    """Bytes of a strip per row."""
    where = shared_buffers(links)
    return max(1, sum(size for value, size in _passed(links).items() if where[value] is value))


def _passed(links: Sequence[Link]) -> dict[Value, int]:
    """The values that links pass to others, and the bytes of a row of each."""
    return {value: link.row_bytes(link.results[value]) for value, link in passed_values(links).items()}


def within(schedule: Schedule, link: Link, rows: int) -> Schedule:
    """The schedule of a fusion that is a link of a chain: its programs are those of the chain."""
    match schedule:
        case Panels() if link.product is not None:
            unit = schedule.part or schedule.tile[1]
            columns = -(-link.product.columns // unit) * unit
            return replace(schedule, block=(rows, columns), batch=1)
        case Rows():
            return replace(schedule, rows=rows, unroll=1)
        case _:
            return schedule
