# SPDX-License-Identifier: Apache-2.0
"""Which buffers of a launch cannot overlap: those get `noalias`.

Arguments, results, constants and the arena are distinct memory: the runtime copies an argument that overlaps one that
is overwritten. Buffers within the arena are compared by their offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from ...ir.core import Value
from ...ir.literals import bytes_of
from ...ops import tile
from ...support.lengths import (
    ARENA_PART,
    Length,
    at_least,
    expression_of,
    greatest,
    is_multiple,
    is_open,
    usual,
)
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
    """The extent of each buffer of an entry; a subview counts as the whole of its buffer."""
    found: dict[Value, Extent] = {}
    for value, place in outside.places.items():
        aligned = place.space == "arena" or outside.alignments.get(value) == 64
        found[value] = Extent(
            place.space, place.index, place.offset, place.offset + bytes_of(value.type), aligned
        )
    for op in outside.function.walk():
        if isinstance(op, tile.ViewOp) and op.arena in found:
            whole = found[op.arena]
            if is_open((op.offset,)):
                part = _part(whole, op.offset)
                if part is None:
                    continue
                whole, start = part
            else:
                start = whole.start + op.offset
            aligned = whole.aligned and is_multiple(start, 64)
            found[op.result] = replace(
                whole, start=start, stop=start + bytes_of(op.result.type), aligned=aligned
            )
        elif isinstance(op, tile.SubviewOp) and op.buffer in found:
            found[op.result] = replace(found[op.buffer], aligned=False)
    return found


def attributes(launches: Sequence[Sequence[Extent | None]]) -> list[str]:
    """The LLVM attributes that hold for each buffer of a kernel in every launch."""
    result: list[str] = []
    alone = set[int].intersection(*map(_alone, launches))
    for i in range(len(launches[0])):
        words = ["noalias"] if i in alone else []
        if all((place := launch[i]) is not None and place.aligned for launch in launches):
            words.append("align 64")
        result.append(" ".join(words))
    return result


def _alone(launch: Sequence[Extent | None]) -> set[int]:
    """The buffers of a launch that overlap no other buffer of it."""
    known = [
        (e.space, e.index, e.start, e.stop, i)
        for i, e in enumerate(launch)
        if e is not None and not is_open((e.start,))
    ]
    if len(known) < len(launch):
        return {0} if len(launch) == 1 else set()  # a buffer at an unknown place may overlap all others
    found: set[int] = set()
    for _, group in groupby(sorted(known, key=lambda e: (*e[:3], usual(e[3]))), key=lambda e: e[:2]):
        lying, behind = [*group], 0
        for (*_, start, stop, i), following in zip_longest(lying, lying[1:]):
            if at_least(start, behind) and (following is None or at_least(following[2], stop)):
                found.add(i)
            behind = greatest((behind, stop))
    return found


def _part(whole: Extent, offset: int) -> tuple[Extent, int] | None:
    """For an offset in a part of the arena that overlaps no other part: an extent of that part as a space by itself,
    and the offset from the start of the part. None for other offsets that depend on lengths."""
    names = [n for n in expression_of(offset).names() if n.startswith(ARENA_PART)]
    if len(names) != 1 or whole.space != "arena":
        return None
    return replace(whole, space=names[0]), offset - Length.named(names[0], int(offset), usual(offset))
