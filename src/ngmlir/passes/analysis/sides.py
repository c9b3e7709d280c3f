# SPDX-License-Identifier: Apache-2.0
"""The sides of products, read through accesses: what is sliced, split into heads and transposed is a matrix for each
element of a batch all the same. Windows lie nowhere as matrices: a kernel packs what it multiplies next, element by element
from where an access finds it."""

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
from ...support.lengths import greatest_divisor, usual
from ...support.machines import COPIED_BYTES
from .access import MOVES, Access, access_in, access_of

#: Neighbours that are copied by a few vectors: where there are more, it does not matter how many.
_RUN = 64
#: Pieces of which a register has at most so many are copied one by one.
_PIECES = 4


@dataclass(frozen=True)
class Side:
    """A side of a product as its `access` finds it. `groups` are the loops of each of the side's dimensions ([batch,] rows,
    columns), in order."""

    access: Access
    groups: tuple[tuple[int, ...], ...]

    kind: ClassVar[str]  # what a nest calls it

    @property
    def shape(self) -> tuple[int, ...]:
        return self.access.shape

    def sizes(self, dimension: int) -> tuple[int, ...]:
        """The lengths of the loops of a dimension; a single step where it has none."""
        return tuple([self.access.sizes[l] for l in self.groups[dimension]])

    def map(self) -> Map:
        """As a nest holds it."""
        groups = tuple([self.sizes(d) for d in range(len(self.groups))])
        return Map((), self.access.places, self.access.shape, self.access.fill, self.kind, groups)


