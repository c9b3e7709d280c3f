# SPDX-License-Identifier: Apache-2.0
"""What graphs keep from call to call: their storage, by name, and what gives it its first values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .errors import UserError, fail
from .node import Op, closure
from .source import assigned_name
from .state import AssignableTensorOp
from .writes import AssignOp, InitTensorOp


def kept(roots: Iterable[Op]) -> list[AssignableTensorOp]:
    """The storages below some ops that keep something from call to call, in order of creation."""
    ops = closure(roots)
    written = {op.written for op in ops if isinstance(op, AssignOp)}
    found = [
        op
        for op in ops
        if isinstance(op, AssignableTensorOp)
        and (op.is_persistent or op.initial_value is not None or op in written)
    ]
    return sorted(found, key=lambda op: op.serial)


def initializers(ops: Iterable[Op]) -> list[InitTensorOp]:
    """The initializers of the storage among some ops, and of what these read, in the order in which they run."""
    found: dict[InitTensorOp, None] = {}
    waiting = [op.forwarded for op in ops]
    while waiting:
        op = waiting.pop()
        if isinstance(op, AssignableTensorOp):
            for init in op.initializers:
                if isinstance(init, InitTensorOp) and init not in found:
                    found[init] = None
                    waiting += closure([init])
    return sorted(found, key=lambda op: op.serial)


def named(storages: Iterable[AssignableTensorOp]) -> dict[str, AssignableTensorOp]:
    """The storages by name: the given name, else the variable that the program assigned them to, else their role.

    Names that were not given are numbered where they are not unique. UserError where a name was given twice.
    """
    made: dict[str, AssignableTensorOp] = {}
    storages = list(storages)
    for op in storages:
        if not op.given_name:
            continue
        if op.given_name in made:
            first = made[op.given_name]
            fail(
                UserError,
                f"two storages have the name {op.given_name}: those made at {first.location} and at {op.location}",
                'give them different names, or build them in scopes: with ng.name_scope("encoder"):',
            )
        made[op.given_name] = op
    taken: Counter[str] = Counter()
    for op in storages:
        if op.given_name:
            continue
        name = op.automatic_name or assigned_name(op.location) or op.role.value
        name = f"{op.scope}/{name}" if op.scope else name
        while (numbered := f"{name}_{taken[name]}" if taken[name] else name) in made:
            taken[name] += 1
        taken[name] += 1
        made[numbered] = op
    return made
