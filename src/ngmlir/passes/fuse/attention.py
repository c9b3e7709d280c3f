# SPDX-License-Identifier: Apache-2.0
"""Attention: scores, their softmax and the product with values become one kernel, which never stores all scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir.core import Block, Module, Op, Value
from ...ir.literals import item_bytes
from ...ir.types import FloatType, Type, element_type, f32, with_element
from ...ops.builder import Builder
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...support.lengths import usual
from ...support.target import Target
from ..analysis.views import dependencies
from ..graph.dead_code import without_dead
from .gradient_loops import streamed_gradient
from .score_fusions import fusion_of, members
from .score_gradients import Gradient, gradient_of, written
from .score_loops import Streams, streamed
from .scores import attention_of
from .writer import FusionWriter, in_functions, nested


@contract(needs=("plain", "fused"), gives="fused", anchor="function", only="cpu")
def attention(module: Module, target: Target) -> Module:
    """Makes one fusion of kind `attention` of a product (the scores of queries and keys), a softmax of its rows, and the product of
    that with values: on CPUs, for scores of f32 or f64. Elementwise ops on the scores may be between, such as a scale, a
    mask or a bias; the ops that compute masks become part of the fusion. No other op may read values between the products.
    Queries and keys of shorter floats are cast to f32 before: these casts take the memory of the operands, not of the scores.

    The kernel holds the scores of some queries and one block of keys at a time. It sums in another order,
    relative to the largest score so far: results differ from those of the ops by a few roundings. Blocks that a mask
    hides from all their queries are not computed, which assumes finite values: hidden elements count as zero.

    Before:
        func.func @main(%q: tensor<2x16x4xf32>, %k: tensor<2x9x4xf32>, %v: tensor<2x9x4xf32>) -> tensor<2x16x4xf32> {
          %0 = ng.dot %q, %k contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x16x4xf32>, tensor<2x9x4xf32>) -> tensor<2x16x9xf32>
          %1 = ng.max %0 axes [2] : (tensor<2x16x9xf32>) -> tensor<2x16xf32>
          %2 = ng.broadcast %1 dims [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x9xf32>
          %3 = ng.subtract %0, %2 : tensor<2x16x9xf32>
          %4 = ng.exp %3 : tensor<2x16x9xf32>
          %5 = ng.sum %4 axes [2] : (tensor<2x16x9xf32>) -> tensor<2x16xf32>
          %6 = ng.broadcast %5 dims [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x9xf32>
          %7 = ng.divide %4, %6 : tensor<2x16x9xf32>
          %8 = ng.dot %7, %v contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x16x9xf32>, tensor<2x9x4xf32>) -> tensor<2x16x4xf32>
          return %8 : tensor<2x16x4xf32>
        }
    After:
        func.func @main(%q: tensor<2x16x4xf32>, %k: tensor<2x9x4xf32>, %v: tensor<2x9x4xf32>) -> tensor<2x16x4xf32> {
          %0 = ng.fusion attention(%q, %k, %v) -> tensor<2x16x4xf32> {
            %0 = ng.dot %q, %k contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x16x4xf32>, tensor<2x9x4xf32>) -> tensor<2x16x9xf32>
            %1 = ng.max %0 axes [2] : (tensor<2x16x9xf32>) -> tensor<2x16xf32>
            %2 = ng.broadcast %1 dims [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x9xf32>
            %3 = ng.subtract %0, %2 : tensor<2x16x9xf32>
            %4 = ng.exp %3 : tensor<2x16x9xf32>
            %5 = ng.sum %4 axes [2] : (tensor<2x16x9xf32>) -> tensor<2x16xf32>
            %6 = ng.broadcast %5 dims [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x9xf32>
            %7 = ng.divide %4, %6 : tensor<2x16x9xf32>
            %8 = ng.dot %7, %v contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x16x9xf32>, tensor<2x9x4xf32>) -> tensor<2x16x4xf32>
            ng.yield %8 : tensor<2x16x4xf32>
          }
          func.return %0 : tensor<2x16x4xf32>
        }
    """
    made = in_functions(module, lambda block: _written(block, target))
    # Removes ops that computed masks and are part of kernels now.
    changed = zip(made.ops, module.ops, strict=True)
    return made.with_ops([new if new is old else without_dead(new) for new, old in changed])


def _written(block: Block, target: Target) -> Block:
    """A block with its attentions as fusions, of short floats too: their queries and keys are cast only where that makes a fusion."""
    short = {
        found.scores
        for op in block.ops
        if (found := attention_of(op)) is not None
        and element_type(found.scores.result.type) is f32
        and all(_is_short(element_type(v.type)) for v in found.scores.operands)
    }
    if short:
        trial = _Widening(block, target)
        fused = _Writer(trial.written(short), target).gone
        kept = {op for op in short if trial.made[op] in fused}
        block = _Widening(block, target).written(kept) if kept else block
    return _Writer(block, target).written()


def _is_short(element: Type) -> bool:
    return isinstance(element, FloatType) and item_bytes(element) < item_bytes(f32)


class _Widening(FusionWriter):
    """Rewrites products of short floats in a block as products of f32."""

    def __init__(self, block: Block, target: Target):
        super().__init__(block, target)
        self.made: dict[Op, Op] = {}

    def written(self, products: Collection[Op]) -> Block:
        out = self.block.emptied()
        for op in self.block.ops:
            new = self.renamed(op)
            if op in products:
                b = Builder(out, op.location)
                new = new.rebuilt([b.cast(v, type=with_element(v.type, f32)) for v in new.operands])
                self.made[op] = new
            out.ops.append(new)
            self.mapping.update(zip(op.results, new.results, strict=True))
        return out


class _Writer(FusionWriter):
    """Rewrites a block with its attentions as fusions."""

    def __init__(self, block: Block, target: Target):
        super().__init__(block, target)
        self.order = {op: i for i, op in enumerate(block.ops)}
        #: For some ops those that replace them, and the old values that the results of the last one replace.
        self.made: dict[Op, tuple[list[Op], list[Value]]] = {}
        self.gone: set[Op] = set()
        for op in block.ops:
            if op not in self.gone:
                self.look(op)

    def look(self, op: Op) -> None:
        """Finds the attention that ends with a product, and its gradient."""
        found = attention_of(op)
        if found is None or not self.may_take({*found.between, op}):
            return
        inside = {*found.between, op}
        alone = all(
            r in inside for each in found.between for v in each.results for r in self.readers.get(v, ())
        )
        gradient = None if alone else gradient_of(found, self.readers, self.order)
        outputs = [op.results[0]]
        if gradient is not None:
            outputs += [found.largest.results[0], found.total.results[0]]
        forward = self.fusion(inside, outputs, streamed) if alone or gradient is not None else None
        if forward is not None and (gradient is None or self.gradient(gradient)):
            self.made[op] = [forward], outputs
            self.gone.update(found.between)

    def gradient(self, gradient: Gradient) -> bool:
        """Records a gradient for rewriting, if it has a kernel and there is an op that it can replace; whether it does."""
        new, found = written(gradient), gradient.attention
        known = {*found.between, gradient.errors, *new.ops} - {found.largest, found.total}
        inside = dependencies(new.results, known)
        fusion = (
            self.fusion(inside, new.results, streamed_gradient) if self.may_take(gradient.inside) else None
        )
        place = self.insertion_point(gradient, [*new.before, fusion]) if fusion is not None else None
        if fusion is None or place is None:
            return False
        self.made[place] = [*new.before, fusion], [op.results[0] for op in gradient.results]
        self.gone.update(gradient.inside - {place})
        return True

    def insertion_point(self, gradient: Gradient, ops: Sequence[Op]) -> Op | None:
        """The first of the gradient's products after all that `ops` read, if the results of the earlier ones have no reader before
        it; the fusion replaces it."""
        order = self.order
        inputs = [v.owner for op in ops for v in op.operands]
        ready = max(order.get(op, -1) for op in (gradient.attention.result, *inputs) if isinstance(op, Op))
        later = [op for op in gradient.results if order[op] > ready]
        place = min(later, key=order.__getitem__, default=None)
        end = order[place] if place is not None else -1
        early = [v for op in gradient.results if order[op] < end for v in op.results]
        return None if any(order[r] <= end for v in early for r in self.readers.get(v, ())) else place

    def fusion(
        self, inside: Collection[Op], outputs: Sequence[Value], how: Callable[[Op, Target], Streams | None]
    ) -> Op | None:
        """The fusion of some ops with these results; None where it has no kernel, or too few queries for one."""
        for moves in (True, False):
            ops, masks = members(inside, self.order, moves)
            made = fusion_of(ops, outputs, masks)
            found = how(made, self.target)
            if found is not None and usual(found.query_count) >= LEAST_QUERIES:
                return made
        return None

    def may_take(self, ops: Collection[Op]) -> bool:
        """Whether all of some ops are in this block, in no other fusion of this pass, and have no schedule."""
        return all(op in self.order and op not in self.gone and SCHEDULE not in op.attributes for op in ops)

    def written(self) -> Block:
        out = self.block.emptied()
        for op in self.block.ops:
            if op in self.gone:
                continue
            ops, values = self.made.get(op, ([op], list(op.results)))
            for each in ops:
                new = self.renamed(each)
                out.ops.append(nested(new, lambda block: _written(block, self.target)))
                self.mapping.update(zip(each.results, out.ops[-1].results, strict=True))
            self.mapping.update(zip(values, out.ops[-1].results, strict=True))
        same = len(out.ops) == len(self.block.ops) and all(
            a is b for a, b in zip(out.ops, self.block.ops, strict=True)
        )
        return self.block if same else out


#: Fewer queries leave lanes of registers empty.
LEAST_QUERIES = 8
