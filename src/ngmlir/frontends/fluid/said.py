# SPDX-License-Identifier: Apache-2.0
"""What is said of a parameter, as attributes of the program's text: numbers, and records of regularizers and clips.

A class of such records is registered by `@recorded("name")` and has `record()`, its values by name, with which it is made again.
An object of another class (a user's own) cannot be written as text, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...ir.attributes import Attribute, DictAttr, FloatAttr, StringAttr, boolean
from ...ir.literals import float_bits
from ...ir.types import f64
from ...programs.attributes import from_attribute
from ...support.diagnostics import UserError

C = TypeVar("C", bound=type)
_CLASSES: dict[str, type] = {}


def recorded(kind: str) -> Callable[[C], C]:
    """Registers a class whose objects are written as records of this kind."""

    def register(made: C) -> C:
        _CLASSES[kind] = made
        made.recorded_as = kind
        return made

    return register


def said_as_text(said: Mapping[str, Any]) -> dict[str, Attribute]:
    """Values by name as attributes; None is left out. UserError for what has no text."""
    return {name: _attribute(value) for name, value in said.items() if value is not None}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, (int, float)):
        return FloatAttr(float_bits(float(value), f64), f64)
    if isinstance(value, str):
        return StringAttr(value)
    kind = getattr(value, "recorded_as", None)
    if kind is None:
        raise UserError(
            f"{type(value).__name__} cannot be kept in a program: its text has no form for it",
            hint="@recorded('name') on the class, and a method record() that gives its arguments by name",
        )
    return DictAttr((("kind", StringAttr(kind)), *said_as_text(value.record()).items()))


def said_in_text(attribute: Attribute, name: str) -> Any:
    """One of the values of a dictionary; None where it has none of that name."""
    assert isinstance(attribute, DictAttr)
    found = next((value for key, value in attribute.items if key == name), None)
    if found is None:
        return None
    value = from_attribute(found)
    if not isinstance(found, DictAttr):
        return value
    kind = value.pop("kind")
    if kind not in _CLASSES:
        raise UserError(f"nothing is known of a '{kind}', which the program says of a parameter")
    return _CLASSES[kind](**value)
