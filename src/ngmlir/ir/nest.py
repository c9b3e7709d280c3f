# SPDX-License-Identifier: Apache-2.0
"""The loop nest of a fusion: the attribute `ng.nest`.

    %0 = ng.fusion rows(%1 = %x, %2 = %x) {ng.nest = #ng.nest<d0 = 8, d1 = 4 reduction
        read [d0, d1]
        read [d0, d1 * 2 + 1] of [8, 9] fill 0.0 : f32
        write [d0]>} -> tensor<8xf32> {

First the loops, outermost first: name, length, and kind if not `parallel`. Then an indexing map for each operand, as in
`linalg.generic`, and for each result. A list of loops: the operand, reshaped to the lengths of these loops, is indexed by them.
A map `of` a shape: the operand, reshaped to that shape, is indexed by affine expressions of the loops; positions outside the shape have
the value of `fill`; if that is a string, they read elements of the operand, as the op `ng.border_pad` says. Inside the fusion a value
has a dimension for each loop along which it changes, in the order of the loops, and the names of these loops as its axes.

Inside the fusion, an operand of a product is a matrix, or a batch of matrices: `matrix [d0, d2]`, with the loops of its dimensions. The
last loop of a product is its depth. `matrix [d0, d1, d3] = [[4], [128], [8, 8]] at [c0, c1, c3, c2] of [4, 128, 8, 8]` is one that is not
a strided matrix in memory: each of its dimensions consists of loops, numbered from c0, by which the operand is indexed; it is `windows`
instead of `matrix` if windows overlap in memory.

`read [d0, *, d1] of [4, 1000, 64]` is an operand that a gather inside the fusion indexes: the dimension `*` is not indexed by a loop. Inside,
the operand has this dimension, and one for each loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ..support.borders import MODES, has_room
from ..support.lengths import Length, NeedsLength, at_least, below, is_same, quotient
from .attributes import Attribute, AxesAttr, Spelling, StringAttr, UniquedAttribute, spelled
from .types import TensorType, Type, element_type

#: The attribute of a fusion that holds it.
NEST = "ng.nest"
KINDS = ("parallel", "reduction")
#: How a map spells the dimension that a gather indexes, and the name of this dimension inside the fusion.
GATHERED, GATHERED_AXIS = "*", "_"


@dataclass(frozen=True)
class AffineExpr:
    """`offset` + the sum of loop * stride over `terms`, which are keyed by the number of the loop."""

    offset: int
    terms: Mapping[int, int]

    def __hash__(self) -> int:
        return hash((self.offset, tuple(sorted(self.terms.items()))))

    def shifted(self, by: int) -> AffineExpr:
        return AffineExpr(self.offset + by, self.terms)

    def times(self, factor: int) -> AffineExpr:
        return AffineExpr(self.offset * factor, {t: s * factor for t, s in self.terms.items()})

    def plus(self, other: AffineExpr) -> AffineExpr:
        """The sum of two expressions."""
        own, terms = self.terms, other.terms
        both = {t: own[t] + s for t, s in terms.items() if t in own}
        return AffineExpr(self.offset + other.offset, {**own, **terms, **both})

    def ends(self, sizes: Sequence[int]) -> tuple[int, int]:
        """The least and the greatest value over loops of these sizes."""
        return self.between([(0, size) for size in sizes])

    def between(self, sections: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The same, where each loop runs from one step to before another."""
        ends = [sorted((s * sections[t][0], s * (sections[t][1] - 1))) for t, s in self.terms.items()]
        return self.offset + sum(low for low, _ in ends), self.offset + sum(high for _, high in ends)

    def divided(self, size: int, sizes: Sequence[int]) -> tuple[AffineExpr, AffineExpr] | None:
        """The quotient and the remainder by `size`; None where these are not affine."""
        try:
            row, offset = divmod(self.offset, size)
        except NeedsLength:
            return None
        parts = {t: quotient(s, size) for t, s in self.terms.items()}
        whole = {t: s for t, s in parts.items() if s is not None}
        rest = AffineExpr(offset, {t: s for t, s in self.terms.items() if parts[t] is None})
        low, high = rest.ends(sizes)
        return (AffineExpr(row, whole), rest) if at_least(low, 0) and below(high, size) else None

    def text(self, letter: str) -> str:
        """`d0 * 2 + d1 - 1`; `letter` precedes the numbers of loops."""
        terms = [f"{letter}{t}" + (f" * {s}" if s != 1 else "") for t, s in self.terms.items()]
        if self.offset or not terms:
            terms.append(str(self.offset))
        return " + ".join(terms).replace("+ -", "- ")


