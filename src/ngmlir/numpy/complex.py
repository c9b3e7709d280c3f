# SPDX-License-Identifier: Apache-2.0
"""Complex arrays as pairs of real ones. Tensors have real elements, so what `fft` gives is a pair of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from . import elementwise
from .arrays import aligned, as_array, as_type, expand, joined, known, of_type, shape
from .composed import hypot, where
from .elementwise import (
    add,
    arctan2,
    divide,
    equal,
    inexact,
    logical_and,
    multiply,
    negative,
    square,
    subtract,
)
from .indexing import getitem


class Complex:
    """A complex array: the tensors `real` and `imag`, of one shape and element type.

    It has `+ - * /`, `abs(z)`, `z.conj()`, `z.angle()`, indexing, and is unpacked into its two parts, so that `[*z]` is what a
    computation returns. Numbers, arrays of NumPy (complex ones too) and tensors may be the other operand.

    Args:
        real: the real part; an array of NumPy may be complex.
        imag: the imaginary part; 0 without it.

    Raises IncompatibleAxesError where the two do not broadcast.
    """

    __array_ufunc__ = None  # so that `x * z` of arrays and tensors is this class's product
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, real: Any, imag: Any = None):
        if isinstance(real, Complex) and imag is None:
            self.real, self.imag = real.real, real.imag
            return
        if imag is None and not isinstance(real, Tensor) and np.iscomplexobj(real):
            given: Any = np.asarray(real)
            real, imag = np.ascontiguousarray(given.real), np.ascontiguousarray(given.imag)
        # Numbers of Python give way to the elements of the other part.
        parts = [
            float(x) if isinstance(x, (int, float)) else inexact(x)
            for x in (real, 0.0 if imag is None else imag)
        ]
        kind = joined(*parts)
        #: The real part.
        self.real: Tensor
        #: The imaginary part.
        self.imag: Tensor
        self.real, self.imag = aligned(*(of_type(part, kind) for part in parts))

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return shape(self.real)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """complex128 of parts of float64, else complex64."""
        return np.dtype("complex128" if self.real.dtype == np.float64 else "complex64")

    def __repr__(self) -> str:
        return f"Complex(real={self.real!r}, imag={self.imag!r})"

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.real, self.imag))

    def __getitem__(self, item: Any) -> Complex:
        return Complex(getitem(self.real, item), getitem(self.imag, item))

    def conj(self) -> Complex:
        """With the sign of the imaginary part changed."""
        return Complex(self.real, negative(self.imag))

    conjugate = conj

    def angle(self) -> Tensor:
        """The angle in radians, from -pi to pi."""
        return arctan2(self.imag, self.real)

    def __abs__(self) -> Tensor:
        """The magnitude; its derivative at 0 is 0."""
        none = logical_and(equal(self.real, 0), equal(self.imag, 0))
        return where(none, 0.0, hypot(where(none, 1.0, self.real), self.imag))

    def __neg__(self) -> Complex:
        return Complex(negative(self.real), negative(self.imag))

    def __pos__(self) -> Complex:
        return self

    def __add__(self, other: Any) -> Complex:
        real, imag = _parts(other)
        return Complex(add(self.real, real), self.imag if imag is None else add(self.imag, imag))

    def __sub__(self, other: Any) -> Complex:
        real, imag = _parts(other)
        return Complex(subtract(self.real, real), self.imag if imag is None else subtract(self.imag, imag))

    def __mul__(self, other: Any) -> Complex:
        real, imag = _parts(other)
        if imag is None:
            return Complex(multiply(self.real, real), multiply(self.imag, real))
        return Complex(
            subtract(multiply(self.real, real), multiply(self.imag, imag)),
            add(multiply(self.real, imag), multiply(self.imag, real)),
        )

    def __truediv__(self, other: Any) -> Complex:
        real, imag = _parts(other)
        if imag is None:
            return Complex(divide(self.real, real), divide(self.imag, real))
        size = add(square(real), square(imag))
        return self * Complex(divide(real, size), divide(negative(imag), size))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Complex:
        return -self + other

    def __rtruediv__(self, other: Any) -> Complex:
        return Complex(other) / self

    def __eq__(self, other: object) -> Any:
        fail(
            UserError,
            "complex arrays are not compared by ==",
            "ng.numpy.equal(z.real, w.real), and so for imag",
        )

    def __bool__(self) -> bool:
        fail(UserError, "a complex array has no truth value while the graph is built")


def real(val: Any) -> Tensor:
    """The real part."""
    return val.real if isinstance(val, Complex) else as_array(val)


def imag(val: Any) -> Tensor:
    """The imaginary part; zeros of real numbers."""
    if isinstance(val, Complex):
        return val.imag
    x = as_array(val)
    return expand(as_type(known(0), x.element), shape(x))


def conj(x: Any, /) -> Any:
    """With the sign of the imaginary part changed."""
    return x.conj() if isinstance(x, Complex) else as_array(x)


conjugate = conj


def angle(z: Any, deg: bool = False) -> Tensor:
    """The angle of complex numbers, from -pi to pi, or in degrees."""
    found = (z if isinstance(z, Complex) else Complex(z)).angle()
    return multiply(found, 180 / np.pi) if deg else found


def absolute(x: Any, /, dtype: Any = None) -> Tensor:
    """Absolute value, or the magnitude of complex numbers."""
    return abs(x) if isinstance(x, Complex) else elementwise.absolute(x, dtype=dtype)


def _parts(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of an operand; None for one that is real. Numbers stay numbers, which give way to types."""
    if isinstance(x, Complex):
        return x.real, x.imag
    if isinstance(x, complex) and not isinstance(x, np.generic):
        return x.real, x.imag
    if not isinstance(x, Tensor) and np.iscomplexobj(x):
        made = Complex(x)
        return made.real, made.imag
    return (x if isinstance(x, (int, float)) else as_array(x)), None
