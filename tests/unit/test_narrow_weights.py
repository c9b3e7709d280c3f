# SPDX-License-Identifier: Apache-2.0
"""Weights that stay narrow: what is multiplied is what decoding them first gives, whatever their form, and no wide copy is made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_dot_atoms import machine

from ngmlir.compiler import compile_artifact, compile_open, emit_text, lower
from ngmlir.ir.attributes import Attribute, UnitAttr
from ngmlir.ir.core import Block, Module, Value, module
from ngmlir.ir.elements import elements
from ngmlir.ir.types import TensorType, element_type, f32, i8, i32, shape_of, ui8, with_element
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.interpreter import run
from ngmlir.passes.fuse.decoding.words import Words
from ngmlir.passes.graph.integer_products import REASSOCIATES
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.support.lengths import Length, guarding
from ngmlir.support.target import Target

MACHINES = ("", "x86-64-v4", "x86-64-v3", "x86-64-v2")


def known(b: Builder, array: Any) -> Value:
    literal = elements(np.asarray(array))
    return b.constant(type=literal.type, value=literal)


def spread(b: Builder, value: Value, shape: tuple[int, int], block: int) -> Value:
    """A parameter [rows] or [rows, blocks] for each element of a weight."""
    rows, depth = shape
    element = element_type(value.type)
    if len(shape_of(value.type)) < 2:
        dims = list(range(len(shape_of(value.type))))
        return b.broadcast(value, type=TensorType(shape, element), dimensions=dims)
    blocks = shape_of(value.type)[1]
    wide = b.broadcast(value, type=TensorType((rows, blocks, block), element), dimensions=[0, 1])
    wide = b.reshape(wide, type=TensorType((rows, blocks * block), element))
    return b.slice(wide, starts=[0, 0], limits=[rows, depth], steps=[1, 1])


def cast(b: Builder, value: Value) -> Value:
    return b.cast(value, type=with_element(value.type, f32))


def codes(b: Builder, draw: np.random.Generator, form: str, shape: tuple[int, int]) -> Value:
    """Codes as files hold them."""
    rows, depth = shape
    if form in ("i8", "ui8"):
        low, high = (-128, 128) if form == "i8" else (0, 256)
        return known(b, draw.integers(low, high, shape).astype(np.int8 if form == "i8" else np.uint8))
    if form == "i4":
        return known(b, draw.integers(-8, 8, shape).astype(ml_dtypes.int4))
    if form in ("f16", "bf16"):
        return known(
            b, draw.standard_normal(shape).astype(np.float16 if form == "f16" else ml_dtypes.bfloat16)
        )
    four = b.number(4, TensorType((rows, -(-depth // 32), 16), ui8))
    packed = known(b, draw.integers(0, 256, four.type.shape).astype(np.uint8))  # type: ignore[attr-defined]
    low = b.bitwise_and(packed, b.number(15, packed.type))
    high = b.shift_right_logical(packed, four)
    if form == "halves":  # the first half of a block is in the low bits
        both = b.concatenate([low, high], axis=2)
    else:  # neighbours are
        apart = TensorType((*shape_of(packed.type), 1), ui8)
        both = b.concatenate([b.reshape(v, type=apart) for v in (low, high)], axis=3)
    whole = b.reshape(both, type=TensorType((rows, -(-depth // 32) * 32), ui8))
    return b.slice(whole, starts=[0, 0], limits=[rows, depth], steps=[1, 1])


def program(
    rows: int, weight: Callable[[Builder], Value], depth: int, turned: bool = False, left: bool = False
) -> Module:
    """The product of x[rows, depth] and a weight [columns, depth]; `turned`: by way of its transpose; `left`: the other way round."""
    block = Block([TensorType((rows, depth), f32)], ["x"])
    b = Builder(block)
    x, w = block.args[0], weight(b)
    contract = 1
    if turned:
        w, contract = b.transpose(w, permutation=[1, 0]), 0
    if left:
        y = b.dot(w, x, lhs_contract=[contract], rhs_contract=[1])
    else:
        y = b.dot(x, w, lhs_contract=[1], rhs_contract=[contract])
    b.end(func.ReturnOp, y)
    return module([function("main", block)])


def check(
    made: Module,
    rows: int,
    depth: int,
    target: Target,
    narrow: bool = True,
    x: Any = None,
    whole: bool = True,
) -> None:
    """The same as decoding first, up to the order of sums; and decoded in the product's kernel, or not. `whole`: also where
    the function lets products be scaled after the sum."""
    if whole:
        allowed = {REASSOCIATES: UnitAttr()}
        after = made.with_ops([op.rebuilt(attributes={**op.attributes, **allowed}) for op in made.ops])
        check(after, rows, depth, target, narrow, x, False)
    artifact = compile_artifact(made, target)
    assert isinstance(artifact, Artifact)
    if x is None:
        x = np.random.default_rng(7).standard_normal((rows, depth)).astype(np.float32)
    (got,) = load(artifact)(x)
    (want,) = run(made, x)
    assert got.shape == want.shape
    np.testing.assert_allclose(
        got,
        want,
        rtol=1e-5,
        atol=2e-6
        * np.sqrt(depth)
        * float(np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=1)),
    )
    text = str(lower(made, target, "canonical,narrow-weights"))
    assert ("ng.fusion decoded" in text) == narrow, text


def affine(
    form: str,
    columns: int,
    depth: int,
    block: int,
    scale: Any = np.float32,
    point: Any = None,
    least: bool = False,
) -> Callable[[Builder], Value]:
    """(codes - points) * scales + minima."""

    def weight(b: Builder) -> Value:
        draw = np.random.default_rng(depth + columns)
        shape = (columns, depth)
        size = (columns, -(-depth // block)) if block else (columns,)
        value = cast(b, codes(b, draw, form, shape))
        if point is not None:
            points = known(b, draw.integers(0, 15, size).astype(point))
            value = b.subtract(value, spread(b, cast(b, points), shape, block))
        scales = known(b, draw.uniform(0.01, 0.02, size).astype(scale))
        value = b.multiply(value, spread(b, cast(b, scales), shape, block))
        if least:
            value = b.add(
                value, spread(b, known(b, draw.uniform(-1, 1, size).astype(np.float32)), shape, block)
            )
        return value

    return weight


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("form", ["i8", "ui8", "halves", "neighbours", "f16", "bf16"])
def test_weights_of_all_widths_are_decoded(form: str, name: str) -> None:
    target = machine(name)
    for (rows, columns, depth), block in product([(1, 37, 300), (3, 13, 128), (35, 37, 129)], [0, 32, 128]):
        check(program(rows, affine(form, columns, depth, block), depth), rows, depth, target)


@pytest.mark.parametrize("group", [2, 4])
@pytest.mark.parametrize("bits", range(1, 9))
def test_codes_of_any_number_of_bits_are_packed_without_gaps(bits: int, group: int) -> None:
    words = Words(bits, group)
    found = np.random.default_rng(bits).integers(0, 1 << bits, (2, 3, 2 * words.unit)).astype(np.int32)
    block = Block([TensorType(found.shape, i32)], ["x"])
    b = Builder(block)
    packed = words.packed(block.args[0], b)
    b.end(func.ReturnOp, packed, words.unpacked(packed, b))
    held, again = run(module([function("main", block)]), found)
    assert held.nbytes * 8 == found.size * bits
    np.testing.assert_array_equal(again, found.reshape(6, -1))


@pytest.mark.parametrize("name", MACHINES)
def test_weights_take_as_many_bits_as_their_codes(name: str) -> None:
    """Codes of 2, 5 and 6 bits, signed and unsigned; of 3 in blocks of 16, which take 4."""
    target = machine(name)
    for (bits, block, zero), rows in product([(2, 32, 0), (5, 32, 16), (6, 16, 32), (3, 16, 4)], [1, 3, 35]):

        def weight(b: Builder, bits: int = bits, block: int = block, zero: int = zero) -> Value:
            draw = np.random.default_rng(bits)
            wide = codes(b, draw, "ui8", (37, 160))
            value = cast(b, b.bitwise_and(wide, b.number((1 << bits) - 1, wide.type)))
            value = b.subtract(value, b.number(float(zero), value.type))
            scales = known(b, draw.uniform(0.01, 0.02, (37, 160 // block)).astype(np.float32))
            return b.multiply(value, spread(b, scales, (37, 160), block))

        check(program(rows, weight, 160), rows, 160, target)


@pytest.mark.parametrize("name", MACHINES)
def test_codes_that_are_looked_up_stay_codes(name: str) -> None:
    target = machine(name)
    numbers = np.array([-128, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 127], np.int8)

    def weight(b: Builder, form: str = "codes") -> Value:
        draw = np.random.default_rng(3)
        table, four = numbers, codes(b, draw, "halves", (37, 160))
        if form == "changed":
            four = b.bitwise_xor(four, b.number(3, four.type))
        elif form == "long":
            table = np.tile(numbers, 16)
            four = codes(b, draw, "ui8", (37, 160))
        place = b.cast(four, type=with_element(four.type, i32))
        if form == "offset":
            place = b.subtract(place, b.number(1, place.type))  # clamped
        scales = known(b, draw.uniform(0.01, 0.02, (37, 5)).astype(np.float32))
        found = b.gather(known(b, table), place, axis=0)
        return b.multiply(cast(b, found), spread(b, scales, (37, 160), 32))

    for rows, form in product([1, 3, 35], ["codes", "changed", "offset", "long"]):
        check(program(rows, lambda b, form=form: weight(b, form), 160), rows, 160, target)
    made = program(1, weight, 160)
    made = made.with_ops(
        [op.rebuilt(attributes={**op.attributes, REASSOCIATES: UnitAttr()}) for op in made.ops]
    )
    text = str(lower(made, target, "canonical,narrow-weights"))
    stays = target.can("byte_lookups") and target.dot("i8_ui8") is not None
    assert ("ng.gather" in text.split("ng.fusion")[1].split("ng.yield")[0]) == stays


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 8, 9, 32, 33, 70])
@pytest.mark.parametrize("form", ["i8", "halves"])
def test_any_number_of_rows(form: str, rows: int) -> None:
    check(program(rows, affine(form, 67, 517, 32, point=np.uint8), 517), rows, 517, machine(""))


@pytest.mark.parametrize("form", ["ui8", "neighbours"])
def test_points_and_minima_of_any_type(form: str) -> None:
    for block, scale, point, least in product(
        [0, 64, 256], [np.float16, np.float32], [None, np.int8, np.float32], [False, True]
    ):
        check(program(2, affine(form, 19, 320, block, scale, point, least), 320), 2, 320, machine(""))


@pytest.mark.parametrize("form", ["i8", "halves", "bf16"])
def test_both_storages_and_both_sides(form: str) -> None:
    for turned, left, rows in product([False, True], [False, True], [1, 5, 40]):
        check(program(rows, affine(form, 33, 160, 32), 160, turned, left), rows, 160, machine(""))


@pytest.mark.parametrize("rows", [1, 40])
def test_scales_and_rows_that_are_no_numbers(rows: int) -> None:
    """Nothing of what lies behind the end of a weight is seen, and nothing is lost of what is no number."""
    depth, columns = 133, 24
    special = np.array([np.nan, np.inf, -np.inf, 1e-42, 0.0, -0.0, 3e38, 1.0], np.float32)
    for form in ("i8", "halves", "f16"):

        def weight(b: Builder, form: str = form) -> Value:
            draw = np.random.default_rng(1)
            shape = (columns, depth)
            scales = special[draw.integers(0, 8, (columns, 5))]
            return b.multiply(cast(b, codes(b, draw, form, shape)), spread(b, known(b, scales), shape, 32))

        x = np.random.default_rng(2).standard_normal((rows, depth)).astype(np.float32)
        x[0, :4] = [np.inf, 0, 1e-40, -0.0]
        check(program(rows, weight, depth), rows, depth, machine(""), x=x, whole=False)


def moved(b: Builder, value: Value, draw: np.random.Generator) -> Value:
    """A matrix as it is, after moves that end where it was."""
    shape, element = shape_of(value.type), element_type(value.type)
    match draw.integers(0, 4):
        case 0:
            line = b.reshape(value, type=TensorType((shape[0] * shape[1],), element))
            return b.reshape(line, type=TensorType(shape, element))
        case 1:
            return b.transpose(b.transpose(value, permutation=[1, 0]), permutation=[1, 0])
        case 2:
            apart = b.reshape(value, type=TensorType((shape[0], 1, shape[1]), element))
            return b.reshape(b.transpose(apart, permutation=[1, 0, 2]), type=TensorType(shape, element))
        case _:
            return value


def randomly(number: int, shape: tuple[int, int]) -> Callable[[Builder], Value]:
    """Codes of some form, and up to four elementwise ops with parameters of all kinds."""

    def weight(b: Builder) -> Value:
        draw = np.random.default_rng(number)
        form = str(draw.choice(["i8", "ui8", "halves", "neighbours", "f16", "bf16"]))
        block = int(draw.choice([16, 32, 48, 64, 128, 512]))
        value = cast(b, moved(b, codes(b, draw, form, shape), draw))
        for _ in range(draw.integers(0, 5)):
            size = [(), shape[:1], (shape[0], -(-shape[1] // block))][draw.integers(0, 3)]
            kind = [np.float32, np.float16, np.int8, np.uint8][draw.integers(0, 4)]
            numbers = draw.integers(-3, 4, size) if kind is np.int8 else draw.integers(0, 4, size)
            parameter = known(b, np.asarray(numbers, kind) if size else np.asarray(2.5, np.float32))
            parameter = cast(b, parameter)
            if draw.integers(0, 2):
                parameter = b.negative(b.add(parameter, b.number(0.5, parameter.type)))
            wide = moved(b, spread(b, parameter, shape, block), draw)
            if draw.integers(0, 2):
                wide = b.maximum(wide, b.number(-2.0, wide.type))
            operands = [value, wide] if draw.integers(0, 3) else [wide, value]
            verb = [b.add, b.subtract, b.multiply, b.maximum][draw.integers(0, 4)]
            value = moved(b, verb(*operands), draw)
        return value

    return weight


@pytest.mark.parametrize("number", range(24))
def test_random_decodings(number: int) -> None:
    draw = np.random.default_rng(1000 + number)
    rows, columns = int(draw.integers(1, 48)), int(draw.integers(17, 60))
    depth = int(draw.choice([61, 128, 160, 257]))
    target = machine(MACHINES[number % 2])
    made = program(
        rows, randomly(number, (columns, depth)), depth, *(bool(v) for v in draw.integers(0, 2, 2))
    )
    check(made, rows, depth, target)


def odd_parameter(b: Builder, draw: np.random.Generator, shape: tuple[int, int], block: int) -> Value:
    """A parameter for each element of a weight, of blocks and forms that few files have."""
    rows, depth = shape
    count = -(-depth // block)
    match draw.integers(0, 8):
        case 0:  # stored blocks x rows
            turned = known(b, draw.integers(1, 5, (count, rows)).astype(np.float32))
            wide = b.broadcast(turned, type=TensorType((count, block, rows), f32), dimensions=[0, 2])
            wide = b.reshape(wide, type=TensorType((count * block, rows), f32))
            wide = b.slice(wide, starts=[0, 0], limits=[depth, rows], steps=[1, 1])
            return b.transpose(wide, permutation=[1, 0])
        case 1:  # blocks of four blocks
            return spread(
                b, known(b, draw.integers(1, 5, (rows, -(-count // 4))).astype(np.float32)), shape, 4 * block
            )
        case 2:  # more than are needed
            many = known(b, draw.integers(1, 5, (rows, count + 2)).astype(np.float32))
            return spread(b, many, shape, block)
        case 3:  # the same for all rows
            few = b.reshape(
                known(b, draw.integers(1, 5, count).astype(np.float32)), type=TensorType((1, count), f32)
            )
            wide = b.broadcast(
                b.reshape(few, type=TensorType((count,), f32)),
                type=TensorType((rows, count), f32),
                dimensions=[1],
            )
            return spread(b, wide, shape, block)
        case 4:  # the same for two rows
            half = known(b, draw.integers(1, 5, rows // 2).astype(np.float32))
            wide = b.broadcast(half, type=TensorType((rows // 2, 2, depth), f32), dimensions=[0])
            return b.reshape(wide, type=TensorType(shape, f32))
        case 5:  # one for some elements of a row, which begin anywhere
            size = rows * depth // 12
            ends = b.broadcast(
                known(b, draw.integers(1, 5, size).astype(np.float32)),
                type=TensorType((size, 12), f32),
                dimensions=[0],
            )
            return b.reshape(ends, type=TensorType(shape, f32))
        case 6:  # computed in many steps
            value = spread(b, known(b, draw.integers(1, 5, rows).astype(np.float32)), shape, block)
            for _ in range(int(draw.choice([3, 20]))):
                value = b.negative(value)
            return b.add(value, b.number(0.0, value.type))
        case _:  # of elements that are cast later
            return cast(
                b, spread(b, known(b, draw.integers(1, 5, (rows, count)).astype(np.int32)), shape, block)
            )


def odd_weight(number: int, shape: tuple[int, int]) -> Callable[[Builder], Value]:
    """A weight, not simplified by any pass."""

    def weight(b: Builder) -> Value:
        draw = np.random.default_rng(number)
        value = codes(b, draw, str(draw.choice(["i8", "ui8", "halves", "neighbours", "f16"])), shape)
        if element_type(value.type) is ui8 and draw.integers(0, 2):
            if draw.integers(0, 2):  # which wraps around
                value = b.subtract(value, b.number(3, value.type))
            value = b.cast(value, type=with_element(value.type, i32))
            if draw.integers(0, 2):  # to what has room for them, or not
                value = b.bitwise_and(value, b.number(int(draw.choice([63, 255, 511])), value.type))
                value = b.cast(value, type=with_element(value.type, i8))
            for _ in range(int(draw.choice([0, 70]))):
                value = b.bitwise_xor(value, b.number(0, value.type))
        if draw.integers(0, 4) == 0:  # moves that are no digits of rows and columns
            apart = b.reshape(value, type=TensorType((shape[1], shape[0]), element_type(value.type)))
            value = b.reshape(b.transpose(apart, permutation=[1, 0]), type=value.type)
        value = moved(b, cast(b, value), draw)
        if draw.integers(0, 8) == 0:  # codes that are rounded
            value = b.cast(value, type=with_element(value.type, ui8))
            value = cast(b, b.bitwise_and(value, b.number(15, value.type)))
        for _ in range(draw.integers(0, 4)):
            parameter = odd_parameter(b, draw, shape, int(draw.choice([16, 32, 64])))
            if draw.integers(0, 6) == 0:
                parameter = b.number(1.5, parameter.type)
            value = b.multiply(*[(value, parameter), (parameter, value)][draw.integers(0, 2)])
            if draw.integers(0, 2):
                value = b.add(value, parameter)
            value = moved(b, value, draw)
        return value

    return weight


@pytest.mark.parametrize("seed", range(12))
def test_the_pass_keeps_the_meaning_of_odd_weights(seed: int) -> None:
    for number in range(16 * seed, 16 * seed + 16):
        draw = np.random.default_rng(number)
        rows, columns, depth = 2, int(draw.choice([6, 12, 24])), int(draw.choice([64, 96, 192, 240]))
        made = program(
            rows, odd_weight(number, (columns, depth)), depth, *(bool(v) for v in draw.integers(0, 2, 2))
        )
        x = draw.standard_normal((rows, depth)).astype(np.float32)
        (want,) = run(made, x)
        for assume in ("", "{assume=reassoc}"):
            (got,) = run(lower(made, "cpu", f"narrow-weights{assume}", verify=True), x)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * float(np.abs(want).max()))


def test_products_and_rows_that_decode_nothing() -> None:
    """Batches, other elements, tables that are arguments, more rows than there are, other axes, and a target with threads."""
    block = Block(
        [
            TensorType((2, 3, 32), f32),
            TensorType((90,), i32),
            TensorType((4, 32), f32),
            TensorType((2, 3), i32),
        ]
    )
    b = Builder(block)
    x, all_rows, table, some = block.args
    weight = affine("i8", 64, 32, 0)(b)
    three = b.broadcast(weight, type=TensorType((2, 64, 32), f32), dimensions=[1, 2])
    made = [
        b.dot(x, three, lhs_contract=[2], rhs_contract=[2], lhs_batch=[0], rhs_batch=[0]),
        b.gather(weight, all_rows, axis=0),
        b.gather(weight, some, axis=1),
        b.gather(table, some, axis=0),
        b.gather(three, some, axis=0),
    ]
    b.end(func.ReturnOp, *made)
    whole = module([function("main", block)])
    assert "decoded" not in str(lower(whole, "cpu", "narrow-weights"))
    one = program(1, affine("i8", 64, 32, 0), 32)
    assert "decoded" not in str(lower(one, "sm_90", "narrow-weights"))


def test_super_blocks() -> None:
    """Scales of blocks are codes too, with a scale for some blocks."""

    def weight(b: Builder) -> Value:
        draw, shape = np.random.default_rng(3), (20, 512)
        inner = cast(b, known(b, draw.integers(0, 64, (20, 16)).astype(np.uint8)))
        outer = cast(b, known(b, draw.uniform(0.001, 0.002, (20, 2)).astype(np.float16)))
        scales = b.multiply(inner, spread(b, outer, (20, 16), 8))
        return b.multiply(cast(b, codes(b, draw, "halves", shape)), spread(b, scales, shape, 32))

    for rows in (1, 50):
        check(program(rows, weight, 512), rows, 512, machine(""))


def test_what_cannot_stay_narrow_is_decoded_first() -> None:
    """Parameters for each element of the depth, blocks that are no whole registers, weights that are arguments."""
    draw = np.random.default_rng(5)

    def by_depth(b: Builder) -> Value:
        wide = cast(b, codes(b, draw, "i8", (30, 100)))
        scales = known(b, draw.uniform(0.1, 0.2, 100).astype(np.float32))
        return b.multiply(wide, b.broadcast(scales, type=wide.type, dimensions=[1]))

    check(program(2, by_depth, 100), 2, 100, machine(""), narrow=False)
    check(program(2, affine("i8", 30, 100, 4), 100), 2, 100, machine(""), narrow=False)
    check(program(2, affine("i8", 2000, 1, 0), 1), 2, 1, machine(""), narrow=False)

    block = Block([TensorType((2, 100), f32), TensorType((30, 100), i32)], ["x", "w"])
    b = Builder(block)
    b.end(func.ReturnOp, b.dot(block.args[0], cast(b, block.args[1]), lhs_contract=[1], rhs_contract=[1]))
    assert "decoded" not in str(lower(module([function("main", block)]), "cpu", "canonical,narrow-weights"))


def test_two_products_share_a_weight_that_is_also_read_row_by_row() -> None:
    """As embeddings that are tied to the last layer of a network."""
    columns, depth = 50, 96
    block = Block([TensorType((1, depth), f32), TensorType((3, depth), f32), TensorType((2,), i32)])
    b = Builder(block)
    weight = affine("halves", columns, depth, 32)(b)
    made = [b.dot(x, weight, lhs_contract=[1], rhs_contract=[1]) for x in block.args[:2]]
    rows = b.gather(weight, block.args[2], axis=0)
    b.end(func.ReturnOp, *made, rows)
    whole = module([function("main", block)])
    artifact = compile_artifact(whole, "cpu")
    assert isinstance(artifact, Artifact)
    draw = np.random.default_rng(0)
    given = (
        *(draw.standard_normal((m, depth)).astype(np.float32) for m in (1, 3)),
        np.array([7, 49], np.int32),
    )
    for got, want in zip(load(artifact)(*given), run(whole, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_long_blocks_read_their_scale_once() -> None:
    """Each step of one row decodes codes of two columns, which share what is loaded of the row, and multiplies them before the
    registers run out. Where sums of a block may be multiplied by its scale, a run of four registers is, once."""
    bytes = program(1, affine("ui8", 64, 1024, 128, np.float16), 1024)
    halves = program(1, affine("f16", 64, 1024, 128, np.float16), 1024)
    (function,) = halves.ops
    after = halves.with_ops([function.rebuilt(attributes={**function.attributes, REASSOCIATES: UnitAttr()})])
    for some, scales, widened, multiplied, added in (
        (bytes, 2, "vpmovzxbd", 8, 8),
        (after, 1, "vcvtph2ps", 0, 10),
    ):
        text = emit_text(some, machine("x86-64-v3"), "asm")
        assert (text.count("vbroadcastss"), text.count(widened)) == (scales, 8)
        assert (text.count("vmulps"), text.count("vfmadd")) == (multiplied, added)
        assert "(%rsp)" not in text


@pytest.mark.parametrize("block", [8, 16, 24, 64, 256])
@pytest.mark.parametrize("columns", [1, 2, 37])
def test_sums_of_blocks_times_their_scale(columns: int, block: int) -> None:
    """Of one row; also where the last block or register is not whole, and where blocks and steps do not nest."""
    for name, depth in product(MACHINES, (7, 64, 300, 517)):
        for form, point in (("i8", None), ("ui8", np.uint8)):
            made = program(1, affine(form, columns, depth, block, point=point), depth)
            (function,) = made.ops
            after = {**function.attributes, REASSOCIATES: UnitAttr()}
            x = np.random.default_rng(depth).standard_normal((1, depth)).astype(np.float32)
            artifact = compile_artifact(made.with_ops([function.rebuilt(attributes=after)]), machine(name))
            assert isinstance(artifact, Artifact)
            (got,), (want,) = load(artifact)(x), run(made, x)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-6 * np.sqrt(depth) * np.abs(want).max())


def test_scales_of_blocks_with_numbers_after_them() -> None:
    """The last number is multiplied after the sum; what is last then is no scale of a block. Bytes are sums of integers."""
    for form in ("i8", "f16"):

        def weight(b: Builder, form: str = form) -> Value:
            value = affine(form, 37, 320, 32)(b)
            for number in (2.5, 0.3):
                value = b.multiply(value, b.number(number, value.type))
            return value

        check(program(1, weight, 320), 1, 320, machine("x86-64-v3"))


def test_no_wide_copy_is_in_memory() -> None:
    text = str(lower(program(1, affine("halves", 512, 1024, 32, np.float16), 1024), "cpu"))
    assert "512x8x16xi32" in text or "512x16x8xi32" in text
    assert "512x1024xf32" not in text and "524288xf32" not in text


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    ("form", "depth", "block"), [("halves", 517, 32), ("i8", 517, 32), ("i8", 70, 0), ("f16", 70, 0)]
)
@pytest.mark.parametrize("allowed", [False, True])
def test_any_number_of_rows_by_one_program(
    allowed: bool, form: str, depth: int, block: int, name: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if name:
            patch.setenv("NGMLIR_CPU", name)
        _check_any_number_of_rows(allowed, form, depth, block)


def _check_any_number_of_rows(allowed: bool, form: str, depth: int, block: int) -> None:
    weight, columns = affine(form, 67, depth, block), 67
    assume: dict[str, Attribute] = {REASSOCIATES: UnitAttr()} if allowed else {}

    def made(rows: int) -> Module:
        whole = program(rows, weight, depth)
        return whole.with_ops([op.rebuilt(attributes={**op.attributes, **assume}) for op in whole.ops])

    code = compile_open(lambda lengths: made(lengths["rows"]), {"rows": 64})
    assert not code.signature.guards
    for rows in (2, 7, 16, 17, 32, 33, 64, columns, 300):
        x = np.random.default_rng(rows).standard_normal((rows, depth)).astype(np.float32)
        (got,) = code.at({"rows": rows})(x)
        (want,) = run(program(rows, weight, depth), x)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    with guarding():
        some = made(Length.named("rows", 64, 64))
        assert "ng.fusion decoded" in str(lower(some, "cpu", "canonical,narrow-weights"))
