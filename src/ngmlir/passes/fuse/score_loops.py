# SPDX-License-Identifier: Apache-2.0
"""The loops and the operands of an attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ...ir.core import Op, Value
from ...ir.types import element_type, f32, f64
from ...support.diagnostics import Limit
from ...support.lengths import is_same
from ...support.target import Target
from ..analysis.loop_nest import LoopNest, Shape, loop_nest
from ..analysis.product import Product, product_of
from ..analysis.sides import Implicit
from ..analysis.views import needed
from .loops import loops_of
from .nest import in_nest
from .score_fusions import fusion_of
from .scores import Attention, attention_of, is_dot


@dataclass(frozen=True, eq=False)
class OrderedLoops:
    """A nest with the loop over keys before those over queries, and the numbers of its loops."""

    nest: LoopNest
    batch: tuple[int, ...]
    keys: int
    outer: tuple[int, ...]
    queries: int

    @property
    def key_count(self) -> int:
        return self.nest.sizes[self.keys]

    @property
    def query_count(self) -> int:
        """The number of queries for each iteration of the outer loops."""
        return self.nest.sizes[self.queries]

    @property
    def parts(self) -> int:
        """The number of iterations of the outer loops."""
        return prod([self.nest.sizes[l] for l in self.outer])


@dataclass(frozen=True, eq=False)
class Streams(OrderedLoops):
    """The loops and operands of an attention or of its gradient, computed with queries along the lanes of vector registers.

    `nest` has the loops [batch..., keys, outer queries..., queries]: the mask may differ for parts of the queries, such as
    heads that share keys; `straight` has the keys last, in the order of the scores' dimensions. Among the values of the nest are
    the product of queries and keys (`scored`) and the operand of the softmax (`masked`). `inputs` are the operands of the
    fusion that masking reads, by number, with the shapes in which they are read; `sides` the same for those of the products.
    """

    straight: LoopNest
    scores: Product
    scored: Value
    masked: Value
    inputs: tuple[tuple[int, Shape], ...]
    sides: tuple[tuple[int, Shape], ...]
    located_op: Op  # gives the kernel its location


@dataclass(frozen=True, eq=False)
class Streamed(Streams):
    """Those of an attention, with its second product. `sides` are queries, keys and values."""

    attention: Attention
    result: Product


def looped(fusion: Op, target: Target) -> tuple[LoopNest, tuple[Value, ...]] | None:
    """The loops of a fusion with products, and its operands in the order of the nest; None where it has no common loops, or a side
    of a product is no matrix in memory."""
    try:
        found = loops_of(fusion, target)
    except Limit:
        return None
    there = {*found.sides, *found.fusion.block.args}
    lies = all(v in there for op in found.fusion.block.ops if is_dot(op) for v in op.operands)
    made = in_nest(fusion, found) if lies else None
    # The depths of products are loops after those of the scores, which this nest leaves out.
    return (replace(loop_nest(made), sizes=found.sizes), made.operands) if made is not None else None


def streamed(fusion: Op, target: Target) -> Streamed | None:
    """The loops of the attention in a fusion; None where it has no kernel: its loops differ, or a side of a product is no matrix in
    memory."""
    ops = fusion.block.ops[:-1]
    found = [made for op in ops if op.name == "ng.dot" and (made := attention_of(op)) is not None]
    if len(found) != 1:
        return None
    attention = found[0]
    ends = [attention.masked, attention.largest.results[0], attention.total.results[0], attention.weights]
    before = needed(ops, ends)
    behind = [*needed(ops, attention.result.operands[1:]), attention.result]
    fusions = (
        fusion_of(before, ends),
        fusion_of(behind, attention.result.results),
    )
    first, last = (looped(each, target) for each in fusions)
    if first is None or last is None:
        return None
    arguments = {value: number for number, value in enumerate(fusion.block.args)}
    numbers, others = ([arguments.get(v, -1) for v in operands] for _, operands in (first, last))
    return _streamed(attention, first[0], last[0], numbers, others)


def _streamed(
    attention: Attention, first: LoopNest, last: LoopNest, numbers: Sequence[int], others: Sequence[int]
) -> Streamed | None:
    """`numbers`, `others`: the number of the fusion's operand for each operand of the two nests."""
    dots = [next(op for op in each.ops if op.name == "ng.dot") for each in (first, last)]
    masked, largest, total, weights = first.outputs
    how, whole = ordered_loops(first, dots[0]), first.loops[dots[0].results[0]]
    sides = [(first, dots[0], 0), (first, dots[0], 1), (last, dots[1], 1)]
    element = element_type(masked.type)
    fits = (
        all(first.loops[v] == whole for v in (masked, weights))
        and all(first.loops[v] == whole[:-1] for v in (largest, total))
        and element in (f32, f64)
        and all(side_of_dot(*side) for side in sides)
        and all(element_type(dot.operands[i].type) is element for _, dot, i in sides)
    )
    if how is None or not fits:
        return None
    scores, result = (product_of(dot, each.sides) for dot, each in zip(dots, (first, last), strict=True))
    read = [
        (p.side(dot.operands[i]), own)
        for (p, dot, i), own in zip(sides, (numbers, numbers, others), strict=True)
    ]
    return Streamed(
        **vars(how),
        straight=first,
        scores=scores.transposed,
        scored=dots[0].results[0],
        masked=masked,
        inputs=tuple([(numbers[number], shape) for number, shape in how.nest.sources]),
        sides=tuple([(own[number], shape) for (number, shape), own in read]),
        located_op=attention.scores,
        attention=attention,
        result=result.transposed,
    )


def ordered_loops(nest: LoopNest, scores: Op) -> OrderedLoops | None:
    """The loops of a nest in the order for tiles with queries along the lanes of vector registers; None where they are not those of
    batch, queries and keys."""
    whole = nest.loops[scores.results[0]]
    product = product_of(scores, nest.sides)
    batch, rows = _batch(nest.sizes[:-1], product.batch), len(whole) - 1
    fits = (
        whole == tuple(range(len(nest.sizes)))
        and not nest.accesses
        and not nest.written
        and batch < rows
        and is_same(nest.sizes[-1], product.columns)
        and is_same(prod(nest.sizes[:batch]), max(1, product.batch))
    )
    if not fits:
        return None
    to = {loop: loop for loop in range(batch)} | {rows: batch} | {l: l + 1 for l in range(batch, rows)}
    turned = permuted(nest, to)
    return OrderedLoops(turned, tuple(range(batch)), batch, tuple(range(batch + 1, rows)), rows)


def side_of_dot(nest: LoopNest, dot: Op, which: int) -> bool:
    """Whether an operand of a product is a matrix in memory."""
    return not isinstance(nest.sides.get(dot.operands[which]), Implicit)


def _batch(sizes: Sequence[int], batch: int) -> int:
    """The number of leading loops that make the batch; 0 if none do."""
    sums = [prod(sizes[:count]) for count in range(len(sizes))]
    return next((count for count, size in enumerate(sums) if is_same(size, max(1, batch))), 0)


def permuted(nest: LoopNest, to: Mapping[int, int]) -> LoopNest:
    """A nest with its loops renumbered."""
    sizes = [0] * len(nest.sizes)
    for old, new in to.items():
        sizes[new] = nest.sizes[old]
    return replace(
        nest,
        sizes=tuple(sizes),
        loops={v: tuple(to[l] for l in own) for v, own in nest.loops.items()},
        dimension_loops={op: tuple(to[l] for l in own) for op, own in nest.dimension_loops.items()},
    )
