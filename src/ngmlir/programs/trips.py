# SPDX-License-Identifier: Apache-2.0
"""How often a loop runs at most: its counters are counted, of constants when the program is compiled, of other numbers by a loop in the program.

What the condition is computed of (counters, their steps, what they are compared with) is looked at by itself. Where one side of a
`logical_and` is not known, the other still bounds the loop. Loops inside of the loop are counted in each of its iterations, in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .. import numpy as ng_numpy
from ..ir.literals import type_of_dtype
from ..op_graph.node import Op
from ..op_graph.positions import Positions
from ..op_graph.regions import ControlOp, build_region, within
from ..op_graph.state import AssignableTensorOp, Role
from ..op_graph.tensor import Tensor
from ..op_graph.trip_counts import iterations
from ..ops import ng
from ..support.lengths import are_same
from .attributes import values_of
from .block_values import truth
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator
from .names import EMPTY
from .prune import writes_of

Array = np.ndarray[Any, Any]
#: What a variable holds when the loop begins; None where that is not known.
Known = Callable[[str], "Array | None"]
#: The place of an operator in a block; of one in a loop inside of it, that of the loop first.
Place = tuple[int, ...]

#: Loops of more iterations are not counted: of constants, by a loop in the program.
MOST, MOST_COMPUTED = 1 << 14, 1 << 20
#: Operators that use a position of an array.
ARRAY_USES = ("write_to_array", "read_from_array")


@dataclass
class Trips:
    """How often a loop runs at most; it always does where that `is_exact`, and then its counters `end` like this. `positions` holds
    the greatest position of an array that an operator uses, by its place."""

    count: int
    is_exact: bool
    ends: Mapping[str, Array]
    positions: dict[Place, int] = field(default_factory=dict[Place, int])


def trips(
    block: BlockView, condition: str, known: Known, watch: Callable[[Place, int], None]
) -> Trips | None:
    """The trip count of a loop that runs `block` while `condition` holds; None where nothing that is known bounds it. `watch` is called
    for each use of a known position of an array, in order, with the operator's place and the position. Loops inside of it are not
    looked at."""
    needed = _Counted(block, lambda name: known(name) is not None).needed(condition)
    if needed is None:
        return None
    with Op.saved_user_deps(), Op.all_ops(isolate=True), within(None):
        found = _iterations(needed, condition, known)
        if found is None:
            return None
        carried, places, each = found
        positions: dict[Place, int] = {}
        for count, (holds, values, used) in enumerate(islice(each, MOST)):
            if not holds:
                is_exact = needed.is_exact and known(condition) is not None
                return Trips(count, is_exact, dict(zip(carried, values, strict=False)), positions)
            for at, value in zip(places, [int(v.reshape(-1)[0]) for v in used], strict=True):
                watch(at, value)
                positions[at] = max(positions.get(at, 0), value)
    return None


def counted_places(
    block: BlockView, condition: str, known: Callable[[str], bool]
) -> tuple[Sequence[int], bool]:
    """What `trips` counts of a loop, from the names that are known before it: the places in the block of what uses positions of arrays;
    and whether the loop always runs as often."""
    needed = _Counted(block, known).needed(condition)
    if needed is None:
        return (), False
    return [at for (at,) in needed.places], needed.is_exact and known(condition)


@dataclass
class Places:
    """Computed in the program: one more than the greatest position that an operator uses, by its place, and whether the loop, or one
    inside of it, was left after `MOST_COMPUTED` iterations."""

    counts: Mapping[Place, Tensor]
    is_endless: Tensor


def computed_places(
    block: BlockView, condition: str, number: Callable[[str], Tensor | None]
) -> Places | None:
    """The positions of arrays that a loop uses, from numbers that a run computes; None where these do not bound it."""
    needed = _Counted(block, lambda name: number(name) is not None, loops=True).needed(condition)
    if needed is None:
        return None
    begins = {n: v for n in (*needed.going, *needed.steady) if (v := number(n)) is not None}
    try:
        return needed.run(begins)[1]
    except _OtherShapes:
        return None


class _OtherShapes(Exception):
    """A number has another shape after an iteration."""


class _Use(NamedTuple):
    """An operator that is needed, and which of its inputs are known; of a loop, what is needed of that."""

    at: int
    operator: Operator
    reads: Sequence[str]
    loop: _Needed | None = None

    @property
    def writes(self) -> Sequence[str]:
        return self.operator.writes if self.loop is None else self.loop.going

    @property
    def places(self) -> list[Place]:
        """The places of what uses positions of arrays."""
        if self.loop is not None:
            return [(self.at, *place) for place in self.loop.places]
        return [(self.at,)] if self.operator.type in ARRAY_USES else []

    @property
    def is_exact(self) -> bool:
        if self.loop is not None:
            return self.loop.is_exact
        return self.operator.type in ARRAY_USES or len(self.reads) == len(self.operator.reads)


@dataclass
class _Needed:
    """What is carried, the condition first, what stays, and the operators, of those that the condition and positions follow from."""

    going: Sequence[str]
    steady: Sequence[str]
    chosen: Sequence[_Use]

    @property
    def places(self) -> list[Place]:
        return [place for each in self.chosen for place in each.places]

    @property
    def is_exact(self) -> bool:
        """Whether the condition is all known, not half of it."""
        return all(each.is_exact for each in self.chosen)

    def turn(
        self, begins: Mapping[str, Tensor]
    ) -> tuple[Mapping[str, Tensor], dict[Place, Tensor], list[Tensor]]:
        """An iteration: the values after it, the positions that are used in it, by place, and whether loops inside of it were left."""
        values = dict(begins)
        used: dict[Place, Tensor] = {}
        left: list[Tensor] = []
        for each in self.chosen:
            if each.loop is not None:
                ends, found = each.loop.run(values)
                values.update(ends)
                used |= {(each.at, *p): ng_numpy.subtract(count, 1) for p, count in found.counts.items()}
                left.append(found.is_endless)
            elif each.operator.type in ARRAY_USES:
                used[each.at,] = values[each.reads[0]]
            elif each.is_exact:
                values.update(_built(each.operator, values))
            else:
                values[each.operator.writes[0]] = values[each.reads[0]]
        return values, used, left

    def run(self, begins: Mapping[str, Tensor]) -> tuple[Mapping[str, Tensor], Places]:
        """The loop, of values before it: what is carried after it, and the positions used in it. _OtherShapes where that cannot be."""
        going = [begins[n] if n in begins else ng_numpy.asarray([True]) for n in self.going]
        places, count = self.places, len(going)
        zeros = [ng_numpy.asarray(0, dtype="int64") for _ in (0, *places)]
        start = [*going, ng_numpy.asarray(False), *zeros]
        types = [(value.axes, value.element) for value in start]

        def asked(*values: Tensor) -> Sequence[Tensor]:
            goes_on = ng_numpy.logical_and(truth(values[0]), ng_numpy.logical_not(values[count]))
            return [ng_numpy.logical_and(goes_on, ng_numpy.less(values[count + 1], MOST_COMPUTED))]

        def iteration(*values: Tensor) -> Sequence[Tensor]:
            now, used, left = self.turn({**begins, **dict(zip(self.going, values, strict=False))})
            after = [ng_numpy.astype(now[n], v.dtype) for n, v in zip(self.going, going, strict=True)]
            was_left, turns, *greatest = values[count:]
            ends = [
                ng_numpy.add(ng_numpy.astype(ng_numpy.reshape(used[at], []), "int64"), 1) for at in places
            ]
            more = [ng_numpy.maximum(a, b) for a, b in zip(greatest, ends, strict=True)]
            return [*after, reduce(ng_numpy.logical_or, left, was_left), ng_numpy.add(turns, 1), *more]

        body = build_region(types, iteration)
        if any(not are_same(a.type.shape, b.type.shape) for a, b in zip(body.results, start, strict=True)):
            raise _OtherShapes
        made = ControlOp(ng.WhileOp, start, [build_region(types, asked), body], types).results
        counts = dict(zip(places, made[count + 2 :], strict=True))
        is_endless = ng_numpy.logical_or(truth(made[0]), made[count])
        return dict(zip(self.going, made, strict=False)), Places(counts, is_endless)


class _Counted:
    """The operators of a block that follow from known numbers and from one another, iteration after iteration; of `loops` inside of it,
    what does."""

    def __init__(self, block: BlockView, known: Callable[[str], bool], loops: bool = False):
        self.block, self.known, self.loops = block, known, loops
        self.written = {name for o in block.operators for name in writes_of(o)}
        #: Written in the block, and not known in every iteration.
        self.varying: set[str] = set()
        while changed := {n for n in self.written - self.varying if not self._walk().get(n, self._begins(n))}:
            self.varying |= changed

    def _begins(self, name: str) -> bool:
        return name not in self.varying and self.known(name)

    def _walk(self) -> dict[str, bool]:
        """Whether what was written is known at the end of an iteration."""
        now: dict[str, bool] = {}
        self.chosen: list[_Use] = []
        for at, operator in enumerate(self.block.operators):
            usable = [n for n in operator.reads if now.get(n, self._begins(n))]
            is_whole = len(usable) == len(operator.reads) and is_function(operator)
            is_half = operator.type == "logical_and" and bool(usable)
            if operator.type in ARRAY_USES:
                if operator.inputs["I"][0] in usable:
                    self.chosen.append(_Use(at, operator, operator.inputs["I"]))
                is_whole = False
            elif is_whole or is_half:
                self.chosen.append(_Use(at, operator, usable))
            inner = self._inner(operator, now) if self.loops and operator.type == "while" else None
            now.update(dict.fromkeys(writes_of(operator), is_whole or is_half))
            if inner is not None:
                self.chosen.append(_Use(at, operator, [*inner.going, *inner.steady], inner))
                now.update(dict.fromkeys(inner.going, inner.is_exact))
        return now

    def _inner(self, operator: Operator, now: Mapping[str, bool]) -> _Needed | None:
        """What is needed of a loop in the block, where these names are known before it."""
        block, (condition,) = operator.sub_block, operator.inputs["Condition"]
        assert block is not None
        return _Counted(block, lambda name: now.get(name, self._begins(name)), loops=True).needed(condition)

    def needed(self, condition: str) -> _Needed | None:
        """What the condition and positions follow from; None where the condition is not known."""
        if not self._walk().get(condition, False):
            return None
        going: dict[str, None] = {condition: None}
        while True:
            wanted = set(going)
            kept: list[_Use] = []
            for each in reversed(self.chosen):
                if each.places or wanted.intersection(each.writes):
                    kept.append(each)
                    if each.operator.type not in ARRAY_USES:
                        wanted.difference_update(each.writes)
                    wanted.update(each.reads)
            more = [n for n in sorted(wanted) if n in self.written and n not in going]
            if not more:
                steady = [n for n in sorted(wanted) if n not in self.written]
                return _Needed(list(going), steady, kept[::-1])
            going.update(dict.fromkeys(more))


def _iterations(
    needed: _Needed, condition: str, known: Known
) -> tuple[Sequence[str], list[Place], Iterator[tuple[bool, list[Array], list[Array]]]] | None:
    """The names of the carried values, the places of what uses positions of arrays, and of each iteration what these are."""
    begins = {n: known(n) for n in (*needed.going, *needed.steady)}
    if begins[condition] is None:
        begins[condition] = np.array([True])
    held = {n: v for n, v in begins.items() if v is not None}
    storages = {
        n: AssignableTensorOp(Positions.of(v.shape), type_of_dtype(v.dtype), Role.PLACEHOLDER)
        for n, v in held.items()
    }
    values, used, _ = needed.turn(storages)
    if any(values[n].type.shape != held[n].shape for n in needed.going):
        return None
    after, parameters = [values[n] for n in needed.going], list(storages.values())
    each = iterations(storages[condition], after, list(used.values()), parameters, list(held.values()))
    return needed.going, [*used], each


def is_function(operator: Operator) -> bool:
    """Whether an operator is a function of tensors and nothing more, so that it can be built by itself."""
    found = REGISTRY.find(operator.type)
    return not (found is None or found.build is None or found.needs_kernel or found.takes_context)


#: An operator that is a function of tensors asks nothing of what it is built in.
_NOTHING: Any = None


def _built(operator: Operator, values: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """What an operator writes, by name."""
    definition = REGISTRY.get(operator.type)
    inputs = {s: [None if n == EMPTY else values[n] for n in names] for s, names in operator.inputs.items()}
    made = definition.values(_NOTHING, inputs, values_of(definition.entry, operator.dictionary))
    return {
        name: value
        for slot, names in operator.outputs.items()
        for name, value in zip(names, made.get(slot, ()), strict=False)
        if value is not None
    }
