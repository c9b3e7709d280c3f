# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of tiles through an access: at the indices that it states, with the fill value beyond a border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from types import MappingProxyType

from ....ir.core import Value
from ....ir.nest import AffineExpr
from ....ir.types import Type, VectorType, element_type, i32, i64, with_element
from ....ops import borders
from ....ops.builder import Builder
from ....ops.positions import known
from ....support.borders import beyond
from ....support.lengths import at_least, below, is_multiple
from ...analysis.access import Access
from ...analysis.sides import Implicit, Side, Strided
from .kernel_builder import KernelBuilder
from .tiling import Span, delinearize, dims_in, positions


def read(
    builder: KernelBuilder,
    spans: Sequence[Span],
    access: Access,
    type: Type,
    buffer: Value,
    aligned: bool = False,
    others: Mapping[int, Value] = MappingProxyType({}),
) -> Value:
    """A tile of `type` at `spans` of the loops of an access. `aligned`: its start is a multiple of its size. `others`: the indices of
    dimensions that no loop runs along."""
    b = builder.b
    if access.border:
        return _across_border(b, spans, access, type, buffer)
    indices, dims, steps, masked = _located(b, spans, access)
    indices = [others.get(dimension, index) for dimension, index in enumerate(indices)]

    def load(masked: bool) -> Value:
        return b.load(
            buffer,
            indices,
            type=type,
            dims=dims,
            steps=steps,
            masked=masked,
            pad=access.fill if masked else None,
        )

    if access.fill is None or masked or builder.has_thread_blocks:
        return load(masked or access.fill is not None)
    bounds: list[tuple[Value, int, int]] = []
    partly = False  # whether only a part of a tile may be inside
    for index, place, size in zip(indices, access.places, access.shape, strict=True):
        first, last = place.between(
            [span.section or (0, n) for span, n in zip(spans, access.sizes, strict=True)]
        )
        if at_least(first, 0) and below(last, size):
            continue
        if below(last, 0) or at_least(first, size):
            return b.number(access.fill, type)
        along = {l: stride for l, stride in place.terms.items() if spans[l].size}
        reach = [stride * (spans[l].size - 1) for l, stride in along.items()]
        low, high = -sum(min(r, 0) for r in reach), size - 1 - sum(max(r, 0) for r in reach)
        longer = below(high, low)
        if longer:
            return load(True)  # the tile is longer than the dimension
        if (at := known(index)) is not None and below(at, low):
            return load(True)
        bounds.append((index, low, high))
        # If borders and steps of the other loops are multiples of its size, a tile is either inside or outside.
        units = [place.offset, size, *(stride for l, stride in place.terms.items() if l not in along)]
        together = aligned and all(
            stride == 1 and all(is_multiple(n, spans[l].size) for n in units) for l, stride in along.items()
        )
        partly = partly or longer is None or (bool(along) and not together)
    if not bounds:
        return load(False)
    inside = [
        b.bitwise_and(b.less_equal(b.index(low), at), b.less_equal(at, b.index(high)))
        for at, low, high in bounds
    ]

    def outside() -> Value:
        return load(True) if partly or access.fill is None else b.number(access.fill, type)

    # Most tiles are inside the border, and need no mask.
    (tile,) = b.branch(reduce(b.bitwise_and, inside), lambda: [load(False)], lambda: [outside()])
    return tile


def _across_border(b: Builder, spans: Sequence[Span], access: Access, type: Type, buffer: Value) -> Value:
    """A tile of an operand that is padded with its own elements: read at affine indices where all of it is on one side of each border,
    else at indices that are computed, those of a loop that is not tiled once for the tile."""
    places, others = [*access.places], dict[int, Value]()
    sections = [span.section or (0, n) for span, n in zip(spans, access.sizes, strict=True)]
    tiled = [loop for loop, span in enumerate(spans) if span.size]
    for dimension, (at, size) in enumerate(zip(access.places, access.shape, strict=True)):
        first, last = at.between(sections)
        if at_least(first, 0) and below(last, size):
            continue
        if below(last, 0) or at_least(first, size):
            factor, offset = beyond(access.border, size, not below(last, 0))
            terms = AffineExpr(at.offset, at.terms if factor else {})
            places[dimension] = terms.times(factor).shifted(offset)
        elif not any(loop in at.terms for loop in tiled):
            others[dimension] = borders.place(b, access.border, position(b, at, spans), size, b.index)
        else:
            return _gathered_across(b, spans, access, type, buffer)
    constant = isinstance(type, VectorType) and not any(loop in p.terms for loop in tiled for p in places)
    here = replace(access, places=tuple(places), fill=None)
    indices, dims, steps, masked = _located(b, spans, here)
    indices = [others.get(dimension, index) for dimension, index in enumerate(indices)]
    if constant:
        return b.splat(b.load(buffer, indices, type=element_type(type)), type)
    return b.load(buffer, indices, type=type, dims=dims, steps=steps, masked=masked)


