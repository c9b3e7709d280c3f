# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of pairs of tensors, real and imaginary parts, as algorithms on the verbs of `ng`.

Short transforms are products with matrices of sines and cosines, long ones are split into short ones. There are no complex
tensors: a tensor without imaginary parts is a pair with None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, Generic, TypeVar

import numpy as np

from ..ir.attributes import numeric_literal
from ..ir.elements import elements
from ..ir.literals import dtype_of
from ..ir.types import TensorType
from .ng import NgVerbs

V = TypeVar("V")
Array = np.ndarray[Any, Any]

#: Transforms of up to this many elements are one matrix product.
_ONE = 512


class Fourier(Generic[V]):
    """Transforms along the last axis, built with `verbs`; `type_of` gives the type of a value."""

    def __init__(self, verbs: NgVerbs[V], type_of: Callable[[V], TensorType]):
        self.verbs, self.type_of = verbs, type_of

    def transform(
        self, real: V, imaginary: V | None, length: int, shown: int, inverse: bool = False
    ) -> tuple[V, V]:
        """The first `shown` results of a transform of `length` elements: those given, truncated or followed by zeros. An inverse one is
        not divided by the length."""
        have = min(self._shape(real)[-1], length)
        cut = self._part(real, 0, have), None if imaginary is None else self._part(imaginary, 0, have)
        return self._transform(cut, length, shown, 1 if inverse else -1)

    def mirrored(self, real: V, imaginary: V | None, length: int) -> tuple[V, V | None]:
        """All `length` elements of the spectrum of real numbers, given its first half. Imaginary parts that must be
        zero are taken as zero."""
        half = length // 2 + 1
        rest = length - half
        real = self._lengthened(self._part(real, 0, min(half, self._shape(real)[-1])), half)
        whole = self._joined(real, self._reversed(real, 1, rest + 1))
        if imaginary is None:
            return whole, None
        line = np.ones(half)
        line[0] = 0
        if length % 2 == 0:
            line[-1] = 0
        imaginary = self._lengthened(self._part(imaginary, 0, min(half, self._shape(imaginary)[-1])), half)
        imaginary = self._scaled(imaginary, line)
        return whole, self._joined(imaginary, self.verbs.negative(self._reversed(imaginary, 1, rest + 1)))

    # ---- algorithms

    def _transform(self, parts: tuple[V, V | None], length: int, shown: int, sign: int) -> tuple[V, V]:
        if length <= _ONE:
            return self._product(parts, length, shown, sign)
        real, imaginary = parts
        whole = (
            self._lengthened(real, length),
            None if imaginary is None else self._lengthened(imaginary, length),
        )
        factor = next(d for d in range(isqrt(length), 0, -1) if length % d == 0)
        first, second = self._split(whole, factor, sign) if factor > 1 else self._chirped(whole, sign)
        return self._part(first, 0, shown), self._part(second, 0, shown)

    def _product(self, parts: tuple[V, V | None], length: int, shown: int, sign: int) -> tuple[V, V]:
        # Products of integers modulo the length keep the angles exact.
        real, imaginary = parts
        have = self._shape(real)[-1]
        angle = 2 * np.pi * (np.outer(np.arange(shown), np.arange(have)) % length) / length
        cosine, sine = (self._known(matrix, real) for matrix in (np.cos(angle), sign * np.sin(angle)))

        def product(part: V, matrix: V) -> V:
            last = len(self._shape(part)) - 1
            return self.verbs.dot(
                part, matrix, lhs_contract=(last,), rhs_contract=(1,), lhs_batch=(), rhs_batch=()
            )

        first, second = product(real, cosine), product(real, sine)
        if imaginary is None:
            return first, second
        return (
            self.verbs.subtract(first, product(imaginary, sine)),
            self.verbs.add(second, product(imaginary, cosine)),
        )

    def _split(self, parts: tuple[V, V | None], factor: int, sign: int) -> tuple[V, V]:
        """A transform of rows * columns elements: transforms of the columns, twiddle factors, transforms of the rows."""
        *lead, length = self._shape(parts[0])
        rest = length // factor
        first, second = (
            None if p is None else self._turned(self._reshaped(p, [*lead, factor, rest])) for p in parts
        )
        assert first is not None
        made = self._transform((first, second), factor, factor, sign)
        turns = np.exp(sign * 2j * np.pi * np.outer(np.arange(rest), np.arange(factor)) / length)
        real, imaginary = self._times(made, turns)
        made = self._transform((self._turned(real), self._turned(imaginary)), rest, rest, sign)
        real, imaginary = (self._reshaped(self._turned(p), [*lead, length]) for p in made)
        return real, imaginary

    def _chirped(self, parts: tuple[V, V | None], sign: int) -> tuple[V, V]:
        """A transform of a prime length: a convolution with a chirp, computed by transforms of a power of two."""
        length = self._shape(parts[0])[-1]
        wide = 1 << (2 * length - 2).bit_length()
        squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
        chirp = np.exp(sign * 1j * np.pi * squares / length)
        kernel = np.zeros(wide, np.complex128)
        kernel[:length] = chirp.conj()
        kernel[wide - length + 1 :] = chirp[:0:-1].conj()
        made = self._transform(self._times(parts, chirp), wide, wide, -1)
        made = self._transform(self._times(made, np.fft.fft(kernel) / wide), wide, wide, 1)
        return self._times((self._part(made[0], 0, length), self._part(made[1], 0, length)), chirp)

    def _times(self, parts: tuple[V, V | None], factors: Array) -> tuple[V, V]:
        """The product with constant complex numbers."""
        real, imaginary = parts
        first, second = self._scaled(real, factors.real), self._scaled(real, factors.imag)
        if imaginary is None:
            return first, second
        return (
            self.verbs.subtract(first, self._scaled(imaginary, factors.imag)),
            self.verbs.add(second, self._scaled(imaginary, factors.real)),
        )

    # ---- moves

    def _shape(self, x: V) -> tuple[int, ...]:
        return self.type_of(x).shape

    def _known(self, array: Array, like: V) -> V:
        element = self.type_of(like).element
        type = TensorType(array.shape, element)
        return self.verbs.constant(type=type, value=elements(array.astype(dtype_of(element)), type))

    def _scaled(self, x: V, factors: Array) -> V:
        """Multiplied by constants, which are broadcast along the first axes."""
        known, shape = self._known(factors, x), self._shape(x)
        if factors.shape != shape:
            dimensions = tuple(range(len(shape) - factors.ndim, len(shape)))
            whole = TensorType(shape, self.type_of(x).element)
            known = self.verbs.broadcast(known, type=whole, dimensions=dimensions)
        return self.verbs.multiply(x, known)

    def _reshaped(self, x: V, shape: Sequence[int]) -> V:
        return self.verbs.reshape(x, type=TensorType(tuple(shape), self.type_of(x).element))

    def _turned(self, x: V) -> V:
        """With the last two axes exchanged."""
        rank = len(self._shape(x))
        return self.verbs.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))

    def _part(self, x: V, start: int, limit: int, step: int = 1) -> V:
        shape = self._shape(x)
        if (start, limit, step) == (0, shape[-1], 1):
            return x
        zeros, ones = (0,) * (len(shape) - 1), (1,) * (len(shape) - 1)
        return self.verbs.slice(x, starts=(*zeros, start), limits=(*shape[:-1], limit), steps=(*ones, step))

    def _reversed(self, x: V, start: int, limit: int) -> V:
        """Elements limit - 1, ..., start of the last axis."""
        if limit <= start:
            return self._part(x, start, start)
        return self._part(x, limit - 1, start - 1, -1)

    def _lengthened(self, x: V, length: int) -> V:
        """Padded with zeros at the end of the last axis."""
        type = self.type_of(x)
        if type.shape[-1] == length:
            return x
        zeros = (0,) * (len(type.shape) - 1)
        high = (*zeros, length - type.shape[-1])
        return self.verbs.pad(x, low=(*zeros, 0), high=high, value=numeric_literal(0, type.element))

    def _joined(self, x: V, y: V) -> V:
        return self.verbs.concatenate([x, y], axis=len(self._shape(x)) - 1)
