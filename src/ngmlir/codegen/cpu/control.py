# SPDX-License-Identifier: Apache-2.0
"""Loops and branches. The tiles that a loop carries are phis, one per register."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.core import Block
from ...llvm.types import Value, constant, i64
from ...ops import ng, tile
from ...support.diagnostics import UserError
from ...support.lengths import below, is_multiple, is_open
from .. import ranges
from ..names import index_name
from .emitter import Emitter

_ROLLED = '!{!"llvm.loop.unroll.disable"}'


def for_(e: Emitter, op: tile.ForOp) -> None:
    """tile.for. If only the last iteration crosses a boundary, it is peeled, so that the other iterations need no
    masks."""
    body = op.body.block
    lower, upper, step = (e.range_of(v) for v in (op.lower, op.upper, op.step))
    if step == ranges.exactly(0):
        raise UserError("the step of the loop is 0, so it would not end", op.location)
    state = e.flatten(op.inits)
    if not (lower.constant and upper.constant and step.constant):
        e.unflatten(op.results, _iterations(e, op, state, upper, e.scalar(op.upper)))
        return
    if is_open((lower.low, upper.low)):
        e.unflatten(op.results, _open_iterations(e, op, state))
        return
    count = max(0, -((lower.low - upper.low) // step.low))
    last = lower.low + (count - 1) * step.low
    uneven = (upper.low - lower.low) % step.low != 0 and _has_masks(body)
    if count > 1:
        state = _iterations_to(e, op, state, last if uneven else upper.low)
    if count == 1 or (count > 1 and uneven):
        e.index_constant(body.args[0], last)
        e.unflatten(body.args[1:], state)
        state = e.flatten(e.run(body))
    e.unflatten(op.results, state)


def _open_iterations(e: Emitter, op: tile.ForOp, state: Sequence[Value]) -> Sequence[Value]:
    """A loop whose bounds depend on open lengths: the full steps, then the partial last step if there is one."""
    lower, upper, step = (e.range_of(v) for v in (op.lower, op.upper, op.step))
    body = op.body.block
    if not _has_masks(body) or is_multiple(upper.low - lower.low, step.low):
        return _iterations_to(e, op, state, upper.low)
    whole = lower.low + (upper.low - lower.low) // step.low * step.low
    state = _iterations_to(e, op, state, whole)

    def rest() -> list[Value]:
        e.index_constant(body.args[0], whole)
        e.unflatten(body.args[1:], state)
        return e.flatten(e.run(body))

    return e.b.choose(e.b.icmp("slt", _index(whole), upper.low), rest, lambda: state)


def _iterations_to(e: Emitter, op: tile.ForOp, state: Sequence[Value], stop: int) -> Sequence[Value]:
    return _iterations(e, op, state, ranges.exactly(stop), _index(stop))


def _iterations(
    e: Emitter, op: tile.ForOp, state: Sequence[Value], upper: ranges.Range, stop: Value
) -> Sequence[Value]:
    """The loop up to `stop`, which is within `upper` and may be less than the loop's own bound."""
    b, body, lower = e.b, op.body.block, e.range_of(op.lower)
    known = ranges.of_loop(lower, upper, e.range_of(op.step))
    attach = f"!llvm.loop {b.module.distinct_metadata(b.module.metadata(_ROLLED))}"
    certain, name = bool(below(lower.high, upper.low)), index_name(op)
    with b.loop(
        e.scalar(op.lower), stop, e.scalar(op.step), state, certain=certain, attach=attach, name=name
    ) as loop:
        e.define_index(body.args[0], loop.index, known)
        e.unflatten(body.args[1:], loop.carried)
        loop.next(*e.flatten(e.run(body)))
    return loop.results


def _index(number: int) -> Value:
    return constant(i64, number)


def _has_masks(block: Block) -> bool:
    return any("masked" in inner.attributes for op in block.ops for inner in op.walk())


def if_(e: Emitter, op: ng.IfOp) -> None:
    """ng.if"""
    then, otherwise = (partial(_values_of, e, region.block) for region in op.regions)
    e.unflatten(op.results, e.b.choose(e.scalar(op.condition), then, otherwise))


def _values_of(e: Emitter, block: Block) -> list[Value]:
    return e.flatten(e.run(block))


def while_(e: Emitter, op: ng.WhileOp) -> None:
    """ng.while"""
    b = e.b
    condition, body = op.regions[0].block, op.regions[1].block
    state, before = e.flatten(op.operands), b.block
    test, work, after = b.label("while_test"), b.label("while_loop"), b.label("while_end")
    b.branch(test)
    b.place(test)
    phis = [b.phi(x.type, (x, before)) for x in state]
    e.unflatten(condition.args, phis)
    go_on = e.scalar(e.run(condition)[0])
    b.branch_if(go_on, work, after)
    b.place(work)
    e.unflatten(body.args, phis)
    following = e.flatten(e.run(body))
    for phi, value in zip(phis, following, strict=True):
        b.add_incoming(phi, value, b.block)
    b.branch(test)
    b.place(after)
    e.unflatten(op.results, phis)
