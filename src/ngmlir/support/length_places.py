# SPDX-License-Identifier: Apache-2.0
"""From which dimensions of its arguments a function reads its lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .lengths import Length


class LengthPlace(NamedTuple):
    """Dimension `dimension` of argument `argument`, of `times` * length + `more` elements."""

    argument: int
    dimension: int
    times: int = 1
    more: int = 0

    def length(self, shapes: Sequence[Sequence[int]]) -> int:
        """The length that arguments of these shapes have, rounded down: the caller compares all sizes that follow from it."""
        return (shapes[self.argument][self.dimension] - self.more) // self.times


def length_places(shapes: Sequence[Sequence[int]]) -> dict[str, LengthPlace]:
    """By the name of a length: the first dimension whose size is a multiple of it and a constant."""
    found: dict[str, LengthPlace] = {}
    for i, shape in enumerate(shapes):
        for d, size in enumerate(shape):
            terms = dict(size.expression.terms) if isinstance(size, Length) else {}
            more = terms.pop((), 0)
            if len(terms) == 1:
                ((atoms, times),) = terms.items()
                if len(atoms) == 1 and isinstance(atoms[0], str) and times > 0:
                    found.setdefault(atoms[0], LengthPlace(i, d, times, more))
    return found
