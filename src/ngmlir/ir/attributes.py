# SPDX-License-Identifier: Apache-2.0
"""Attributes: the constants of ops, in MLIR's spelling. Interned like types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .literals import dtype_of, float_text, float_value, integer_text, item_bytes, type_of_dtype
from .types import FloatType, IntegerType, Interned, ShapedType, TensorType, Type, i1, i64

if TYPE_CHECKING:
    import numpy as np

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
#: Elements that are printed one by one; longer constants become one hexadecimal string.
_LISTED = 64


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


class Attribute(metaclass=Interned):
    """Base of all attributes. `str(attribute)` is its MLIR spelling, with its type where it has one."""

    __slots__ = ("text",)
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


class IntegerAttr(Attribute):
    """An integer of `type`; booleans are `IntegerAttr(0 or 1, i1)` and print `false`, `true`."""

    __slots__ = ("type", "value")

    def __init__(self, value: int, type: Type = i64):
        self.value, self.type = value, type
        self.text = integer_text(value, type) if type is i1 else f"{value} : {type}"


class FloatAttr(Attribute):
    """A float by its bits."""

    __slots__ = ("bits", "type")

    def __init__(self, bits: int, type: Type):
        self.bits, self.type = bits, type
        self.text = f"{float_text(bits, type)} : {type}"

    @property
    def value(self) -> float:
        return float_value(self.bits, self.type)


class StringAttr(Attribute):
    __slots__ = ("value",)

    def __init__(self, value: str):
        self.value, self.text = value, quote(value)


class SymbolRefAttr(Attribute):
    """`@name`, or `@outer::@inner` as ("outer", "inner")."""

    __slots__ = ("path",)

    def __init__(self, *path: str):
        self.path = path
        self.text = "::".join(symbol_text(p) for p in path)

    @property
    def name(self) -> str:
        return self.path[-1]


def symbol_text(name: str) -> str:
    return f"@{name}" if _BARE.match(name) else f"@{quote(name)}"


class TypeAttr(Attribute):
    __slots__ = ("type",)

    def __init__(self, type: Type):
        self.type, self.text = type, str(type)


class UnitAttr(Attribute):
    """Present or absent."""

    __slots__ = ()

    def __init__(self) -> None:
        self.text = "unit"


class ArrayAttr(Attribute):
    __slots__ = ("items",)

    def __init__(self, items: tuple[Attribute, ...]):
        self.items = items
        self.text = f"[{', '.join(map(str, items))}]"


class DictAttr(Attribute):
    __slots__ = ("items",)

    def __init__(self, items: tuple[tuple[str, Attribute], ...]):
        self.items = items
        self.text = dictionary_text(items)


class DenseArrayAttr(Attribute):
    """`array<i64: 1, 2>`: integers (or float bits) of one element type."""

    __slots__ = ("type", "values")

    def __init__(self, type: Type, values: tuple[int, ...]):
        self.type, self.values = type, values
        one = float_text if isinstance(type, FloatType) else integer_text
        self.text = f"array<{type}{': ' if values else ''}{', '.join(one(v, type) for v in values)}>"


class AxesAttr(Attribute):
    """`#ng.axes<N, C>`: the names of a tensor's axes, one per dimension."""

    __slots__ = ("names",)

    def __init__(self, *names: str):
        self.names = names
        self.text = f"#ng.axes<{', '.join(n if _BARE.match(n) else quote(n) for n in names)}>"


class DialectAttr(Attribute):
    """An attribute of a dialect that has no class here; `text` is the whole spelling, `#d.x<...>`."""

    __slots__ = ()

    def __init__(self, text: str):
        self.text = text


class ElementsAttr(Attribute):
    """`dense<...> : type`: the elements row by row, little endian, or those of one element if all are the same."""

    __slots__ = ("data", "type")

    def __init__(self, data: bytes, type: ShapedType):
        self.data, self.type = data, type
        self.text = f"{self.literal} : {type}"

    @property
    def splat(self) -> bool:
        return len(self.data) == item_bytes(self.type.element) and self.type.size != 0

    @property
    def literal(self) -> str:
        """`dense<...>` without the type."""
        element, size = self.type.element, item_bytes(self.type.element)
        if self.type.size == 0:
            return "dense<>"
        words = [self.data[i : i + size] for i in range(0, len(self.data), size)]
        if len(words) > _LISTED and element is not i1:
            return f'dense<"0x{self.data.hex().upper()}">'
        if isinstance(element, FloatType):
            texts = [float_text(int.from_bytes(w, "little"), element) for w in words]
        else:
            signed = not getattr(element, "unsigned", False) and element is not i1
            texts = [integer_text(int.from_bytes(w, "little", signed=signed), element) for w in words]
        if self.splat:
            return f"dense<{texts[0]}>"
        for d in reversed(self.type.shape[1:]):
            texts = [f"[{', '.join(texts[i : i + d])}]" for i in range(0, len(texts), d)]
        return f"dense<[{', '.join(texts)}]>"

    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array of the type's shape."""
        import numpy as np

        flat = np.frombuffer(self.data, dtype=dtype_of(self.type))
        return (
            np.broadcast_to(flat.reshape(()), self.type.shape)
            if self.splat
            else flat.reshape(self.type.shape)
        )


def elements(array: Any, type: ShapedType | None = None) -> ElementsAttr:
    """The constant that holds `array` (a NumPy array); all-equal bits are stored once."""
    import numpy as np

    array = np.asarray(array)
    held = type if type is not None else TensorType(array.shape, type_of_dtype(array.dtype))
    data = np.ascontiguousarray(array).tobytes()
    size = item_bytes(held.element)
    if len(data) > size and data == data[:size] * (len(data) // size):
        data = data[:size]
    return ElementsAttr(data, held)


def dictionary_text(items: tuple[tuple[str, Attribute], ...]) -> str:
    parts: list[str] = []
    for name, value in items:
        key = name if _BARE.match(name) else quote(name)
        parts.append(key if isinstance(value, UnitAttr) else f"{key} = {value}")
    return f"{{{', '.join(parts)}}}"


def integers(values: Any) -> DenseArrayAttr:
    """`array<i64: ...>` of Python integers."""
    return DenseArrayAttr(i64, tuple(int(v) for v in values))


def boolean(value: bool) -> IntegerAttr:
    return IntegerAttr(int(value), i1)


def numeric_literal(value: float | int | bool, element: Type) -> Attribute:
    """The attribute of one number in an element type, rounded to nearest even; integers must fit."""
    from .literals import float_bits, wrap_integer

    if isinstance(element, FloatType):
        return FloatAttr(float_bits(float(value), element), element)
    if isinstance(element, IntegerType) and element.width == 1:
        return IntegerAttr(int(bool(value)), element)
    return IntegerAttr(wrap_integer(int(value), element), element)


def filled(literal: Attribute, type: Type) -> Attribute:
    """The constant of `type` whose every element is `literal`; of a scalar type, `literal` itself."""
    if not isinstance(type, ShapedType):
        return literal
    assert isinstance(literal, (FloatAttr, IntegerAttr))
    bits = literal.bits if isinstance(literal, FloatAttr) else literal.value
    size = item_bytes(type.element)
    return ElementsAttr((bits & ((1 << 8 * size) - 1)).to_bytes(size, "little") if type.size else b"", type)
