# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 bits and fewer, integers of 2 and 4: every code, and every number of 16 bits, on every target."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.narrow import NARROW
from ngmlir.ir.types import FloatType, IntegerType, Type
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import Limit, UserError

FLOATS = tuple(NARROW)
INTEGERS = ("i4", "ui4", "i2", "ui2")
TARGETS = ("numpy", "cpu")


def element(name: str) -> Type:
    return FloatType(name) if name in NARROW else IntegerType(int(name[-1]), name[:-2])


def bits(name: str) -> int:
    return int(name[1]) if name in NARROW else int(name[-1])


def program(source: str, target: str, count: int) -> str:
    return f"""func.func @main(%x: tensor<{count}x{source}>) -> tensor<{count}x{target}> {{
      %r = ng.cast %x : (tensor<{count}x{source}>) -> tensor<{count}x{target}>
      return %r : tensor<{count}x{target}>
    }}"""


def compiled(text: str, target: str) -> Any:
    """@main as a function of arrays."""
    module = from_text(text)
    return partial(run, module) if target == "numpy" else compile_module(module, target)


@cache
def runner(source: str, wanted: str, count: int, target: str) -> Any:
    return compiled(program(source, wanted, count), target)


def converted(array: Any, source: str, wanted: str, target: str) -> Any:
    (found,) = runner(source, wanted, array.size, target)(array)
    if wanted in (*FLOATS, *INTEGERS):
        assert found.dtype == dtype_of(element(wanted))
    return found


# ---- a second opinion, by the definitions of the formats: sign, exponent, fraction, and which codes are no numbers


def spoken(name: str, code: int) -> float:
    """What a code stands for."""
    if name == "f8E8M0FNU":
        return float("nan") if code == 255 else float(Fraction(2) ** (code - 127))
    exponent, fraction = (int(part) for part in name[3:].rstrip("FNUZ").split("M"))
    bias = (1 << (exponent - 1)) - 1 + name.endswith("UZ")
    negative, field = code >> (exponent + fraction), (code >> fraction) & ((1 << exponent) - 1)
    rest = code & ((1 << fraction) - 1)
    if name.endswith("UZ") and negative and not field and not rest:
        return float("nan")
    if name == "f8E5M2" and field == 31:
        return float("nan") if rest else float("-inf" if negative else "inf")
    if name == "f8E4M3FN" and field == 15 and rest == 7:
        return float("nan")
    whole = Fraction(rest, 1 << fraction) + (field > 0)
    size = float(whole * Fraction(2) ** (max(field, 1) - bias))
    return -size if negative else size


@cache
def scale(name: str) -> list[tuple[float, int]]:
    """The finite numbers that are not negative, each with its code, ascending, and one step more."""
    codes = range(1 << (bits(name) - (name != "f8E8M0FNU")))
    found = [(spoken(name, c), c) for c in codes if abs(spoken(name, c)) < np.inf]
    step = found[-1][0] - found[-2][0] if name != "f8E8M0FNU" else found[-1][0]
    return [*found, (found[-1][0] + step, found[-1][1] + 1)]


def nearest(name: str, value: float) -> float:
    """The nearest number, of two the one with the even code, found by comparing exact distances."""
    sizes = scale(name)
    powers = name == "f8E8M0FNU"
    if np.isnan(value) or (powers and (np.signbit(value) or value < sizes[0][0])):
        return 0.0 if name == "f4E2M1FN" else float("nan")
    size = abs(value)
    if size >= sizes[-1][0]:
        best = sizes[-1]
    else:
        low = max(p for p in sizes if p[0] <= size)
        high = min((p for p in sizes if p[0] > size), default=low)
        down, up = Fraction(size) - Fraction(low[0]), Fraction(high[0]) - Fraction(size)
        best = low if down < up else high if up < down else (high if powers or low[1] & 1 else low)
    if best is sizes[-1]:
        beyond = {"f8E5M2": float("inf"), "f4E2M1FN": sizes[-2][0]}.get(name, float("nan"))
        return float(np.copysign(beyond, value))
    made = float(np.copysign(best[0], value))
    return abs(made) if made == 0 and name.endswith("UZ") else made


def same(found: Any, expected: Any) -> None:
    """The same numbers, zeros of the same sign; one NaN is as good as another."""
    found, expected = np.asarray(found, np.float32), np.asarray(expected, np.float32)
    nothing = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), nothing)
    np.testing.assert_array_equal(found[~nothing].view(np.uint32), expected[~nothing].view(np.uint32))


def halves(name: str) -> Any:
    dtype = np.dtype(np.float16) if name == "f16" else np.dtype(ml_dtypes.bfloat16)
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


