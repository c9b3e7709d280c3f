# SPDX-License-Identifier: Apache-2.0
"""Attributes of operators: values of Python, and the attributes of the IR that hold them.

| type | in text | | type | in text |
|---|---|---|---|---|
| int, dtype | `1 : i32` | | ints | `array<i32: 1, 2>` |
| long | `1 : i64` | | bool, bools | `true`, `array<i1: true, false>` |
| float | `0.5 : f64` | | floats | `array<f64: 0.5>` |
| string | `"NCHW"` | | strings | `["a", "b"]` |

A sub-block is the region of its operator, and no attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, cast

import numpy as np

from ..decl.operator_text import AttributeEntry, OperatorEntry
from ..ir.attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    boolean,
)
from ..ir.literals import float_bits, float_value
from ..ir.types import FloatType, f64, i1, i32, i64
from ..support.diagnostics import UserError
from ..support.spelling import did_you_mean
from .vartypes import vartype


class AttrType(IntEnum):
    """The types of attributes, by number."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = 6
    BOOLEANS = 7
    BLOCK = 8
    LONG = 9


#: The type of an entry -> its number, and what a value is, in words.
_TYPES: dict[str, tuple[AttrType, str]] = {
    "int": (AttrType.INT, "an integer of 32 bits"),
    "dtype": (AttrType.INT, "an element type"),
    "long": (AttrType.LONG, "an integer"),
    "float": (AttrType.FLOAT, "a number"),
    "string": (AttrType.STRING, "a string"),
    "bool": (AttrType.BOOLEAN, "True or False"),
    "ints": (AttrType.INTS, "a list of integers of 32 bits"),
    "floats": (AttrType.FLOATS, "a list of numbers"),
    "strings": (AttrType.STRINGS, "a list of strings"),
    "bools": (AttrType.BOOLEANS, "a list of True and False"),
    "block": (AttrType.BLOCK, "a block"),
}

#: The attributes that every operator has in addition to those of its entry.
COMMON = (
    AttributeEntry("op_role", "int", "What the operator is for: forward, backward, optimization, loss.", 0),
    AttributeEntry(
        "op_role_var", "strings", "Of an operator of a gradient: parameter, gradient, in turn.", []
    ),
    AttributeEntry("stage", "int", "The stage of a pipeline that it is of; -1 where nothing says.", -1),
    AttributeEntry("library", "string", "The library whose kernel is to compute it.", ""),
    AttributeEntry("place", "string", "The place where it runs, if not where the program does.", ""),
    AttributeEntry("kernel", "string", "The kernel that computes it: place/element type/layout/library.", ""),
)


class OpRole(IntEnum):
    """What an operator is for; `Loss` is or'ed with the others."""

    Forward = 0
    Backward = 1
    Optimize = 2
    Loss = 256


def type_number(entry: AttributeEntry) -> AttrType:
    """The number of an attribute's type."""
    return _TYPES[entry.type][0]


def fields_of(entry: OperatorEntry) -> list[AttributeEntry]:
    """The attributes that an operator may have; its sub-block is none."""
    return [a for a in (*entry.attributes, *COMMON) if a.type != "block"]


def check_attribute(operator: str, field: AttributeEntry, attribute: Attribute) -> None:
    """UserError where an attribute of the IR is not as the entry asks for."""
    try:
        made = to_attribute(operator, field, from_attribute(attribute))
    except UserError as error:
        raise UserError(error.diagnostics) from None
    if made != attribute:
        message = (
            f"attribute '{field.name}' of operator {operator} is {_TYPES[field.type][1]}, not {attribute}"
        )
        raise UserError(message, hint=f"write {made}")


@dataclass(frozen=True)
class _Schema:
    """What is asked of the attributes of an operator: all of them, those that have to be given, and the defaults of the others."""

    fields: Mapping[str, AttributeEntry]
    required: Sequence[AttributeEntry]
    defaults: Mapping[str, Attribute]
    #: The attributes of an operator for which none are given.
    plain: DictAttr


@cache
def _schema(entry: OperatorEntry) -> _Schema:
    defaults = {
        a.name: to_attribute(entry.type, a, a.default) for a in entry.attributes if a.default is not None
    }
    fields = fields_of(entry)
    return _Schema(
        {a.name: a for a in fields},
        [a for a in fields if a.required],
        defaults,
        DictAttr(tuple(defaults.items())),
    )


