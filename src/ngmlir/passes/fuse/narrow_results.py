# SPDX-License-Identifier: Apache-2.0
"""Narrow results: a result that a fusion widens at its end is stored before the cast, and widened where it is read."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Block, Module, Op, Value
from ...ir.nest import NEST
from ...ir.types import element_type
from ...ops.ng_rules import has_all
from ...rewrite.contracts import contract
from ...support.target import Target
from ..analysis.group import FREE, LOOP_NESTS, indexed, kind
from .recipes import Recipe, giving, inlined, yielding
from .writer import FusionWriter, in_functions, nested


@contract(needs=("plain", "fused"), gives="fused", anchor="function")
def narrow_results(module: Module, target: Target) -> Module:
    """Moves a cast to a wider type at the end of a fusion to the fusions that read the result, if all readers can take it: fewer
    bytes are written and read. The cast must keep every number.

    Before:
        func.func @main(%x: tensor<8x4xf16>, %w: tensor<4x6xf16>) -> tensor<8xf32> {
          %0 = ng.fusion dot(%x, %w) -> tensor<8x6xf32> {
            %2 = ng.dot %x, %w contract [1] x [0] : (tensor<8x4xf16>, tensor<4x6xf16>) -> tensor<8x6xf16>
            %3 = ng.cast %2 : (tensor<8x6xf16>) -> tensor<8x6xf32>
            ng.yield %3 : tensor<8x6xf32>
          }
          %1 = ng.fusion rows(%0) -> tensor<8xf32> {
            %2 = ng.max %0 axes [1] : (tensor<8x6xf32>) -> tensor<8xf32>
            ng.yield %2 : tensor<8xf32>
          }
          return %1 : tensor<8xf32>
        }
    After:
        func.func @main(%x: tensor<8x4xf16>, %w: tensor<4x6xf16>) -> tensor<8xf32> {
          %0 = ng.fusion dot(%x, %w) -> tensor<8x6xf16> {
            %2 = ng.dot %x, %w contract [1] x [0] : (tensor<8x4xf16>, tensor<4x6xf16>) -> tensor<8x6xf16>
            ng.yield %2 : tensor<8x6xf16>
          }
          %1 = ng.fusion rows(%0) -> tensor<8xf32> {
            %2 = ng.cast %0 : (tensor<8x6xf16>) -> tensor<8x6xf32>
            %3 = ng.max %2 axes [1] : (tensor<8x6xf32>) -> tensor<8xf32>
            ng.yield %3 : tensor<8xf32>
          }
          func.return %1 : tensor<8xf32>
        }
    """
    return in_functions(module, lambda block: _Writer(block, target).written())


class _Writer(FusionWriter):
    def written(self) -> Block:
        out = self.block.emptied()
        for op in self.block.ops:
            new = self.renamed(self.current[op])
            self.replace(op.results, new.results)
            if op.name == "ng.fusion" and NEST not in op.attributes:
                new = self.narrowed(op, new)
            out.ops.append(nested(new, lambda block: _Writer(block, self.target).written()))
            self.replace(new.results, out.ops[-1].results)
        return out

    def replace(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Replaces values by others, also where they replaced some before."""
        changed = {a: b for a, b in zip(old, new, strict=True) if a is not b}
        if changed:
            self.mapping.update({key: changed[v] for key, v in self.mapping.items() if v in changed})
            self.mapping.update(changed)

    def narrowed(self, op: Op, fusion: Op) -> Op:
        """The fusion that replaces `op`, with narrow results where possible."""
        for number, result in enumerate(op.results):
            yielded = list(fusion.block.ops[-1].operands)
            source, ops = _before(yielded[number])
            readers = self.readers.get(result, ())
            if not ops or not readers or not self.widens(source):
                continue
            if not all(_by_elements(self.current[r], result) for r in readers):
                continue
            wide, yielded[number] = yielded[number], source
            new = yielding(fusion, yielded, [v.name for v in fusion.results])
            recipe = Recipe(result, {source: new.results[number]}, ops, wide)
            made = {r: inlined(self.current[r], result, recipe, self.mapping, self.target) for r in readers}
            if all(made.values()):
                self.current.update({r: each for r, each in made.items() if each is not None})
                self.replace(fusion.results, new.results)
                fusion = new
        return self.once(fusion)

    def once(self, fusion: Op) -> Op:
        """The fusion without repeated results."""
        yielded = fusion.block.ops[-1].operands
        kept = [yielded.index(v) == number for number, v in enumerate(yielded)]
        if all(kept):
            return fusion
        new = giving(fusion, kept)
        first = dict(
            zip([v for v, stays in zip(yielded, kept, strict=True) if stays], new.results, strict=True)
        )
        self.replace(fusion.results, [first[v] for v in yielded])
        return new

    def widens(self, value: Value) -> bool:
        """Whether the machine widens elements of a value by one or two instructions."""
        return (
            element_type(value.type).text != "f16" or self.target.has_thread_blocks or self.target.can("half")
        )


def _before(value: Value) -> tuple[Value, Sequence[Op]]:
    """The value before casts at the end of a fusion widen it, and the ops from there on; no ops if it is not widened."""
    ops: list[Op] = []
    source = value
    while isinstance(op := source.owner, Op) and op.name in ("ng.cast", "ng.reshape"):
        if op.name == "ng.cast" and not has_all(*(element_type(v.type) for v in (op.result, *op.operands))):
            break
        ops.insert(0, op)
        source = op.operands[0]
    computed = isinstance(source.owner, Op) and source.owner.name not in FREE
    return (source, ops) if computed and any(op.name == "ng.cast" for op in ops) else (value, ())


def _by_elements(op: Op, value: Value) -> bool:
    """Whether a fusion reads a value only elementwise, not as a side of a product or by index."""
    if op.name != "ng.fusion" or NEST in op.attributes or kind(op) not in LOOP_NESTS:
        return False
    found = {op.block.args[op.operands.index(value)]}
    for inner in op.block.ops:
        if not found.isdisjoint(inner.operands):
            if not found.isdisjoint(indexed(inner)):
                return False
            found.update(inner.results)
    return True
