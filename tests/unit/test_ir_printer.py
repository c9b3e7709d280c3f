# SPDX-License-Identifier: Apache-2.0
"""Module to text and back: every bit of every constant, every name."""

from __future__ import annotations

import random
import struct

import ml_dtypes
import numpy as np
import pytest
from examples import wrapped

from ngmlir.ir.attributes import Attribute, FloatAttr, IntegerAttr, StringAttr
from ngmlir.ir.core import Block, Module, Op, module
from ngmlir.ir.elements import ElementsAttr, elements
from ngmlir.ir.literals import dtype_of, float_bits, float_text, float_value
from ngmlir.ir.types import IntegerType, Type, bf16, f16, f32, f64, i1, i8, i16, i32, i64, index, ui8, ui64
from ngmlir.ops import func, ng
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.words import from_text, to_text


def constants(literals: list[Attribute]) -> Op:
    """A module of constants."""
    ops = [ng.ConstantOp((), [x.type], {"value": x}) for x in literals]  # type: ignore[attr-defined]
    return module(ops)


def read_back(literals: list[Attribute], *, generic: bool = False) -> list[Attribute]:
    found = from_text(to_text(constants(literals), generic=generic))
    return [op.attributes["value"] for op in found.ops]


@pytest.mark.parametrize("type", [f16, bf16], ids=str)
def test_every_half_keeps_its_bits(type: Type) -> None:
    # As lists of 64, which are spelled one by one; and some as numbers of their own.
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(type)).reshape(-1, 64)
    literals: list[Attribute] = [elements(row) for row in every]
    literals += [FloatAttr(bits, type) for bits in range(0, 1 << 16, 17)]
    for a, b in zip(literals, read_back(literals), strict=True):
        assert a == b, a


@pytest.mark.parametrize(("type", "width"), [(f32, 32), (f64, 64)], ids=str)
def test_floats_keep_their_bits(type: Type, width: int) -> None:
    rng = random.Random(3)
    top = {32: 0x7F800000, 64: 0x7FF0000000000000}[width]
    special = [0, 1, 2, top - 1, top, top + 1, top | 1 << (22 if width == 32 else 51), (1 << (width - 1)) - 1]
    special += [
        float_bits(x, type) for x in (1.0, 0.1, 1 / 3, 1e-5, 123456789.0, 1e22, 5e-324, 1.17549435e-38)
    ]
    patterns = (
        special + [p | 1 << (width - 1) for p in special] + [rng.getrandbits(width) for _ in range(5000)]
    )
    literals: list[Attribute] = [FloatAttr(bits, type) for bits in patterns]
    assert read_back(literals) == literals
    assert read_back(literals, generic=True) == literals


def test_floats_are_spelled_for_people() -> None:
    for value, text in (
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e10, "1.0e+10"),
        (1e-7, "1.0e-07"),
        (3.14159265, "3.1415927"),
    ):
        assert float_text(float_bits(value, f32), f32) == text
    assert float_text(float_bits(float("inf"), f32), f32) == "0x7F800000"
    assert float_text(float_bits(float("nan"), f16), f16) == "0x7E00"


def test_rounding_agrees_with_numpy() -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate(
        [
            rng.normal(size=3000) * 10.0 ** rng.integers(-45, 40, 3000),
            [0, -0.0, np.inf, -np.inf, 65519.99, 65520, 5.9e-8, 2.9e-8],
        ]
    )
    for type, dtype in ((f16, np.float16), (f32, np.float32), (f64, np.float64)):
        for x in numbers:
            with np.errstate(over="ignore"):
                wanted = np.array(x).astype(dtype)
            assert float_bits(float(x), type) == int(wanted.view(f"u{wanted.itemsize}"))
            assert float_value(float_bits(float(x), type), type) == float(wanted)
    for bits in rng.integers(0, 0x7F7F, 3000):
        low, high = (struct.unpack("<f", struct.pack("<I", int(b) << 16))[0] for b in (bits, bits + 1))
        middle = (low + high) / 2
        even = int(bits) + (int(bits) & 1)
        assert float_bits(middle, bf16) == even
        assert float_bits(np.nextafter(middle, 1e39), bf16) == bits + 1
        assert float_bits(np.nextafter(middle, 0), bf16) == bits
        assert float_bits(-middle, bf16) == even | 0x8000


