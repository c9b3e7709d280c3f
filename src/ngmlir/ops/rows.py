# SPDX-License-Identifier: Apache-2.0
"""Which rows of its operands each row of an op's result depends on, by the op's loops.

A value has rows if the length of one of its dimensions is the open number of samples, alone or as the outermost of several
flattened dimensions. Rows are independent if their dimension is a parallel loop: then all operands with this loop have rows along it,
and so have the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..ir.core import Op
from ..ir.loops import KINDS
from ..ir.types import shape_of
from ..support.diagnostics import Location
from .loops import loops_of


@dataclass(frozen=True)
class Rows:
    """Dimension `dimension` of a value has `inner` elements for each row, in the order of the rows."""

    dimension: int
    inner: int = 1

    def at(self, dimension: int) -> Rows:
        return Rows(dimension, self.inner)


class MixesRows(Exception):
    """An op computes one row from others, or not from rows at all."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason
        #: The location of that op, if it is known.
        self.location: Location | None = None


@dataclass(frozen=True)
class Reading:
    """How an op computes rows: the rows of its operands and results, and attributes that contain whole lengths."""

    operands: tuple[Rows | None, ...]
    results: tuple[Rows | None, ...]
    #: Attribute -> index of its entry that is the length of the dimension with rows.
    lengths: Mapping[str, int] = field(default_factory=dict[str, int])


def reading(op: Op, given: Sequence[Rows | None]) -> Reading:
    """How an op, of which at least one operand has rows, computes them. Raises MixesRows if rows are not independent."""
    number, rows = next((i, rows) for i, rows in enumerate(given) if rows is not None)
    if op.name == "ng.reshape":
        made = reshaped_rows(shape_of(op.operands[0].type), rows, shape_of(op.result.type))
        if made is None:
            raise MixesRows("does not keep rows together")
        return Reading((rows,), (made,))
    loops = loops_of(op)
    if loops is None:
        raise MixesRows("is not known to compute rows independently")
    loop = loops.operands[number][rows.dimension]
    if loops.kind(loop) != "parallel":
        raise MixesRows(KINDS[loops.line.kinds[loop[0]]])
    operands, results = (
        tuple(rows.at(own.index(loop)) if loop in own else None for own in values)
        for values in (loops.operands, loops.results)
    )
    if any(have is not None and wanted is None for have, wanted in zip(given, operands, strict=True)):
        raise MixesRows("combines rows with rows")
    return Reading(operands, results, loops.lengths(loop))


def reshaped_rows(source: Sequence[int], rows: Rows, target: Sequence[int]) -> Rows | None:
    """The rows of a value after a reshape; None if it does not keep rows together."""
    length = source[rows.dimension] // rows.inner
    before = prod(source[: rows.dimension])
    places = [
        d for d, size in enumerate(target) if length and size % length == 0 and prod(target[:d]) == before
    ]
    if not places:
        return None
    # With one row there may be several dimensions of one element: the one at the same index would have more rows.
    place = rows.dimension if rows.dimension in places else places[0]
    return Rows(place, target[place] // length)
