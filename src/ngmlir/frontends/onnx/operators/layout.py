# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and make tensors of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import cast

import numpy as np

from ....ir.literals import type_of_dtype
from ....ir.types import f32, i1, i64
from ....support.borders import Border, has_room
from ....support.diagnostics import UserError
from ....support.lengths import slice_indices
from ..nodes import Node, operator
from ..tensor import Tensor, Verbs
from ..tensors import checked_shape


@operator("Constant")
def constant(n: Node) -> Tensor:
    for name, dtype in (("value_int", np.int64), ("value_float", np.float32)):
        if name in n.attributes:
            a = n.attributes[name]
            return n.verbs.known(np.array(a.i if dtype is np.int64 else a.f, dtype))
    if "value_ints" in n.attributes:
        return n.verbs.known(np.array(n.given("value_ints", ()), np.int64))
    if "value_floats" in n.attributes:
        return n.verbs.known(np.array(n.floats("value_floats"), np.float32))
    found = n.array("value") if "value" in n.attributes else n.array("sparse_value")
    if found is None:
        raise n.limit("a constant of text", "ngmlir has no strings")
    return n.verbs.known(found)


@operator("ConstantOfShape")
def constant_of_shape(n: Node, shape: Tensor) -> Tensor:
    value = n.array("value")
    dims = checked_shape(n.settle(shape).reshape(-1), "the result")
    one = np.zeros((), np.float32) if value is None else value.reshape(())
    return n.verbs.known(np.broadcast_to(one, dims))


@operator("Shape")
def shape(n: Node, x: Tensor) -> Tensor:
    end = n.integer("end", x.rank) if "end" in n.attributes else x.rank
    return n.verbs.known(np.array(x.shape[slice(n.integer("start"), end)], np.int64))


@operator("Size")
def size(n: Node, x: Tensor) -> Tensor:
    return n.verbs.known(np.array(x.size, np.int64))


@operator("Reshape")
def reshape(n: Node, x: Tensor, shape: Tensor | None = None) -> Tensor:
    wanted = n.either(shape, "shape")
    assert wanted is not None
    dims = [x.shape[i] if d == 0 and not n.flag("allowzero") else d for i, d in enumerate(wanted)]
    if dims.count(-1) == 1:
        rest = prod(d for d in dims if d != -1)
        dims[dims.index(-1)] = x.size // rest if rest else 0
    if any(d < 0 for d in dims) or prod(dims) != x.size:
        raise UserError(f"{list(x.shape)} has {x.size} elements and cannot take the shape {wanted}")
    return x.reshape(dims)


