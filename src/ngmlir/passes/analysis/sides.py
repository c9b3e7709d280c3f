# SPDX-License-Identifier: Apache-2.0
"""The sides of products, read through accesses: what is sliced, split into heads and transposed is a matrix for each
element of a batch all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.core import Op, Value
from ...ir.nest import AffineExpr, Map
from ...ir.types import shape_of
from ...support.machines import COPIED_BYTES
from .access import MOVES, Access, access_of


@dataclass(frozen=True)
class Side:
    """A side of a product as it lies in a buffer of `shape`: matrices whose rows lie along dimension `row` and whose
    elements along the last one; `turned` if these rows are the columns of the side. The number of the matrix counts
    over runs of `batch` sizes, over which `places` are summed. Dimension `row` and the last have none if the matrix is all
    that lies along them; else it is a window of `size` into these."""

    shape: tuple[int, ...]
    places: tuple[AffineExpr, ...]
    batch: tuple[int, ...]
    row: int
    turned: bool
    size: tuple[int, int]

    @property
    def is_window(self) -> bool:
        """Whether the matrix is not all that lies along its dimensions."""
        return self.size != (self.shape[self.row], self.shape[-1])

    @property
    def distance(self) -> int:
        """Elements from one row to the next."""
        distance = 1
        for size in self.shape[self.row + 1 :]:
            distance *= size
        return distance

    def map(self, rank: int) -> Map:
        """As a nest holds it, of an operand with so many dimensions."""
        first, second = len(self.batch), len(self.batch) + 1
        near, far = (first, second) if self.turned else (second, first)
        places = list(self.places)
        places[self.row] = places[self.row].plus(AffineExpr(0, {far: 1}))
        places[-1] = places[-1].plus(AffineExpr(0, {near: 1}))
        rows, columns = self.size[::-1] if self.turned else self.size
        batch = [self.batch] if rank == 3 else []
        return Map((), tuple(places), self.shape, None, "matrix", (*batch, (rows,), (columns,)))


def copied_piece(length: int, item: int, along: bool) -> int:
    """Bytes of the pieces in which a GPU copies rows of so many elements of `item` bytes to shared memory in the background,
    from where matrix instructions read them: `along` the depth, or across it, which `ldmatrix` turns for elements of 2 bytes
    alone; 0 where it cannot."""
    if not along and item != 2:
        return 0
    return max((bytes for bytes in COPIED_BYTES if length * item % bytes == 0), default=0)


def side_in(map: Map) -> Side:
    """The side that a map of a nest is."""
    assert map.places is not None
    *batch, rows, columns = map.groups
    runs = tuple(size for group in batch for size in group)
    matrix = (len(runs), len(runs) + 1)
    homes = [next(d for d, place in enumerate(map.places) if run in place.terms) for run in matrix]
    places = tuple(
        AffineExpr(p.offset, {t: s for t, s in p.terms.items() if t not in matrix}) for p in map.places
    )
    size = (*rows, *columns)
    turned = homes[0] > homes[1]
    return Side(map.shape, places, runs, min(homes), turned, (size[turned], size[not turned]))


def side_of(
    value: Value, through: Callable[[Value], Op | None], whole: bool = False
) -> tuple[Value, Side] | None:
    """What a side that only moves data moves, and how a product can read that; None where it is no such, or no matrix without
    moving it.

    `through` gives the op that makes a value if it may be looked through; `whole` as for `access_of`.
    """
    op = through(value)
    while op is not None and op.name == "ng.reshape":
        op = through(op.operands[0])
    found = access_of(op, through, whole) if op is not None and op.name in MOVES else None
    if found is None or found[1].fill is not None:
        return None
    source, access = found
    groups = _grouped(access, shape_of(value.type))
    if groups is None:
        return None
    *batch, first, second = groups
    if len(first) != 1 or len(second) != 1:
        return None
    matrix = (first[0], second[0])
    dims = _alone(access, matrix)
    if dims is None:
        return None
    homes = [next(i for i, (_, p) in enumerate(dims) if run in p.terms) for run in matrix]
    if max(homes) != len(dims) - 1:
        return None
    runs = [run for group in batch for run in group]
    number = {run: i for i, run in enumerate(runs)}
    places = tuple(
        AffineExpr(p.offset, {number[t]: s for t, s in p.terms.items() if t not in matrix}) for _, p in dims
    )
    lengths = sorted(zip(homes, (access.sizes[run] for run in matrix), strict=True))
    return source, Side(
        tuple(size for size, _ in dims),
        places,
        tuple(access.sizes[run] for run in runs),
        min(homes),
        homes[0] > homes[1],
        (lengths[0][1], lengths[1][1]),
    )


def _grouped(access: Access, shape: tuple[int, ...]) -> list[list[int]] | None:
    """The runs that each dimension of a shape is made of, if it ends where one of them does."""
    groups: list[list[int]] = []
    runs = list(range(len(access.runs)))
    for size in shape:
        own: list[int] = []
        while size > 1 and runs and size % access.sizes[runs[0]] == 0:
            size //= access.sizes[runs[0]]
            own.append(runs.pop(0))
        if size != 1:
            return None
        groups.append(own)
    return groups


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
