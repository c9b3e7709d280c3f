# SPDX-License-Identifier: Apache-2.0
"""Loop: `ng.scan` if its trip count is known or follows from known numbers, `ng.while` if it ends on another condition, and unrolled
if shapes change from iteration to iteration.

The body is built once as a region; it becomes a loop of the program if the loop-carried values keep their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import GraphProto

from ....ir.core import Region
from ....ir.literals import item_bytes
from ....ir.types import TensorType, Type, i64
from ....support.diagnostics import Limit, UserError
from ..elements import element_of
from ..emitter import Undecided, Unended
from ..nodes import OWN, Made, Node, operator
from ..survey import graphs_of
from ..tensor import Tensor, Thing
from ..trip_counts import trip_count
from .control import emitter_of, tensors_of

#: Counted loops are unrolled up to so many iterations and ops in all, if no loop is in them.
_FEW_ITERATIONS, _FEW_OPS = 4, 1000
#: Iterations of a loop that changes shapes.
_UNROLLED = 1 << 12
#: Bytes and iterations of a chunk of a loop whose trip count is known only at run time.
_CHUNK, _LEAST_ROWS, _MOST_ROWS = 1 << 16, 16, 1024
#: The greatest count: no bound.
_ENDLESS = (1 << 63) - 1


@dataclass(frozen=True)
class _Body:
    """A body as a region: from the loop-carried values and the iteration number to the next carried values, the scan outputs of
    the iteration, and the condition. The condition is left out if it is a constant, `goes_on`."""

    region: Region
    goes_on: bool | None
    each: list[TensorType]


@operator("Loop")
def loop(n: Node, count: Tensor | None, condition: Tensor | None = None, *carried: Thing) -> Made:
    body = n.graph("body")
    first = condition.reshape([]) if condition is not None else n.verbs.known(np.array(True))
    most = count.reshape([]) if count is not None else n.verbs.known(np.array(_ENDLESS))
    if (first.array is not None and not first.array) or (most.array is not None and most.array <= 0):
        return [*carried, *_nothing(n, body, carried)]
    found = _built(n, body, carried)
    made = None
    if found is not None and not _is_short(found, body, most, first):
        made = _as_loop(n, found, most, first, tensors_of(carried))
    return _unrolled(n, body, most, first, carried) if made is None else made


def _is_short(found: _Body, body: GraphProto, most: Tensor, first: Tensor) -> bool:
    """Whether a counted loop is so short that it is unrolled."""
    if found.goes_on is not True or first.array is None or most.array is None or most.array > _FEW_ITERATIONS:
        return False
    ops = sum(1 for op in found.region.block.ops for _ in op.walk())
    return int(most.array) * ops <= _FEW_OPS and not any(_loops(body))


def _as_loop(n: Node, body: _Body, most: Tensor, first: Tensor, carried: Sequence[Tensor]) -> Made | None:
    """The loop as an op of the program; None if that needs a trip count that is not known."""
    if body.goes_on is False:
        return None  # one iteration at most
    if body.goes_on is None:
        count = trip_count(emitter_of(n), body.region.block, carried, first, most)
        if count is not None:
            emitter_of(n).finished(body.region, [], lambda _, yielded: yielded[:-1])
            return _counted(n, body, count, carried)
    known = bool(body.goes_on) and first.array is not None
    if known and most.array is not None and most.array == _ENDLESS:
        raise UserError("the loop has no count, and its condition is always true: it never ends")
    if known and (most.array is not None or (body.each and not n.outermost)):
        return _counted(n, body, int(n.settle(most, "the trip count of a loop")), carried)
    if not body.each:
        return _while(n, body, most, first, carried)[0]
    if n.outermost:
        raise Unended()
    return None


def _counted(n: Node, body: _Body, most: int, carried: Sequence[Tensor]) -> list[Tensor]:
    emitter, length = emitter_of(n), max(most, 0)
    stacked = [TensorType((length, *t.shape), t.element) for t in body.each]
    types = [*(c.type for c in carried), *stacked]
    numbers = emitter.iota(type=TensorType((length,), i64), dimension=0)
    return list(emitter.scan(carried, [numbers], types=types, regions=[body.region]))


def _while(
    n: Node, body: _Body, most: Tensor, first: Tensor, carried: Sequence[Tensor], start: Tensor | None = None
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The last carried values; the next iteration number and the condition; and buffers with the scan outputs of one chunk of
    iterations, from iteration `start` on."""
    emitter, count = emitter_of(n), len(carried)
    begin = emitter.numbers(0, i64) if start is None else start
    rows = _rows(body.each)
    room = [emitter.numbers(0, t.element, [rows, *t.shape]) for t in body.each]
    held = [*carried, begin, first, *room]
    bounded = most.array is None or most.array < _ENDLESS

    def asked(arguments: Sequence[Tensor]) -> list[Tensor]:
        i, going = arguments[count : count + 2]
        going = going & (i < most) if bounded else going
        return [going & (i < begin + rows) if room else going]

    def end(arguments: Sequence[Tensor], yielded: Sequence[Tensor]) -> list[Tensor]:
        i, _, *kept = arguments[count:]
        given = yielded[count : count + len(room)]
        goes_on = emitter.known(np.array(True)) if body.goes_on else yielded[-1]
        place = (i - begin).reshape([1])
        filled = [
            emitter.scatter(old, place, new.with_axes([0]), axis=0)
            for old, new in zip(kept, given, strict=True)
        ]
        return [*yielded[:count], i + 1, goes_on, *filled]

    types = [h.type for h in held]
    condition, _ = emitter.region(types, asked)
    emitter.finished(body.region, types[count + 1 :], end)
    made = list(emitter.while_(held, types=types, regions=[condition, body.region]))
    return made[:count], made[count : count + 2], made[count + 2 :]


