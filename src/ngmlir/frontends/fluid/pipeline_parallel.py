# SPDX-License-Identifier: Apache-2.0
"""Programs of several ranks, each of which has a stage of a pipeline."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...op_graph.answers import answered
from ...programs import pipeline_parallel
from .framework import Program, default_main_program
from .members import Array
from .places import Place
from .ranks import Ranks, names_of, shares
from .variables import Variable


@contextmanager
def pipeline_stage(number: int) -> Generator[None]:
    """Operators that layers append inside to the main program are of this stage of a pipeline, counted from 0."""
    with default_main_program().pipeline_stage(number):
        yield


class PipelineParallel(Ranks):
    """A program whose operators are marked with stages (`pipeline_stage`), for one rank each, through which a batch goes in
    `micro_batches` equal parts. With `replicas` there are as many such pipelines, which share a batch.

    `ranks[i]` are the programs, `scopes[i]` the scope of a rank; those of one pipeline are consecutive. Raises UserError, at the
    line of the operator, where the stages do not follow one another, and Limit for what micro-batches would change.
    """

    def __init__(
        self,
        program: Program | None = None,
        startup: Program | None = None,
        micro_batches: int = 4,
        replicas: int = 1,
        place: Place | None = None,
    ):
        whole = default_main_program() if program is None else program
        self._made = pipeline_parallel.PipelineParallel(whole.view, micro_batches, replicas)
        super().__init__(
            startup,
            [self._made.rank(i) for i in range(self._made.ranks)],
            (),
            place,
            micro_batches * replicas,
        )

    @answered
    def run(
        self, feed: Mapping[str, Any] | None = None, fetch_list: Sequence[Variable | str] = ()
    ) -> list[list[Array]]:
        """A step: of each micro-batch what is fetched, in order. Arrays that are fed are divided along their first dimension; UserError
        where that is no multiple of the number of micro-batches."""
        made, names = self._made, names_of(fetch_list)
        count, width = made.micro_batches, made.width
        parts = shares(feed, count * made.replicas, "micro-batches")
        feeds: list[dict[str, Any]] = []
        wanted: list[list[str]] = []
        for rank in range(made.ranks):
            group, stage = divmod(rank, width)
            known = set(self.ranks[rank].view.top.variables)
            each = [
                (made.name_of(name, i), value)
                for i in range(count)
                for name, value in parts[group * count + i].items()
            ]
            feeds.append({name: value for name, value in each if name in known})
            own = [name for name in names if made.stage_of(name) == stage]
            wanted.append([*dict.fromkeys(made.name_of(name, i) for name in own for i in range(count))])
        self._step(feeds, wanted)
        return [
            [self._value(name, group, i) for name in names]
            for group in range(made.replicas)
            for i in range(count)
        ]

    def _value(self, name: str, group: int, micro_batch: int) -> Array:
        """A variable of a micro-batch, of the rank that has it."""
        made = self._made
        rank = group * made.width + made.stage_of(name)
        return np.array(self.scopes[rank].tensor(made.name_of(name, micro_batch)))
