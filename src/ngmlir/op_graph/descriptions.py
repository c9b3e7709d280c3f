# SPDX-License-Identifier: Apache-2.0
"""The memory layout of a tensor: shape, strides and offset; and the layouts of its views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Protocol, overload

import numpy as np

from ..ir.core import Op
from ..ops import ng
from ..support.diagnostics import UserError
from ..support.spelling import counted


class Dimensions(Protocol):
    """What is asked of axes."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def known_shape(self) -> tuple[int, ...]: ...
    def chosen(self, axes: Any) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    @overload
    def __getitem__(self, item: int) -> Any: ...
    @overload
    def __getitem__(self, item: slice) -> Any: ...


class TensorDescription:
    """The layout of a tensor with named axes: the offset of its first element and its strides, in bytes.

    Without `strides` the elements are contiguous in row-major order. `sizes` are the lengths that the memory has along the axes: 1 where the
    elements are repeated (stride 0). `base` is the description of the whole memory that this one is a view of.
    """

    def __init__(
        self,
        axes: Dimensions,
        dtype: Any = np.float32,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        base: TensorDescription | None = None,
        name: str = "",
    ):
        self.axes = axes
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = axes.known_shape
        self.strides = row_by_row(self.shape, self.dtype.itemsize) if strides is None else tuple(strides)
        self.offset = offset
        self.name = name
        self._base = base

    @property
    def base(self) -> TensorDescription:
        """That of the whole memory; itself, unless it is a view."""
        return self if self._base is None else self._base

    @property
    def ndim(self) -> int:
        return len(self.shape)

    rank = ndim

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many elements along each axis are different places of memory."""
        return tuple([n if s or n < 2 else 1 for n, s in zip(self.shape, self.strides, strict=True)])

    @property
    def full_sizes(self) -> tuple[Any, ...]:
        """`sizes`, of a flattened axis those of its parts."""
        return tuple([_full_size(a, s) for a, s in zip(self.axes, self.strides, strict=True)])

    @property
    def full_strides(self) -> tuple[Any, ...]:
        """`strides`, of a flattened axis those of its parts."""
        return tuple([_full_stride(a, s) for a, s in zip(self.axes, self.strides, strict=True)])

    @property
    def tensor_size(self) -> int:
        """How many bytes the elements take without repetition."""
        return prod(self.sizes) * self.dtype.itemsize

    @property
    def c_strides(self) -> tuple[int, ...]:
        """The strides that it would have if the elements lay row by row."""
        return row_by_row(self.shape, self.dtype.itemsize)

    @property
    def c_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order, without gaps and repetitions."""
        return self._has_strides(self.c_strides, self.shape)

    @property
    def broadcast_contiguous(self) -> bool:
        """Whether the elements that are not repeated are contiguous in row-major order."""
        return self._has_strides(row_by_row(self.sizes, self.dtype.itemsize), self.sizes)

    def _has_strides(self, strides: Sequence[int], shape: Sequence[int]) -> bool:
        # Along an axis of one element no stride matters, and none where there is no element.
        return 0 in shape or all(
            n == 1 or a == b for n, a, b in zip(shape, self.strides, strides, strict=True)
        )

    def is_base(self) -> bool:
        """Whether it is no view."""
        return self._base is None

    def __repr__(self) -> str:
        names = ", ".join(f"{n}: {k}" for n, k in zip(self.axes.names, self.shape, strict=True))
        return f"TensorDescription(({names}) {self.dtype} strides={self.strides} offset={self.offset})"

    # ---- views

    def _view(self, axes: Dimensions, strides: Sequence[int], offset: int | None = None) -> TensorDescription:
        at = self.offset if offset is None else offset
        return TensorDescription(axes, self.dtype, strides, at, self.base, self.name)

    def clone(self) -> TensorDescription:
        """A copy."""
        return TensorDescription(self.axes, self.dtype, self.strides, self.offset, self._base, self.name)

    def transpose(self) -> TensorDescription:
        """The axes in reverse order."""
        return self._view(self.axes[::-1], self.strides[::-1])

    def _named(self, axes: Any) -> Dimensions:
        """Axes that were given as such, or as a list of axes or names, in which a list is a flattened axis."""
        return self.axes.chosen(axes)

    def reorder(self, axes: Any) -> TensorDescription:
        """The layout with its axes in another order."""
        axes = self._named(axes)
        if sorted(axes.names) != sorted(self.axes.names):
            raise _refusal(self, axes, "are no order of them")
        return self.broadcast(axes)

    def broadcast(self, axes: Any) -> TensorDescription:
        """These axes (or a list of them), with the elements repeated along those that it lacks."""
        axes = self._named(axes)
        mine = dict(zip(self.axes.names, self.strides, strict=True))
        if not set(mine) <= set(axes.names):
            raise _refusal(self, axes, "lack some of them")
        return self._view(axes, [mine.get(name, 0) for name in axes.names])

    reorder_and_broadcast = broadcast

    def cast(self, axes: Any) -> TensorDescription:
        """Other axes of the same lengths, place by place."""
        axes = self._named(axes)
        if axes.known_shape != self.shape:
            raise _refusal(self, axes, "have other lengths")
        return self._view(axes, self.strides)

    def reshape(self, axes: Any) -> TensorDescription:
        """As many elements under other axes: axes or a list of them, in which a list is a flattened axis.

        Raises UserError where no view of the memory has this shape.
        """
        axes = self._named(axes)
        strides = _reshaped(self.shape, self.strides, axes.known_shape)
        if strides is None:
            raise _refusal(self, axes, "show no view of these elements")
        return self._view(axes, strides)

    flatten = unflatten = reshape

    def slice(self, slices: Sequence[int | slice], axes: Dimensions) -> TensorDescription:
        """A part: one slice or integer per axis; `axes` are those that are left."""
        if len(slices) != self.ndim:
            raise UserError(f"{counted(len(slices), 'slice')} for the {counted(self.ndim, 'axis')} of {self}")
        offset, strides, lengths = self.offset, list[int](), list[int]()
        for part, length, stride in zip(slices, self.shape, self.strides, strict=True):
            if isinstance(part, int):
                offset += range(length)[part] * stride
                continue
            places = range(length)[part]
            if places:
                offset += places[0] * stride
            lengths.append(len(places))
            strides.append(stride * places.step)
        if axes.known_shape != tuple(lengths):
            raise _refusal(self, axes, f"are not of the lengths {tuple(lengths)}")
        return self._view(axes, strides, offset)


