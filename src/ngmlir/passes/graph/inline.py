# SPDX-License-Identifier: Apache-2.0
"""Inlining of functions."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Block, Module, Op, Region, Value, callee
from ...ops.builder import Builder
from ...ops.fields import get_str
from ...ops.hosts import host_name
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.diagnostics import Diagnostic, Limit
from ...support.target import Target


@contract(needs=("named", "plain"))
def inline(module: Module, target: Target) -> Module:
    """Inlines calls, and removes private functions, which are not needed after that.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = func.call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.add %x, %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.add %x, %x : tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
    """
    return inlined(module)


def inlined(module: Module) -> Module:
    """The module without calls and without private functions."""
    functions = {op.symbol: op for op in module.ops if op.name == "func.func"}
    if not any(op.name == "func.call" for f in functions.values() for op in f.walk()):
        return module
    inliner = _Inliner(functions)
    ops = [inliner.function(op.symbol) if op.name == "func.func" else op for op in module.ops]
    return module.with_ops([op for op in ops if get_str(op, "sym_visibility") != "private"])


class _Inliner:
    def __init__(self, functions: dict[str, Op]):
        self.functions = functions
        self.done: dict[str, Op] = {}
        self.open: list[str] = []

    def function(self, name: str) -> Op:
        """The function with all calls in it inlined. Raises Limit for recursion."""
        if name not in self.done:
            if name in self.open:
                cycle = " -> @".join([*self.open[self.open.index(name) :], name])
                raise Limit(
                    Diagnostic(f"@{cycle}: recursion is not supported", self.functions[name].location)
                )
            self.open.append(name)
            self.done[name] = sweep_op(self.functions[name], self.call, frozenset({"func.call"}))
            self.open.pop()
        return self.done[name]

    def call(self, op: Op, b: Builder) -> Sequence[Value]:
        function = self.function(callee(op))
        if not function.regions[0].blocks:
            host = host_name(function)
            what = (
                f"is the Python function {host}: no compiled code can hold it" if host else "has no body here"
            )
            hint = "run the graph with a transformer" if host else "define it in this module"
            raise Limit(Diagnostic(f"@{function.symbol} {what}", op.location, hint=hint))
        body = function.block
        mapping = dict(zip(body.args, op.operands, strict=True))
        for inner in body.ops[:-1]:
            b.add_op(copied(inner, mapping))
        return [mapping.get(v, v) for v in body.ops[-1].operands]


def copied(op: Op, mapping: dict[Value, Value]) -> Op:
    """A copy of an op on mapped operands, with copies of its regions; results are added to the mapping."""
    regions: list[Region] = []
    for region in op.regions:
        blocks: list[Block] = []
        for block in region.blocks:
            made = Block([a.type for a in block.args], [a.name for a in block.args])
            mapping.update(zip(block.args, made.args, strict=True))
            made.ops = [copied(inner, mapping) for inner in block.ops]
            blocks.append(made)
        regions.append(Region(*blocks))
    new = op.rebuilt([mapping.get(v, v) for v in op.operands], regions)
    mapping.update(zip(op.results, new.results, strict=True))
    return new