def completed(entry: OperatorEntry, given: Mapping[str, Any]) -> DictAttr:
    """The attributes of an operator as the IR holds them: checked, and with defaults where none are given.

    Raises UserError for one that the operator does not have, that lacks, or that has a value of another type or out of
    its range.
    """
    schema = _schema(entry)
    if not given and not schema.required:
        return schema.plain
    items = dict(schema.defaults)
    for name, value in given.items():
        field = schema.fields.get(name)
        if field is None:
            own = [a.name for a in entry.attributes]
            hint = did_you_mean(name, schema.fields, f"it has {', '.join(own) or 'none'}")
            raise UserError(f"operator {entry.type} has no attribute '{name}'", hint=hint)
        if value is not None:
            items[name] = to_attribute(entry.type, field, value)
    for field in schema.required:
        if field.name not in items:
            raise UserError(f"operator {entry.type} needs the attribute '{field.name}'", hint=field.doc)
    return DictAttr(tuple(items.items()))


def to_attribute(operator: str, field: AttributeEntry, value: Any) -> Attribute:
    """A value of Python as the attribute of an operator; UserError where it is of another type or out of range."""
    try:
        made, plain = _attribute(field.type, value)
    except (TypeError, OverflowError):
        message = f"attribute '{field.name}' of operator {operator} is {_TYPES[field.type][1]}, not {value!r}"
        raise UserError(message, hint=field.doc) from None
    each = cast("Iterable[Any]", plain) if isinstance(plain, (list, tuple)) else [plain]
    for limit in field.limits:
        if not all(limit.holds(v) for v in each):
            message = f"attribute '{field.name}' of operator {operator} must be {limit}, not {value!r}"
            raise UserError(message, hint=field.doc)
    return made


def _attribute(type: str, value: Any) -> tuple[Attribute, Any]:
    """The attribute, and the value as Python's own; TypeError for a value of another type."""
    if type == "dtype":
        number = int(vartype(value))
        return IntegerAttr(number, i32), number
    if type.endswith("s"):
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError
        plain = [_plain(type[:-1], v) for v in cast("Iterable[Any]", value)]
        match type:
            case "ints":
                return DenseArrayAttr(i32, tuple(plain)), plain
            case "floats":
                return DenseArrayAttr(f64, tuple([float_bits(v, f64) for v in plain])), plain
            case "bools":
                return DenseArrayAttr(i1, tuple(plain)), plain
            case _:
                return ArrayAttr(tuple([StringAttr(v) for v in plain])), plain
    plain = _plain(type, value)
    match type:
        case "int":
            return IntegerAttr(plain, i32), plain
        case "long":
            return IntegerAttr(plain, i64), plain
        case "float":
            return FloatAttr(float_bits(plain, f64), f64), plain
        case "bool":
            return boolean(plain), plain
        case _:
            return StringAttr(plain), plain


def _plain(type: str, value: Any) -> Any:
    """A value of one type; integers count as floats, 0 and 1 as bools, and nothing else as what it is not."""
    if isinstance(value, np.generic):
        value = value.item()
    is_bool = isinstance(value, bool)
    match type:
        case "bool" if is_bool or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        case "int" | "long" if isinstance(value, int) and not is_bool:
            bits = 32 if type == "int" else 64
            if not -(1 << bits - 1) <= int(value) < 1 << bits - 1:
                raise OverflowError
            return int(value)
        case "float" if isinstance(value, (int, float)) and not is_bool:
            return float(value)
        case "string" if isinstance(value, str):
            return value
        case _:
            raise TypeError


def values_of(entry: OperatorEntry, attributes: DictAttr) -> dict[str, Any]:
    """The attributes of an operator as values of Python, defaults where it has none."""
    values = {a.name: a.default for a in entry.attributes if a.type != "block"}
    return values | {name: from_attribute(value) for name, value in attributes.items}


def from_attribute(attribute: Attribute) -> Any:
    """The value that an attribute of an operator holds."""
    match attribute:
        case IntegerAttr():
            return bool(attribute.value) if attribute.type is i1 else attribute.value
        case FloatAttr() | StringAttr():
            return attribute.value
        case DenseArrayAttr():
            if isinstance(attribute.type, FloatType):
                return [float_value(bits, attribute.type) for bits in attribute.values]
            return [bool(v) for v in attribute.values] if attribute.type is i1 else list(attribute.values)
        case ArrayAttr():
            return [from_attribute(item) for item in attribute.items]
        case DictAttr():
            return {name: from_attribute(value) for name, value in attribute.items}
        case _:
            raise UserError(f"{attribute} is no attribute of an operator")
