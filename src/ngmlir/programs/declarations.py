# SPDX-License-Identifier: Apache-2.0
"""What a declaration says of a variable: type, flags, what is known of a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.attributes import Attribute, IntegerAttr, StringAttr, TypeAttr, UnitAttr
from ..ir.core import Op
from ..ir.types import TensorType, Type, i64
from ..support.diagnostics import Location
from .attributes import from_attribute

UNIT = UnitAttr()


class Declaration:
    """A declaration of a program, `program.var`. What it says is replaced by `set`."""

    __slots__ = ("name", "op")

    def __init__(self, op: Op):
        self.op, self.name = op, op.symbol

    def set(self, **changes: Attribute | None) -> None:
        """Replaces attributes of the declaration; None removes one."""
        raise NotImplementedError

    @property
    def location(self) -> Location:
        return self.op.location

    @property
    def type(self) -> TensorType:
        """Shape and elements; of rank 0 while the shape is not known."""
        attribute = self.op.attributes["type"]
        assert isinstance(attribute, TypeAttr) and isinstance(attribute.type, TensorType)
        return attribute.type

    @type.setter
    def type(self, type: TensorType) -> None:
        if type is not self.type:
            self.set(type=TypeAttr(type))

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths; -1 for one that is known when the program runs."""
        return self.type.shape

    @property
    def element(self) -> Type:
        return self.type.element

    @property
    def holds(self) -> str:
        """`tensor`, or what else it holds."""
        attribute = self.op.attributes["holds"]
        return attribute.value if isinstance(attribute, StringAttr) else ""

    @property
    def ragged(self) -> int:
        """The number of ragged levels."""
        attribute = self.op.attributes["ragged"]
        return attribute.value if isinstance(attribute, IntegerAttr) else 0

    @ragged.setter
    def ragged(self, levels: int) -> None:
        if levels != self.ragged:
            self.set(ragged=IntegerAttr(levels, i64))

    def flag(self, name: str) -> bool:
        """`persistable`, `data`, `stop_gradient`."""
        return name in self.op.attributes

    def set_flag(self, name: str, value: bool) -> None:
        if value != self.flag(name):
            self.set(**{name: UNIT if value else None})

    @property
    def persistable(self) -> bool:
        return self.flag("persistable")

    @property
    def parameter(self) -> Mapping[str, Any] | None:
        """What is said of a parameter (`trainable`, `learning_rate` ...); None of another variable."""
        attribute = self.op.attributes.get("parameter")
        return None if attribute is None else from_attribute(attribute)

    @property
    def is_parameter(self) -> bool:
        return "parameter" in self.op.attributes

    def __repr__(self) -> str:
        return f"<variable {self.name}: {self.type}>"
