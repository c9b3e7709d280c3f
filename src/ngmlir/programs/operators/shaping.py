# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and change none."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ..registry import operator


@operator
def reshape(x: Tensor, shape_of: Tensor | None, *, shape: Sequence[int]) -> Tensor:
    if shape_of is not None:
        raise UserError(
            "a shape that is computed is not known when the program is compiled",
            hint="give the attribute shape",
        )
    given = x.type.shape
    if any(n == 0 and d >= len(given) for d, n in enumerate(shape)):
        raise UserError(f"0 stands for a length of X, and X has the shape {list(given)}")
    lengths = [given[d] if n == 0 else n for d, n in enumerate(shape)]
    if lengths.count(-1) > 1:
        raise UserError(f"the shape {list(shape)} leaves more than one length open")
    if -1 not in lengths and prod(lengths) != prod(given):
        raise UserError(
            f"{prod(given)} elements, of shape {list(given)}, do not have the shape {list(shape)}"
        )
    return np.reshape(x, lengths)


@operator
def transpose(x: Tensor, *, axis: Sequence[int]) -> Tensor:
    return np.transpose(x, axis)


@operator
def concat(x: Sequence[Tensor], *, axis: int) -> Tensor:
    return np.concatenate(x, axis)


@operator
def lookup_table(
    w: Tensor, ids: Tensor, *, is_sparse: bool, is_distributed: bool, padding_idx: int
) -> Tensor:
    if not ids.type.shape or ids.type.shape[-1] != 1:
        raise UserError(f"Ids has a last dimension of 1, not the shape {list(ids.type.shape)}")
    ids = np.reshape(ids, ids.type.shape[:-1])
    rows = np.take(w, ids, axis=0)
    if padding_idx == -1:
        return rows
    padding = padding_idx + w.type.shape[0] if padding_idx < 0 else padding_idx
    return np.where(np.expand_dims(np.equal(ids, padding), -1), np.zeros_like(rows), rows)
