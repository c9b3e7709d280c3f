# SPDX-License-Identifier: Apache-2.0
"""Products of f32 and integer codes as sums of integers: within what rounding the rows to 23 bits may change, on every machine."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from test_dot_atoms import machine
from test_narrow_weights import affine, cast, codes, known, program

from ngmlir.compiler import compile_artifact, emit_text, lower
from ngmlir.frontends.decoders.formats import FORMATS
from ngmlir.frontends.decoders.weights import Weight
from ngmlir.ir.attributes import UnitAttr, numeric_literal
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.literals import item_bytes
from ngmlir.ir.types import TensorType, Type, element_type, f32, i8, i32, shape_of, ui8
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.graph.integer_products import REASSOCIATES
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.support.diagnostics import UserError
from ngmlir.support.target import Target

#: With VNNI, and with pairs of 16 bits in 512, 256 and 128 bits.
MACHINES = ("", "cascadelake", "x86-64-v4", "x86-64-v3", "x86-64-v2")


def allowed(made: Module) -> Module:
    return made.with_ops(
        [op.rebuilt(attributes={**op.attributes, REASSOCIATES: UnitAttr()}) for op in made.ops]
    )


def computed(made: Module, target: Target, *given: np.ndarray) -> list[np.ndarray]:
    assert "ng.fusion decoded(%digits" in str(lower(made, target, "canonical,narrow-weights"))
    artifact = compile_artifact(made, target)
    assert isinstance(artifact, Artifact)
    return [np.asarray(v) for v in load(artifact)(*given)]


def blocks_of(x: np.ndarray, block: int) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, -x.shape[1] % block))).reshape(len(x), -1, block)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("rows", range(1, 10))
def test_few_rows_and_odd_sizes(name: str, rows: int) -> None:
    """The error is at most 2^-23 of the greatest number of each block times the sum of the magnitudes of its weights, and some
    roundings of sums in f32."""
    for form, columns, depth, block, point in [
        ("halves", 67, 517, 32, np.uint8),
        ("neighbours", 17, 131, 16, None),
        ("halves", 131, 300, 128, np.float32),
        ("i4", 37, 260, 32, None),
        ("i8", 37, 260, 32, None),
        ("ui8", 19, 517, 0, np.uint8),
    ]:
        weight = affine(form, columns, depth, block, point=point)
        made = allowed(program(rows, weight, depth))
        x = np.random.default_rng(rows).standard_normal((rows, depth)).astype(np.float32)
        x[0, ::7] *= 1000
        (got,) = computed(made, machine(name), x)
        one = Block()
        b = Builder(one)
        b.end(func.ReturnOp, weight(b))
        w = run(module([function("main", one)]))[0].astype(np.float64)
        size = min(block or 128, 128)
        most, beside = np.abs(blocks_of(x, size)).max(2), np.abs(blocks_of(w, size)).sum(2)
        sums = np.abs(x).astype(np.float64) @ np.abs(w).T
        # Codes without their zero point are some times as great.
        error = 1.01 * 2.0**-23 * (most @ beside.T) + 40 * 2.0**-24 * sums
        assert (np.abs(got - x.astype(np.float64) @ w.T) <= error).all(), (form, columns, depth, block)


@pytest.mark.parametrize("name", MACHINES)
def test_sums_of_extremes_are_exact(name: str) -> None:
    """Every digit is -128 or 127 where it can be, and every code 15 or 0: nothing saturates."""
    draw = np.random.default_rng(0)
    low, high = ((0, 2), (255, 253))
    drawn = [draw.choice([low[i == 2], high[i == 2]], (3, 256)).astype(np.int64) << (8 * i) for i in range(3)]
    x = np.clip(np.add.reduce(drawn) - 0x808080, -8323000, 8323000)
    x[:, ::32] = 1 << 22  # which fixes the scale of the block at 1
    packed = draw.choice([0, 255], (24, 8, 16)).astype(np.uint8)

    def weight(b: Builder) -> Value:
        value = known(b, packed)
        low = b.bitwise_and(value, b.number(15, value.type))
        high = b.shift_right_logical(value, b.number(4, value.type))
        both = b.concatenate([low, high], axis=2)
        wide = b.cast(
            b.reshape(both, type=TensorType((24, 256), element_type(both.type))),
            type=TensorType((24, 256), f32),
        )
        scales = b.broadcast(
            known(b, np.ones((24, 8), np.float32)), type=TensorType((24, 8, 32), f32), dimensions=[0, 1]
        )
        return b.multiply(wide, b.reshape(scales, type=wide.type))

    (got,) = computed(allowed(program(3, weight, 256)), machine(name), x.astype(np.float32))
    w = np.concatenate([packed & 15, packed >> 4], 2).reshape(24, 256).astype(np.int64)
    np.testing.assert_allclose(got, x @ w.T, rtol=2.0**-21, atol=2.0**-21 * 15 * 8e6 * 32)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("code", [0, 255])
def test_sums_of_extreme_bytes_are_exact(name: str, code: int) -> None:
    """Of blocks of 128 with all digits as far from 0 as they can be, both ways."""
    depth, draw = 256, np.random.default_rng(code)
    lows = draw.choice([-32768, 32767, -128, 127], (4, depth))
    x = draw.choice([-128, 127], (4, 1)) * 65536 + lows
    x[0], x[1], x[:, ::128] = -8323000, 8323000, 1 << 22  # which fixes the scale of the block at 1
    bytes = np.full((24, depth), code, np.uint8)
    bytes[0, 0] = 7  # not one number

    def weight(b: Builder) -> Value:
        wide = b.cast(known(b, bytes), type=TensorType((24, depth), f32))
        return b.multiply(wide, b.number(1.0, wide.type))

    (got,) = computed(allowed(program(4, weight, depth)), machine(name), x.astype(np.float32))
    kept = np.clip(x, -(1 << 23), 1 << 23).astype(np.float64)
    np.testing.assert_allclose(got, kept @ bytes.T, rtol=2.0**-21, atol=2.0**-22 * 255 * 8.4e6 * 2)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    ("form", "block"),
    [("halves", 0), ("halves", 16), ("halves", 32), ("halves", 128), ("i8", 16), ("i8", 128)],
)
def test_rows_of_bytes(name: str, form: str, block: int) -> None:
    """Rows that a model rounds to bytes with a scale for each block, or for each row, are one digit."""
    for rows, columns, depth in [(1, 67, 256), (3, 37, 517), (9, 131, 300)]:
        argument, own = Block([TensorType((rows, depth), f32)], ["x"]), block or depth
        b = Builder(argument)
        rounded = rows_of_bytes(argument.args[0], own, i8, b)
        weight = affine(form, columns, depth, block, point=np.uint8 if form == "halves" else None)(b)
        b.end(func.ReturnOp, b.dot(rounded, weight, lhs_contract=[1], rhs_contract=[1]))
        made = allowed(module([function("main", argument)]))
        assert "%digits1" not in str(lower(made, machine(name), "canonical,narrow-weights"))
        given = np.random.default_rng(rows).standard_normal((rows, depth)).astype(np.float32)
        (got,), (want,) = computed(made, machine(name), given), run(made, given)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())


def rows_of_bytes(x: Value, block: int, element: Type, b: Builder, scale: float | None = None) -> Value:
    """Rows of f32 as bytes times a scale: of each block, or `scale` for all."""
    rows, depth = shape_of(x.type)
    blocks = -(-depth // block)
    whole = b.pad(x, value=numeric_literal(0.0, f32), low=[0, 0], high=[0, blocks * block - depth])
    apart = b.reshape(whole, type=TensorType((rows, blocks, block), f32))
    most = b.max(b.absolute(apart), axes=[2])
    size = b.multiply(most, b.number(1 / 127, most.type))
    wide = b.broadcast(size, type=apart.type, dimensions=[0, 1])
    if scale is not None:
        wide = b.number(scale, apart.type)
    bytes = b.cast(b.round(b.divide(apart, wide)), type=TensorType((rows, blocks, block), element))
    wider = b.cast(bytes, type=apart.type)
    rounded = b.reshape(wider if scale == 1 else b.multiply(wider, wide), type=whole.type)
    return b.slice(rounded, starts=[0, 0], limits=[rows, depth], steps=[1, 1])


@pytest.mark.parametrize(("element", "scale", "digits"), [(i8, 1 / 16, 1), (i8, 1.0, 3), (ui8, 1 / 16, 3)])
def test_rows_of_bytes_with_one_scale(element: Type, scale: float, digits: int) -> None:
    """Bytes without a scale and those without a sign go through f32; two products have digits of them once."""
    argument = Block([TensorType((3, 96), f32)], ["x"])
    b = Builder(argument)
    rounded = rows_of_bytes(argument.args[0], 32, element, b, scale)
    weights = [affine("halves", columns, 96, 32, point=np.uint8)(b) for columns in (37, 50)]
    products = [b.dot(rounded, w, lhs_contract=[1], rhs_contract=[1]) for w in weights]
    b.end(func.ReturnOp, *products)
    made = allowed(module([function("main", argument)]))
    text = str(lower(made, machine(""), "canonical,narrow-weights"))
    assert f"tensor<3x{digits}x96xi8>" in text
    x = np.abs(np.random.default_rng(0).standard_normal((3, 96))).astype(np.float32)
    for got, want in zip(computed(made, machine(""), x), run(made, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize("name", MACHINES)
def test_rows_that_are_no_numbers(name: str) -> None:
    """A row with an infinity or a NaN gives NaN, and others are as they are; zeros give zero, and denormals next to it."""
    made = allowed(program(6, affine("halves", 33, 96, 32, point=np.uint8), 96))
    x = np.random.default_rng(0).standard_normal((6, 96)).astype(np.float32)
    x[0, 5], x[1, 95], x[2], x[3] = np.inf, np.nan, 0.0, 1e-40
    x[4, :3] = [3e38, -3e38, 1e-45]
    (got,), (want,) = computed(made, machine(name), x), run(made, x)
    assert np.isnan(got[:2]).all()
    assert (got[2] == 0).all()
    assert (np.abs(got[3]) < 2.0**-100).all()
    assert (np.abs(got[4:] - want[4:]) <= 1e-5 * np.abs(want[4:]).max(1, keepdims=True)).all(), (
        got[4],
        want[4],
    )


@pytest.mark.parametrize(("form", "scaled"), [("halves", True), ("i4", True), ("i4", False)])
def test_a_tied_table_is_in_memory_once(form: str, scaled: bool) -> None:
    """Rows are taken from the panels that products read, also by indices that are negative or too great."""
    block = Block([TensorType((1, 96), f32), TensorType((2, 3), i32)])
    b = Builder(block)
    if scaled:
        weight = affine(form, 50, 96, 32, point=np.uint8 if form == "halves" else None)(b)
    else:
        weight = cast(b, codes(b, np.random.default_rng(0), form, (50, 96)))
    product = b.dot(block.args[0], weight, lhs_contract=[1], rhs_contract=[1])
    b.end(func.ReturnOp, product, b.gather(weight, block.args[1], axis=0))
    made = allowed(module([function("main", block)]))
    x = np.random.default_rng(0).standard_normal((1, 96)).astype(np.float32)
    at = np.array([[0, 49, -1], [77, -99, 18]], np.int32)
    for target in map(machine, MACHINES):
        got, want = computed(made, target, x, at), run(made, x, at)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
        text = str(lower(made, target, "canonical,narrow-weights,common-subexpressions,dead-code"))
        assert text.count("xui8> = ") == str(text).count("xui8> = ")
        assert text.count("axes [3, 4]") == 1  # words are made once


def of_format(name: str, rows: int, draw: np.random.Generator) -> tuple[Module, int]:
    """The product of three rows of 512 and random blocks of a format; the bytes of these."""
    form = FORMATS[name]
    data = draw.integers(0, 256, (rows * 512 // form.elements, form.bytes), dtype=np.uint8)
    for at in form.scales:
        scales = draw.uniform(0.001, 0.004, len(data)).astype(np.float16)
        data[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    block = Block([TensorType((3, 512), f32)])
    b = Builder(block)
    weight = Weight(name, (rows, 512), form, data.reshape(-1).data).value(b)
    b.end(func.ReturnOp, b.dot(block.args[0], weight, lhs_contract=[1], rhs_contract=[1]))
    return allowed(module([function("main", block)])), data.size


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.decode])
def test_all_formats_of_gguf(name: str) -> None:
    draw = np.random.default_rng(0)
    made, _ = of_format(name, 70, draw)
    x = draw.standard_normal((3, 512)).astype(np.float32)
    for target in map(machine, MACHINES):
        (got,), (want,) = computed(made, target, x), run(made, x)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize(
    ("name", "times"), [("Q4_0", 1.0), ("Q4_1", 1.0), ("Q8_0", 1.0), ("Q4_K", 1.03), ("Q6_K", 1.31)]
)
def test_memory_is_that_of_the_file(name: str, times: float) -> None:
    """Scales stay f16, and scales of scales bytes. Codes of 6 bits take 8."""
    made, there = of_format(name, 256, np.random.default_rng(0))
    made = lower(made, machine("cascadelake"), "canonical,narrow-weights")
    (fusion,) = [op for op in made.walk() if op.name == "ng.fusion"]
    held = [v.type for v in fusion.operands[1:] if len(shape_of(v.type)) == 3]
    taken = sum(prod(shape_of(type)) * item_bytes(element_type(type)) for type in held)
    assert there <= taken <= times * there


def test_schedules_that_are_stated() -> None:
    made = allowed(program(3, affine("halves", 112, 96, 32), 96))
    target = machine("x86-64-v3")
    before = lower(made, target, "canonical,narrow-weights")
    x = np.random.default_rng(0).standard_normal((3, 96)).astype(np.float32)
    (want,) = run(made, x)

    def stated(schedule: str) -> str:
        fusion = "ng.fusion decoded("
        text = str(before)
        start = text.index(fusion)
        end = text.index(") -> ", start)
        return f"{text[: end + 1]} {{ng.schedule = {{{schedule}}}}}{text[end + 1 :]}"

    for schedule in (
        'by = "digits"',
        "tile = [1, 8]",
        "tile = [3, 16]",
        'by = "digits", tile = [2, 8], block = 32 : i64',
    ):
        (got,) = run(lower(from_text(stated(schedule)), target, "kernels"), x)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    for schedule, message in [
        ("tile = [1, 24], block = 48 : i64", "tiles of 24 columns, which panels of .* are no multiples of"),
        ('by = "decode"', "rows in digits are multiplied by 'digits'"),
    ]:
        with pytest.raises(UserError, match=message):
            lower(from_text(stated(schedule)), target, "kernels")


def test_what_is_not_affine_in_its_codes_is_decoded_to_floats() -> None:
    def weight(b: Builder) -> Value:
        value = codes(b, np.random.default_rng(0), "halves", (50, 96))
        wide = b.cast(value, type=TensorType((50, 96), f32))
        return b.maximum(wide, b.number(3.0, wide.type))

    text = str(lower(allowed(program(1, weight, 96)), machine(""), "canonical,narrow-weights"))
    assert "%digits" not in text and "ng.fusion decoded" in text


def test_registers_hold_what_a_block_needs() -> None:
    """Without dot instructions, of two registers of columns: four words with two halves, by three digits. All of them at once, or
    all numbers of the rows, would be more than there are registers."""
    made, _ = of_format("Q4_0", 64, np.random.default_rng(0))
    lines = emit_text(made, machine("x86-64-v3"), "asm").splitlines()
    products = [i for i, line in enumerate(lines) if "vpmaddubsw" in line]
    assert len(products) == 2 * 4 * 2 * 3
    assert sum("(%rsp)" in line for line in lines[products[0] : products[-1]]) <= 16
