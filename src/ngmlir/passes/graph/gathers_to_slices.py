# SPDX-License-Identifier: Apache-2.0
"""Gathers with constant, evenly spaced indices as slices, which need no indices and are copied by vector instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...ir.core import Module, Op, Value
from ...ir.types import TensorType, shape_of
from ...ops.builder import Builder
from ...ops.fields import constant_elements, get_i64
from ...ops.rules import names_of, reshaped
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.lengths import at_least, below, is_open
from ...support.target import Target

#: Most runs of a gather that is replaced: each run becomes a slice.
_MOST = 4
#: Elements per index (dimensions after the axis) from which on a gather copies rows by vector instructions: with several runs
#: such a gather is kept.
_ROW = 16


@contract(needs=("named", "plain"), anchor="function")
def gathers_to_slices(module: Module, target: Target) -> Module:
    """Replaces gathers whose constant indices ascend or descend in equal steps by slices. A gather of few elements per index whose
    indices are a few such runs, one of them at least half of all, becomes a concatenation of slices: reflected and repeated
    borders, for example.

    Before:
        func.func @main(%x: tensor<2x4xf32>) -> tensor<2x6xf32> {
          %0 = ng.constant dense<[1, 0, 1, 2, 3, 2]> : tensor<6xi64>
          %1 = ng.gather %x[%0] axis 1 : (tensor<2x4xf32>, tensor<6xi64>) -> tensor<2x6xf32>
          return %1 : tensor<2x6xf32>
        }
    After:
        func.func @main(%x: tensor<2x4xf32>) -> tensor<2x6xf32> {
          %0 = ng.constant dense<[1, 0, 1, 2, 3, 2]> : tensor<6xi64>
          %1 = ng.slice %x from [0, 1] to [2, -1] step [1, -1] : (tensor<2x4xf32>) -> tensor<2x2xf32>
          %2 = ng.slice %x from [0, 1] to [2, 4] step [1, 1] : (tensor<2x4xf32>) -> tensor<2x3xf32>
          %3 = ng.slice %x from [0, 2] to [2, 3] step [1, 1] : (tensor<2x4xf32>) -> tensor<2x1xf32>
          %4 = ng.concatenate %1, %2, %3 axis 1 : (tensor<2x2xf32>, tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x6xf32>
          func.return %4 : tensor<2x6xf32>
        }
    """
    return sweep(module, _rule)


@dataclass(frozen=True)
class _Run:
    """Indices `start`, `start + step`, ... of which there are `count`; `step` 0 repeats one index."""

    start: int
    step: int
    count: int


def _rule(op: Op, b: Builder) -> Sequence[Value] | None:
    if op.name not in ("ng.gather", "ng.lookup"):
        return None
    table, indices = op.operands
    literal = constant_elements(indices)
    shape, axis = shape_of(table.type), get_i64(op, "axis")
    static = isinstance(table.type, TensorType) and table.type.static
    if literal is None or literal.opaque or not static or not literal.type.size or not shape[axis]:
        return None
    found = _runs(literal.array().reshape(-1).astype(np.int64), shape[axis])
    if found is None:
        return None
    mostly = 2 * max(run.count for run in found) >= literal.type.size
    if len(found) > 1 and (prod(shape[axis + 1 :]) >= _ROW or not mostly):
        return None
    parts = [_part(table, axis, run, b) for run in found]
    made = parts[0] if len(parts) == 1 else b.concatenate(parts, axis=axis)
    wanted = op.result.type
    return [made if made.type is wanted else b.reshape(made, type=wanted)]  # of axes with names too


def _runs(indices: np.ndarray[Any, Any], size: int) -> list[_Run] | None:
    """The indices along an axis of length `size` as runs; None where there are more than `_MOST`, or `size` is open and there
    are several indices."""
    if is_open((size,)):
        return _one(int(indices[0]), size) if len(indices) == 1 else None
    places = np.clip(np.where(indices < 0, indices + size, indices), 0, size - 1)
    found: list[_Run] = []
    at = 0
    while at < len(places):
        if len(found) == _MOST:
            return None
        steps = np.diff(places[at:])
        other = np.flatnonzero(steps != steps[:1])
        count = 1 + (int(other[0]) if len(other) else len(steps))
        found.append(_Run(int(places[at]), int(steps[0]) if count > 1 else 1, count))
        at += count
    return found


def _one(index: int, size: int) -> list[_Run] | None:
    """One index along an axis of open length; None where it may be out of range."""
    place = index + size if index < 0 else index
    return [_Run(place, 1, 1)] if at_least(place, 0) and below(place, size) else None


def _part(table: Value, axis: int, run: _Run, b: Builder) -> Value:
    shape = list(shape_of(table.type))
    count = run.count if run.step else 1
    step = run.step or 1
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], steps[axis] = run.start, step
    limits[axis] = run.start + (count - 1) * step + (1 if step > 0 else -1)
    part = b.slice(table, starts=starts, limits=limits, steps=steps)
    if run.step:
        return part
    # One index, repeated.
    names, rest = names_of(table.type), [d for d in range(len(shape)) if d != axis]
    row = b.reshape(
        part, type=reshaped(table.type, [shape[d] for d in rest], names and [names[d] for d in rest])
    )
    shape[axis] = run.count
    return b.broadcast(row, type=reshaped(table.type, shape, names), dimensions=rest)
