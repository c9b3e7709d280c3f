# SPDX-License-Identifier: Apache-2.0
"""Programs of several ranks, which share a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...op_graph.answers import answered
from ...programs.distribute import Distribution, Mode
from .framework import Program, default_main_program
from .members import Array
from .places import Place
from .ranks import Ranks, names_of, shares
from .variables import Variable


class DataParallel(Ranks):
    """A program that trains, for several ranks: each computes the gradients of its share of a batch, and all have the same
    parameters after each step; of a table that is `is_distributed` each has some rows.

    `ranks[i]`, `servers[i]` are the programs, `scopes[i]` the scope of a rank. `start()` runs the start-up program once, and gives all
    ranks and servers what they begin with.
    """

    def __init__(
        self,
        program: Program | None = None,
        startup: Program | None = None,
        mode: Mode = "allreduce",
        ranks: int = 2,
        servers: int = 1,
        place: Place | None = None,
    ):
        whole = default_main_program() if program is None else program
        made = Distribution(whole.view, mode, ranks, servers)
        held = [made.server(i) for i in range(servers)] if mode == "pserver" else []
        super().__init__(startup, [made.rank(i) for i in range(ranks)], held, place, ranks)

    @answered
    def run(
        self, feed: Mapping[str, Any] | None = None, fetch_list: Sequence[Variable | str] = ()
    ) -> list[list[Array]]:
        """A step: of each rank what is fetched, in order. Arrays that are fed are divided along their first dimension.

        Raises UserError where that is not a multiple of the number of ranks: gradients would not be those of the batch.
        """
        count, names = len(self.ranks), names_of(fetch_list)
        self._step(shares(feed, count, "ranks"), [names] * count)
        return [[np.array(scope.tensor(name)) for name in names] for scope in self.scopes]
