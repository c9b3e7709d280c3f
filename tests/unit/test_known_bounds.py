# SPDX-License-Identifier: Apache-2.0
"""Maxima and minima with a known number, and casts of what they hold to a range: zeros of both signs, NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

SPECIAL = [
    0.0,
    -0.0,
    np.nan,
    -np.nan,
    np.inf,
    -np.inf,
    1.5,
    -1.5,
    2.5,
    1e-40,
    -1e-40,
    3e9,
    -3e9,
    126.5,
    -128.5,
]
X = np.array(SPECIAL * 5, np.float32)


def same(text: str, x: np.ndarray) -> None:
    module = from_text(text)
    got, wanted = compile_module(module)(x)[0], run(module, x)[0]
    np.testing.assert_array_equal(got, wanted)
    if got.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("bound", ["0.0", "-0.0", "1.5", "-7.25", "0x7F800000", "0x7FC00000"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("operands", ["%x, %c", "%c, %x"])
def test_known_operands(op: str, bound: str, kind: str, operands: str) -> None:
    if kind == "f64" and bound.startswith("0x"):
        bound = {"0x7F800000": "0x7FF0000000000000", "0x7FC00000": "0x7FF8000000000000"}[bound]
    type = f"tensor<{X.size}x{kind}>"
    text = f"""
func.func @main(%x: {type}) -> {type} {{
  %c = ng.constant dense<{bound}> : {type}
  %r = ng.{op} {operands} : {type}
  return %r : {type}
}}
"""
    same(text, X.astype(np.float32 if kind == "f32" else np.float64))


@pytest.mark.parametrize(
    "low,high",
    [("-128.0", "127.0"), ("0.0", "255.0"), ("-0.0", "0.0"), ("-4000000000.0", "5.0"), ("5.0", "-5.0")],
)
@pytest.mark.parametrize("first", ["maximum", "minimum"])
def test_casts_of_what_is_held_to_a_range(low: str, high: str, first: str) -> None:
    type, second = f"tensor<{X.size}xf32>", "minimum" if first == "maximum" else "maximum"
    ends = {"maximum": low, "minimum": high}
    text = f"""
func.func @main(%x: {type}) -> tensor<{X.size}xi32> {{
  %a = ng.constant dense<{ends[first]}> : {type}
  %b = ng.constant dense<{ends[second]}> : {type}
  %0 = ng.{first} %x, %a : {type}
  %1 = ng.{second} %0, %b : {type}
  %r = ng.cast %1 : ({type}) -> tensor<{X.size}xi32>
  return %r : tensor<{X.size}xi32>
}}
"""
    same(text, X)
