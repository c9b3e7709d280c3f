# SPDX-License-Identifier: Apache-2.0
"""Schedules of windows on a CPU, with several rows of results at once: how many, and how many read from one copy of an input with its
border."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from ...ir.core import Value
from ...ir.literals import item_bytes
from ...ir.nest import AffineExpr
from ...ir.types import element_type
from ...ops.schedules import Columns
from ...ops.settings import Given
from ...support.lengths import is_open, usual
from ...support.target import Target
from ..analysis.access import Access, leaves, masks
from ..analysis.loop_nest import LoopNest, widest_item
from .candidate import Candidate, fixed
from .programs import PROGRAM_ELEMENTS

#: Numbers of rows that are tried if their number is open.
_FEW = (1, 2, 4, 8)
#: The most columns of a copy; the columns where their number is open.
_STRIPE, _OPEN_STRIPE = 256, 128


def staged(nest: LoopNest, target: Target, outer: Sequence[int]) -> dict[Value, Access]:
    """The inputs with an access that, for results in adjacent rows (`outer` are their loops), reads a box of its buffer, with the innermost
    loop along its rows, which may cross a border."""
    found = nest.accesses.items() if outer else ()
    return {
        value: access
        for value, access in found
        if masks(item_bytes(element_type(value.type)), target) and _is_box(access, outer, nest.sizes)
    }


def _is_box(access: Access, outer: Sequence[int], sizes: Sequence[int]) -> bool:
    last, along = len(sizes) - 1, outer[-1]
    if not access.crosses:
        return False
    moving = {along, last, *(l for l in range(last) if l not in outer)}
    terms = [{l: s for l, s in place.terms.items() if l in moving} for place in access.places]
    if sum(map(bool, terms)) < 2 or last not in terms[-1] or any(last in own for own in terms[:-1]):
        return False
    if sum(along in own for own in terms[:-1]) != 1 or along in terms[-1]:
        return False
    steps = [s for own in terms for s in own.values()]
    if is_open(steps) or min(steps) < 1 or is_open(sizes[l] for l in moving - {along, last}):
        return False
    # In all other dimensions it is inside.
    fixed = [(p, n) for p, n, own in zip(access.places, access.shape, terms, strict=True) if not own]
    return not leaves([p for p, _ in fixed], [n for _, n in fixed], sizes)


def staged_windows(
    nest: LoopNest, target: Target, given: Given, outer: Sequence[int]
) -> Candidate[Columns] | None:
    """The schedule of such windows, if adjacent rows read the same elements, their tiles can be read and written, and no given setting
    conflicts; otherwise None."""
    found = staged(nest, target, outer)
    own = given.keys() & {"unroll", "stage"}
    if (given and not own) or not any(_overlap(access, nest, outer) for access in found.values()):
        return None
    # A tile has rows and columns, and each runs along a dimension of a buffer of its own.
    both = {outer[-1], len(nest.sizes) - 1}
    others = [*nest.accesses.values(), *nest.written.values()]
    if any(both <= place.terms.keys() for access in others for place in access.places):
        return None
    last, along, lanes = len(nest.sizes) - 1, outer[-1], target.lanes(widest_item(nest))
    sizes = usual(nest.sizes)
    columns, rows = sizes[last], sizes[along]
    width = fixed(given, "tile", lanes if is_open(nest.sizes[last:]) else min(columns, lanes))
    taps = prod(n for l, n in enumerate(nest.sizes[:last]) if l not in outer)

    def cycles(unroll: int) -> float:
        return _cycles(found.values(), nest, target, outer, taps, unroll)

    # If their number is open, few rows are tried, so that few results are unused.
    most_unrolled = min(rows, target.vector_registers)  # each holds a sum
    several = _FEW if is_open((nest.sizes[along],)) else range(1, most_unrolled + 1)
    unroll = fixed(given, "unroll", min(several, key=cycles))
    most_columns = _OPEN_STRIPE if is_open(nest.sizes[last:]) else min(columns, _STRIPE)
    stripe = fixed(given, "stripe", -(-most_columns // width) * width)
    # What is used of the copy stays in the L1 cache.
    row, around, used = 0, 0, min(stripe, -(-columns // width) * width)
    for value, access in found.items():
        item = item_bytes(element_type(value.type))
        reach = [_reach(place, nest, outer, used) for place in access.places]
        row += reach[-1] * item * next(p.terms[along] for p in access.places if along in p.terms)
        around += prod(reach) * item
    room = target.l1_bytes // 2
    most = max(1, (room - around) // row // unroll)
    stage = fixed(given, "stage", unroll * min(most, -(-rows // unroll)))
    count = prod(sizes[l] for l in outer[:-1]) * -(-rows // stage)
    group = min(
        count, PROGRAM_ELEMENTS // (taps * columns * min(stage, rows)), room // (around + stage * row)
    )
    made = Columns(
        tile=width,
        band=0,
        stripe=stripe,
        rows=fixed(given, "rows", stage * max(1, group)),
        unroll=unroll,
        stage=stage,
    )
    tiles = prod(sizes[l] for l in outer) * -(-columns // width)
    return Candidate(made, tiles * cycles(unroll), tiles * taps / target.fmas)


def _reach(place: AffineExpr, nest: LoopNest, outer: Sequence[int], stripe: int) -> int:
    """How many positions of a dimension a row of results reads."""
    sizes = [*nest.sizes[:-1], stripe]
    return 1 + sum(s * (sizes[l] - 1) for l, s in place.terms.items() if l not in outer)


def _cycles(
    found: Iterable[Access], nest: LoopNest, target: Target, outer: Sequence[int], taps: int, unroll: int
) -> float:
    """Cycles of a register of results, with `unroll` rows at once: their arithmetic, and loads. Loads of windows cross cache lines,
    which takes two; and each spilled value takes another."""
    rows = nest.sizes[outer[-1]]
    loads, held = taps, 2 + unroll
    for access in found:
        loops, lines = _shared(access, nest, outer, unroll)
        held += lines
        loads += 2 * lines * (taps // loops) + 2 * taps * max(0, held - target.vector_registers)
    needed = unroll if is_open((rows,)) else rows / -(-rows // unroll)
    return (2 * unroll * taps / target.fmas + loads / target.loads) / needed


def _shared(access: Access, nest: LoopNest, outer: Sequence[int], unroll: int) -> tuple[int, int]:
    """How many taps read different rows of an access, and how many rows `unroll` adjacent results read."""
    (place,) = (p for p in access.places if outer[-1] in p.terms)
    own = {l: s for l, s in place.terms.items() if l not in outer}
    steps = [range(0, s * nest.sizes[l], s) for l, s in own.items()]
    seen = {r * place.terms[outer[-1]] + sum(at) for r in range(unroll) for at in product(*steps)}
    return prod(nest.sizes[l] for l in own), len(seen)


def _overlap(access: Access, nest: LoopNest, outer: Sequence[int]) -> bool:
    """Whether some of a few adjacent results read the same rows; with dilated windows not the nearest ones."""
    taps, seen = _shared(access, nest, outer, _FEW[-1])
    return seen < _FEW[-1] * taps


def order(access: Access, outer: Sequence[int], reduced: Sequence[int]) -> list[int]:
    """The reduced loops, at the end those along which adjacent results read the same elements."""
    (place,) = (p for p in access.places if outer[-1] in p.terms)
    return sorted(reduced, key=lambda l: l in place.terms)
