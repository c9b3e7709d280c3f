# SPDX-License-Identifier: Apache-2.0
"""Loops over sequences: one `scan` over the steps of the longest one, in which each sequence takes part as long as it has rows.

In the loop a tensor has a row for each sequence. A sequence that has ended keeps its state, so that what is after the last step of each is
at hand; `lanes` is for loops of which only the rows matter, over fewer rows that are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

#: Given the states and the rows of a step, and which step it is, the new states and what is kept of the step.
Step = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], tuple[Sequence[Tensor], Sequence[Tensor]]]


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

    def flat(self, x: Tensor, rows: int) -> Tensor:
        """What `rows` made of so many rows, as these rows again."""
        owner, place = segments.owners(self.offsets, rows), segments.places(self.offsets, rows)
        whole = np.reshape(x, (self.steps * self.count, *x.type.shape[2:]))
        return segments.take(whole, np.add(np.multiply(place, self.count), owner))

    def run(
        self, states: Sequence[Tensor], given: Sequence[Tensor], step: Step, backward: bool = False
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The last states, and by step and sequence what is kept of each step; of a sequence that has ended it is anything. `given` is by step and sequence; with `backward` the
        last step comes first."""
        number = np.arange(self.steps, dtype=np.int32)
        count = len(states)

        def body(*values: Tensor) -> list[Tensor]:
            before, at, fed = values[:count], values[count], values[count + 1 :]
            goes_on = np.less(at, self.lengths)
            made, kept = step(before, fed, at)
            new = [where_rows(goes_on, a, b) for a, b in zip(made, before, strict=True)]
            stacked.extend(kept)
            return [*new, *kept]

        stacked: list[Tensor] = []
        sequences = [number, *given]
        parameters = [(s.axes, s.element) for s in states]
        slices = [(Positions.of(s.type.shape[1:]), s.element) for s in sequences]
        region = build_region([*parameters, *slices], body)
        types = [*parameters, *[(Positions.of([self.steps, *s.type.shape]), s.element) for s in stacked]]
        fields = {"carried": count, "reverse": backward}
        results = ControlOp(ng.ScanOp, [*states, *sequences], [region], types, fields).results
        return results[:count], results[count:]