class Loop(NamedTuple):
    """A loop of a nest. Its name is `d` and its number."""

    size: int
    kind: str = "parallel"


class Map(NamedTuple):
    """An indexing map: how an operand is read, or a result is written.

    `loops`: those of its dimensions, in memory or, for an operand of a product, inside the fusion. If it is not a list of loops,
    `places` has an expression for each dimension of `shape`; outside are elements of `fill` (None: nothing is read outside). `groups`,
    for an operand of a product: the lengths of the loops of each of its dimensions, over which `places` are defined; empty if it is a
    matrix in memory. `gathered`: the dimension of `shape` that a gather inside the fusion indexes, if there is one.
    """

    loops: tuple[int, ...] = ()
    places: tuple[AffineExpr, ...] | None = None
    shape: tuple[int, ...] = ()
    fill: Attribute | None = None
    matrix: str = ""
    groups: tuple[tuple[int, ...], ...] = ()
    gathered: int | None = None

    def spell(self, constant: Spelling | None) -> str:
        loops = f"[{', '.join(f'd{l}' for l in self.loops)}]"
        if self.places is None:
            return f"{self.matrix} {loops}" if self.matrix else loops
        letter = "c" if self.matrix else "d"
        places = [place.text(letter) for place in self.places]
        if self.gathered is not None:
            places[self.gathered] = GATHERED
        text = f"[{', '.join(places)}] of {_sizes(self.shape)}"
        if self.fill is not None:
            text += f" fill {spelled(self.fill, constant)}"
        groups = f"[{', '.join(map(_sizes, self.groups))}]"
        return f"{self.matrix} {loops} = {groups} at {text}" if self.matrix else text

    def over(self, sizes: Sequence[int]) -> Sequence[int]:
        """The lengths of the loops of `places`: those of the nest, or of an operand of a product."""
        return [size for group in self.groups for size in group] if self.matrix else sizes

    @property
    def used(self) -> tuple[int, ...]:
        """The loops along which the operand changes, in order."""
        if self.places is None:
            return tuple(sorted(self.loops))
        return tuple(sorted({loop for place in self.places for loop in place.terms}))


class NestAttr(UniquedAttribute):
    """`#ng.nest<...>`: the loops of a fusion, and the indexing maps of its operands and results."""

    __slots__ = ("loops", "reads", "writes")

    def __init__(self, loops: tuple[Loop, ...], reads: tuple[Map, ...], writes: tuple[Map, ...]):
        self.loops, self.reads, self.writes = loops, reads, writes

    def spell(self, constant: Spelling | None = None) -> str:
        loops = [
            f"d{i} = {l.size}" + (f" {l.kind}" if l.kind != KINDS[0] else "")
            for i, l in enumerate(self.loops)
        ]
        lines = [", ".join(loops), *(f"read {m.spell(constant)}" for m in self.reads)]
        lines += [f"write {m.spell(constant)}" for m in self.writes]
        text = "\n    ".join(lines)
        return f"#ng.nest<{text}>"

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple([loop.size for loop in self.loops])

    @property
    def space(self) -> tuple[int, ...]:
        """The sizes of the loops of a kernel's tiles: all but the depth of a product."""
        product = (
            any(read.matrix for read in self.reads) and self.loops[-1:] and self.loops[-1].kind != KINDS[0]
        )
        return self.sizes[:-1] if product else self.sizes

    @property
    def has_windows(self) -> bool:
        """Whether this is the nest of a product of windows."""
        return any(read.matrix == "windows" for read in self.reads)

    def lengths(self) -> list[Length]:
        """All numbers in it that depend on open lengths."""
        found: list[int] = [*self.sizes]
        for each in (*self.reads, *self.writes):
            found += [*each.shape, *each.over(())]
            for place in each.places or ():
                found += [place.offset, *place.terms.values()]
        return [number for number in found if isinstance(number, Length)]

    def inside(self, operands: Sequence[Type]) -> list[Type]:
        """The types inside the fusion of operands of these types."""
        return [self.argument(m, given) for m, given in zip(self.reads, operands, strict=True)]

    def argument(self, read: Map, given: Type) -> Type:
        """The type inside the fusion of an operand of type `given`."""
        if read.matrix:
            return self.matrix(read, given)
        if read.gathered is None:
            return self.type_over(read.used, element_type(given))
        assert read.places is not None
        names = [f"d{l}" for place in read.places for l in place.terms]
        names.insert(read.gathered, GATHERED_AXIS)
        return TensorType(read.shape, element_type(given), AxesAttr(*names))

    def matrix(self, read: Map, given: Type) -> Type:
        """The type of an operand of a product inside the fusion."""
        if read.places is None:
            return given
        shape = [prod(group) for group in read.groups]
        return TensorType(tuple(shape), element_type(given))

    def type_over(self, loops: Sequence[int], element: Type) -> TensorType:
        """The type of a value that changes along some loops, given in order."""
        axes = AxesAttr(*[f"d{l}" for l in loops])
        return TensorType(tuple([self.loops[l].size for l in loops]), element, axes)

    def loops_of(self, type: Type) -> tuple[int, ...]:
        """The loops along which a value of a type inside the fusion changes."""
        axes = type.axes if isinstance(type, TensorType) else None
        return tuple([int(name[1:]) for name in axes or () if name != GATHERED_AXIS])


