# SPDX-License-Identifier: Apache-2.0
"""The gradient of a scan: a scan the other way, that carries the gradients of the carried values.

The gradient of one step is built inside the step, so that it may use all values of the step. Of those that it uses, the scan
stores the costly ones for every step, and the others are recomputed. Last, sums that need not be accumulated step by step
leave the loop: a sum of products is one product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Protocol

from ..ir.types import FloatType, Type
from ..ops import ng
from ..ops.lengths import Length, same
from ..support.lengths import usual
from .attributes import resolved
from .axes import Axes, Axis, DerivedAxis
from .node import Op
from .order import schedule
from .ordered import OrderedSet
from .regions import ControlOp, GraphRegion, RegionParameter, build_region, within
from .replay import Replay
from .state import SequentialOp
from .tensor import Tensor, as_tensor
from .verbs import VERBS
from .writes import ReadOp

Deltas = Sequence["Tensor | None"]


class Backward(Protocol):
    """The gradients of several tensors, each weighted with an error, added up; down to the ops of a collection."""

    def __call__(
        self, dependents: Sequence[tuple[Tensor, Tensor]], stop: Collection[Op]
    ) -> Mapping[Op, Tensor]: ...


def scan_gradient(op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """The gradients of the operands and of what is captured, where wanted."""
    gradient = _Gradient(op, deltas, wanted, backward)
    gradient.part()
    return gradient.made(wanted)


class _Gradient:
    """The gradient of a scan in the making. `seeds` are the gradients that a step begins with."""

    def __init__(self, op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward):
        self.op, (self.region,) = op, op.regions
        self.count: int = op.attributes["carried"]
        self.deltas = deltas
        self.parameters = self.region.parameters
        self.captured = [
            as_tensor(c) for c, use in zip(op.captured, wanted[op.operand_count :], strict=True) if use
        ]
        self.sliced = [
            i for i in range(self.count, len(self.parameters)) if wanted[i] and _is_float(self.parameters[i])
        ]
        self.given = [i for i in range(self.count, len(deltas)) if deltas[i] is not None]
        self.carried = [i for i in range(self.count) if _is_float(self.parameters[i])]
        self.write(backward)
        # Nothing comes through some carried values, such as the state of random numbers.
        while idle := {i for i in self.carried if deltas[i] is None and self.to_parameter[i] is None}:
            self.carried = [i for i in self.carried if i not in idle]
            self.write(backward)

    def write(self, backward: Backward) -> None:
        """The gradient of a step, in a scope inside that of the step."""
        results = [self.region.results[i] for i in (*self.carried, *self.given)]
        with within(GraphRegion(self.region)) as self.scratch:
            self.seeds = [RegionParameter(r.axes, r.element) for r in results]
            stop = {op.forwarded for op in (*self.parameters, *self.captured)}
            sums = backward(list(zip(results, self.seeds, strict=True)), stop)
            self.to_parameter = [sums.get(p) for p in self.parameters]
            self.to_captured = [sums.get(c.forwarded) for c in self.captured]
            #: The carried values and outputs of the reverse loop, for one step.
            self.handed = [self.gradient_of(i) for i in self.carried]
            self.outputs: list[Tensor] = [self.gradient_of(i) for i in self.sliced]

    def gradient_of(self, parameter: int) -> Tensor:
        made = self.to_parameter[parameter]
        return VERBS.number_like(0, self.parameters[parameter]) if made is None else made

    # ---- what is done where

    def part(self) -> None:
        """Decides what is summed up in the loop, what after it, what is kept and what is computed again."""
        roots = [*self.handed, *self.outputs, *(g for g in self.to_captured if g is not None)]
        self.order = schedule(self.region.inside(roots))
        self.follows: set[Op] = set(self.seeds)  # ops that follow from the gradients
        self.varies: set[Op] = {*self.seeds, *self.parameters}  # ops that differ from step to step
        for op in self.order:
            for found in (self.follows, self.varies):
                if any(b in found for b in below(op)):
                    found.add(op)
        self.after: OrderedSet[Op] = OrderedSet()
        leaves = self.split(g for g in self.to_captured if g is not None)
        self.products = [op for op in leaves if self.leaves_the_loop(op)]
        sides = {_bare(b) for op in self.products for b in below(op)}
        self.totals = [op for op in leaves if op.operation is ng.SumOp and _bare(op.args[0]) in sides]
        outside = {*self.products, *self.totals}
        self.summed = [as_tensor(op) for op in leaves if op not in outside]
        stacked = OrderedSet(_bare(b) for op in leaves if op in outside for b in below(op))
        #: The values of all steps that the reverse loop must give, and as which of its outputs.
        self.places = {o.forwarded: i for i, o in enumerate(self.outputs)}
        given = self.seeds[len(self.carried) :]  # their values of all steps are there
        for side in stacked:
            if side in self.follows and side not in self.places and side not in given:
                self.places[side] = len(self.outputs)
                self.outputs.append(as_tensor(side))
        self.kept: OrderedSet[Op] = OrderedSet(s for s in stacked if s not in self.follows)
        self.entered: OrderedSet[Op] = OrderedSet()
        self.again: set[Op] = set()
        self.require([*self.handed, *self.summed, *self.outputs])

    def split(self, gradients: Iterable[Op]) -> OrderedSet[Op]:
        """What gradients of what is captured are the sums of, below ops that may as well follow the summation (`after`)."""
        leaves: OrderedSet[Op] = OrderedSet()
        stack = [g.forwarded for g in gradients]
        while stack:
            op = stack.pop()
            if op in self.after:
                continue
            if exchanged := self.exchanged(op):
                self.after.add(op)
                stack += exchanged
            else:
                leaves.add(op)
        return leaves

    def exchanged(self, op: Op) -> list[Op]:
        """The arguments that may be summed up in place of an op; none where it must be summed up itself."""
        if op.operation is None or op not in self.follows or op in self.seeds:
            return []
        following = [b for b in below(op) if b in self.follows]
        whole = len(following) == len(op.args)
        definition = op.operation.definition
        if (whole and op.operation is ng.AddOp) or (definition is not None and "view" in definition.traits):
            return following
        steady = [b for b in below(op) if b not in self.varies]
        if op.operation is ng.DotOp and len(following) == 1 and steady and _size(following[0]) <= _size(op):
            return following
        return []

    def leaves_the_loop(self, op: Op) -> bool:
        """Whether a product is made of all steps at once: not where its sides, kept of all steps, are larger than what would
        be summed up."""
        if op.operation is not ng.DotOp or not all(b in self.varies for b in below(op)):
            return False
        sides = {_bare(b) for b in below(op)}
        new = [s for s in sides if s not in self.seeds and s not in self.parameters[self.count :]]
        return sum(map(_size, new)) <= _size(op)

    def require(self, roots: Sequence[Op]) -> None:
        stack = [r.forwarded for r in roots]
        while stack:
            op = stack.pop()
            if op in self.again or op in self.entered or op in self.kept or not self.region.holds(op):
                continue
            if isinstance(op, RegionParameter):
                if op not in self.seeds:
                    self.entered.add(op)
            elif op.region is not self.scratch and op in self.varies and not is_quick(op):
                self.kept.add(op)
            else:
                self.again.add(op)
                stack += below(op)

    # ---- making it

    def made(self, wanted: Sequence[bool]) -> Deltas:
        op, deltas = self.op, self.deltas
        carried = [p for p in self.entered if p in self.parameters[: self.count]]
        stacks = keep(op, [*self.kept, *carried])
        for i, parameter in enumerate(self.parameters[self.count :], self.count):
            stacks[parameter] = op.operands[i]
        errors = dict(zip(self.seeds[len(self.carried) :], (deltas[i] for i in self.given), strict=True))
        steps: dict[Op, Tensor] = {o: stacks[o] for o in (*self.entered, *self.kept)}
        steps.update((seed, error) for seed, error in errors.items() if error is not None)
        if not steps:  # the loop must know its length
            steps[self.parameters[self.count]] = stacks[self.parameters[self.count]]
        ending = [deltas[i] for i in self.carried]
        start = [
            d if d is not None else VERBS.number_like(0, s) for d, s in zip(ending, self.seeds, strict=False)
        ]
        start += [VERBS.number_like(0, s) for s in self.summed]
        handed, count = len(self.carried), len(start)

        def step(*values: Tensor) -> Sequence[Tensor]:
            known = {**op.reads, **dict(zip(self.seeds, values[:handed], strict=False))}
            known.update(zip(steps, values[count:], strict=True))
            replay = Replay(known)
            replay.run(o for o in self.order if o in self.again)
            sums = zip(values[handed:count], replay.results(self.summed), strict=True)
            return [
                *replay.results(self.handed),
                *(VERBS.add(s, n) for s, n in sums),
                *replay.results(self.outputs),
            ]

        types = [(s.axes, s.element) for s in start]
        body = build_region([*types, *((s.axes[1:], s.element) for s in steps.values())], step)
        outputs = [(op.operands[i].axes, op.operands[i].element) for i in self.sliced]
        outputs += [(_stacked_axes(op, o), o.element) for o in self.outputs[len(self.sliced) :]]
        made = ControlOp(
            op.kind, [*start, *steps.values()], [body], [*types, *outputs],
            {"carried": count, "reverse": not op.attributes["reverse"]},
        )  # fmt: skip
        results = made.results
        stacks.update((side, results[count + place]) for side, place in self.places.items())
        stacks.update((seed, error) for seed, error in errors.items() if error is not None)
        sums = dict[Op, Op](zip(self.summed, results[handed:count], strict=True))
        to_captured = self.summed_up(sums, stacks)
        to_operand = dict(
            zip([*self.carried, *self.sliced], [*results[:handed], *results[count:]], strict=False)
        )
        return [
            *(to_operand.get(i) if wanted[i] else None for i in range(op.operand_count)),
            *(to_captured.get(c) for c in op.captured),
        ]

    def summed_up(self, sums: dict[Op, Op], stacks: Mapping[Op, Tensor]) -> dict[Op, Tensor]:
        """The gradients of what is captured, from sums made in the loop and from values of all steps."""
        for op in (*self.products, *self.totals):
            sides = [as_tensor(b) for b in below(op)]
            along = _apart(self.op, sides)
            found = [(stacks[_bare(side)], side.axes.like((along, *side.axes))) for side in sides]
            sums[op] = _over_all_steps(as_tensor(op), [_renamed(stack, axes) for stack, axes in found])
        replay = Replay({**self.op.reads, **sums})
        needed = set(self.after)
        stack = [b for op in self.after for b in below(op)]
        while stack:
            op = stack.pop()
            if op not in needed and op not in sums and self.region.holds(op):
                needed.add(op)
                stack += below(op)
        replay.run(o for o in self.order if o in needed)
        return {
            c: as_tensor(replay.now(g))
            for c, g in zip(self.captured, self.to_captured, strict=True)
            if g is not None
        }


def _is_float(op: Tensor) -> bool:
    return isinstance(op.element, FloatType)


def below(op: Op) -> list[Op]:
    """What an op of a step is computed from."""
    if isinstance(op, SequentialOp):
        return [op.last.forwarded] if op.has_value else []
    return [a.forwarded for a in (*op.args, *op.members)]


def _bare(op: Op) -> Op:
    """A value below other names of its axes."""
    op = op.forwarded
    while op.operation is ng.CastAxesOp:
        op = op.args[0].forwarded
    return op


def _size(op: Op) -> int:
    """About how many elements there are; as if there were one, along axes whose length is not set."""
    return prod(usual(axis.length or 1) for axis in as_tensor(op).axes)


def is_quick(op: Op) -> bool:
    """Whether computing an op again takes no longer than reading what it gave."""
    if op.is_view or isinstance(op, (ReadOp, SequentialOp)) or as_tensor(op).is_alias:
        return True
    if op.operation is None or op.operation.definition is None:
        return False
    traits = op.operation.definition.traits
    return "elementwise" in traits and "math" not in traits


def _along(scan: ControlOp) -> Axis:
    carried: int = scan.attributes["carried"]
    return scan.operands[carried].axes[0]


def _apart(scan: ControlOp, values: Iterable[Tensor]) -> Axis:
    """The axis of a scan, or a new one of its length if some of the values already have an axis of that name."""
    along = _along(scan)
    if not any(along in v.axes for v in values):
        return along
    return DerivedAxis(Axis().name, Length(same, along))


def _stacked_axes(scan: ControlOp, value: Tensor) -> Axes:
    """The axes of a value of all steps."""
    return value.axes.like((_apart(scan, [value]), *value.axes))


def _renamed(value: Tensor, axes: Axes) -> Tensor:
    return value if value.axes == axes else VERBS.stated(ng.CastAxesOp, [value], {}, axes, value.element)


def _over_all_steps(op: Tensor, stacks: Sequence[Tensor]) -> Tensor:
    """The sum over all steps of a product or sum, of the values of all steps that it is made of."""
    attributes = resolved(op.attributes)

    def along(name: str) -> list[int]:
        return [d + 1 for d in attributes[name]]

    if op.operation is ng.SumOp:
        made = VERBS.sum(stacks[0], axes=[0, *along("axes")])
    else:
        made = VERBS.dot(
            *stacks,
            lhs_contract=[0, *along("lhs_contract")], rhs_contract=[0, *along("rhs_contract")],
            lhs_batch=along("lhs_batch"), rhs_batch=along("rhs_batch"),
        )  # fmt: skip
    return VERBS.rename_like(made, op)


def keep(op: ControlOp, values: Sequence[Op]) -> dict[Op, Tensor]:
    """Values of the steps of a scan, of all steps. Those that it does not give yet it gives from now on: it is replaced by a
    scan that does."""
    (region,) = op.regions
    for i in range(op.attributes["carried"], len(region.results)):  # what it gives anyway
        op.kept.setdefault(region.results[i].forwarded, op.results[i])
    missing = [v for v in values if v not in op.kept]
    if missing:
        types = [*((r.axes, r.element) for r in op.results)]
        types += [(_stacked_axes(op, as_tensor(v)), as_tensor(v).element) for v in missing]
        again: dict[Op, Op] = {}

        def step(*parameters: Tensor) -> Sequence[Tensor]:
            replay = Replay(dict(zip(region.parameters, parameters, strict=True)))
            replay.run(schedule(region.inside([*region.results, *values])))
            again.update((v, replay.now(v)) for v in (*op.kept, *missing))
            return [*replay.results(region.results), *replay.results(missing)]

        parameters = [(p.axes, p.element) for p in region.parameters]
        made = keeping(op, types, lambda: [build_region(parameters, step)])
        op.kept.update(zip(missing, made.results[len(op.results) :], strict=True))
        made.kept.update((again[v], as_tensor(stack.forwarded)) for v, stack in op.kept.items())
    return {v: as_tensor(op.kept[v].forwarded) for v in values}


def keeping(
    op: ControlOp, types: Sequence[tuple[Axes, Type]], regions: Callable[[], Sequence[GraphRegion]]
) -> ControlOp:
    """A loop or branch that gives more results, in the place of one."""
    # It takes the position of the other: it waits for the same writes, and not for later ones.
    with within(op.region), Op.saved_user_deps():
        made = ControlOp(op.kind, op.operands, regions(), types, dict(op.attributes))
    made.location, made.writes, made.reads = op.location, op.writes, op.reads
    for earlier in (*op.other_deps, *(c for c in op.captured if not c.is_tensor_op)):
        made.add_control_dep(earlier)
    for old, new in zip(op.results, made.results, strict=False):
        old.forward = new
    return made
