# SPDX-License-Identifier: Apache-2.0
"""Programs of several ranks, of which each has a part of some parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...op_graph.answers import answered
from ...programs import tensor_parallel
from ...programs.interface import random_state
from ...programs.names import RANDOM
from ...programs.splits import Held, Split
from .framework import Program, default_main_program
from .members import Array, Member
from .places import Place
from .ranks import Ranks, names_of, shares
from .scope import Scope
from .variables import Variable


class TensorParallel(Ranks):
    """A program for `ranks` ranks, which take the same batch: of parameters with `ParamAttr(sharded=...)` each has a part, and so of
    tables that are `is_distributed`. With `replicas` there are as many groups of ranks, which share a batch.

    `ranks[i]` are the programs, `scopes[i]` the scope of a rank; those of one group are consecutive. Raises UserError, at the
    line of the operator, for a parameter that cannot be divided so.
    """

    def __init__(
        self,
        program: Program | None = None,
        startup: Program | None = None,
        ranks: int = 2,
        replicas: int = 1,
        place: Place | None = None,
    ):
        whole = default_main_program() if program is None else program
        self._seed = whole.random_seed
        self._made = tensor_parallel.TensorParallel(whole.view, ranks, replicas)
        super().__init__(startup, [self._made.rank(i) for i in range(self._made.ranks)], (), place, replicas)

    def _begin(self, scope: Scope) -> None:
        super()._begin(scope)
        # What the ranks of a group draw has to be the same: they compute the same whole variables.
        for group in range(self._made.replicas):
            state = random_state(self._seed + group if self._seed else 0)
            for member in self._of_group(group):
                member.scope.var(RANDOM).get_tensor().set(state)

    def _stream(self, rank: int) -> int:
        return rank // self._made.width

    @answered
    def run(
        self, feed: Mapping[str, Any] | None = None, fetch_list: Sequence[Variable | str] = ()
    ) -> list[list[Array]]:
        """A step: of each group of ranks what is fetched, in order, put together where its ranks have parts of it.

        Arrays that are fed are divided among groups along their first dimension; UserError where that is no multiple of their number.
        """
        width, groups, names = self._made.width, self._made.replicas, names_of(fetch_list)
        feeds = shares(feed, groups, "groups") if groups > 1 else [feed or {}]
        self._step([feeds[i // width] for i in range(width * groups)], [names] * (width * groups))
        return [[self._whole(name, group) for name in names] for group in range(groups)]

    def _of_group(self, group: int) -> Sequence[Member]:
        return self._members[group * self._made.width : (group + 1) * self._made.width]

    def _whole(self, name: str, group: int) -> Array:
        """A variable, of what the ranks of a group have of it."""
        state = self._made.state(name)
        parts = [member.get(name) for member in self._of_group(group)]
        match state:
            case Split():
                return np.concatenate(parts, state.dimension)
            case Held.SUM:
                return np.sum(parts, axis=0, dtype=parts[0].dtype)
            case Held.WHOLE:
                return parts[0]
