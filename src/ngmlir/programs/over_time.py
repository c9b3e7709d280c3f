# SPDX-License-Identifier: Apache-2.0
"""Loops over sequences: one `scan` over the steps of the longest one, in which each sequence takes part as long as it has rows.

In the loop a tensor has a row for each sequence. A sequence that has ended keeps its state. `lanes` is for loops that read nothing but rows, over
fewer rows that are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from .. import numpy as np
from ..op_graph.positions import Positions
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..ops import ng
from . import segments
from .definition import Context
from .masks import where_rows


@dataclass
class OverTime:
    """Sequences by their steps."""

    offsets: Tensor
    context: Context
    #: How many rows each sequence has.
    lengths: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = segments.lengths(self.offsets)

    @cached_property
    def count(self) -> int:
        """How many sequences there are."""
        return segments.sequences(self.offsets)

    @cached_property
    def steps(self) -> int:
        """How many steps the longest has."""
        return self.context.longest(self.offsets)

    def rows(self, x: Tensor) -> Tensor:
        """The rows by step and sequence; any row where a sequence has ended."""
        step = np.reshape(np.arange(self.steps, dtype=np.int32), (self.steps, 1))
        return segments.take(x, np.add(segments.starts(self.offsets), step))

    def run(self, state: Tensor, given: Tensor, step: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """The last state; `step` makes the next one of a state, of what is given of a step, and of its number."""

        def body(before: Tensor, at: Tensor, fed: Tensor) -> list[Tensor]:
            return [where_rows(np.less(at, self.lengths), step(before, fed, at), before)]

        number = np.arange(self.steps, dtype=np.int32)
        slices = [(Positions.of(s.type.shape[1:]), s.element) for s in (number, given)]
        kind = (state.axes, state.element)
        fields = {"carried": 1, "reverse": False}
        (last,) = ControlOp(
            ng.ScanOp, [state, number, given], [build_region([kind, *slices], body)], [kind], fields
        ).results
        return last
