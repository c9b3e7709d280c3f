# SPDX-License-Identifier: Apache-2.0
"""Gradients of branches and scans: again branches and scans, whose bodies compute the gradients of the bodies.

What the forward body computed is computed again inside, from what it was entered with. So a scan keeps only its
carried values of every step, and the gradient of a scan is a scan that itself has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..ir import core
from ..ir.types import FloatType
from ..ops import ng
from .axes import Axes
from .node import Op
from .regions import ControlOp, GraphRegion, build_region, within
from .replay import replayed
from .tensor import Tensor, as_tensor
from .verbs import VERBS

Deltas = Sequence["Tensor | None"]
#: The gradients of a dependent, weighted with an error, down to the ops of a collection.
Backward = Callable[[Tensor, Tensor, Collection[Op]], Mapping[Op, Tensor]]
ControlRule = Callable[[ControlOp, Deltas, Sequence[bool], Backward], Deltas]


def _seeded(
    results: Sequence[Tensor], deltas: Deltas, of: Sequence[Tensor], backward: Backward
) -> list[Tensor]:
    """The gradients of `results`, weighted with `deltas`, with respect to `of`; zeros where there is no dependence.

    What lies below `of` is not looked at: it belongs to the graph around the region.
    """
    stop = {op.forwarded for op in of}
    totals: list[Tensor | None] = [None] * len(of)
    for result, delta in zip(results, deltas, strict=True):
        if delta is None or not isinstance(result.element, FloatType):
            continue
        sums = backward(result, delta, stop)
        for i, op in enumerate(of):
            made = sums.get(op.forwarded)
            if made is not None:
                known = totals[i]
                totals[i] = made if known is None else VERBS.add(known, made)
    return [VERBS.number_like(0, op) if t is None else t for t, op in zip(totals, of, strict=True)]


def _if_gradient(op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """The same condition chooses between the gradients of the branches."""
    targets = [as_tensor(a) for a, use in zip(op.args, wanted, strict=True) if use]

    def branch(region: GraphRegion) -> GraphRegion:
        return build_region((), lambda: _seeded(replayed(region, ()), deltas, targets, backward))

    made = ControlOp(
        op.kind, op.operands, [branch(r) for r in op.regions], [(t.axes, t.element) for t in targets]
    )
    given = iter(made.results)
    return [next(given) if use else None for use in wanted]


def _carried(scan: ControlOp) -> int:
    """How many operands of a scan are handed on from step to step."""
    return scan.attributes["carried"]


def _with_saved_states(op: ControlOp) -> tuple[Tensor, ...]:
    """The carried values that each step of a scan began with. The scan is replaced by one that also gives these."""
    saved: tuple[Tensor, ...] | None = op.__dict__.get("saved_states")
    if saved is None:
        (region,), carried = op.regions, _carried(op)
        axis = op.operands[carried].axes[0]
        states = [(Axes((axis, *p.axes)), p.element) for p in region.parameters[:carried]]
        types = [*((r.axes, r.element) for r in op.results), *states]
        # It stands where the scan stands: it waits for the same writes, and not for those that were made since.
        with within(op.region), Op.saved_user_deps():
            body = build_region(
                [(p.axes, p.element) for p in region.parameters],
                lambda *values: [*replayed(region, values), *values[:carried]],
            )
            made = ControlOp(op.kind, op.operands, [body], types, dict(op.attributes))
        made.location, made.writes = op.location, op.writes
        for earlier in (*op.other_deps, *(c for c in op.captured if not c.is_tensor_op)):
            made.add_control_dep(earlier)
        for old, new in zip(op.results, made.results, strict=False):
            old.forward = new
        saved = op.__dict__["saved_states"] = made.__dict__["saved_states"] = made.results[len(op.results) :]
    return saved


def _scan_gradient(op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """A scan the other way, over the saved states, the inputs and the gradients of the outputs.

    It carries the gradients of the carried values, and sums up those of the captured ones.
    """
    (region,), carried = op.regions, _carried(op)
    states = _with_saved_states(op)
    sequences, captured = (
        op.operands[carried:],
        [as_tensor(c) for c, use in zip(op.captured, wanted[op.operand_count :], strict=True) if use],
    )
    numbers = [i for i, p in enumerate(region.parameters) if isinstance(p.element, FloatType)]
    floats = [i for i in numbers if i < carried]
    slices = [i for i in numbers if i >= carried]
    output_numbers = [i for i in range(carried, len(op.results)) if deltas[i] is not None]
    ending = [
        d if d is not None else VERBS.number_like(0, r) for d, r in zip(deltas, op.results, strict=True)
    ]

    start = [*(ending[i] for i in floats), *(VERBS.number_like(0, c) for c in captured)]
    given = [*states, *sequences, *(ending[i] for i in output_numbers)]

    def step(*values: Tensor) -> Sequence[Tensor]:
        back = dict(zip(floats, values, strict=False))
        sums = values[len(floats) : len(start)]
        entered = values[len(start) : len(start) + len(region.parameters)]
        ahead = dict(zip(output_numbers, values[len(start) + len(region.parameters) :], strict=True))
        results = replayed(region, entered)
        weights = [back.get(i) if i < carried else ahead.get(i) for i in range(len(results))]
        targets = [*(entered[i] for i in numbers), *captured]
        made = _seeded(results, weights, targets, backward)
        by_parameter = dict(zip(numbers, made, strict=False))
        added = [VERBS.add(s, m) for s, m in zip(sums, made[len(numbers) :], strict=True)]
        return [*(by_parameter[i] for i in floats), *added, *(by_parameter[i] for i in slices)]

    types = [(s.axes, s.element) for s in start]
    body = build_region([*types, *((g.axes[1:], g.element) for g in given)], step)
    outputs = [(op.operands[i].axes, op.operands[i].element) for i in slices]
    made = ControlOp(
        op.kind, [*start, *given], [body], [*types, *outputs],
        {"carried": len(start), "reverse": not op.attributes["reverse"]},
    )  # fmt: skip
    results = made.results
    to_operand = dict(zip([*floats, *slices], [*results[: len(floats)], *results[len(start) :]], strict=True))
    to_captured = dict[Op, Tensor](zip(captured, results[len(floats) : len(start)], strict=True))
    return [*(to_operand.get(i) for i in range(op.operand_count)), *(to_captured.get(c) for c in op.captured)]


CONTROL_GRADIENTS: dict[type[core.Op], ControlRule] = {ng.IfOp: _if_gradient, ng.ScanOp: _scan_gradient}
