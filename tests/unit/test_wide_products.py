# SPDX-License-Identifier: Apache-2.0
"""Products whose results have wider elements than their sides: those of the sides cast before, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_text import compiled, host_with_vectors, interpreted, planned

import ngmlir as ng
from ngmlir.compiler import compile_module, lower, resolve
from ngmlir.ops.interpreter import run
from ngmlir.ops.tile import DotOp
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES

KINDS = (
    ("i8", "i8", "i32"),
    ("ui8", "i8", "i32"),
    ("i8", "ui8", "i32"),
    ("ui8", "ui8", "ui32"),
    ("i16", "i16", "i32"),
    ("ui16", "i8", "i32"),
    ("i8", "i8", "i16"),
    ("ui8", "i16", "i64"),
    ("f32", "f32", "f64"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f64"),
)
#: Rows, columns, depth: of one element, a vector by a matrix, odd, of whole registers, deeper than a block, of one column.
SIZES = ((1, 1, 1), (1, 300, 201), (3, 5, 7), (17, 33, 65), (128, 64, 96), (70, 50, 1031), (33, 1, 64))


def program(lhs: str, rhs: str, result: str, size: tuple[int, int, int], storage: str) -> str:
    m, n, k = size
    a = f"tensor<{m}x{k}x{lhs}>" if storage[0] == "N" else f"tensor<{k}x{m}x{lhs}>"
    b = f"tensor<{k}x{n}x{rhs}>" if storage[1] == "N" else f"tensor<{n}x{k}x{rhs}>"
    places = f"[{int(storage[0] == 'N')}] x [{int(storage[1] == 'T')}]"
    r = f"tensor<{m}x{n}x{result}>"
    return f"func.func @main(%a: {a}, %b: {b}) -> {r} {{\n  %r = ng.dot %a, %b contract {places} : ({a}, {b}) -> {r}\n  return %r : {r}\n}}"


def numbers(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Of the whole range of an integer type, of few bits of a float type: sums are exact, or wrap around."""
    dtype, random = DTYPES[kind], np.random.default_rng(len(shape) + shape[0])
    if dtype.kind in "iu":
        return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
    return random.integers(-4, 5, shape).astype(dtype)


def check(
    kinds: tuple[str, str, str], size: tuple[int, int, int], storage: str, targets: tuple[str, ...]
) -> None:
    m, n, k = size
    a = numbers(kinds[0], (m, k) if storage[0] == "N" else (k, m))
    b = numbers(kinds[1], (k, n) if storage[1] == "N" else (n, k))
    wide = DTYPES[kinds[2]]
    x, y = (a.T if storage[0] == "T" else a), (b.T if storage[1] == "T" else b)
    expected = x.astype(wide) @ y.astype(wide)
    module = from_text(program(*kinds, size, storage))
    np.testing.assert_array_equal(run(module, a, b)[0], expected)
    for target in targets:
        np.testing.assert_array_equal(compile_module(module, target)(a, b)[0], expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kinds", KINDS)
def test_as_if_cast_before(kinds: tuple[str, str, str], size: tuple[int, int, int]) -> None:
    for storage in ("NN", "NT", "TN", "TT"):
        check(kinds, size, storage, ("cpu",))


@pytest.mark.parametrize("kinds", KINDS)
def test_on_gpus(kinds: tuple[str, str, str]) -> None:
    check(kinds, (17, 33, 65), "NN", ("cuda-sim",))
    check(kinds, (32, 32, 32), "NT", ("cuda-sim",))


def test_extremes_meet() -> None:
    """The least times the least, summed two by two, leaves 32 bits."""
    least = np.full((8, 64), -(1 << 15), np.int16)
    module = from_text(program("i16", "i16", "i32", (8, 8, 64), "NT"))
    np.testing.assert_array_equal(
        compile_module(module, "cpu")(least, least)[0], least.astype(np.int32) @ least.T.astype(np.int32)
    )


def test_casts_become_part_of_the_product() -> None:
    """What a person writes with casts, or with `dtype`, is the product that widens by itself."""
    x = ng.placeholder([ng.make_axis(40, name="N"), ng.make_axis(64, name="C")], dtype=np.uint8)
    w = ng.placeholder([ng.make_axis(64, name="C"), ng.make_axis(50, name="K")], dtype=np.int8)
    product = ng.dot(x, w, dtype=np.int32)
    a, b = numbers("ui8", (40, 64)), numbers("i8", (64, 50))
    for name in ("numpy", "cpu"):
        got = ng.transformers.make_transformer(name).computation(product, x, w)(a, b)
        np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("right", ["i32", "i16", "ui16"])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("columns", [1, 2, 5, 16, 24])
def test_tiles_of_pairs(columns: int, vector_bytes: int, right: str) -> None:
    """Each i32 holds two i16, the first in the low half, and each half word two bytes; sums wrap around."""
    body = f"""
      %a = tile.load %x[%c0, %c0] : memref<3x7xi32>, vector<3x7xi32>
      %b = tile.load %w[%c0, %c0] : memref<7x{columns}x{right}>, vector<7x{columns}x{right}>
      %c = tile.load %y[%c0, %c0] : memref<3x{columns}xi32>, vector<3x{columns}xi32>
      %d = tile.dot %a, %b, %c {{words = "i16_i16"}} : vector<3x{columns}xi32>
      tile.store %d, %o[%c0, %c0] : vector<3x{columns}xi32>, memref<3x{columns}xi32>"""
    inputs = {"x": "memref<3x7xi32>", "w": f"memref<7x{columns}x{right}>", "y": f"memref<3x{columns}xi32>"}
    text = planned(inputs, {"o": f"memref<3x{columns}xi32>"}, body)
    x, w, y = numbers("i32", (3, 7)), numbers(right, (7, columns)), numbers("i32", (3, columns))
    left = x.view(np.int16).astype(np.int32)
    pairs = w.view({"i32": np.int16, "i16": np.int8, "ui16": np.uint8}[right]).reshape(7, columns, 2)
    expected = y + left @ pairs.transpose(0, 2, 1).reshape(14, columns).astype(np.int32)
    np.testing.assert_array_equal(interpreted(text, [x, w, y])[0], expected)
    got = compiled(text, [x, w, y], host_with_vectors(vector_bytes))[0]
    np.testing.assert_array_equal(got, expected)


def test_what_is_multiplied_in_words() -> None:
    """Where a machine can, both sides are packed, and all values have room: in 16 bits, and on Arm in 8."""

    def dots(kinds: tuple[str, str, str], cpu: str) -> list[bool]:
        lowered = lower(from_text(program(*kinds, (64, 64, 64), "NN")), resolve(cpu))
        return [bool(op.words) for op in lowered.walk() if isinstance(op, DotOp)]

    for kinds in KINDS:
        wide = kinds[2] == "i32" and "ui16" not in kinds
        assert set(dots(kinds, "x86-64-v3")) == {wide}
        assert set(dots(kinds, "aarch64")) == {{*kinds[:2]} <= {"i8", "ui8"} and kinds[2] == "i32"}
