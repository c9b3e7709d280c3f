# SPDX-License-Identifier: Apache-2.0
"""Reductions of windows as one reduction for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.attributes import numeric_literal
from ...ir.core import Module, Op, Value
from ...ir.types import element_type, shape_of, with_element
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.rules import names_of, reshaped
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.lengths import usual
from ...support.target import Target
from ..analysis.reduction import Accumulation

_KINDS = frozenset({"ng.max", "ng.min", "ng.sum"})


@contract(needs=("named", "plain"), anchor="function", only="cpu")
def separate_windows(module: Module, target: Target) -> Module:
    """Reduces windows over several axes axis by axis, the outermost first, where that is less work on a CPU: overlapping windows
    share partial results, and rows are read contiguously. This changes the order of sums; partial sums of f16 and bf16 stay
    in f32.

    Before:
        func.func @main(%x: tensor<9x9xf32>) -> tensor<4x4xf32> {
          %0 = ng.windows %x axes [0, 1] steps [2, 2] dilations [1, 1] : (tensor<9x9xf32>) -> tensor<3x3x4x4xf32>
          %1 = ng.max %0 axes [0, 1] : (tensor<3x3x4x4xf32>) -> tensor<4x4xf32>
          return %1 : tensor<4x4xf32>
        }
    After:
        func.func @main(%x: tensor<9x9xf32>) -> tensor<4x4xf32> {
          %0 = ng.windows %x axes [0, 1] steps [2, 2] dilations [1, 1] : (tensor<9x9xf32>) -> tensor<3x3x4x4xf32>
          %1 = ng.windows %x axes [0] steps [2] dilations [1] : (tensor<9x9xf32>) -> tensor<3x4x9xf32>
          %2 = ng.max %1 axes [0] : (tensor<3x4x9xf32>) -> tensor<4x9xf32>
          %3 = ng.windows %2 axes [1] steps [2] dilations [1] : (tensor<4x9xf32>) -> tensor<3x4x4xf32>
          %4 = ng.max %3 axes [0] : (tensor<3x4x4xf32>) -> tensor<4x4xf32>
          func.return %4 : tensor<4x4xf32>
        }
    """
    return sweep(module, _rule, _KINDS)


def _rule(op: Op, b: Builder) -> Sequence[Value] | None:
    windows = op.operands[0].owner
    if not isinstance(windows, Op) or windows.name != "ng.windows" or SCHEDULE in op.attributes:
        return None
    groups = _groups(windows)
    if len(groups) == 1 or get_i64s(op, "axes") != (*range(sum(map(len, groups))),):
        return None
    (value,), kind = windows.operands, op.name.removeprefix("ng.")
    fill, pads = None, dict.fromkeys(range(len(shape_of(value.type))), (0, 0))
    pad, element = value.owner, element_type(value.type)
    if isinstance(pad, Op) and pad.name == "ng.pad":
        fill = pad.attributes.get("value")
        # Each axis is padded just before it is reduced: the reduction of padding alone is the fill value.
        if kind != "sum" or fill in (None, numeric_literal(0, element)):
            (value,), ends = pad.operands, (get_i64s(pad, name) for name in ("low", "high"))
            pads = dict(enumerate(zip(*ends, strict=True)))
    gathered = Accumulation(kind, element).accumulator
    if gathered is not element:
        value, fill = b.cast(value, type=with_element(value.type, gathered)), None
    axes, steps, dilations = (get_i64s(windows, name) for name in ("axes", "steps", "dilations"))
    whole, names = shape_of(windows.result.type), names_of(windows.result.type)
    for group in groups:
        here = [axes[i] for i in group]
        later = {axes[i] for other in groups[groups.index(group) + 1 :] for i in other}
        around = [(0, 0) if d in later else pads.pop(d, (0, 0)) for d in range(len(shape_of(value.type)))]
        if any(map(any, around)):
            low, high = zip(*around, strict=True)
            value = b.pad(value, low=low, high=high, value=fill)
        sizes = [whole[len(axes) + d] if d in here else n for d, n in enumerate(shape_of(value.type))]
        known = names and [*(names[i] for i in group), *names[len(axes) :]]
        made = b.windows(
            value,
            type=reshaped(value.type, [*(whole[i] for i in group), *sizes], known),
            axes=here,
            steps=[steps[i] for i in group],
            dilations=[dilations[i] for i in group],
        )
        value = getattr(b, kind)(made, axes=range(len(group)))
    return [value if gathered is element else b.cast(value, type=op.result.type)]


def _groups(windows: Op) -> list[list[int]]:
    """The axes of windows, as indices into `axes`, in groups that are reduced in this order: the groups minimize the elements that
    are read, and written in between, for each result."""
    axes, whole = get_i64s(windows, "axes"), usual(shape_of(windows.result.type))
    lengths = usual(shape_of(windows.operands[0].type))
    order = sorted(range(len(axes)), key=axes.__getitem__)
    last = order[-1]
    # A vector load of strided elements takes about as long as two contiguous ones.
    twice = 2 if axes[last] == len(lengths) - 1 and get_i64s(windows, "steps")[last] > 1 else 1
    groups: list[list[int]] = [[]]
    for place, i in enumerate(order):
        groups[-1].append(i)
        rest = order[place + 1 :]
        taps, others = (prod(whole[j] for j in some) for some in (groups[-1], rest))
        between = prod(lengths[axes[j]] / max(1, whole[len(axes) + axes[j]]) for j in rest)
        if rest and (taps + 1) * between + others * twice < taps * others * twice:
            groups.append([])
    return groups