@operator("Flatten")
def flatten(n: Node, x: Tensor) -> Tensor:
    axis = n.integer("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return x.reshape([prod(x.shape[:axis]), prod(x.shape[axis:])])


@operator("Squeeze")
def squeeze(n: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    wanted = n.either(axes, "axes")
    return x.without_axes([i for i, d in enumerate(x.shape) if d == 1] if wanted is None else wanted)


@operator("Unsqueeze")
def unsqueeze(n: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.with_axes(n.either(axes, "axes") or [])


@operator("Transpose")
def transpose(n: Node, x: Tensor) -> Tensor:
    return x.transpose(n.given("perm", range(x.rank)[::-1]))


@operator("Concat")
def concat(n: Node, *parts: Tensor) -> Tensor:
    axis = n.integer("axis", 1 if n.version < 4 else 0)
    kept = [p for p in parts if p.shape != (0,) or parts[0].rank == 1]
    return n.verbs.joined(kept, parts[0].axis(axis))


@operator("Split")
def split(n: Node, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    axis = x.axis(n.integer("axis"))
    lengths = n.either(sizes, "split")
    if lengths is None:
        count = n.integer("num_outputs", len(n.outputs))
        each = ceil(x.shape[axis] / count)
        lengths = [max(0, min(each, x.shape[axis] - i * each)) for i in range(count)]
    return pieces(x, lengths, axis)


def pieces(x: Tensor, lengths: Sequence[int], axis: int) -> list[Tensor]:
    """The tensor cut along an axis."""
    ends = np.cumsum(lengths).tolist()
    if any(length < 0 for length in lengths) or (ends[-1] if ends else 0) != x.shape[axis]:
        raise UserError(f"pieces of {list(lengths)} elements do not make {x.shape[axis]}")
    return [x.part(axis, end - length, end) for end, length in zip(ends, lengths, strict=True)]


@operator("Slice")
def slice_(
    n: Node,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    first, last = n.either(starts, "starts") or [], n.either(ends, "ends") or []
    places = n.either(axes, "axes")
    strides = n.settled(steps) or [1] * len(first)
    for axis, low, high, step in zip(
        places if places is not None else range(len(first)), first, last, strides, strict=True
    ):
        axis = x.axis(axis)
        if step < 0:
            # Unlike Python, which begins before the first element and takes none.
            low = max(low, -x.shape[axis])
        low, high, step = slice_indices(slice(low, high, step), x.shape[axis])
        x = x.part(axis, low, high, step) if len(range(low, high, step)) else x.part(axis, 0, 0)
    return x


@operator("Expand")
def expand(n: Node, x: Tensor, shape: Tensor) -> Tensor:
    return x.broadcast(np.broadcast_shapes(x.shape, checked_shape(n.settle(shape).reshape(-1), "the result")))


@operator("Tile")
def tile(n: Node, x: Tensor, repeats: Tensor, tiles: Tensor | None = None) -> Tensor:
    times = n.settled(repeats) or []
    if n.version < 6:  # so many tiles along one axis
        axis = x.axis((n.settled(tiles) or [0])[0])
        times = [times[0] if d == axis else 1 for d in range(x.rank)]
    return repeated(x, times)


def repeated(x: Tensor, times: Sequence[int]) -> Tensor:
    """The tensor again and again along each axis."""
    if len(times) != x.rank or min(times, default=0) < 0:
        raise UserError(f"{list(x.shape)} cannot be repeated {list(times)} times")
    inner = x.reshape([d for n in x.shape for d in (1, n)])
    wide = inner.broadcast([d for n, t in zip(x.shape, times, strict=True) for d in (t, n)])
    return wide.reshape([n * t for n, t in zip(x.shape, times, strict=True)])


@operator("Pad")
def pad(
    n: Node, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    given = n.either(pads, "pads") or n.integers("paddings") or []
    places = n.settled(axes)
    places = list(range(x.rank)) if places is None else [x.axis(a) for a in places]
    low, high = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(places):
        low[axis], high[axis] = given[i], given[i + len(places)]
    mode = n.text("mode", "constant")
    for axis, (length, before, after) in enumerate(zip(x.shape, low, high, strict=True)):
        if length + before + after < 0:
            raise UserError(
                f"padding by {before} and {after} takes more from axis {axis} than its {length} elements"
            )
        if mode != "constant" and not length and before + after > 0:
            raise UserError(f"axis {axis} has no elements to pad it with by '{mode}'")
    if mode == "constant":
        if value is None:
            return x.pad(low, high, n.number("value", 0.0) if n.version < 11 else 0)
        if value.array is not None:
            return x.pad(low, high, value.array.reshape(()).item())
        inside = n.verbs.numbers(True, i1, x.shape).pad(low, high)
        return inside.where(x.pad(low, high), value.reshape([]))
    if all(map(has_room, [mode] * x.rank, x.shape, low, high)):
        return x.border_pad(low, high, cast("Border", mode))
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before or after:
            x = x.take(around(n.verbs, x.shape[axis], before, after, mode), axis)
    return x


def around(verbs: Verbs, length: int, before: int, after: int, mode: str) -> Tensor:
    """The index of the element at each position of an axis that is padded with its own elements."""
    places, size = verbs.arange(before + length + after) - before, verbs.length(length)
    match mode:
        case "edge":
            return places.maximum(0).minimum(size - 1)
        case "wrap":
            return places % size
        case "reflect":
            period = ((size - 1) * 2).maximum(1)
            folded = places % period
            return folded.minimum(period - folded) * (size - 1).minimum(1)
        case _:
            raise UserError(f"there is no padding by '{mode}'")


@operator("Range")
def range_(n: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = (n.settle(x).reshape(()) for x in (start, limit, delta))
    if not step:
        raise UserError("the step of a range is 0")
    if np.issubdtype(first.dtype, np.integer):
        count = max(0, -((int(first) - int(last)) // int(step)))
    else:
        count = max(0, ceil((float(last) - float(first)) / float(step)))
    checked_shape([count], "the result")
    if count > 1 << 28:
        raise n.limit(f"a range of {count} numbers")
    if n.verbs.several and np.issubdtype(first.dtype, np.integer):
        element = type_of_dtype(first.dtype)
        return n.verbs.arange(count, element) * step.item() + n.verbs.length(first.item(), element)
    return n.verbs.known((first + np.arange(count).astype(first.dtype) * step).astype(first.dtype))


@operator("EyeLike")
def eye_like(n: Node, x: Tensor) -> Tensor:
    rows, columns = (n.verbs.arange(size) for size in x.shape)
    return (
        (columns.with_axes([0]) - rows.with_axes([1]))
        .equals(n.integer("k"))
        .cast(n.element("dtype", x.element))
    )


@operator("Trilu")
def trilu(n: Node, x: Tensor, k: Tensor | None = None) -> Tensor:
    by = int(n.settle(k).reshape(())) if k is not None else 0
    rows, columns = (n.verbs.arange(size) for size in x.shape[-2:])
    apart = columns.with_axes([0]) - rows.with_axes([1])
    kept = apart >= by if n.flag("upper", True) else apart <= by
    return kept.where(x, n.verbs.numbers(0, x.element))


@operator("DepthToSpace")
def depth_to_space(n: Node, x: Tensor) -> Tensor:
    b = n.integer("blocksize")
    count, c, h, w = x.shape
    if n.text("mode", "DCR") == "DCR":
        made = x.reshape([count, b, b, c // b // b, h, w]).transpose([0, 3, 4, 1, 5, 2])
    else:
        made = x.reshape([count, c // b // b, b, b, h, w]).transpose([0, 1, 4, 2, 5, 3])
    return made.reshape([count, c // b // b, h * b, w * b])


@operator("SpaceToDepth")
def space_to_depth(n: Node, x: Tensor) -> Tensor:
    b = n.integer("blocksize")
    count, c, h, w = x.shape
    order = [0, 3, 5, 1, 2, 4] if n.text("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    made = x.reshape([count, c, h // b, b, w // b, b]).transpose(order)
    return made.reshape([count, c * b * b, h // b, w // b])


@operator("OneHot")
def one_hot(n: Node, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    count = int(n.settle(depth).reshape(-1)[0])
    if count < 1:
        raise UserError(f"the depth is {count}, and has to be at least 1")
    axis = n.integer("axis", -1) % (indices.rank + 1)
    places = indices.cast(i64)
    places = (places < 0).where(places + count, places).with_axes([axis])
    line = n.verbs.arange(count).reshape([count if d == axis else 1 for d in range(indices.rank + 1)])
    return places.equals(line).where(values.at(0, 1), values.at(0, 0))


@operator("ReverseSequence")
def reverse_sequence(n: Node, x: Tensor, lengths: Tensor) -> Tensor:
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis", 0)
    shape = [d if i == time else 1 for i, d in enumerate(x.shape)]
    line = n.verbs.arange(x.shape[time]).reshape(shape)
    ends = lengths.cast(i64).reshape([x.shape[batch] if i == batch else 1 for i in range(x.rank)])
    places = (line < ends).where(ends - 1 - line, line)
    return n.verbs.gather_elements(x, places.broadcast(x.shape), axis=time)


@operator("Hardmax")
def hardmax(n: Node, x: Tensor) -> Tensor:
    if not x.size:
        return x
    axis = x.axis(n.integer("axis", -1 if n.version >= 13 else 1))
    shape = x.shape
    if n.version < 13:
        x, axis = x.reshape([prod(shape[:axis]), prod(shape[axis:])]), 1
    type = x.sum([axis]).cast(i64).type
    place = n.verbs.argmax(x, type=type, axes=[axis]).with_axes([axis])
    line = n.verbs.arange(x.shape[axis]).reshape([d if i == axis else 1 for i, d in enumerate(x.shape)])
    return place.equals(line).cast(x.element).reshape(shape)


def zeros(n: Node, shape: Sequence[int]) -> Tensor:
    """Zeros in f32."""
    return n.verbs.numbers(0, f32, shape)
