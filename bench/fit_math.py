# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomials of `lowering/math/*.ngir` and prints their coefficients, lowest power first.

    python bench/fit_math.py                  every table, with the error that its polynomial alone makes
    python bench/fit_math.py exp_f32 sin_f64  these tables only
    python bench/fit_math.py --check          say which constant the library lacks, and where its polynomial is worse

Two fits may differ in their last digits, since least squares come from the BLAS of NumPy; so the check compares the
error that the library's own coefficients leave, and bits only of the constants that are not fitted.

Each table approximates `target(t)` on an interval such that the largest value of |error * weight(t)| is least (Remez
exchange in mpmath); the weight turns the error of the polynomial into the relative error of the whole function. The
coefficients are then rounded to their type one at a time, lowest power first, and the ones still free are fitted
again, which wins back most of what plain rounding loses.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import mpmath
import numpy as np
from mpmath import mp, mpf

Real = Callable[[mpf], mpf]

mp.prec = 160
LIBRARY = Path(__file__).resolve().parents[1] / "lowering" / "math"
TINY = mpf(2) ** -60
WIDE = 1300  # bits; 2 / pi is needed to as many places as the exponent range of f64 has
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

    @cached_property
    def samples(self) -> tuple[list[mpf], list[mpf], list[mpf]]:
        """Points of the interval, the target there, and its weight."""
        count = 24 * self.terms
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        nodes = [middle - half * mpmath.cos(mp.pi * i / count) for i in range(count + 1)]
        nodes = [t if abs(t) > TINY else TINY for t in nodes]
        return nodes, [self.target(t) for t in nodes], [abs(self.weight(t)) for t in nodes]

    def error(self, coefficients: Sequence[mpf]) -> mpf:
        """The largest weighted error."""
        samples = zip(*self.samples, strict=True)
        return max(abs(horner(coefficients, t) - v) * w for t, v, w in samples)

    def fit(self, element: str) -> list[mpf]:
        """Rounded coefficients."""
        nodes, values, weights = self.samples
        coefficients = remez(nodes, values, weights, self.terms)
        for i in range(self.terms):
            coefficients[i] = rounded(coefficients[i], element)
            if i + 1 < self.terms:
                errors = [v - horner(coefficients, t) for t, v in zip(nodes, values, strict=True)]
                change = compensate(nodes, errors, weights, range(i + 1, self.terms))
                coefficients[i + 1 :] = [c + d for c, d in zip(coefficients[i + 1 :], change, strict=True)]
        return coefficients


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
EIGHTH_TURN = (mp.pi / 4 * (1 + mpf("0.026"))) ** 2


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


def logarithm_by_quotient(base: mpf, terms: int) -> Polynomial:
    """log(1 + f) / log(base) = s (2 / log(base) + t p(t)) with s = f / (2 + f), t = s^2; relative to the logarithm."""
    high = (LOG_HIGH / (2 + LOG_HIGH)) ** 2 * (1 + mpf(2) ** -10)
    scale = 1 / mpmath.log(base)

    def target(t: mpf) -> mpf:
        return scale * (2 * mpmath.atanh(mpmath.sqrt(t)) / mpmath.sqrt(t) - 2) / t

    def weight(t: mpf) -> mpf:
        return t * mpmath.sqrt(t) / scale / (2 * mpmath.atanh(mpmath.sqrt(t)))

    return Polynomial(series_safe(target, scale * 2 / 3), mpf(0), high, terms, weight)


def sine(terms: int) -> Polynomial:
    """sin(r) = r + r t p(t) with t = r^2, |r| a little above pi/4."""
    return Polynomial(odd(mpmath.sin, mpf(-1) / 6), mpf(0), EIGHTH_TURN, terms, odd_weight(mpmath.sin))


def cosine(terms: int) -> Polynomial:
    """cos(r) = 1 - t / 2 + t^2 p(t) with t = r^2, |r| a little above pi/4."""
    target = series_safe(lambda t: (mpmath.cos(mpmath.sqrt(t)) - 1 + t / 2) / t**2, mpf(1) / 24)
    return Polynomial(target, mpf(0), EIGHTH_TURN, terms, lambda t: t**2 / mpmath.cos(mpmath.sqrt(t)))


def tangent(terms: int) -> Polynomial:
    """tan(r) = r + r t p(t) with t = r^2, |r| a little above pi/4."""
    return Polynomial(odd(mpmath.tan, mpf(1) / 3), mpf(0), EIGHTH_TURN, terms, odd_weight(mpmath.tan))


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


def error_function_by_root(terms: int, end: str) -> Polynomial:
    """erf(x) = 1 - (1 - v / 4)^4 with v = x + x p(x), 0 <= x <= end, beyond which it rounds to 1; relative to erf."""
    limit = 2 / mpmath.sqrt(mp.pi) - 1
    target = series_safe(lambda x: 4 * (1 - mpmath.root(mpmath.erfc(x), 4)) / x - 1, limit)
    return Polynomial(
        target, mpf(0), mpf(end), terms, lambda x: mpmath.erfc(x) ** mpf("0.75") * x / mpmath.erf(x)
    )


