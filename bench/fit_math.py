# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomials of `lowering/math/*.ngir` and prints their coefficients, lowest power first.

    python bench/fit_math.py                  every table, with the error that its polynomial alone makes
    python bench/fit_math.py exp_f32 sin_f64  these tables only
    python bench/fit_math.py --check          say which printed constant the library does not hold

Each table approximates `target(t)` on an interval such that the largest value of |error * weight(t)| is least (Remez
exchange in mpmath); the weight turns the error of the polynomial into the relative error of the whole function. The
coefficients are then rounded to their type one at a time, lowest power first, and the ones still free are fitted
again, which wins back most of what plain rounding loses. Tables of a rational function are fitted by least squares
with weights raised where the error is largest (Lawson), on the linearised problem.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mpmath
import numpy as np
from mpmath import mp, mpf

Real = Callable[[mpf], mpf]

mp.prec = 160
LIBRARY = Path(__file__).resolve().parents[1] / "lowering" / "math"
TINY = mpf(2) ** -60
SQRT_HALF = mpmath.sqrt(mpf(1) / 2)


def rounded(value: mpf, element: str) -> mpf:
    """The nearest number of the element type (mpf -> float rounds once; float -> float32 would round twice)."""
    bits = {"f32": 24, "f64": 53}[element]
    with mpmath.workprec(bits):
        return +value


def hexadecimal(value: mpf, element: str) -> str:
    if element == "f32":
        return f"0x{struct.unpack('<I', struct.pack('<f', float(value)))[0]:08X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


def horner(coefficients: Sequence[mpf], t: mpf) -> mpf:
    total = mpf(0)
    for coefficient in reversed(coefficients):
        total = total * t + coefficient
    return total


@dataclass(frozen=True)
class Polynomial:
    """c[0] + c[1] t + ... close to target(t) on [low, high]."""

    target: Real
    low: mpf
    high: mpf
    terms: int
    weight: Real

    def fit(self, element: str) -> tuple[list[mpf], mpf]:
        """Rounded coefficients and the largest weighted error they leave."""
        count = 24 * self.terms
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        nodes = [middle - half * mpmath.cos(mp.pi * i / count) for i in range(count + 1)]
        nodes = [t if abs(t) > TINY else TINY for t in nodes]
        values = [self.target(t) for t in nodes]
        weights = [abs(self.weight(t)) for t in nodes]
        coefficients = remez(nodes, values, weights, self.terms)
        for i in range(self.terms):
            coefficients[i] = rounded(coefficients[i], element)
            if i + 1 < self.terms:
                errors = [v - horner(coefficients, t) for t, v in zip(nodes, values, strict=True)]
                change = compensate(nodes, errors, weights, range(i + 1, self.terms))
                coefficients[i + 1 :] = [c + d for c, d in zip(coefficients[i + 1 :], change, strict=True)]
        error = max(abs(horner(coefficients, t) - v) * w for t, v, w in zip(nodes, values, weights, strict=True))
        return coefficients, error


def remez(nodes: Sequence[mpf], values: Sequence[mpf], weights: Sequence[mpf], terms: int) -> list[mpf]:
    """The polynomial whose weighted error on the nodes is least."""
    usable = [i for i, w in enumerate(weights) if w > TINY]
    chosen = [usable[round(j * (len(usable) - 1) / terms)] for j in range(terms + 1)]
    answer: list[mpf] = []
    for _ in range(30):
        matrix, right = mpmath.matrix(terms + 1, terms + 1), mpmath.matrix(terms + 1, 1)
        for row, i in enumerate(chosen):
            for column in range(terms):
                matrix[row, column] = nodes[i] ** column
            matrix[row, terms] = (-1) ** row / weights[i]
            right[row] = values[i]
        solution = mpmath.lu_solve(matrix, right)
        answer = [solution[j] for j in range(terms)]
        errors = [(v - horner(answer, t)) * w for t, v, w in zip(nodes, values, weights, strict=True)]
        chosen = alternation(errors, terms + 1)
        if max(abs(errors[i]) for i in chosen) <= abs(solution[terms]) * mpf("1.001"):
            break
    return answer


