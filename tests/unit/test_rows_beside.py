# SPDX-License-Identifier: Apache-2.0
"""Short rows of which a CPU reduces several at once: the same bits as one by one, whatever rows hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
SHAPES = [(4, 1), (5, 3), (16, 8), (37, 16), (64, 31), (33, 64), (3, 13, 7), (2, 1, 9, 33), (1, 128), (9, 2)]


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join(map(str, [*shape, element]))}>"


def drawn(shape: tuple[int, ...], element: str) -> np.ndarray:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(DTYPES[element])
    if not element.startswith("i"):
        flat = x.reshape(-1, shape[-1])
        flat[len(flat) // 2, shape[-1] // 2], flat[0, -1] = np.nan, np.inf
        flat[-1] = -0.0
        flat[-1, : shape[-1] // 2] = 0.0
        flat[-2:-1] = -0.0
    return x


def results(text: str, x: np.ndarray, target: str) -> tuple[np.ndarray, np.ndarray]:
    module = from_text(text)
    (found,), (wanted,) = compile_module(module, target=target)(x), run(module, x)
    return np.asarray(found), np.asarray(wanted)


def reduced(shape: tuple[int, ...], element: str, name: str, schedule: str = "") -> str:
    axis = len(shape) - 1
    x, y = tensor(shape, element), tensor(shape[:-1], "i64" if name.startswith("arg") else element)
    given = f" {{ng.schedule = {{{schedule}}}}}" if schedule else ""
    return f"func.func @main(%a: {x}) -> {y} {{\n %r = ng.{name} %a axes [{axis}]{given} : ({x}) -> {y}\n func.return %r : {y}\n}}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("name", ["sum", "max", "min", "argmax", "argmin"])
def test_reductions(shape: tuple[int, ...], element: str, name: str) -> None:
    x = drawn(shape, element)
    found, wanted = results(reduced(shape, element, name), x, "cpu")
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    if name in ("max", "min") and not element.startswith("i"):
        number = ~np.isnan(wanted.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number])


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", ["sum", "max", "min", "argmin"])
@pytest.mark.parametrize("unroll", [2, 8])
def test_the_same_bits_as_one_by_one(shape: tuple[int, ...], element: str, name: str, unroll: int) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(DTYPES[element])
    one, several = (
        compile_module(from_text(reduced(shape, element, name, f"unroll = {n}, rows = 8")), target="cpu")(x)[
            0
        ]
        for n in (1, unroll)
    )
    assert np.asarray(one).tobytes() == np.asarray(several).tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_is_computed_with_a_row(shape: tuple[int, ...], element: str, name: str) -> None:
    axis, x = len(shape) - 1, np.random.default_rng(0).standard_normal(shape).astype(DTYPES[element])
    kind = tensor(shape, element)
    body = f" %r = ng.softmax %a axes [{axis}] : {kind}\n"
    if name == "log_softmax":
        body = body.replace("%r", "%s") + f" %r = ng.log %s : {kind}\n"
    text = f"func.func @main(%a: {kind}) -> {kind} {{\n{body} func.return %r : {kind}\n}}"
    found, wanted = results(text, x, "cpu")
    tolerance = 1e-5 if element == "f32" else 3e-2
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), tolerance, tolerance)