def logarithm_to(base: mpf, terms: int) -> Polynomial:
    """log(1 + f) / log(base) = f p(f): no first term apart, at a little of the last digit."""
    scale = 1 / mpmath.log(base)
    target = series_safe(lambda f: scale * mpmath.log1p(f) / f, scale)
    return Polynomial(target, LOG_LOW, LOG_HIGH, terms, lambda f: f / scale / mpmath.log1p(f))


def logarithm_up_to_2(terms: int) -> Polynomial:
    """log(1 + t) = t p(t), 0 <= t <= 1."""
    target = series_safe(lambda t: mpmath.log1p(t) / t, mpf(1))
    return Polynomial(target, mpf(0), mpf(1), terms, lambda t: t / mpmath.log1p(t))


def power_exponential(terms: int) -> Polynomial:
    """2^r = p(r), for the f32 power where it is computed in f64."""
    half = mpf("0.5001")
    return Polynomial(lambda r: mpf(2) ** r, -half, half, terms, lambda r: mpf(2) ** -r)


def power_tail(terms: int) -> Polynomial:
    """log2(1 + f) = s (2 / ln 2 + t (2 / (3 ln 2) + t p(t))), s = f / (2 + f), t = s^2, for the f64 power."""
    high = (LOG_HIGH / (2 + LOG_HIGH)) ** 2 * (1 + mpf(2) ** -10)

    def target(t: mpf) -> mpf:
        return ((2 * mpmath.atanh(mpmath.sqrt(t)) / mpmath.sqrt(t) - 2) / t - mpf(2) / 3) / t / mpmath.log(2)

    return Polynomial(
        series_safe(target, mpf(2) / 5 / mpmath.log(2)),
        mpf(0),
        high,
        terms,
        lambda t: t**2 * mpmath.sqrt(t) * mpmath.log(2) / (2 * mpmath.atanh(mpmath.sqrt(t))),
    )


#: Name of the constants in the library -> element type and what they are fitted to.
TABLES: dict[str, tuple[str, Callable[[], Polynomial]]] = {
    "exp_f32": ("f32", lambda: exponential(5)),
    "exp_f64": ("f64", lambda: exponential(10)),
    "exp2_f32": ("f32", lambda: exponential_of_2(6)),
    "exp2_f64": ("f64", lambda: exponential_of_2(12)),
    "exp2_half_f32": ("f32", lambda: exponential_of_2(4)),
    "exp2_quarter_f32": ("f32", lambda: exponential_of_2(3)),
    "cosh_f32": ("f32", lambda: hyperbolic_even(3)),
    "cosh_f64": ("f64", lambda: hyperbolic_even(6)),
    "sinh_f32": ("f32", lambda: hyperbolic_odd(2)),
    "sinh_f64": ("f64", lambda: hyperbolic_odd(5)),
    "log_f32": ("f32", lambda: logarithm(9)),
    "log2_ratio_f32": ("f32", lambda: logarithm_to(mpf(2), 10)),
    "log10_ratio_f32": ("f32", lambda: logarithm_to(mpf(10), 9)),
    "log_half_f32": ("f32", lambda: logarithm_to(mp.e, 6)),
    "log_quarter_f32": ("f32", lambda: logarithm_to(mp.e, 5)),
    "log2_half_f32": ("f32", lambda: logarithm_to(mpf(2), 6)),
    "log2_power_half_f32": ("f32", lambda: logarithm_to(mpf(2), 8)),
    "log10_half_f32": ("f32", lambda: logarithm_to(mpf(10), 6)),
    "log1p_half_f32": ("f32", lambda: logarithm_up_to_2(6)),
    "log_quotient_f64": ("f64", lambda: logarithm_by_quotient(mp.e, 7)),
    "sin_f32": ("f32", lambda: sine(3)),
    "sin_half_f32": ("f32", lambda: sine(2)),
    "sin_f64": ("f64", lambda: sine(6)),
    "cos_f32": ("f32", lambda: cosine(3)),
    "cos_half_f32": ("f32", lambda: cosine(2)),
    "cos_f64": ("f64", lambda: cosine(6)),
    "tan_f32": ("f32", lambda: tangent(6)),
    "tan_f64": ("f64", lambda: tangent(15)),
    "asin_f32": ("f32", lambda: arc_sine(5)),
    "asin_f64": ("f64", lambda: arc_sine(13)),
    "atan_f32": ("f32", lambda: arc_tangent(8)),
    "atan_f64": ("f64", lambda: arc_tangent(20)),
    "erf_f32": ("f32", lambda: error_function_by_root(11, "4")),
    "erf_f64": ("f64", lambda: error_function(25, "5.95")),
    "log2_quotient_f32": ("f32", lambda: logarithm_by_quotient(mpf(2), 4)),
    "log2_power_f64": ("f64", lambda: logarithm_to(mpf(2), 14)),
    "exp2_power_f64": ("f64", lambda: power_exponential(7)),
    "log2_tail_f64": ("f64", lambda: power_tail(7)),
}


