# SPDX-License-Identifier: Apache-2.0
"""Schedules of matrix products on a CPU with vector lanes along the depth, which are added up at the end."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.literals import item_bytes
from ...ops.schedules import Along
from ...ops.settings import Given
from ...support.lengths import is_same, power_of_two, usual
from ...support.target import Target
from ..analysis.product import Product, in_words
from .candidate import Candidate, fixed, fixed_pair, spilled
from .register_tiles import multiplications, rate

#: With more rows, a packed right side costs less than adding up lanes.
MOST_ROWS_ALONG = 8
#: The same where packing it takes no time of a call: 4 rows of 2048 x 2048 elements of f32 take 0.57 times the time, 2 rows 0.9 to 1.3.
MOST_ROWS_KEPT = 3
#: Adding up the lanes of a result takes as long as packing this many elements of the right side, which several rows share (Zen 4: 4 rows
#: of 5 and 8 of 9 or 16 elements take 2 to 4 times the time of panels, 4 of 33 and 8 of 64 as long).
ELEMENTS_OF_LANES = 8
#: Elements of the right side that one program reads if lanes are added up.
PROGRAM_ELEMENTS_ALONG = 1 << 17


def suits_along(product: Product) -> bool:
    """Whether both sides are contiguous along the depth, or the left one has so few rows that strided loads cost little."""
    left = not product.lhs_depth_first or is_same(product.rows, 1) or product.turned
    right = not product.rhs_depth_first or is_same(product.columns, 1)
    return left and right and not is_same(product.depth, 1) and not any(product.implicit)


def most_rows_along(product: Product, target: Target) -> int:
    """Up to how many rows lanes are added up: the fewer the shorter the depth, unless few columns would leave most lanes of a panel
    idle. None where dot instructions read the words of a side that is packed before the first call: 8 rows of 512 x 512 bytes take 0.2
    times the time, one row 0.5."""
    if product.kept and in_words(product, target, ("left", "right")).words:
        return 0
    most = MOST_ROWS_KEPT if product.kept and not product.widens else MOST_ROWS_ALONG
    columns, depth = usual((product.columns, product.depth))
    if 2 * columns <= target.lanes(item_bytes(product.accumulator)):
        return most
    return max(1, min(most, depth // ELEMENTS_OF_LANES))


def along(product: Product, target: Target, given: Given) -> Iterator[Candidate[Along]]:
    """The tile whose accumulators take half of the registers: the others hold operands."""
    lanes = target.lanes(item_bytes(product.accumulator))
    sums = target.vector_registers // 2
    columns = max(1, min(product.columns, 8, sums // product.rows))
    registers = max(1, min(8, sums // (columns * product.rows)))
    # A depth of less than one register fills a part of it.
    width = min(registers * lanes, -(-product.depth // lanes) * lanes, power_of_two(product.depth))
    columns, width = fixed_pair(given, "tile") or (columns, width)
    block = max(columns, PROGRAM_ELEMENTS_ALONG // product.depth // columns * columns)
    batch = max(1, min(product.batch, PROGRAM_ELEMENTS_ALONG // (product.columns * product.depth)))
    schedule = Along(
        tile=(columns, width), block=fixed(given, "block", block), batch=fixed(given, "batch", batch)
    )
    steps = max(1, product.batch) * -(-product.columns // columns) * -(-product.depth // width)
    loads = (product.rows + columns) * width / lanes
    cycles = steps * max(product.rows * columns * width / lanes / target.fmas, loads / target.loads)
    # The accumulators, and one vector of each side.
    needed = product.rows * columns * -(-width // lanes) + 2
    cycles += steps * max(0, needed - target.vector_registers)
    roof = multiplications(product) / rate(product, target)
    yield Candidate(schedule, cycles, roof, 0, spilled(needed, target.vector_registers, "vectors"))
