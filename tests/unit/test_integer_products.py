# SPDX-License-Identifier: Apache-2.0
"""Quantized products: the integers of NumPy in i32, and within one step of the f32 meaning where they are quantized again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES

BYTES = ("ui8", "i8")


def draw(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    ends = np.iinfo(DTYPES[kind])
    return np.random.default_rng(seed).integers(ends.min, ends.max, shape, DTYPES[kind], endpoint=True)


@pytest.mark.parametrize("left,right", [*itertools.product(BYTES, BYTES)])
@pytest.mark.parametrize("fed", [False, True])
def test_zero_points_on_both_sides(left: str, right: str, fed: bool) -> None:
    """`fed`: the weights are an argument, not a constant."""
    m, k, n = 19, 67, 37
    w = draw(right, (k, n), 1)
    given = f", %w: tensor<{k}x{n}x{right}>" if fed else ""
    held = (
        ""
        if fed
        else f'  %w = ng.constant dense<"0x{w.tobytes().hex().upper()}"> : tensor<{k}x{n}x{right}>\n'
    )
    text = f"""
func.func @main(%x: tensor<{m}x{k}x{left}>, %a: tensor<{m}xi32>, %b: tensor<i32>{given}) -> tensor<{m}x{n}xi32> {{
{held}  %0 = ng.cast %x : (tensor<{m}x{k}x{left}>) -> tensor<{m}x{k}xi32>
  %1 = ng.broadcast %a dims [0] : (tensor<{m}xi32>) -> tensor<{m}x{k}xi32>
  %2 = ng.subtract %0, %1 : tensor<{m}x{k}xi32>
  %3 = ng.cast %w : (tensor<{k}x{n}x{right}>) -> tensor<{k}x{n}xi32>
  %4 = ng.broadcast %b dims [] : (tensor<i32>) -> tensor<{k}x{n}xi32>
  %5 = ng.subtract %3, %4 : tensor<{k}x{n}xi32>
  %6 = ng.dot %2, %5 contract [1] x [0] : (tensor<{m}x{k}xi32>, tensor<{k}x{n}xi32>) -> tensor<{m}x{n}xi32>
  return %6 : tensor<{m}x{n}xi32>
}}
"""
    x, a, b = draw(left, (m, k), 2), np.arange(-3, m - 3, dtype=np.int32), np.int32(-77)
    (got,) = compile_module(from_text(text))(x, a, b, *([w] if fed else []))
    wanted = (x.astype(np.int32) - a[:, None]) @ (w.astype(np.int32) - b)
    np.testing.assert_array_equal(got, wanted)


def chain(m: int, k: int, n: int, x: str, w: str, y: str, zeros: tuple[int, int, int], allowed: bool) -> str:
    """DequantizeLinear of both sides, with a scale for each column, a product, a bias, and QuantizeLinear."""
    low, high = np.iinfo(DTYPES[y]).min, np.iinfo(DTYPES[y]).max
    whole = f"tensor<{m}x{n}xf32>"
    note = " attributes {ng.reassoc}" if allowed else ""
    return f"""
func.func @main(%x: tensor<{m}x{k}x{x}>, %w: tensor<{k}x{n}x{w}>, %s: tensor<{n}xf32>, %bias: tensor<{n}xf32>) -> tensor<{m}x{n}x{y}>{note} {{
  %0 = ng.cast %x : (tensor<{m}x{k}x{x}>) -> tensor<{m}x{k}xi32>
  %1 = ng.constant dense<{zeros[0]}> : tensor<{m}x{k}xi32>
  %2 = ng.subtract %0, %1 : tensor<{m}x{k}xi32>
  %3 = ng.cast %2 : (tensor<{m}x{k}xi32>) -> tensor<{m}x{k}xf32>
  %4 = ng.constant dense<0.03> : tensor<{m}x{k}xf32>
  %5 = ng.multiply %3, %4 : tensor<{m}x{k}xf32>
  %6 = ng.cast %w : (tensor<{k}x{n}x{w}>) -> tensor<{k}x{n}xi32>
  %7 = ng.constant dense<{zeros[1]}> : tensor<{k}x{n}xi32>
  %8 = ng.subtract %6, %7 : tensor<{k}x{n}xi32>
  %9 = ng.cast %8 : (tensor<{k}x{n}xi32>) -> tensor<{k}x{n}xf32>
  %10 = ng.broadcast %s dims [1] : (tensor<{n}xf32>) -> tensor<{k}x{n}xf32>
  %11 = ng.multiply %9, %10 : tensor<{k}x{n}xf32>
  %12 = ng.dot %5, %11 contract [1] x [0] : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> {whole}
  %13 = ng.broadcast %bias dims [1] : (tensor<{n}xf32>) -> {whole}
  %14 = ng.add %12, %13 : {whole}
  %15 = ng.constant dense<0.5> : {whole}
  %16 = ng.divide %14, %15 : {whole}
  %17 = ng.round %16 : {whole}
  %18 = ng.constant dense<{low - zeros[2]}.0> : {whole}
  %19 = ng.maximum %17, %18 : {whole}
  %20 = ng.constant dense<{high - zeros[2]}.0> : {whole}
  %21 = ng.minimum %19, %20 : {whole}
  %22 = ng.cast %21 : ({whole}) -> tensor<{m}x{n}xi32>
  %23 = ng.constant dense<{zeros[2]}> : tensor<{m}x{n}xi32>
  %24 = ng.add %22, %23 : tensor<{m}x{n}xi32>
  %25 = ng.cast %24 : (tensor<{m}x{n}xi32>) -> tensor<{m}x{n}x{y}>
  return %25 : tensor<{m}x{n}x{y}>
}}
"""


@pytest.mark.parametrize("x,w,y", [*itertools.product(BYTES, BYTES, BYTES)])
@pytest.mark.parametrize("m,k,n", [(1, 5, 3), (13, 64, 48), (30, 131, 70)])
def test_chains_are_within_one_step(x: str, w: str, y: str, m: int, k: int, n: int) -> None:
    zeros = (3, -5 if w == "i8" else 120, 7)
    a, b = draw(x, (m, k), 3), draw(w, (k, n), 4)
    s, bias = (np.random.default_rng(i).uniform(0.001, 0.01, n).astype(np.float32) for i in (5, 6))
    texts = [from_text(chain(m, k, n, x, w, y, zeros, allowed)) for allowed in (True, False)]
    integer, plain = (compile_module(each)(a, b, s, bias)[0] for each in texts)
    (meant,) = run(texts[0], a, b, s, bias)
    # In f64 of the same numbers: what the integers give is as near as three roundings, and steps differ where they tie.
    exact = (a.astype(np.float64) - zeros[0]) @ (b.astype(np.float64) - zeros[1]) * (
        np.float64(np.float32(0.03)) * s
    ) + bias
    steps = np.clip(np.rint(exact / 0.5) + zeros[2], np.iinfo(DTYPES[y]).min, np.iinfo(DTYPES[y]).max)
    for got in (integer, plain, meant):
        assert np.abs(got.astype(int) - steps).max() <= 1
    near = np.abs(exact / 0.5 - np.floor(exact / 0.5) - 0.5) > 1e-4
    np.testing.assert_array_equal(integer[near], steps[near])


def test_sums_that_could_leave_i32_stay_floats() -> None:
    k = 40000
    text = chain(2, k, 8, "ui8", "ui8", "ui8", (255, 255, 0), True)
    x, w = np.zeros((2, k), np.uint8), np.zeros((k, 8), np.uint8)
    ones = np.full(8, 1e-7, np.float32)
    (got,) = compile_module(from_text(text))(x, w, ones, ones)
    wanted = np.rint(255.0 * 255.0 * k * 0.03 * 1e-7 / 0.5)
    assert np.abs(got.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("depths", [(6, 1), (1, 6), (3, 2), (1, 1)])
def test_terms_with_dimensions_of_length_1(depths: tuple[int, int]) -> None:
    """Scales and zero points of each channel, whose lengths of 1 lie along the sum."""
    m, n, (a, b) = 4, 5, depths
    kept = [d for d, length in enumerate(depths, 1) if length == 1]
    shape, dims = "x".join(map(str, [n, *[1] * len(kept)])), [0, *kept]
    left, right = f"tensor<{m}x{a}x{b}x", f"tensor<{n}x{a}x{b}x"
    text = f"""
