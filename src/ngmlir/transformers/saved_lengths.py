# SPDX-License-Identifier: Apache-2.0
"""Which lengths of a computation stay open in a file: those for which one program can be written for every length."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.core import Op, module
from ..ir.structure import structure
from ..ir.verifier import check
from ..op_graph.computation import Computation
from ..op_graph.errors import UserError
from ..op_graph.lift import lift
from ..ops.lengths import READING, reading
from ..ops.open_lengths import open_lengths
from ..passes.graph.known_lengths import with_lengths
from ..support.diagnostics import Limit
from ..support.length_text import UsualLengths, identifier
from ..support.lengths import Length, NeedsLength, guarding, name_of
from .programs import Lengths

#: Lengths for which the written program is compared with one that is made for them: for none and one, arrays are empty or broadcast.
_COMPARED = (0, 1, 3)


def saved_lengths(of: Computation) -> Mapping[int, int]:
    """The lengths of axes with which a computation is written, by `id` of the axis: names for those that stay open."""
    lengths, usual = Lengths(of), UsualLengths()
    fed = [op for op in of.parameters if not op.is_persistent]
    # Of two axes with one name in text, the first is of the present length.
    names = {identifier(axis.name): axis.name for op in fed for axis in op.axes if axis.is_open}
    opened: dict[str, dict[int, int]] = {}
    for called, name in names.items():
        axes = [axis for axis in lengths.roots if axis.is_open and axis.name == name]
        if len({axis.length for axis in axes}) == 1 and not lengths.of_state(axes):
            opened[called] = {id(axis): Length.named(called, usual[called]) for axis in axes}
    all_open = {axis: length for each in opened.values() for axis, length in each.items()}
    if _is_for_all(of, all_open):
        return all_open
    # Others have any length meanwhile.
    unset = {axis: int(length) for axis, length in all_open.items()}
    found: dict[int, int] = {}
    for each in opened.values():
        if _is_for_all(of, {**unset, **found, **each}):
            found |= each
    return found


def _is_for_all(of: Computation, lengths: Mapping[int, int]) -> bool:
    """Whether the program with these lengths is right for all lengths that those with names may be."""
    try:
        with guarding() as guards:
            main = _lifted(of, lengths)
            return not guards and all(
                _is_right(of, main, lengths, length.name, number)
                for length in open_lengths(main)
                for number in _COMPARED
            )
    except (NeedsLength, UserError, Limit):
        return False


def _is_right(of: Computation, main: Op, lengths: Mapping[int, int], name: str, number: int) -> bool:
    """Whether the program, where a length is this number, is the one that is made for it."""
    with guarding():
        at = {axis: number if name_of(length) == name else length for axis, length in lengths.items()}
        named = {name_of(length): at[axis] for axis, length in lengths.items()}
        known = {place: named[each.name] for each in open_lengths(main) for place in each.places}
        try:
            made = with_lengths(main, known)
            check(module([made]))
            wanted = _lifted(of, at)
        except (UserError, Limit):
            return True  # none is made for this number
        return structure(made) == structure(wanted)


def _lifted(of: Computation, lengths: Mapping[int, int]) -> Op:
    with reading({**(READING.given or {}), **lengths}):
        return lift(of).module.ops[0]
