# SPDX-License-Identifier: Apache-2.0
"""From which dimensions of its arguments a function reads its lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .lengths import linear


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
            name, times, more = linear(size) or ("", 0, 0)
            if times > 0:
                found.setdefault(name, LengthPlace(i, d, times, more))
    return found
