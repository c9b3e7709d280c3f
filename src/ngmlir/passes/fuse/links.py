# SPDX-License-Identifier: Apache-2.0
"""The links of a chain: fusions that run one after the other on each block of rows, since each computes a row from the same row
of the results of earlier ones.

    %0 = ng.fusion chain(%q, %k, %v) -> ... {
      %s = ng.fusion dot(%q, %k) -> ...       rows of scores
      %p = ng.fusion rows(%s) -> ...          their softmax
      %o = ng.fusion dot(%p, %v) -> ...       each row times a matrix
      ng.yield %o
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import element_type, shape_of
from ...support.lengths import is_open
from ...support.target import Target
from ..analysis.group import kind
from ..analysis.loop_nest import LoopNest, loop_nest
from ..analysis.product import Product, oriented, product_of
from ..analysis.reduction import reductions
from ..analysis.views import source

#: Least rows of a product in a chain: products of fewer rows may be vectorized along the depth, and not be tiled by rows.
LEAST_ROWS = 9


@dataclass(frozen=True, eq=False)
class Link:
    """One fusion of a chain: `batch` times `rows` rows; a row reduction has batch 1."""

    fusion: Op
    nest: LoopNest
    batch: int
    rows: int
    lead: tuple[int, ...]  # the loops over batch and rows
    dot: Op | None = None
    product: Product | None = None

    @property
    def count(self) -> int:
        """The number of all rows."""
        return self.batch * self.rows

    @cached_property
    def results(self) -> dict[Value, Value]:
        """The value of the nest for each result of the fusion."""
        return dict(zip(self.fusion.results, self.nest.outputs, strict=True))

    def argument(self, number: int) -> Value:
        """The value of the nest for an operand of the fusion."""
        return self.nest.inputs[number]

    def row_shape(self, value: Value) -> tuple[int, ...] | None:
        """The shape of one row of a value, if its rows are contiguous; else None."""
        loops = self.nest.loops.get(value, ())
        first = loops[: len(self.lead)]
        if first != self.lead or list(loops) != sorted(loops) or value in self.nest.written:
            return None
        return tuple(self.nest.sizes[l] for l in loops[len(self.lead) :])

    def row_bytes(self, value: Value) -> int:
        return prod(self.row_shape(value) or ()) * item_bytes(element_type(value.type))


def link_of(fusion: Op, target: Target) -> Link | None:
    """A fusion as a link of a chain; None for one that cannot be computed by rows, or has open lengths: chains are cut into blocks of
    a known number of rows."""
    if any(is_open(shape_of(v.type)) for v in (*fusion.operands, *fusion.results)):
        return None
    if kind(fusion) == "rows":
        nest = loop_nest(fusion)
        kept = len(nest.loops[reductions(nest.ops, target)[0].result])
        return Link(fusion, nest, 1, prod(nest.sizes[:kept]), tuple(range(kept)))
    if kind(fusion) != "dot":
        return None
    nest = loop_nest(fusion)
    dot = next(op for op in nest.ops if op.name == "ng.dot")
    product = product_of(dot, nest.sides)
    loops = nest.loops[dot.results[0]]
    is_transposed = oriented(product, target)[0] is not product
    if any(product.implicit) or product.rows < LEAST_ROWS or is_transposed:
        return None
    return Link(fusion, nest, max(1, product.batch), product.rows, loops[:-1], dot, product)


def obstacle(first: Link, value: Value, second: Link, number: int) -> str:
    """Why a result of one link cannot be passed row by row to another, as operand `number`; "" if it can."""
    made, read = first.results[value], second.argument(number)
    if first.count != second.count or (
        first.product is not None and second.product is not None and first.rows != second.rows
    ):
        return f"the one has {first.count} rows, the other {second.count}"
    if read in second.nest.accesses or read in second.nest.sides or read in second.nest.gathered:
        return "what is handed on is moved, for which it must be whole"
    wanted = [second.row_shape(read)] if read in second.nest.loops else []
    if second.dot is not None and second.product is not None and read in second.dot.operands:
        left, right = second.dot.operands
        if read is right or read is not left:
            return "what is multiplied on the right must be whole"
        if second.product.lhs_depth_first or second.product.lhs_element is not second.product.accumulator:
            return "a left side that is turned or widened must be whole"
        wanted.append((second.product.depth,))
    rest = first.row_shape(made)
    if rest is None or any(each != rest for each in wanted):
        return "an intermediate result is not contiguous by rows"
    return ""


def left_is_passed(link: Link) -> bool:
    """Whether the left side of a link's product is the result of another link."""
    sides = [link.nest.side(side)[0] for side in (link.dot.operands[:1] if link.dot else ())]
    return any(isinstance(source(link.fusion.operands[number]).owner, Op) for number in sides)


def links_of(chain: Op, target: Target) -> list[Link]:
    """The fusions of a chain, in order."""
    found = [link_of(op, target) for op in chain.block.ops if op.name == "ng.fusion"]
    return [link for link in found if link is not None]


def passed_values(links: Sequence[Link]) -> Mapping[Value, Link]:
    """The values that links pass to other links, each with the link that computes it."""
    made = {value: link for link in links for value in link.fusion.results}
    return {v: made[v] for link in links for v in map(source, link.fusion.operands) if v in made}


def shared_buffers(links: Sequence[Link]) -> Mapping[Value, Value]:
    """For each value that is passed between links the value whose buffer it uses: a result with one element for each element of a
    row reuses the buffer of an operand of the same shape and type that has no other reader."""
    made = passed_values(links)
    readers = [value for link in links for value in map(source, link.fusion.operands)]
    found: dict[Value, Value] = {}
    for link in links:
        whole = tuple(range(len(link.nest.sizes)))
        free = [
            value
            for number, operand in enumerate(link.fusion.operands)
            if (value := source(operand)) in made
            and readers.count(value) == 1
            and link.product is None
            and link.nest.loops.get(link.argument(number)) == whole
        ]
        for result, value in link.results.items():
            if result in made:
                element = element_type(result.type)
                same = [
                    v for v in free if element_type(v.type) is element and link.nest.loops[value] == whole
                ]
                found[result] = found[same[0]] if same else result
                free = [v for v in free if v not in same[:1]]
    return found


def faults(chain: Op, target: Target) -> list[str]:
    """Why the fusions of a chain cannot be one kernel."""
    inside = [op for op in chain.block.ops[:-1] if op.name != "ng.reshape"]
    links = links_of(chain, target)
    if len(links) < len(inside) or len(inside) < 2 or not any(link.product for link in links):
        return ["a chain holds two or more fusions of kind 'dot' and 'rows', one product at least, and views"]
    made = passed_values(links)
    found = [
        why
        for link in links
        for number, operand in enumerate(link.fusion.operands)
        if (value := source(operand)) in made and (why := obstacle(made[value], value, link, number))
    ]
    products = {(link.batch, link.rows) for link in links if link.product}
    if len(products) > 1 or len({link.count for link in links}) > 1:
        found.append("its fusions have other numbers of rows")
    if any(source(v) in made for v in chain.block.ops[-1].operands):
        found.append("what one fusion hands to another is not given back as well")
    return list(dict.fromkeys(found))
