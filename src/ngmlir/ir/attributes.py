# SPDX-License-Identifier: Apache-2.0
"""Attributes: the constant properties of an op, in MLIR's spelling. All but constant arrays are uniqued, as types are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from ..support.lengths import Length, exact
from .context import Uniqued
from .literals import float_text, float_value, integer_text
from .types import FloatType, IntegerType, Type, i1, i64

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")


def quote(text: str) -> str:
    """An MLIR string literal: printable ASCII as it is, the rest as `\\XX` bytes."""
    out: list[str] = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte in (0x22, 0x5C):
            out.append("\\" + chr(byte))
        elif 0x20 <= byte < 0x7F:
            out.append(chr(byte))
        else:
            out.append(f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


class Attribute:
    """Base of all attributes. `str(attribute)` is its MLIR spelling, with its type where it has one."""

    __slots__ = ("__weakref__", "_text")
    _text: str

    @property
    def text(self) -> str:
        """The spelling, computed on first use."""
        try:
            return self._text
        except AttributeError:
            self._text = self.spell()
            return self._text

    def spell(self, constant: Spelling | None = None) -> str:
        """Computes the spelling; `constant` prints constant arrays inside, if not as `dense<...>`."""
        raise NotImplementedError

    @property
    def holds_elements(self) -> bool:
        """Whether this is a constant array, or contains one."""
        return False

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


#: Prints a constant array (ir/elements.py).
Spelling: TypeAlias = "Callable[[Attribute], str]"


class UniquedAttribute(Attribute, metaclass=Uniqued):
    """An attribute that is one object with all that equal it."""

    __slots__ = ()


class IntegerAttr(UniquedAttribute):
    """An integer of `type`; booleans are `IntegerAttr(0 or 1, i1)` and print `false`, `true`."""

    __slots__ = ("type", "value")

    def __init__(self, value: int, type: Type = i64):
        self.value, self.type = exact(value), type

    def spell(self, constant: Spelling | None = None) -> str:
        return integer_text(self.value, self.type) if self.type is i1 else f"{self.value} : {self.type}"


class FloatAttr(UniquedAttribute):
    """A float by its bits."""

    __slots__ = ("bits", "type")

    def __init__(self, bits: int, type: Type):
        self.bits, self.type = bits, type

    def spell(self, constant: Spelling | None = None) -> str:
        return f"{float_text(self.bits, self.type)} : {self.type}"

    @property
    def value(self) -> float:
        return float_value(self.bits, self.type)


class StringAttr(UniquedAttribute):
    __slots__ = ("value",)

    def __init__(self, value: str):
        self.value = value

    def spell(self, constant: Spelling | None = None) -> str:
        return quote(self.value)


class SymbolRefAttr(UniquedAttribute):
    """`@name`, or `@outer::@inner` as ("outer", "inner")."""

    __slots__ = ("path",)

    def __init__(self, *path: str):
        self.path = path

    def spell(self, constant: Spelling | None = None) -> str:
        return "::".join(symbol_text(p) for p in self.path)

    @property
    def name(self) -> str:
        return self.path[-1]


def symbol_text(name: str) -> str:
    return f"@{name}" if _BARE.match(name) else f"@{quote(name)}"


class TypeAttr(UniquedAttribute):
    __slots__ = ("type",)

    def __init__(self, type: Type):
        self.type = type

    def spell(self, constant: Spelling | None = None) -> str:
        return self.type.text


class UnitAttr(UniquedAttribute):
    """Present or absent."""

    __slots__ = ()

    def spell(self, constant: Spelling | None = None) -> str:
        return "unit"


class ArrayAttr(UniquedAttribute):
    __slots__ = ("items",)

    def __init__(self, items: tuple[Attribute, ...]):
        self.items = items

    def spell(self, constant: Spelling | None = None) -> str:
        # As MLIR does: inside a list a number without a type is an i64.
        return f"[{', '.join([_in_list(item, constant) for item in self.items])}]"

    @property
    def holds_elements(self) -> bool:
        return any(item.holds_elements for item in self.items)


class _SortedItems(Uniqued):
    """Dictionaries with the same entries are one object, whatever the order in which they are given."""

    def __call__(cls, *args: Any) -> Any:
        (items,) = args
        return super().__call__(items if len(items) < 2 else tuple(sorted(items, key=itemgetter(0))))


class DictAttr(Attribute, metaclass=_SortedItems):
    """`{name = attribute, ...}`: entries of different names, sorted by name as in MLIR."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[tuple[str, Attribute], ...]):
        self.items = items

    def spell(self, constant: Spelling | None = None) -> str:
        return dictionary_text(self.items, constant)

    @property
    def holds_elements(self) -> bool:
        return any(value.holds_elements for _, value in self.items)


