# SPDX-License-Identifier: Apache-2.0
"""Types, and constants that keep their bits."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from ngmlir.llvm.types import (
    bf16,
    bits_of,
    constant,
    element_of,
    f16,
    f32,
    f64,
    float_bits,
    from_bits,
    i1,
    i32,
    i64,
    is_float,
    lanes,
    lanes_of,
    mangled,
    vector,
    with_element,
)

FORMATS = {f16: (np.float16, np.uint16), bf16: (ml_dtypes.bfloat16, np.uint16), f32: (np.float32, np.uint32)}


def test_vectors_are_taken_apart():
    assert vector(16, f32) == "<16 x float>"
    assert vector(1, f32) == f32
    assert lanes_of("<16 x float>") == 16
    assert lanes_of(f32) == 1
    assert element_of("<4 x ptr addrspace(1)>") == "ptr addrspace(1)"
    assert with_element("<8 x double>", i1) == "<8 x i1>"
    assert with_element(f64, i1) == i1


@pytest.mark.parametrize(
    ("type", "name"),
    [
        (f32, "f32"),
        (bf16, "bf16"),
        ("<16 x float>", "v16f32"),
        ("ptr", "p0"),
        ("ptr addrspace(3)", "p3"),
        ("<8 x ptr>", "v8p0"),
        ("i64", "i64"),
        ("<4 x i1>", "v4i1"),
    ],
)
def test_mangling(type: str, name: str):
    assert mangled(type) == name


def test_facts():
    assert is_float("<2 x half>")
    assert not is_float("<2 x i16>")
    types = {i1: 1, i32: 32, f16: 16, bf16: 16, f32: 32, f64: 64, "ptr": 64, "<9 x i8>": 8}
    assert {type: bits_of(type) for type in types} == types


@pytest.mark.parametrize("type", FORMATS)
def test_rounding_to_a_small_format_equals_numpy(type: str):
    number, unsigned = FORMATS[type]
    generator = np.random.default_rng(0)
    every = np.arange(1 << 16, dtype=np.uint16).view(number if type != f32 else np.float16)
    with np.errstate(all="ignore"):
        finite = np.sort(every[np.isfinite(every)].astype(np.float64))
        halfway = (finite[1:] + finite[:-1]) / 2  # ties, and both sides of each
        ties = halfway[::61]
        samples = np.concatenate([
            finite[::17], ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf),
            generator.normal(size=500) * 10.0 ** generator.integers(-46, 40, 500),
            [0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, math.inf, -math.inf],
            [65519.99, 65520.0, 3.4028235e38, 3.4028236e38],
        ])  # fmt: skip
        # numpy rounds to bfloat16 by way of float32, that is twice; only what is exact there compares.
        if type == bf16:
            samples = samples.astype(np.float32).astype(np.float64)
        expected = samples.astype(number).view(unsigned)
    assert [float_bits(type, float(s)) for s in samples] == expected.tolist()


def test_bfloat_is_rounded_once():
    # Just above a tie: by way of float32 it would become the tie and round down to 1.0.
    assert float_bits(bf16, 1.00390625 + 1e-12) == 0x3F81
    assert float_bits(bf16, 1.00390625) == 0x3F80


def test_doubles_keep_their_bits():
    for value in (0.1, -0.0, 5e-324, 1.7976931348623157e308, -math.inf):
        assert float_bits(f64, value) == struct.unpack("<Q", struct.pack("<d", value))[0]


def test_nan_is_quiet_and_keeps_its_sign():
    assert float_bits(f32, math.nan) == 0x7FC00000
    assert float_bits(f16, math.copysign(math.nan, -1.0)) == 0xFE00


def test_zeros_differ():
    assert constant(f32, 0.0) != constant(f32, -0.0)
    assert constant(f32, -0.0).name == "0x8000000000000000"
    assert constant(f64, 0).name == "0x0000000000000000"


def test_spelling():
    assert str(constant(f16, 1.0)) == "half 0xH3C00"
    assert str(constant(bf16, 1.0)) == "bfloat 0xR3F80"
    assert str(constant(f32, 0.1)) == "float 0x3FB99999A0000000"
    assert str(constant("<4 x i32>", -3)) == "<4 x i32> splat (i32 -3)"
    assert str(constant(i1, True)) == "i1 true"
    assert str(lanes(i64, [1, 2])) == "<2 x i64> <i64 1, i64 2>"


def test_nan_payloads_survive_the_detour_through_double():
    assert from_bits(f32, 0x7F800001).name == "0x7FF0000020000000"
    assert from_bits(f32, 0xFFC12345).name == "0xFFF82468A0000000"
