# SPDX-License-Identifier: Apache-2.0
"""Accesses: which element of a buffer is read for each element of a result that only moves data.

A chain of slices, pads, transposes and reshapes is one affine map from positions in its result to positions in its operand. So a
kernel can read the operand through the map, and needs no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ...ir.attributes import Attribute, StringAttr, numeric_literal
from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.nest import AffineExpr, Map
from ...ir.types import element_type, shape_of
from ...ops.fields import get_i64s
from ...ops.parts import first_of_part
from ...support.lengths import at_least, below, is_same, usual
from ...support.machines import CHUNK_BYTES
from ...support.target import Target

#: Least length of a row, in vector registers, for which separate loops over its parts before, between and after borders pay.
LONG_ROW = 4

#: Least stride of the innermost loop, in elements, that is too slow to read if elements of other loops are in between.
FAR = 8

#: Ops that only move data: every element of the result is an element of the operand or a constant.
MOVES = frozenset({"ng.slice", "ng.pad", "ng.transpose", "ng.windows"})
#: The same, and the op that repeats elements, which only products read through: the same matrix for several elements of a batch.
MATRIX_MOVES = MOVES | {"ng.broadcast"}
#: Those that move data, and those that only a kernel of their own reads through a map.
MAPPED_MOVES = MOVES | {"ng.border_pad"}


def is_part(op: Op, target: Target) -> bool:
    """Whether the result of a slice is a view of its operand, without a kernel. On GPUs it must begin at an aligned address, since
    threads read several elements at once."""
    first = first_of_part(op)
    if first is None or not target.has_thread_blocks:
        return first is not None
    return first * item_bytes(element_type(op.operands[0].type)) % CHUNK_BYTES == 0


def masks(item: int, target: Target) -> bool:
    """Whether the target has masked vector loads for elements of `item` bytes."""
    return target.can("masks") or (item >= 4 and target.can("word_masks"))


def is_long(row: int, item: int, target: Target) -> bool:
    """Whether a row of this length is long enough for separate loops over its parts."""
    return usual(row) >= LONG_ROW * target.lanes(item)


@dataclass(frozen=True)
class Access:
    """An indexing map: `places` has for each dimension of a buffer, viewed in `shape`, the index as an affine expression of runs.

    A run is a group of adjacent dimensions of the result, merged; `sizes` are the lengths of the runs. Positions outside
    the shape read `fill`; it is None where there are none. It may be the mode of a border of own elements.
    """

    shape: tuple[int, ...]
    places: tuple[AffineExpr, ...]
    runs: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    fill: Attribute | None

    @property
    def border(self) -> str:
        """The mode by which positions beyond the shape read elements of the buffer; "" where they read a number, or nothing."""
        return self.fill.value if isinstance(self.fill, StringAttr) else ""

    @property
    def closest(self) -> Mapping[int, int]:
        """The strides of the runs in the innermost dimension of the buffer that any run moves along."""
        return next((place.terms for place in reversed(self.places) if place.terms), dict[int, int]())

    @property
    def in_order(self) -> bool:
        """Whether adjacent elements of the result's innermost run are near each other in the buffer: in the innermost dimension, and
        with a small stride or no rows of other runs in between."""
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
        """Whether the result is the whole source with its dimensions permuted, except the innermost."""
        return self._whole and self.in_order

    @property
    def transposes(self) -> bool:
        """Whether the loops are in another order than the dimensions of the buffer that they run along."""
        dims = [loop for place in self.places for loop in place.terms]
        return dims != sorted(dims)

    @property
    def reorders(self) -> bool:
        """Whether the result is the whole source with its dimensions permuted."""
        dims = [loop for place in self.places for loop in place.terms]
        return self._whole and sorted(dims) == [*range(len(self.sizes))]

    def inverse(self) -> Access:
        """The inverse of an access that permutes: where each element of the source is in the result. Its runs are the dimensions of
        the source."""
        at = {t: d for d, place in enumerate(self.places) for t in place.terms}
        places = tuple(AffineExpr(0, {at[t]: 1}) for t in range(len(self.sizes)))
        runs = tuple((d,) for d in range(len(self.shape)))
        return replace(self, shape=self.sizes, places=places, runs=runs, sizes=self.shape)

    @property
    def crosses(self) -> bool:
        """Whether a part of a row may be outside the buffer."""
        last = len(self.sizes) - 1
        along = [(p, n) for p, n in zip(self.places, self.shape, strict=True) if last in p.terms]
        return self.fill is not None and leaves([p for p, _ in along], [n for _, n in along], self.sizes)

    def in_parts(self, item: int, target: Target) -> bool:
        """Whether rows of elements of `item` bytes must be read in parts, since the machine has no masked loads to read across a
        border, or beyond it are elements of the row."""
        return self.crosses and (bool(self.border) or not masks(item, target))

    def borders(self, loop: int) -> set[int]:
        """The iterations of a loop at which an index that depends on it alone enters or leaves the shape."""
        found: set[int] = set()
        for place, size in zip(self.places, self.shape, strict=True):
            if set(place.terms) == {loop}:
                stride = place.terms[loop]
                first, end = (0, size) if stride > 0 else (size - 1, -1)
                found.update(-((place.offset - at) // stride) for at in (first, end))
        return found

    def with_long_runs(self) -> Access:
        """The access with adjacent runs, on which every index depends as on one, as one run."""
        groups: list[list[int]] = []
        for t, size in enumerate(self.sizes):
            strides = [(p.terms.get(t - 1, 0), p.terms.get(t, 0)) for p in self.places]
            if groups and all(is_same(far, near * size) for far, near in strides):
                groups[-1].append(t)
            else:
                groups.append([t])
        last = {group[-1]: number for number, group in enumerate(groups)}
        return replace(
            self,
            places=tuple(
                AffineExpr(p.offset, {last[t]: n for t, n in p.terms.items() if t in last})
                for p in self.places
            ),
            runs=tuple(tuple(d for t in group for d in self.runs[t]) for group in groups),
            sizes=tuple(prod(self.sizes[t] for t in group) for group in groups),
        )

    def over(self, loops: Sequence[Sequence[int]], sizes: Sequence[int]) -> Access:
        """The access by loops instead of runs: each run is the merge of some loops, the last one innermost."""
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
    """The access of an indexing map in a nest with loops of these sizes."""
    assert map.places is not None
    return Access(map.shape, map.places, (), sizes, map.fill)


def access_of(
    op: Op, through: Callable[[Value], Op | None], whole: bool = False
) -> tuple[Value, Access] | None:
    """The operand of a chain of moves and reshapes that ends with `op`, and how the result is read from it; None where that is not
    affine.

    `through` returns the op that makes a value if the chain includes it. `whole`: dimensions of the result and of the buffer are
    not merged, for kernels whose tiles have several dimensions.
    """
    sizes = shape_of(op.results[0].type)
    places = [AffineExpr(0, {d: 1} if size != 1 else {}) for d, size in enumerate(sizes)]
    current: Op | None = op
    source, fill = op.results[0], None
    shape, seen = sizes, False
    while current is not None:
        (source,) = current.operands
        if seen and current.name != "ng.reshape":
            return None  # elements that the border hides would be read, or rows before the reshape differ
        if not seen:
            moved = _before(current, places, sizes)
            # A reshape of rows that are read partially is not affine: the buffer is viewed in the shape of its result.
            seen = moved is None
            if moved is not None:
                places, shape = moved, shape_of(source.type)
            if "low" in current.attributes and leaves(places, shape, sizes):
                given = current.attributes.get("border") or current.attributes.get("value")
                fill = numeric_literal(0, element_type(source.type)) if given is None else given
                seen = True  # reshapes before the pad change nothing: the buffer is viewed in the shape of the pad's operand
        current = through(source)
    return source, _merged(shape, places, sizes, fill, whole)


def _before(op: Op, places: Sequence[AffineExpr], sizes: Sequence[int]) -> list[AffineExpr] | None:
    """The indices in the operand of a move or reshape, from those in its result."""
    match op.name:
        case "ng.slice":
            starts, steps = get_i64s(op, "starts"), get_i64s(op, "steps")
            return [p.times(n).shifted(o) for p, n, o in zip(places, steps, starts, strict=True)]
        case "ng.pad" | "ng.border_pad":
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
        case "ng.broadcast":
            return [places[d] for d in get_i64s(op, "dimensions")]
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
    """Whether some position is outside a shape, or is for some lengths."""
    ends = [place.ends(sizes) for place in places]
    return not all(
        at_least(low, 0) and below(high, size) for (low, high), size in zip(ends, shape, strict=True)
    )


def _merged(
    shape: Sequence[int],
    places: Sequence[AffineExpr],
    sizes: Sequence[int],
    fill: Attribute | None,
    whole: bool,
) -> Access:
    """The access with as few dimensions and runs as possible: a dimension that is read whole is merged with the next outer one
    (unless `whole`), so that kernels have long loops."""
    runs = {d: [d] for d, size in enumerate(sizes) if not is_same(size, 1)}
    lengths = list(sizes)
    kept: list[tuple[int, AffineExpr]] = []
    for size, place in reversed(list(zip(shape, places, strict=True))):
        if is_same(size, 1) and place == AffineExpr(0, {}):
            continue
        # Rows before and after a border of the operand's own elements are not those that adjacent positions name.
        separate = whole or (isinstance(fill, StringAttr) and leaves([place], [size], sizes))
        joined = _joined(size, place, *kept[-1], runs, lengths) if kept and not separate else None
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
    """Two adjacent dimensions of a buffer merged into one, if the inner one is read whole; merges their runs too."""
    ((run, step),) = row.terms.items() if len(row.terms) == 1 else ((-1, 0),)
    if step != 1 or not is_same(row.offset, 0) or not is_same(lengths[run], inner):
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
