# SPDX-License-Identifier: Apache-2.0
"""How often a loop runs at most: its counters are counted, of constants when the program is compiled, of other numbers by a loop in the program.

What the condition is computed of (counters, their steps, what they are compared with) is looked at by itself. Where one side of a
`logical_and` is not known, the other still bounds the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

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

#: Loops of more iterations are not counted: of constants, by a loop in the program.
MOST, MOST_COMPUTED = 1 << 14, 1 << 20
#: Operators that use a position of an array.
ARRAY_USES = ("write_to_array", "read_from_array")


@dataclass
class Trips:
    """How often a loop runs at most; it always does where that `is_exact`, and then its counters `end` like this. `positions` holds
    the greatest position of an array that an operator uses, by its place in the block."""

    count: int
    is_exact: bool
    ends: Mapping[str, Array]
    positions: dict[int, int] = field(default_factory=dict[int, int])


def trips(block: BlockView, condition: str, known: Known, watch: Callable[[int, int], None]) -> Trips | None:
    """The trip count of a loop that runs `block` while `condition` holds; None where nothing that is known bounds it. `watch` is called
    for each use of a known position of an array, in order, with the operator's index in the block and the position."""
    needed = _Counted(block, lambda name: known(name) is not None).needed(condition)
    if needed is None:
        return None
    with Op.saved_user_deps(), Op.all_ops(isolate=True), within(None):
        found = _iterations(needed, condition, known)
        if found is None:
            return None
        carried, places, each = found
        positions: dict[int, int] = {}
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
    return ((), False) if needed is None else (needed.places, needed.is_exact and known(condition))


@dataclass
class Places:
    """Computed in the program: one more than the greatest position that an operator uses, by its place in the block, and whether the
    loop was left after `MOST_COMPUTED` iterations."""

    counts: Mapping[int, Tensor]
    is_endless: Tensor


def computed_places(
    block: BlockView, condition: str, number: Callable[[str], Tensor | None]
) -> Places | None:
    """The positions of arrays that a loop uses, from numbers that a run computes; None where these do not bound it."""
    needed = _Counted(block, lambda name: number(name) is not None).needed(condition)
    if needed is None:
        return None
    begins = {n: number(n) for n in (*needed.going, *needed.steady)}
    going = [ng_numpy.asarray([True]) if (v := begins[n]) is None else v for n in needed.going]
    steady = {n: v for n in needed.steady if (v := begins[n]) is not None}
    places = needed.places
    start = [*going, *[ng_numpy.asarray(0, dtype="int64") for _ in (0, *places)]]
    types = [(value.axes, value.element) for value in start]

    def asked(*values: Tensor) -> Sequence[Tensor]:
        return [ng_numpy.logical_and(truth(values[0]), ng_numpy.less(values[len(going)], MOST_COMPUTED))]

    def turn(*values: Tensor) -> Sequence[Tensor]:
        now, used = needed.turn({**steady, **dict(zip(needed.going, values, strict=False))})
        after = [ng_numpy.astype(now[n], v.dtype) for n, v in zip(needed.going, going, strict=True)]
        ends = [ng_numpy.add(ng_numpy.astype(ng_numpy.reshape(used[at], []), "int64"), 1) for at in places]
        count, *greatest = values[len(going) :]
        more = [ng_numpy.maximum(a, b) for a, b in zip(greatest, ends, strict=True)]
        return [*after, ng_numpy.add(count, 1), *more]

    body = build_region(types, turn)
    if any(not are_same(a.type.shape, b.type.shape) for a, b in zip(body.results, start, strict=True)):
        return None
    made = ControlOp(ng.WhileOp, start, [build_region(types, asked), body], types).results
    return Places(dict(zip(places, made[len(going) + 1 :], strict=True)), truth(made[0]))


@dataclass
class _Needed:
    """What is carried, the condition first, what stays, and the operators, of those that the condition and positions follow from;
    each with those of its inputs that are known."""

    going: Sequence[str]
    steady: Sequence[str]
    chosen: Sequence[tuple[int, Operator, list[str]]]

    @property
    def places(self) -> list[int]:
        """The places in the block of what uses positions of arrays."""
        return [at for at, operator, _ in self.chosen if operator.type in ARRAY_USES]

    @property
    def is_exact(self) -> bool:
        """Whether the condition is all known, not half of it."""
        return all(o.type in ARRAY_USES or len(reads) == len(o.reads) for _, o, reads in self.chosen)

    def turn(self, begins: Mapping[str, Tensor]) -> tuple[Mapping[str, Tensor], dict[int, Tensor]]:
        """An iteration: the values after it, and the positions that are used in it, by place."""
        values = dict(begins)
        used: dict[int, Tensor] = {}
        for at, operator, reads in self.chosen:
            if operator.type in ARRAY_USES:
                used[at] = values[reads[0]]
            elif len(reads) < len(operator.reads):
                values[operator.writes[0]] = values[reads[0]]
            else:
                values.update(_built(operator, values))
        return values, used


class _Counted:
    """The operators of a block that follow from known numbers and from one another, iteration after iteration."""

    def __init__(self, block: BlockView, known: Callable[[str], bool]):
        self.block, self.known = block, known
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
        self.chosen: list[tuple[int, Operator, list[str]]] = []
        for at, operator in enumerate(self.block.operators):
            usable = [n for n in operator.reads if now.get(n, self._begins(n))]
            is_whole = len(usable) == len(operator.reads) and is_function(operator)
            is_half = operator.type == "logical_and" and bool(usable)
            if operator.type in ARRAY_USES:
                if operator.inputs["I"][0] in usable:
                    self.chosen.append((at, operator, operator.inputs["I"]))
                is_whole = False
            elif is_whole or is_half:
                self.chosen.append((at, operator, usable))
            now.update(dict.fromkeys(writes_of(operator), is_whole or is_half))
        return now

    def needed(self, condition: str) -> _Needed | None:
        """What the condition and positions follow from; None where the condition is not known."""
        if not self._walk().get(condition, False):
            return None
        going: dict[str, None] = {condition: None}
        while True:
            wanted = set(going)
            kept: list[tuple[int, Operator, list[str]]] = []
            for at, operator, reads in reversed(self.chosen):
                if operator.type in ARRAY_USES or wanted.intersection(operator.writes):
                    kept.append((at, operator, reads))
                    if operator.type not in ARRAY_USES:
                        wanted.difference_update(operator.writes)
                    wanted.update(reads)
            more = [n for n in sorted(wanted) if n in self.written and n not in going]
            if not more:
                steady = [n for n in sorted(wanted) if n not in self.written]
                return _Needed(list(going), steady, kept[::-1])
            going.update(dict.fromkeys(more))


def _iterations(
    needed: _Needed, condition: str, known: Known
) -> tuple[Sequence[str], list[int], Iterator[tuple[bool, list[Array], list[Array]]]] | None:
    """The names of the carried values, the places in the block of what uses positions of arrays, and of each iteration what these
    are."""
    begins = {n: known(n) for n in (*needed.going, *needed.steady)}
    if begins[condition] is None:
        begins[condition] = np.array([True])
    held = {n: v for n, v in begins.items() if v is not None}
    storages = {
        n: AssignableTensorOp(Positions.of(v.shape), type_of_dtype(v.dtype), Role.PLACEHOLDER)
        for n, v in held.items()
    }
    values, used = needed.turn(storages)
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