def parts(value: mpf, element: str, count: int) -> list[mpf]:
    """`value` as a sum of `count` numbers of the element type, each the best for what is left."""
    out: list[mpf] = []
    for _ in range(count):
        out.append(rounded(value - sum(out, mpf(0)), element))
    return out


def bit_pieces(value: mpf, first: int, width: int, count: int) -> list[mpf]:
    """The bits of `value` below 2^-first, cut into pieces of `width` bits; the last takes 53."""
    out: list[mpf] = []
    with mpmath.workprec(WIDE):
        left, at = value * mpf(2) ** first % 1, first
        for i in range(count):
            size = width if i < count - 1 else 53
            whole = mpmath.floor(left * mpf(2) ** size)
            out.append(whole * mpf(2) ** -(at + size))
            left, at = left * mpf(2) ** size - whole, at + size
    return out


def constants() -> dict[str, list[mpf]]:
    """The constants that are not fitted, by name; several numbers are the parts of one."""
    with mpmath.workprec(WIDE):
        pi, ln2, ln10 = +mp.pi, mpmath.log(2), mpmath.log(10)
        two_over_pi, log10_2 = 2 / pi, mpmath.log10(2)
    out: dict[str, list[mpf]] = {}
    for element in ("f32", "f64"):
        out |= {
            f"ln2_{element}": parts(ln2, element, 2),
            f"log2_e_{element}": parts(1 / ln2, element, 2),
            f"log10_e_{element}": parts(1 / ln10, element, 2),
            f"log10_2_{element}": parts(log10_2, element, 2),
            f"pi_{element}": parts(pi, element, 2),
            f"half_pi_{element}": parts(pi / 2, element, 3),
            f"two_over_pi_{element}": parts(two_over_pi, element, 1),
        }
    out["two_over_pi_near_f64"] = bit_pieces(two_over_pi, 0, 29, 4)
    out["two_over_pi_far_f64"] = bit_pieces(two_over_pi, 47, 29, 4)
    # Scaled up, since the last pieces would be too small for f64.
    out["two_over_pi_pieces_f64"] = [p * mpf(2) ** 400 for p in bit_pieces(two_over_pi, 0, 53, 22)]
    out["two_log2_e_f32"] = parts(2 / ln2, "f32", 2)
    out["log2_power_0_f64"] = parts(2 / ln2, "f64", 2)
    out["log2_power_1_f64"] = parts(2 / (3 * ln2), "f64", 2)
    return out


def library(element: str) -> list[float]:
    """Every constant of an element type in the library, with both signs."""
    text = "".join(path.read_text() for path in sorted(LIBRARY.glob("*.ngir")))
    found: list[float] = []
    for word in re.findall(rf"ng\.constant (\S+) : {element}\b", text):
        if word.startswith("0x"):
            letters = {"f32": "If", "f64": "Qd"}[element]
            number = struct.unpack("<" + letters[1], struct.pack("<" + letters[0], int(word, 16)))[0]
        else:
            number = float(word)
        found += [number, -number]
    return found


#: How much worse than a fit of today the library may be: as much as two good fits differ.
ALLOWED = 1.05


def check(name: str) -> Iterator[str]:
    """What is wrong with the constants of a table in the library."""
    if name not in TABLES:
        known = library(name[-3:])
        for number in constants()[name]:
            if float(number) not in known:
                yield f"{name}: {hexadecimal(number, name[-3:])} ({float(number):.17g}) is not in {LIBRARY}"
        return
    element, make = TABLES[name]
    polynomial, known = make(), library(element)
    best = polynomial.fit(element)
    held = [mpf(min(known, key=lambda number, c=float(c): abs(number - c))) for c in best]
    ratio = float(polynomial.error(held) / polynomial.error(best))
    if ratio > ALLOWED:
        yield f"{name}: the coefficients in {LIBRARY} leave {ratio:.2f} times the error of a new fit"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="tables to print (default: all)")
    parser.add_argument("--check", action="store_true", help="compare with the library instead of printing")
    options = parser.parse_args(arguments)
    names = options.names or [*constants(), *TABLES]
    if options.check:
        wrong = [message for name in names for message in check(name)]
        print(*wrong, sep="\n", end="\n" if wrong else "")
        return 1 if wrong else 0
    for name in names:
        if name in TABLES:
            element, make = TABLES[name]
            polynomial = make()
            numbers = polynomial.fit(element)
            remark = f"error 2^{float(mpmath.log(polynomial.error(numbers), 2)):.2f}"
        else:
            numbers, element, remark = constants()[name], name[-3:], "rounded"
        print(
            f"{name}: {remark}",
            *(f"  {hexadecimal(n, element)}  // {float(n):.17g}" for n in numbers),
            sep="\n",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