@cache
def rounded_halves(source: str, name: str) -> Any:
    """All numbers of 16 bits in a narrow type. They ascend with their codes, so few exact comparisons say all."""
    with np.errstate(all="ignore"):
        values = halves(source).astype(np.float32).astype(np.float64)
        size, sizes = np.abs(values), np.array([s for s, _ in scale(name)])
        # Between the same two numbers, on the same side of their middle, all are rounded alike.
        place = np.searchsorted(sizes, size, "right")
        low, high = sizes[np.maximum(place - 1, 0)], sizes[np.minimum(place, len(sizes) - 1)]
        keys = np.stack(
            [place, np.sign(2 * size - low - high), size == low, np.signbit(values), np.isnan(values)]
        )
    _, first, group = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    return np.array([nearest(name, float(values[at])) for at in first], np.float32)[group]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FLOATS)
def test_every_code_is_the_number_that_its_format_says(name: str, target: str) -> None:
    codes = np.arange(1 << bits(name), dtype=np.uint8)
    expected = np.array([spoken(name, int(c)) for c in codes], np.float32)
    numbers = codes.view(dtype_of(element(name)))
    same(converted(numbers, name, "f32", target), expected)
    # And back: what is a number is itself again.
    back = converted(expected, "f32", name, target)
    regular = ~np.isnan(expected)
    np.testing.assert_array_equal(back.view(np.uint8)[regular], codes[regular])
    assert np.isnan(back.astype(np.float32)[~regular]).all()


@pytest.mark.parametrize("name", FLOATS)
def test_what_ml_dtypes_says_of_every_code(name: str) -> None:
    codes = np.arange(1 << bits(name), dtype=np.uint8)
    same(codes.view(dtype_of(element(name))).astype(np.float32), [spoken(name, int(c)) for c in codes])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("name", FLOATS)
def test_all_numbers_of_16_bits_are_rounded_once(name: str, source: str, target: str) -> None:
    found = converted(halves(source), source, name, target)
    same(found.astype(np.float32), rounded_halves(source, name))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FLOATS)
def test_middles_and_their_neighbours(name: str, target: str) -> None:
    sizes = np.array([s for s, _ in scale(name)])
    middles = (sizes[1:] + sizes[:-1]) / 2
    for source, dtype in (("f32", np.float32), ("f64", np.float64)):
        at = middles.astype(dtype)
        numbers = np.concatenate([at, np.nextafter(at, dtype(np.inf)), np.nextafter(at, dtype(0))])
        special = np.array([0.0, np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny, 5e-324], dtype)
        numbers = np.concatenate([numbers, special])
        numbers = np.concatenate([numbers, -numbers])
        found = converted(numbers, source, name, target)
        same(found.astype(np.float32), [nearest(name, float(x)) for x in numbers])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_a_few_bits(name: str, target: str) -> None:
    width, signed = bits(name), not name.startswith("u")
    low = -(1 << (width - 1)) if signed else 0
    dtype = dtype_of(element(name))
    whole = np.arange(-300, 300, dtype=np.int32)
    wrapped = (whole - low) % (1 << width) + low
    np.testing.assert_array_equal(converted(whole, "i32", name, target).astype(np.int32), wrapped)
    reals = np.array([-np.inf, -9.5, -8.9, -1.5, -0.5, 0.5, 1.99, 7.9, 15.5, np.inf, np.nan], np.float32)
    held = np.where(np.isnan(reals), 0, np.clip(np.trunc(reals), low, low + (1 << width) - 1))
    np.testing.assert_array_equal(converted(reals, "f32", name, target).astype(np.float32), held)
    # Bits that an array has beyond those of its type say nothing.
    given = np.arange(256, dtype=np.uint8).view(dtype)
    expected = (np.arange(256) - low) % (1 << width) + low
    np.testing.assert_array_equal(converted(given, name, "i32", target), expected)
    np.testing.assert_array_equal(converted(given, name, "f64", target), expected)


@pytest.mark.parametrize("target", [*TARGETS, "cuda-sim"])
def test_what_moves_elements_takes_them(target: str) -> None:
    text = """func.func @main(%x: tensor<2x3xf8E4M3FN>, %i: tensor<4xi32>, %q: tensor<6xi4>)
            -> (tensor<4x3xf8E4M3FN>, tensor<3x2xi4>, tensor<8xf32>) {
          %a = ng.gather %x[%i] axis 0 : (tensor<2x3xf8E4M3FN>, tensor<4xi32>) -> tensor<4x3xf8E4M3FN>
          %b = ng.reshape %q : (tensor<6xi4>) -> tensor<2x3xi4>
          %c = ng.transpose %b perm [1, 0] : (tensor<2x3xi4>) -> tensor<3x2xi4>
          %d = ng.constant dense<[-2.5, 448.0]> : tensor<2xf8E4M3FN>
          %e = ng.reshape %x : (tensor<2x3xf8E4M3FN>) -> tensor<6xf8E4M3FN>
          %f = ng.concatenate %d, %e axis 0 : (tensor<2xf8E4M3FN>, tensor<6xf8E4M3FN>) -> tensor<8xf8E4M3FN>
          %g = ng.cast %f : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
          return %a, %c, %g : tensor<4x3xf8E4M3FN>, tensor<3x2xi4>, tensor<8xf32>
        }"""
    x = np.array([[1, -2, 0.5], [448, -0.0, np.nan]], np.float32).astype(ml_dtypes.float8_e4m3fn)
    indices, q = np.array([1, 0, 0, 1], np.int32), np.array([-8, 7, -1, 0, 3, -3]).astype(ml_dtypes.int4)
    a, c, g = compiled(text, target)(x, indices, q)
    assert a.dtype == x.dtype and c.dtype == q.dtype
    np.testing.assert_array_equal(a.view(np.uint8), x[indices].view(np.uint8))
    np.testing.assert_array_equal(c.astype(np.int32), q.astype(np.int32).reshape(2, 3).T)
    same(g, [-2.5, 448, *x.astype(np.float32).reshape(-1)])


