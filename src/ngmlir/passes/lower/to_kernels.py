# SPDX-License-Identifier: Apache-2.0
"""Lowers fusions to kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...ir.attributes import StringAttr
from ...ir.core import Block, Module, Op, Value, op_name
from ...ir.nest import NEST, NestAttr
from ...ir.structure import structure
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64
from ...rewrite.advice import pass_for
from ...rewrite.contracts import contract
from ...rewrite.stages import KEPT, not_storable
from ...support.diagnostics import Limit
from ...support.target import Target
from ..analysis.access import is_part
from ..analysis.group import kind
from ..analysis.loop_nest import LoopNest, Shape, loop_nest
from ..analysis.views import view
from ..fuse.nest import nest
from ..graph.dead_code import without_dead
from .kernels.builders import has_kernel, kernel_of
from .kernels.packing import Packing, pack_kernel


@contract(needs=("plain", "fused"), gives="kernels")
def to_kernels(module: Module, target: Target) -> Module:
    """Turns each fusion, and each op outside one, into a call of a kernel; equal kernels are emitted once.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.fusion map(%1 = %x) -> tensor<4xf32> {
            %2 = ng.negative %1 : tensor<4xf32>
            ng.yield %2 : tensor<4xf32>
          }
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = tile.call @map_negative ins(%x) -> tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
        tile.kernel @map_negative ins(%in0: memref<4xf32>) outs(%out0: memref<4xf32>) in_place(%in0 -> %out0) {
          %0 = ng.constant 0 : index
          %1 = tile.load %in0[%0] : memref<4xf32>, vector<4xf32>
          %2 = ng.negative %1 : vector<4xf32>
          tile.store %2, %out0[%0] : vector<4xf32>, memref<4xf32>
          tile.return
        }
    """
    module = nest(module, target)
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    if refused := [d for f in functions for op in _outside_fusions(f) for d in not_storable(op)]:
        raise Limit(refused)
    writer = _Writer(module, target)
    known = set(functions)
    ops = [writer.function(op) if op in known else op for op in module.ops]
    return module.with_ops([*ops, *writer.kernels])


@dataclass(frozen=True)
class _Recipe:
    """How the kernel of a fusion, or of an op outside one, is called; the same for all ops of equal structure.

    `inputs` are numbers of operands, with the shape in which the kernel takes them; `sides` those of a product, also
    with the symbol and result of the kernel that packs them, if there is one.
    """

    symbol: str
    inputs: tuple[tuple[int, Shape], ...]
    results: tuple[TensorType, ...]
    sides: tuple[tuple[int, Shape, str, TensorType | None], ...] = ()


def _outside_fusions(op: Op) -> Iterator[Op]:
    """The op and those in its regions, except the ops in fusions, which will be in kernels."""
    yield op
    if op.name != "ng.fusion":
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    yield from _outside_fusions(inner)


class _Writer:
    def __init__(self, module: Module, target: Target):
        self.target = target
        self.kernels: list[Op] = []
        self.symbols: dict[Hashable, str] = {}
        self.recipes: dict[Hashable, _Recipe] = {}
        self.taken = {op.symbol for op in module.ops}
        self.counts: dict[str, int] = {}

    def function(self, op: Op) -> Op:
        return without_dead(op.with_blocks(lambda block: self.block(block, {})), {"ng.reshape", "ng.slice"})

    def block(self, block: Block, mapping: dict[Value, Value]) -> Block:
        out = block.emptied()
        b = Builder(out)
        for op in block.ops:
            b.location = op.location
            operands = [mapping.get(v, v) for v in op.operands]
            if op.name == "ng.reshape":
                results: Sequence[Value] = [view(b, operands[0], shape_of(op.results[0].type))]
            elif op.name == "ng.concatenate":
                # Not kept: the plan joins along the first dimension only, and one kernel moves all parts.
                results = [self.concatenate(op, operands, b)]
            elif op.name in KEPT and (op.name != "ng.slice" or is_part(op, self.target)):
                new = op.with_blocks(lambda inner: self.block(inner, mapping)).rebuilt(operands)
                b.add_op(new)
                results = new.results
            elif has_kernel(op, self.target):
                results = self.call(self.recipe(op), op, operands, b)
            else:
                raise Limit(
                    f"'{op_name(op)}' cannot be compiled for {self.target.name} yet",
                    op.location,
                    hint=pass_for(op),
                )
            for old, value in zip(op.results, results, strict=True):
                mapping[old] = value
                value.name = value.name or old.name
        return out

    def call(self, recipe: _Recipe, op: Op, operands: Sequence[Value], b: Builder) -> Sequence[Value]:
        given = [view(b, operands[number], shape) for number, shape in recipe.inputs]
        for number, shape, pack, packed in recipe.sides:
            side = view(b, operands[number], shape)
            given += [side] if packed is None else b.call([side], types=[packed], callee=pack)
        results = b.call(given, types=recipe.results, callee=recipe.symbol)
        return [view(b, r, shape_of(old.type)) for r, old in zip(results, op.results, strict=True)]

    def concatenate(self, op: Op, operands: Sequence[Value], b: Builder) -> Value:
        """Concatenates more operands than a call may have: groups of equal size first, then their results."""
        most = self.target.call_buffers
        if len(operands) < most:
            return self.call(self.recipe(op), op, operands, b)[0]
        groups = -(-len(operands) // (most - 1))
        cuts = [i * len(operands) // groups for i in range(groups + 1)]
        grouped = Builder(Block(), op.location)
        axis = get_i64(op, "axis")
        parts = [grouped.concatenate(op.operands[i:j], axis=axis) for i, j in pairwise(cuts)]
        grouped.concatenate(parts, axis=axis)
        *pieces, joined = grouped.block.ops
        made = [
            self.concatenate(piece, operands[i:j], b)
            for piece, (i, j) in zip(pieces, pairwise(cuts), strict=True)
        ]
        return self.concatenate(joined, made, b)

    # -- kernels -----------------------------------------------------------------------------------------

    def recipe(self, op: Op) -> _Recipe:
        """The recipe, which is created with its kernels when an op of this structure first occurs."""
        # Operands that are the same value are bound to one buffer.
        key = structure(op), tuple(map(op.operands.index, op.operands))
        if key not in self.recipes:
            self.recipes[key] = self.made(op)
        return self.recipes[key]

    def kernel(self, made: Op, wanted: str, bound: Sequence[Value] = ()) -> str:
        """The symbol of a kernel, which is added unless there is an equal one. Its buffers are named after the values that are
        `bound` to them when it is added: operands, then results."""
        key = structure(made)
        if key not in self.symbols:
            for buffer, value in zip(made.block.args, bound, strict=False):
                buffer.name = value.name or buffer.name
            name = wanted
            while name in self.taken:
                self.counts[wanted] = self.counts.get(wanted, 0) + 1
                name = f"{wanted}_{self.counts[wanted]}"
            self.taken.add(name)
            self.symbols[key] = name
            self.kernels.append(_named(without_dead(made), name))
        return self.symbols[key]

    def made(self, op: Op) -> _Recipe:
        made = kernel_of(op, self.target)
        sides = [(number, shape, *self.packed(packing, op)) for number, shape, packing in made.sides]
        places = [*(i for i, _ in made.inputs), *(i for i, *_ in sides)]
        bound = [*(op.operands[i] for i in places), *op.results]
        symbol = self.kernel(made.kernel, made.name or name_of(op), bound)
        results = [
            TensorType(shape, element_type(r.type)) for shape, r in zip(made.results, op.results, strict=True)
        ]
        return _Recipe(symbol, made.inputs, tuple(results), tuple(sides))

    def packed(self, packing: Packing | None, op: Op) -> tuple[str, TensorType | None]:
        """The symbol and the result of the kernel that packs an operand of a product, if there is one."""
        if packing is None:
            return "", None
        symbol = self.kernel(pack_kernel(packing, op.location), "pack")
        return symbol, TensorType(packing.shape, packing.element)


def _named(kernel: Op, name: str) -> Op:
    return kernel.rebuilt(attributes={**kernel.attributes, "sym_name": StringAttr(name)})


def name_of(op: Op) -> str:
    """The name of the kernel of an op; for a fusion its kind and the first few ops that distinguish it."""
    if op.name != "ng.fusion":
        return op.name.partition(".")[2]
    sort, words = kind(op), list[str]()
    for inner in op.walk():
        nest = inner.attributes.get(NEST)
        if isinstance(nest, NestAttr) and nest.has_windows:
            words.append("windows")
        if inner.name not in _SILENT:
            words.append(inner.name.partition(".")[2])
    if sort == "map" and not words and NEST in op.attributes:
        return _move(loop_nest(op))
    if sort == "map" and len(words) == 1 and any("gathers" in inner.traits for inner in op.walk()):
        return words[0]
    return "_".join(list(dict.fromkeys([sort, *words]))[:4])


def _move(planned: LoopNest) -> str:
    """The name of a kernel that only moves data."""
    for access in planned.accesses.values():
        if access.fill is not None:
            return "pad"
        if any(len(place.terms) > 1 for place in access.places):
            return "windows"
        return "transpose" if access.transposes else "copy" if access.permutes else "slice"
    return "copy"


_SILENT = frozenset(
    {
        "ng.fusion",
        "ng.reshape",
        "ng.broadcast",
        "ng.pad",
        "ng.transpose",
        "ng.constant",
        "ng.yield",
        "ng.iota",
        "ng.extent",
        "ng.dot",
    }
)
