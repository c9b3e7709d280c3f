# SPDX-License-Identifier: Apache-2.0
"""Convolutions with few filters, whose positions become the columns of the product on CPUs: right for all that they may be."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i32": np.int32}


def tensor(*shape: object) -> str:
    return f"tensor<{'x'.join(map(str, shape))}>"


def convolution(count: object, outputs: int, step: int, dilation: int, element: str) -> str:
    """Five channels of 9 x 11 elements, three by two taps, a border on the first axis."""
    high, wide = (11 - 2 * dilation - 1) // step + 1, (11 - dilation - 1) // step + 1
    x, p = tensor(count, 5, 9, 11, element), tensor(count, 5, 11, 11, element)
    w, n = tensor(outputs, 5, 3, 2, element), tensor(3, 2, count, 5, high, wide, element)
    d, r = tensor(count, high, wide, outputs, element), tensor(count, outputs, high, wide, element)
    return f"""func.func @main(%x: {x}, %w: {w}) -> {r} {{
  %p = ng.pad %x low [0, 0, 1, 0] high [0, 0, 1, 0] : ({x}) -> {p}
  %n = ng.windows %p axes [2, 3] steps [{step}, {step}] dilations [{dilation}, {dilation}] : ({p}) -> {n}
  %d = ng.dot %n, %w contract [0, 1, 3] x [2, 3, 1] : ({n}, {w}) -> {d}
  %t = ng.transpose %d perm [0, 3, 1, 2] : ({d}) -> {r}
  %r = ng.absolute %t : {r}
  return %r : {r}
}}"""


def drawn(shape: tuple[int, ...], element: str) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-5, 6, shape).astype(DTYPES[element])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("outputs", [1, 3, 16, 33])
@pytest.mark.parametrize(("step", "dilation"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("element", DTYPES)
def test_few_filters(count: int, outputs: int, step: int, dilation: int, element: str) -> None:
    x, w = drawn((count, 5, 9, 11), element), drawn((outputs, 5, 3, 2), element)
    module = from_text(convolution(count, outputs, step, dilation, element))
    (found,), (wanted,) = compile_module(module, target="cpu")(x, w), run(module, x, w)
    np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(wanted, np.float64))


@pytest.mark.parametrize("outputs", [1, 3])
def test_of_as_many_images_as_calls_give(outputs: int) -> None:
    w = drawn((outputs, 5, 3, 2), "f32")
    compiled = compile_module(from_text(convolution("?", outputs, 1, 1, "f32")), target="cpu")
    for count in (1, 2, 7):
        x = drawn((count, 5, 9, 11), "f32")
        (wanted,) = run(from_text(convolution(count, outputs, 1, 1, "f32")), x, w)
        np.testing.assert_array_equal(np.asarray(compiled(x, w)[0]), np.asarray(wanted))


@pytest.mark.parametrize("count", ["", "2x"])
@pytest.mark.parametrize("wide", [19, 37, 53, 67])
@pytest.mark.parametrize("part", [16, 48, 160])
@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_parts_that_cut_runs_of_windows(count: str, wide: int, part: int, element: str) -> None:
    """With a border on both sides, and with none."""
    images = (2,) if count else ()
    x, p = f"tensor<{count}5x7x{wide}x{element}>", f"tensor<{count}5x9x{wide + 2}x{element}>"
    w, n = tensor(3, 3, 3, 5, element), f"tensor<3x3x{count}5x7x{wide}x{element}>"
    r, first = f"tensor<3x{count}7x{wide}x{element}>", len(images)
    text = f"""func.func @main(%x: {x}, %w: {w}) -> {r} {{
  %p = ng.pad %x low {[0] * first + [0, 1, 1]} high {[0] * first + [0, 1, 1]} : ({x}) -> {p}
  %n = ng.windows %p axes [{first + 1}, {first + 2}] steps [1, 1] dilations [1, 1] : ({p}) -> {n}
  %r = ng.dot %w, %n contract [1, 2, 3] x [0, 1, {first + 2}] {{ng.schedule = {{tile = [3, 16], part = {part}}}}} : ({w}, {n}) -> {r}
  return %r : {r}
}}"""
    arrays = drawn((*images, 5, 7, wide), element), drawn((3, 3, 3, 5), element)
    module = from_text(text)
    (found,), (wanted,) = compile_module(module, target="cpu")(*arrays), run(module, *arrays)
    np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(wanted, np.float64))
