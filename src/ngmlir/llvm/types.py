# SPDX-License-Identifier: Apache-2.0
"""LLVM types as plain strings, values as (type, name) pairs, and constants with exact bits."""

from __future__ import annotations

import math
import re
import struct
from functools import cache, lru_cache, partial
from typing import NamedTuple, TypeAlias

from ..support.lengths import Length

Type: TypeAlias = str

ptr = "ptr"
i1, i8, i16, i32, i64 = "i1", "i8", "i16", "i32", "i64"
f16, bf16, f32, f64 = "half", "bfloat", "float", "double"

#: Element types by their MLIR spelling -> the LLVM type for arithmetic (LLVM integers have no sign).
OF_DTYPE: dict[str, Type] = {
    "i1": i1, "i8": i8, "i16": i16, "i32": i32, "i64": i64,
    "ui8": i8, "ui16": i16, "ui32": i32, "ui64": i64,
    "f16": f16, "bf16": bf16, "f32": f32, "f64": f64,
}  # fmt: skip

#: Floating types -> (name in intrinsics, exponent bits, stored mantissa bits).
_FLOATS = {f16: ("f16", 5, 10), bf16: ("bf16", 8, 7), f32: ("f32", 8, 23), f64: ("f64", 11, 52)}


_PLAIN_NAME = re.compile(r"[A-Za-z$._\-][\w$.\-]*\Z", re.ASCII)


def global_name(name: str) -> str:
    """`@name` as LLVM spells it, quoted if it has characters other than letters, digits and `$._-`."""
    if _PLAIN_NAME.match(name):
        return f"@{name}"
    escaped = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f'@"{escaped}"'


class Value(NamedTuple):
    """An SSA name (`%x`), a global (`@f`) or a constant, with its type."""

    type: Type
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


Operand: TypeAlias = Value | int | float

#: `named((type, name))` is `Value(type, name)` in half the time; builders make one per instruction.
named = partial(tuple.__new__, Value)


@cache
def vector(lanes: int, element: Type) -> Type:
    """`<lanes x element>`; for one lane the bare element, so that width 1 gives scalar code."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def lanes_of(type: Type) -> int:
    """The number of lanes; 1 for a scalar."""
    return int(type[1 : type.index(" ")]) if type[0] == "<" else 1


@cache
def element_of(type: Type) -> Type:
    """The type of one lane; a scalar is its own element."""
    return type[type.index(" x ") + 3 : -1] if type[0] == "<" else type


@cache
def with_element(type: Type, element: Type) -> Type:
    """`type` (scalar or vector) with another element type."""
    return vector(lanes_of(type), element)


def is_float(type: Type) -> bool:
    """Whether the elements are floating point numbers."""
    return element_of(type) in _FLOATS


@cache
def bits_of(type: Type) -> int:
    """The width of one element in bits (pointers: 64)."""
    element = element_of(type)
    if element in _FLOATS:
        return 1 + sum(_FLOATS[element][1:])
    return 64 if element.startswith("ptr") else int(element[1:])


@cache
def mangled(type: Type) -> str:
    """The type as it is spelled in the name of an overloaded intrinsic: `v16f32`, `i64`, `p0`."""
    if type[0] == "<":
        return f"v{lanes_of(type)}{mangled(element_of(type))}"
    if type.startswith("ptr"):
        space = type.partition("addrspace(")[2].rstrip(")")
        return f"p{space or 0}"
    return _FLOATS[type][0] if type in _FLOATS else type


def float_bits(type: Type, value: float) -> int:
    """The bits of `value` in a floating type, rounded once to nearest even; NaN gives the quiet NaN."""
    _, exponent_bits, mantissa_bits = _FLOATS[element_of(type)]
    sign = int(math.copysign(1.0, value) < 0) << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if math.isnan(value):
        return sign | infinity | 1 << (mantissa_bits - 1)
    if math.isinf(value):
        return sign | infinity
    if value == 0.0:
        return sign
    lowest = 2 - (1 << (exponent_bits - 1))  # exponent of the smallest normal number
    exponent = max(math.frexp(value)[1] - 1, lowest)
    steps = round(math.ldexp(abs(value), mantissa_bits - exponent))
    # For normal numbers `steps` includes the hidden bit, which adds one to the exponent, as does a carry.
    return sign | min(((exponent - lowest) << mantissa_bits) + steps, infinity)


@lru_cache(maxsize=4096)
def from_bits(type: Type, bits: int) -> Value:
    """The constant with exactly these bits in every lane."""
    element = element_of(type)
    text = _spelling(element, bits)
    return Value(type, text if element == type else f"splat ({element} {text})")


def _spelling(element: Type, bits: int) -> str:
    if element == f16:
        return f"0xH{bits:04X}"
    if element == bf16:
        return f"0xR{bits:04X}"
    if element == f64:
        return f"0x{bits:016X}"
    if element == f32:
        return f"0x{_widened(bits):016X}"
    if element == i1:
        return "true" if bits else "false"
    return str(bits)


def _widened(bits: int) -> int:
    """f32 bits as the f64 bits that IR text uses; NaN is converted bit by bit, since a float conversion may change its
    payload."""
    if bits & 0x7F800000 == 0x7F800000:
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def is_mask(type: Type) -> bool:
    """Whether a type is a vector of i1."""
    return element_of(type) == i1 and lanes_of(type) > 1


def is_number(value: Value) -> bool:
    """Whether a scalar is a known integer."""
    return value.name.lstrip("-").isdigit()


def constant(type: Type, value: int | float) -> Value:
    """`value` in every lane: floating types round it once, integer types take it unchanged. An open length becomes a
    register of the function (llvm/lengths.py)."""
    if isinstance(value, Length):
        return Value(type, f"%{{{type}|{value.expression}}}")
    # 0.0 and -0.0 are equal, so a cache would confuse them.
    return _nonzero(type, value) if value else from_bits(type, _bits(type, value))


@lru_cache(maxsize=4096)
def _nonzero(type: Type, value: int | float) -> Value:
    return from_bits(type, _bits(type, value))


def _bits(type: Type, value: int | float) -> int:
    return float_bits(type, value) if is_float(type) else int(value)


def lanes(element: Type, values: list[int] | list[float] | tuple[int, ...] | tuple[float, ...]) -> Value:
    """A vector constant, lane by lane; a register if it has open lengths, as for `constant`."""
    type = vector(len(values), element)
    if any(isinstance(value, Length) for value in values):
        parts = [str(value.expression if isinstance(value, Length) else value) for value in values]
        return Value(type, f"%{{{type}|{', '.join(parts)}}}")
    texts = ", ".join(str(constant(element, value)) for value in values)
    return Value(type, f"<{texts}>")


def zero(type: Type) -> Value:
    """All bits zero, for any type: `+0.0`, 0, null."""
    return Value(type, "zeroinitializer")


def poison(type: Type) -> Value:
    """An undefined value that must not be used."""
    return Value(type, "poison")


null = Value(ptr, "null")