class DenseArrayAttr(UniquedAttribute):
    """`array<i64: 1, 2>`: integers (or float bits) of one element type."""

    __slots__ = ("type", "values")

    def __init__(self, type: Type, values: tuple[int, ...]):
        self.type, self.values = type, tuple([exact(v) for v in values])

    def spell(self, constant: Spelling | None = None) -> str:
        one, type, values = (
            float_text if isinstance(self.type, FloatType) else integer_text,
            self.type,
            self.values,
        )
        return f"array<{type}{': ' if values else ''}{', '.join([one(v, type) for v in values])}>"


class AxesAttr(UniquedAttribute):
    """`#ng.axes<N, C>`: the names of a tensor's axes, one per dimension."""

    __slots__ = ("names",)

    def __init__(self, *names: str):
        self.names = names

    def spell(self, constant: Spelling | None = None) -> str:
        return f"#ng.axes<{', '.join([n if _BARE.match(n) else quote(n) for n in self.names])}>"


class OpaqueAttr(UniquedAttribute):
    """An attribute that has no class of its own, `#d.x<...>` or `affine_map<...>`; `text` is the whole spelling."""

    __slots__ = ()

    def __init__(self, text: str):
        self._text = text

    def spell(self, constant: Spelling | None = None) -> str:
        return self._text


def spelled(attribute: Attribute, constant: Spelling | None) -> str:
    """The text of an attribute, with constant arrays inside written by `constant`."""
    return attribute.text if constant is None or not attribute.holds_elements else attribute.spell(constant)


def _in_list(item: Attribute, constant: Spelling | None) -> str:
    if isinstance(item, IntegerAttr) and item.type is i64:
        return str(item.value)
    return spelled(item, constant)


NO_ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType({})


def sorted_attributes(attributes: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """The attributes of an op sorted by name: the order in which they are given has no meaning."""
    if len(attributes) < 2:
        return attributes or NO_ATTRIBUTES
    names = [*attributes]
    ordered = sorted(names)
    return attributes if names == ordered else {name: attributes[name] for name in ordered}


def dictionary_text(items: tuple[tuple[str, Attribute], ...], constant: Spelling | None = None) -> str:
    parts: list[str] = []
    for name, value in items:
        key = name if _BARE.match(name) else quote(name)
        parts.append(key if isinstance(value, UnitAttr) else f"{key} = {spelled(value, constant)}")
    return f"{{{', '.join(parts)}}}"


def are_dictionaries(attribute: Attribute, count: int) -> bool:
    """Whether it is a list of that many dictionaries."""
    if not isinstance(attribute, ArrayAttr) or len(attribute.items) != count:
        return False
    return all(isinstance(item, DictAttr) for item in attribute.items)


def integers(values: Any) -> DenseArrayAttr:
    """`array<i64: ...>` of Python integers."""
    return DenseArrayAttr(i64, tuple([exact(v) for v in values]))


def boolean(value: bool) -> IntegerAttr:
    return IntegerAttr(int(value), i1)


def numeric_literal(value: float | int | bool, element: Type) -> Attribute:
    """The attribute of one number in an element type, rounded to nearest even; integers must fit."""
    from .literals import float_bits, wrap_integer

    if isinstance(value, Length) and not isinstance(element, FloatType):
        return IntegerAttr(value, element)

    if isinstance(element, FloatType):
        return FloatAttr(float_bits(float(value), element), element)
    if isinstance(element, IntegerType) and element.width == 1:
        return IntegerAttr(int(bool(value)), element)
    return IntegerAttr(wrap_integer(int(value), element), element)
