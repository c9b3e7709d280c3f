# SPDX-License-Identifier: Apache-2.0
"""Operators of a block, as they are used in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...programs import names
from ...programs.attributes import AttrType, fields_of, from_attribute, to_attribute, type_number
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import Operator as OperatorView
from ...support.diagnostics import UserError
from ...support.spelling import did_you_mean


class Operator:
    """An operator of a block: its type, the variables in its slots, its attributes. `block.append_op(...)` makes one."""

    def __init__(self, block: Any, desc: OperatorView):
        self.block, self.desc = block, desc

    @property
    def type(self) -> str:
        return self.desc.type

    @property
    def idx(self) -> int:
        """Its place among the operators of its block."""
        return self.desc.index

    def has_kernel(self, op_type: str) -> bool:
        """Whether an operator computes something by itself; others are carried out by what runs a program."""
        return REGISTRY.get(op_type).build is not None

    # ---- slots

    def input(self, name: str) -> list[str]:
        """The names of the variables in an input slot; UserError where the operator has none of that name."""
        return list(self._slot("input", name))

    def output(self, name: str) -> list[str]:
        """The names of the variables in an output slot; UserError where the operator has none of that name."""
        return list(self._slot("output", name))

    def _slot(self, side: str, name: str) -> Sequence[str]:
        slots = self.desc.inputs if side == "input" else self.desc.outputs
        if name in slots:
            return slots[name]
        entry = REGISTRY.get(self.type).entry
        known = [slot.name for slot in (entry.inputs if side == "input" else entry.outputs)]
        if name not in known:
            raise UserError(
                f"operator {self.type} has no {side} '{name}'",
                hint=did_you_mean(name, known, f"it has {', '.join(known)}"),
            )
        return ()

    @property
    def input_names(self) -> list[str]:
        """The names of the input slots."""
        return list(self.desc.inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the output slots."""
        return list(self.desc.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """The names of all variables that it reads."""
        return self.desc.reads

    @property
    def output_arg_names(self) -> list[str]:
        """The names of all variables that it writes."""
        return self.desc.writes

    def rename_input(self, old_name: str, new_name: str) -> None:
        """Has it read another variable."""
        self.desc.rename("inputs", names.text(old_name), names.text(new_name))

    def rename_output(self, old_name: str, new_name: str) -> None:
        """Has it write another variable."""
        self.desc.rename("outputs", names.text(old_name), names.text(new_name))

    # ---- attributes

    @property
    def attr_names(self) -> list[str]:
        """The names of its attributes; the sub-block is one of them."""
        found = [name for name, _ in self.desc.dictionary.items]
        found += [name for name in ("op_role", "op_role_var") if name not in found]
        return [*found, "sub_block"] if self.desc.sub_block is not None else found

    def has_attr(self, name: str) -> bool:
        return name in self.attr_names

    def attr(self, name: str) -> Any:
        """The value of an attribute; UserError where it has none of that name."""
        if name == "sub_block" and self.desc.sub_block is not None:
            return self.block_attr(name)
        for key, value in self.desc.dictionary.items:
            if key == name:
                return from_attribute(value)
        if name == "op_role":
            return 0
        if name == "op_role_var":
            return []
        hint = did_you_mean(name, self.attr_names, f"it has {', '.join(self.attr_names)}")
        raise UserError(f"operator {self.type} has no attribute '{name}'", self.desc.location, hint=hint)

    def attr_type(self, name: str) -> AttrType:
        """The type of an attribute, by number."""
        if name == "sub_block":
            return AttrType.BLOCK
        self.attr(name)
        return next(type_number(f) for f in fields_of(REGISTRY.get(self.type).entry) if f.name == name)

    def set_attr(self, name: str, val: Any) -> None:
        """Gives an attribute another value, of its type and within its range."""
        fields = {field.name: field for field in fields_of(REGISTRY.get(self.type).entry)}
        if name not in fields:
            raise UserError(
                f"operator {self.type} has no attribute '{name}'", hint=did_you_mean(name, fields)
            )
        self.desc.set_attribute(name, to_attribute(self.type, fields[name], val))

    def all_attrs(self) -> Mapping[str, Any]:
        """All attributes by name; a sub-block as a Block."""
        return {name: self.attr(name) for name in self.attr_names}

    def block_attr_id(self, name: str) -> int:
        """The number of a sub-block."""
        block = self.desc.sub_block
        if name != "sub_block" or block is None:
            raise UserError(f"operator {self.type} has no block '{name}'", self.desc.location)
        return block.index

    def block_attr(self, name: str) -> Any:
        """A sub-block."""
        return self.block.program.block(self.block_attr_id(name))

    def blocks_attr_ids(self, name: str) -> list[int]:
        """The numbers of the sub-blocks of an attribute that is a list of them; no operator has one with several."""
        return [self.block_attr_id(name)]

    def blocks_attr(self, name: str) -> list[Any]:
        """The sub-blocks of an attribute that is a list of them."""
        return [self.block_attr(name)]

    def to_string(self, throw_on_error: bool = True) -> str:
        """The operator, as the text of the program has it."""
        return str(self.desc.op)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<Operator {self.type} {dict(self.desc.inputs)} -> {dict(self.desc.outputs)}>"
