# SPDX-License-Identifier: Apache-2.0
"""What the entries of operators say, by the names that programs ask with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ...decl.operator_text import Slot
from ...programs.attributes import COMMON, AttrType, fields_of, type_number
from ...programs.catalogue import REGISTRY


@dataclass(frozen=True)
class VarProto:
    """A slot: whether it takes a list (`duplicable`), may be empty (`dispensable`), is there for the gradient (`intermediate`)."""

    name: str
    comment: str
    duplicable: bool
    dispensable: bool
    intermediate: bool


@dataclass(frozen=True)
class AttrProto:
    """An attribute; a `generated` one is of every operator, and set by what builds programs."""

    name: str
    type: AttrType
    comment: str
    generated: bool


@dataclass(frozen=True)
class OpProto:
    """An operator: its slots, its attributes, what it does."""

    type: str
    inputs: Sequence[VarProto]
    outputs: Sequence[VarProto]
    attrs: Sequence[AttrProto]
    comment: str


@cache
def op_proto(type: str) -> OpProto:
    """What is said of an operator; UserError with the nearest name where there is none of that type."""
    entry = REGISTRY.get(type).entry
    common = {field.name for field in COMMON}
    return OpProto(
        entry.type,
        [_slot(slot) for slot in entry.inputs],
        [_slot(slot) for slot in entry.outputs],
        [AttrProto(a.name, type_number(a), a.doc, a.name in common) for a in fields_of(entry)],
        entry.doc,
    )


def _slot(slot: Slot) -> VarProto:
    return VarProto(slot.name, slot.doc, slot.many, slot.optional, slot.intermediate)


def get_all_op_protos() -> list[OpProto]:
    """What is said of every operator, gradients aside."""
    return [op_proto(type) for type in sorted(REGISTRY.listed()) if not type.endswith("_grad")]


class OpProtoHolder:
    """What is said of operators, by type: `OpProtoHolder.instance().get_op_proto("mul")`."""

    _one: OpProtoHolder | None = None

    @classmethod
    def instance(cls) -> OpProtoHolder:
        """The only one."""
        if cls._one is None:
            cls._one = cls()
        return cls._one

    def get_op_proto(self, type: str) -> OpProto:
        """UserError where there is no operator of that type."""
        return op_proto(type)

    def has_op_proto(self, type: str) -> bool:
        return REGISTRY.find(type) is not None

    def generated_op_attr_names(self) -> list[str]:
        """The names of the attributes that every operator has, and that what builds programs sets."""
        return [field.name for field in COMMON]