@pytest.mark.parametrize("name", FLOATS)
def test_on_the_simulated_gpu(name: str) -> None:
    sizes = np.array([s for s, _ in scale(name)][-40:-1], np.float32)
    numbers = np.concatenate([sizes, (sizes[1:] + sizes[:-1]) / 2, [np.nan, np.inf, 0, 1e-30]]).astype(
        np.float32
    )
    numbers = np.concatenate([numbers, -numbers])
    found = converted(numbers, "f32", name, "cuda-sim")
    same(found.astype(np.float32), [nearest(name, float(x)) for x in numbers])
    same(converted(found, name, "f32", "cuda-sim"), found.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_in_control_and_padding(target: str) -> None:
    text = """func.func @main(%p: tensor<i1>, %x: tensor<3xf8E5M2>) -> (tensor<5xf8E5M2>, tensor<4xf8E8M0FNU>) {
          %r = ng.if %p -> tensor<5xf8E5M2> {
            %a = ng.pad %x low [1] high [1] {value = -3.0 : f8E5M2} : (tensor<3xf8E5M2>) -> tensor<5xf8E5M2>
            ng.yield %a : tensor<5xf8E5M2>
          } else {
            %b = ng.pad %x low [0] high [2] : (tensor<3xf8E5M2>) -> tensor<5xf8E5M2>
            ng.yield %b : tensor<5xf8E5M2>
          }
          %c = ng.constant dense<[1.0, 2.0]> : tensor<2xf8E8M0FNU>
          %d = ng.pad %c low [1] high [1] : (tensor<2xf8E8M0FNU>) -> tensor<4xf8E8M0FNU>
          return %r, %d : tensor<5xf8E5M2>, tensor<4xf8E8M0FNU>
        }"""
    call = compiled(text, target)
    x = np.array([1, np.inf, -0.0], np.float32).astype(ml_dtypes.float8_e5m2)
    first, powers = call(np.True_, x)
    same(first.astype(np.float32), [-3, 1, np.inf, -0.0, -3])
    same(call(np.False_, x)[0].astype(np.float32), [1, np.inf, -0.0, 0, 0])
    same(powers.astype(np.float32), [np.nan, 1, 2, np.nan])  # there is no zero


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_text_keeps_every_code(name: str) -> None:
    codes = np.arange(1 << bits(name), dtype=np.uint8)
    for part in np.split(codes, max(1, len(codes) // 64)):
        text = part.tobytes().hex().upper()
        written = (
            f'func.func @main() -> tensor<{len(part)}x{name}> {{\n  %c = ng.constant dense<"0x{text}"> : '
        )
        module = from_text(
            written + f"tensor<{len(part)}x{name}>\n  return %c : tensor<{len(part)}x{name}>\n}}"
        )
        assert str(from_text(str(module))) == str(module)
        (found,) = run(module)
        np.testing.assert_array_equal(found.view(np.uint8), part)


def test_arithmetic_goes_by_way_of_a_cast() -> None:
    with pytest.raises(UserError, match="f8E5M2 can only be stored and moved"):
        from_text(
            """func.func @main(%x: tensor<2xf8E5M2>) -> tensor<2xf8E5M2> {
              %r = ng.add %x, %x : tensor<2xf8E5M2>
              return %r : tensor<2xf8E5M2>
            }"""
        )
    with pytest.raises((UserError, Limit)):
        from_text(
            "func.func @main(%x: tensor<2xi4>) -> tensor<2xi8> {\n  %r = ng.bitcast %x : (tensor<2xi4>) -> tensor<2xi8>\n  return %r : tensor<2xi8>\n}"
        )


def test_graphs_have_them_too() -> None:
    c = ng.make_axis(5, name="C")
    x = ng.placeholder([c])
    stored = ng.cast(x, "f8E4M3FN")
    call = ng.compile([stored, ng.cast(stored, "f32") * 2], [x], target="cpu")
    given = np.array([0.1, -300, 1e9, 0.75, -0.0], np.float32)
    kept, twice = call(given)
    assert kept.dtype == ml_dtypes.float8_e4m3fn
    same(kept.astype(np.float32), [nearest("f8E4M3FN", float(v)) for v in given])
    same(twice, kept.astype(np.float32) * 2)