func.func @main(%x: {left}ui8>, %w: {right}i8>, %z: tensor<{shape}xi32>, %s: tensor<{shape}xf32>) -> tensor<{m}x{n}xf32> attributes {{ng.reassoc}} {{
  %0 = ng.cast %x : ({left}ui8>) -> {left}f32>
  %1 = ng.cast %w : ({right}i8>) -> {right}i32>
  %2 = ng.broadcast %z dims {dims} : (tensor<{shape}xi32>) -> {right}i32>
  %3 = ng.subtract %1, %2 : {right}i32>
  %4 = ng.cast %3 : ({right}i32>) -> {right}f32>
  %5 = ng.broadcast %s dims {dims} : (tensor<{shape}xf32>) -> {right}f32>
  %6 = ng.multiply %4, %5 : {right}f32>
  %7 = ng.dot %0, %6 contract [1, 2] x [1, 2] : ({left}f32>, {right}f32>) -> tensor<{m}x{n}xf32>
  return %7 : tensor<{m}x{n}xf32>
}}
"""
    x, w = draw("ui8", (m, a, b), 1), draw("i8", (n, a, b), 2)
    zero, scale = np.arange(n, dtype=np.int32) - 2, np.arange(1, n + 1, dtype=np.float32) / 8
    given = (x, w, zero.reshape([n, *[1] * len(kept)]), scale.reshape([n, *[1] * len(kept)]))
    module = from_text(text)
    wanted = np.einsum("mab,nab->mn", x.astype(int), w.astype(int) - zero[:, None, None]) * scale
    np.testing.assert_allclose(run(module, *given)[0], wanted, rtol=1e-5)
    (got,) = compile_module(module)(*given)
    np.testing.assert_array_equal(got, wanted.astype(np.float32))


def test_products_of_bytes_side_by_side() -> None:
    """The one is added to the other, and both are one kernel: as where a residual block begins."""
    m, k, n = 3136, 64, 256
    t = f"tensor<{m}x{n}xi32>"
    sides = f"(tensor<{m}x{k}xui8>, tensor<{k}x{n}xi8>) -> {t}"
    text = f"""
func.func @main(%x: tensor<{m}x{k}xui8>, %w: tensor<{k}x{n}xi8>, %y: tensor<{m}x{k}xui8>, %v: tensor<{k}x{n}xi8>) -> {t} {{
  %a = ng.dot %x, %w contract [1] x [0] : {sides}
  %b = ng.dot %y, %v contract [1] x [0] : {sides}
  %c = ng.add %a, %b : {t}
  return %c : {t}
}}
"""
    x, w, y, v = (
        draw(kind, shape, i)
        for i, (kind, shape) in enumerate([("ui8", (m, k)), ("i8", (k, n)), ("ui8", (m, k)), ("i8", (k, n))])
    )
    (got,) = compile_module(from_text(text))(x, w, y, v)
    wide = [a.astype(np.float64) for a in (x, w, y, v)]  # these sums are exact in f64
    np.testing.assert_array_equal(got, wide[0] @ wide[1] + wide[2] @ wide[3])
