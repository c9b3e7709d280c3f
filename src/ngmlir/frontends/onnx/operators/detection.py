# SPDX-License-Identifier: Apache-2.0
"""Choices of boxes: how many are left depends on elements, which therefore decide a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ....ir.core import Block, Module, module
from ....ir.types import TensorType, f32, i1, i64
from ....ops import func
from ....ops.builder import function
from ....ops.interpreter import run
from ..emitter import FOLDED_SHAPES, Emitter
from ..nodes import Node, operator
from ..tensor import Array, Tensor

if TYPE_CHECKING:
    from ....runtime.open_cpu import OpenCpu


@operator("NonMaxSuppression")
def non_max_suppression(
    n: Node,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:
    """[image, class, box] of the boxes that are left, in the order in which they were chosen."""
    limit = int(n.settle(most).reshape(-1)[0]) if most is not None else 0
    share = float(n.settle(overlap).reshape(-1)[0]) if overlap is not None else 0.0
    lowest = float(n.settle(least).reshape(-1)[0]) if least is not None else None
    places, values = n.settle(boxes), n.settle(scores)
    above = np.ones(values.shape, bool) if lowest is None else values > lowest
    image, kind, box = found = above.nonzero()
    group = image * values.shape[1] + kind
    ranked = np.lexsort((-values[found], group))
    corners = _corners(places[image, box][ranked], n.integer("center_point_box") != 0)
    given = corners, group[ranked], np.array(share, np.float32), np.array(limit)
    if limit <= 0 or not len(ranked):
        kept = ranked[:0]
    elif n.verbs.compiles and len(ranked) > 1:
        kept = ranked[_compiled()(*given)[0]]
    else:
        kept = ranked[run(_program({"N": len(ranked)}), *given)[0]]
    return n.verbs.known(np.array(found).take(kept, 1).T)


def _corners(boxes: Array, centred: bool) -> Array:
    """The lower corners and the upper corners of boxes, whichever corners are given: coordinate by coordinate."""
    first, second = np.ascontiguousarray(boxes[:, :2].T), np.ascontiguousarray(boxes[:, 2:].T)
    if centred:
        middle, half = first[::-1], second[::-1] / 2  # x before y
        return np.concatenate([middle - half, middle + half])
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)])


@cache
def _compiled() -> OpenCpu:
    from ....compiler import compile_open  # what runs by NumPy needs no compiler

    return compile_open(_program, {"N": 100})


def _program(lengths: Mapping[str, int]) -> Module:
    """Which of N boxes are left, of which those of a group follow each other, the best first: a box that is left removes those
    behind it in its group that overlap it by more than a share; `most` are left of each group."""
    count = lengths["N"]
    types = [TensorType((4, count), f32), TensorType((count,), i64), TensorType((), f32), TensorType((), i64)]
    block = Block(types)
    verbs = Emitter(block, FOLDED_SHAPES)
    corners, group, share, most = (Tensor(argument, verbs) for argument in block.args)
    top, left, bottom, right = (corners.at(0, i) for i in range(4))
    area = (bottom - top) * (right - left)
    places, end = verbs.arange(count), verbs.length(count)

    def goes_on(state: Sequence[Tensor]) -> list[Tensor]:
        return [state[1] < end]

    def step(state: Sequence[Tensor]) -> list[Tensor]:
        there, best, last, before = state

        def of_best(x: Tensor) -> Tensor:
            return verbs.gather(x, best, axis=0)

        height = bottom.minimum(of_best(bottom)) - top.maximum(of_best(top))
        width = right.minimum(of_best(right)) - left.maximum(of_best(left))
        both = height.maximum(0) * width.maximum(0)
        of_group = of_best(group)
        number = of_group.equals(last).where(before, 0) + 1
        over = (both > share * (area + of_best(area) - both)) | (number >= most)
        behind = places > best
        there = there & ~(over & behind & group.equals(of_group))
        return [there, (there & behind).where(places, end).min(), of_group, number]

    state = [
        verbs.numbers(True, i1, [count]),
        verbs.numbers(0, i64),
        verbs.numbers(-1, i64),
        verbs.numbers(0, i64),
    ]
    types = [each.type for each in state]
    regions = [verbs.region(types, goes_on)[0], verbs.region(types, step)[0]]
    found = verbs.while_(state, types=types, regions=regions)
    verbs.builder.end(func.ReturnOp, verbs.value(found[0]))
    return module([function("main", block, {})])
