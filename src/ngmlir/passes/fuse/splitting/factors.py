# SPDX-License-Identifier: Apache-2.0
"""How much work keeps a machine busy, and into how many parts a loop is split for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ....support.machines import CHUNK_BYTES, WARP
from ....support.target import Target

#: Programs (parallel instances of a kernel) that keep a CPU busy, however many cores it has: results must not depend on that.
PROGRAMS = 64
#: Least elements of a program, on a CPU and on a GPU.
ELEMENTS, BLOCK_ELEMENTS = 1 << 16, 1 << 12
#: A GPU thread has the same number of loads in flight for any element size: for elements narrower than this more programs are needed
#: to keep memory busy.
WORD_BYTES = 4
#: Least multiplications of a program of a product on a CPU. Thread blocks of a GPU multiply whole tiles, so only their depth counts.
MULTIPLICATIONS = 1 << 21
#: Least ratio of a program's work to that of a part for which a loop is split: more kernels cost time too.
PATIENCE = 8
#: Bytes of each row that one program of a column reduction reads, on a CPU.
STRIPE_BYTES = 4096
#: Least rows and columns of a product that one program computes.
TILE = 64
#: Least rows, columns and depth that a thread block of a GPU multiplies at once.
LEAST_TILE = 16
#: Least depth of a part of a product, for which adding up its results pays, on a CPU and on a GPU.
DEPTH, BLOCK_DEPTH = 512, 128

#: Lengths of parts that may leave a remainder are multiples of this number of elements: at least 16 bytes of any type.
LINE = 16
#: The least length of such a part.
ALIGNED = 32
#: Least elements of a run of a cumulative op, and the ratio of the number of runs to that of other programs.
RUN, RUNS = 1 << 10, 4


class Cut(NamedTuple):
    """A loop as `parts` of `length` iterations; a shorter remainder may follow."""

    parts: int
    length: int


@dataclass(frozen=True)
class SplitFactors:
    """The amounts of work by which loops are split for a machine."""

    programs: int  # number that keeps the whole machine busy
    elements: int  # least of a program
    multiplications: int  # least of a program of a product
    depth: int  # least of a part of a product
    stripe: int  # columns that one program reduces together
    unit: int  # columns that fill a vector register, or the threads of a block
    squares: bool  # whether products are computed in square tiles, which one row or column leaves mostly empty (GPUs)

    @staticmethod
    def of(target: Target, item: int, elements: int) -> SplitFactors:
        if target.has_thread_blocks:
            columns = max(target.threads, WARP * CHUNK_BYTES // item)
            return SplitFactors(
                2 * target.multiprocessors, elements or BLOCK_ELEMENTS, 1, BLOCK_DEPTH,
                columns, columns, True,
            )  # fmt: skip
        return SplitFactors(
            PROGRAMS, elements or ELEMENTS, MULTIPLICATIONS, DEPTH,
            STRIPE_BYTES // item, target.lanes(item), False,
        )  # fmt: skip

    def for_bytes(self, item: int) -> SplitFactors:
        """The same for loops that mostly read elements of `item` bytes."""
        return replace(self, programs=self.programs * max(1, WORD_BYTES // item)) if self.squares else self

    def short_of_programs(self, work: int, programs: int) -> bool:
        """Whether this number of programs is too small: each has much to do, and half of the machine or more is idle."""
        return work // programs >= PATIENCE * self.elements and 2 * programs <= self.programs

    def stripes(self, before: int, after: int) -> int:
        """The number of programs that reduce the loop between two others, if each takes one stripe of columns."""
        return before * -(-after // self.stripe)

    def parts(self, size: int, work: int, programs: int) -> int:
        """The number of parts of a loop of `size` iterations, where `programs` share `work` elements without splitting."""
        if not self.short_of_programs(work, programs):
            return 1
        wanted = min(-(-self.programs // programs), work // programs // self.elements)
        return divisor(size, wanted, min(4 * wanted, size // 2))

    def cut(self, before: int, size: int, after: int) -> Cut:
        """How the loop between two others is split, for programs that each have a stripe of the last one. On GPUs the length of a
        part is a multiple of `LINE`, since aligned memory is read the fastest, and chosen so that the remainder is small."""
        work, programs, line = before * size * after, self.stripes(before, after), LINE if after == 1 else 1
        if not self.squares or size < 2 * ALIGNED or not self.short_of_programs(work, programs):
            parts = self.parts(size, work, programs)
            return Cut(parts, size // parts)
        wanted = min(-(-self.programs // programs), work // programs // self.elements, size // ALIGNED)
        # With a loop after it alignment does not matter: the remainder is at most one iteration for each part, and more parts would
        # only take longer to combine.
        cuts = [
            Cut(p, size // p // line * line) for p in range(wanted, 2 * wanted if line > 1 else wanted + 1)
        ]
        return min(
            cuts, key=lambda cut: -(-(size - cut.parts * cut.length) // cut.parts), default=Cut(1, size)
        )

    def run(self, before: int, size: int, after: int) -> int:
        """The length of the runs of a cumulative op along the loop between two others, one for each program: a multiple of the tile of
        a thread block. A tile waits for the tile before it, so that it takes more programs than otherwise to keep memory busy."""
        work, programs = before * size * after, self.stripes(before, after)
        tile = min(RUN, self.elements)
        if work // programs < PATIENCE * tile or 2 * programs > self.programs:
            return size
        wanted = min(RUNS * -(-self.programs // programs), work // programs // tile)
        step = max(LINE, tile // (1 << (after - 1).bit_length()))
        return -(-size // (wanted * step)) * step

    def depths(self, depth: int, wanted: int) -> Cut:
        """How the depth of a product is split: into equal parts, or on GPUs into aligned parts if there is no divisor."""
        parts = divisor(depth, wanted, min(2 * wanted, depth // 2))
        if parts >= wanted or not self.squares:
            return Cut(parts, depth // parts)
        cuts = [Cut(p, depth // p // ALIGNED * ALIGNED) for p in range(wanted, 2 * wanted)]
        return min((c for c in cuts if c.length), key=lambda c: depth - c.parts * c.length)


def divisor(size: int, wanted: int, most: int) -> int:
    """The least divisor of `size` from `wanted` to `most`; if there is none, the greatest one below."""
    above = (d for d in range(wanted, most + 1) if size % d == 0)
    below = (d for d in range(min(wanted, most), 1, -1) if size % d == 0)
    return next(above, None) or next(below, 1)
