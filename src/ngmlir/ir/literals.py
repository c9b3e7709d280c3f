# SPDX-License-Identifier: Apache-2.0
"""Numbers as bits. A literal is an element type and its bit pattern: -0.0 is not 0.0 and every NaN keeps its payload."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from .narrow import NARROW, NUMPY_NAMES
from .types import FloatType, IndexType, IntegerType, Type, element_type, shape_of

if TYPE_CHECKING:
    import numpy as np

_FORMATS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}
_INTEGERS = {
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "ui8": "B",
    "ui16": "H",
    "ui32": "I",
    "ui64": "Q",
    "index": "q",
}

_NARROW_TYPES: dict[str, Type] = {
    name: FloatType(text) if text in NARROW else IntegerType(int(text[-1]), text[:-2])
    for text, name in NUMPY_NAMES.items()
}


def item_bytes(element: Type) -> int:
    """Bytes of one element in memory (those of fewer than 8 bits take one byte)."""
    if isinstance(element, (FloatType, IntegerType)):
        return max(1, (element.width + 7) // 8)
    if isinstance(element, IndexType):
        return 8
    raise TypeError(f"{element} has no size")


def bytes_of(type: Type) -> int:
    """Bytes of all elements of a type of known size."""
    return prod(shape_of(type)) * item_bytes(element_type(type))


def dtype_of(type: Type) -> np.dtype[Any]:
    """The NumPy dtype of a type's elements (from ml_dtypes if NumPy has none)."""
    element = element_type(type)
    if element.text in NUMPY_NAMES:
        return _added_dtype(NUMPY_NAMES[element.text])
    if isinstance(element, FloatType):
        return _float_dtype(element.text)
    if isinstance(element, (IntegerType, IndexType)):
        return _integer_dtype(*_width(element))
    raise TypeError(f"{type} has no NumPy dtype")


@cache
def _float_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name == "bf16":
        return _added_dtype("bfloat16")
    return np.dtype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[name])


@cache
def _added_dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name))


@cache
def _integer_dtype(width: int, unsigned: bool) -> np.dtype[Any]:
    import numpy as np

    return np.dtype(bool) if width == 1 else np.dtype(f"{'u' if unsigned else 'i'}{width // 8}")


def type_of_dtype(dtype: Any) -> Type:
    """The element type of a NumPy dtype."""
    import numpy as np

    return _type_of(np.dtype(dtype))


@cache
def _type_of(dtype: np.dtype[Any]) -> Type:
    if dtype.name == "bfloat16":
        return FloatType("bf16")
    if dtype.name in _NARROW_TYPES:
        return _NARROW_TYPES[dtype.name]
    if dtype.kind == "b":
        return IntegerType(1)
    if dtype.kind in "iu" and dtype.itemsize in (1, 2, 4, 8):
        return IntegerType(dtype.itemsize * 8, "u" if dtype.kind == "u" else "")
    if dtype.kind == "f" and dtype.itemsize in (2, 4, 8):
        return FloatType(f"f{dtype.itemsize * 8}")
    raise TypeError(f"no element type for NumPy dtype {dtype}")


def float_bits(value: float, element: Type) -> int:
    """The bits of `value` rounded to nearest even in `element`."""
    if element.text in NARROW:
        return NARROW[element.text].code(value)
    if element.text == "bf16":
        bits = float_bits(value, FloatType("f32"))
        if bits & 0x7FFFFFFF > 0x7F800000:
            return (bits >> 16) | 0x40
        # Two roundings (to f32, then here) differ from one only on ties that f32 cannot represent; f64 decides those.
        low, kept = bits & 0xFFFF, bits >> 16
        exact = struct.unpack("<f", struct.pack("<I", bits))[0]
        if low == 0x8000 and exact != value and value == value:
            return kept + (1 if (abs(value) > abs(exact)) else 0)
        return kept + (1 if low > 0x8000 or (low == 0x8000 and kept & 1) else 0)
    pack, unpack = _FORMATS[element.text]
    try:
        return int(struct.unpack(unpack, struct.pack(pack, value))[0])
    except OverflowError:  # finite, but rounds to infinity in this type
        return int(struct.unpack(unpack, struct.pack(pack, float("inf") if value > 0 else float("-inf")))[0])


