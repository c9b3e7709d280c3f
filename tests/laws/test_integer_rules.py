# SPDX-License-Identifier: Apache-2.0
"""The rules of quantised products (docs/quantised.md, "What is computed") on all values of 8 bits: what the pass
`integer-products` makes of a program beside the program itself, both by the interpreter."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from test_dot_atoms import machine
from test_integer_products import chain

from ngmlir.compiler import lower
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES

BYTES = ("ui8", "i8")
#: With `vpdpbusd`, which multiplies bytes of different signs alone; with pairs of 16 bits.
MACHINES = ("cascadelake", "x86-64-v3")


def all_of(kind: str) -> np.ndarray:
    """[256, 3]: each value, beside the least and the greatest."""
    ends = np.iinfo(DTYPES[kind])
    values = np.arange(ends.min, ends.max + 1)
    return np.stack([values, np.full(256, ends.min), np.full(256, ends.max)], 1).astype(DTYPES[kind])


def ruled(made: Module, name: str) -> Module:
    """What the pass makes of a program that it applies to."""
    after = lower(made, machine(name), "integer-products,dead-code")
    assert str(after) != str(made)
    return after


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("left", "right"), [*itertools.product(BYTES, BYTES)])
def test_zero_points_and_signs(left: str, right: str, name: str) -> None:
    """Each pair of bytes, with each zero point of the left one, and extremes of the right one: the same bits."""
    x, w = all_of(left), all_of(right).T
    a = np.iinfo(DTYPES[left]).min + np.arange(256, dtype=np.int32)
    ends = np.iinfo(DTYPES[right])
    for b, turn in itertools.product((ends.min, 0, 1, ends.max), (0, 85, 170)):
        text = f"""
func.func @main(%x: tensor<256x3x{left}>, %w: tensor<3x256x{right}>, %a: tensor<256xi32>) -> tensor<256x256xi32> {{
  %0 = ng.cast %x : (tensor<256x3x{left}>) -> tensor<256x3xi32>
  %1 = ng.broadcast %a dims [0] : (tensor<256xi32>) -> tensor<256x3xi32>
  %2 = ng.subtract %0, %1 : tensor<256x3xi32>
  %3 = ng.cast %w : (tensor<3x256x{right}>) -> tensor<3x256xi32>
  %4 = ng.constant dense<{b}> : tensor<3x256xi32>
  %5 = ng.subtract %3, %4 : tensor<3x256xi32>
  %6 = ng.dot %2, %5 contract [1] x [0] : (tensor<256x3xi32>, tensor<3x256xi32>) -> tensor<256x256xi32>
  return %6 : tensor<256x256xi32>
}}
"""
        made = from_text(text)
        given = x, w, np.roll(a, turn)
        np.testing.assert_array_equal(run(ruled(made, name), *given)[0], run(made, *given)[0])


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("left", "right"), [*itertools.product(BYTES, BYTES)])
def test_borders_of_zero_points_at_run_time(left: str, right: str, name: str) -> None:
    """Each byte within a border, with each zero point: the same bits."""
    x, w = all_of(left), np.stack([all_of(right)[::51, 0]] * 6)
    text = f"""
