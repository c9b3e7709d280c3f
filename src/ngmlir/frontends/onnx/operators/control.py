# SPDX-License-Identifier: Apache-2.0
"""If and Scan: decided while the model is read where that can be, else branches and loops of the program."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto

from ....ir.types import TensorType
from ....support.diagnostics import Limit, UserError
from ..emitter import Emitter, Undecided
from ..nodes import Made, Node, operator
from ..tensor import Tensor, Thing


def emitter_of(n: Node) -> Emitter:
    """What builds the program that the node is in."""
    assert isinstance(n.verbs, Emitter)
    return n.verbs


def tensors_of(things: Sequence[Thing]) -> list[Tensor]:
    """Things that are all tensors; `Undecided` where one is none, since regions take and give no others."""
    if not all(isinstance(t, Tensor) for t in things):
        raise Undecided([])
    return [t for t in things if isinstance(t, Tensor)]


@operator("If")
def if_(n: Node, condition: Tensor) -> Made:
    branches = [n.graph("then_branch"), n.graph("else_branch")]
    condition = condition.reshape([])
    if condition.array is not None:
        return n.run(branches[0 if condition.array else 1], [])
    emitter = emitter_of(n)
    try:
        made = [emitter.region((), lambda _, g=graph: tensors_of(n.run(g, []))) for graph in branches]
    except Undecided as error:
        if error.arguments:
            raise
        made = []
    except (UserError, Limit):
        # One that does not fit these shapes is there for others.
        made = []
    if not made or made[0][1] != made[1][1]:
        # The branches give tensors of several shapes: the condition decides them.
        chosen = n.settle(condition, "which branch of a conditional is taken")
        return n.run(branches[0 if chosen else 1], [])
    return list(emitter.if_(condition, types=made[0][1], regions=[region for region, _ in made]))


@operator("Scan")
def scan(n: Node, *inputs: Tensor) -> list[Thing]:
    if n.version < 9:
        return _batched_scan(n, *inputs)
    body = n.graph("body")
    slices = n.integer("num_scan_inputs")
    count = len(inputs) - slices
    state, sequences = list(inputs[:count]), list(inputs[count:])
    outputs = len(n.outputs) - count
    axes, back = n.given("scan_input_axes", [0] * slices), n.given("scan_input_directions", [0] * slices)
    sequences = [s.moved(s.axis(a), 0) for s, a in zip(sequences, axes, strict=True)]
    sequences = [s.reversed(0) if b else s for s, b in zip(sequences, back, strict=True)]
    made = _scanned(n, body, state, sequences)
    to, backwards = (
        n.given("scan_output_axes", [0] * outputs),
        n.given("scan_output_directions", [0] * outputs),
    )
    results = [r.reversed(0) if b else r for r, b in zip(made[count:], backwards, strict=True)]
    return [*made[:count], *(r.moved(0, a % r.rank) for r, a in zip(results, to, strict=True))]


def _batched_scan(n: Node, lengths: Tensor | None, *inputs: Tensor) -> list[Thing]:
    """Version 8: each input has a batch in front, each sample of which is scanned by itself, as far as its length says;
    what is beyond is zero."""
    body, slices = n.graph("body"), n.integer("num_scan_inputs")
    count = len(inputs) - slices
    back = n.given("directions", [0] * slices)
    most = inputs[count].shape[1]
    known = n.settled(lengths)
    rows: list[list[Tensor]] = []
    for sample in range(inputs[count].shape[0]):
        length = most if known is None else known[sample]
        if not 0 <= length <= most:
            raise UserError(f"a sequence of {length} elements, where {most} are given")
        parts = [x.at(0, sample) for x in inputs]
        cut = [s.part(0, 0, length) for s in parts[count:]]
        cut = [s.reversed(0) if b else s for s, b in zip(cut, back, strict=True)]
        made = _scanned(n, body, parts[:count], cut)
        whole = [r.pad([0] * r.rank, [most - length, *[0] * (r.rank - 1)]) for r in made[count:]]
        rows.append([*made[:count], *whole])
    if not rows:
        raise n.limit("a Scan of no samples")
    return [n.verbs.stacked(column) for column in zip(*rows, strict=True)]


def _scanned(n: Node, body: GraphProto, state: list[Tensor], sequences: list[Tensor]) -> list[Tensor]:
    """The last state and what the rounds give, along a first axis."""
    emitter, length, count = emitter_of(n), sequences[0].shape[0], len(state)
    types = [s.type for s in state] + [TensorType(s.shape[1:], s.element) for s in sequences]
    region, given = emitter.region(types, lambda arguments: tensors_of(n.run(body, list(arguments))))
    if given[:count] != [s.type for s in state]:
        raise UserError(f"the state of the scan changes its type from {types[:count]} to {given[:count]}")
    stacked = [TensorType((length, *t.shape), t.element) for t in given[count:] if isinstance(t, TensorType)]
    return list(emitter.scan(state, sequences, types=[*(s.type for s in state), *stacked], regions=[region]))
