# SPDX-License-Identifier: Apache-2.0
"""Which lengths of a computation may stay open in a file: those for which the program is the same for every length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir.core import Op
from ..ir.structure import structure
from ..op_graph.computation import Computation
from ..op_graph.errors import UserError
from ..op_graph.lift import lift
from ..ops.lengths import reading
from ..passes.graph.dead_code import without_dead
from ..passes.graph.sizing.resized import Refused, with_rows
from ..support.rows import Length
from .programs import Lengths

#: The first of the numbers that are written for lengths that are not set.
_WRITTEN = 8


@dataclass(frozen=True)
class OpenAxes:
    """The names of axes whose lengths stay open, and numbers for those that are not set, by `id` of the axis."""

    names: frozenset[str]
    lengths: Mapping[int, int]


def open_axes(of: Computation) -> OpenAxes:
    """The axes of a computation that may have any length in a file.

    These are the batch axis, and axes whose length is not set, if the program for one length, with its number of rows
    replaced, equals the program for another: then nothing else in it depends on the length.
    """
    fed = [op for op in of.parameters if not op.is_persistent]
    names = list(dict.fromkeys(axis.name for op in fed for axis in op.axes if axis.is_open))
    roots = [axis for axis in Lengths(of).roots if axis.is_open and axis.name in names]
    sample = {id(axis): _WRITTEN + names.index(axis.name) for axis in roots if axis.length is None}
    taken: set[int] = set()
    found: set[str] = set()
    for name in names:
        of_name = {id(axis): axis.length or sample.get(id(axis), 0) for axis in roots if axis.name == name}
        if len(set(of_name.values())) != 1 or 0 in of_name.values():
            continue
        longer = {**sample, **{axis: length + 1 for axis, length in of_name.items()}}
        try:
            main, places = _program(of, sample, name)
            other, _ = _program(of, longer, name)
            # An argument can have only one open dimension.
            if not places or taken & {i for i, _ in places}:
                continue
            again = with_rows(main, Length(name, places), next(iter(of_name.values())) + 1)
        except (UserError, Refused):
            continue
        again = again.rebuilt(attributes=other.attributes)
        if structure(without_dead(again)) == structure(without_dead(other)):
            found.add(name)
            taken |= {i for i, _ in places}
    kept = {id(axis): sample[id(axis)] for axis in roots if id(axis) in sample and axis.name in found}
    return OpenAxes(frozenset(found), kept)


def _program(
    of: Computation, lengths: Mapping[int, int], name: str
) -> tuple[Op, tuple[tuple[int, int], ...]]:
    """The function for these lengths, and the dimensions of its arguments that belong to the axis of this name."""
    with reading(lengths):
        lifted = lift(of)
    places = [
        (i, d)
        for i, op in enumerate(lifted.arguments)
        if op in of.parameters and not op.is_persistent
        for d, axis in enumerate(op.axes)
        if axis.name == name
    ]
    return lifted.module.ops[0], tuple(places)