def packed(texts: Sequence[str], element: Type) -> bytes | None:
    """Decimal numbers as the bytes of elements; None if one of them does not fit, or `struct` has no such elements."""
    code = _FORMATS[element.text][0][1] if element.text in _FORMATS else _INTEGERS.get(element.text)
    try:
        if code is None:
            return None
        values = [*map(float if isinstance(element, FloatType) else int, texts)]
        return struct.pack(f"<{len(values)}{code}", *values) if all(map(isfinite, values)) else None
    except (struct.error, OverflowError):
        return None


def float_value(bits: int, element: Type) -> float:
    """The number with these `bits` (exact: every element type fits in a double)."""
    if element.text in NARROW:
        return NARROW[element.text].value(bits)
    if element.text == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    pack, unpack = _FORMATS[element.text]
    return float(struct.unpack(pack, struct.pack(unpack, bits))[0])


def float_text(bits: int, element: Type) -> str:
    """Shortest decimal that reads back to the same bits, else hexadecimal bits (infinities, NaN)."""
    digits = item_bytes(element) * 2
    hexadecimal = f"0x{bits:0{digits}X}"
    value = float_value(bits, element)
    if value != value or value in (float("inf"), float("-inf")):
        return hexadecimal
    for precision in (6, 8, 9, 17) if item_bytes(element) > 2 else (4, 6):
        text = f"{value:.{precision}g}"
        if float_bits(float(text), element) == bits:
            break
    else:
        return hexadecimal
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"  # MLIR's grammar wants the point
    return f"{mantissa}e{exponent}" if exponent else mantissa


def special_floats(word: str, element: Type) -> str:
    """What to write for a word that other languages have for NaN or infinity; '' for other words."""
    if word.lower() not in ("nan", "inf", "infinity", "-"):
        return ""
    bits = {name: float_bits(float(name), element) for name in ("NaN", "infinity", "-infinity")}
    texts = [
        f"{name} is 0x{b:X}" for name, b in bits.items() if str(float_value(b, element)) == str(float(name))
    ]
    return f"bits say it: {', '.join(texts)} in {element}"


def integer_text(value: int, element: Type) -> str:
    if isinstance(element, IntegerType) and element.width == 1:
        return "true" if value else "false"
    return str(value)


def _width(element: Type) -> tuple[int, bool]:
    """Bits of an integer type, and whether it is unsigned; `index` counts as i64."""
    if isinstance(element, IntegerType):
        return element.width, element.unsigned
    assert isinstance(element, IndexType)
    return 64, False


def _has_sign(element: Type) -> bool:
    """Whether it is one of the types `si8`, which have a sign bit."""
    return isinstance(element, IntegerType) and element.sign == "s"


def integer_bits(value: int, element: Type) -> int:
    """The bits of an integer: as many as the type has, those above are zero in memory."""
    return value & ((1 << _width(element)[0]) - 1)


def bit_width(element: Type) -> int:
    """Number of significant bits of one element."""
    return element.width if isinstance(element, FloatType) else _width(element)[0]


def narrow_width(element: Type) -> int:
    """Bits of elements that do not use all bits of their byte (i1, and those of 2 and 4 bits); 0 for others."""
    width = bit_width(element)
    return width if width < 8 else 0


def integer_fits(value: int, element: Type) -> bool:
    """Whether `value` can be written as an `element` (signless types take both signed and unsigned spellings)."""
    width, unsigned = _width(element)
    if value < 0:
        return not unsigned and (~value).bit_length() < width
    return value.bit_length() <= width - _has_sign(element)


def wrap_integer(value: int, element: Type) -> int:
    """`value` in the canonical range of `element`: signed for signless types, 0/1 for i1."""
    width, unsigned = _width(element)
    if width > 64 and value.bit_length() < width and (value >= 0 or not unsigned):
        return value  # types may be millions of bits wide: no mask is made for numbers that fit
    value &= (1 << width) - 1
    if (width > 1 or _has_sign(element)) and not unsigned and value >> (width - 1):
        value -= 1 << width
    return value
