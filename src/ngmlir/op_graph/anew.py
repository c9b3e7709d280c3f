# SPDX-License-Identifier: Apache-2.0
"""A value as it would be if it were built now: where storage that it was computed from is assigned to since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .building import BUILDING
from .node import WATCHING, Op, sources_first
from .regions import ControlOp, ResultOp
from .replay import Replay
from .state import HeldOp, SequentialOp
from .tensor import Tensor
from .user_ops import CompositeOp
from .writes import ReadOp

#: What has its value from where it stands in the program: snapshots, sequences, loops and branches as they ran.
_AS_THEY_RAN = (ReadOp, SequentialOp, ControlOp, ResultOp, HeldOp)


def built_now(value: Tensor) -> Mapping[Op, Op]:
    """What stands for a value, and for all below it, in a graph of which all reads are of what storage holds now.

    Empty where nothing that it reads was assigned to since it was built. The same ops for the same pending writes.
    """
    ops = sources_first([value], _below)
    newer = [write for op in ops for write in _newer(op)]
    if not newer:
        return {}
    made: dict[tuple[Op, ...], Mapping[Op, Op]] = value.__dict__.setdefault("_built_now", {})
    key = (*dict.fromkeys(newer),)
    if key not in made:
        replay = Replay({})
        for op in ops:
            if _newer(op) or any(below in replay.copies for below in _below(op)):
                replay.run([op])
        made[key] = replay.copies
    return made[key]


def _below(op: Op) -> tuple[Op, ...]:
    """What the value of an op is computed from where it stands."""
    if isinstance(op, _AS_THEY_RAN) or op.region is not BUILDING.region or op.storage is not None:
        return ()
    inside: tuple[Any, ...] = (op.expansion,) if isinstance(op, CompositeOp) else ()
    return tuple([each.forwarded for each in (*op.args, *inside)])


def _newer(op: Op) -> list[Op]:
    """The pending writes to what an op reads that it does not wait for: they were made after it."""
    if isinstance(op, _AS_THEY_RAN) or op.region is not BUILDING.region or op.storage is not None:
        return []
    found: list[Op] = []
    for arg in op.args:
        if arg.storage is None and arg.forward is None:
            continue
        storage = arg.storage_now
        if storage is not None and storage.waiting is not None:
            known = op.other_deps
            found += [w for w in WATCHING.pending[-1].writes(storage) if w not in known]
    return found
