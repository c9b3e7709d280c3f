# SPDX-License-Identifier: Apache-2.0
"""Maxima and minima with numbers that are not NaN: floats cast from integers, and constants."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_text import agree, planned

#: Numbers where the order of zeros, infinities and NaN matters.
VALUES = [np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-40, -1e-40, 0.5, -0.5, 1, -1, 254.5, 255, 3e9, -3e9, -np.nan]
SIZE = len(VALUES)

#: The least code and the greatest one, less a zero point %av.
CODES = """
%z = ng.cast %av : (ui8) -> i32
%n = ng.negative %z : i32
%c = ng.constant 255 : i32
%m = ng.subtract %c, %z : i32
%l = ng.cast %n : (i32) -> {0}
%u = ng.cast %m : (i32) -> {0}"""
#: Both bounds cast from integers as they are loaded.
LOADED = "%l = ng.cast %av : ({1}) -> {0}\n%u = ng.cast %bv : ({1}) -> {0}"
#: Sums that may wrap around.
WRAPPED = "%s = ng.add %av, %bv : {1}\n%l = ng.cast %s : ({1}) -> {0}\n%u = ng.cast %bv : ({1}) -> {0}"


def clamp(bounds: str, dtype: str, integer: str, result: str, *, is_lower_last: bool = False) -> str:
    """A program that limits x of `dtype` to %l and %u, which `bounds` compute of two integers, and casts it."""
    kind, made = f"vector<{SIZE}x{dtype}>", f"vector<{SIZE}x{result}>"
    lower, upper = ("%p", "%v") if is_lower_last else ("%v", "%p")
    steps = [f"%{{}} = ng.maximum {lower}, %lo : {kind}", f"%{{}} = ng.minimum %hi, {upper} : {kind}"]
    first, last = reversed(steps) if is_lower_last else steps
    body = f"""
      %v = tile.load %x[%c0] : memref<{SIZE}x{dtype}>, {kind}
      %av = tile.load %a[] : memref<{integer}>, {integer}
      %bv = tile.load %b[] : memref<{integer}>, {integer}
      {bounds.format(dtype, integer)}
      %lo = ng.broadcast %l dims [] : ({dtype}) -> {kind}
      %hi = ng.broadcast %u dims [] : ({dtype}) -> {kind}
      {first.format("p")}
      {last.format("q")}
      %r = ng.cast %q : ({kind}) -> {made}
      tile.store %r, %o[%c0] : {made}, memref<{SIZE}x{result}>"""
    inputs = {"x": f"memref<{SIZE}x{dtype}>", "a": f"memref<{integer}>", "b": f"memref<{integer}>"}
    return planned(inputs, {"o": f"memref<{SIZE}x{result}>"}, body)


@pytest.mark.parametrize("is_lower_last", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("result", ["", "i32"])
def test_bounds_of_codes(dtype: str, result: str, is_lower_last: bool) -> None:
    x = np.array(VALUES, "f4" if dtype == "f32" else "f8")
    text = clamp(CODES, dtype, "ui8", result or dtype, is_lower_last=is_lower_last)
    for zero in (0, 1, 128, 255):
        agree(text, x, np.array(zero, np.uint8), np.array(0, np.uint8))


@pytest.mark.parametrize("integer", ["ui8", "i8", "i16", "ui32", "i32", "i64"])
def test_bounds_of_loaded_integers(integer: str) -> None:
    dtype = np.dtype(integer.replace("i", "int"))
    ends = np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype)
    for bounds in (LOADED, WRAPPED):
        for low in ends:
            for high in ends:
                x = np.array(VALUES, "f4")
                agree(clamp(bounds, "f32", integer, "f32"), x, np.array(low), np.array(high))


def test_bounds_of_truth_values() -> None:
    for low in (False, True):
        for high in (False, True):
            agree(clamp(LOADED, "f32", "i1", "i32"), np.array(VALUES, "f4"), np.array(low), np.array(high))


@pytest.mark.parametrize("low", ["0.0", "-0.0", "-1.0", "0x7FC00000"])
@pytest.mark.parametrize("high", ["0.0", "-0.0", "6.0", "0x7FC00000"])
def test_constant_bounds(low: str, high: str) -> None:
    bounds = f"%l = ng.constant {low} : f32\n%u = ng.constant {high} : f32"
    none = np.array(0, np.int32)
    for is_lower_last in (False, True):
        agree(
            clamp(bounds, "f32", "i32", "f32", is_lower_last=is_lower_last),
            np.array(VALUES, "f4"),
            none,
            none,
        )
