# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy.fft`: Fourier transforms under NumPy's names. A complex array is a `Complex`, a pair of tensors.

Transforms take real arrays, `Complex` ones and complex arrays of NumPy. They are compiled for every target like any other op, and
have derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from ..ir.types import FloatType, TensorType, f32, f64
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops.fourier import Fourier
from .arrays import as_array, as_type, known, place, places, shape
from .complex import Complex
from .elementwise import multiply
from .shaping import moveaxis, roll

__all__ = [
    "Complex", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _type_of(x: Tensor) -> TensorType:
    type = x.type
    assert isinstance(type, TensorType)
    return type


_FOURIER = Fourier(VERBS, _type_of)


def _operand(x: Any) -> tuple[Tensor, Tensor | None]:
    """Real and imaginary parts, with elements that transforms are computed in: float32 or float64."""
    if isinstance(x, Complex) or (not isinstance(x, Tensor) and np.iscomplexobj(x)):
        pair = Complex(x)
        return _wide(pair.real), _wide(pair.imag)
    array = as_array(x)
    return _wide(array if isinstance(array.element, FloatType) else as_type(array, f64)), None


def _wide(x: Tensor) -> Tensor:
    return x if x.element is f64 else as_type(x, f32)


def _scale(norm: str | None, length: int, inverse: bool) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        fail(UserError, f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    if norm == "ortho":
        return 1 / sqrt(length)
    return 1 / length if inverse == (norm != "forward") else 1.0


def _length(n: int | None, otherwise: int) -> int:
    length = otherwise if n is None else n
    if not isinstance(length, int) or length < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"Invalid number of FFT data points ({length}) specified.")
    return length


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else multiply(x, factor)


def _along(
    parts: tuple[Tensor, Tensor | None],
    n: int | None,
    axis: int,
    norm: str | None,
    inverse: bool,
    onesided: bool = False,
) -> tuple[Tensor, Tensor]:
    """The transform along one axis; with `onesided` the first half of the results."""
    axis = place(axis, len(shape(parts[0])))
    length = _length(n, shape(parts[0])[axis])
    real, imaginary = (None if p is None else moveaxis(p, axis, -1) for p in parts)
    assert real is not None
    made = _FOURIER.transform(real, imaginary, length, length // 2 + 1 if onesided else length, inverse)
    factor = _scale(norm, length, inverse)
    first, second = (moveaxis(_scaled(p, factor), -1, axis) for p in made)
    return first, second


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """The transform along an axis, cut or filled with zeros to n elements."""
    return Complex(*_along(_operand(a), n, axis, norm, False))


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """The inverse transform along an axis, cut or filled with zeros to n elements."""
    return Complex(*_along(_operand(a), n, axis, norm, True))


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """The first n // 2 + 1 results of the transform of a real array; the others are their conjugates."""
    real, imaginary = _operand(a)
    if imaginary is not None:
        fail(UserError, "rfft is of a real array", "fft is of a complex one; rfft(z.real) of the real part")
    return Complex(*_along((real, None), n, axis, norm, False, onesided=True))


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The real array whose `rfft` is given; n is its length, 2 * (m - 1) of m elements without it."""
    parts = _operand(a)
    axis = place(axis, len(shape(parts[0])))
    length = _length(n, 2 * (shape(parts[0])[axis] - 1))
    real, imaginary = (None if p is None else moveaxis(p, axis, -1) for p in parts)
    assert real is not None
    whole = _FOURIER.mirrored(real, imaginary, length)
    made, _ = _FOURIER.transform(*whole, length, length, inverse=True)
    return moveaxis(_scaled(made, _scale(norm, length, True)), -1, axis)


#: Of a norm, that of a transform in the other direction.
_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of an array that is its own conjugate when it is reversed, of which half is given."""
    return irfft(Complex(*_operand(a)).conj(), n, axis, _SWAPPED.get(norm, norm))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """The inverse of `hfft`."""
    return rfft(a, n, axis, _SWAPPED.get(norm, norm)).conj()


def _several(a: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    """(length, axis) of the transforms of several axes."""
    rank = len(shape(a))
    if axes is None:
        chosen = tuple(range(rank)) if s is None else tuple(range(rank - len(s), rank))
    else:
        chosen = tuple(place(axis, rank) for axis in axes)
    if s is not None and len(s) != len(chosen):
        fail(UserError, "Shape and axes have different lengths.")
    return list(zip([None] * len(chosen) if s is None else list(s), chosen, strict=True))


def _turned(
    parts: tuple[Tensor, Tensor | None],
    steps: Sequence[tuple[int | None, int]],
    norm: str | None,
    inverse: bool,
) -> Complex:
    for n, axis in reversed(steps):
        parts = _along(parts, n, axis, norm, inverse)
    return Complex(*parts)


def fftn(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Complex:
    """The transform along several axes, all by itself; `s` says to which lengths they are cut or filled with zeros."""
    parts = _operand(a)
    return _turned(parts, _several(parts[0], s, axes), norm, False)


def ifftn(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Complex:
    """The inverse transform along several axes, all by itself."""
    parts = _operand(a)
    return _turned(parts, _several(parts[0], s, axes), norm, True)


def rfftn(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Complex:
    """The transform of a real array along several axes; of the last one the first half."""
    parts = _operand(a)
    *rest, (n, axis) = _several(parts[0], s, axes)
    made = rfft(a, n, axis, norm)
    return _turned((made.real, made.imag), rest, norm, False)


def irfftn(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The real array whose `rfftn` is given."""
    parts = _operand(a)
    *rest, (n, axis) = _several(parts[0], s, axes)
    for length, each in rest:
        parts = _along(parts, length, each, norm, True)
    return irfft(Complex(*parts), n, axis, norm)


def fft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Complex:
    """`fftn` along the last two axes."""
    return fftn(a, s, axes, norm)


def ifft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Complex:
    """`ifftn` along the last two axes."""
    return ifftn(a, s, axes, norm)


def rfft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Complex:
    """`rfftn` along the last two axes."""
    return rfftn(a, s, axes, norm)


def irfft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`irfftn` along the last two axes."""
    return irfftn(a, s, axes, norm)


def fftfreq(n: int, d: float = 1.0) -> Tensor:
    """The frequencies of the results of `fft`, for a sample spacing of d; float64."""
    return known(np.fft.fftfreq(n, d))


def rfftfreq(n: int, d: float = 1.0) -> Tensor:
    """The frequencies of the results of `rfft`, for a sample spacing of d; float64."""
    return known(np.fft.rfftfreq(n, d))


def _shifted(x: Any, axes: Any, back: bool) -> Any:
    if isinstance(x, Complex):
        return Complex(_shifted(x.real, axes, back), _shifted(x.imag, axes, back))
    lengths = np.shape(x) if not isinstance(x, Tensor) else shape(x)
    chosen = places(axes, len(lengths))
    return roll(x, tuple((-(lengths[a] // 2) if back else lengths[a] // 2) for a in chosen), chosen)


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """With frequency 0 in the middle of axes, all by themselves; of a `Complex` one too."""
    return _shifted(x, axes, False)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, True)
