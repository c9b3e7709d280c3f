# SPDX-License-Identifier: Apache-2.0
"""What a program takes and gives as a function: what is needed to call it, without the module that it was compiled from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir.core import Module
from ..ir.literals import dtype_of
from ..ir.types import shape_of
from ..support.lengths import value_at


def random_state(seed: int) -> np.ndarray[Any, Any]:
    """What the variable `names.RANDOM` of a program begins as: by the program's seed, or drawn where that is 0."""
    return np.array([seed or int.from_bytes(os.urandom(8), "little"), 0], np.uint64)


@dataclass(frozen=True)
class State:
    """A persistable variable, and whether the program reads what it begins as."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_read: bool

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


@dataclass(frozen=True)
class Interface:
    """The arguments of a program, those that are fed first, and which results (second) are tied to arguments. The other results are
    what is fetched. `agreed` names pairs of what is fed that must be equal: offsets of sequences that one operator goes over."""

    feeds: tuple[str, ...]
    states: tuple[State, ...]
    tied: tuple[tuple[int, int], ...]
    agreed: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(
        module: Module,
        feeds: Sequence[str],
        states: Sequence[str],
        tied: Sequence[tuple[int, int]],
        agreed: Sequence[tuple[str, str]] = (),
    ) -> Interface:
        """That of the module's first function. `tied` holds pairs of result and argument."""
        block = module.ops[0].block
        returned = dict(tied)
        used = {value for op in block.ops[:-1] for inner in op.walk() for value in inner.operands}
        used |= {value for i, value in enumerate(block.ops[-1].operands) if i not in returned}
        arguments = block.args[len(feeds) :]
        held = [
            State(name, shape_of(a.type), dtype_of(a.type), a in used)
            for name, a in zip(states, arguments, strict=True)
        ]
        return Interface(tuple(feeds), tuple(held), tuple(tied), tuple(agreed))

    def at(self, lengths: Mapping[str, int]) -> Interface:
        """It for these lengths, of which shapes of states may be computed."""
        states = [
            replace(each, shape=tuple([value_at(n, lengths) for n in each.shape])) for each in self.states
        ]
        return replace(self, states=tuple(states))

    @property
    def changed(self) -> list[str]:
        """The states that the program changes."""
        first = len(self.feeds)
        return [self.states[argument - first].name for _, argument in self.tied]

    def facts(self) -> Any:
        """It as JSON has it; `from_facts` reads that."""
        states = [[s.name, s.shape, s.dtype.name, s.is_read] for s in self.states]
        return {"feeds": self.feeds, "states": states, "tied": self.tied, "agreed": self.agreed}

    @staticmethod
    def from_facts(facts: Any) -> Interface:
        """What `facts` gave."""
        return Interface(
            tuple(facts["feeds"]),
            tuple(
                State(name, tuple(shape), np.dtype(dtype), is_read)
                for name, shape, dtype, is_read in facts["states"]
            ),
            tuple((result, argument) for result, argument in facts["tied"]),
            tuple((one, other) for one, other in facts["agreed"]),
        )
