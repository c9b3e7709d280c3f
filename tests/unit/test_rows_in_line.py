# SPDX-License-Identifier: Apache-2.0
"""Rows that begin off a sector, which threads read and write as one line of memory: right for all that rows may hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_gpu_ideals import kernels, tensor

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32}
SHAPES = [
    (1, 37), (7, 37), (8, 37), (1771, 37), (64, 33), (65, 45), (129, 63), (30, 35), (5, 251), (3, 1001), (9, 127), (2, 2047),
]  # fmt: skip


def program(shape: tuple[int, int], element: str, body: str) -> str:
    x, y = tensor(shape, element), tensor(shape[:1], element)
    kept = x if "softmax" in body else y
    return (
        f"func.func @main(%a: {x}) -> {kept} {{\n %r = {body.format(x=x, y=y)}\n func.return %r : {kept}\n}}"
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions(shape: tuple[int, int], element: str, name: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(DTYPES[element])
    if not element.startswith("i"):
        x[shape[0] // 2, 5], x[0, -1], x[-1, 0] = np.nan, np.inf, -0.0
    module = from_text(program(shape, element, f"ng.{name} %a axes [1] : ({{x}}) -> {{y}}"))
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(x), run(module, x)
    np.testing.assert_array_equal(np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_softmax(shape: tuple[int, int], element: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(DTYPES[element])
    module = from_text(program(shape, element, "ng.softmax %a axes [1] : {x}"))
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(x), run(module, x)
    tolerance = 1e-6 if element == "f32" else 1e-2
    np.testing.assert_allclose(
        np.asarray(found, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("across", [0, 1])
def test_what_is_computed_with_a_row_or_a_column(shape: tuple[int, int], element: str, across: int) -> None:
    x, y = (
        np.random.default_rng(0).integers(-9, 9, s).astype(DTYPES[element]) for s in (shape, shape[across])
    )
    if not element.startswith("i"):
        x[shape[0] // 2, 5], x[0, -1], x[-1, 0] = np.nan, np.inf, -0.0
    of, line = tensor(shape, element), tensor(shape[across : across + 1], element)
    module = from_text(f"""func.func @main(%a: {of}, %b: {line}) -> {of} {{
 %0 = ng.broadcast %b dims [{across}] : ({line}) -> {of}
 %r = ng.maximum %a, %0 : {of}
 func.return %r : {of}
}}""")
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(x, y), run(module, x, y)
    np.testing.assert_array_equal(np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64))


@pytest.mark.parametrize("shape", [(1, 37), (5, 251), (3, 1001), (4, 4096), (2, 4099), (2, 513)])
@pytest.mark.parametrize("element", ["f32", "i8", "i64"])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_cumulative(shape: tuple[int, int], element: str, name: str) -> None:
    x = np.random.default_rng(0).integers(-3, 3, shape).astype({**DTYPES, "i64": np.int64}[element])
    of = tensor(shape, element)
    text = f"func.func @main(%a: {of}) -> {of} {{\n %r = ng.cumulative_{name} %a axis 1 : {of}\n func.return %r : {of}\n}}"
    module = from_text(text)
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(x), run(module, x)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("shape", [(1771, 37), (1000, 251), (500, 1001)])
def test_each_sector_is_asked_for_once(shape: tuple[int, int], element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[:1], element)
    for gives, body in (
        (y, f"%r = ng.sum %a axes [1] : ({x}) -> {y}"),
        (x, f"%r = ng.softmax %a axes [1] : {x}"),
    ):
        (found,) = kernels([x], gives, body)
        c = found.counters
        assert c.reads.ratio <= 1.1 and c.writes.ratio <= 1.1 and c.shared.ratio <= 1.1


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("columns", [37, 251, 1001])
def test_a_line_that_is_overwritten_is_read_by_itself(columns: int, element: str) -> None:
    """The softmax is written where what it is of lies: pieces that two rows have in common are not read as a whole."""
    a, w = tensor((9, 8), element), tensor((8, columns), element)
    x, y = tensor((9, columns), element), tensor((columns, 9), element)
    module = from_text(f"""func.func @main(%a: {a}, %w: {w}) -> {y} {{
 %0 = ng.dot %a, %w contract [1] x [0] : ({a}, {w}) -> {x}
 %1 = ng.softmax %0 axes [1] : {x}
 %2 = ng.transpose %1 perm [1, 0] : ({x}) -> {y}
 func.return %2 : {y}
}}""")
    random = np.random.default_rng(0)
    left, right = (random.standard_normal(s).astype(DTYPES[element]) for s in ((9, 8), (8, columns)))
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(left, right), run(module, left, right)
    tolerance = 1e-5 if element == "f32" else 2e-2
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), tolerance, tolerance)


@pytest.mark.parametrize(
    "shape",
    [(1, 1), (300, 1), (1, 300), (65, 3), (3, 65), (129, 33), (513, 5), (7, 1001), (1001, 7), (40, 2000)],
)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_positions(shape: tuple[int, int], element: str, axis: int) -> None:
    """Of ties the first, of NaN too; where there is nothing but the least value, the beginning."""
    of, to = tensor(shape, element), tensor((shape[1 - axis],), "i32")
    for seed, name in ((0, "argmax"), (1, "argmin")):
        x = np.random.default_rng(seed).integers(-3, 4, shape).astype(DTYPES[element])
        lowest = -128 if element == "i8" else -(1 << 31) if element == "i32" else -np.inf
        x[-1, :] = x[:, -1] = lowest
        if not element.startswith("i"):
            x[shape[0] // 2, shape[1] // 3 :] = np.nan
            x[0, 0] = np.inf
        module = from_text(
            f"func.func @main(%a: {of}) -> {to} {{\n %r = ng.{name} %a axes [{axis}] : ({of}) -> {to}\n func.return %r : {to}\n}}"
        )
        (found,), (wanted,) = compile_module(module, target="cuda-sim")(x), run(module, x)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
        np.testing.assert_array_equal(np.asarray(wanted), getattr(np, name)(x.astype(np.float64), axis=axis))
