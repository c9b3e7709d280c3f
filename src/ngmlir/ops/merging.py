# SPDX-License-Identifier: Apache-2.0
"""Numbers of rows, each once: what gradients of tables have in common where rows are looked up more than once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..ir.types import TensorType, i1, i32
from .ng import NgVerbs

V = TypeVar("V")


def merged(
    verbs: NgVerbs[V], ids: V, type: TensorType, none: int, number: Callable[[float, TensorType], V]
) -> tuple[V, V]:
    """(each of some ids once, in order; i32: for each of them, where it stands there). `type` is that of the ids, one line of one or more.

    As many are given as before: those that are left over are `none`. `number` makes constants.
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
