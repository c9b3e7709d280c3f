# SPDX-License-Identifier: Apache-2.0
"""Raggedness of variables: which results have that of which inputs, and whether offsets that are fed are of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..support.diagnostics import Diagnostic, UserError
from .descriptions import Variable

Array = np.ndarray[Any, Any]


def shared(
    rows: int | None, inputs: Mapping[str, Sequence[tuple[int | None, int]]], levels: int = 0
) -> tuple[str, int] | None:
    """The input, by slot and place, whose raggedness a result with so many rows has: the first ragged one with as many.

    Of each input its rows and its levels are given; None stands for the rows of what has no dimensions. With `levels` only inputs
    of as many levels count.
    """
    if rows is None:
        return None
    for slot, each in inputs.items():
        for at, (count, ragged) in enumerate(each):
            if ragged and count == rows and ragged == (levels or ragged):
                return slot, at
    return None


def check_offsets(variable: Variable, offsets: Sequence[Array], rows: int) -> None:
    """UserError where offsets are not those of a variable with so many rows: one vector for each of its levels, from 0 on, never
    falling, up to the number of sequences of the next level, or, of the last level, of rows."""
    name, where = variable.name, variable.location
    if len(offsets) != variable.ragged:
        message = f"'{name}' has {_count(variable.ragged)}, and is fed a tensor with {_count(len(offsets))}"
        hint = (
            "fluid.create_lod_tensor(rows, lengths, place) makes one with the lengths of its sequences, a list for each level"
            if variable.ragged
            else f"declare it with lod_level={len(offsets)}, or feed the rows alone"
        )
        raise UserError(Diagnostic(message, where, hint=hint))
    hint = "offsets are [0, length of the first, of the first two together, ...]; set_recursive_sequence_lengths takes lengths"
    for level, each in enumerate(offsets):
        what = f"the offsets of level {level} of '{name}'"
        if each.ndim != 1 or not len(each) or each[0] != 0:
            begin = each.flat[0] if each.size else "nothing"
            raise UserError(Diagnostic(f"{what} begin with {begin}, not with 0", where, hint=hint))
        falls = np.flatnonzero(each[1:] < each[:-1])
        if len(falls):
            at = int(falls[0])
            message = f"{what} fall from {each[at]} to {each[at + 1]} at place {at + 1}"
            raise UserError(Diagnostic(message, where, hint=hint))
        is_last = level == len(offsets) - 1
        wanted = rows if is_last else len(offsets[level + 1]) - 1
        if each[-1] != wanted:
            of = "rows" if is_last else f"sequences of level {level + 1}"
            message = f"{what} end with {each[-1]}, and there are {wanted} {of}"
            raise UserError(Diagnostic(message, where, hint=hint))


def _count(levels: int) -> str:
    return (
        "no ragged levels" if not levels else "1 ragged level" if levels == 1 else f"{levels} ragged levels"
    )
