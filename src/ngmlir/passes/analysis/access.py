# SPDX-License-Identifier: Apache-2.0
"""Accesses: which element of a buffer is read for each element of a result that only moves data.

A chain of slices, pads, transposes and reshapes is one affine map from positions in its result to positions in what it
begins with. So a kernel can read the one through the other, and nothing has to be moved beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir.attributes import Attribute, numeric_literal
from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.nest import AffineExpr, Map
from ...ir.types import element_type, shape_of
from ...ops.fields import get_i64s
from ...ops.parts import first_of_part
from ...support.lengths import is_same, usual
from ...support.machines import PIECE_BYTES
from ...support.target import Target

#: Elements of a row for each lane of a register from which it pays to read it in parts, before, between and behind its
#: borders.
LONG_ROW = 4

#: Steps of the innermost loop that are too far to be read one by one, if others lie between.
FAR = 8

#: Ops that only move data, and whose every result element is an element of the operand or a fixed one.
MOVES = frozenset({"ng.slice", "ng.pad", "ng.transpose", "ng.windows"})


def is_part(op: Op, target: Target) -> bool:
    """Whether the result of a slice is read where it lies in the operand's memory, without any kernel. Blocks of threads
    read several elements at once, from aligned places only."""
    first = first_of_part(op)
    if first is None or not target.shares_tiles:
        return first is not None
    return first * item_bytes(element_type(op.operands[0].type)) % PIECE_BYTES == 0


def masks(item: int, target: Target) -> bool:
    """Whether some elements of a register, of `item` bytes each, can be read without the others."""
    return target.can("masks") or (item >= 4 and target.can("word_masks"))


def is_long(row: int, item: int, target: Target) -> bool:
    """Whether a row of so many elements is worth loops of their own for its parts."""
    return usual(row) >= LONG_ROW * target.lanes(item)


@dataclass(frozen=True)
class Access:
    """An indexing map: how a result is read from a buffer that is seen in `shape`, with a place for each dimension.

    What runs is a `run`: neighbouring dimensions of the result, together `sizes` long. Positions outside the shape give
    `fill`; it is None where there are none.
    """

    shape: tuple[int, ...]
    places: tuple[AffineExpr, ...]
    runs: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    fill: Attribute | None

    @property
    def closest(self) -> Mapping[int, int]:
        """The steps of the runs along which elements lie closest in the buffer."""
        return next((place.terms for place in reversed(self.places) if place.terms), dict[int, int]())

    @property
    def in_order(self) -> bool:
        """Whether neighbours along the result's innermost run lie near each other in the buffer: in its closest dimension, and no
        whole rows of other runs apart."""
        last = len(self.sizes) - 1
        if not self.closest or last not in self.closest:
            return not self.closest
        step = abs(usual(self.closest[last]))
        between = (abs(usual(n * self.sizes[t])) for t, n in self.closest.items() if t != last)
        return step < FAR or not any(0 < row <= step for row in between)

    @property
    def _whole(self) -> bool:
        each = zip(self.shape, self.places, strict=True)
        return self.fill is None and all(
            any(size == self.sizes[t] and place == AffineExpr(0, {t: 1}) for t in place.terms)
            for size, place in each
        )

    @property
    def permutes(self) -> bool:
        """Whether the result is the whole source, its dimensions in another order, but for the innermost."""
        return self._whole and self.in_order

    @property
    def transposes(self) -> bool:
        """Whether its loops run along the buffer's dimensions in another order than their own."""
        dims = [loop for place in self.places for loop in place.terms]
        return dims != sorted(dims)

    @property
    def reorders(self) -> bool:
        """Whether the result is the whole source, its dimensions in another order."""
        dims = [loop for place in self.places for loop in place.terms]
        return self._whole and sorted(dims) == [*range(len(self.sizes))]

    def inverse(self) -> Access:
        """Where each element of the source lies in the result, of an access that permutes: its runs are the dimensions of
        the source."""
        at = {t: d for d, place in enumerate(self.places) for t in place.terms}
        places = tuple(AffineExpr(0, {at[t]: 1}) for t in range(len(self.sizes)))
        runs = tuple((d,) for d in range(len(self.shape)))
        return replace(self, shape=self.sizes, places=places, runs=runs, sizes=self.shape)

    @property
    def crosses(self) -> bool:
        """Whether a part of a row may lie beyond a border."""
        last = len(self.sizes) - 1
        along = [(p, n) for p, n in zip(self.places, self.shape, strict=True) if last in p.terms]
        return self.fill is not None and leaves([p for p, _ in along], [n for _, n in along], self.sizes)

    def in_parts(self, item: int, target: Target) -> bool:
        """Whether rows of elements of `item` bytes must be read in parts, as the machine has no masks to read them across the
        border."""
        return self.crosses and not masks(item, target)

    def borders(self, loop: int) -> set[int]:
        """The steps of a loop from which on a position along it alone is inside the shape, or no longer."""
        found: set[int] = set()
        for place, size in zip(self.places, self.shape, strict=True):
            if set(place.terms) == {loop}:
                stride = place.terms[loop]
                first, end = (0, size) if stride > 0 else (size - 1, -1)
                found.update(-((place.offset - at) // stride) for at in (first, end))
        return found

    def over(self, loops: Sequence[Sequence[int]], sizes: Sequence[int]) -> Access:
        """The access with loops in place of runs: each run is some of them, the last one fastest."""
        strides: list[dict[int, int]] = []
        for run in loops:
            step, own = 1, dict[int, int]()
            for loop in reversed(run):
                own[loop] = step
                step *= sizes[loop]
            strides.append(own)
        return replace(
            self,
            places=tuple(
                AffineExpr(p.offset, {l: n * s for t, s in p.terms.items() for l, n in strides[t].items()})
                for p in self.places
            ),
            sizes=tuple(sizes),
        )


def access_in(map: Map, sizes: tuple[int, ...]) -> Access:
    """The map of a nest with loops of these sizes."""
    assert map.places is not None
    return Access(map.shape, map.places, (), sizes, map.fill)


def access_of(
    op: Op, through: Callable[[Value], Op | None], whole: bool = False
) -> tuple[Value, Access] | None:
    """What a chain of moves and reshapes begins with, and how the result of the last is read from it; None where that is not
    affine.

    `through` gives the op that makes a value if the chain goes on through it. `whole`: each dimension of the result is
    a run of its own, and of the buffer a place, for kernels whose tiles have several dimensions.
    """
    sizes = shape_of(op.results[0].type)
    places = [AffineExpr(0, {d: 1} if size != 1 else {}) for d, size in enumerate(sizes)]
    current: Op | None = op
    source, fill = op.results[0], None
    shape, seen = sizes, False
    while current is not None:
        (source,) = current.operands
        if seen and current.name != "ng.reshape":
            return None  # what the border hides of this op's operand would show, or its elements lie in other rows
        if not seen:
            moved = _before(current, places, sizes)
            # Rows that are read in parts may end anywhere in those before a reshape: the buffer is seen without it.
            seen = moved is None
            if moved is not None:
                places, shape = moved, shape_of(source.type)
            if current.name == "ng.pad" and leaves(places, shape, sizes):
                given = current.attributes.get("value")
                fill = numeric_literal(0, element_type(source.type)) if given is None else given
                seen = True  # behind a border reshapes change nothing: the buffer is seen as the pad took it
        current = through(source)
    return source, _merged(shape, places, sizes, fill, whole)


def _before(op: Op, places: Sequence[AffineExpr], sizes: Sequence[int]) -> list[AffineExpr] | None:
    """Places in the operand of a move or reshape, from those in its result."""
    match op.name:
        case "ng.slice":
            starts, steps = get_i64s(op, "starts"), get_i64s(op, "steps")
            return [p.times(n).shifted(o) for p, n, o in zip(places, steps, starts, strict=True)]
        case "ng.pad":
            return [p.shifted(-low) for p, low in zip(places, get_i64s(op, "low"), strict=True)]
        case "ng.windows":
            axes = get_i64s(op, "axes")
            taps, found = places[: len(axes)], [*places[len(axes) :]]
            for d, tap, n, m in zip(
                axes, taps, get_i64s(op, "steps"), get_i64s(op, "dilations"), strict=True
            ):
                found[d] = found[d].times(n).plus(tap.times(m))
            return found
        case "ng.transpose":
            order = get_i64s(op, "permutation")
            return [places[order.index(d)] for d in range(len(order))]
        case _:
            return _reshaped(op, places, sizes)


def _reshaped(op: Op, places: Sequence[AffineExpr], sizes: Sequence[int]) -> list[AffineExpr] | None:
    whole = AffineExpr(0, {})
    for place, size in zip(places, shape_of(op.results[0].type), strict=True):
        whole = whole.times(size).plus(place)
    found: list[AffineExpr] = []
    for size in reversed(shape_of(op.operands[0].type)):
        parts = whole.divided(size, sizes)
        if parts is None:
            return None
        whole, place = parts
        found.insert(0, place)
    return found


def leaves(places: Sequence[AffineExpr], shape: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether some position lies outside a shape."""
    ends = [place.ends(sizes) for place in places]
    return any(low < 0 or high >= size for (low, high), size in zip(ends, shape, strict=True))


def _merged(
    shape: Sequence[int],
    places: Sequence[AffineExpr],
    sizes: Sequence[int],
    fill: Attribute | None,
    whole: bool,
) -> Access:
    """The access in as few dimensions and runs as say the same: rows that are read whole are one with what runs over
    them, so that kernels have long loops."""
    runs = {d: [d] for d, size in enumerate(sizes) if not is_same(size, 1)}
    lengths = list(sizes)
    kept: list[tuple[int, AffineExpr]] = []
    for size, place in reversed(list(zip(shape, places, strict=True))):
        if is_same(size, 1) and place == AffineExpr(0, {}):
            continue
        joined = _joined(size, place, *kept[-1], runs, lengths) if kept and not whole else None
        if joined is None:
            kept.append((size, place))
        else:
            kept[-1] = joined
    number = {first: i for i, first in enumerate(runs)}
    return Access(
        tuple(size for size, _ in reversed(kept)),
        tuple(AffineExpr(p.offset, {number[t]: s for t, s in p.terms.items()}) for _, p in reversed(kept)),
        tuple(tuple(run) for run in runs.values()),
        tuple(lengths[first] for first in runs),
        fill,
    )


def _joined(
    size: int, place: AffineExpr, inner: int, row: AffineExpr, runs: dict[int, list[int]], lengths: list[int]
) -> tuple[int, AffineExpr] | None:
    """Two neighbouring dimensions of a buffer as one, if rows are read whole; joins their runs too."""
    ((run, step),) = row.terms.items() if len(row.terms) == 1 else ((-1, 0),)
    if step != 1 or row.offset or lengths[run] != inner:
        return None
    if not place.terms:
        return size * inner, AffineExpr(place.offset * inner, row.terms)
    order = list(runs)
    outer = order[order.index(run) - 1] if run != order[0] else -1
    if dict(place.terms) != {outer: 1}:
        return None
    runs[outer] += runs.pop(run)
    lengths[outer] *= lengths[run]
    return size * inner, AffineExpr(place.offset * inner, {outer: 1})
