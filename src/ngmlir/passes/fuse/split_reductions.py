# SPDX-License-Identifier: Apache-2.0
"""Splitting of reductions that have too few results to occupy all cores."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, TypeAlias

from ...ir.attributes import UnitAttr
from ...ir.core import Module, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import FloatType, TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_bool, get_i64, get_i64s
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.lengths import is_open, usual
from ...support.target import Target
from ..analysis.product import Product, product_of
from ..analysis.reduction import CONTRACT, POSITIONS, Accumulation, merged
from ..analysis.views import view
from ..graph.dead_code import without_dead
from .splitting.factors import LEAST_TILE, PATIENCE, TILE, Cut, SplitFactors
from .splitting.positions import best_in_parts, best_part
from .splitting.values import (
    along,
    computed_slice,
    converted,
    in_shape,
    moved_on,
    sliced,
    split_axis,
    spread_shape,
    widened,
    with_rest,
)

Combined: TypeAlias = Literal["sum", "product", "max", "min"]
#: The reduction of each cumulative op.
_COMBINED: dict[str, Combined] = {
    "ng.cumulative_sum": "sum",
    "ng.cumulative_product": "product",
    "ng.cumulative_max": "max",
    "ng.cumulative_min": "min",
}


@contract(needs=("named", "plain"), anchor="function")
def split_reductions(module: Module, target: Target, *, elements: int = 0) -> Module:
    """Splits a reduction with many operands and few results into two, so that there is work for all cores.

    The reduced dimension is split into parts, each reduced separately, and then their results are reduced. On GPUs parts begin at
    aligned addresses, and the remainder of the length is combined with the results of the parts, one element with each; if a few
    elementwise ops compute the operand, they are computed on parts of theirs. Also on GPUs, dimensions that are not adjacent are
    reduced one after the other, cumulative ops are split into runs that continue from the total of the runs before, and products
    of a batch that are too small for a thread block each become sums. The number of parts depends on the shape
    and the target, never on the number of threads, so a result has the same bits everywhere. `elements`
    is the least number of elements of a part; 0: the target's default. An op with a schedule is not split: the schedule says how
    its kernel is tiled.

    Before:
        func.func @main(%x: tensor<1048576xf32>) -> tensor<f32> {
          %0 = ng.sum %x axes [0] : (tensor<1048576xf32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    After:
        func.func @main(%x: tensor<1048576xf32>) -> tensor<f32> {
          %0 = ng.reshape %x : (tensor<1048576xf32>) -> tensor<16x65536xf32>
          %1 = ng.sum %0 axes [1] : (tensor<16x65536xf32>) -> tensor<16xf32>
          %2 = ng.sum %1 axes [0] : (tensor<16xf32>) -> tensor<f32>
          func.return %2 : tensor<f32>
        }
    """
    return module.with_ops(
        [_function(op, target, elements) if op.name == "func.func" else op for op in module.ops]
    )


def _function(function: Op, target: Target, elements: int) -> Op:
    made = sweep_op(function, _Splitting(function, target, elements).rule, closed=frozenset({"ng.fusion"}))
    return function if made is function else without_dead(made)  # ops now computed on parts may be unused


class _Splitting:
    def __init__(self, function: Op, target: Target, elements: int):
        self.target, self.elements = target, elements
        together = _read_again(function)
        #: For each reduction, in the order of the sweep, whether its operand is read again.
        self.again = iter([op in together for op in function.walk() if "reduction" in op.traits])

    def factors(self, value: Value) -> SplitFactors:
        return SplitFactors.of(self.target, item_bytes(element_type(value.type)), self.elements)

    def rule(self, op: Op, b: Builder) -> Sequence[Value] | None:
        again = "reduction" in op.traits and next(self.again)
        if again and not self.target.has_thread_blocks:
            return None
        if SCHEDULE in op.attributes or not all(_plain(v) for v in (*op.operands, *op.results)):
            return None
        if op.name in POSITIONS:
            return self.position(op, b)
        if op.name == "ng.dot":
            return self.dot(op, b)
        if "cumulative" in op.traits:
            return self.cumulative(op, b)
        if "reduction" not in op.traits:
            return None
        name = op.name.removeprefix("ng.")
        made = self.reduced(b, name, op.operands[0], get_i64s(op, "axes"), again, CONTRACT in op.attributes)
        return None if made is None else [made]

    # -- sums and the like -------------------------------------------------------------------------------

    def reduced(
        self,
        b: Builder,
        name: str,
        source: Value,
        axes: Sequence[int],
        again: bool = False,
        contracts: bool = False,
    ) -> Value | None:
        """The reduction in several steps; None if one step is best. Where the operand is read `again`, one step is preferred, so
        that one kernel does all of it. `contracts`: it adds products by fma."""
        if not axes:
            return None
        factors = self.factors(source)
        if not factors.squares:
            return self.by_threads(b, name, source, axes, factors, contracts)
        return self.by_blocks(b, name, source, axes, factors, again)

    def by_threads(
        self,
        b: Builder,
        name: str,
        source: Value,
        axes: Sequence[int],
        factors: SplitFactors,
        contracts: bool,
    ) -> Value | None:
        """The reduction in parts of equal length, for the threads of a CPU."""
        shape = shape_of(source.type)
        axis, last = max(axes, key=lambda d: shape[d]), len(shape) - 1
        side = 1 if last in axes else shape[last]
        results = prod(s for d, s in enumerate(shape) if d not in axes)
        parts = factors.parts(shape[axis], prod(shape), factors.stripes(results // side, side))
        if parts == 1:
            return None
        reduce = getattr(b, name)
        cut = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
        value = view(b, widened(b, name, source), cut)
        value = reduce(value, axes=[d + 1 if d >= axis else d for d in axes])
        if contracts and isinstance(made := value.owner, Op):
            b.block.ops[-1] = made = made.rebuilt(attributes={**made.attributes, CONTRACT: UnitAttr()})
            value = made.result
        value = reduce(value, axes=[sum(d not in axes for d in range(axis))])
        return converted(b, value, element_type(source.type))

    def by_blocks(
        self, b: Builder, name: str, source: Value, axes: Sequence[int], factors: SplitFactors, again: bool
    ) -> Value | None:
        """The reduction in aligned parts and a remainder, for the thread blocks of a GPU."""
        shape, runs = shape_of(source.type), _runs(axes)
        if len(runs) > 1:
            return self.in_turn(b, name, source, runs, factors, again)
        axis, count = runs[0][0], len(runs[0])
        before, size, after = merged(shape, axis, count)
        parts, length = factors.cut(before, size, after)
        if parts == 1:
            return None
        wide = spread_shape(source)
        if wide and (dimensions := _dimensions(shape, runs[0], wide)):
            value = in_shape(b, source, wide)
            made = self.in_turn(b, name, value, [[d] for d in dimensions], factors, again)
            return None if made is None else view(b, made, [s for d, s in enumerate(shape) if d not in axes])
        line = view(b, source, (*shape[:axis], size, *shape[axis + count :]))
        value = widened(b, name, computed_slice(b, line, axis, 0, parts * length))
        value = along(b, name, split_axis(b, value, axis, parts), axis + 1)
        # The parts may be so many that they are reduced in several steps, too.
        value = self.reduce(b, name, with_rest(b, name, value, line, axis, parts * length), [axis])
        return converted(b, value, element_type(source.type))

    def in_turn(
        self,
        b: Builder,
        name: str,
        source: Value,
        runs: Sequence[Sequence[int]],
        factors: SplitFactors,
        again: bool,
    ) -> Value | None:
        """The reduction of axes that are not adjacent, one run of adjacent axes after the other: the longest first, which leaves the
        fewest elements. In one kernel a program would iterate over the outer axes and wait for memory in each iteration, and read
        only one row at a time, which may be short."""
        shape = shape_of(source.type)
        steps = [prod(shape[d] for d in run) for run in runs]
        kept = prod(shape) // prod(steps)
        rows = runs[-1][-1] == len(shape) - 1
        slow = prod(steps[:-1]) >= PATIENCE or (rows and steps[-1] < factors.stripe)
        if not (slow or factors.short_of_programs(prod(shape), kept)) or (
            again and 2 * kept > factors.programs
        ):
            return None
        value, gone = widened(b, name, source), list[int]()
        for run in sorted(runs, key=lambda run: -prod(shape[d] for d in run)):
            value = self.reduce(b, name, value, [d - sum(other < d for other in gone) for d in run])
            gone += run
        return converted(b, value, element_type(source.type))

    def reduce(self, b: Builder, name: str, value: Value, axes: Sequence[int]) -> Value:
        """The reduction, in however many steps."""
        made = self.reduced(b, name, value, axes)
        return getattr(b, name)(value, axes=axes) if made is None else made

    # -- products ----------------------------------------------------------------------------------------

    def dot(self, op: Op, b: Builder) -> Sequence[Value] | None:
        """A product with few results and a large depth, as a sum of a batch of products over parts of the depth; None where one
        product is best."""
        product = _matrices(op)
        if product is None or product.depth == 1:
            return None
        factors = self.factors(op.operands[0])
        if factors.squares and 1 in (product.rows, product.columns):
            return [self.lines(op, b, product)]
        if factors.squares and self.small(product):
            return [self.by_elements(op, b, product)]
        batch, rows, columns, depth = max(1, product.batch), product.rows, product.columns, product.depth
        if rows == columns == 1 and factors.parts(depth, batch * depth, batch) > 1:
            return [self.lines(op, b, product)]
        programs = batch * -(-rows // TILE) * -(-columns // TILE)
        work = batch * rows * columns * depth
        if product.batch or 2 * programs > factors.programs or rows * columns == 1:
            return None
        wanted = min(
            -(-factors.programs // programs),
            work // programs // factors.multiplications,
            depth // factors.depth,
        )
        parts, length = factors.depths(depth, wanted) if wanted >= 4 else Cut(1, depth)
        moves = (not product.lhs_depth_first and rows > 1) or (not product.rhs_depth_first and columns > 1)
        thin = min(rows, columns) < 2 * factors.unit
        narrow = product.widens
        if parts == 1 or ((moves or narrow or thin) and not factors.squares) or (narrow and wanted < 16):
            return None  # f16 and bf16 products are so fast that adding up few parts does not pay
        contracts = [1 - product.lhs_depth_first, 1 - product.rhs_depth_first]

        def multiplied(start: int, stop: int, parts: int) -> Value:
            """The product over the depth from `start` to `stop`: as a batch of parts, or of all of it if `parts` is 0."""
            sides = [
                sliced(b, v, depth, start, stop) for v, depth in zip(op.operands, contracts, strict=True)
            ]
            sides = [_in_parts(b, v, parts, not depth) for v, depth in zip(sides, contracts, strict=True)]
            batch, first = ([0], 1) if parts else ([], 0)
            return b.dot(
                *sides, lhs_contract=[first + contracts[0]], rhs_contract=[first + contracts[1]], lhs_batch=batch,
                rhs_batch=batch, type=TensorType((*[parts][: first], rows, columns), product.accumulator),
            )  # fmt: skip

        total = self.reduce(b, "sum", multiplied(0, parts * length, parts), [0])
        if parts * length < depth:
            total = b.add(total, multiplied(parts * length, depth, 0))
        return [converted(b, total, element_type(op.results[0].type))]

    def lines(self, op: Op, b: Builder, product: Product) -> Value:
        """A product with one row or one column, as sums along the depth of the other side."""
        lhs, rhs = (converted(b, side, product.accumulator) for side in op.operands)
        batch = [product.batch] if product.batch else []
        line = [*batch, product.depth]
        if product.rows == product.columns == 1:
            products, depth = b.multiply(view(b, lhs, line), view(b, rhs, line)), len(batch)
        else:
            other, one = (lhs, rhs) if product.columns == 1 else (rhs, lhs)
            first = product.lhs_depth_first if product.columns == 1 else product.rhs_depth_first
            depth = len(batch) + (not first)
            spread = b.broadcast(view(b, one, line), type=other.type, dimensions=[*range(len(batch)), depth])
            products = b.multiply(other, spread)
        return self.summed(op, b, products, depth)

    def small(self, product: Product) -> bool:
        """Whether the products of a batch are so small that each would leave most of a thread block idle."""
        atom = product.atom(self.target)
        deepest, share = (atom.depth // 2, 16) if atom else (LEAST_TILE, 4)
        share *= 1 if product.rhs_depth_first else 2  # a kernel transposes that side first
        work = product.rows * product.columns * product.depth
        return product.batch > 1 and product.depth <= deepest and work <= LEAST_TILE**3 // share

    def by_elements(self, op: Op, b: Builder, product: Product) -> Value:
        """Small products as sums, many of which a thread block computes: columns are contiguous, as in the result."""
        lhs, rhs = (converted(b, side, product.accumulator) for side in op.operands)
        rhs = rhs if product.rhs_depth_first else b.transpose(rhs, permutation=[0, 2, 1])
        depth = 1 if product.lhs_depth_first else 2
        whole = TensorType((*shape_of(lhs.type), product.columns), product.accumulator)
        left, right = (
            b.broadcast(side, type=whole, dimensions=dims)
            for side, dims in ((lhs, [0, 1, 2]), (rhs, [0, depth, 3]))
        )
        return self.summed(op, b, b.multiply(left, right), depth)

    def summed(self, op: Op, b: Builder, products: Value, depth: int) -> Value:
        """The result of a product, from elementwise products by sums along dimension `depth`."""
        total = self.reduce(b, "sum", products, [depth])
        if isinstance(element_type(total.type), FloatType):  # products start at 0.0, and so are never -0.0
            total = b.add(total, b.number(0.0, total.type))
        return view(b, converted(b, total, element_type(op.results[0].type)), shape_of(op.results[0].type))

    # -- positions ---------------------------------------------------------------------------------------

    def position(self, op: Op, b: Builder) -> Sequence[Value] | None:
        axes = sorted(get_i64s(op, "axes"))
        if axes != list(range(axes[0], axes[0] + len(axes))):
            return None
        source = op.operands[0]
        before, size, after = merged(shape_of(source.type), axes[0], len(axes))
        factors = self.factors(source).for_bytes(item_bytes(element_type(source.type)))
        cut = factors.cut(before, size, after)
        if cut.parts == 1:
            return None
        outer, inner = [before] if before > 1 else [], [after] if after > 1 else []
        line = view(b, source, (*outer, size, *inner))
        # Searches read contiguous memory: with several rows, parts that leave a remainder would be copied.
        search = best_in_parts if before == 1 or cut.parts * cut.length == size else best_part
        return [view(b, search(op, b, line, len(outer), cut), shape_of(op.results[0].type))]

    # -- cumulative ops ----------------------------------------------------------------------------------

    def cumulative(self, op: Op, b: Builder) -> Sequence[Value] | None:
        reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
        made = self.running(b, _COMBINED[op.name], op.operands[0], get_i64(op, "axis"), reverse, exclusive)
        return None if made is None else [made]

    def running(
        self, b: Builder, name: Combined, source: Value, axis: int, reverse: bool, exclusive: bool
    ) -> Value | None:
        """A cumulative op in runs: the totals of the runs before each, and then each run continued from these. All elements are read
        twice, so this is for GPUs. None where one run is best."""
        before, size, after = merged(shape_of(source.type), axis)
        factors = self.factors(source)
        run = factors.run(before, size, after)
        if run >= size or not factors.squares:
            return None
        outer, inner = [before] if before > 1 else [], [after] if after > 1 else []
        place = len(outer)
        line = view(b, source, (*outer, size, *inner))

        def totals(start: int, stop: int, length: int) -> Value:
            """The totals of the runs from `start` to `stop`, each of `length` elements."""
            runs = widened(b, name, computed_slice(b, line, place, start, stop))
            return along(b, name, split_axis(b, runs, place, (stop - start) // length), place + 1)

        # The last run may be shorter. The total of the run that comes last in the direction of the op is not needed.
        last = (size - 1) // run * run
        found = [totals(run if reverse else 0, last, run)] if last > run or not reverse else []
        found += [totals(last, size, size - last)] if reverse else []
        total = found[0] if len(found) == 1 else b.concatenate(found, axis=place)
        earlier = self.running(b, name, total, place, reverse, False)
        if earlier is None:
            earlier = getattr(b, f"cumulative_{name}")(total, axis=place, reverse=reverse)
        earlier = moved_on(b, earlier, place, reverse, Accumulation(name, element_type(total.type)).start)
        if exclusive and name == "sum" and isinstance(element_type(total.type), FloatType):
            earlier = b.add(earlier, b.number(0.0, earlier.type))  # the sum of nothing, not -0.0
        joined = b.cumulative_runs(
            line, earlier, axis=place, run=run, combine=name, reverse=reverse, exclusive=exclusive
        )
        return view(b, joined, shape_of(source.type))


def _dimensions(shape: Sequence[int], run: Sequence[int], other: Sequence[int]) -> range | None:
    """The dimensions of `other`, a shape of the same elements, that a run of adjacent dimensions of a shape corresponds to; None if
    they are only one, or parts of some."""
    starts = [prod(other[:d]) for d in range(len(other) + 1)]
    first, behind = prod(shape[: run[0]]), prod(shape[: run[-1] + 1])
    if first not in starts or behind not in starts:
        return None
    found = range(starts.index(first), starts.index(behind))
    return found if len(found) > 1 else None


def _runs(axes: Sequence[int]) -> list[list[int]]:
    """Runs of adjacent axes, in order."""
    runs: list[list[int]] = []
    for d in sorted(axes):
        if runs and runs[-1][-1] == d - 1:
            runs[-1].append(d)
        else:
            runs.append([d])
    return runs


def _read_again(function: Op) -> set[Op]:
    """The reductions whose results are combined again with as many elements as they reduce, as in a softmax. One core does both
    while a row is in its cache; in parts they would read memory once more."""
    found: set[Op] = set()
    derived: dict[Value, set[Op]] = {}
    for op in function.walk():
        sources = {r for o in op.operands for r in derived.get(o, ()) if r not in found}
        made = sum(_size(r) for r in op.results)
        back = {r for r in sources if made >= _size(r.operands[0])}
        found |= back
        sources -= back
        if "reduction" in op.traits:
            sources.add(op)
        for result in op.results if sources else ():
            derived[result] = sources
    return found


# ---- values ------------------------------------------------------------------------------------------------


def _plain(value: Value) -> bool:
    """Whether a value is a nonempty tensor of known size without axis names."""
    type = value.type
    if not isinstance(type, TensorType) or type.encoding is not None or is_open(type.shape):
        return False
    return type.static and type.size > 0


def _size(value: Value) -> int:
    return usual(value.type.size) if isinstance(value.type, TensorType) and value.type.static else 0


def _matrices(op: Op) -> Product | None:
    """The sizes of a product of two matrices, or of two batches of them; None for any other."""
    batch = get_i64s(op, "lhs_batch"), get_i64s(op, "rhs_batch")
    rank = 2 + len(batch[0])
    if any(len(get_i64s(op, f"{side}_contract")) != 1 for side in ("lhs", "rhs")):
        return None
    if batch not in (((), ()), ((0,), (0,))) or any(len(shape_of(o.type)) != rank for o in op.operands):
        return None
    return product_of(op, {})


def _in_parts(b: Builder, side: Value, parts: int, depth_first: bool) -> Value:
    """A matrix as a batch of parts along its depth; unchanged if `parts` is 0."""
    if not parts:
        return side
    first, last = shape_of(side.type)
    if depth_first:
        return view(b, side, (parts, first // parts, last))
    cut = view(b, side, (first, parts, last // parts))
    return cut if first == 1 else b.transpose(cut, permutation=[1, 0, 2])
