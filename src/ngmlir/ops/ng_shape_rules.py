# SPDX-License-Identifier: Apache-2.0
"""Type rules of those ops of the ng dialect that only move elements. `ng_rules` exports them too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from ..ir.attributes import FloatAttr, IntegerAttr
from ..ir.definition import Typing
from ..ir.types import (
    DYNAMIC,
    Type,
    element_type,
    shape_of,
    with_element,
)
from ..support.borders import has_room
from ..support.lengths import is_open
from .fields import get_enum, get_i64s
from .rules import (
    Types,
    axes_of,
    axis_of,
    names_of,
    require,
    reshaped,
    same_kind,
    same_shape,
    same_size,
    without_axes,
)
from .sliding import count_of, described, span_of


def broadcast(t: Typing) -> Types:
    (source,), (target,), dims = t.operands, t.results, get_i64s(t, "dimensions")
    shape, names = shape_of(source), names_of(source)
    require(
        same_kind(source, target) and element_type(source) is element_type(target),
        f"cannot broadcast {source} to {target}",
    )
    require(len(dims) == len(shape), f"{len(shape)} dimensions, but {len(dims)} places for them")
    require(all(0 <= d < len(shape_of(target)) for d in dims), f"dimensions {list(dims)} of {target}")
    require(all(a < b for a, b in pairwise(dims)), f"dimensions {list(dims)} must ascend; transpose first")
    for i, d in enumerate(dims):
        require(
            same_size(shape[i], shape_of(target)[d]),
            f"dimension {i} of {source} is not dimension {d} of {target}",
        )
        outer = names_of(target)
        if names is not None and outer is not None:
            require(names[i] == outer[d], f"axis {names[i]} of {source} is not axis {outer[d]} of {target}")
    return t.results


def transpose(t: Typing) -> Types:
    (source,), order = t.operands, get_i64s(t, "permutation")
    shape, names = shape_of(source), names_of(source)
    require(
        sorted(order) == list(range(len(shape))),
        f"{list(order)} is no permutation of {len(shape)} dimensions",
    )
    return [
        reshaped(source, [shape[i] for i in order], [names[i] for i in order] if names is not None else None)
    ]


def reshape(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    require(
        same_kind(source, target) and element_type(source) is element_type(target),
        f"cannot reshape {source} to {target}",
    )
    a, b = shape_of(source), shape_of(target)
    if DYNAMIC not in a and DYNAMIC not in b:
        require(
            prod(a) == prod(b), f"{prod(a)} elements cannot take the shape of {target} ({prod(b)} elements)"
        )
    return t.results


def cast_axes(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    require(
        same_shape(source, target) and element_type(source) is element_type(target),
        f"cast_axes keeps the shape: {source} to {target}",
    )
    return t.results


def slice_size(start: int, limit: int, step: int) -> int:
    """The number of elements of a slice."""
    return max(0, -(-(limit - start) // step))


def slice(t: Typing) -> Types:
    (source,) = t.operands
    starts, limits, steps = (get_i64s(t, n) for n in ("starts", "limits", "steps"))
    shape = shape_of(source)
    require(
        len(starts) == len(limits) == len(steps) == len(shape),
        f"{len(shape)} dimensions, but {len(starts)} starts, {len(limits)} limits, {len(steps)} steps",
    )
    sizes: list[int] = []
    for d, (size, start, limit, step) in enumerate(zip(shape, starts, limits, steps, strict=True)):
        require(step != 0, f"step 0 in dimension {d}")
        count = slice_size(start, limit, step)
        last = start + (count - 1) * step
        ends = (start, last)
        inside = count == 0 or all(0 <= end and (size == DYNAMIC or end < size) for end in ends)
        require(inside, f"elements {start} to {last} of dimension {d}, which has {size}")
        sizes.append(count)
    return [reshaped(source, sizes, names_of(source))]


def pad(t: Typing) -> Types:
    (source,), low, high = t.operands, get_i64s(t, "low"), get_i64s(t, "high")
    shape = shape_of(source)
    require(
        len(low) == len(high) == len(shape),
        f"{len(shape)} dimensions, but {len(low)} and {len(high)} paddings",
    )
    require(all(p >= 0 for p in (*low, *high)), "a padding is negative", "use ng.slice to remove elements")
    value = t.attributes.get("value")
    if isinstance(value, (FloatAttr, IntegerAttr)):
        require(
            value.type is element_type(source),
            f"the padding value is {value.type}, the tensor {element_type(source)}",
        )
    sizes = [DYNAMIC if s == DYNAMIC else lo + s + hi for s, lo, hi in zip(shape, low, high, strict=True)]
    return [reshaped(source, sizes, names_of(source))]


def border_pad(t: Typing) -> Types:
    border = get_enum(t, "border")
    for d, (size, *widths) in enumerate(
        zip(shape_of(t.operands[0]), get_i64s(t, "low"), get_i64s(t, "high"), strict=False)
    ):
        fits = size == DYNAMIC or is_open((size, *widths)) or has_room(border, size, *widths)
        require(fits, f"axis {d} of {size} elements cannot be padded by {widths} of its own with '{border}'")
    return pad(t)


def concatenate(t: Typing) -> Types:
    require(bool(t.operands), "nothing to concatenate")
    first = t.operands[0]
    axis = axis_of(t, len(shape_of(first)))
    total = 0
    for other in t.operands:
        a, b = list(shape_of(first)), list(shape_of(other))
        require(
            len(a) == len(b) and element_type(first) is element_type(other),
            f"cannot concatenate {first} and {other}",
        )
        require(names_of(first) == names_of(other), f"axes of {first} and {other} differ")
        size = b[axis]
        a[axis] = b[axis] = 0
        require(all(map(same_size, a, b)), f"{first} and {other} differ outside axis {axis}")
        total = DYNAMIC if DYNAMIC in (total, size) else total + size
    shape = list(shape_of(first))
    shape[axis] = total
    return [reshaped(first, shape, names_of(first))]


def stack(t: Typing) -> Types:
    require(bool(t.operands), "nothing to stack")
    first, (target,) = t.operands[0], t.results
    axis = axis_of(t, len(shape_of(first)) + 1)
    require(all(o is first for o in t.operands), "stacked tensors must have one type")
    shape = list(shape_of(first))
    shape.insert(axis, len(t.operands))
    names = names_of(target)
    return [reshaped(first, shape, names)]


def _windowed(t: Typing, whole: Type, sizes: Sequence[int]) -> list[int]:
    """The shape of windows of `sizes` taps along the axes of a tensor."""
    axes, steps, dilations = (get_i64s(t, n) for n in ("axes", "steps", "dilations"))
    axes_of(t, len(shape_of(whole)))
    require(
        len(axes) == len(steps) == len(dilations),
        f"{len(axes)} axes, but {len(steps)} steps and {len(dilations)} dilations",
    )
    shape = list(shape_of(whole))
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        require(step > 0 and dilation > 0, f"step {step} and dilation {dilation} along dimension {axis}")
        require(size > 0, f"windows of {'an unknown number of' if size == DYNAMIC else size} taps")
        span = span_of(size, dilation)
        if shape[axis] != DYNAMIC:
            require(
                span <= shape[axis],
                f"{described(size, dilation)} along dimension {axis}, which has {shape[axis]}",
                "pad the dimension before",
            )
            shape[axis] = count_of(shape[axis], span, step)
    return [*sizes, *shape]


def _are_windows(t: Typing, windows: Type, whole: Type) -> None:
    count = len(get_i64s(t, "axes"))
    require(
        count <= len(shape_of(windows)),
        f"{count} axes need at least {count} dimensions of taps, but {windows} has {len(shape_of(windows))}",
    )
    expected = reshaped(whole, _windowed(t, whole, shape_of(windows)[:count]))
    require(
        same_shape(windows, expected) and element_type(windows) is element_type(whole),
        f"these windows of {whole} are like {expected}, not {windows}",
    )
    names, inner = names_of(whole), names_of(windows)
    require(names is None or inner is None or names == inner[count:], f"axes of {whole} and {windows} differ")


def windows(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _are_windows(t, target, source)
    return t.results


def overlap_add(t: Typing) -> Types:
    (source,), (target,) = t.operands, t.results
    _are_windows(t, source, target)
    return t.results


# ---- by index ------------------------------------------------------------------------------------


def _not_of_nothing(source: Type, axis: int, indices: Type) -> None:
    empty = shape_of(source)[axis] == 0 and 0 not in shape_of(indices)
    require(not empty, f"axis {axis} of {source} has no elements to take")


def gather(t: Typing) -> Types:
    source, indices = t.operands
    axis = axis_of(t, len(shape_of(source)))
    _not_of_nothing(source, axis, indices)
    shape, inner = shape_of(source), shape_of(indices)
    a, b = names_of(source), names_of(indices)
    names = [*a[:axis], *b, *a[axis + 1 :]] if a is not None and b is not None else None
    require(names is None or len(set(names)) == len(names), f"axes of {source} and {indices} collide")
    return [reshaped(source, [*shape[:axis], *inner, *shape[axis + 1 :]], names)]


def gather_elements(t: Typing) -> Types:
    source, indices = t.operands
    axis = axis_of(t, len(shape_of(source)))
    _not_of_nothing(source, axis, indices)
    a, b = list(shape_of(source)), list(shape_of(indices))
    require(len(a) == len(b), f"{source} and its indices {indices} differ in rank")
    a[axis] = b[axis] = 0
    require(all(map(same_size, a, b)), f"{source} and its indices {indices} differ outside axis {axis}")
    return [with_element(indices, element_type(source))]


def scatter(t: Typing) -> Types:
    source, indices, updates = t.operands
    axis = axis_of(t, len(shape_of(source)))
    shape, inner = shape_of(source), shape_of(indices)
    expected = reshaped(source, [*shape[:axis], *inner, *shape[axis + 1 :]])
    require(
        same_shape(expected, updates) and element_type(updates) is element_type(source),
        f"the updates must be like {expected}, not {updates}",
    )
    return [source]


def one_hot(t: Typing) -> Types:
    (indices,), (target,) = t.operands, t.results
    axis = axis_of(t, len(shape_of(indices)) + 1)
    shape, names = without_axes(target, [axis])
    require(len(shape_of(target)) == len(shape_of(indices)) + 1, f"one_hot of {indices} cannot be {target}")
    require(all(map(same_size, shape, shape_of(indices))), f"one_hot of {indices} cannot be {target}")
    known = names_of(indices)
    require(known is None or names is None or list(known) == names, f"axes of {indices} and {target} differ")
    return t.results
