# SPDX-License-Identifier: Apache-2.0
"""Unique row numbers: shared by the gradients of tables whose rows are looked up more than once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..ir.types import TensorType, i32
from .ng import NgVerbs

V = TypeVar("V")


def merged(
    verbs: NgVerbs[V], ids: V, type: TensorType, none: int, number: Callable[[float, TensorType], V]
) -> tuple[V, V]:
    """(the unique ids in ascending order; i32: for each id its index there). `type` is that of the ids, a 1-D tensor of one or more.

    The first result has as many elements as `ids`; those that are left over are `none`. `number` makes constants.
    """
    (count,) = type.shape
    line = TensorType((count,), i32)
    order = verbs.argsort(ids, type=line, axis=0)
    found = verbs.gather(ids, order, axis=0)
    # Each id next to the one before it; before the first there is any.
    before = verbs.concatenate([number(0, TensorType((1,), type.element)), found], axis=0)
    earlier = verbs.slice(before, starts=(0,), limits=(count,), steps=(1,))
    is_first = verbs.equal(verbs.iota(type=line, dimension=0), number(0, line))
    is_new = verbs.bitwise_or(is_first, verbs.not_equal(found, earlier))
    counted = verbs.cumulative_sum(verbs.cast(is_new, type=line), axis=0)
    group = verbs.subtract(counted, number(1, line))
    place = verbs.scatter(number(0, line), order, group, axis=0)
    return verbs.scatter(number(none, type), group, found, axis=0), place
