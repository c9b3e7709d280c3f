# SPDX-License-Identifier: Apache-2.0
"""How often a loop runs at most, where that follows from constants: its counters are counted when the program is compiled.

What the condition is computed of (counters, their steps, what they are compared with) is looked at by itself. Where one side of a
`logical_and` is not known, the other still bounds the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..ir.literals import type_of_dtype
from ..op_graph.node import Op
from ..op_graph.positions import Positions
from ..op_graph.regions import within
from ..op_graph.state import AssignableTensorOp, Role
from ..op_graph.tensor import Tensor
from ..op_graph.trip_counts import iterations
from .descriptions import BlockView, Operator
from .prune import writes_of

Array = np.ndarray[Any, Any]
#: What a variable holds when the loop begins; None where that is not known.
Known = Callable[[str], "Array | None"]
#: Builds an operator of values by name: what it writes, by name; None for one that is more than a function of these.
Build = Callable[[Operator, Mapping[str, Tensor]], "Mapping[str, Tensor] | None"]

#: Loops of more iterations are not counted.
MOST = 1 << 14
#: Operators that use a position of an array.
_ARRAYS = ("write_to_array", "read_from_array")


@dataclass
class Trips:
    """How often a loop runs at most; it always does where that `is_exact`, and then its counters `end` like this. `positions` holds
    the greatest position of an array that an operator uses, by its place in the block."""

    count: int
    is_exact: bool
    ends: Mapping[str, Array]
    positions: dict[int, int] = field(default_factory=dict[int, int])


def trips(
    block: BlockView, condition: str, known: Known, build: Build, watch: Callable[[int, int], None]
) -> Trips | None:
    """The trip count of a loop that runs `block` while `condition` holds; None where nothing that is known bounds it. `watch` is called
    for each use of a known position of an array, in order, with the operator's index in the block and the position."""
    counted = _Counted(block, known)
    with Op.saved_user_deps(), Op.all_ops(isolate=True), within(None):
        found = counted.iterations(condition, build)
        if found is None:
            return None
        carried, places, each = found
        positions: dict[int, int] = {}
        for count, (holds, values, used) in enumerate(islice(each, MOST)):
            if not holds:
                return Trips(count, counted.is_exact, dict(zip(carried, values, strict=False)), positions)
            for at, value in zip(places, [int(v.reshape(-1)[0]) for v in used], strict=True):
                watch(at, value)
                positions[at] = max(positions.get(at, 0), value)
    return None


class _Counted:
    """The operators of a block that follow from known numbers and from one another, iteration after iteration."""

    def __init__(self, block: BlockView, known: Known):
        self.block, self.known = block, known
        self.is_exact = True
        self.written = {name for o in block.operators for name in writes_of(o)}
        #: Written in the block, and not known in every iteration.
        self.varying: set[str] = set()
        while changed := {n for n in self.written - self.varying if not self._walk().get(n, self._begins(n))}:
            self.varying |= changed

    def _begins(self, name: str) -> bool:
        return name not in self.varying and self.known(name) is not None

    def _walk(self) -> dict[str, bool]:
        """Whether what was written is known at the end of an iteration."""
        now: dict[str, bool] = {}
        self.chosen: list[tuple[int, Operator, list[str]]] = []
        for at, operator in enumerate(self.block.operators):
            usable = [n for n in operator.reads if now.get(n, self._begins(n))]
            is_whole = len(usable) == len(operator.reads) and operator.sub_block is None
            is_half = operator.type == "logical_and" and bool(usable)
            if operator.type in _ARRAYS:
                if operator.inputs["I"][0] in usable:
                    self.chosen.append((at, operator, operator.inputs["I"]))
                is_whole = False
            elif is_whole or is_half:
                self.chosen.append((at, operator, usable))
            now.update(dict.fromkeys(writes_of(operator), is_whole or is_half))
        return now

    def iterations(
        self, condition: str, build: Build
    ) -> tuple[list[str], list[int], Iterator[tuple[bool, list[Array], list[Array]]]] | None:
        """The names of the carried values, the places in the block of what uses positions of arrays, and of each iteration what these
        are."""
        if not self._walk().get(condition, False):
            return None
        going, steady, chosen = self._needed(condition)
        begins = {n: self.known(n) for n in (*going, *steady)}
        if begins[condition] is None:
            begins[condition], self.is_exact = np.array([True]), False
        held = {n: v for n, v in begins.items() if v is not None}
        storages = {
            n: AssignableTensorOp(Positions.of(v.shape), type_of_dtype(v.dtype), Role.PLACEHOLDER)
            for n, v in held.items()
        }
        values: dict[str, Tensor] = dict(storages)
        used: dict[int, Tensor] = {}
        for at, operator, reads in chosen:
            if operator.type in _ARRAYS:
                used[at] = values[reads[0]]
            elif len(reads) < len(operator.reads):
                values[operator.writes[0]], self.is_exact = values[reads[0]], False
            else:
                made = build(operator, values)
                if made is None:
                    return None
                values.update(made)
        if any(values[n].type.shape != held[n].shape for n in going):
            return None
        after, parameters = [values[n] for n in going], list(storages.values())
        each = iterations(storages[condition], after, list(used.values()), parameters, list(held.values()))
        return going, [*used], each

    def _needed(
        self, condition: str
    ) -> tuple[list[str], list[str], Sequence[tuple[int, Operator, list[str]]]]:
        """What is carried, what stays, and the operators, of those that the condition and positions follow from."""
        going: dict[str, None] = {condition: None}
        while True:
            wanted = set(going)
            kept: list[tuple[int, Operator, list[str]]] = []
            for at, operator, reads in reversed(self.chosen):
                if operator.type in _ARRAYS or wanted.intersection(operator.writes):
                    kept.append((at, operator, reads))
                    if operator.type not in _ARRAYS:
                        wanted.difference_update(operator.writes)
                    wanted.update(reads)
            more = [n for n in sorted(wanted) if n in self.written and n not in going]
            if not more:
                steady = [n for n in sorted(wanted) if n not in self.written]
                return list(going), steady, kept[::-1]
            going.update(dict.fromkeys(more))
