# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: short ones are products with matrices of sines and cosines, long ones are split into short ones."""

from __future__ import annotations

from math import isqrt

import numpy as np

from ....ir.types import f32
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Array, Tensor
from .products import dot

#: Transforms of up to so many elements are one product.
_ONE = 512
#: Real and imaginary parts.
Parts = tuple[Tensor, "Tensor | None"]


@operator("DFT")
def dft(n: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    place = (
        int(n.settle(axis).reshape(-1)[0])
        if axis is not None
        else n.integer("axis", 1 if n.version < 20 else -2)
    )
    count = int(n.settle(length).reshape(-1)[0]) if length is not None else None
    return transformed(x, x.axis(place), count, n.flag("inverse"), n.flag("onesided"))


def transformed(x: Tensor, axis: int, count: int | None, inverse: bool, onesided: bool) -> Tensor:
    """The transform along an axis of numbers whose last axis holds real and, if there is one, imaginary parts.

    Of real numbers one side is half of the result; the inverse of one side gives real numbers.
    """
    if x.shape[-1] not in (1, 2) or axis == x.rank - 1:
        raise UserError(f"a transform along axis {axis} of {list(x.shape)}")
    back = inverse and onesided
    size = x.shape[axis]
    out = count if count is not None else 2 * (size - 1) if back else size
    if out < 1:
        raise UserError(f"a transform of {out} elements")
    x = x.moved(axis, -2)
    used = min(out // 2 + 1 if back else out, size)
    real = x.at(-1, 0).part(-1, 0, used)
    imaginary = x.at(-1, 1).part(-1, 0, used) if x.shape[-1] == 2 else None
    if back:
        real, imaginary = _mirrored(real, imaginary, out)
    shown = out // 2 + 1 if onesided and not inverse else out
    first, second = _fourier((real, imaginary), out, shown, 1 if inverse else -1)
    parts = [first] if back else [first, second]
    made = x.verbs.stacked(parts, first.rank).moved(-2, axis)
    return made / out if inverse else made


def _mirrored(real: Tensor, imaginary: Tensor | None, out: int) -> Parts:
    """Both sides of what one side tells; the imaginary parts that would have to be zero are left out."""
    half = out // 2 + 1
    real = _lengthened(real, half)
    rest = out - half
    whole = real.verbs.joined([real, real.part(-1, 1, rest + 1).reversed(-1)], -1)
    if imaginary is None:
        return whole, None
    line = np.ones(half)
    line[0] = 0
    if out % 2 == 0:
        line[-1] = 0
    imaginary = _lengthened(imaginary, half) * real.verbs.known(line).cast(real.element)
    return whole, real.verbs.joined([imaginary, -imaginary.part(-1, 1, rest + 1).reversed(-1)], -1)


def _lengthened(x: Tensor, length: int) -> Tensor:
    """With zeros behind the last axis."""
    return x.pad([0] * x.rank, [*[0] * (x.rank - 1), length - x.shape[-1]])


def _fourier(parts: Parts, length: int, shown: int, sign: int) -> tuple[Tensor, Tensor]:
    """The first results of a transform along the last axis, without a scale; behind its elements are zeros."""
    if length <= _ONE:
        return _product(parts, length, shown, sign)
    real, imaginary = parts[0], parts[1]
    whole = _lengthened(real, length), None if imaginary is None else _lengthened(imaginary, length)
    factor = next(d for d in range(isqrt(length), 0, -1) if length % d == 0)
    first, second = _split(whole, factor, sign) if factor > 1 else _chirped(whole, sign)
    return first.part(-1, 0, shown), second.part(-1, 0, shown)


def _product(parts: Parts, length: int, shown: int, sign: int) -> tuple[Tensor, Tensor]:
    # Products of whole numbers modulo the length keep the angles exact.
    real, imaginary = parts
    angle = 2 * np.pi * (np.outer(np.arange(shown), np.arange(real.shape[-1])) % length) / length
    cosine, sine = (real.verbs.known(a).cast(real.element) for a in (np.cos(angle), sign * np.sin(angle)))

    def product(part: Tensor, matrix: Tensor) -> Tensor:
        return dot(part, matrix, [part.rank - 1], [1])

    first, second = product(real, cosine), product(real, sine)
    if imaginary is None:
        return first, second
    return first - product(imaginary, sine), second + product(imaginary, cosine)


def _split(parts: Parts, factor: int, sign: int) -> tuple[Tensor, Tensor]:
    """A transform of rows * columns elements: one of each column, a turn of each element, one of each row."""
    lead, length = list(parts[0].shape[:-1]), parts[0].shape[-1]
    rest = length // factor
    columns = [None if p is None else p.reshape([*lead, factor, rest]).moved(-2, -1) for p in parts]
    assert columns[0] is not None
    made = _fourier((columns[0], columns[1]), factor, factor, sign)
    turns = np.exp(sign * 2j * np.pi * np.outer(np.arange(rest), np.arange(factor)) / length)
    turned = _times(made, turns)
    first, second = _fourier((turned[0].moved(-2, -1), turned[1].moved(-2, -1)), rest, rest, sign)
    return first.moved(-2, -1).reshape([*lead, length]), second.moved(-2, -1).reshape([*lead, length])


def _chirped(parts: Parts, sign: int) -> tuple[Tensor, Tensor]:
    """A transform of a prime length: a convolution with a chirp, which transforms of another length make."""
    length = parts[0].shape[-1]
    wide = 1 << (2 * length - 2).bit_length()
    squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
    chirp = np.exp(sign * 1j * np.pi * squares / length)
    kernel = np.zeros(wide, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[wide - length + 1 :] = chirp[:0:-1].conj()
    made = _fourier(_times(parts, chirp), wide, wide, -1)
    made = _fourier(_times(made, np.fft.fft(kernel) / wide), wide, wide, 1)
    return _times((made[0].part(-1, 0, length), made[1].part(-1, 0, length)), chirp)


def _times(parts: Parts, factors: Array) -> tuple[Tensor, Tensor]:
    """The product with complex numbers that are known."""
    real, imaginary = parts
    a, b = (real.verbs.known(f).cast(real.element) for f in (factors.real, factors.imag))
    if imaginary is None:
        return real * a, real * b
    return real * a - imaginary * b, real * b + imaginary * a


@operator("STFT")
def stft(
    n: Node, signal: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None
) -> Tensor:
    by = int(n.settle(step).reshape(-1)[0])
    if length is not None:
        size = int(n.settle(length).reshape(-1)[0])
    elif window is not None:
        size = window.shape[0]
    else:
        raise UserError("neither a window nor a length is given")
    signal = signal if signal.rank == 3 else signal.with_axes([-1])
    frames = (signal.shape[1] - size) // by + 1 if by > 0 else 0
    if frames < 1:
        raise UserError(f"frames of {size} elements do not fit into {signal.shape[1]}")
    places = np.arange(frames)[:, None] * by + np.arange(size)[None, :]
    parts = signal.take(n.verbs.known(places), 1)
    if window is not None:
        parts = parts * window.reshape([size, 1])
    return transformed(parts, 2, None, False, n.flag("onesided", True))


@operator("MelWeightMatrix")
def mel_weight_matrix(
    n: Node, bands: Tensor, length: Tensor, rate: Tensor, lowest: Tensor, highest: Tensor
) -> Tensor:
    """[frequency, band]: triangles whose corners are equally far apart in mels."""
    count, size = int(n.settle(bands).reshape(-1)[0]), int(n.settle(length).reshape(-1)[0])
    per_second = float(n.settle(rate).reshape(-1)[0])
    low, high = (float(n.settle(e).reshape(-1)[0]) for e in (lowest, highest))
    shown = size // 2 + 1
    if count < 1 or not 0 <= low < high:
        raise UserError(f"{count} bands from {low} to {high} Hz")
    ends = [2595 * np.log10(1 + hertz / 700) for hertz in (low, high)]
    mels = ends[0] + np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    corners = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // per_second).astype(np.int64)
    made = np.zeros((shown, count))
    for band in range(count):
        left, top, right = corners[band : band + 3].tolist()
        if left == top:
            made[min(top, shown - 1), band] = 1
        for i in range(left, min(top + 1, shown)):
            made[i, band] = made[i, band] if left == top else (i - left) / (top - left)
        for i in range(top, min(right, shown)):
            made[i, band] = (right - i) / (right - top)
    return n.verbs.known(made).cast(n.element("output_datatype", f32))
