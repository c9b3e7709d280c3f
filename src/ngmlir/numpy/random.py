# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy.random`: random numbers under NumPy's names, new ones at every run, from a counter that is state (as `ng.uniform`).

The numbers are not NumPy's; equal seeds give equal numbers on every target.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import Type, f32, f64, ui32, ui64
from ..op_graph.errors import UserError, fail
from ..op_graph.functions.random import draw
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from . import elementwise, sorting
from .arrays import Shape, as_array, as_type, common_shape, element, expand, known, lengths, reshape, shape
from .elementwise import add, left_shift, multiply, right_shift, subtract
from .indexing import take
from .reductions import argmax, cumsum
from .shaping import moveaxis


class Generator:
    """A random number generator. With a seed it gives the same numbers in every program; without, each call has a separate stream."""

    def __init__(self, seed: int | None = None):
        self._seed, self._drawn = seed, 0

    def _draw(self, operation: Any, size: Shape | None, kind: Type) -> Tensor:
        seed = None
        if self._seed is not None:
            # Each call differs from the one before, and from those of other seeds.
            state = np.random.SeedSequence([self._seed, self._drawn]).generate_state(1, np.uint64)
            seed = int(state[0])
            self._drawn += 1
        return draw(operation, Positions.of(() if size is None else lengths(size)), kind, seed)

    def _unit(self, size: Shape | None, dtype: Any = float) -> Tensor:
        return self._draw(ng.RandomUniformOp, size, element(dtype))

    def random(self, size: Shape | None = None, dtype: Any = float) -> Tensor:
        """Uniform in [0, 1); float64 unless `dtype` says otherwise."""
        return self._unit(size, dtype)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Shape | None = None) -> Tensor:
        """Uniform in [low, high), float64."""
        return self._scaled(ng.RandomUniformOp, low, subtract(high, low), size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Shape | None = None) -> Tensor:
        """Normal with a mean and a deviation, float64."""
        return self._scaled(ng.RandomNormalOp, loc, scale, size)

    def _scaled(self, operation: Any, shift: Any, scale: Any, size: Shape | None) -> Tensor:
        shift, scale = as_array(shift), as_array(scale)
        size = common_shape(shape(shift), shape(scale)) if size is None else size
        return add(multiply(self._draw(operation, size, f64), scale), shift)

    def standard_normal(self, size: Shape | None = None, dtype: Any = float) -> Tensor:
        """Normal with mean 0 and deviation 1; float64 unless `dtype` says otherwise."""
        return self._draw(ng.RandomNormalOp, size, element(dtype))

    def exponential(self, scale: Any = 1.0, size: Shape | None = None) -> Tensor:
        """Exponential with a mean."""
        scale = as_array(scale)
        drawn = self._unit(shape(scale) if size is None else size)
        return multiply(elementwise.negative(elementwise.log1p(elementwise.negative(drawn))), scale)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Shape | None = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Tensor:
        """Integers from low (0 by itself) to below high, int64 unless `dtype` says otherwise; `endpoint` counts high in."""
        start, stop = (0, low) if high is None else (low, high)
        if not isinstance(start, int) or not isinstance(stop, int):
            fail(UserError, "the bounds of random integers must be constant integers")
        count = stop - start + endpoint
        if not 0 < count <= 1 << 32:
            fail(UserError, f"low >= high, or more than 2**32 integers from {start} to {stop}")
        bits = as_type(self._draw(ng.RandomBitsOp, size, ui32), ui64)
        scaled = right_shift(multiply(bits, known(count, ui64)), known(32, ui64))
        return as_type(add(as_type(scaled, element(np.int64)), start), element(dtype))

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """The integers below x, or slices of an array along an axis, in any order."""
        if isinstance(x, int):
            high, low = (as_type(self._draw(ng.RandomBitsOp, x, ui32), ui64) for _ in range(2))
            bits = VERBS.bitwise_or(left_shift(high, known(32, ui64)), low)
            return sorting.argsort(bits)
        array = as_array(x)
        return take(array, self.permutation(shape(array)[axis]), axis)

    def choice(
        self, a: Any, size: Shape | None = None, replace: bool = True, p: Any = None, axis: int = 0
    ) -> Tensor:
        """Any of the integers below a, or of the slices of an array; with probabilities, and without repetition."""
        whole = as_array(np.arange(a) if isinstance(a, int) else a)
        n, wanted = shape(whole)[axis], () if size is None else lengths(size)
        if p is not None:
            total = cumsum(as_type(as_array(p), f64))
            if not replace:
                # The greatest of Gumbel numbers, shifted by the logarithms of the probabilities.
                noise = elementwise.negative(
                    elementwise.log(elementwise.negative(elementwise.log(self._unit(n))))
                )
                order = sorting.argsort(elementwise.negative(add(noise, elementwise.log(as_array(p)))))
                at = self._first(order, n, wanted)
            else:
                drawn = multiply(self._unit(wanted), take(total, -1))
                at = elementwise.minimum(sorting.searchsorted(total, drawn, "right"), n - 1)
        elif replace:
            at = self.integers(n, size=wanted)
        else:
            at = self._first(self.permutation(n), n, wanted)
        return take(whole, at, axis)

    def categorical(self, logits: Any, axis: int = -1, size: Shape | None = None) -> Tensor:
        """A position along an axis, int64, drawn with the probabilities `softmax(logits, axis)`.

        `size` is the shape of the result, to which that of the logits without the axis broadcasts; that itself without it. Logits
        of -inf are never drawn. Raises AxisNotFound, IncompatibleAxesError for a size that does not fit.
        """
        given = elementwise.inexact(logits)
        x = given if given.element is f64 else as_type(given, f32)
        x = moveaxis(x, axis, -1)
        wanted = shape(x)[:-1] if size is None else lengths(size)
        x = expand(x, (*wanted, shape(x)[-1]))
        unit = self._draw(ng.RandomUniformOp, shape(x), x.element)
        # A draw of 0 would have an infinite logarithm.
        unit = elementwise.maximum(unit, 2.0**-33 if x.element is f64 else 2.0**-25)
        noise = elementwise.negative(elementwise.log(elementwise.negative(elementwise.log(unit))))
        return argmax(add(x, noise), axis=-1)

    def _first(self, order: Tensor, n: int, wanted: tuple[int, ...]) -> Tensor:
        count = math.prod(wanted)
        if count > n:
            fail(
                UserError, f"Cannot take a larger sample ({count}) than population ({n}) without replacement"
            )
        return reshape(order[:count], wanted)

    def bernoulli(self, p: Any = 0.5, size: Shape | None = None) -> Tensor:
        """True with a probability."""
        p = as_array(p)
        wanted = shape(p) if size is None else lengths(size)
        return elementwise.less(self._unit(wanted), expand(p, wanted))


def default_rng(seed: int | None = None) -> Generator:
    """A generator; with a seed its draws are the same in every program."""
    return Generator(seed)


_ANY = Generator()

random, uniform, normal = _ANY.random, _ANY.uniform, _ANY.normal
standard_normal, exponential, integers = _ANY.standard_normal, _ANY.exponential, _ANY.integers
permutation, choice, bernoulli = _ANY.permutation, _ANY.choice, _ANY.bernoulli
categorical = _ANY.categorical
random_sample = random


def randint(low: int, high: int | None = None, size: Shape | None = None, dtype: Any = np.int64) -> Tensor:
    """The same as `integers`."""
    return integers(low, high, size, dtype)


def rand(*lengths: int) -> Tensor:
    """Uniform in [0, 1), in a shape."""
    return random(lengths)


def randn(*lengths: int) -> Tensor:
    """Normal with mean 0 and deviation 1, in a shape."""
    return standard_normal(lengths)
