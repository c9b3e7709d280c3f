# SPDX-License-Identifier: Apache-2.0
"""The Python views of the operators of a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...programs.attributes import AttrType
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import Operator as OperatorView
from .descs import OpDesc


class Operator:
    """An operator of a block: its type, the variables in its slots, its attributes. `block.append_op(...)` makes one."""

    def __init__(self, block: Any, view: OperatorView):
        self.block, self.view = block, view

    @property
    def desc(self) -> OpDesc:
        """The description under it."""
        return OpDesc(self.view)

    @property
    def type(self) -> str:
        return self.view.type

    @property
    def idx(self) -> int:
        """Its place among the operators of its block."""
        return self.view.index

    def has_kernel(self, op_type: str) -> bool:
        """Whether an operator computes something by itself; others are carried out by what runs a program."""
        return REGISTRY.get(op_type).build is not None

    # ---- slots

    def input(self, name: str) -> list[str]:
        """The names of the variables in an input slot; UserError where the operator has none of that name."""
        return self.desc.input(name)

    def output(self, name: str) -> list[str]:
        """The names of the variables in an output slot; UserError where the operator has none of that name."""
        return self.desc.output(name)

    @property
    def input_names(self) -> list[str]:
        """The names of the input slots."""
        return list(self.view.inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the output slots."""
        return list(self.view.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """The names of all variables that it reads."""
        return self.view.reads

    @property
    def output_arg_names(self) -> list[str]:
        """The names of all variables that it writes."""
        return self.view.writes

    def rename_input(self, old_name: str, new_name: str) -> None:
        """Has it read another variable."""
        self.desc.rename_input(old_name, new_name)

    def rename_output(self, old_name: str, new_name: str) -> None:
        """Has it write another variable."""
        self.desc.rename_output(old_name, new_name)

    # ---- attributes

    @property
    def attr_names(self) -> list[str]:
        """The names of its attributes; the sub-block is one of them."""
        return self.desc.attr_names()

    def has_attr(self, name: str) -> bool:
        return self.desc.has_attr(name)

    def attr(self, name: str) -> Any:
        """The value of an attribute, of the sub-block a Block; UserError where it has none of that name."""
        if name == "sub_block" and self.view.sub_block is not None:
            return self.block_attr(name)
        return self.desc.attr(name)

    def attr_type(self, name: str) -> AttrType:
        """The type of an attribute, by number."""
        return self.desc.attr_type(name)

    def set_attr(self, name: str, val: Any) -> None:
        """Gives an attribute another value, of its type and within its range."""
        self.desc.set_attr(name, val)

    def all_attrs(self) -> Mapping[str, Any]:
        """All attributes by name; a sub-block as a Block."""
        return {name: self.attr(name) for name in self.attr_names}

    def block_attr_id(self, name: str) -> int:
        """The number of a sub-block."""
        return self.desc.block_attr_id(name)

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
        return str(self.view)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<Operator {self.type} {dict(self.view.inputs)} -> {dict(self.view.outputs)}>"
