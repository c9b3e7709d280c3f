# SPDX-License-Identifier: Apache-2.0
"""Raggedness of variables: which results have that of which inputs, and whether offsets that are fed are of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ops.offsets import OFFSETS_HINT, wrong_offsets
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
    for level, each in enumerate(offsets):
        is_last = level == len(offsets) - 1
        count, of = (
            (rows, "rows") if is_last else (len(offsets[level + 1]) - 1, f"sequences of level {level + 1}")
        )
        if wrong := wrong_offsets(each, count, of):
            message = f"the offsets of level {level} of '{name}' {wrong}"
            raise UserError(Diagnostic(message, where, hint=OFFSETS_HINT))


def cut(rows: Array, offsets: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Rows and the offsets of their levels, outermost first, without the sequences and rows that are behind the last that the offsets
    say (`Context.size`)."""
    cuts: list[Array] = []
    for each in offsets:
        cuts.append(each[: cuts[-1][-1] + 1] if cuts else each)
    return rows[: cuts[-1][-1]] if cuts else rows, cuts


def _count(levels: int) -> str:
    return (
        "no ragged levels" if not levels else "1 ragged level" if levels == 1 else f"{levels} ragged levels"
    )
