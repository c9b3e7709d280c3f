# SPDX-License-Identifier: Apache-2.0
"""The sides of products, read through accesses: slices, heads and transposes are still a strided matrix for each
element of a batch. Windows are stored nowhere as matrices: a kernel packs the part that it multiplies next, reading elements
through the access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import ClassVar

from ...ir.core import Op, Value
from ...ir.nest import AffineExpr, Map
from ...ir.types import shape_of
from ...ops.fields import get_i64s
from ...support.lengths import greatest_divisor, may_be_several, usual
from ...support.machines import COPIED_BYTES
from .access import MATRIX_MOVES, Access, access_in, access_of

#: Length of contiguous elements that a few vector instructions copy: longer ones are not preferred.
_RUN = 64
#: Most contiguous parts of a vector register that are copied one by one.
_PIECES = 4


@dataclass(frozen=True)
class Side:
    """A side of a product that is read through `access`. `groups` are the loops of each of the side's dimensions ([batch,] rows,
    columns), in order."""

    access: Access
    groups: tuple[tuple[int, ...], ...]

    kind: ClassVar[str]  # its name in the text of a nest

    @property
    def shape(self) -> tuple[int, ...]:
        return self.access.shape

    def sizes(self, dimension: int) -> tuple[int, ...]:
        """The lengths of the loops of a dimension; () where it has none."""
        return tuple([self.access.sizes[l] for l in self.groups[dimension]])

    def map(self) -> Map:
        """The side as an indexing map of a nest."""
        groups = tuple([self.sizes(d) for d in range(len(self.groups))])
        return Map((), self.access.places, self.access.shape, self.access.fill, self.kind, groups)


@dataclass(frozen=True)
class Strided(Side):
    """Matrices in a buffer: dimension `row` counts their rows, the last dimension the elements of a row. The last two loops are rows and
    columns of the side. A matrix spans these dimensions, or is a window of `size` into them."""

    kind = "matrix"

    @cached_property
    def dimensions(self) -> list[int]:
        """The dimensions of the buffer that the rows and the columns of the side run along."""
        loops = len(self.access.sizes)
        each = (loops - 2, loops - 1)
        return [next(d for d, p in enumerate(self.access.places) if loop in p.terms) for loop in each]

    @property
    def row(self) -> int:
        return min(self.dimensions)

    @property
    def is_transposed(self) -> bool:
        """Whether the rows in the buffer are the columns of the side."""
        return self.dimensions[0] > self.dimensions[1]

    @property
    def size(self) -> tuple[int, int]:
        rows, columns = self.access.sizes[-2:]
        return (columns, rows) if self.is_transposed else (rows, columns)

    @property
    def batch(self) -> tuple[int, ...]:
        """The sizes of the batch loops."""
        return self.access.sizes[:-2]

    @property
    def batch_indices(self) -> tuple[AffineExpr, ...]:
        """The indices at which a matrix begins, in terms of the batch loops."""
        count = len(self.batch)
        return tuple(
            AffineExpr(p.offset, {t: s for t, s in p.terms.items() if t < count}) for p in self.access.places
        )

    @property
    def is_window(self) -> bool:
        """Whether the matrix does not span its dimensions of the buffer."""
        return self.size != (self.shape[self.row], self.shape[-1])

    @property
    def distance(self) -> int:
        """Elements from one row to the next."""
        return prod(self.shape[self.row + 1 :])


@dataclass(frozen=True)
class Implicit(Side):
    """Windows. `depth` is the dimension that is summed over."""

    kind = "windows"

    depth: int
    forced_along_depth: bool = False  # packed along the depth, even if elements are closer across it

    @property
    def across(self) -> int:
        """The dimension that is not summed over."""
        return 2 * len(self.groups) - 3 - self.depth

    @cached_property
    def along_depth(self) -> bool:
        """Whether it is packed along the depth: if elements are at least as close in memory as across it."""
        return self.forced_along_depth or self._density(self.depth) >= self._density(self.across)

    @property
    def contiguous_depth(self) -> bool:
        """Whether adjacent elements along the depth are contiguous in memory."""
        return self.run(self.depth) > 1 and self._distance(self.depth) <= 1

    def _density(self, dimension: int) -> float:
        """The length of the innermost loop of a dimension, at most `_RUN`, divided by its stride in memory."""
        elements = min(_RUN, usual(self.run(dimension))) if self.groups[dimension] else 0
        return elements / max(1, self._distance(dimension))

    def _distance(self, dimension: int) -> int:
        """The stride in memory, in elements, of the innermost loop of a dimension."""
        distance, step = 0, 1
        for size, place in zip(reversed(self.access.shape), reversed(self.access.places), strict=True):
            distance += sum(step * abs(usual(place.terms.get(l, 0))) for l in self.groups[dimension][-1:])
            step *= usual(size)
        return distance

    def run(self, dimension: int) -> int:
        """The length of the innermost loop of a dimension."""
        return self.sizes(dimension)[-1] if self.groups[dimension] else 1

    def piece(self, dimension: int, length: int, step: int) -> int:
        """The number of elements that are copied at once when `length` elements of a dimension are packed, starting at a multiple of
        `step`: the greatest common divisor with the run, so that no copy crosses its end."""
        return greatest_divisor(self.run(dimension), length, step)

    def cuts_short(self, dimension: int, length: int, step: int, lanes: int) -> bool:
        """Whether such a copy is a small part of a vector register of `lanes`: then whole runs are copied, across multiples of `step`."""
        return self.piece(dimension, length, step) < min(lanes // _PIECES, self.run(dimension))


def copied_chunk(length: int, item: int, along: bool) -> int:
    """Bytes of the chunks in which a GPU copies rows of `length` elements of `item` bytes to shared memory asynchronously, for matrix
    instructions to read: rows `along` the depth, or across it, which `ldmatrix` transposes for elements of 2 bytes only; 0 where
    it cannot."""
    if not along and item != 2:
        return 0
    return max((bytes for bytes in COPIED_BYTES if length * item % bytes == 0), default=0)


def depths(dot: Op) -> tuple[int, int]:
    """The contracted dimension of each side of a product; -1 where it is not in [batch,] matrix form."""
    batch = get_i64s(dot, "lhs_batch")
    left, right = (get_i64s(dot, f"{side}_contract") for side in ("lhs", "rhs"))
    ranks = {len(shape_of(operand.type)) for operand in dot.operands}
    plain = len(left) == 1 and batch in ((), (0,)) and batch == get_i64s(dot, "rhs_batch")
    return (left[0], right[0]) if plain and ranks == {2 + len(batch)} else (-1, -1)


def side_in(map: Map, depth: int) -> Side:
    """The side for an indexing map of a nest, contracted over dimension `depth`."""
    access = access_in(map, tuple(map.over(())))
    numbers = iter(range(len(access.sizes)))
    groups = tuple(tuple(next(numbers) for _ in group) for group in map.groups)
    return Implicit(access, groups, depth) if map.matrix == Implicit.kind else Strided(access, groups)


def side_of(
    value: Value, depth: int, through: Callable[[Value], Op | None], heads: bool = False
) -> tuple[Value, Side] | None:
    """The operand of a side that only moves data, and how a product can read it; None where it is no such side, or the operand can be
    read neither as strided matrices nor as windows with affine indices.

    `depth` is the contracted dimension of the side; `through` returns the op that makes a value if it may be read through.
    `heads`: rows may be split into heads that are adjacent in memory.
    """
    first = op = through(value)
    while op is not None and op.name == "ng.reshape":
        op = through(op.operands[0])
    if first is None or op is None or op.name not in MATRIX_MOVES:
        return None
    repeats = op.name == "ng.broadcast"
    op = first if repeats else op  # the matrices that are repeated may be reshaped to rows
    shape = shape_of(value.type)
    for whole in (False, True) if heads or repeats else (False,):
        found = access_of(op, through, whole)
        side = None if found is None else _strided(found[1], shape)
        if found is not None and side is not None:
            return found[0], side
    if depth < 0 or not _has_windows(op, through):
        return None
    found = access_of(op, through, whole=True)
    cut = None if found is None else _cut(found[1], shape)
    return (
        None
        if found is None or cut is None
        else (found[0], Implicit(*_merged(_joined(cut[0]), cut[1]), depth))
    )


def _strided(access: Access, shape: Sequence[int]) -> Strided | None:
    """An access as strided matrices of a shape; None where it reads no such matrices."""
    cut = None if access.fill is not None else _cut(access, shape, whole=True)
    if cut is None or [len(group) for group in cut[1][-2:]] != [1, 1]:
        return None
    access, groups = cut
    runs = (groups[-2][0], groups[-1][0])
    dims = _alone(access, runs)
    if dims is None or not all(any(run in place.terms for _, place in dims) for run in runs):
        return None
    access = replace(access, shape=tuple(size for size, _ in dims), places=tuple(p for _, p in dims))
    side = Strided(access, tuple(map(tuple, groups)))
    return side if len(dims) - 1 in side.dimensions else None


def _alone(access: Access, runs: tuple[int, ...]) -> list[tuple[int, AffineExpr]] | None:
    """The buffer's dimensions, split so that each of `runs` has a whole dimension, or is a window into one with the other runs moving
    its start; None if that is not possible."""
    dims: list[tuple[int, AffineExpr]] = []
    left = list(zip(access.shape, access.places, strict=True))
    while left:
        size, place = left.pop()
        inner = [run for run in runs if run in place.terms]
        if not inner:
            dims.append((size, place))
            continue
        last = next((run for run in inner if place.terms[run] == 1), None)
        if last is None:
            return None
        length = access.sizes[last]
        if size % length and len(place.terms) > 1 and len(inner) == 1:
            dims.append((size, place))
            continue
        parts = place.divided(length, access.sizes) if size % length == 0 else None
        if parts is None or parts[1] != AffineExpr(0, {last: 1}):
            return None
        dims.append((length, parts[1]))
        if size != length:
            left.append((size // length, parts[0]))
    dims.reverse()
    return dims


def _has_windows(op: Op | None, through: Callable[[Value], Op | None]) -> bool:
    while op is not None:
        if op.name == "ng.windows":
            return True
        op = through(op.operands[0])
    return False


def _cut(access: Access, shape: Sequence[int], whole: bool = False) -> tuple[Access, list[list[int]]] | None:
    """The access with its runs split into loops so that each dimension of a shape is a group of loops, and these groups. `whole`: runs
    are not split. None where that is not possible."""
    sizes: list[int] = []
    parts: list[list[int]] = [[] for _ in access.sizes]  # of each run: its loops, outermost first
    groups: list[list[int]] = []
    left = list(enumerate(access.sizes))
    for size in shape:
        own: list[int] = []
        while may_be_several(size):
            run, length = left.pop(0)
            if size % length == 0:
                taken = length
            elif not whole and length % size == 0:
                taken = size
                left.insert(0, (run, length // size))
            else:
                return None
            parts[run].append(len(sizes))
            own.append(len(sizes))
            sizes.append(taken)
            size //= taken
        groups.append(own)
    strides = {l: prod(sizes[m] for m in loops[i + 1 :]) for loops in parts for i, l in enumerate(loops)}
    places = tuple(
        AffineExpr(p.offset, {l: s * strides[l] for t, s in p.terms.items() for l in parts[t]})
        for p in access.places
    )
    return replace(access, places=places, sizes=tuple(sizes), runs=()), groups


def _joined(access: Access) -> Access:
    """The access with dimensions of the buffer merged: a dimension that is read whole with the one outside it; all of them, if there
    is no border."""
    dims: list[tuple[int, AffineExpr]] = []
    for size, place in reversed(list(zip(access.shape, access.places, strict=True))):
        if dims:
            inner, row = dims[-1]
            whole = (
                row.offset == 0
                and list(row.terms.values()) == [1]
                and all(access.sizes[l] == inner for l in row.terms)
            )
            if access.fill is None or whole or (inner == 1 and row == AffineExpr(0, {})):
                dims[-1] = (size * inner, place.times(inner).plus(row))
                continue
        dims.append((size, place))
    dims.reverse()
    return replace(access, shape=tuple(s for s, _ in dims), places=tuple(p for _, p in dims))


def with_merged_loops(access: Access) -> Access:
    """The access with adjacent loops merged where possible."""
    return _merged(access, [[*range(len(access.sizes))]])[0]


def _merged(access: Access, groups: list[list[int]]) -> tuple[Access, tuple[tuple[int, ...], ...]]:
    """Merges adjacent loops of a dimension where the outer stride is that of the whole inner loop."""
    sizes = list(access.sizes)
    places = [dict(p.terms) for p in access.places]
    kept: list[list[int]] = []
    for group in groups:
        own: list[int] = []
        for loop in group:
            if own and all(p.get(own[-1], 0) == p.get(loop, 0) * sizes[loop] for p in places):
                outer = own.pop()
                sizes[loop] *= sizes[outer]
                for p in places:
                    p.pop(outer, None)
            own.append(loop)
        kept.append(own)
    number = {loop: i for i, loop in enumerate(l for own in kept for l in own)}
    made = replace(
        access,
        places=tuple(
            AffineExpr(p.offset, {number[l]: s for l, s in terms.items()})
            for p, terms in zip(access.places, places, strict=True)
        ),
        sizes=tuple(sizes[l] for own in kept for l in own),
    )
    return made, tuple(tuple(number[l] for l in own) for own in kept)
