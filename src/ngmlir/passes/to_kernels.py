# SPDX-License-Identifier: Apache-2.0
"""Fusions to kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.attributes import StringAttr
from ..ir.core import Block, Module, Op, Value
from ..ir.printer import to_text
from ..ir.types import TensorType, element_type, shape_of
from ..ops.builder import Builder
from ..support.diagnostics import Diagnostic, Limit
from ..support.target import Target
from .kernels.columns import columns_kernel
from .kernels.dot import dot_kernel
from .kernels.map import map_kernel
from .kernels.packing import pack_kernel
from .kernels.plan import Plan, kind
from .kernels.rows import rows_kernel
from .kernels.singles import SINGLES

_KINDS = {"map": map_kernel, "rows": rows_kernel, "columns": columns_kernel}
#: Ops that stay in functions: views, control flow, constants, ends.
_KEPT = frozenset(
    {
        "ng.reshape",
        "ng.constant",
        "ng.if",
        "ng.while",
        "ng.scan",
        "ng.yield",
        "func.return",
        "func.call",
        "tile.call",
    }
)


def to_kernels(module: Module, target: Target) -> Module:
    """Turns each fusion, and each op that stayed alone, into a call of a kernel; equal kernels are made once.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.fusion %x {kind = "map"} : (tensor<4xf32>) -> tensor<4xf32> {
          ^bb0(%1: tensor<4xf32>):
            %2 = ng.negative %1 : tensor<4xf32>
            ng.yield %2 : tensor<4xf32>
          }
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = tile.call @map_negative(%x) : (tensor<4xf32>) -> tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
        tile.kernel @map_negative(%in0: memref<4xf32>, %out0: memref<4xf32>) attributes {in_place = array<i64: 0, 1>, grid = array<i64>} {
          %0 = ng.constant 0 : index
          %1 = tile.load %in0[%0] : (memref<4xf32>, index) -> vector<4xf32>
          %2 = ng.negative %1 : vector<4xf32>
          tile.store %2, %out0[%0] : (vector<4xf32>, memref<4xf32>, index) -> ()
          tile.return
        }
    """
    writer = _Writer(module, target)
    ops = [
        writer.function(op) if op.name == "func.func" and op.regions[0].blocks else op for op in module.ops
    ]
    return module.with_ops([*ops, *writer.kernels])


class _Writer:
    def __init__(self, module: Module, target: Target):
        self.target = target
        self.kernels: list[Op] = []
        self.by_text: dict[str, str] = {}
        self.taken = {op.symbol for op in module.ops}

    def function(self, op: Op) -> Op:
        return op.with_blocks(lambda block: self.block(block, {}))

    def block(self, block: Block, mapping: dict[Value, Value]) -> Block:
        out = block.emptied()
        b = Builder(out)
        for op in block.ops:
            b.location = op.location
            operands = [mapping.get(v, v) for v in op.operands]
            if op.name == "ng.fusion":
                results: Sequence[Value] = self.fusion(op, operands, b)
            elif op.name in _KEPT:
                new = op.with_blocks(lambda inner: self.block(inner, mapping)).rebuilt(operands)
                b.add_op(new)
                results = new.results
            elif op.name in SINGLES:
                results = self.single(op, operands, b)
            else:
                raise Limit(
                    Diagnostic(f"{op.name} cannot be compiled for {self.target.name} yet", op.location)
                )
            for old, value in zip(op.results, results, strict=True):
                mapping[old] = value
                value.name = value.name or old.name
        return out

    # -- calls -------------------------------------------------------------------------------------------

    def kernel(self, made: Op, wanted: str) -> str:
        """The symbol of a kernel, which is added unless an equal one is there."""
        text = to_text(made)
        found = self.by_text.get(text)
        if found is not None:
            return found
        name, n = wanted, 0
        while name in self.taken:
            n += 1
            name = f"{wanted}_{n}"
        self.taken.add(name)
        self.by_text[text] = name
        self.kernels.append(_named(made, name))
        return name

    def fusion(self, op: Op, operands: Sequence[Value], b: Builder) -> Sequence[Value]:
        sort = kind(op)
        extra: list[Value] = []
        if sort == "dot":
            made, planned, extra = self.product(op, operands, b)
        else:
            made, planned = _KINDS[sort](op, self.target, "k")
        name = self.kernel(made, _name_of(op, sort))
        inputs = [
            _as(b, value, planned.shape(inner))
            for value, inner in zip(operands, op.block.args, strict=True)
            if inner in planned.loops
        ]
        types = [TensorType(planned.shape(v), element_type(v.type)) for v in planned.outputs]
        results = b.call([*inputs, *extra], types=types, callee=name)
        return [_as(b, r, shape_of(old.type)) for r, old in zip(results, op.results, strict=True)]

    def product(self, op: Op, operands: Sequence[Value], b: Builder) -> tuple[Op, Plan, list[Value]]:
        made = dot_kernel(op, self.target, "k")
        dot = next(o for o in op.block.ops if o.name == "ng.dot")
        outside = dict(zip(op.block.args, operands, strict=True))
        sides: list[Value] = []
        for number, packing in made.sides:
            side = outside[dot.operands[number]]
            if packing is not None:
                name = self.kernel(pack_kernel(packing, "k", op.location), "pack")
                type = TensorType(packing.shape, packing.element)
                (side,) = b.call([side], types=[type], callee=name)
            sides.append(side)
        return made.kernel, made.plan, sides

    def single(self, op: Op, operands: Sequence[Value], b: Builder) -> Sequence[Value]:
        made = SINGLES[op.name](op, self.target)
        name = self.kernel(made.kernel, op.name.partition(".")[2])
        inputs = [_as(b, v, s) for v, s in zip(operands, made.operand_shapes, strict=True)]
        types = [
            TensorType(s, element_type(r.type)) for s, r in zip(made.result_shapes, op.results, strict=True)
        ]
        results = b.call(inputs, types=types, callee=name)
        return [_as(b, r, shape_of(old.type)) for r, old in zip(results, op.results, strict=True)]


def _as(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    if shape_of(value.type) == tuple(shape):
        return value
    return b.reshape(value, type=TensorType(tuple(shape), element_type(value.type)))


def _named(kernel: Op, name: str) -> Op:
    return kernel.rebuilt(attributes={**kernel.attributes, "sym_name": StringAttr(name)})


def _name_of(fusion: Op, sort: str) -> str:
    """A name that says what the kernel does: its kind and its first few telling ops."""
    words = [op.name.partition(".")[2] for op in fusion.block.ops if op.name not in _SILENT]
    return "_".join(dict.fromkeys([sort, *words][:4]))


_SILENT = frozenset({"ng.reshape", "ng.broadcast", "ng.constant", "ng.yield", "ng.iota", "ng.dot"})
