# SPDX-License-Identifier: Apache-2.0
"""Types, as MLIR's builtin dialect has them. Uniqued (ir/context.py): equal types are the same object, so `is` compares.

A named tensor type carries its axes in the encoding slot: `tensor<4x3xf32, #ng.axes<N, C>>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from .context import Uniqued

#: A dimension that is known at run time only; printed `?`.
DYNAMIC = -1


class Type(metaclass=Uniqued):
    """Base of all types. `str(type)` is its MLIR spelling."""

    __slots__ = ("__weakref__", "text")
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        raise TypeError("types are uniqued; send their text instead")


class IntegerType(Type):
    """`i32` (signless: signed arithmetic unless the op says otherwise), `ui8` (unsigned), `si8`."""

    __slots__ = ("sign", "width")

    def __init__(self, width: int, sign: str = ""):
        self.width, self.sign = width, sign
        self.text = f"{sign}i{width}"

    @property
    def unsigned(self) -> bool:
        return self.sign == "u"


class FloatType(Type):
    """`f16 bf16 f32 f64`, and those of ir/narrow.py, which are only stored and cast; other names are kept and printed."""

    __slots__ = ("width",)
    WIDTHS: ClassVar = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 19, "f80": 80, "f128": 128}

    def __init__(self, name: str):
        self.text = name
        self.width = self.WIDTHS.get(name) or int(name[1])  # f8E4M3FN


class IndexType(Type):
    """`index`: positions and sizes; 64 bits wide on all targets."""

    __slots__ = ()

    def __init__(self) -> None:
        self.text = "index"


class NoneType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        self.text = "none"


def _dims(shape: tuple[int, ...]) -> str:
    return "".join([f"{d}x" if d >= 0 else "?x" for d in shape])


class ShapedType(Type):
    """Base of tensor, vector and memref types."""

    __slots__ = ("element", "shape")
    shape: tuple[int, ...]
    element: Type

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static(self) -> bool:
        return DYNAMIC not in self.shape

    @property
    def size(self) -> int:
        """Number of elements; only for static shapes."""
        return prod(self.shape)


class TensorType(ShapedType):
    """A value with a shape and, if named, one axis name per dimension."""

    __slots__ = ("encoding",)

    def __init__(self, shape: tuple[int, ...], element: Type, encoding: Any = None):
        self.shape, self.element, self.encoding = shape, element, encoding
        self.text = f"tensor<{_dims(shape)}{element}{f', {encoding}' if encoding is not None else ''}>"

    @property
    def axes(self) -> tuple[str, ...] | None:
        """Axis names, or None for a tensor without names."""
        return getattr(self.encoding, "names", None)


class VectorType(ShapedType):
    """A tile: a small array that a kernel keeps in registers; always static."""

    __slots__ = ()

    def __init__(self, shape: tuple[int, ...], element: Type):
        self.shape, self.element = shape, element
        self.text = f"vector<{_dims(shape)}{element}>"


class MemRefType(ShapedType):
    """A buffer. `strides` in elements (None = row-major contiguous); `space`: 0 global, 3 shared by a block, 5 private."""

    __slots__ = ("offset", "space", "strides")

    def __init__(
        self,
        shape: tuple[int, ...],
        element: Type,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        space: int = 0,
    ):
        self.shape, self.element, self.strides, self.offset, self.space = (
            shape,
            element,
            strides,
            offset,
            space,
        )
        layout = ""
        if strides is not None:
            marks = ", ".join(["?" if s == DYNAMIC else str(s) for s in strides])
            at = f", offset: {'?' if offset == DYNAMIC else offset}" if offset else ""
            layout = f", strided<[{marks}]{at}>"
        self.text = f"memref<{_dims(shape)}{element}{layout}{f', {space}' if space else ''}>"

    @property
    def row_strides(self) -> tuple[int, ...]:
        """Strides in elements, also if the type leaves them implicit."""
        if self.strides is not None:
            return self.strides
        strides: list[int] = []
        step = 1
        for d in reversed(self.shape):
            strides.append(step)
            step *= d
        return tuple(reversed(strides))

    @property
    def extent(self) -> int:
        """Number of elements from the first to the last, including gaps between rows; sizes and strides are static."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.row_strides, strict=True))


class FunctionType(Type):
    __slots__ = ("inputs", "results")

    def __init__(self, inputs: tuple[Type, ...], results: tuple[Type, ...]):
        self.inputs, self.results = inputs, results
        one = len(results) == 1 and not isinstance(results[0], FunctionType)
        out = str(results[0]) if one else f"({', '.join(map(str, results))})"
        self.text = f"({', '.join(map(str, inputs))}) -> {out}"


class OpaqueType(Type):
    """A type of which only the spelling is known: `!tile.token`, and with `--allow-unregistered-dialect` those of other
    dialects and those of MLIR that no op here supports, such as `complex<f32>` and `tensor<*xf32>`."""

    __slots__ = ()

    def __init__(self, text: str):
        self.text = text


i1, i8, i16, i32, i64 = (IntegerType(w) for w in (1, 8, 16, 32, 64))
ui8, ui16, ui32, ui64 = (IntegerType(w, "u") for w in (8, 16, 32, 64))
f16, bf16, f32, f64 = (FloatType(n) for n in ("f16", "bf16", "f32", "f64"))
index = IndexType()
none = NoneType()
token = OpaqueType("!tile.token")


def element_type(type: Type) -> Type:
    """The type of one element; for a scalar type, itself."""
    return type.element if isinstance(type, ShapedType) else type


def shape_of(type: Type) -> tuple[int, ...]:
    """The shape; `()` for a scalar type."""
    return type.shape if isinstance(type, ShapedType) else ()


def tile_type(shape: Sequence[int], element: Type) -> Type:
    """The type of a tile; that of a scalar if it has no dimensions."""
    return VectorType(tuple(shape), element) if shape else element


def as_memref(type: Type) -> MemRefType:
    """A type that must be that of a buffer."""
    assert isinstance(type, MemRefType)
    return type


def as_tensor(type: Type) -> TensorType:
    """A type that must be that of a tensor."""
    assert isinstance(type, TensorType)
    return type


def with_element(type: Type, element: Type) -> Type:
    """The same container (shape, axes) of another element type; for a scalar type, `element`."""
    match type:
        case TensorType():
            return TensorType(type.shape, element, type.encoding)
        case VectorType():
            return VectorType(type.shape, element)
        case MemRefType():
            return MemRefType(type.shape, element, type.strides, type.offset, type.space)
        case _:
            return element
