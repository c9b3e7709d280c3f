# SPDX-License-Identifier: Apache-2.0
"""Schedules of products on a CPU that decode their right side."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.core import Op
from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...ops.schedules import Decode, DecodePanels, Digits, families
from ...ops.settings import Given
from ...support.lengths import is_open
from ...support.target import Target
from ..analysis.product import split
from ..fuse.decoding.digits import InDigits, digits
from ..fuse.decoding.fusions import MOST_ROWS, Decoded, decoded
from ..fuse.decoding.panels import InPanels, of_panels
from .candidate import Candidate, fixed, fixed_pair, fixed_words, spilled
from .products import PART_DEPTH
from .register_tiles import multiplications, rate, register_tiles, registers_of, tile_cost

#: Elements of the weight that one program decodes if lanes are added up.
PROGRAM_ELEMENTS = 1 << 18
#: The most bytes that are loaded from memory per cycle.
FROM_MEMORY = 12
#: Blocks of the depth are multiples of this: whole words of codes, on any machine.
DEPTH_UNIT = 128
#: Instructions that decode an element, in addition to the one that multiplies it.
DECODING = 4
#: Registers in addition to the accumulators of a tile in digits: codes, the mask for half of them, and numbers converted to f32.
DIGITS_SPARE = 8


def decoding(fusion: Op, target: Target, given: Given) -> Iterator[Candidate[Decode | DecodePanels | Digits]]:
    """The schedules of a fusion that decodes a weight."""
    found = digits(fusion)
    if found is not None:
        return _in_digits(found, target, given)
    weight = of_panels(fusion) or decoded(fusion)
    return iter(()) if families("decoded", given) == [Digits] else _in_floats(weight, target, given)


def _in_digits(found: InDigits, target: Target, given: Given) -> Iterator[Candidate[Digits]]:
    """As many rows and columns as registers allow: accumulators of each digit, those of all blocks, and codes."""
    product, lanes, many = found.product.usual, target.lanes(4), found.many
    room = max(1, (target.vector_registers - DIGITS_SPARE) // (many + 1))
    width = found.width
    roof = many * multiplications(product) / (found.group * target.fmas * lanes)
    if Digits not in families("decoded", given):
        return
    stated = fixed_pair(given, "tile")
    wide = [v * lanes for v in range(width // lanes, 0, -1) if width % (v * lanes) == 0 and v <= room]
    tiles = [(min(product.rows, room * lanes // columns), columns) for columns in wide]
    for rows, columns in tiles if stated is None else [stated]:
        block = max(width, PROGRAM_ELEMENTS // product.depth // width * width)
        # Each step loads a number of each digit for each row, and a register of codes for each vector of columns.
        vectors = columns // lanes
        times = sum(n * (max(size * vectors * many / target.fmas, (size * many + vectors) / target.loads) + vectors / 2)
                    for n, size in split(product.rows, rows))  # fmt: skip
        cycles = times * product.depth / found.group * product.columns / columns
        made = Digits(tile=(rows, columns), block=fixed(given, "block", block))
        yield Candidate(made, cycles, roof)


def _of_one_row(found: Decoded, target: Target) -> int:
    """Columns that are multiplied by a single row at once. Reading the weight is fastest as one stream; but each register of
    codes needs a load of the row too, and if these loads take longer than memory, two columns share them."""
    codes = found.fusion.block.args[1].type
    loaded = target.loads * target.lanes(4) * item_bytes(element_type(codes)) / 2
    return 2 if loaded < FROM_MEMORY else 1


def _in_floats(
    found: Decoded | InPanels, target: Target, given: Given
) -> Iterator[Candidate[Decode | DecodePanels]]:
    """Few rows are multiplied in registers, more rows from panels."""
    product, fitting = found.product.usual, families("decoded", given)
    few = not is_open((found.product.rows,)) and product.rows <= MOST_ROWS
    if isinstance(found, InPanels):
        width = found.width
    elif Decode in fitting and (few or DecodePanels not in fitting):
        columns = fixed(
            given, "tile", min(product.columns, _of_one_row(found, target) if product.rows == 1 else 4)
        )
        block = max(columns, PROGRAM_ELEMENTS // product.depth // columns * columns)
        schedule = Decode(tile=columns, block=fixed(given, "block", block))
        roof = multiplications(product) / rate(product, target)
        yield Candidate(schedule, roof + DECODING * roof / product.rows, roof)
        return
    else:
        width = 0
    blocks = -(-product.depth // PART_DEPTH)
    depth = fixed(given, "depth", -(-product.depth // (blocks * DEPTH_UNIT)) * DEPTH_UNIT)
    stated = fixed_pair(given, "tile")
    for tile in register_tiles(product, target, target.vector_registers) if stated is None else [stated]:
        rows, columns = tile
        if width % columns and stated is None:
            continue
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
