# SPDX-License-Identifier: Apache-2.0
"""What matrix products mean on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...ir.core import Op
from ...ir.literals import dtype_of
from ..fields import get_i64s
from .numbers import Array, widened


def _matrices(array: Array, batch: Sequence[int], first: Sequence[int], second: Sequence[int]) -> Array:
    """The array as a batch of matrices whose rows and columns are some of its dimensions."""
    shape = [prod(array.shape[d] for d in group) for group in (batch, first, second)]
    return array.transpose(*batch, *first, *second).reshape(shape)


def dot(op: Op, arrays: Sequence[Array]) -> Any:
    wanted = dtype_of(op.results[0].type)
    lhs, rhs = (widened(array.astype(wanted, copy=False)) for array in arrays)
    lhs_batch, rhs_batch = get_i64s(op, "lhs_batch"), get_i64s(op, "rhs_batch")
    lhs_contract, rhs_contract = get_i64s(op, "lhs_contract"), get_i64s(op, "rhs_contract")
    left = [d for d in range(lhs.ndim) if d not in lhs_batch + lhs_contract]
    right = [d for d in range(rhs.ndim) if d not in rhs_batch + rhs_contract]
    product = _matrices(lhs, lhs_batch, left, lhs_contract) @ _matrices(rhs, rhs_batch, rhs_contract, right)
    shape = [lhs.shape[d] for d in (*lhs_batch, *left)] + [rhs.shape[d] for d in right]
    return product.reshape(shape).astype(wanted)


PRODUCTS = {"ng.dot": dot}
