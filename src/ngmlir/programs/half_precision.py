# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of a program in 16 bits: their operands are cast, and their results cast back.

Parameters stay float32, and so does all else: sums, normalization, losses, updates. Products of halves are summed in float32.
Gradients that are appended afterwards are of such products too.
"""

from __future__ import annotations

from ..ir.types import TensorType, Type, bf16, f16, f32
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .inserting import declare_like, insert_for
from .names import EMPTY
from .vartypes import number_of

#: Names of element types.
HALVES: dict[str, Type] = {"bf16": bf16, "f16": f16}


def to_half(program: Program, element: Type) -> int:
    """Rewrites the products of a program to an element type, in place; returns their number. Those that are in 16 bits already, or
    in float64, stay. Existing gradients are not changed: rewrite the program before they are appended."""
    return sum(_Block(each, element).rewrite() for each in program.blocks)


class _Block:
    """A block, and which variables are there in 16 bits now: each is cast once for as long as nothing is written to it."""

    def __init__(self, block: BlockView, element: Type):
        self.block, self.element = block, element
        self.half: dict[str, str] = {}

    def rewrite(self) -> int:
        count = 0
        for operator in list(self.block.operators):
            if REGISTRY.says(operator.type, "product") and self.is_wide(operator):
                self.operands(operator)
                self.results(operator)
                count += 1
            for name in operator.writes:
                self.half.pop(name, None)
        return count

    def is_wide(self, operator: Operator) -> bool:
        names = [n for n in (*operator.reads, *operator.writes) if n != EMPTY]
        return all(self.block.visible(n).type.element is f32 for n in names)

    def operands(self, operator: Operator) -> None:
        for slot, names in operator.inputs.items():
            for name in names:
                if name != EMPTY and name not in self.half:
                    self.half[name] = self.declared(name)
                    self.cast(operator.index, name, self.half[name], operator)
            operator.set_slot("inputs", slot, [self.half.get(n, n) for n in names])

    def results(self, operator: Operator) -> None:
        for slot, names in operator.outputs.items():
            made = {name: self.declared(name) for name in names if name != EMPTY}
            operator.set_slot("outputs", slot, [made.get(n, n) for n in names])
            for name, half in made.items():
                self.cast(operator.index + 1, half, name, operator)

    def declared(self, name: str) -> str:
        """A new variable for another in 16 bits: `x.bf16`, and where that is taken `x.bf16_1`."""
        wide = self.block.visible(name)
        flags = ["stop_gradient"] if wide.flag("stop_gradient") else []
        type = TensorType(wide.type.shape, self.element)
        return declare_like(self.block, name, type, f"{name}.{self.element}", "_", flags)

    def cast(self, at: int, source: str, target: str, operator: Operator) -> None:
        given, made = (number_of(self.block.visible(name).type.element) for name in (source, target))
        insert_for(operator, at, "cast", source, target, {"in_dtype": given, "out_dtype": made})
