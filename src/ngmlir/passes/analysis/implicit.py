# SPDX-License-Identifier: Apache-2.0
"""Sides of products that lie nowhere as matrices: windows. A kernel packs what it multiplies next, element by element
from where an access finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from ...ir.core import Op, Value
from ...ir.nest import AffineExpr, Map
from ...ir.types import shape_of
from ...ops.fields import get_i64s
from ...support.lengths import greatest_divisor, usual
from .access import MOVES, Access, access_of

#: Neighbours that are copied by a few vectors: where there are more, it does not matter how many.
_RUN = 64


@dataclass(frozen=True)
class Implicit:
    """A side of a product as its `access` finds it. `groups` are the loops of each of the side's dimensions ([batch,]
    rows, columns), `depth` is the one of them that is summed over."""

    access: Access
    groups: tuple[tuple[int, ...], ...]
    depth: int
    lined: bool = False  # packed along the depth, wherever elements lie closest

    @property
    def shape(self) -> tuple[int, ...]:
        return self.access.shape

    @property
    def across(self) -> int:
        """The dimension that is kept."""
        return 2 * len(self.groups) - 3 - self.depth

    def sizes(self, dimension: int) -> tuple[int, ...]:
        """The lengths of the loops of a dimension; a single step where it has none."""
        return tuple([self.access.sizes[l] for l in self.groups[dimension]])

    @cached_property
    def along_depth(self) -> bool:
        """Whether it is packed along the depth, and not across it: as elements lie closest."""
        return self.lined or self._run(self.depth) >= self._run(self.across)

    @property
    def beside(self) -> bool:
        """Whether neighbours along the depth lie side by side."""
        return self._run(self.depth) == self.run(self.depth) > 1

    def _run(self, dimension: int) -> float:
        """How many elements, for each element of memory that they span, the innermost loop of a dimension has; more than `_RUN`
        of them count as so many."""
        loops = self.groups[dimension]
        if not loops:
            return 0
        distance, step = 0, 1
        for size, place in zip(reversed(self.access.shape), reversed(self.access.places), strict=True):
            distance += step * abs(usual(place.terms.get(loops[-1], 0)))
            step *= usual(size)
        return min(_RUN, usual(self.access.sizes[loops[-1]])) / max(1, distance)

    def run(self, dimension: int) -> int:
        """Elements of the innermost loop of a dimension."""
        return self.sizes(dimension)[-1] if self.groups[dimension] else 1

    def piece(self, dimension: int, length: int, step: int) -> int:
        """Elements that are copied at once where `length` of a dimension are, from a multiple of `step` on: a part of a
        run that all of them have in common."""
        return greatest_divisor(self.run(dimension), length, step)

    def map(self) -> Map:
        """As a nest holds it."""
        groups = tuple([self.sizes(d) for d in range(len(self.groups))])
        return Map((), self.access.places, self.access.shape, self.access.fill, "windows", groups)


def depths(dot: Op) -> tuple[int, int]:
    """The dimension of each side of a product that is summed over; -1 where that is not in [batch,] matrix form."""
    batch = get_i64s(dot, "lhs_batch")
    left, right = (get_i64s(dot, f"{side}_contract") for side in ("lhs", "rhs"))
    ranks = {len(shape_of(operand.type)) for operand in dot.operands}
    plain = len(left) == 1 and batch in ((), (0,)) and batch == get_i64s(dot, "rhs_batch")
    return (left[0], right[0]) if plain and ranks == {2 + len(batch)} else (-1, -1)


def implicit_in(map: Map, depth: int) -> Implicit:
    """The side that a map of a nest is, summed over dimension `depth`."""
    assert map.places is not None
    sizes = tuple(map.over(()))
    numbers = iter(range(len(sizes)))
    groups = tuple(tuple(next(numbers) for _ in group) for group in map.groups)
    return Implicit(Access(map.shape, map.places, (), sizes, map.fill), groups, depth)


def implicit_side(
    value: Value, depth: int, through: Callable[[Value], Op | None]
) -> tuple[Value, Implicit] | None:
    """What the windows that a side of a product is are windows of, and how they are found; None where it is none, or they are at
    no affine places.

    `depth` is the dimension of the side that is summed over; `through` gives the op that makes a value if it may be
    looked through.
    """
    op = through(value)
    while op is not None and op.name == "ng.reshape":
        op = through(op.operands[0])
    if depth < 0 or op is None or op.name not in MOVES or not _has_windows(op, through):
        return None
    found = access_of(op, through, whole=True)
    cut = None if found is None else _cut(found[1], shape_of(value.type))
    if found is None or cut is None:
        return None
    access, groups = cut
    return found[0], Implicit(*_merged(_joined(access), groups), depth)


def _has_windows(op: Op | None, through: Callable[[Value], Op | None]) -> bool:
    while op is not None:
        if op.name == "ng.windows":
            return True
        op = through(op.operands[0])
    return False


def _cut(access: Access, shape: Sequence[int]) -> tuple[Access, list[list[int]]] | None:
    """The access with its runs cut into loops so that each dimension of a shape is some of them, and these."""
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
            elif length % size == 0:
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