def _rows(each: Sequence[TensorType]) -> int:
    """Iterations of one chunk: its buffers fit into a cache."""
    row = sum(prod(t.shape) * item_bytes(t.element) for t in each)
    return max(_LEAST_ROWS, min(_MOST_ROWS, _CHUNK // max(row, 1)))


@operator("Rounds", domain=OWN)
def rounds(n: Node, start: Tensor, most: Tensor, going: Tensor, *carried: Tensor) -> list[Tensor]:
    """A chunk of a Loop, from iteration `start` on: the next iteration number, the condition, the carried values, and buffers of
    scan outputs, of which the first rows are filled."""
    found = _built(n, n.graph("body"), carried)
    if found is None:
        raise UserError("the shapes of loop-carried values change from iteration to iteration")
    state, way, each = _while(n, found, most.reshape([]), going.reshape([]), carried, start.reshape([]))
    return [*way, *state, *each]


def _built(n: Node, body: GraphProto, carried: Sequence[Thing]) -> _Body | None:
    """The body as a region; None where it is none: where shapes change, or depend on what is carried."""
    emitter = emitter_of(n)
    goes_on: list[bool | None] = []

    def step(arguments: Sequence[Tensor]) -> list[Tensor]:
        *state, i = arguments
        made = tensors_of(n.run(body, [i, emitter.known(np.array(True)), *state]))
        ends = made[0].array
        goes_on.append(None if ends is None else bool(ends.reshape(())))
        return made[1:] if goes_on[-1] is not None else [*made[1:], made[0].reshape([])]

    try:
        state = [c.type for c in tensors_of(carried)]
        region, types = emitter.region([*state, TensorType((), i64)], step)
    except (Undecided, UserError, Limit):
        return None
    given: list[Type] = types[: len(state)]
    end = len(types) if goes_on[-1] is not None else -1
    each = [t for t in types[len(state) : end] if isinstance(t, TensorType)]
    return _Body(region, goes_on[-1], each) if given == state else None


def _unrolled(n: Node, body: GraphProto, most: Tensor, first: Tensor, carried: Sequence[Thing]) -> Made:
    """Unrolled: after each iteration the condition has to be known."""
    verbs, state, iterations, going = n.verbs, list(carried), 0, first
    limit = int(n.settle(most, "the trip count of a loop"))
    given: list[list[Tensor]] = []
    while iterations < limit and bool(n.settle(going, "the trip count of a loop")):
        if iterations >= _UNROLLED:
            raise n.limit(
                f"a loop of more than {_UNROLLED} iterations that changes the shapes of what it carries"
            )
        made = n.run(body, [verbs.known(np.array(iterations, np.int64)), verbs.known(np.array(True)), *state])
        going = tensors_of(made[:1])[0].reshape([])
        state, each = made[1 : 1 + len(state)], made[1 + len(state) :]
        given.append(tensors_of(each))
        iterations += 1
    if not given:
        return [*state, *_nothing(n, body, carried)]
    return [*state, *(verbs.stacked(column) for column in zip(*given, strict=True))]


def _nothing(n: Node, body: GraphProto, carried: Sequence[Thing]) -> list[Tensor]:
    """Scan outputs of no iteration: their shape is that which the body has, or states."""
    outputs = len(n.outputs) - len(carried)
    if outputs <= 0:
        return []
    found = _built(n, body, carried)
    if found is not None:
        return [n.verbs.numbers(0, t.element, [0, *t.shape]) for t in found.each]
    made: list[Tensor] = []
    for output in body.output[1 + len(carried) :]:
        type = output.type.tensor_type
        shape = [max(d.dim_value, 0) for d in type.shape.dim]
        made.append(n.verbs.numbers(0, element_of(type.elem_type, "the output of the loop"), [0, *shape]))
    return made


def _loops(body: GraphProto) -> Iterator[bool]:
    """One for each node that has a loop in it."""
    for node in body.node:
        for graph in graphs_of(node):
            if node.op_type in ("Loop", "Scan") or any(_loops(graph)):
                yield True