def _gathered_across(b: Builder, spans: Sequence[Span], access: Access, type: Type, buffer: Value) -> Value:
    """The same for a tile that crosses a border: each element is read at an index of its own. Only a row that programs share has such
    tiles, and it is then the only loop."""
    counts = with_element(type, i64)
    assert isinstance(counts, VectorType) and len(spans) == 1
    indices: list[Value] = []
    for at, size in zip(access.places, access.shape, strict=True):
        index = b.splat(b.cast(position(b, at, spans), type=i64), counts)
        for stride in at.terms.values():
            index = b.add(index, b.multiply(b.iota(type=counts, dimension=0), b.number(stride, counts)))
        ends = b.number(0, counts), b.number(size - 1, counts)
        index = borders.place(b, access.border, index, size, lambda n: b.number(n, counts))
        indices.append(b.minimum(b.maximum(index, ends[0]), ends[1]))
    return b.gather_tile(buffer, indices, type=type)


def all_inside(b: Builder, spans: Mapping[int, Span], access: Access) -> list[Value] | None:
    """The conditions under which no tile at `spans` of some loops crosses a border of an access, for all positions of the others;
    None if one always does."""
    found, sizes = list[Value](), access.sizes
    if access.fill is None:
        return found
    for place, size in zip(access.places, access.shape, strict=True):
        first, last = place.ends(sizes)
        if at_least(first, 0) and below(last, size):
            continue
        here = AffineExpr(place.offset, {l: s for l, s in place.terms.items() if l in spans})
        steps = {l: (spans[l].size or 1) if l in spans else sizes[l] for l in place.terms}
        reach = [stride * (steps[l] - 1) for l, stride in place.terms.items()]
        low, high = -sum(min(r, 0) for r in reach), size - 1 - sum(max(r, 0) for r in reach)
        if below(high, low) or any(l in spans and spans[l].masked for l in place.terms):
            return None
        at = position(b, here, [spans.get(l, Span(b.index(0))) for l in range(len(sizes))])
        found += [b.less_equal(b.index(low), at), b.less_equal(at, b.index(high))]
    return found


def write(b: Builder, spans: Sequence[Span], access: Access, tile: Value, buffer: Value) -> None:
    """Stores a tile through an access."""
    indices, dims, steps, masked = _located(b, spans, access)
    b.store(tile, buffer, indices, dims=dims, steps=steps, masked=masked)


def _located(
    b: Builder, spans: Sequence[Span], access: Access
) -> tuple[list[Value], Sequence[int] | None, list[int] | None, bool]:
    """Indices, `dims` and `steps` of a tile (None for the defaults), and whether it needs a mask."""
    indices = [position(b, place, spans) for place in access.places]
    # A tile's dimensions are those of its loops that are tiled, in order; each runs along one dimension of the buffer.
    tiled = sorted((l, d) for d, place in enumerate(access.places) for l in place.terms if spans[l].size)
    dims = [d for _, d in tiled]
    steps = [access.places[d].terms[l] for l, d in tiled]
    masked = any(spans[l].masked for l, _ in tiled)
    return indices, dims_in(len(indices), dims), None if set(steps) <= {1} else steps, masked