func.func @main(%x: tensor<256x3x{left}>, %w: tensor<6x6x{right}>, %z: tensor<{left}>) -> tensor<256x6xi32> {{
  %0 = ng.cast %x : (tensor<256x3x{left}>) -> tensor<256x3xi32>
  %1 = ng.cast %z : (tensor<{left}>) -> tensor<i32>
  %2 = ng.broadcast %1 dims [] : (tensor<i32>) -> tensor<256x3xi32>
  %3 = ng.subtract %0, %2 : tensor<256x3xi32>
  %4 = ng.pad %3 low [0, 1] high [0, 2] {{value = 0 : i32}} : (tensor<256x3xi32>) -> tensor<256x6xi32>
  %5 = ng.cast %w : (tensor<6x6x{right}>) -> tensor<6x6xi32>
  %6 = ng.dot %4, %5 contract [1] x [0] : (tensor<256x6xi32>, tensor<6x6xi32>) -> tensor<256x6xi32>
  return %6 : tensor<256x6xi32>
}}
"""
    made = from_text(text)
    after = ruled(made, name)
    for zero in all_of(left)[:, 0]:
        np.testing.assert_array_equal(run(after, x, w, zero)[0], run(made, x, w, zero)[0])


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("left", "right"), [*itertools.product(BYTES, BYTES)])
def test_scales_after_the_sum(left: str, right: str, name: str) -> None:
    """Each pair of bytes, dequantized, multiplied and quantised: three roundings, and another step only where two are as near."""
    x, w = all_of(left), all_of(right).T
    s = np.random.default_rng(0).uniform(0.001, 0.01, 256).astype(np.float32)
    zeros = (3, -5 if right == "i8" else 120, 7)
    made = from_text(chain(256, 3, 256, left, right, "ui8", zeros, True))
    (got,) = run(ruled(made, name), x, w, s, np.zeros(256, np.float32))
    sums = (x.astype(np.int64) - zeros[0]) @ (w.astype(np.int64) - zeros[1])
    exact = sums * (np.float64(np.float32(0.03)) * s) / 0.5
    steps = np.clip(np.rint(exact) + zeros[2], 0, 255)
    assert np.abs(got - steps).max() <= 1
    tied = np.abs(exact - np.floor(exact) - 0.5) <= 4 * 2.0**-24 * np.abs(exact)
    np.testing.assert_array_equal(got[~tied], steps[~tied])


def test_reciprocals_of_scales() -> None:
    """Each code by each of many scales: a quotient and a product by the reciprocal round to the same step, or to neighbours of a tie."""
    codes = np.arange(-255, 256, dtype=np.float32)
    scales = np.random.default_rng(0).uniform(2.0**-12, 4, 2000).astype(np.float32)
    step = np.random.default_rng(1).uniform(-0.5, 0.5, (2000, 1)).astype(np.float32)
    values = (codes + step) * scales[:, None]
    by_quotient, by_product = np.rint(values / scales[:, None]), np.rint(values * (1 / scales)[:, None])
    differ = np.argwhere(by_quotient != by_product)
    assert np.abs(by_quotient - by_product).max() <= 1
    for i, j in differ[:100]:
        exact = Fraction(float(values[i, j])) / Fraction(float(scales[i]))
        assert abs(abs(exact - round(exact)) - Fraction(1, 2)) < abs(exact) * Fraction(3, 1 << 24)


@pytest.mark.parametrize("kind", BYTES)
def test_codes_that_are_read_where_they_are_made(kind: str) -> None:
    """Numbers that give each code, and numbers beyond the range: the same bits as through the codes."""
    ends, zero = np.iinfo(DTYPES[kind]), 7 if kind == "i8" else 130
    line = np.arange(ends.min - zero - 40, ends.max - zero + 41, dtype=np.float32)
    x = np.concatenate([(line + part) * np.float32(0.25) for part in (-0.5, -0.25, 0.0, 0.25, 0.5)])
    n = len(x)
    text = f"""
func.func @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> attributes {{ng.reassoc}} {{
  %0 = ng.constant dense<0.25> : tensor<{n}xf32>
  %1 = ng.divide %x, %0 : tensor<{n}xf32>
  %2 = ng.round %1 : tensor<{n}xf32>
  %3 = ng.constant dense<{ends.min - zero}.0> : tensor<{n}xf32>
  %4 = ng.maximum %2, %3 : tensor<{n}xf32>
  %5 = ng.constant dense<{ends.max - zero}.0> : tensor<{n}xf32>
  %6 = ng.minimum %4, %5 : tensor<{n}xf32>
  %7 = ng.cast %6 : (tensor<{n}xf32>) -> tensor<{n}xi32>
  %8 = ng.constant dense<{zero}> : tensor<{n}xi32>
  %9 = ng.add %7, %8 : tensor<{n}xi32>
  %10 = ng.cast %9 : (tensor<{n}xi32>) -> tensor<{n}x{kind}>
  %11 = ng.cast %10 : (tensor<{n}x{kind}>) -> tensor<{n}xi32>
  %12 = ng.subtract %11, %8 : tensor<{n}xi32>
  %13 = ng.cast %12 : (tensor<{n}xi32>) -> tensor<{n}xf32>
  %14 = ng.multiply %13, %0 : tensor<{n}xf32>
  return %14 : tensor<{n}xf32>
}}
"""
    made = from_text(text)
    after = ruled(made, "x86-64-v3")
    assert f"x{kind}>" not in str(after)
    np.testing.assert_array_equal(run(after, x)[0], run(made, x)[0])
