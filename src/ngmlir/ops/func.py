# SPDX-License-Identifier: Apache-2.0
# Generated from dialects/func.ngd by `python -m ngmlir.decl.generate`; do not edit.
"""The func dialect. Functions, calls and returns, as in MLIR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from ..ir.attributes import Attribute
from ..ir.core import Op, Region, Value
from ..ir.definition import AttributeField, Constraint, Domain, OpDefinition, Operand
from ..ir.types import Type
from . import fields

V = TypeVar("V")


class FuncOp(Op):
    """A function on values. The entry point of a program is @main."""

    __slots__ = ()
    name = "func.func"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        attributes=(
            AttributeField("sym_name", "str", None, False),
            AttributeField("function_type", "type", None, False),
        ),
        regions=('body',),
        traits=frozenset(['function', 'isolated', 'symbol']),
        form=(),
        doc='A function on values. The entry point of a program is @main.',
        example='func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}',
    )

    @property
    def sym_name(self) -> str:
        return fields.get_str(self, "sym_name")

    @property
    def function_type(self) -> Type:
        return fields.get_type(self, "function_type")

    @property
    def body(self) -> Region:
        return self.regions[0]


class ReturnOp(Op):
    """Ends a function with its results."""

    __slots__ = ()
    name = "func.return"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("any", "any", ""), "", True),
        ),
        results=(),
        traits=frozenset(['pure', 'terminator']),
        form=('$inputs',),
        doc='Ends a function with its results.',
        example='func.return %a : tensor<4xf32>',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]


class CallOp(Op):
    """Calls a function of this module."""

    __slots__ = ()
    name = "func.call"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("any", "any", ""), "", True),
        ),
        results=(
            Operand("results", Constraint("any", "any", ""), "", True),
        ),
        attributes=(
            AttributeField("callee", "symbol", None, False),
        ),
        traits=frozenset(['stated']),
        form=('$callee', '(', '$inputs', ')'),
        doc='Calls a function of this module.',
        example='%r = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]

    @property
    def callee(self) -> str:
        return fields.get_symbol(self, "callee")


#: Op name -> class.
OPS: dict[str, type[Op]] = {
    "func.func": FuncOp,
    "func.return": ReturnOp,
    "func.call": CallOp,
}


class FuncVerbs(fields.Verbs[V], Generic[V]):
    """One method per func op. What `V` is (an IR value, a graph node, an array) is up to `build`."""

    def call(self, inputs: Sequence[V], *, types: Sequence[Type], callee: str) -> Sequence[V]:
        """Calls a function of this module."""
        return self.build(CallOp, [*inputs], {"callee": callee}, types=types)
