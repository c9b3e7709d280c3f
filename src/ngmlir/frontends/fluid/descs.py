# SPDX-License-Identifier: Apache-2.0
"""The descriptions under programs, by the names that programs ask them with. Each is a view of the module and holds nothing itself.

`program.desc`, `block.desc`, `operator.desc` and `variable.desc` give them. Names may come as bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...decl.operator_text import AttributeEntry
from ...ir.attributes import IntegerAttr, StringAttr
from ...ir.types import TensorType, i64
from ...op_graph.answers import answer_methods
from ...programs import names
from ...programs.attributes import (
    AttrType,
    completed,
    fields_of,
    from_attribute,
    to_attribute,
    type_number,
)
from ...programs.backward import gradient_ops
from ...programs.catalogue import REGISTRY
from ...programs.declarations import UNIT
from ...programs.descriptions import BlockView
from ...programs.descriptions import Operator as OperatorView
from ...programs.descriptions import Program as ProgramView
from ...programs.descriptions import Variable as VariableView
from ...programs.infer import infer_types
from ...programs.prune import inference_form, pruned
from ...programs.text import program_bytes
from ...programs.vartypes import HELD, HOLDS, VarType, element_of, number_of, vartype
from ...programs.verify import operator_violations
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean

Name = str | bytes
_IS_TARGET = "program.is_target"


class VarDesc:
    """A declaration. `VarDesc.VarType` are the numbers of element types, and of what else variables hold."""

    VarType = VarType

    def __init__(self, view: VariableView):
        self.view = view

    def name(self) -> str:
        return self.view.name

    def set_name(self, name: Name) -> None:
        """Gives the declaration another name; operators keep the names that they use."""
        self.view.set(sym_name=StringAttr(names.text(name)))

    def type(self) -> VarType:
        """What it holds: `VarType.LOD_TENSOR` ..."""
        return HELD[self.view.holds]

    def set_type(self, type: VarType) -> None:
        self.view.set(holds=StringAttr(HOLDS[type]))

    def shape(self) -> list[int]:
        """The lengths; -1 for one that is known when the program runs."""
        return list(self.view.shape)

    def set_shape(self, shape: Sequence[int]) -> None:
        self.view.type = TensorType(tuple(shape), self.view.element)

    def dtype(self) -> VarType:
        return number_of(self.view.element)

    def set_dtype(self, dtype: Any) -> None:
        self.view.type = TensorType(self.view.shape, element_of(vartype(dtype)))

    def lod_level(self) -> int:
        """The number of ragged levels."""
        return self.view.ragged

    def set_lod_level(self, level: int) -> None:
        self.view.set(ragged=IntegerAttr(level, i64))

    def persistable(self) -> bool:
        return self.view.persistable

    def set_persistable(self, value: bool) -> None:
        self.view.set_flag("persistable", value)


class OpDesc:
    """An operator: its type, the names in its slots, its attributes. `OpDesc()` is one by itself, of no block."""

    def __init__(
        self,
        type: str | OperatorView = "",
        inputs: Mapping[str, Sequence[Name]] | None = None,
        outputs: Mapping[str, Sequence[Name]] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ):
        if isinstance(type, OperatorView):
            self.view = type
            return
        self.view = ProgramView().top.insert(0, type, _texts(inputs), _texts(outputs))
        for name, value in (attrs or {}).items():
            self.set_attr(name, value)

    def type(self) -> str:
        return self.view.type

    def set_type(self, type: Name) -> None:
        self.view.set(type=StringAttr(names.text(type)))

    def copy_from(self, other: OpDesc) -> None:
        """Becomes equal to another operator, without its sub-block."""
        taken = ("type", "inputs", "outputs", "attrs")
        self.view.set(**{name: other.view.op.attributes.get(name) for name in taken})

    # ---- slots

    def input(self, slot: Name) -> list[str]:
        """The names of the variables in an input slot; UserError where the operator has none of that name."""
        return self._slot("input", names.text(slot))

    def output(self, slot: Name) -> list[str]:
        """The names of the variables in an output slot; UserError where the operator has none of that name."""
        return self._slot("output", names.text(slot))

    def _slot(self, side: str, slot: str) -> list[str]:
        slots = self.view.inputs if side == "input" else self.view.outputs
        if slot in slots:
            return list(slots[slot])
        definition = REGISTRY.find(self.type())
        known = list(slots)
        if definition is not None:
            entry = definition.entry
            known += [each.name for each in (entry.inputs if side == "input" else entry.outputs)]
        if slot not in known:
            hint = did_you_mean(slot, known, f"it has {', '.join(known) or 'none'}")
            raise UserError(f"operator {self.type()} has no {side} '{slot}'", self.view.location, hint=hint)
        return []

    def set_input(self, slot: Name, given: Sequence[Name]) -> None:
        self.view.set_slot("inputs", names.text(slot), [names.text(n) for n in given])

    def set_output(self, slot: Name, given: Sequence[Name]) -> None:
        self.view.set_slot("outputs", names.text(slot), [names.text(n) for n in given])

    def input_names(self) -> list[str]:
        """The names of the input slots."""
        return list(self.view.inputs)

    def output_names(self) -> list[str]:
        """The names of the output slots."""
        return list(self.view.outputs)

    def input_arg_names(self) -> list[str]:
        """The names of all variables that it reads."""
        return self.view.reads

    def output_arg_names(self) -> list[str]:
        """The names of all variables that it writes."""
        return self.view.writes

    def rename_input(self, old: Name, new: Name) -> None:
        """Has it read another variable."""
        self.view.rename("inputs", names.text(old), names.text(new))

    def rename_output(self, old: Name, new: Name) -> None:
        """Has it write another variable."""
        self.view.rename("outputs", names.text(old), names.text(new))

    # ---- attributes

    def attr_names(self) -> list[str]:
        """The names of its attributes; the sub-block is one of them."""
        found = [name for name, _ in self.view.dictionary.items]
        found += [name for name in _ROLES if name not in found]
        return [*found, "sub_block"] if self.view.sub_block is not None else found

    def has_attr(self, name: Name) -> bool:
        return names.text(name) in self.attr_names()

    def attr(self, name: Name) -> Any:
        """The value of an attribute, of the sub-block its number; UserError where it has none of that name."""
        name = names.text(name)
        if name == "sub_block" and self.view.sub_block is not None:
            return self.block_attr_id(name)
        for key, value in self.view.dictionary.items:
            if key == name:
                return from_attribute(value)
        if name in _ROLES:
            return _ROLES[name]()
        known = self.attr_names()
        hint = did_you_mean(name, known, f"it has {', '.join(known)}")
        raise UserError(f"operator {self.type()} has no attribute '{name}'", self.view.location, hint=hint)

    def attr_type(self, name: Name) -> AttrType:
        """The type of an attribute, by number."""
        name = names.text(name)
        return AttrType.BLOCK if name == "sub_block" else type_number(self._field(name, self.attr(name)))

    def set_attr(self, name: Name, value: Any) -> None:
        """Gives an attribute another value, of its type and within its range."""
        name = names.text(name)
        self.view.set_attribute(name, to_attribute(self.type(), self._field(name, value), value))

    def _field(self, name: str, value: Any) -> AttributeEntry:
        """What is said of an attribute; of an operator that is not registered, what its value says."""
        definition = REGISTRY.find(self.type())
        if definition is None:
            return AttributeEntry(name, _type_of_value(value), "")
        fields = {field.name: field for field in fields_of(definition.entry)}
        if name not in fields:
            raise UserError(
                f"operator {self.type()} has no attribute '{name}'", hint=did_you_mean(name, fields)
            )
        return fields[name]

    def set_block_attr(self, name: Name, block: BlockDesc) -> None:
        """Gives it its sub-block, which no other operator runs."""
        if names.text(name) != "sub_block":
            raise UserError(f"the block that an operator runs is its 'sub_block', not '{names.text(name)}'")
        self.view.attach(block.view)

    def block_attr_id(self, name: Name) -> int:
        """The number of the sub-block."""
        block = self.view.sub_block
        if names.text(name) != "sub_block" or block is None:
            raise UserError(f"operator {self.type()} has no block '{names.text(name)}'", self.view.location)
        return block.index

    # ---- extraction

    def set_is_target(self, value: bool) -> None:
        """Whether `core.prune` keeps it, with what it needs, also where it is not among the targets."""
        self.view.set(**{_IS_TARGET: UNIT if value else None})

    def is_target(self) -> bool:
        """Whether `set_is_target` made it one."""
        return _IS_TARGET in self.view.op.attributes

    # ---- checks

    def check_attrs(self) -> None:
        """Adds defaults. UserError for attributes that lack, that the operator does not have, or that are out of range."""
        entry = REGISTRY.get(self.type()).entry
        self.view.set_attributes(completed(entry, self.view.attributes))

    def infer_shape(self, block: BlockDesc) -> None:
        """Gives the variables that it writes their shapes and element types; UserError where what it reads does not fit."""
        found = list(operator_violations(self.view))
        if found:
            raise UserError(found)
        infer_types(self.view)

    def infer_var_type(self, block: BlockDesc) -> None:
        """As `infer_shape`."""
        self.infer_shape(block)

    def __repr__(self) -> str:
        return repr(self.view)


#: What every operator has, and what it is where nothing is said.
_ROLES: Mapping[str, type] = {"op_role": int, "op_role_var": list}


def _type_of_value(value: Any) -> str:
    """The type of an attribute that has such a value; UserError where there is none."""
    if isinstance(value, (list, tuple, np.ndarray)):
        each: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return _type_of_value(each[0]) + "s" if each else "ints"
    for type, text in ((bool, "bool"), (int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, type):
            return text
    raise UserError(f"{value!r} is no value of an attribute")


def _texts(slots: Mapping[str, Sequence[Name]] | None) -> dict[str, list[str]]:
    return {slot: [names.text(n) for n in given] for slot, given in (slots or {}).items()}


class BlockDesc:
    """A block: its declarations and operators."""

    def __init__(self, view: BlockView):
        self.view = view

    @property
    def id(self) -> int:
        """Its number."""
        return self.view.index

    @property
    def parent(self) -> int:
        """The number of the block around it; -1 of the global one."""
        return -1 if self.view.parent is None else self.view.parent.index

    # ---- operators

    def append_op(self) -> OpDesc:
        """A new operator at the end, which has no type yet."""
        return self._insert_op(len(self.view.operators))

    def _prepend_op(self) -> OpDesc:
        return self._insert_op(0)

    def _insert_op(self, at: int) -> OpDesc:
        return OpDesc(self.view.insert(at, ""))

    def _remove_op(self, start: int, stop: int) -> None:
        self.view.remove_operators(start, stop)

    def op(self, index: int) -> OpDesc:
        """The operator at a place."""
        if not 0 <= index < self.op_size():
            raise UserError(f"block {self.id} has {self.op_size()} operators, and none at {index}")
        return OpDesc(self.view.operators[index])

    def op_size(self) -> int:
        """The number of operators."""
        return len(self.view.operators)

    # ---- variables

    def var(self, name: Name) -> VarDesc:
        """The variable of that name in this block; declared now if there is none."""
        name = names.text(name)
        found = self.view.variables.get(name)
        return VarDesc(self.view.declare(name) if found is None else found)

    def find_var(self, name: Name) -> VarDesc | None:
        """The variable of that name in this block, or None."""
        found = self.view.variables.get(names.text(name))
        return None if found is None else VarDesc(found)

    def find_var_recursive(self, name: Name) -> VarDesc | None:
        """The variable of that name in this block or in those around it, or None."""
        found = self.view.find(names.text(name))
        return None if found is None else VarDesc(found)

    def has_var(self, name: Name) -> bool:
        return names.text(name) in self.view.variables

    def has_var_recursive(self, name: Name) -> bool:
        return self.view.find(names.text(name)) is not None

    def all_vars(self) -> list[VarDesc]:
        return [VarDesc(v) for v in self.view.variables.values()]

    def _rename_var(self, old: Name, new: Name) -> None:
        """Gives a variable another name, in every operator of the block too."""
        self.view.rename(names.text(old), names.text(new))

    def _remove_var(self, name: Name) -> None:
        self.view.visible(names.text(name))
        self.view.remove_variable(names.text(name))

    def __repr__(self) -> str:
        return repr(self.view)


class ProgramDesc:
    """A program: its blocks. `ProgramDesc()` is an empty one."""

    def __init__(self, view: ProgramView | None = None):
        self.view = ProgramView() if view is None else view

    def block(self, index: int) -> BlockDesc:
        """The block of a number; UserError where there is none."""
        return BlockDesc(self.view.block(index))

    def append_block(self, parent: BlockDesc) -> BlockDesc:
        """A new block below another one."""
        return BlockDesc(parent.view.append_block())

    def num_blocks(self) -> int:
        return len(self.view.blocks)

    def serialize_to_string(self) -> bytes:
        """The program as bytes, which `Program.parse_from_string` reads."""
        return program_bytes(self.view)

    def __repr__(self) -> str:
        return repr(self.view)


answer_methods(VarDesc, OpDesc, BlockDesc, ProgramDesc, called="fluid.core")


def get_grad_op_desc(
    op_desc: OpDesc, no_grad_set: Collection[str], grad_sub_blocks: Sequence[BlockDesc] = ()
) -> tuple[list[OpDesc], dict[str, str]]:
    """The operators that compute the gradients of what an operator reads, and of each gradient the variable it is of.

    `no_grad_set` names gradients that are not wanted; they are replaced by `@EMPTY@`.
    """
    made = gradient_ops(op_desc.view, no_grad_set)
    found = [OpDesc(op.type, op.inputs, op.outputs, op.attributes) for op in made]
    written = [n for op in found for n in op.output_arg_names() if n.endswith(names.GRADIENT)]
    return found, {name: name.removesuffix(names.GRADIENT) for name in written}


def prune(desc: ProgramDesc, targets: Sequence[Sequence[int]] = ()) -> ProgramDesc:
    """The program with the operators that targets need: pairs of the number of a block and the place of an operator, and the
    operators that are marked by `OpDesc.set_is_target`."""
    marked = [o for o in desc.view.top.operators if OpDesc(o).is_target()]
    return ProgramDesc(pruned(desc.view, [*[desc.view.block(b).operators[at] for b, at in targets], *marked]))


def inference_optimize(desc: ProgramDesc) -> ProgramDesc:
    """A copy in which `is_test` is set where an operator has it."""
    return ProgramDesc(inference_form(desc.view))
