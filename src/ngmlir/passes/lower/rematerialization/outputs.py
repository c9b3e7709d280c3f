# SPDX-License-Identifier: Apache-2.0
"""Kernels that compute only some of the results of another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....ir.attributes import IntegerAttr, StringAttr, TypeAttr, integers
from ....ir.core import Block, Module, Op, Region, function_type
from ....ir.types import i64
from ....ops import tile
from ...graph.dead_code import without, without_dead
from ...graph.inline import copied


def removable_outputs(kernel: tile.KernelOp) -> set[int]:
    """The outputs of a kernel, by number, that it only stores to: the others do not depend on them."""
    buffers = len(kernel.block.args) - len(kernel.grid)
    outputs = kernel.block.args[buffers - kernel.outputs : buffers]
    others = {v for op in kernel.walk() if not isinstance(op, tile.StoreOp) for v in op.operands}
    return {number for number, output in enumerate(outputs) if output not in others}


class Kernels(dict[str, Op]):
    """The kernels of a module by name, and those that were made of them."""

    def __init__(self, module: Module):
        super().__init__({op.symbol: op for op in module.ops if op.name == "tile.kernel"})
        self.made: dict[tuple[str, tuple[int, ...]], Op] = {}

    def with_outputs(self, symbol: str, kept: Sequence[int]) -> str:
        """The name of the kernel that computes only these outputs of another one, by number. The others are removable."""
        known = self.made.get((symbol, tuple(kept)))
        if known is None:
            name = f"{symbol}_only_{'_'.join(map(str, kept))}"
            while name in self:
                name += "_"
            kernel = self[symbol]
            assert isinstance(kernel, tile.KernelOp)
            known = self[name] = self.made[symbol, tuple(kept)] = _with_outputs(kernel, kept, name)
        return known.symbol


def _with_outputs(kernel: tile.KernelOp, kept: Collection[int], symbol: str) -> Op:
    arguments = kernel.block.args
    first = len(arguments) - len(kernel.grid) - kernel.outputs
    removed = {arguments[first + number] for number in range(kernel.outputs) if number not in kept}
    stores = {op for op in kernel.walk() if any(v in removed for v in op.operands)}
    body = without_dead(without(kernel, stores, {})).block
    left = [argument for argument in arguments if argument not in removed]
    block = Block([argument.type for argument in left], [argument.name for argument in left])
    mapping = dict(zip(left, block.args, strict=True))
    block.ops = [copied(op, mapping) for op in body.ops]
    place = {argument: number for number, argument in enumerate(left)}
    pairs = zip(kernel.in_place[::2], kernel.in_place[1::2], strict=True)
    pairs = [[source, place[arguments[output]]] for source, output in pairs if arguments[output] in place]
    attributes = {
        **kernel.attributes,
        "sym_name": StringAttr(symbol),
        "function_type": TypeAttr(function_type(block, ())),
        "outputs": IntegerAttr(len(kept), i64),
        "in_place": integers([number for pair in pairs for number in pair]),
    }
    return kernel.rebuilt(regions=[Region(block)], attributes=attributes)
