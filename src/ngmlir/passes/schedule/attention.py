# SPDX-License-Identifier: Apache-2.0
"""Schedules of attention: how many queries and keys are computed at once."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.literals import item_bytes
from ...ops.schedules import Stream
from ...ops.settings import Given
from ...support.lengths import usual
from ...support.target import Target
from ..fuse.gradient_loops import streamed_gradient
from ..fuse.score_loops import Streams, streamed
from .candidate import Candidate, fixed, fixed_pair

#: Keys of a block, approximately: their scores and the panel of results stay in the L1 or L2 cache. Panels of queries in a program.
KEYS, PANELS = 128, 4


def stream(fusion: Op, target: Target, given: Given) -> list[Candidate[Stream]]:
    """The schedule of an attention; none if there is no kernel for it."""
    how: Streams | None = streamed(fusion, target) or streamed_gradient(fusion, target)
    if how is None:
        return []
    rows, lanes = tile = fixed_pair(given, "tile") or _tile(how, target)
    step = rows * DEPTH if rows % 2 else rows * DEPTH // 2
    step = step // 2 if rows % 4 == 0 else step
    queries = min(PANELS, -(-usual(how.query_count) // lanes)) * lanes
    made = Stream(
        tile=tile,
        keys=fixed(given, "keys", max(1, KEYS // step) * step),
        queries=fixed(given, "queries", queries),
    )
    work = how.scores.usual
    scores = max(1, work.batch) * work.rows * work.columns
    cycles = scores * 2 * work.depth / (target.lanes(item_bytes(work.result)) * target.fmas)
    return [Candidate(made, cycles, cycles)]


def _tile(how: Streams, target: Target) -> tuple[int, int]:
    """Two registers of queries, and as many keys as leave registers for operands."""
    lanes = target.lanes(item_bytes(how.scores.result))
    count = 1 if usual(how.query_count) <= lanes else 2
    return (target.vector_registers - 4) // 2, count * lanes


#: Steps of the depth of a product, and keys whose exponentials are computed at once.
DEPTH, POWERS = 4, 4
