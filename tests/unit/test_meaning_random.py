# SPDX-License-Identifier: Apache-2.0
"""Random numbers: the published test vectors of Philox, and what the uniform and normal numbers look like."""

from __future__ import annotations

import math

import numpy as np
import pytest
from meaning_helpers import BF16, FLOATS, same, tensor, value

from ngmlir.ops import ng
from ngmlir.ops.meaning.random import philox, words

KEY = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543210], np.uint64)

#: Random123's known answers for philox4x32-10: counter, key, result.
KNOWN = (
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
)


def numbers(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_known_answers(counter: str, key: str, wanted: str) -> None:
    found = philox([np.uint64(n) for n in numbers(counter)], [np.uint64(n) for n in numbers(key)])
    assert [int(word) for word in found] == numbers(wanted)


def _philox_one(counter: list[int], key: list[int]) -> list[int]:
    """By Python's integers, one block."""
    for _ in range(10):
        a, b = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (b >> 32) ^ counter[1] ^ key[0],
            b & 0xFFFFFFFF,
            (a >> 32) ^ counter[3] ^ key[1],
            a & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def test_how_key_and_block_fill_the_counter() -> None:
    seed, stream = map(int, KEY)
    low = 0xFFFFFFFF
    wanted = [
        w
        for block in range(5)
        for w in _philox_one([block, 0, stream & low, stream >> 32], [seed & low, seed >> 32])
    ]
    assert words(KEY, 19).tolist() == wanted[:19]
    shaped = value(ng.RandomBitsOp, KEY, type=tensor((19,), np.uint32))
    assert shaped.tolist() == wanted[:19]


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (5, 3), (2, 0), (2, 3, 4)])
def test_bits_do_not_depend_on_the_shape(shape: tuple[int, ...]) -> None:
    found = value(ng.RandomBitsOp, KEY, type=tensor(shape, np.uint32))
    assert same(found, words(KEY, 64)[: math.prod(shape)].reshape(shape))


def test_another_seed_or_stream_gives_other_bits() -> None:
    first = words(KEY, 100)
    for change in (
        np.array([1, 0], np.uint64),
        np.array([0, 1], np.uint64),
        np.array([1 << 40, 0], np.uint64),
    ):
        assert (words(KEY + change, 100) == first).sum() <= 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform(dtype: np.dtype) -> None:
    bits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 32}[dtype.name]
    count = 40_000
    found = value(ng.RandomUniformOp, KEY, type=tensor((count,), dtype)).astype(np.float64)
    scaled = found * 2.0**bits
    assert (scaled == np.floor(scaled)).all()
    assert (scaled == words(KEY, count) >> (32 - bits)).all()
    assert found.min() >= 0
    assert found.max() < 1
    assert abs(found.mean() - 0.5) < 0.01
    assert np.abs(np.histogram(found, 16, (0, 1))[0] - count / 16).max() < 6 * math.sqrt(count / 16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal(dtype: np.dtype) -> None:
    count = 40_000
    found = value(ng.RandomNormalOp, KEY, type=tensor((count,), dtype)).astype(np.float64)
    assert np.isfinite(found).all()
    assert abs(found.mean()) < 0.02
    assert abs(found.std() - 1) < 0.02
    assert abs((found**3).mean()) < 0.06
    assert abs((found**4).mean() - 3) < 0.15
    bits = 32 if dtype == np.float64 else 24
    u, v = (words(KEY, 2 * count).reshape(-1, 2) >> np.uint32(32 - bits)).T.astype(np.float64)
    wanted = np.sqrt(-2 * np.log((u + 1) / 2.0**bits)) * np.cos(2 * np.pi * v / 2.0**bits)
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-50}[dtype.name]
    assert (np.abs(found - wanted) <= step * np.maximum(np.abs(wanted), 0.1)).all()
    assert value(ng.RandomNormalOp, KEY, type=tensor((), BF16)).shape == ()
