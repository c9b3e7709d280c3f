# SPDX-License-Identifier: Apache-2.0
"""Constant arrays: a type and a buffer, which is never copied, and printed only on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..support.mapping import intact
from .attributes import Attribute, FloatAttr, IntegerAttr, Spelling
from .literals import (
    dtype_of,
    float_text,
    integer_bits,
    integer_text,
    item_bytes,
    narrow_width,
    type_of_dtype,
    wrap_integer,
)
from .types import FloatType, ShapedType, TensorType, Type, i1

if TYPE_CHECKING:
    import numpy as np

#: Constants of more elements are printed as one hexadecimal string.
LISTED = 64
#: The compiler reads the values of constants up to this many elements. Of longer ones it knows the type and
#: which are equal, so no code depends on their values, and a cached program is valid for all values.
KNOWN = 1024


class ElementsAttr(Attribute):
    """`dense<...> : type`: the elements in row-major order, little endian, or those of one element if all are the same.

    `data` is any buffer of bytes that is not changed (bytes, a mapped file, an array); it is kept, not copied.
    Equal attributes have the same bits; the hash uses a sample of them, and is computed once.
    """

    __slots__ = ("_hash", "data", "type")

    def __init__(self, data: bytes | bytearray | memoryview, type: ShapedType):
        self.data, self.type = memoryview(data).toreadonly().cast("B"), type

    @property
    def splat(self) -> bool:
        """Whether all elements are equal and one is stored."""
        return len(self.data) == item_bytes(self.type.element) and self.type.size != 0

    @property
    def bits(self) -> int:
        """The bits of the first element; of a splat, those of every element."""
        return int.from_bytes(self.data[: item_bytes(self.type.element)], "little")

    @property
    def opaque(self) -> bool:
        """Whether the compiler uses only the type."""
        return not self.splat and self.type.size > KNOWN

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.type.size * item_bytes(self.type.element)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ElementsAttr) or self.type is not other.type or hash(self) != hash(other):
            return False
        return same_bytes(self.data, other.data)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash((self.type, len(self.data), sample(self.data)))
            return self._hash

    @property
    def text(self) -> str:
        return self.spell()

    def spell(self, constant: Spelling | None = None) -> str:
        return f"{self.literal} : {self.type}" if constant is None else constant(self)

    @property
    def holds_elements(self) -> bool:
        return True

    @property
    def literal(self) -> str:
        """`dense<...>` without the type."""
        element, size = self.type.element, item_bytes(self.type.element)
        if self.type.size == 0:
            return "dense<>"
        if len(self.data) > LISTED * size and element is not i1:
            return f'dense<"0x{self.data.hex().upper()}">'
        words = [self.data[i : i + size] for i in range(0, len(self.data), size)]
        if isinstance(element, FloatType):
            texts = [float_text(int.from_bytes(w, "little"), element) for w in words]
        else:
            texts = [integer_text(wrap_integer(int.from_bytes(w, "little"), element), element) for w in words]
        if self.splat:
            return f"dense<{texts[0]}>"
        for d in reversed(self.type.shape[1:]):
            texts = [f"[{', '.join(texts[i : i + d])}]" for i in range(0, len(texts), d)]
        return f"dense<[{', '.join(texts)}]>"

    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array of the type's shape, which shares memory."""
        import numpy as np

        flat = np.frombuffer(self.data, dtype=dtype_of(self.type))
        return (
            np.broadcast_to(flat.reshape(()), self.type.shape)
            if self.splat
            else flat.reshape(self.type.shape)
        )

    def of_type(self, type: ShapedType) -> ElementsAttr:
        """The same bytes as another type of as many elements."""
        return self if type is self.type else ElementsAttr(self.data, type)


def elements(array: Any, type: ShapedType | None = None) -> ElementsAttr:
    """The constant with the elements of `array` (a NumPy array that is not changed any more); all-equal bits are stored once.

    A contiguous array is not copied.
    """
    import numpy as np

    array = np.asarray(array)
    held = type if type is not None else TensorType(array.shape, type_of_dtype(array.dtype))
    if array.size > 1 and not any(array.strides):
        array = array[(slice(1),) * array.ndim]  # a broadcast number
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if (width := narrow_width(held.element)) > 1:
        flat = flat & np.uint8((1 << width) - 1)  # NumPy leaves the unused bits unspecified
    size = item_bytes(held.element)
    return ElementsAttr((flat[:size] if _repeats(flat, size) else flat).data, held)


def elements_from_bytes(data: bytes | bytearray | memoryview, type: ShapedType) -> ElementsAttr:
    """The constant with these bytes, those of all elements; all-equal elements are stored once."""
    import numpy as np

    flat = np.frombuffer(data, np.uint8)
    size = item_bytes(type.element)
    return ElementsAttr(memoryview(data)[:size] if _repeats(flat, size) else data, type)


def filled(literal: Attribute, type: Type) -> Attribute:
    """The constant of `type` with all elements equal to `literal`; for a scalar type, `literal` itself."""
    if not isinstance(type, ShapedType):
        return literal
    assert isinstance(literal, (FloatAttr, IntegerAttr))
    bits = literal.bits if isinstance(literal, FloatAttr) else integer_bits(literal.value, type.element)
    return ElementsAttr(bits.to_bytes(item_bytes(type.element), "little") if type.size else b"", type)


#: Bytes that are compared at once, so that a difference near the start is found early.
_CHUNK = 1 << 20


def same_bytes(left: memoryview, right: memoryview) -> bool:
    """Whether two buffers hold the same bytes; not those of a file that has become shorter, which cannot be read."""
    if len(left) != len(right) or not (intact(left) and intact(right)):
        return False
    return all(
        left[i : i + _CHUNK].tobytes() == right[i : i + _CHUNK].tobytes() for i in range(0, len(left), _CHUNK)
    )


def hexadecimal_bytes(text: str) -> bytes | None:
    """The bytes of `0x...`; None if it is not valid."""
    try:
        return bytes.fromhex(text[2:]) if text.startswith("0x") else None
    except ValueError:
        return None


def within_width(data: memoryview, element: Type) -> bool:
    """Whether every byte of elements that are shorter than a byte is a valid code."""
    width = narrow_width(element)
    known = bytes(range(1 << width))
    return not width or not any(
        data[i : i + _CHUNK].tobytes().strip(known) for i in range(0, len(data), _CHUNK)
    )


def _repeats(flat: np.ndarray[Any, Any], size: int) -> bool:
    """Whether an array of bytes is one element of `size` bytes, repeated."""
    if len(flat) < 2 * size:
        return False
    words = flat.view(f"u{size}")
    # For most constants the first page decides; the rest of a mapped file is then not read.
    return bool((words[: 4096 // size] == words[0]).all()) and all(
        bool((words[i : i + _CHUNK] == words[0]).all()) for i in range(0, len(words), _CHUNK)
    )


def sample(data: memoryview) -> bytes:
    """All bytes of a short buffer; chunks from all over a long one."""
    if len(data) <= 4096:
        return data.tobytes()
    step = len(data) // 32
    return b"".join(data[at : at + 64] for at in range(0, len(data) - 64, step)) + data[-64:].tobytes()
