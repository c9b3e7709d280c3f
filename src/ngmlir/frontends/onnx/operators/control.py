# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan: decided while the model is read where that can be, else branches and loops of the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto

from ....ir.types import TensorType, i64
from ....support.diagnostics import Limit, UserError
from ..elements import element_of
from ..emitter import Emitter, Undecided
from ..nodes import Made, Node, operator
from ..tensor import Tensor, Thing

#: Rounds of a loop that are built one after the other.
_UNROLLED = 1 << 12


def _emitter(n: Node) -> Emitter:
    assert isinstance(n.verbs, Emitter)
    return n.verbs


def _tensors(things: Sequence[Thing]) -> list[Tensor]:
    if not all(isinstance(t, Tensor) for t in things):
        raise Undecided([])
    return [t for t in things if isinstance(t, Tensor)]


@operator("If")
def if_(n: Node, condition: Tensor) -> Made:
    branches = [n.graph("then_branch"), n.graph("else_branch")]
    condition = condition.reshape([])
    if condition.array is not None:
        return n.run(branches[0 if condition.array else 1], [])
    emitter = _emitter(n)
    try:
        made = [emitter.region((), lambda _, g=graph: _tensors(n.run(g, []))) for graph in branches]
    except Undecided as error:
        if error.arguments:
            raise
        made = []
    if not made or made[0][1] != made[1][1]:
        # The branches give tensors of several shapes: the condition decides them.
        return n.run(branches[0 if n.settle(condition) else 1], [])
    return list(emitter.if_(condition, types=made[0][1], regions=[region for region, _ in made]))


@operator("Loop")
def loop(n: Node, count: Tensor | None, condition: Tensor | None = None, *carried: Thing) -> list[Thing]:
    body = n.graph("body")
    most = int(n.settle(count).reshape(())) if count is not None else None
    if most is not None and all(isinstance(c, Tensor) for c in carried) and most > 4:
        made = _as_scan(n, body, most, condition, _tensors(carried))
        if made is not None:
            return made
    if condition is not None and condition.array is None and count is None:
        made = _as_while(n, body, condition, carried)
        if made is not None:
            return made
    return _unrolled(n, body, most, condition, carried)


def _as_scan(
    n: Node, body: GraphProto, most: int, condition: Tensor | None, carried: Sequence[Tensor]
) -> list[Thing] | None:
    """A loop whose rounds are counted, as `ng.scan`; None where it is none."""
    emitter = _emitter(n)
    if condition is not None and (condition.array is None or not bool(condition.array)):
        return None
    goes_on: list[bool] = []

    def step(arguments: Sequence[Tensor]) -> list[Tensor]:
        *state, i = arguments
        made = _tensors(n.run(body, [i, emitter.known(np.array(True)), *state]))
        goes_on.append(made[0].array is not None and bool(made[0].array))
        return made[1:]

    rounds = emitter.arange(most)
    try:
        region, types = emitter.region([*(c.type for c in carried), TensorType((), i64)], step)
    except (Undecided, UserError, Limit):
        return None
    state = [c.type for c in carried]
    if goes_on != [True] or types[: len(state)] != state:
        return None
    stacked = [
        TensorType((most, *t.shape), t.element) for t in types[len(state) :] if isinstance(t, TensorType)
    ]
    return list(emitter.scan(carried, [rounds], types=[*state, *stacked], regions=[region]))


def _as_while(n: Node, body: GraphProto, condition: Tensor, carried: Sequence[Thing]) -> list[Thing] | None:
    """A loop that only its condition ends, as `ng.while`; None where it is none."""
    emitter = _emitter(n)
    try:
        state = [emitter.numbers(0, i64), condition.reshape([]), *_tensors(carried)]
        types = [s.type for s in state]

        def step(arguments: Sequence[Tensor]) -> list[Tensor]:
            i, going, *held = arguments
            made = _tensors(n.run(body, [i, going, *held]))
            return [i + 1, made[0].reshape([]), *made[1:]]

        asked, _ = emitter.region(types, lambda arguments: [arguments[1]])
        region, given = emitter.region(types, step)
    except (Undecided, UserError, Limit):
        return None
    if given != types:
        return None
    made = emitter.while_(state, types=types, regions=[asked, region])
    return [*made[2:]]


def _unrolled(
    n: Node, body: GraphProto, most: int | None, condition: Tensor | None, carried: Sequence[Thing]
) -> list[Thing]:
    """One round after the other; whether there is another has to be known."""
    verbs, state, rounds = n.verbs, list(carried), 0
    going = condition.reshape([]) if condition is not None else verbs.known(np.array(True))
    given: list[list[Tensor]] = []
    while (most is None or rounds < most) and bool(n.settle(going)):
        if rounds >= _UNROLLED:
            raise n.limit(
                f"a loop of more than {_UNROLLED} rounds that changes the shapes of what it carries"
            )
        made = n.run(body, [verbs.known(np.array(rounds, np.int64)), going, *state])
        ends = made[0]
        assert isinstance(ends, Tensor)
        going = ends.reshape([])
        state, each = made[1 : 1 + len(state)], made[1 + len(state) :]
        given.append(_tensors(each))
        rounds += 1
    outputs = len(n.outputs) - len(state)
    if not given:
        return [*state, *(_empty(n, body, 1 + len(state) + i) for i in range(outputs))]
    return [*state, *(verbs.stacked(column) for column in zip(*given, strict=True))]


def _empty(n: Node, body: GraphProto, output: int) -> Tensor:
    """What no round has given: its shape is that which the body states."""

    type = body.output[output].type.tensor_type
    shape = [d.dim_value for d in type.shape.dim]
    return n.verbs.numbers(0, element_of(type.elem_type, "the output of the loop"), [0, *shape])


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
    emitter, length, count = _emitter(n), sequences[0].shape[0], len(state)
    types = [s.type for s in state] + [TensorType(s.shape[1:], s.element) for s in sequences]
    region, given = emitter.region(types, lambda arguments: _tensors(n.run(body, list(arguments))))
    if given[:count] != [s.type for s in state]:
        raise UserError(f"the state of the scan changes its type from {types[:count]} to {given[:count]}")
    stacked = [TensorType((length, *t.shape), t.element) for t in given[count:] if isinstance(t, TensorType)]
    return list(emitter.scan(state, sequences, types=[*(s.type for s in state), *stacked], regions=[region]))
