# SPDX-License-Identifier: Apache-2.0
"""The gradient of a loop with a condition.

A loop whose trip count follows from constants is a scan of that length, and has the gradient of a scan. Another one keeps
the carried values on a stack. The stack has a fixed capacity, since memory is planned before a program runs: when it is
full, every other entry is dropped, and from then on only every other iteration is stored. The gradient runs over the
iterations from the last to the first; values that were not stored are recomputed from the nearest entry before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import prod

import numpy as np

from ..ir.types import FloatType, Type, i32
from ..ops import ng
from .axes import Axes, Axis
from .known import known_value
from .node import Op
from .regions import ControlOp, GraphRegion, RegionParameter, build_region, within
from .replay import Replay, replayed
from .scan_gradient import Backward, Deltas, below, scan_gradient
from .state import AssignableTensorOp, Role
from .tensor import Tensor, as_tensor
from .trip_counts import iterations
from .values import ConstantOp
from .verbs import VERBS
from .verbs import cast as cast_elements

#: A loop of more iterations is not counted when it is built.
MOST = 1 << 12
#: How many iterations a stack holds: as many as fit into so many bytes, within limits.
_STACK_BYTES, _FEWEST_KEPT, _MOST_KEPT = 1 << 22, 8, 256


def while_gradient(op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """The gradients of the operands and of what is captured, where wanted."""
    count = trip_count(op)
    if count is not None:
        return _of_scan(op, count, deltas, wanted, backward)
    return _Unwound(op).gradients(deltas, wanted, backward)


# ---- loops of a known trip count


def trip_count(op: ControlOp) -> int | None:
    """How often a loop runs its body, where its condition follows from constants and from what the body makes of these."""
    asked, body = op.regions
    going = _going(asked, body)
    if going is None:
        return None
    places = sorted(going)
    begins = [known_value(op.operands[i]) for i in places]
    if any(b is None for b in begins):
        return None
    known = [b for b in begins if b is not None]
    with Op.saved_user_deps(), Op.all_ops(isolate=True), within(None):
        now = [
            AssignableTensorOp(op.operands[i].axes, op.operands[i].element, Role.PLACEHOLDER) for i in places
        ]
        held = dict(zip(places, now, strict=True))
        (condition,) = _followed(asked, held, [asked.results[0]])
        after = _followed(body, held, [body.results[i] for i in places])
        counted = enumerate(islice(iterations(condition, after, [], now, known), MOST + 1))
        return next((count for count, (holds, *_) in counted if not holds), None)


def _going(asked: GraphRegion, body: GraphRegion) -> set[int] | None:
    """The numbers of the values that the condition follows from; None where it follows from more than these."""
    going: set[int] = set()
    pending: list[tuple[GraphRegion, Op]] = [(asked, asked.results[0])]
    seen: set[Op] = set()
    while pending:
        region, op = pending.pop()
        op = op.forwarded
        if op in seen:
            continue
        seen.add(op)
        if isinstance(op, RegionParameter) and op in region.parameters:
            at = region.parameters.index(op)
            if at not in going:
                going.add(at)
                pending.append((body, body.results[at]))
        elif not region.holds(op):
            if known_value(as_tensor(op)) is None:
                return None
        elif isinstance(op, ControlOp):
            return None
        else:
            pending += [(region, b) for b in below(op)]
    return going


def _followed(region: GraphRegion, held: Mapping[int, Tensor], results: Sequence[Tensor]) -> list[Tensor]:
    """Results of a region, computed here of some of its parameters and of constants."""
    known: dict[Op, Op] = {region.parameters[i]: value for i, value in held.items()}
    for op in region.captures():
        if isinstance(op, Tensor) and (value := known_value(op)) is not None:
            known[op] = ConstantOp(value, op.axes, op.element)
    replay = Replay({**{p: p for p in region.parameters}, **known})
    replay.run(op for op in region.inside(results) if not isinstance(op, RegionParameter))
    return replay.results(results)


def _of_scan(op: ControlOp, count: int, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """The loop becomes a scan of so many steps; its gradient is that of the scan."""
    _, body = op.regions
    family = op.operands[0].axes
    types = [(r.axes, r.element) for r in op.results]
    with within(op.region), Op.saved_user_deps():
        steps = VERBS.stated(ng.IotaOp, [], {"dimension": 0}, family.like((Axis(count),)), i32)
        region = build_region([*types, (family.like(()), i32)], lambda *values: replayed(body, values[:-1]))
        made = ControlOp(
            ng.ScanOp, [*op.operands, steps], [region], types, {"carried": len(types), "reverse": False}
        )
    _stand_for(op, made)
    use = {a.forwarded for a, w in zip(op.args, wanted, strict=True) if w}
    given = scan_gradient(made, deltas, [a.forwarded in use for a in made.args], backward)
    found = {a.forwarded: g for a, g in zip(made.captured, given[made.operand_count :], strict=True)}
    return [*given[: op.operand_count], *[found.get(c.forwarded) for c in op.captured]]


def _stand_for(op: ControlOp, made: ControlOp) -> None:
    """Replaces a loop by another one, whose first results are the same."""
    made.location, made.writes, made.reads = op.location, op.writes, op.reads
    for earlier in (*op.other_deps, *(c for c in op.captured if not c.is_tensor_op)):
        made.add_control_dep(earlier)
    for old, new in zip(op.results, made.results, strict=False):
        old.forward = new


# ---- loops that keep iterations on a stack


class _Unwound:
    """A loop that counts its iterations and keeps what went into some of them."""

    def __init__(self, op: ControlOp):
        self.op = op
        self.asked, self.body = op.regions
        self.values = [(p.axes, p.element) for p in self.body.parameters]
        self.family = op.operands[0].axes
        self.places = _places(self.values)
        self.stacks = [(axes.like((Axis(self.places), *axes)), element) for axes, element in self.values]
        self.count = len(self.values)
        with within(op.region), Op.saved_user_deps():
            made = self._keeping()
        _stand_for(op, made)
        self.iterations, self.distance, *self.kept = made.results[self.count :]

    def number(self, value: int) -> Tensor:
        return ConstantOp(np.array(value, np.int32), self.family.like(()), i32)

    def _keeping(self) -> ControlOp:
        """The loop, with the trip count, the distance of those that are kept, and a stack for each value."""
        stacks = [
            VERBS.stated(
                ng.BroadcastOp,
                [cast_elements(self.number(0), element)],
                {"dimensions": ()}, axes, element,
            )
            for axes, element in self.stacks
        ]  # fmt: skip
        start = [*self.op.operands, self.number(0), self.number(1), *stacks]
        types = [(s.axes, s.element) for s in start]
        around = Replay(self.op.reads)

        def asked(*values: Tensor) -> Sequence[Tensor]:
            return replayed(self.asked, values[: self.count], around)

        def body(*values: Tensor) -> Sequence[Tensor]:
            now, (number, distance, *kept) = values[: self.count], values[self.count :]
            is_full = VERBS.equal(number, VERBS.multiply(distance, self.number(self.places)))
            thin = self._chosen(is_full, lambda: [self._thinned(k) for k in kept], kept)
            distance = VERBS.select(is_full, VERBS.multiply(distance, self.number(2)), distance)
            slot = VERBS.floor_divide(number, distance)
            is_due = VERBS.equal(VERBS.multiply(slot, distance), number)
            held = self._chosen(
                is_due, lambda: [self._put(k, slot, v) for k, v in zip(thin, now, strict=True)], thin
            )
            made = replayed(self.body, now, around)
            return [*made, VERBS.add(number, self.number(1)), distance, *held]

        return ControlOp(ng.WhileOp, start, [build_region(types, asked), build_region(types, body)], types)

    def _chosen(
        self, condition: Tensor, then: Callable[[], Sequence[Tensor]], otherwise: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        types = [(o.axes, o.element) for o in otherwise]
        regions = [build_region((), then), build_region((), lambda: list(otherwise))]
        return ControlOp(ng.IfOp, [condition], regions, types).results

    def _thinned(self, stack: Tensor) -> Tensor:
        """Every other place of a stack, in its first half."""
        axis = stack.axes[0]
        every = VERBS.stated(ng.IotaOp, [], {"dimension": 0}, stack.axes.like((axis,)), i32)
        twice = VERBS.add(every, every)
        return VERBS.rename_like(VERBS.gather(stack, twice, axis=0), stack)

    def _put(self, stack: Tensor, slot: Tensor, value: Tensor) -> Tensor:
        return VERBS.rename_like(VERBS.scatter(stack, slot, value, axis=0), stack)

    # ---- backwards

    def gradients(self, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
        op = self.op
        floats = [i for i, (_, element) in enumerate(self.values) if isinstance(element, FloatType)]
        captured = [
            as_tensor(c)
            for c, use in zip(op.captured, wanted[op.operand_count :], strict=True)
            if use and isinstance(as_tensor(c).element, FloatType)
        ]
        begun = [deltas[i] for i in floats]
        errors = [
            VERBS.number_like(0, op.operands[i]) if d is None else d
            for i, d in zip(floats, begun, strict=True)
        ]
        start = [self.iterations, *errors, *[VERBS.number_like(0, c) for c in captured]]
        types = [(s.axes, s.element) for s in start]

        def more(*values: Tensor) -> Sequence[Tensor]:
            return [VERBS.greater(values[0], self.number(0))]

        def back(*values: Tensor) -> Sequence[Tensor]:
            at = VERBS.subtract(values[0], self.number(1))
            now = self._entered(at)
            seeds, sums = values[1 : 1 + len(floats)], values[1 + len(floats) :]
            made = replayed(self.body, now, Replay(op.reads))
            found = backward(
                [(made[i], seed) for i, seed in zip(floats, seeds, strict=True)],
                {v.forwarded for v in (*now, *captured)},
            )
            handed = [_or_zeros(found.get(now[i].forwarded), now[i]) for i in floats]
            added = [
                s if (more := found.get(c.forwarded)) is None else VERBS.add(s, more)
                for c, s in zip(captured, sums, strict=True)
            ]
            return [at, *handed, *added]

        loop = ControlOp(ng.WhileOp, start, [build_region(types, more), build_region(types, back)], types)
        by_value = dict(zip(floats, loop.results[1:], strict=False))
        by_captured = dict(zip([c.forwarded for c in captured], loop.results[1 + len(floats) :], strict=True))
        return [
            *[by_value.get(i) for i in range(op.operand_count)],
            *[by_captured.get(c.forwarded) for c in op.captured],
        ]

    def _entered(self, at: Tensor) -> list[Tensor]:
        """What went into an iteration: the nearest place before it, and the body as often as is left."""
        slot = VERBS.floor_divide(at, self.distance)
        begins = [
            VERBS.rename_like(VERBS.gather(k, slot, axis=0), p)
            for k, p in zip(self.kept, self.body.parameters, strict=True)
        ]
        left = VERBS.subtract(at, VERBS.multiply(slot, self.distance))
        types = [*self.values, (left.axes, left.element)]

        def more(*values: Tensor) -> Sequence[Tensor]:
            return [VERBS.greater(values[-1], self.number(0))]

        def once(*values: Tensor) -> Sequence[Tensor]:
            made = replayed(self.body, values[:-1], Replay(self.op.reads))
            return [*made, VERBS.subtract(values[-1], self.number(1))]

        regions = [build_region(types, more), build_region(types, once)]
        return list(ControlOp(ng.WhileOp, [*begins, left], regions, types).results[:-1])


def _or_zeros(found: Tensor | None, like: Tensor) -> Tensor:
    return VERBS.number_like(0, like) if found is None else found


def _places(values: Sequence[tuple[Axes, Type]]) -> int:
    """How many iterations the stack of these values holds: a power of two."""
    size = sum(prod(a.length or 1 for a in axes) for axes, _ in values) * 8
    places = _FEWEST_KEPT
    while places < _MOST_KEPT and 2 * places * size <= _STACK_BYTES:
        places *= 2
    return places
