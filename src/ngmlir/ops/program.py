# SPDX-License-Identifier: Apache-2.0
# Generated from dialects/program.ngd by `python -m ngmlir.decl.generate`; do not edit.
"""The program dialect. Named variables and the operators that read and write them, before names become values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from ..ir.attributes import Attribute
from ..ir.core import Op, Region, Value
from ..ir.definition import AttributeField, Constraint, Domain, OpDefinition, Operand
from ..ir.types import Type
from . import fields, program_rules

V = TypeVar("V")


class VarOp(Op):
    """A variable: a name for a value of this type, with what is known of it. `holds` says what else than a tensor it holds. A length of ? is known when the program runs, and a type of rank 0 is not known yet."""

    __slots__ = ()
    name = "program.var"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        attributes=(
            AttributeField("sym_name", "name", None, False),
            AttributeField("type", "type", None, False),
            AttributeField("holds", "str", fields.default("str", '"tensor"'), False),
            AttributeField("ragged", "i64", fields.default("i64", '0'), False),
            AttributeField("persistable", "unit", None, True),
            AttributeField("data", "unit", None, True),
            AttributeField("stop_gradient", "unit", None, True),
            AttributeField("parameter", "any", None, True),
        ),
        traits=frozenset(['symbol']),
        rule=program_rules.var,
        form=('$sym_name', ':', '$type', 'attr-dict'),
        doc='A variable: a name for a value of this type, with what is known of it. `holds` says what else than a tensor it holds. A length of ? is known when the program runs, and a type of rank 0 is not known yet.',
        example='program.var @x : tensor<?x13xf32> {data, stop_gradient}',
    )

    @property
    def sym_name(self) -> str:
        return fields.get_name(self, "sym_name")

    @property
    def type(self) -> Type:
        return fields.get_type(self, "type")

    @property
    def holds(self) -> str:
        return fields.get_str(self, "holds")

    @property
    def ragged(self) -> int:
        return fields.get_i64(self, "ragged")

    @property
    def persistable(self) -> bool | None:
        return fields.find_unit(self, "persistable")

    @property
    def data(self) -> bool | None:
        return fields.find_unit(self, "data")

    @property
    def stop_gradient(self) -> bool | None:
        return fields.find_unit(self, "stop_gradient")

    @property
    def parameter(self) -> Attribute | None:
        return fields.find_any(self, "parameter")


class OpOp(Op):
    """An operator: its type, the variables in each of its slots, and its attributes."""

    __slots__ = ()
    name = "program.op"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        attributes=(
            AttributeField("type", "str", None, False),
            AttributeField("inputs", "any", None, False),
            AttributeField("outputs", "any", None, False),
            AttributeField("attrs", "any", None, True),
        ),
        traits=frozenset([]),
        rule=program_rules.op,
        form=('$type', '$inputs', '->', '$outputs', '{', 'with', '$attrs', '}', 'attr-dict'),
        doc='An operator: its type, the variables in each of its slots, and its attributes.',
        example='program.op mul {X = [@x], Y = [@w]} -> {Out = [@y]} with {x_num_col_dims = 1 : i32}',
    )

    @property
    def type(self) -> str:
        return fields.get_str(self, "type")

    @property
    def inputs(self) -> Attribute:
        return fields.get_any(self, "inputs")

    @property
    def outputs(self) -> Attribute:
        return fields.get_any(self, "outputs")

    @property
    def attrs(self) -> Attribute | None:
        return fields.find_any(self, "attrs")


class BlockOpOp(Op):
    """An operator that runs a sub-block, whose number is `index`. Names that the sub-block does not declare are those around it."""

    __slots__ = ()
    name = "program.block_op"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        attributes=(
            AttributeField("type", "str", None, False),
            AttributeField("inputs", "any", None, False),
            AttributeField("outputs", "any", None, False),
            AttributeField("index", "i64", None, False),
            AttributeField("attrs", "any", None, True),
        ),
        regions=('body',),
        traits=frozenset(['symbol_table']),
        rule=program_rules.op,
        form=('$type', '$inputs', '->', '$outputs', '{', 'with', '$attrs', '}', 'block', '$index', 'attr-dict'),
        doc='An operator that runs a sub-block, whose number is `index`. Names that the sub-block does not declare are those around it.',
        example='program.block_op while {Condition = [@more], X = [@i]} -> {Out = [@i]} block 1 {\n  program.op increment {X = [@i]} -> {Out = [@i]} with {step = 1.0 : f64}\n}',
    )

    @property
    def type(self) -> str:
        return fields.get_str(self, "type")

    @property
    def inputs(self) -> Attribute:
        return fields.get_any(self, "inputs")

    @property
    def outputs(self) -> Attribute:
        return fields.get_any(self, "outputs")

    @property
    def index(self) -> int:
        return fields.get_i64(self, "index")

    @property
    def attrs(self) -> Attribute | None:
        return fields.find_any(self, "attrs")

    @property
    def body(self) -> Region:
        return self.regions[0]


class BlockOp(Op):
    """A block that no operator runs yet."""

    __slots__ = ()
    name = "program.block"
    definition = OpDefinition(
        name,
        operands=(),
        results=(),
        attributes=(
            AttributeField("index", "i64", None, False),
        ),
        regions=('body',),
        traits=frozenset(['symbol_table']),
        form=('$index', 'attr-dict'),
        doc='A block that no operator runs yet.',
        example='program.block 1 {\n  program.var @y : tensor<1xf32>\n}',
    )

    @property
    def index(self) -> int:
        return fields.get_i64(self, "index")

    @property
    def body(self) -> Region:
        return self.regions[0]


#: Op name -> class.
OPS: dict[str, type[Op]] = {
    "program.var": VarOp,
    "program.op": OpOp,
    "program.block_op": BlockOpOp,
    "program.block": BlockOp,
}


class ProgramVerbs(fields.Verbs[V], Generic[V]):
    """One method per program op. What `V` is (an IR value, a graph node, an array) is up to `build`."""

    def var(self, *, sym_name: str, type: Type, holds: str | None = None, ragged: int | None = None, persistable: bool | None = None, data: bool | None = None, stop_gradient: bool | None = None, parameter: Attribute | None = None) -> Sequence[V]:
        """A variable: a name for a value of this type, with what is known of it. `holds` says what else than a tensor it holds. A length of ? is known when the program runs, and a type of rank 0 is not known yet."""
        return self.build(VarOp, [], {"sym_name": sym_name, "type": type, "holds": holds, "ragged": ragged, "persistable": persistable, "data": data, "stop_gradient": stop_gradient, "parameter": parameter})

    def op(self, *, type: str, inputs: Attribute, outputs: Attribute, attrs: Attribute | None = None) -> Sequence[V]:
        """An operator: its type, the variables in each of its slots, and its attributes."""
        return self.build(OpOp, [], {"type": type, "inputs": inputs, "outputs": outputs, "attrs": attrs})

    def block_op(self, *, type: str, inputs: Attribute, outputs: Attribute, index: int, attrs: Attribute | None = None, regions: Sequence[Region]) -> Sequence[V]:
        """An operator that runs a sub-block, whose number is `index`. Names that the sub-block does not declare are those around it."""
        return self.build(BlockOpOp, [], {"type": type, "inputs": inputs, "outputs": outputs, "index": index, "attrs": attrs}, regions=regions)

    def block(self, *, index: int, regions: Sequence[Region]) -> Sequence[V]:
        """A block that no operator runs yet."""
        return self.build(BlockOp, [], {"index": index}, regions=regions)
