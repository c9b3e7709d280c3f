# SPDX-License-Identifier: Apache-2.0
"""Blocks of weights: the ops that decode them, against the description of each format, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from decoder_blocks import SCALES, SIZES, decoded, drawn

import ngmlir as ng
from ngmlir.compiler import compile_module
from ngmlir.frontends.decoders.formats import FORMATS
from ngmlir.frontends.decoders.weights import Weight
from ngmlir.ir.core import Block, Module, module
from ngmlir.ir.types import TensorType, i32
from ngmlir.ops import func
from ngmlir.ops.builder import Builder, function
from ngmlir.ops.interpreter import run as interpret

ROWS = np.array([3, 0, 3, -1], np.int32)


def program(weight: Weight) -> Module:
    """All elements, and some rows."""
    block = Block([TensorType(ROWS.shape, i32)], ["rows"])
    b = Builder(block)
    b.end(func.ReturnOp, weight.value(b), weight.rows(b, block.args[0]))
    return module([function("main", block)])


def weight(name: str, shape: tuple[int, ...], data: bytes) -> Weight:
    return Weight("w", shape, FORMATS[name], memoryview(data))


def test_every_format_is_tested() -> None:
    assert {name: (f.elements, f.bytes) for name, f in FORMATS.items()} == {
        n: s[:2] for n, s in SIZES.items()
    }
    assert {name: f.scales for name, f in FORMATS.items() if f.scales} == SCALES


@pytest.mark.parametrize("name", SIZES)
def test_decoded_blocks_have_the_bits_of_the_format(name: str) -> None:
    shape = (5, 768)
    data = drawn(np.random.default_rng(1), name, shape)
    wanted = decoded(name, data, shape)
    made = program(weight(name, shape, data))
    for whole, rows in (compile_module(made)(ROWS), interpret(made, ROWS)):
        assert np.asarray(whole).view(np.uint32).tolist() == wanted.view(np.uint32).tolist()
        assert np.array_equal(rows, wanted[ROWS])


@pytest.mark.parametrize("name", SCALES)
def test_extreme_scales(name: str) -> None:
    elements, size, _ = SIZES[name]
    blocks = np.random.default_rng(2).integers(0, 256, (8, size)).astype(np.uint8)
    extremes = np.array([0.0, -0.0, 65504.0, -65504.0, 6e-8, -6e-8, 6.1e-5, 1.0], np.float16)
    for at in SCALES[name]:
        blocks[:, at : at + 2] = extremes.view(np.uint8).reshape(8, 2)
    shape, data = (8, elements), blocks.tobytes()
    whole, _ = compile_module(program(weight(name, shape, data)))(ROWS)
    assert whole.view(np.uint32).tolist() == decoded(name, data, shape).view(np.uint32).tolist()


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scales_that_are_not_finite_are_refused(name: str, bad: float) -> None:
    elements, size, _ = SIZES[name]
    for at in SCALES[name]:
        data = bytearray(drawn(np.random.default_rng(0), name, (3, elements)))
        weight(name, (3, elements), bytes(data)).check_scales()
        data[2 * size + at : 2 * size + at + 2] = np.float16(bad).tobytes()
        with pytest.raises(ng.UserError, match="the scale of block 2 is not finite"):
            weight(name, (3, elements), bytes(data)).check_scales()


def test_bytes_that_do_not_match_shapes_are_refused() -> None:
    with pytest.raises(
        ng.UserError, match="rows of 33 elements, which is not a multiple of the 32 of a block of Q4_0"
    ):
        weight("Q4_0", (2, 33), bytes(36))
    with pytest.raises(ng.UserError, match=r"has 35 bytes, but its shape \[2, 32\] of Q4_0 needs 36"):
        weight("Q4_0", (2, 32), bytes(35))


def test_parts_of_joined_weights() -> None:
    data = drawn(np.random.default_rng(3), "Q8_0", (6, 32))
    parts = weight("Q8_0", (6, 32), data).split({"a": 2, "b": 4})
    assert [p.shape for p in parts.values()] == [(2, 32), (4, 32)]
    assert b"".join(bytes(p.data) for p in parts.values()) == data
    with pytest.raises(
        ng.UserError, match=r"has shape \[6, 32\], but the numbers of the model say \[5, 32\]"
    ):
        weight("Q8_0", (6, 32), data).split({"a": 5})
