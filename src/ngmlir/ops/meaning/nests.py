# SPDX-License-Identifier: Apache-2.0
"""What the maps of loop nests (ir/nest.py) mean: which elements a fusion reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.attributes import StringAttr
from ...ir.core import Value
from ...ir.nest import AffineExpr, Map, NestAttr
from ...ir.types import Type, shape_of
from ...support.borders import positions
from .shape import literal_array


def read(nest: NestAttr, arrays: Sequence[Any], operands: Sequence[Value]) -> list[Any]:
    """The operands of a fusion as they are inside."""
    types = nest.inside([v.type for v in operands])
    return [
        _read(map, nest.sizes, array, shape_of(type))
        for map, array, type in zip(nest.reads, arrays, types, strict=True)
    ]


def _read(map: Map, sizes: Sequence[int], array: Any, shape: Sequence[int]) -> Any:
    if map.places is None:
        if map.matrix:
            return array
        seen = np.reshape(array, [sizes[l] for l in map.loops])
        return np.transpose(seen, np.argsort(map.loops))
    over = map.over(sizes)
    loops = range(len(over)) if map.matrix else map.used
    found = np.reshape(array, map.shape)
    if map.gathered is not None:
        return found
    at = [_values(place, over, loops) for place in map.places]
    if isinstance(map.fill, StringAttr):
        border = map.fill.value
        at = [_across(border, values, size) for values, size in zip(at, map.shape, strict=True)]
        found = found[tuple(at)]
    elif map.fill is not None:
        there = np.ones((), bool)
        for values, size in zip(at, map.shape, strict=True):
            there = there & (values >= 0) & (values < size)
        fill = literal_array(map.fill)
        at = [np.clip(values, 0, max(size - 1, 0)) for values, size in zip(at, map.shape, strict=True)]
        found = np.where(there, found[tuple(at)], fill) if found.size else np.broadcast_to(fill, shape)
    else:
        found = found[tuple(at)]
    whole = np.broadcast_to(found, [over[l] for l in loops])
    return np.reshape(whole, shape)


def _across(border: str, values: Any, size: int) -> Any:
    """The places in an axis of positions that may be beyond its ends."""
    low, high = max(0, -values.min()), max(0, values.max() + 1 - size)
    return positions(border, size, low, high)[values + low]


def _values(place: AffineExpr, sizes: Sequence[int], loops: Sequence[int]) -> Any:
    """The values of an expression, with a dimension for each of some loops."""
    total = np.full([1] * len(loops), place.offset)
    for loop, stride in place.terms.items():
        shape = [sizes[l] if l == loop else 1 for l in loops]
        total = total + np.arange(sizes[loop]).reshape(shape) * stride
    return total


def written(nest: NestAttr, arrays: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """The results of a fusion, of what is computed inside."""
    found: list[Any] = []
    for map, array, type in zip(nest.writes, arrays, types, strict=True):
        if map.places is None:
            moved = np.transpose(array, [map.used.index(l) for l in map.loops])
        else:
            moved = np.empty(map.shape, np.asarray(array).dtype)
            moved[tuple(_values(place, nest.sizes, map.used) for place in map.places)] = array
        found.append(np.reshape(moved, shape_of(type)))
    return found
