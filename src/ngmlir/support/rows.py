# SPDX-License-Identifier: Apache-2.0
"""Functions of any number of rows, that are run in blocks: what their arrays have, and which blocks a call takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Rows:
    """Dimension `dimension` of a value has `inner` elements for each row, one row behind the other."""

    dimension: int
    inner: int = 1

    def at(self, dimension: int) -> Rows:
        return Rows(dimension, self.inner)


@dataclass(frozen=True)
class Length:
    """An open length of a function: what it is called, and which dimensions of which arguments it is the length of."""

    name: str
    places: tuple[tuple[int, int], ...]


class Run(NamedTuple):
    """`number` blocks of `rows` rows, one behind the other from row `first`."""

    rows: int
    first: int
    number: int


@dataclass(frozen=True)
class ByRows:
    """What arguments and results of a function have (None: no rows), and how many rows its blocks take, from the most."""

    name: str
    arguments: tuple[Rows | None, ...]
    results: tuple[Rows | None, ...]
    blocks: tuple[int, ...]

    def runs(self, length: int) -> list[Run]:
        """The blocks that compute so many rows.

        What the largest ones leave over is computed by blocks of one size, of which the last one ends with the last row:
        rows that two blocks meet in are computed twice, to the same. Only where there are fewer rows than in the smallest
        block that is worth it, a block has rows behind the last.
        """
        most = self.blocks[0]
        whole, rest = divmod(length, most)
        made = [Run(most, 0, whole)] if whole else []
        if rest:
            # To begin a block, and to read what is no row, takes as long as some rows do.
            rows = min(self.blocks, key=lambda each: -(-rest // each) * (each + _BEGIN))
            number = -(-rest // rows)
            if number > 1:
                made.append(Run(rows, length - rest, number - 1))
            made.append(Run(rows, max(length - rows, 0), 1))
        return made


#: The overhead of a block, in rows.
_BEGIN = 8