class Matrix:
    """One matrix of a side of a product, as it is stored in memory: that of an element of the batch."""

    def __init__(self, b: Builder, buffer: Value, batch: Sequence[Value], side: Side | None):
        self.b, self.buffer = b, buffer
        self.before = list(batch)  # indices before the matrix's own
        self.row = len(self.before)  # the dimension of the buffer that its rows are along
        if isinstance(
            side, Strided
        ):  # implicit sides are not stored as matrices: kernels read what they have packed
            self.row = side.row
            parts = list[Span]()
            for number in batch:
                parts = delinearize(b, number, side.batch)
            self.before = [position(b, place, parts) for place in side.batch_indices]
            if side.is_window:
                self.cut(side.size)
        else:
            self.before += [b.index(0)] * 2

    def cut(self, size: tuple[int, int]) -> None:
        """Replaces the buffer by the subview of the matrix, so that accesses beyond its ends are out of bounds."""
        shape = (size[0], *[1] * (len(self.before) - self.row - 2), size[1])
        self.buffer = self.b.window(self.buffer, self.before, shape)
        self.row, self.before = 0, [self.b.index(0)] * len(shape)

    def load(
        self,
        row: Value,
        column: Value,
        type: Type,
        turned: bool = False,
        masked: bool = False,
        steps: tuple[int, int] | None = None,
    ) -> Value:
        """A tile from a row and a column on, in memory order or `turned`: then its rows are the matrix's columns. `steps`: the distance
        between rows of the tile, and between columns."""
        indices, dims = self.place(row, column)
        dims = dims_in(len(indices), dims[::-1] if turned else dims)
        return self.b.load(self.buffer, indices, type=type, dims=dims, steps=steps, masked=masked)

    def along(self, row: Value, depth: Value, type: Type, depth_first: bool, masked: bool = False) -> Value:
        """A tile of rows by steps of the depth, of a matrix that is stored depth x rows if `depth_first`."""
        place = (depth, row) if depth_first else (row, depth)
        return self.load(*place, type, turned=depth_first, masked=masked)

    def place(self, row: Value, column: Value) -> tuple[list[Value], list[int]]:
        """The indices of an element in the buffer, and which of them are the row and the column."""
        indices, dims = list(self.before), [self.row, len(self.before) - 1]
        indices[dims[0]], indices[dims[1]] = row, column
        return indices, dims

    def window(self, row: Value, column: Value, shape: tuple[int, int], masked: bool) -> Value:
        """The subview of a part of the matrix, whose rows are adjacent in the buffer. `masked`: it may extend beyond the matrix."""
        return self.b.window(self.buffer, self.place(row, column)[0], shape, masked)


def position(b: Builder, place: AffineExpr, spans: Sequence[Span]) -> Value:
    """The index of a tile's first element."""
    parts = [
        spans[l].start if stride == 1 else b.multiply(spans[l].start, b.index(stride))
        for l, stride in place.terms.items()
    ]
    if place.offset or not parts:
        parts.append(b.index(place.offset))
    return reduce(b.add, parts)


def gathered(
    b: Builder,
    side: Implicit,
    buffer: Value,
    batch: Sequence[Value],
    starts: Sequence[Value],
    type: VectorType,
    whole: bool,
) -> Value:
    """A tile of an implicit side from `starts` (rows, columns) on, whose elements are gathered; those beyond the side
    are 0. `whole`: there are none of these."""
    access = side.access
    counts = VectorType(type.shape, i32)
    at: dict[int, Value] = {}
    inside: list[Value] = []
    first = len(side.groups) - 2

    def number(value: int) -> Value:
        return b.number(value, counts)

    for dimension, loops in enumerate(side.groups):
        if dimension < first:
            place = b.splat(b.cast(batch[0], type=i32), counts)
        else:
            place = positions(b, starts[dimension - first], counts, dimension - first)
            if not whole:
                inside.append(b.less(place, number(prod(side.sizes(dimension)))))
        for i, loop in enumerate(reversed(loops)):
            size = number(access.sizes[loop])
            at[loop] = b.remainder(place, size) if i + 1 < len(loops) else place
            place = b.floor_divide(place, size)
    shown: list[Value] = []
    indices: list[Value] = []
    for place, size in zip(access.places, access.shape, strict=True):
        index = number(place.offset)
        for loop, stride in place.terms.items():
            index = b.add(index, b.multiply(at[loop], number(stride)))
        low, high = place.ends(access.sizes)
        if access.fill is not None and (low < 0 or high >= size):
            shown += [b.less_equal(number(0), index), b.less(index, number(size))]
        indices.append(index)
    if not (inside or shown):
        return b.gather_tile(buffer, indices, type=type)
    there = reduce(b.bitwise_and, [*inside, *shown])
    found = b.gather_tile(buffer, [b.select(there, index, number(0)) for index in indices], type=type)
    if shown and access.fill is not None:
        found = b.select(reduce(b.bitwise_and, shown), found, b.number(access.fill, type))
    if inside:
        found = b.select(reduce(b.bitwise_and, inside), found, b.number(0, type))
    return found
