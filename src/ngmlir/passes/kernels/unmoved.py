# SPDX-License-Identifier: Apache-2.0
"""A fusion without the ops that only move data: what they say becomes accesses of its inputs and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...ir.core import Block, Op, Region, Value
from ..access import MOVES, Access, access_of
from ..implicit import Implicit, depths, implicit_side
from ..sides import Side, side_of


@dataclass(frozen=True)
class Unmoved:
    """The fusion; which arguments are read from others, by the loops or as sides of a product; and which values are
    written moved: to a buffer in which each lies as `results` says its move reads it."""

    fusion: Op
    accesses: Mapping[Value, Access]
    sides: Mapping[Value, Side | Implicit]
    results: Mapping[Value, Access]


def unmoved(fusion: Op, whole: bool) -> Unmoved:
    """A fusion whose arguments are also what it moves of them (`whole` as for `access_of`)."""
    body = fusion.block
    made = {result: op for op in body.ops for result in op.results}

    def through(value: Value) -> Op | None:
        op = made.get(value)
        return op if op is not None and (op.name in MOVES or op.name == "ng.reshape") else None

    end = body.ops[-1]
    found = {op.results[0]: access_of(op, through, whole) for op in body.ops if op.name in MOVES}
    read = {v: access for v, access in found.items() if access is not None and access.source not in made}
    multiplied = {
        v: side_of(v, through) or implicit_side(v, depth, through)
        for op in body.ops
        if op.name == "ng.dot"
        for v, depth in zip(op.operands, depths(op), strict=True)
    }
    sides = {v: side for v, side in multiplied.items() if side is not None and side.source not in made}
    written = {v: access for v in end.operands if (access := _written(v, made, through, whole)) is not None}
    # A value that is given back twice, moved and as it is, has no one place.
    sources = [written[v].source if v in written else v for v in end.operands]
    if len(set(sources)) < len(sources):
        written = {}
    if not (read or sides or written):
        return Unmoved(fusion, {}, {}, {})
    needed: dict[Op, None] = {}
    stack = [end]
    while stack:
        op = stack.pop()
        if op not in needed:
            needed[op] = None
            there: Mapping[Value, object] = sides if op.name == "ng.dot" else read
            sources = [written[v].source if op is end and v in written else v for v in op.operands]
            stack += [made[v] for v in sources if v in made and v not in there]
    moved = [v for v in read if any(v in op.operands for op in needed if op.name != "ng.dot")]
    old = [*body.args, *moved, *sides]
    block = Block([v.type for v in old], [v.name for v in old])
    mapping = dict(zip([*body.args, *moved], block.args, strict=False))
    own = dict(zip(sides, block.args[len(mapping) :], strict=True))
    for op in body.ops:
        if op in needed:
            known = {**mapping, **own} if op.name == "ng.dot" else mapping
            sources = [written[v].source if op is end and v in written else v for v in op.operands]
            new = op.rebuilt([known[v] for v in sources])
            mapping.update(zip(op.results, new.results, strict=True))
            block.ops.append(new)
    return Unmoved(
        fusion.rebuilt(regions=[Region(block)]),
        {mapping[v]: replace(read[v], source=mapping[read[v].source]) for v in moved},
        {own[v]: side.of(mapping[side.source]) for v, side in sides.items()},
        {mapping[access.source]: access for access in written.values()},
    )


def _written(
    value: Value, made: Mapping[Value, Op], through: Callable[[Value], Op | None], whole: bool
) -> Access | None:
    """How an output that only permutes what the fusion computes lies beside that; None for any other."""
    op = made.get(value)
    access = access_of(op, lambda _: None, whole) if op is not None and op.name in MOVES else None
    if access is None or not access.permutes:
        return None
    source = access.source
    while (inner := through(source)) is not None and inner.name == "ng.reshape":
        (source,) = inner.operands
    return replace(access, source=source) if source in made and through(source) is None else None
