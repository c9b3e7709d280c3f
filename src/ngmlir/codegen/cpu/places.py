# SPDX-License-Identifier: Apache-2.0
"""Which buffers of a launch cannot overlap: what `noalias` promises LLVM.

Arguments, results, constants and the arena are distinct memory: the runtime copies an argument that overlaps
one that is overwritten. Inside the arena the offsets tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.core import Value
from ...ir.literals import item_bytes
from ...ir.types import MemRefType
from ...ops import tile
from ..unit import Interface


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes `start` to `stop` of one argument, of one result, of the arena or of the constants."""

    space: str
    index: int
    start: int
    stop: int
    aligned: bool = False  # to 64 bytes


def extents(outside: Interface) -> dict[Value, Extent]:
    """Where each buffer of an entry lies; a window counts as all of its buffer."""
    found: dict[Value, Extent] = {}
    for value, place in outside.places.items():
        aligned = place.space == "arena" or outside.alignments.get(value) == 64
        found[value] = Extent(place.space, place.index, place.offset, place.offset + _bytes(value), aligned)
    for op in outside.function.walk():
        if isinstance(op, tile.ViewOp) and op.arena in found:
            whole = found[op.arena]
            start = whole.start + op.offset
            aligned = whole.aligned and op.offset % 64 == 0
            found[op.result] = replace(whole, start=start, stop=start + _bytes(op.result), aligned=aligned)
        elif isinstance(op, tile.SubviewOp) and op.buffer in found:
            found[op.result] = replace(found[op.buffer], aligned=False)
    return found


def attributes(launches: Sequence[Sequence[Extent | None]]) -> list[str]:
    """What is true, in every launch, of each buffer of a kernel."""
    result: list[str] = []
    for i in range(len(launches[0])):
        words: list[str] = []
        if all(_alone(launch, i) for launch in launches):
            words.append("noalias")
        if all((place := launch[i]) is not None and place.aligned for launch in launches):
            words.append("align 64")
        result.append(" ".join(words))
    return result


def _alone(launch: Sequence[Extent | None], i: int) -> bool:
    return all(_disjoint(launch[i], other) for j, other in enumerate(launch) if j != i)


def _disjoint(x: Extent | None, y: Extent | None) -> bool:
    if x is None or y is None:
        return False
    apart = (x.space, x.index) != (y.space, y.index)
    return apart or x.stop <= y.start or y.stop <= x.start


def _bytes(value: Value) -> int:
    type = value.type
    assert isinstance(type, MemRefType)
    return type.size * item_bytes(type.element)
