# SPDX-License-Identifier: Apache-2.0
"""Recomputation: kernels compute values again instead of reading them from memory, where that is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...ir.core import Block, Module, Op, Value
from ...ir.literals import bytes_of
from ...ir.nest import NEST
from ...ir.types import shape_of
from ...ops.library import MATH_WORK, in_library
from ...rewrite.contracts import contract
from ...support.target import Target
from ..analysis.group import FREE, has_elements, kind
from ..analysis.views import needed
from .recipes import Recipe, giving, inlined
from .writer import FusionWriter, in_functions, nested

#: Kinds of fusions that values can be recomputed in.
_KINDS = frozenset({"map", "rows", "columns"})
#: Elements that one multiprocessor computes at once; the largest fraction of the saved memory time that computing may take.
_LANES, _SHARE = 128, 0.5


@contract(needs=("plain", "fused"), gives="fused", anchor="function", only="gpu")
def recompute(module: Module, target: Target) -> Module:
    """Repeats elementwise ops in the fusions that use their results, instead of storing these, if that saves a GPU
    more memory traffic than it costs arithmetic: a cast to a wider type, the centred values of a variance.

    The loops of a fusion do not change. Reductions, products and ops that only move a value are not repeated.

    Before:
        func.func @main(%x: tensor<4096x8xbf16>) -> (tensor<8xf32>, tensor<4096x8xf32>) {
          %0 = ng.fusion map(%x) -> tensor<4096x8xf32> {
            %3 = ng.cast %x : (tensor<4096x8xbf16>) -> tensor<4096x8xf32>
            ng.yield %3 : tensor<4096x8xf32>
          }
          %1 = ng.fusion columns(%0) -> tensor<8xf32> {
            %3 = ng.sum %0 axes [0] : (tensor<4096x8xf32>) -> tensor<8xf32>
            ng.yield %3 : tensor<8xf32>
          }
          %2 = ng.fusion map(%0, %1) -> tensor<4096x8xf32> {
            %3 = ng.broadcast %1 dims [1] : (tensor<8xf32>) -> tensor<4096x8xf32>
            %4 = ng.subtract %0, %3 : tensor<4096x8xf32>
            ng.yield %4 : tensor<4096x8xf32>
          }
          return %1, %2 : tensor<8xf32>, tensor<4096x8xf32>
        }
    After:
        func.func @main(%x: tensor<4096x8xbf16>) -> (tensor<8xf32>, tensor<4096x8xf32>) {
          %0 = ng.fusion columns(%x) -> tensor<8xf32> {
            %2 = ng.cast %x : (tensor<4096x8xbf16>) -> tensor<4096x8xf32>
            %3 = ng.sum %2 axes [0] : (tensor<4096x8xf32>) -> tensor<8xf32>
            ng.yield %3 : tensor<8xf32>
          }
          %1 = ng.fusion map(%0, %x) -> tensor<4096x8xf32> {
            %2 = ng.cast %x : (tensor<4096x8xbf16>) -> tensor<4096x8xf32>
            %3 = ng.broadcast %0 dims [1] : (tensor<8xf32>) -> tensor<4096x8xf32>
            %4 = ng.subtract %2, %3 : tensor<4096x8xf32>
            ng.yield %4 : tensor<4096x8xf32>
          }
          func.return %0, %1 : tensor<8xf32>, tensor<4096x8xf32>
        }
    """
    return in_functions(module, lambda block: _Writer(block, target).written())


class _Writer(FusionWriter):
    def written(self) -> Block:
        out = self.block.emptied()
        for op in self.block.ops:
            new = self.renamed(self.current[op])
            kept = [True] * len(op.results)
            if op.name == "ng.fusion" and NEST not in op.attributes:
                kept = [not self.repeated(new, number, value, out) for number, value in enumerate(op.results)]
            if not any(kept) and op.results:
                continue
            if not all(kept):
                new = giving(new, kept)
            new = nested(new, lambda block: _Writer(block, self.target).written())
            left = [value for value, stays in zip(op.results, kept, strict=True) if stays]
            self.mapping.update(zip(left, new.results, strict=True))
            out.ops.append(new)
        return out

    def repeated(self, fusion: Op, number: int, value: Value, out: Block) -> bool:
        """Repeats a result of a fusion in the fusions that read it, if that is faster; whether it has no reader left."""
        readers = self.readers.get(value, [])
        there = [
            op
            for op in readers
            if op.name == "ng.fusion" and NEST not in op.attributes and kind(op) in _KINDS
        ]
        all_read = len(there) == len(readers)
        for recipe in _recipes(fusion, number) if there else ():
            if not self.pays(recipe, there, all_read):
                continue
            made = {op: inlined(self.current[op], value, recipe, self.mapping, self.target) for op in there}
            if all(made.values()):
                self.current.update({op: new for op, new in made.items() if new is not None})
                out.ops += recipe.views
                return all_read
        return False

    def pays(self, recipe: Recipe, there: Sequence[Op], all_read: bool) -> bool:
        """Whether the saved memory traffic takes longer than the added computation, by a margin (`_SHARE`)."""
        gpu, moved = self.target.gpu, bytes_of(recipe.value.type) * (len(there) + all_read)
        for op in there:
            known = {self.mapping.get(v, v) for v in self.current[op].operands}
            moved -= sum(bytes_of(v.type) for v in recipe.inputs.values() if v not in known)
        elements = len(there) * prod(shape_of(recipe.value.type))
        computing = elements * _work(recipe.ops) / (_LANES * gpu.multiprocessors * gpu.clock * 1e6)
        return computing <= _SHARE * moved / (gpu.bandwidth * 1e9) and moved > 0


def _work(ops: Sequence[Op]) -> int:
    """Instructions for each element."""
    return sum(MATH_WORK if in_library(op) else op.name not in FREE for op in ops)


def _recipes(fusion: Op, number: int) -> Iterator[Recipe]:
    """The recipes of a result that a fusion computes elementwise: from the fusion's operands, or from reshapes of them, which may
    suit the loops of other fusions. There are none if it is computed otherwise."""
    block = fusion.block
    result = block.ops[-1].operands[number]
    ops = needed(block.ops[:-1], [result])
    simple = all("elementwise" in op.traits or op.name in FREE for op in ops)
    if not simple or not has_elements(result) or not isinstance(result.owner, Op):
        return
    outside = dict(zip(block.args, fusion.operands, strict=True))
    read = {v for op in ops for v in op.operands}
    inputs = {argument: value for argument, value in outside.items() if argument in read}
    yield Recipe(fusion.results[number], inputs, ops, result)
    shown = [op for op in ops if op.name == "ng.reshape" and op.operands[0] in inputs]
    if not shown or result.owner in shown:
        return
    views = [op.rebuilt([inputs[op.operands[0]]]) for op in shown]
    left = [op for op in ops if op not in shown]
    read = {v for op in left for v in op.operands}
    seen = {op.results[0]: view.results[0] for op, view in zip(shown, views, strict=True)}
    inputs = {v: x for v, x in {**inputs, **seen}.items() if v in read}
    yield Recipe(fusion.results[number], inputs, left, result, views)