def _sizes(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def complaint(nest: NestAttr, operands: Sequence[Type], results: Sequence[Type]) -> str:
    """The error in a nest, given the types of the fusion's operands and results; "" if there is none."""
    if (len(nest.reads), len(nest.writes)) != (len(operands), len(results)):
        return (
            f"the nest has {len(nest.reads)} maps of operands and {len(nest.writes)} of results, "
            f"but there are {len(operands)} and {len(results)}"
        )
    both = zip((*nest.reads, *nest.writes), (*operands, *results), strict=True)
    for number, (map, type) in enumerate(both):
        what = f"operand {number}" if number < len(operands) else f"result {number - len(operands)}"
        if why := _map_complaint(map, nest.sizes, type, number >= len(operands)):
            return f"the map of {what} {why}"
    return ""


def _map_complaint(map: Map, sizes: Sequence[int], type: Type, written: bool) -> str:
    if not isinstance(type, TensorType):
        return "is of no tensor"
    if map.matrix and written:
        return "is that of an operand of a product"
    if len(set(map.loops)) < len(map.loops) or any(l >= len(sizes) for l in map.loops):
        return "names a loop twice, or one that there is not"
    seen = prod([sizes[l] for l in map.loops])
    if map.places is not None:
        over = map.over(sizes)
        if map.matrix and prod(over) != seen:
            return f"has {prod(over)} elements for loops of {seen} steps"
        if any(loop >= len(over) for place in map.places for loop in place.terms):
            return "names a loop that there is not"
        if len(map.places) != len(map.shape):
            return f"has {len(map.places)} expressions for {len(map.shape)} dimensions"
        if map.gathered is not None and (written or not _is_gathered(map, sizes)):
            return "indexes the other dimensions of what is gathered otherwise than by one loop of their length each, in order"
        ends = [place.ends(over) for place in map.places]
        outside = any(low < 0 or high >= size for (low, high), size in zip(ends, map.shape, strict=True))
        if outside and (map.fill is None or written):
            return "leaves its shape, and has no fill" if not written else "leaves its shape"
        if isinstance(map.fill, StringAttr):
            each = zip(ends, map.shape, strict=True)
            if (
                map.matrix
                or map.fill.value not in MODES
                or not all(
                    has_room(map.fill.value, n, max(0, -low), max(0, high + 1 - n)) for (low, high), n in each
                )
            ):
                return f"cannot be padded with elements of its own by '{map.fill.value}'"
        if written and any(place.offset or [*place.terms.values()] not in ([], [1]) for place in map.places):
            return "writes other than one element for each step"
        seen = prod(map.shape)
    if type.static and seen != prod(type.shape):
        return f"is of {seen} elements, but {type} has {prod(type.shape)}"
    return ""


def _is_gathered(map: Map, sizes: Sequence[int]) -> bool:
    """Whether each dimension of a map but the one that is gathered is indexed by one loop of its length, in order."""
    loops = list[int]()
    for dimension, (place, size) in enumerate(zip(map.places or (), map.shape, strict=True)):
        if dimension != map.gathered:
            (loop,) = place.terms if len(place.terms) == 1 else (-1,)
            if place != AffineExpr(0, {loop: 1}) or not is_same(sizes[loop], size):
                return False
            loops.append(loop)
    return not map.matrix and map.fill is None and loops == sorted(set(loops))
