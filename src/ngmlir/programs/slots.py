# SPDX-License-Identifier: Apache-2.0
"""Attributes of the ops of a program: the slots of operators, and ops with some attributes replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..ir.attributes import ArrayAttr, Attribute, DictAttr, SymbolRefAttr
from ..ir.core import Op

O = TypeVar("O", bound=Op)


def slot_attribute(slots: Mapping[str, Sequence[str]]) -> DictAttr:
    """Slots and the names of their variables, as an operator of the IR holds them."""
    return DictAttr(
        tuple([(s, ArrayAttr(tuple([SymbolRefAttr(n) for n in names]))) for s, names in slots.items()])
    )


def names_in_slots(attribute: Attribute) -> dict[str, list[str]]:
    """The names of the variables in each slot."""
    assert isinstance(attribute, DictAttr)
    return {
        name: [ref.name for ref in refs.items if isinstance(ref, SymbolRefAttr)]
        for name, refs in attribute.items
        if isinstance(refs, ArrayAttr)
    }


def with_attributes(op: O, changes: Mapping[str, Attribute | None]) -> O:
    """The op with some attributes replaced; None removes one."""
    fields: dict[str, Attribute] = dict(op.attributes)
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return op.rebuilt(attributes=fields)
