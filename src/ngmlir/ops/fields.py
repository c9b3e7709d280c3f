# SPDX-License-Identifier: Apache-2.0
"""What the generated op modules share: reading attributes as Python values, and the base of the verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from ..ir.attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
    boolean,
    integers,
)
from ..ir.core import Op, Region
from ..ir.types import Type, i1, i64

V = TypeVar("V")


def default(kind: str, text: str) -> Attribute:
    """The default of an attribute as a dialect file writes it."""
    if kind == "i64":
        return IntegerAttr(int(text), i64)
    if kind == "bool":
        return boolean(text == "true")
    if kind == "i64s":
        return integers(int(p) for p in text.strip("[]").split(",") if p.strip())
    if kind == "bools":
        return DenseArrayAttr(i1, tuple(int(p.strip() == "true") for p in text.strip("[]").split(",") if p.strip()))
    if kind == "str" or kind.startswith("enum("):
        return StringAttr(text.strip('"'))
    raise ValueError(f"an attribute of kind {kind} takes no default")


def to_attribute(kind: str, value: Any) -> Attribute:
    """A Python value as the attribute of a kind; attributes pass through."""
    if isinstance(value, Attribute):
        return value
    if kind == "i64":
        return IntegerAttr(int(value), i64)
    if kind == "bool":
        return boolean(bool(value))
    if kind == "i64s":
        return integers(value)
    if kind == "bools":
        return DenseArrayAttr(i1, tuple(int(bool(v)) for v in value))
    if kind == "str" or kind.startswith("enum("):
        return StringAttr(str(value))
    if kind == "symbol":
        return SymbolRefAttr(str(value))
    if kind == "type":
        return TypeAttr(value)
    if kind == "unit":
        return UnitAttr()
    if kind == "axes":
        return AxesAttr(*value)
    raise TypeError(f"cannot make an attribute of kind {kind} from {value!r}")


def attributes_of(op: type[Op], values: Mapping[str, Any]) -> dict[str, Attribute]:
    """The attribute dictionary of an op: given values, defaults for None, nothing for absent optional ones."""
    assert op.definition is not None
    out: dict[str, Attribute] = {}
    for field in op.definition.attributes:
        value = values.get(field.name)
        if value is None or (field.kind == "unit" and value is False):
            if field.default is not None:
                out[field.name] = field.default
        else:
            out[field.name] = to_attribute(field.kind, value)
    return out


def get_i64(op: Op, name: str) -> int:
    return op.attributes[name].value  # type: ignore[attr-defined]


def get_i64s(op: Op, name: str) -> tuple[int, ...]:
    attribute = op.attributes.get(name)
    return attribute.values if attribute is not None else None  # type: ignore[attr-defined, return-value]


def get_bool(op: Op, name: str) -> bool:
    return bool(op.attributes[name].value)  # type: ignore[attr-defined]


def get_bools(op: Op, name: str) -> tuple[bool, ...]:
    return tuple(bool(v) for v in op.attributes[name].values)  # type: ignore[attr-defined]


def get_str(op: Op, name: str) -> str:
    attribute = op.attributes.get(name)
    return attribute.value if isinstance(attribute, StringAttr) else ""


get_enum = get_str


def get_symbol(op: Op, name: str) -> str:
    return op.attributes[name].name  # type: ignore[attr-defined]


def get_type(op: Op, name: str) -> Type:
    return op.attributes[name].type  # type: ignore[attr-defined]


def get_unit(op: Op, name: str) -> bool:
    return name in op.attributes


def get_axes(op: Op, name: str) -> tuple[str, ...]:
    return op.attributes[name].names  # type: ignore[attr-defined]


def get_any(op: Op, name: str) -> Attribute:
    return op.attributes.get(name)  # type: ignore[return-value]


get_number = get_any
get_literal = get_any


def array_items(attribute: Attribute) -> tuple[Attribute, ...]:
    return attribute.items if isinstance(attribute, ArrayAttr) else ()


class Verbs(ABC, Generic[V]):
    """Something that ops can be asked of. One algorithm written on verbs runs on IR values, on graph nodes and
    on NumPy arrays alike."""

    @abstractmethod
    def build(
        self,
        op: type[Op],
        operands: Sequence[V],
        attributes: Mapping[str, Any],
        *,
        types: Sequence[Type] | None = None,
        regions: Sequence[Region] = (),
    ) -> Sequence[V]:
        """The results of `op`; `types` where they cannot be inferred."""