def test_integers_keep_their_bits() -> None:
    literals: list[Attribute] = [IntegerAttr(v, i1) for v in (0, 1)]
    for type in (i8, i16, i32, i64, index, ui8, ui64, IntegerType(128), IntegerType(7)):
        width = getattr(type, "width", 64)
        unsigned = getattr(type, "unsigned", False)
        low = 0 if unsigned else -(1 << (width - 1))
        literals += [
            IntegerAttr(v, type)
            for v in (low, low + 1, 0, 1, 42 % (1 << (width - 1)), (1 << (width - 1)) - 1)
        ]
        literals += [IntegerAttr((1 << width) - 1, type)] if unsigned else []
    texts = [f"{{x.a{i} = {x.text}}}" for i, x in enumerate(literals)]
    for literal, text in zip(literals, texts, strict=True):
        found = from_text(f"func.func private @f() attributes {text}").ops[0]
        assert next(v for k, v in found.attributes.items() if k.startswith("x.")) is literal


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "bf16", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
)
def test_arrays_keep_their_bits(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)
    rng = np.random.default_rng(1)
    arrays = []
    for shape in ((), (0,), (1,), (3,), (2, 3), (2, 0, 3), (64,), (65,), (5, 40), (1, 1)):
        raw = rng.integers(0, 256, (*shape, kind.itemsize), dtype=np.uint8)
        arrays.append(
            (raw[..., 0] % 2).astype(bool)
            if dtype == "?"
            else np.ascontiguousarray(raw).view(kind).reshape(shape)
        )
        arrays.append(
            np.broadcast_to(arrays[-1].reshape(-1)[:1].reshape((1,) * len(shape)), shape)
            if arrays[-1].size
            else arrays[-1]
        )
    literals: list[Attribute] = [elements(np.ascontiguousarray(a).reshape(a.shape)) for a in arrays]
    for array, literal, other in zip(arrays, literals, read_back(literals), strict=True):
        assert literal == other
        assert isinstance(other, ElementsAttr)
        assert other.array().shape == array.shape
        assert other.array().tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "text",
    ["", "a b", 'quote " and \\', "line\nend\ttab\r", "é∀😀", "\x01\x7f", "\udcff", "\\0A", "%x @y // z"],
)
def test_strings_keep_their_characters(text: str) -> None:
    made = module([func.FuncOp((), (), {"sym_name": StringAttr(text), "x.note": StringAttr(text)})])
    printed = to_text(
        module(
            [
                from_text("func.func private @f()")
                .ops[0]
                .rebuilt(
                    attributes={
                        **from_text("func.func private @f()").ops[0].attributes,
                        **made.ops[0].attributes,
                    }
                )
            ]
        )
    )
    assert printed.isascii()
    found = from_text(printed).ops[0]
    assert found.symbol == text
    assert found.attributes["x.note"] is StringAttr(text)


def test_names_are_unique_where_they_are_seen() -> None:
    block = Block([f32, f32, f32], ["x", "x", "not a name"])
    builder = Builder(block)
    made = builder.exp(block.args[0])
    made.name = "x"
    builder.end(func.ReturnOp, made)
    text = to_text(module([function("main", block)]))
    assert "@main(%x: f32, %x_0: f32, %0: f32)" in text
    assert "%x_1 = ng.exp %x : f32" in text
    assert to_text(from_text(text)) == text


def test_siblings_share_names_and_labels() -> None:
    text = wrapped(ng.WhileOp)
    printed = to_text(from_text(text))
    assert printed.count("%x = %a") == 1 and printed.count("%x, %") == 2


def test_printing_many_regions_takes_linear_time() -> None:
    block = Block([i1])
    builder = Builder(block)
    for _ in range(2000):
        with builder.region() as (then, _):
            builder.end(ng.YieldOp, builder.number(1.0, f32))
        builder.if_(block.args[0], types=[f32], regions=[then, then])
    builder.end(func.ReturnOp)
    text = to_text(module([function("main", block)]))
    assert text.count("ng.if") == 2000


def _yields(count: int, length: int) -> Module:
    """One op on many values of one type, which its custom form spells once."""
    type = f'tensor<4xf32, #ng.axes<"{"n" * length}">>'
    values = ", ".join(["%x"] * count)
    body = f'"my.op"() ({{\n  ng.yield {values} : {type}\n}}) : () -> ()'
    return from_text(f"func.func @main(%x: {type}) {{\n{body}\n  return\n}}", unregistered=True)


def test_a_long_type_has_a_name_in_the_generic_form() -> None:
    one, two = (len(to_text(_yields(n, 5 * n), generic=True)) for n in (400, 800))
    assert two < 2.1 * one
    for made in (_yields(3, 2000), _yields(3, 900)):
        text = to_text(made, generic=True)
        assert text.startswith("!type_0 = tensor<") == ("n" * 2000 in text)
        assert to_text(from_text(text, unregistered=True), generic=True) == text
