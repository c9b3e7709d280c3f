# SPDX-License-Identifier: Apache-2.0
"""The order of batch and time axes in memory, for programs that only name these axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...ir.core import Block, Module, Op, Region, Value
from ...ir.types import TensorType, Type
from ...ops.builder import Builder
from ...ops.fields import get_i64
from ...ops.roles import SAMPLES, STEPS, by_place, feature_number
from ...rewrite.contracts import contract
from ...support.target import Target
from .dead_code import renamed
from .invariants import reads
from .placed_ops import Order, ValueLayouts, in_order, place, stated

Place = Literal["target", "first", "last"]


@contract(needs=("named",), anchor="function")
def place_samples(
    module: Module, target: Target, *, samples: Place = "target", steps: Place = "target"
) -> Module:
    """Places the batch axis (`N`) and the time axis (`REC`) first or last, where the target is fastest.

    This changes values whose other axes are positional features (`_0`, `_1`, ...: those of `ng.simple`); values with other
    names keep their order. So do arguments and results: they are transposed at the boundary of the function, and the pass
    `layout` removes transposes that cancel. With `steps` first, the slices that a scan iterates over are contiguous.
    The options override the target.

    Before:
        func.func @main(%x: tensor<4x5x3xf32, #ng.axes<N, REC, _0>>) -> tensor<4x5x3xf32, #ng.axes<N, REC, _0>> {
          %0 = ng.exp %x : tensor<4x5x3xf32, #ng.axes<N, REC, _0>>
          return %0 : tensor<4x5x3xf32, #ng.axes<N, REC, _0>>
        }
    After:
        func.func @main(%x: tensor<4x5x3xf32, #ng.axes<N, REC, _0>>) -> tensor<4x5x3xf32, #ng.axes<N, REC, _0>> {
          %0 = ng.transpose %x perm [1, 0, 2] : (tensor<4x5x3xf32, #ng.axes<N, REC, _0>>) -> tensor<5x4x3xf32, #ng.axes<REC, N, _0>>
          %1 = ng.exp %0 : tensor<5x4x3xf32, #ng.axes<REC, N, _0>>
          %2 = ng.transpose %1 perm [1, 0, 2] : (tensor<5x4x3xf32, #ng.axes<REC, N, _0>>) -> tensor<4x5x3xf32, #ng.axes<N, REC, _0>>
          func.return %2 : tensor<4x5x3xf32, #ng.axes<N, REC, _0>>
        }
    """
    facts = target.architecture
    wanted = Wanted(
        facts.samples if samples == "target" else samples, facts.steps if steps == "target" else steps
    )
    return module.with_ops([_function(op, wanted) if op.name == "func.func" else op for op in module.ops])


class Wanted:
    """The wanted order of dimensions of each type."""

    def __init__(self, samples: str, steps: str):
        places = ((STEPS, steps), (SAMPLES, samples))
        first = [name for name, place in places if place == "first"]
        last = [name for name, place in reversed(places) if place == "last"]
        self.rank = {name: at for at, name in enumerate([*first, "", *last])}

    def __call__(self, type: Type) -> Order | None:
        """The wanted order of the dimensions of a type; None where it has that order, or has other axes."""
        names = type.axes if isinstance(type, TensorType) else None
        if names is None or not all(name in self.rank or by_place(name) for name in names):
            return None
        order = tuple(sorted(range(len(names)), key=lambda d: self.rank.get(names[d], self.rank[""])))
        return None if order == tuple(range(len(names))) else order


def _function(function: Op, wanted: Wanted) -> Op:
    values = [*_values(function)]
    names = {n for v in values if isinstance(v.type, TensorType) for n in v.type.axes or ()}
    if all(feature_number(name) is None for name in names):
        return function  # no positional features
    if all(wanted(v.type) is None for v in values):
        return function
    return function.with_blocks(lambda block: _block(block, wanted))


def _values(op: Op) -> Iterator[Value]:
    """All values that an op defines: results and arguments of blocks, also of ops in its regions."""
    for inner in op.walk():
        yield from inner.results
        for region in inner.regions:
            for block in region.blocks:
                yield from block.args


def _block(block: Block, wanted: Wanted) -> Block:
    out = block.emptied()
    held = ValueLayouts(wanted, Builder(out))
    for op in block.ops:
        _place(held, op)
    return out


def _place(held: ValueLayouts, op: Op) -> None:
    """Adds the op on values in the wanted orders or, where it cannot be, in their original ones."""
    held.builder.location = op.location
    values = (*op.operands, *(_values(op) if op.regions else op.results))
    if any(held.wanted(v.type) is not None for v in values):
        if _scan(held, op) if op.name == "ng.scan" else not op.regions and place(held, op):
            return
    inside = {v: held.stated(v) for v in captured(op)} if op.regions else {}
    operands = [held.stated(v) for v in op.operands]
    new = op if operands == [*op.operands] else op.rebuilt(operands)
    if any(v is not now for v, now in inside.items()):
        new = renamed(new, inside)
    held.builder.add_op(new)
    for old, made in zip(op.results, new.results, strict=True):
        if old is not made:
            held.record(old, made, stated(old))


def captured(op: Op) -> list[Value]:
    """The outer values that the regions of an op use."""
    return [*dict.fromkeys([*reads(op)][len(op.operands) :])]


def _scan(held: ValueLayouts, op: Op) -> bool:
    """Adds a scan whose values have the wanted orders, also in its body; False where the order of a sliced value would not be that of
    its slices after the scanned dimension, which must stay the first."""
    body, carried = op.regions[0].block, get_i64(op, "carried")
    end = body.ops[-1]
    for whole, part in (
        *zip(op.operands[carried:], body.args[carried:], strict=True),
        *zip(op.results[carried:], end.operands[carried:], strict=True),
    ):
        if held.order(whole) != (0, *(d + 1 for d in held.order(part))):
            return False
    operands = [held.in_wanted_order(v) for v in op.operands]
    for value in captured(op):
        held.in_wanted_order(value)  # once, before the loop
    new = Block([in_order(a.type, held.order(a)) for a in body.args], [a.name for a in body.args])
    inner = ValueLayouts(held.wanted, Builder(new), held)
    for old, arg in zip(body.args, new.args, strict=True):
        inner.record(old, arg, held.order(old))
    for each in body.ops[:-1]:
        _place(inner, each)
    inner.builder.location = end.location
    inner.builder.add_op(end.rebuilt([inner.in_wanted_order(v) for v in end.operands]))
    types = [in_order(r.type, held.order(r)) for r in op.results]
    made = op.rebuilt(operands, [Region(new)], types=types)
    held.builder.add_op(made)
    for old, result in zip(op.results, made.results, strict=True):
        held.record(old, result, held.order(old))
    return True
