# SPDX-License-Identifier: Apache-2.0
"""Which results of a loop or branch a program needs, and what of its bodies is needed for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ..ops import ng
from .node import Op
from .regions import ControlOp, GraphRegion, RegionParameter
from .tensor import Tensor


class Needed(NamedTuple):
    """Of a loop or branch: the numbers of the results and operands, and of each region the parameters and results."""

    results: tuple[int, ...]
    operands: tuple[int, ...]
    regions: tuple[tuple[GraphRegion, Sequence[RegionParameter], Sequence[Tensor]], ...]


def needed(op: ControlOp, used: Collection[int]) -> Needed:
    """What is needed of an op of which these results are used."""
    if op.kind is ng.IfOp:
        return _needed(op, used, (), (0,))
    carried = op.attributes.get("carried", op.operand_count)
    *asked, repeated = op.regions
    entered = {i for region in asked for i in _entered(region, region.results)}
    results = set(used) | entered
    known: set[int] = set()
    while known != results:
        # A carried value that the body reads must be carried, whether its result is used or not.
        known = set(results)
        entered |= _entered(repeated, [repeated.results[i] for i in sorted(known)])
        results |= {i for i in entered if i < carried}
    places = {i for i in results if i < carried} | entered
    if op.kind is ng.ScanOp and all(i < carried for i in places):
        places.add(carried)  # a scan is as long as what it runs along
    return _needed(op, results, places, places)


def _needed(
    op: ControlOp, results: Iterable[int], parameters: Iterable[int], operands: Iterable[int]
) -> Needed:
    numbers, places = tuple(sorted(results)), sorted(parameters)

    def given(region: GraphRegion) -> Sequence[Tensor]:
        is_condition = op.kind is ng.WhileOp and region is op.regions[0]
        return region.results if is_condition else [region.results[i] for i in numbers]

    regions = [(r, [r.parameters[i] for i in places], given(r)) for r in op.regions]
    return Needed(numbers, tuple(sorted(operands)), tuple(regions))


def _entered(region: GraphRegion, roots: Sequence[Op]) -> set[int]:
    inside = set(region.inside(roots))
    return {i for i, p in enumerate(region.parameters) if p in inside}
