# SPDX-License-Identifier: Apache-2.0
"""Tensors of sequences, from lists and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...op_graph.answers import answer_all
from ...support.diagnostics import UserError
from .lists import exactly
from .places import Place
from .scope import LoDTensor


def create_lod_tensor(
    data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Place | None = None
) -> LoDTensor:
    """A tensor with the lengths of its sequences, one list a level: of an array of rows, of another tensor, or of a list of lists of
    integers (one level, whose lengths these are; int64, shape [n, 1]).

    Raises UserError where lengths do not fit the rows.
    """
    if isinstance(data, LoDTensor):
        array: Any = np.array(data)
    elif isinstance(data, list):
        lengths = [len(row) for row in data]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if [list(level) for level in recursive_seq_lens] != [lengths]:
            raise UserError(
                f"the lists have the lengths {lengths}, and {list(recursive_seq_lens)} are given",
                hint=f"{[lengths]}: one level, a length for each list",
            )
        flat = [each for row in data for each in row]  # pyright: ignore[reportUnknownVariableType]
        array = exactly(flat, np.int64, "a tensor of lists").reshape(-1, 1)
    else:
        array = np.asarray(data)
    made = LoDTensor(array)
    made.set_recursive_sequence_lengths(recursive_seq_lens)
    if not made.has_valid_recursive_sequence_lengths():
        raise UserError(
            f"{array.shape[0]} rows are not cut into sequences of the lengths {list(recursive_seq_lens)}",
            hint="the lengths of the last level add up to the rows, those of a level to the number of lengths of the next one",
        )
    return made


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]],
    base_shape: Sequence[int],
    place: Place | None,
    low: int,
    high: int,
) -> LoDTensor:
    """A tensor of sequences whose rows, of `base_shape`, are random integers (int64) from `low` to `high`, both included."""
    rows = sum(recursive_seq_lens[-1])
    array = np.random.default_rng().integers(low, high, (rows, *base_shape), endpoint=True)
    return create_lod_tensor(array, recursive_seq_lens, place)


answer_all(globals(), ["create_lod_tensor", "create_random_int_lodtensor"], "fluid")
