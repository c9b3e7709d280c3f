# SPDX-License-Identifier: Apache-2.0
"""How products are cut on a CPU that decode their right side."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.schedules import Decode, DecodePanels, families
from ...ops.settings import Given
from ...support.lengths import is_open
from ...support.target import Target
from ..fuse.decoding.fusions import Decoded
from .candidate import Candidate, fixed, fixed_pair, fixed_words, spilled
from .products import PART_DEPTH, multiplications, rate, register_tiles, registers_of, tile_cost

#: Of more rows decoding into panels costs less than joining lanes.
MOST_ROWS = 32
#: Elements of the weight that one program decodes where lanes are joined.
PROGRAM_ELEMENTS = 1 << 18
#: What blocks of the depth are multiples of: words of codes, on any machine.
DEPTH_UNIT = 128
#: Instructions that decode an element, beside the one that multiplies it.
DECODING = 4


def decoding(found: Decoded, target: Target, given: Given) -> Iterator[Candidate[Decode | DecodePanels]]:
    """Few rows are multiplied in registers, others from panels."""
    product, few = found.product.usual, not is_open((found.product.rows,))
    fitting = families("decoded", given)
    if few and Decode in fitting and (product.rows <= MOST_ROWS or DecodePanels not in fitting):
        # Of one row the weight is what comes from memory, and it comes the fastest in one run.
        columns = fixed(given, "tile", 1 if product.rows == 1 else min(product.columns, 4))
        block = max(columns, PROGRAM_ELEMENTS // product.depth // columns * columns)
        schedule = Decode(tile=columns, block=fixed(given, "block", block))
        roof = multiplications(product) / rate(product, target)
        yield Candidate(schedule, roof + DECODING * roof / product.rows, roof)
        return
    blocks = -(-product.depth // PART_DEPTH)
    depth = fixed(given, "depth", -(-product.depth // (blocks * DEPTH_UNIT)) * DEPTH_UNIT)
    stated = fixed_pair(given, "tile")
    for tile in register_tiles(product, target, target.vector_registers) if stated is None else [stated]:
        rows, columns = tile
        part = max(1, target.l2_bytes // 4 // (4 * depth) // columns) * columns
        part = fixed(given, "part", min(part, -(-product.columns // columns) * columns))
        whole = target.l2_bytes // 2 // (4 * depth) // rows * rows
        block = fixed_pair(given, "block") or (min(product.rows, max(rows, whole)), part)
        made = DecodePanels(
            tile=tile,
            block=block,
            depth=depth,
            unroll=fixed(given, "unroll", 1 if rows * columns >= 16 * target.lanes(4) else 4),
            pack=fixed_words(given, "pack", ()),
            part=part,
            batch=fixed(given, "batch", 1),
        )
        cycles, loads = tile_cost(product, target, tile)
        times = -(-product.rows // block[0]) * DECODING * product.columns * product.depth
        needed = registers_of(product, target, rows, max(1, columns // target.lanes(4)))
        yield Candidate(
            made,
            cycles + times / target.lanes(4),
            multiplications(product) / rate(product, target),
            loads,
            spilled(needed, target.vector_registers, "vectors"),
        )
