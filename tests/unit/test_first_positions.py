# SPDX-License-Identifier: Apache-2.0
"""The first few positions of an order: as the first of all of them, whatever is equal, and for every number of them."""

from __future__ import annotations

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_module
from ngmlir.ir.literals import dtype_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "ui8", "i64", "ui32"])
@pytest.mark.parametrize("descending", ["true", "false"])
def test_as_the_first_of_all(element: str, descending: str, target: str) -> None:
    rng = np.random.default_rng(3)
    for shape, axis, count in (
        ((2, 37), 1, 3),
        ((9, 4), 0, 1),
        ((3, 16), 1, 16),
        ((1, 33), 1, 0),
        ((130,), 0, 9),
    ):
        kept = [count if d == axis else n for d, n in enumerate(shape)]
        source, result = ("x".join(map(str, s)) for s in (shape, kept))
        module = from_text(
            f"""func.func @main(%x: tensor<{source}x{element}>) -> tensor<{result}xi32> {{
              %r = ng.argsort %x axis {axis} {{descending = {descending}}} : (tensor<{source}x{element}>) -> tensor<{result}xi32>
              return %r : tensor<{result}xi32>
            }}"""
        )
        dtype = dtype_of(module.ops[0].block.args[0].type)
        x = rng.integers(0, 7, shape).astype(dtype)
        if dtype.kind == "f":
            x[rng.random(shape) < 0.2] = np.nan
            x[rng.random(shape) < 0.1] = -0.0
        flipped = x if dtype.kind == "f" else x.astype(np.float64)
        flipped = np.where(np.isnan(flipped), -np.inf, -flipped) if descending == "true" else flipped
        expected = np.argsort(flipped, axis, kind="stable").take(np.arange(count), axis)
        np.testing.assert_array_equal(run(module, x)[0], expected)
        np.testing.assert_array_equal(compile_module(module, target)(x)[0], expected)


def test_the_greatest_of_a_graph() -> None:
    n, c = ng.make_axis(5, name="N"), ng.make_axis(70, name="C")
    x = ng.placeholder([n, c])
    values, places = ng.top_k(x, 6, c)
    assert values.axes.lengths == (5, 6) and values.axes.names == ("N", "C")
    array = np.random.default_rng(0).standard_normal((5, 70), np.float32)
    found, at = ng.compile([values, places], [x])(array)
    np.testing.assert_array_equal(at, np.argsort(-array, 1)[:, :6])
    np.testing.assert_array_equal(found, np.take_along_axis(array, at, 1))
    slope = ng.deriv(ng.sum(values, out_axes=()), x)
    assert ng.compile(slope, [x])(array).sum() == 30


def test_no_more_than_there_are() -> None:
    with pytest.raises(ng.UserError, match="the first 5 of 4 positions"):
        from_text(
            """func.func @main(%x: tensor<4xf32>) -> tensor<5xi32> {
              %r = ng.argsort %x axis 0 : (tensor<4xf32>) -> tensor<5xi32>
              return %r : tensor<5xi32>
            }"""
        )
