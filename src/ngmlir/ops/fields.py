# SPDX-License-Identifier: Apache-2.0
"""Shared by the generated op modules: attributes as Python values, and the base class of the verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ..ir.attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
    boolean,
    integers,
)
from ..ir.core import Op, Region, Value
from ..ir.elements import ElementsAttr
from ..ir.types import Type, i1, i64
from ..support.lengths import exact

V = TypeVar("V")
A = TypeVar("A", bound=Attribute)


#: Attribute of a selection whose condition rarely holds, and of `any` over such conditions. This `any` may differ between threads:
#: what is computed where a condition holds is right for all other elements too, so each thread may test only its own of a tile.
RARE = "ng.rare"


def default(kind: str, text: str) -> Attribute:
    """The default of an attribute, given its text in a dialect file."""
    if kind == "i64":
        return IntegerAttr(int(text), i64)
    if kind == "bool":
        return boolean(text == "true")
    if kind == "i64s":
        return integers(int(p) for p in text.strip("[]").split(",") if p.strip())
    if kind == "bools":
        return DenseArrayAttr(
            i1, tuple(int(p.strip() == "true") for p in text.strip("[]").split(",") if p.strip())
        )
    if kind == "str" or kind.startswith("enum("):
        return StringAttr(text.strip('"'))
    raise ValueError(f"an attribute of kind {kind} takes no default")


def to_attribute(kind: str, value: Any) -> Attribute:
    """A Python value as the attribute of a kind; attributes pass through."""
    if isinstance(value, Attribute):
        return value
    if kind == "i64":
        return IntegerAttr(exact(value), i64)
    if kind == "bool":
        return boolean(bool(value))
    if kind == "i64s":
        return integers(value)
    if kind == "bools":
        return DenseArrayAttr(i1, tuple(int(bool(v)) for v in value))
    if kind in ("str", "name") or kind.startswith("enum("):
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


class Attributed(Protocol):
    """An op, or what a type rule sees of one."""

    @property
    def attributes(self) -> Mapping[str, Attribute]: ...


def _read(op: Attributed, name: str, kind: type[A]) -> A:
    attribute = op.attributes[name]
    assert isinstance(attribute, kind), f"{name} is {attribute}"
    return attribute


def get_i64(op: Attributed, name: str) -> int:
    return _read(op, name, IntegerAttr).value


def get_i64s(op: Attributed, name: str) -> tuple[int, ...]:
    return _read(op, name, DenseArrayAttr).values


def get_bool(op: Attributed, name: str) -> bool:
    return bool(_read(op, name, IntegerAttr).value)


def get_bools(op: Attributed, name: str) -> tuple[bool, ...]:
    return tuple(bool(v) for v in _read(op, name, DenseArrayAttr).values)


def get_str(op: Attributed, name: str) -> str:
    attribute = op.attributes.get(name)
    return attribute.value if isinstance(attribute, StringAttr) else ""


get_enum = get_name = get_str


def get_symbol(op: Attributed, name: str) -> str:
    return _read(op, name, SymbolRefAttr).name


def get_type(op: Attributed, name: str) -> Type:
    return _read(op, name, TypeAttr).type


def get_axes(op: Attributed, name: str) -> tuple[str, ...]:
    return _read(op, name, AxesAttr).names


def get_number(op: Attributed, name: str) -> Attribute:
    return op.attributes[name]


get_any = get_literal = get_number


def get_float(op: Attributed, name: str) -> float:
    """The value of a float attribute."""
    return _read(op, name, FloatAttr).value


# For attributes that an op may lack: None without them.


def find_enum(op: Attributed, name: str) -> str | None:
    return get_enum(op, name) if name in op.attributes else None


def find_i64(op: Attributed, name: str) -> int | None:
    return get_i64(op, name) if name in op.attributes else None


def find_i64s(op: Attributed, name: str) -> tuple[int, ...] | None:
    return get_i64s(op, name) if name in op.attributes else None


def find_number(op: Attributed, name: str) -> Attribute | None:
    return op.attributes.get(name)


find_any = find_number


def find_unit(op: Attributed, name: str) -> bool:
    return name in op.attributes


# For operands of ops whose attributes say which ones are present.


def group(op: Op, name: str) -> tuple[Value, ...]:
    """The values of a variadic operand."""
    groups = (op.definition.operand_groups(len(op.operands), op.attributes) if op.definition else None) or ()
    return next((op.operands[start:stop] for o, start, stop in groups if o.name == name), ())


def static(op: Op, name: str) -> int | Value:
    """An operand that may be an attribute instead: its number or its value."""
    known = op.attributes.get(name)
    return known.value if isinstance(known, IntegerAttr) else group(op, name)[0]


def known(value: object) -> int | None:
    """The number, if an operand of `static` is an attribute."""
    return value if isinstance(value, int) else None


def unknown(value: V | int) -> tuple[V, ...]:
    """The value, if an operand of `static` is not an attribute."""
    return () if isinstance(value, int) else (value,)


def find_symbols(op: Attributed, name: str) -> tuple[str, ...]:
    """The symbols in a list; empty if there is no list."""
    value = op.attributes.get(name)
    items = value.items if isinstance(value, ArrayAttr) else ()
    return tuple([item.name for item in items if isinstance(item, SymbolRefAttr)])


def array_items(attribute: Attribute) -> tuple[Attribute, ...]:
    return attribute.items if isinstance(attribute, ArrayAttr) else ()


class Verbs(ABC, Generic[V]):
    """Builds or evaluates ops. An algorithm that is written on verbs runs on IR values, on graph nodes and
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


def constant_elements(value: Value) -> ElementsAttr | None:
    """The elements of a constant array; None for any other value, and for a single number."""
    owner = value.owner
    literal = owner.attributes["value"] if isinstance(owner, Op) and owner.name == "ng.constant" else None
    return literal if isinstance(literal, ElementsAttr) else None
