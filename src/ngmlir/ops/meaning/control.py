# SPDX-License-Identifier: Apache-2.0
"""What ops with regions and calls mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...ir.core import Block, Op, callee
from ...ir.literals import dtype_of
from ...ir.nest import NEST, NestAttr
from ...ir.types import DYNAMIC, shape_of
from ...support.diagnostics import UserError
from ..fields import get_bool, get_i64
from ..hosts import host_function, host_name
from . import nests


class Runner(Protocol):
    """What runs the blocks of a program."""

    #: Seed of the order in which a kernel's programs run; None is row by row.
    order: int | None
    #: Whether `tile.dot` rounds as its definition says (slow) or as NumPy's product does.
    exact: bool

    def block(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """What a block yields; it sees the values around it."""
        ...

    def isolated(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """What a block yields that sees nothing but its arguments."""
        ...

    def symbol(self, op: Op, name: str) -> Op:
        """The function or kernel of that name; `op` asks."""
        ...


def if_(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    return runner.block(op.regions[0 if operands[0] else 1].block, ())


def while_(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    condition, body = (r.block for r in op.regions)
    while runner.block(condition, operands)[0]:
        operands = runner.block(body, operands)
    return operands


def scan(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    carried = get_i64(op, "carried")
    state, sequences = list(operands[:carried]), operands[carried:]
    steps = range(len(sequences[0]))
    made: dict[int, list[Any]] = {}
    for i in reversed(steps) if get_bool(op, "reverse") else steps:
        yielded = runner.block(op.regions[0].block, [*state, *(np.asarray(s[i]) for s in sequences)])
        state, made[i] = yielded[:carried], yielded[carried:]
    if made:
        stacked = [np.stack([made[i][k] for i in steps]) for k in range(len(op.results) - carried)]
    else:
        types = [r.type for r in op.results[carried:]]
        stacked = [np.empty([0 if d == DYNAMIC else d for d in shape_of(t)], dtype_of(t)) for t in types]
    return [*state, *stacked]


def fusion(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    nest = op.attributes.get(NEST)
    if not isinstance(nest, NestAttr):
        return runner.isolated(op.regions[0].block, operands)
    found = runner.isolated(op.regions[0].block, nests.read(nest, operands, op.operands))
    return nests.written(nest, found, [r.type for r in op.results])


def call(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    function = runner.symbol(op, callee(op))
    if host_name(function):
        return host_function(function, op.location)(operands, [r.type for r in op.results], op.location)
    if not function.regions[0].blocks:
        raise UserError(f"@{function.symbol} has no body here", op.location)
    return runner.isolated(function.regions[0].block, operands)


def note(runner: Runner, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    return ()


CONTROL: dict[str, Callable[..., Sequence[Any]]] = {
    "ng.if": if_,
    "ng.while": while_,
    "ng.scan": scan,
    "ng.fusion": fusion,
    "ng.recompute": note,
    "func.call": call,
}