def compensate(
    nodes: Sequence[mpf], errors: Sequence[mpf], weights: Sequence[mpf], powers: range
) -> list[mpf]:
    """What to add to the coefficients of `powers` so that the weighted error becomes small again.

    Doubles suffice: the error is small beside the polynomial, and only its first digits matter.
    """
    t = np.array([float(u) for u in nodes])
    scale, unit = np.abs(t).max(), max(abs(e) for e in errors)
    error = np.array([float(e / unit) for e in errors])
    weight = np.array([float(w) for w in weights])
    basis = np.stack([(t / scale) ** k for k in powers], 1) * weight[:, None]
    best, answer, emphasis = np.inf, np.zeros(len(powers)), np.ones_like(t)
    for _ in range(60):
        root = np.sqrt(emphasis)
        solution = np.linalg.lstsq(basis * root[:, None], error * weight * root, rcond=None)[0]
        left = np.abs(error * weight - basis @ solution)
        if left.max() < best:
            best, answer = left.max(), solution
        emphasis *= left / left.max() + 1e-3
        emphasis /= emphasis.max()
    return [mpf(float(a)) * unit / mpf(float(scale)) ** k for a, k in zip(answer, powers, strict=True)]


def alternation(errors: Sequence[mpf], count: int) -> list[int]:
    """`count` indices where the error is extreme and changes its sign from one to the next."""
    peaks: list[int] = []
    for i, error in enumerate(errors):
        if peaks and (error > 0) == (errors[peaks[-1]] > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    if len(peaks) < count:
        raise ArithmeticError(f"the error changes its sign only {len(peaks)} times, {count} are needed")
    return peaks


@dataclass(frozen=True)
class Quotient:
    """p(t) / (1 + q[1] t + ...) close to target(t) in relative error on [0, high]; prints p, then q[1:]."""

    target: Real
    high: mpf
    above: int
    below: int

    def fit(self, element: str) -> tuple[list[mpf], mpf]:
        """q is rounded first; p is then a polynomial of its own, close to target * q."""
        below = [mpf(1)] + [rounded(mpf(float(c)), element) for c in self.denominator()]
        product = series_safe(lambda t: self.target(t) * horner(below, t), self.target(mpf(0)))
        above, error = Polynomial(product, mpf(0), self.high, self.above, lambda t: 1 / product(t)).fit(element)
        return above + below[1:], error

    def denominator(self) -> np.ndarray:
        """q[1:] of the best quotient of the linearised problem |target q - p| / |previous q| <= small."""
        count, scale = 2000, float(self.high)
        u = 0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
        value = np.array([float(self.target(mpf(t))) for t in u * scale])
        columns = [u**i / value for i in range(self.above)] + [-(u ** (i + 1)) for i in range(self.below)]
        basis = np.stack(columns, 1)
        emphasis, divisor = np.ones(count), np.ones(count)
        best, answer = np.inf, np.zeros(self.below)
        for _ in range(300):
            root = np.sqrt(emphasis) / divisor
            solution = np.linalg.lstsq(basis * root[:, None], root, rcond=None)[0]
            divisor = 1 - basis[:, self.above :] @ solution[self.above :]
            error = np.abs(basis[:, : self.above] @ solution[: self.above] / divisor - 1)
            if error.max() < best:
                best, answer = error.max(), solution[self.above :] / scale ** np.arange(1, self.below + 1)
            emphasis *= error / error.max() + 1e-3
            emphasis /= emphasis.max()
        return answer


def series_safe(function: Real, limit: mpf) -> Real:
    """`function` evaluated with enough digits near 0, where its definition cancels; `limit` is its value there."""

    def value(t: mpf) -> mpf:
        if abs(t) <= 2 * TINY:
            return limit
        with mpmath.workprec(400):
            return function(t)

    return value


def odd(function: Real, third: mpf) -> Real:
    """(function(r) / r - 1) / r^2 as a function of t = r^2, for r + r t target(t); `third` is the value at 0."""

    def target(t: mpf) -> mpf:
        r = mpmath.sqrt(t)
        return (function(r) / r - 1) / t

    return series_safe(target, third)


def odd_weight(function: Real) -> Real:
    return lambda t: t * mpmath.sqrt(t) / function(mpmath.sqrt(t))


LOG_LOW, LOG_HIGH = SQRT_HALF - mpf(2) ** -20 - 1, 2 * SQRT_HALF + mpf(2) ** -20 - 1
HALF_LN2 = mpmath.log(2) / 2 * (1 + mpf(2) ** -10)
QUARTER_TURN = (mp.pi / 4 * (1 + mpf("0.013"))) ** 2
HALF_TURN = (mp.pi / 2 * (1 + mpf("0.013"))) ** 2


def exponential(terms: int) -> Polynomial:
    """exp(r) - 1 = r + r^2 p(r), relative to exp(r) - 1."""
    target = series_safe(lambda r: (mpmath.expm1(r) - r) / r**2, mpf(1) / 2)
    return Polynomial(target, -HALF_LN2, HALF_LN2, terms, lambda r: r**2 / mpmath.expm1(r))


def exponential_of_2(terms: int) -> Polynomial:
    """2^r - 1 = r p(r), relative to 2^r."""
    target = series_safe(lambda r: mpmath.expm1(r * mpmath.log(2)) / r, mpmath.log(2))
    half = mpf("0.5001")
    return Polynomial(target, -half, half, terms, lambda r: r / mpf(2) ** r)


def hyperbolic_even(terms: int) -> Polynomial:
    """cosh(r) - 1 = t p(t) with t = r^2."""
    target = series_safe(lambda t: (mpmath.cosh(mpmath.sqrt(t)) - 1) / t, mpf(1) / 2)
    return Polynomial(target, mpf(0), HALF_LN2**2, terms, lambda t: t)


def hyperbolic_odd(terms: int) -> Polynomial:
    """sinh(r) = r + r t p(t) with t = r^2."""
    return Polynomial(odd(mpmath.sinh, mpf(1) / 6), mpf(0), HALF_LN2**2, terms, odd_weight(mpmath.sinh))


def logarithm(terms: int) -> Polynomial:
    """log(1 + f) = f + f^2 p(f) for 1 + f in [sqrt(1/2), sqrt(2)]."""
    target = series_safe(lambda f: (mpmath.log1p(f) - f) / f**2, mpf(-1) / 2)
    return Polynomial(target, LOG_LOW, LOG_HIGH, terms, lambda f: f**2 / mpmath.log1p(f))


def logarithm_by_quotient(terms: int) -> Polynomial:
    """log(1 + f) = 2 s + s t p(t) with s = f / (2 + f), t = s^2; relative to the logarithm."""
    high = (LOG_HIGH / (2 + LOG_HIGH)) ** 2 * (1 + mpf(2) ** -10)
    target = series_safe(lambda t: (2 * mpmath.atanh(mpmath.sqrt(t)) / mpmath.sqrt(t) - 2) / t, mpf(2) / 3)
    return Polynomial(
        target, mpf(0), high, terms, lambda t: t * mpmath.sqrt(t) / (2 * mpmath.atanh(mpmath.sqrt(t)))
    )


def sine(terms: int) -> Polynomial:
    """sin(r) = r + r t p(t) with t = r^2, |r| a little above pi/2."""
    return Polynomial(odd(mpmath.sin, mpf(-1) / 6), mpf(0), HALF_TURN, terms, odd_weight(mpmath.sin))


def tangent(terms: int) -> Polynomial:
    """tan(r) = r + r t p(t) with t = r^2, |r| a little above pi/4."""
    return Polynomial(odd(mpmath.tan, mpf(1) / 3), mpf(0), QUARTER_TURN, terms, odd_weight(mpmath.tan))


def arc_tangent(terms: int) -> Polynomial:
    """atan(a) = a + a t p(t) with t = a^2, a in [0, 1]."""
    return Polynomial(odd(mpmath.atan, mpf(-1) / 3), mpf(0), mpf(1), terms, odd_weight(mpmath.atan))


def arc_sine(terms: int) -> Polynomial:
    """asin(a) = a + a t p(t) with t = a^2, a in [0, 1/2]."""
    return Polynomial(odd(mpmath.asin, mpf(1) / 6), mpf(0), mpf(1) / 4, terms, odd_weight(mpmath.asin))


def error_function(terms: int, end: str) -> Polynomial:
    """erf(x) = 1 - exp(-(x + x p(x))), 0 <= x <= end, beyond which it rounds to 1; relative to erf."""
    target = series_safe(lambda x: -mpmath.log(mpmath.erfc(x)) / x - 1, 2 / mpmath.sqrt(mp.pi) - 1)
    return Polynomial(target, mpf(0), mpf(end), terms, lambda x: x * mpmath.erfc(x) / mpmath.erf(x))


def hyperbolic_tangent(above: int, below: int) -> Quotient:
    """tanh(x) = x p(t) / q(t) with t = x^2, |x| <= 9.02, beyond which it rounds to 1."""
    target = series_safe(lambda t: mpmath.tanh(mpmath.sqrt(t)) / mpmath.sqrt(t), mpf(1))
    return Quotient(target, mpf("9.02") ** 2, above, below)

