# SPDX-License-Identifier: Apache-2.0
"""Unique row numbers: shared by the gradients of tables whose rows are looked up more than once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..ir.types import TensorType, i1, i32
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
    later = verbs.slice(found, starts=(1,), limits=(count,), steps=(1,))
    earlier = verbs.slice(found, starts=(0,), limits=(count - 1,), steps=(1,))
    first = number(True, TensorType((1,), i1))
    is_new = verbs.concatenate([first, verbs.not_equal(later, earlier)], axis=0)
    counted = verbs.cumulative_sum(verbs.cast(is_new, type=line), axis=0)
    group = verbs.subtract(counted, number(1, line))
    place = verbs.scatter(number(0, line), order, group, axis=0)
    return verbs.scatter(number(none, type), group, found, axis=0), place