def viewed(
    operation: type[Op] | None, attributes: Mapping[str, Any], axes: Dimensions, below: TensorDescription
) -> TensorDescription:
    """What an op that is a view makes of the description of its argument."""
    if operation is ng.SliceOp:
        parts = zip(attributes["starts"], attributes["limits"], attributes["steps"], strict=True)
        return below.slice([slice(a, None if s < 0 and b < 0 else b, s) for a, b, s in parts], axes)
    if operation is ng.TransposeOp:
        order: Sequence[int] = attributes["permutation"]
        turned = [below.strides[d] for d in order]
        return TensorDescription(axes, below.dtype, turned, below.offset, below.base, below.name)
    if operation is ng.BroadcastOp:
        strides = dict(zip(attributes["dimensions"], below.strides, strict=True))
        repeated = [strides.get(d, 0) for d in range(len(axes))]
        return TensorDescription(axes, below.dtype, repeated, below.offset, below.base, below.name)
    return below.reshape(axes)


def _full_size(axis: Any, stride: int) -> Any:
    """How many elements along an axis are different places of memory; of a flattened one, along each of its parts."""
    if axis.is_flattened:
        return tuple([_full_size(part, stride) for part in axis.axes])
    return axis.known_length if stride or axis.known_length < 2 else 1


def _full_stride(axis: Any, stride: int) -> Any:
    """The stride of an axis; of a flattened one, those of its parts, the last of which has it."""
    if not axis.is_flattened:
        return stride
    made: list[Any] = []
    for part in reversed([*axis.axes]):
        made.append(_full_stride(part, stride))
        stride *= part.known_length
    return tuple(made[::-1])


def row_by_row(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """The row-major strides of elements of `size` bytes."""
    return tuple([prod(shape[d + 1 :]) * size for d in range(len(shape))])


def _reshaped(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> list[int] | None:
    """The strides of the same elements under another shape; None where there are none, or the number of elements differs."""
    if prod(shape) != prod(wanted):
        return None
    if not prod(shape):
        return list(row_by_row(wanted, 1))
    # Runs of elements with one stride: (number of elements, stride), the innermost last.
    runs: list[list[int]] = []
    for n, stride in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * stride:
            runs[-1] = [runs[-1][0] * n, stride]
        else:
            runs.append([n, stride])
    made: list[int] = []
    left, stride = 1, runs[-1][1] if runs else 0
    for n in reversed(wanted):
        if left == 1 and n > 1:
            left, stride = runs.pop()
        if left % n:
            return None
        made.append(stride)
        left, stride = left // n, stride * n
    return made[::-1]


def _refusal(description: TensorDescription, axes: Dimensions, why: str) -> UserError:
    return UserError(f"the axes ({', '.join(axes.names)}) {why}: {description}")
