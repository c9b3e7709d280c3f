# SPDX-License-Identifier: Apache-2.0
"""Products of integers by dot instructions: the same bits as NumPy's sums in 32 bits, on every machine that this one can be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ngmlir.compiler import compile_artifact, lower, resolve
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text
from ngmlir.runtime.buffers import DTYPES
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.support.diagnostics import UserError
from ngmlir.support.target import Target

#: Odd depths, primes, one of each, and sizes that fill tiles.
SIZES = [
    (1, 1, 1),
    (1, 64, 48),
    (5, 3, 7),
    (13, 64, 48),
    (17, 101, 33),
    (64, 256, 96),
    (97, 130, 65),
    (3, 1031, 40),
]
KINDS = [("ui8", "i8"), ("i8", "ui8"), ("i8", "i8"), ("ui8", "ui8"), ("i16", "i8"), ("ui8", "i16")]
MACHINES = ("", "cooperlake", "cascadelake", "x86-64-v4", "x86-64-v3", "x86-64-v2")


@cache
def machine(name: str) -> Target:
    if not name:
        return resolve("cpu")
    try:
        return cpu_target(name)
    except UserError as error:
        pytest.skip(str(error))


def product(m: int, k: int, n: int, storage: str, left: str, right: str) -> str:
    a = f"tensor<{f'{m}x{k}' if storage[0] == 'N' else f'{k}x{m}'}x{left}>"
    b = f"tensor<{f'{k}x{n}' if storage[1] == 'N' else f'{n}x{k}'}x{right}>"
    r = f"tensor<{m}x{n}xi32>"
    places = f"contract [{int(storage[0] == 'N')}] x [{int(storage[1] == 'T')}]"
    return (
        f"func.func @main(%a: {a}, %b: {b}) -> {r} {{\n"
        f"  %p = ng.dot %a, %b {places} : ({a}, {b}) -> {r}\n  return %p : {r}\n}}\n"
    )


def check(text: str, storage: str, a: np.ndarray, b: np.ndarray, target: Target) -> None:
    artifact = compile_artifact(from_text(text), target)
    assert isinstance(artifact, Artifact)
    (got,) = load(artifact)(a, b)
    x, y = (v.astype(np.int64) for v in (a, b))
    wanted = (x.T if storage[0] == "T" else x) @ (y.T if storage[1] == "T" else y)
    np.testing.assert_array_equal(got, wanted.astype(np.int32))


def values(kind: str, shape: tuple[int, int], seed: int, extreme: bool) -> np.ndarray:
    ends, draw = np.iinfo(DTYPES[kind]), np.random.default_rng(seed)
    if extreme:
        return np.where(draw.random(shape) < 0.9, ends.max if ends.min == 0 else ends.min, ends.max).astype(
            DTYPES[kind]
        )
    return draw.integers(ends.min, ends.max, shape, DTYPES[kind], endpoint=True)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("left,right", KINDS)
@pytest.mark.parametrize("storage", ["NN", "NT", "TN"])
def test_products_are_exact(name: str, left: str, right: str, storage: str) -> None:
    for seed, (m, k, n) in enumerate(SIZES):
        text = product(m, k, n, storage, left, right)
        shapes = (m, k) if storage[0] == "N" else (k, m), (k, n) if storage[1] == "N" else (n, k)
        a, b = (values(e, s, seed, bool(seed % 2)) for e, s in zip((left, right), shapes, strict=True))
        check(text, storage, a, b, machine(name))


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_saturates(name: str) -> None:
    """255 x -128 in every place of a long sum; neighbours of it overflow 16 bits."""
    a, b = np.full((4, 8193), 255, np.uint8), np.full((8193, 48), -128, np.int8)
    check(product(4, 8193, 48, "NN", "ui8", "i8"), "NN", a, b, machine(name))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("left,right", [("ui8", "i8"), ("i8", "i8")])
def test_all_pairs_of_values(name: str, left: str, right: str) -> None:
    """Every value by every value, four times each."""
    a, b = (
        np.arange(np.iinfo(DTYPES[e]).min, np.iinfo(DTYPES[e]).max + 1).astype(DTYPES[e])
        for e in (left, right)
    )
    x, y = np.repeat(a[:, None], 4, 1), np.repeat(b[None, :], 4, 0)
    check(product(256, 4, 256, "NN", left, right), "NN", x, y, machine(name))


def convolution(c: int, k: int, side: int, window: int, step: int, left: str, right: str) -> str:
    """[1, side, side, c] by [window, window, c, k], one border of the value 3."""
    out = (side + 2 - window) // step + 1
    x, w = f"tensor<1x{side}x{side}x{c}x{left}>", f"tensor<{window * window * c}x{k}x{right}>"
    padded, cut = f"1x{side + 2}x{side + 2}x{c}", f"{window}x{window}x1x{out}x{out}x{c}"
    turned, flat = f"1x{out}x{out}x{window}x{window}x{c}", f"{out * out}x{window * window * c}"
    return f"""
