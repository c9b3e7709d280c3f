# SPDX-License-Identifier: Apache-2.0
"""How much work keeps a machine busy, and into how many parts a loop is cut for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ....support.machines import PIECE_BYTES, WARP
from ....support.target import Target

#: Programs that keep a CPU busy, however many cores it has: results must not depend on that.
PROGRAMS = 64
#: Elements that are worth a program of their own, on a CPU and on a GPU.
ELEMENTS, BLOCK_ELEMENTS = 1 << 16, 1 << 12
#: A thread of a GPU has as many elements under way whatever they are: of narrower ones than these, memory is kept as busy by
#: more programs.
WORD_BYTES = 4
#: Multiplications of a product that are on a CPU. A GPU's blocks multiply whole tiles, and only their depth counts.
MULTIPLICATIONS = 1 << 21
#: So many parts' work may be left to one program: more kernels cost time too.
PATIENCE = 8
#: Bytes of each row that one program of a CPU reads at once.
STRIPE_BYTES = 4096
#: Rows and columns of a product that one program computes at least.
TILE = 64
#: Rows, columns and steps of the depth that a block of a GPU multiplies at once, at least.
LEAST_TILE = 16
#: The depth that is worth adding up the results of a part, on a CPU and on a GPU.
DEPTH, BLOCK_DEPTH = 512, 128

#: Parts are whole multiples of so many elements where a rest may be left: 16 bytes or more of any type.
LINE = 16
#: The least length of such a part.
ALIGNED = 32
#: Elements of a run that are worth a program, and how many times more runs there are than other programs.
RUN, RUNS = 1 << 10, 4


class Cut(NamedTuple):
    """A loop in `parts` of `length` steps; a shorter rest may stand behind them."""

    parts: int
    length: int


@dataclass(frozen=True)
class Room:
    """What a machine has room for."""

    programs: int  # that keep all of it busy
    elements: int  # that are worth a program
    multiplications: int  # the same of a product
    depth: int  # of a part of a product, at least
    stripe: int  # columns that one program reduces side by side
    unit: int  # columns that fill a register, or the threads of a block
    squares: bool  # whether products are made of square tiles, of which one row or column leaves most empty

    @staticmethod
    def of(target: Target, item: int, elements: int) -> Room:
        if target.shares_tiles:
            columns = max(target.threads, WARP * PIECE_BYTES // item)
            return Room(
                2 * target.multiprocessors, elements or BLOCK_ELEMENTS, 1, BLOCK_DEPTH,
                columns, columns, True,
            )  # fmt: skip
        return Room(
            PROGRAMS, elements or ELEMENTS, MULTIPLICATIONS, DEPTH,
            STRIPE_BYTES // item, target.lanes(item), False,
        )  # fmt: skip

    def for_bytes(self, item: int) -> Room:
        """The same for loops that do little but read elements of so many bytes."""
        return replace(self, programs=self.programs * max(1, WORD_BYTES // item)) if self.squares else self

    def short_of_programs(self, work: int, programs: int) -> bool:
        """Whether so many programs have more than enough to do, and leave most of the machine idle."""
        return work // programs >= PATIENCE * self.elements and 2 * programs <= self.programs

    def stripes(self, before: int, after: int) -> int:
        """Programs that reduce the loop between two others, of which each takes so many columns side by side."""
        return before * -(-after // self.stripe)

    def parts(self, size: int, work: int, programs: int) -> int:
        """Into how many parts a loop of `size` steps is cut, where `programs` share `work` elements as it is."""
        if not self.short_of_programs(work, programs):
            return 1
        wanted = min(-(-self.programs // programs), work // programs // self.elements)
        return divisor(size, wanted, min(4 * wanted, size // 2))

    def cut(self, before: int, size: int, after: int) -> Cut:
        """How the loop between two others is cut, by programs that each have a stripe of the last one. A machine that has
        threads for a rest takes lengths that are whole lines, as memory is read the fastest from where one begins, and of
        these one that leaves next to nothing."""
        work, programs, line = before * size * after, self.stripes(before, after), LINE if after == 1 else 1
        if not self.squares or size < 2 * ALIGNED or not self.short_of_programs(work, programs):
            parts = self.parts(size, work, programs)
            return Cut(parts, size // parts)
        wanted = min(-(-self.programs // programs), work // programs // self.elements, size // ALIGNED)
        # What has no lines leaves one step for each part at most, and more parts would be more to join.
        cuts = [
            Cut(p, size // p // line * line) for p in range(wanted, 2 * wanted if line > 1 else wanted + 1)
        ]
        return min(
            cuts, key=lambda cut: -(-(size - cut.parts * cut.length) // cut.parts), default=Cut(1, size)
        )

    def run(self, before: int, size: int, after: int) -> int:
        """How long the runs of a cumulative op are of which programs have one each, of the loop between two others: whole tiles
        of a block, side by side of all columns. Each waits for the tile before, so that more of them keep memory busy than
        otherwise."""
        work, programs = before * size * after, self.stripes(before, after)
        tile = min(RUN, self.elements)
        if work // programs < PATIENCE * tile or 2 * programs > self.programs:
            return size
        wanted = min(RUNS * -(-self.programs // programs), work // programs // tile)
        step = max(LINE, tile // (1 << (after - 1).bit_length()))
        return -(-size // (wanted * step)) * step

    def depths(self, depth: int, wanted: int) -> Cut:
        """How the depth of a product is cut: into equal parts, or on a machine of square tiles into parts that begin at lines."""
        parts = divisor(depth, wanted, min(2 * wanted, depth // 2))
        if parts >= wanted or not self.squares:
            return Cut(parts, depth // parts)
        cuts = [Cut(p, depth // p // ALIGNED * ALIGNED) for p in range(wanted, 2 * wanted)]
        return min((c for c in cuts if c.length), key=lambda c: depth - c.parts * c.length)


def divisor(size: int, wanted: int, most: int) -> int:
    """The least divisor of `size` from `wanted` to `most`; if there is none, the greatest below."""
    above = (d for d in range(wanted, most + 1) if size % d == 0)
    below = (d for d in range(min(wanted, most), 1, -1) if size % d == 0)
    return next(above, None) or next(below, 1)