@dataclass(frozen=True)
class Strided(Side):
    """Matrices in a buffer, whose rows lie along dimension `row` and whose elements along the last one. Their rows and columns are
    the last two loops. The matrix is all that lies along these dimensions, or a window of `size` into them."""

    kind = "matrix"

    @cached_property
    def homes(self) -> list[int]:
        """The dimensions of the buffer along which the rows and the columns of the side run."""
        loops = len(self.access.sizes)
        each = (loops - 2, loops - 1)
        return [next(d for d, p in enumerate(self.access.places) if loop in p.terms) for loop in each]

    @property
    def row(self) -> int:
        return min(self.homes)

    @property
    def turned(self) -> bool:
        """Whether the rows in the buffer are the columns of the side."""
        return self.homes[0] > self.homes[1]

    @property
    def size(self) -> tuple[int, int]:
        rows, columns = self.access.sizes[-2:]
        return (columns, rows) if self.turned else (rows, columns)

    @property
    def batch(self) -> tuple[int, ...]:
        """The sizes of the loops over which the number of the matrix counts."""
        return self.access.sizes[:-2]

    @property
    def places(self) -> tuple[AffineExpr, ...]:
        """Where a matrix begins."""
        count = len(self.batch)
        return tuple(
            AffineExpr(p.offset, {t: s for t, s in p.terms.items() if t < count}) for p in self.access.places
        )

    @property
    def is_window(self) -> bool:
        """Whether the matrix is not all that lies along its dimensions."""
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
    forced_along_depth: bool = False  # packed along the depth, wherever elements lie closest

    @property
    def across(self) -> int:
        """The dimension that is kept."""
        return 2 * len(self.groups) - 3 - self.depth

    @cached_property
    def along_depth(self) -> bool:
        """Whether it is packed along the depth, and not across it: as elements lie closest."""
        return self.forced_along_depth or self._density(self.depth) >= self._density(self.across)

    @property
    def contiguous_depth(self) -> bool:
        """Whether neighbours along the depth are contiguous."""
        return self.run(self.depth) > 1 and self._distance(self.depth) <= 1

    def _density(self, dimension: int) -> float:
        """How many elements, for each element of memory that they span, the innermost loop of a dimension has; more than `_RUN`
        of them count as so many."""
        elements = min(_RUN, usual(self.run(dimension))) if self.groups[dimension] else 0
        return elements / max(1, self._distance(dimension))

    def _distance(self, dimension: int) -> int:
        """Elements of memory from one step of the innermost loop of a dimension to the next."""
        distance, step = 0, 1
        for size, place in zip(reversed(self.access.shape), reversed(self.access.places), strict=True):
            distance += sum(step * abs(usual(place.terms.get(l, 0))) for l in self.groups[dimension][-1:])
            step *= usual(size)
        return distance

    def run(self, dimension: int) -> int:
        """Elements of the innermost loop of a dimension."""
        return self.sizes(dimension)[-1] if self.groups[dimension] else 1

    def piece(self, dimension: int, length: int, step: int) -> int:
        """Elements that are copied at once where `length` of a dimension are, from a multiple of `step` on: a part of a
        run that all of them have in common."""
        return greatest_divisor(self.run(dimension), length, step)

    def cuts_short(self, dimension: int, length: int, step: int, lanes: int) -> bool:
        """Whether such pieces are a small part of a register of so many lanes: then whole runs are copied, across what cuts them."""
        return self.piece(dimension, length, step) < min(lanes // _PIECES, self.run(dimension))


def copied_piece(length: int, item: int, along: bool) -> int:
    """Bytes of the pieces in which a GPU copies rows of so many elements of `item` bytes to shared memory in the background,
    from where matrix instructions read them: `along` the depth, or across it, which `ldmatrix` turns for elements of 2 bytes
    alone; 0 where it cannot."""
    if not along and item != 2:
        return 0
    return max((bytes for bytes in COPIED_BYTES if length * item % bytes == 0), default=0)


def depths(dot: Op) -> tuple[int, int]:
    """The dimension of each side of a product that is summed over; -1 where that is not in [batch,] matrix form."""
    batch = get_i64s(dot, "lhs_batch")
    left, right = (get_i64s(dot, f"{side}_contract") for side in ("lhs", "rhs"))
    ranks = {len(shape_of(operand.type)) for operand in dot.operands}
    plain = len(left) == 1 and batch in ((), (0,)) and batch == get_i64s(dot, "rhs_batch")
    return (left[0], right[0]) if plain and ranks == {2 + len(batch)} else (-1, -1)


def side_in(map: Map, depth: int) -> Side:
    """The side that a map of a nest is, summed over dimension `depth`."""
    access = access_in(map, tuple(map.over(())))
    numbers = iter(range(len(access.sizes)))
    groups = tuple(tuple(next(numbers) for _ in group) for group in map.groups)
    return Implicit(access, groups, depth) if map.matrix == Implicit.kind else Strided(access, groups)


def side_of(
    value: Value, depth: int, through: Callable[[Value], Op | None], heads: bool = False
) -> tuple[Value, Side] | None:
    """What a side that only moves data moves, and how a product can read that; None where it is no such, or neither a matrix
    without moving it nor windows at affine places.

    `depth` is the dimension of the side that is summed over; `through` gives the op that makes a value if it may be looked through.
    `heads`: what rows are split into may lie side by side.
    """
    op = through(value)
    while op is not None and op.name == "ng.reshape":
        op = through(op.operands[0])
    if op is None or op.name not in MOVES:
        return None
    shape = shape_of(value.type)
    for whole in (False, True) if heads else (False,):
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
    """The matrices of a shape that an access reads; None where it reads others."""
    cut = None if access.fill is not None else _cut(access, shape, whole=True)
    if cut is None or not all(len(group) == 1 for group in cut[1][-2:]):
        return None
    access, groups = cut
    dims = _alone(access, (groups[-2][0], groups[-1][0]))
    if dims is None:
        return None
    access = replace(access, shape=tuple(size for size, _ in dims), places=tuple(p for _, p in dims))
    side = Strided(access, tuple(map(tuple, groups)))
    return side if len(dims) - 1 in side.homes else None


def _alone(access: Access, runs: tuple[int, ...]) -> list[tuple[int, AffineExpr]] | None:
    """The buffer's dimensions, cut so that each of the runs is a whole one, or part of one of which it leaves others to the
    rest of the runs; None if it cannot be."""
    dims: list[tuple[int, AffineExpr]] = []
    for size, place in zip(access.shape, access.places, strict=True):
        inner = [run for run in runs if run in place.terms]
        if not inner:
            dims.append((size, place))
            continue
        length = access.sizes[inner[-1]]
        if len(inner) > 1 or place.terms[inner[0]] != 1:
            return None
        if size % length and len(place.terms) > 1:
            dims.append((size, place))
            continue
        parts = place.divided(length, access.sizes) if size % length == 0 else None
        if parts is None or parts[1] != AffineExpr(0, {inner[-1]: 1}):
            return None
        if size != length:
            dims.append((size // length, parts[0]))
        dims.append((length, parts[1]))
    return dims


def _has_windows(op: Op | None, through: Callable[[Value], Op | None]) -> bool:
    while op is not None:
        if op.name == "ng.windows":
            return True
        op = through(op.operands[0])
    return False


def _cut(access: Access, shape: Sequence[int], whole: bool = False) -> tuple[Access, list[list[int]]] | None:
    """The access with its runs cut into loops so that each dimension of a shape is some of them, and these. `whole`: no run is cut."""
    sizes: list[int] = []
    parts: list[list[int]] = [[] for _ in access.sizes]  # of each run: its loops, outermost first
    groups: list[list[int]] = []
    left = list(enumerate(access.sizes))
    for size in shape:
        own: list[int] = []
        while size > 1:
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
    """Rows of the buffer that are read whole are one dimension with what runs over them; without a border all are."""
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
    """The access with as few loops as say the same."""
    return _merged(access, [[*range(len(access.sizes))]])[0]


def _merged(access: Access, groups: list[list[int]]) -> tuple[Access, tuple[tuple[int, ...], ...]]:
    """Neighbouring loops of a dimension as one, where that is as long a way."""
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