func.func @main(%x: {x}, %w: {w}) -> tensor<{out * out}x{k}xi32> {{
  %0 = ng.pad %x low [0, 1, 1, 0] high [0, 1, 1, 0] {{value = 3 : {left}}} : ({x}) -> tensor<{padded}x{left}>
  %1 = ng.windows %0 axes [1, 2] steps [{step}, {step}] dilations [1, 1] : (tensor<{padded}x{left}>) -> tensor<{cut}x{left}>
  %2 = ng.transpose %1 perm [2, 3, 4, 0, 1, 5] : (tensor<{cut}x{left}>) -> tensor<{turned}x{left}>
  %3 = ng.reshape %2 : (tensor<{turned}x{left}>) -> tensor<{flat}x{left}>
  %4 = ng.dot %3, %w contract [1] x [0] : (tensor<{flat}x{left}>, {w}) -> tensor<{out * out}x{k}xi32>
  return %4 : tensor<{out * out}x{k}xi32>
}}
"""


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("left,right", [("ui8", "i8"), ("i8", "i8"), ("i16", "i8")])
@pytest.mark.parametrize(
    "c,k,side,window,step",
    [(3, 16, 11, 3, 1), (16, 40, 9, 3, 2), (7, 5, 8, 5, 1), (64, 33, 14, 3, 1), (520, 64, 5, 3, 1)],
)
def test_windows_are_packed_in_words(
    name: str, left: str, right: str, c: int, k: int, side: int, window: int, step: int
) -> None:
    x, w = values(left, (side * side, c), 1, False), values(right, (window * window * c, k), 2, False)
    artifact = compile_artifact(from_text(convolution(c, k, side, window, step, left, right)), machine(name))
    assert isinstance(artifact, Artifact)
    x = x.reshape(1, side, side, c)
    (got,) = load(artifact)(x, w)
    padded = np.pad(x.astype(np.int64), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=3)[0]
    cut = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (0, 1))[::step, ::step]
    flat = cut.transpose(0, 1, 3, 4, 2).reshape(got.shape[0], -1)
    np.testing.assert_array_equal(got, (flat @ w.astype(np.int64)).astype(np.int32))


@pytest.mark.parametrize("channels", [16, 64, 65, 520])
def test_windows_of_any_number_of_channels_are_words(channels: int) -> None:
    of = from_text(convolution(channels, 64, 9, 3, 1, "ui8", "i8"))
    assert "ui8_i8" in to_text(lower(of, machine("cascadelake")))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("result", ["f32", "bf16"])
@pytest.mark.parametrize("storage", ["NN", "NT", "TN"])
def test_products_of_bf16(name: str, result: str, storage: str) -> None:
    """Within the rounding of sums in f32, in any order, of the exact products."""
    draw = np.random.default_rng(0)
    for m, k, n in SIZES:
        text = product(m, k, n, storage, "bf16", "bf16").replace("i32", result)
        left, right = (m, k) if storage[0] == "N" else (k, m), (k, n) if storage[1] == "N" else (n, k)
        a, b = (draw.standard_normal(shape).astype(DTYPES["bf16"]) for shape in (left, right))
        artifact = compile_artifact(from_text(text), machine(name))
        assert isinstance(artifact, Artifact)
        (got,) = load(artifact)(a, b)
        x, y = (v.astype(np.float64) for v in (a, b))
        x, y = x.T if storage[0] == "T" else x, y.T if storage[1] == "T" else y
        error = 2.0**-8 * np.abs(x @ y) * (result == "bf16") + k * 2.0**-24 * (np.abs(x) @ np.abs(y))
        assert (np.abs(got.astype(np.float64) - x @ y) <= error).all(), (m, k, n)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("k", [1, 63, 101])
def test_words_of_bf16_end_with_the_depth(name: str, k: int) -> None:
    """What memory held before beside the last element is not multiplied, even if it is no number."""
    scattered = [np.full((64, 64 + i), 0xFF, np.uint8) for i in range(256)]
    del scattered
    a, b = np.ones((49, k), DTYPES["bf16"]), np.ones((k, 96), DTYPES["bf16"])
    for _ in range(3):
        artifact = compile_artifact(
            from_text(product(49, k, 96, "NN", "bf16", "bf16").replace("i32", "f32")), machine(name)
        )
        assert isinstance(artifact, Artifact)
        program = load(artifact)
        program(np.full_like(a, np.nan), b)
        np.testing.assert_array_equal(program(a, b)[0], np.full((49, 96), k, np.float32))


@pytest.mark.parametrize("name", MACHINES)
def test_bf16_beyond_the_ordinary_numbers(name: str) -> None:
    """Infinities and NaN come through; denormal numbers count as they are, or as zero."""
    row = np.array([[np.inf, 1, np.nan, -np.inf, -0.0, 2.0**-130, 3e38, 1]], DTYPES["bf16"])
    a, b = np.tile(row.T, (16, 40))[:97, :40].copy(), np.ones((40, 64), DTYPES["bf16"])
    text = product(97, 40, 64, "NN", "bf16", "bf16").replace("i32", "f32")
    artifact = compile_artifact(from_text(text), machine(name))
    assert isinstance(artifact, Artifact)
    (got,) = load(artifact)(a, b)
    wanted = 40 * a[:, :1].astype(np.float32) * np.ones((1, 64), np.float32)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=2.0**-120)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("c, h, w, window, step", [(3, 9, 11, 3, 1), (17, 12, 30, 5, 2), (32, 14, 14, 3, 1)])
def test_windows_of_each_channel_by_itself(name: str, c: int, h: int, w: int, window: int, step: int) -> None:
    """Bytes are multiplied and added in 32 bits, the largest ones too."""
    rows, columns = ((size - window) // step + 1 for size in (h, w))
    x, f, y = (
        f"tensor<2x{c}x{h}x{w}xui8>",
        f"tensor<{c}x{window}x{window}xi8>",
        f"tensor<{c}x2x{rows}x{columns}xi32>",
    )
    n = f"tensor<{window}x{window}x2x{c}x{rows}x{columns}xui8>"
    text = f"""
    func.func @main(%x: {x}, %w: {f}) -> {y} {{
      %n = ng.windows %x axes [2, 3] steps [{step}, {step}] dilations [1, 1] : ({x}) -> {n}
      %y = ng.dot %n, %w contract [0, 1] x [1, 2] {{lhs_batch = array<i64: 3>, rhs_batch = array<i64: 0>}} : ({n}, {f}) -> {y}
      return %y : {y}
    }}"""
    draw = np.random.default_rng(c)
    a = draw.integers(0, 256, (2, c, h, w)).astype(np.uint8)
    b = draw.integers(-128, 128, (c, window, window)).astype(np.int8)
    a[0, 0], b[0] = 255, -128
    artifact = compile_artifact(from_text(text), machine(name))
    assert isinstance(artifact, Artifact)
    (got,) = load(artifact)(a, b)
    (want,) = run(from_text(text), a, b)
    np.testing.assert_array_equal(got, want)
