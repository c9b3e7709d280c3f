# SPDX-License-Identifier: Apache-2.0
"""What is fed, and rows of numbers, as later releases have them: every dimension is stated, also the batch, and numbers have no last dimension
of 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import layers
from .framework import Variable

__all__ = ["data", "embedding", "one_hot"]


def data(name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0) -> Variable:
    """A variable that is fed: `feed={name: array}`. The shape has all dimensions; one of any length is None or -1."""
    lengths = [-1 if length is None else length for length in shape]
    return layers.data(name, lengths, append_batch_size=False, dtype=dtype, lod_level=lod_level)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """The row of a table [rows, columns] for each number in `input`, int64: a new last dimension."""
    return layers.embedding(
        _with_one(input), list(size), is_sparse, is_distributed, padding_idx, param_attr, dtype
    )


def one_hot(input: Variable, depth: int) -> Variable:
    """Each class in `input`, int64, as `depth` numbers with one 1: a new last dimension."""
    return layers.one_hot(_with_one(input), depth)


def _with_one(numbers: Variable) -> Variable:
    """Numbers with a last dimension of 1, as the layers take them."""
    return layers.unsqueeze(numbers, [len(numbers.shape)])
