# SPDX-License-Identifier: Apache-2.0
"""What the random ops mean: Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir.core import Op
from ...ir.literals import dtype_of
from ...ir.types import shape_of
from .numbers import Array, is_half

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
#: How many of a word's upper bits a uniform number takes: as many as the type holds exactly.
UNIFORM_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 32}
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: Sequence[Array], key: Sequence[Array]) -> tuple[Array, ...]:
    """Four words out of four counter words and two key words (each an array of uint64 below 2^32)."""
    (a, b, c, d), (k, l) = counter, key
    for _ in range(ROUNDS):
        first, second = a * np.uint64(MULTIPLIERS[0]), c * np.uint64(MULTIPLIERS[1])
        a, b, c, d = (second >> _HALF) ^ b ^ k, second & _LOW, (first >> _HALF) ^ d ^ l, first & _LOW
        k, l = (k + np.uint64(WEYL[0])) & _LOW, (l + np.uint64(WEYL[1])) & _LOW
    return a, b, c, d


def words(key: Array, count: int) -> Array:
    """The first `count` words of stream key[1] under the seed key[0]."""
    block = np.arange(-(-count // 4), dtype=np.uint64)
    seed, stream = key[0], np.broadcast_to(key[1], block.shape)
    counter = (block & _LOW, block >> _HALF, stream & _LOW, stream >> _HALF)
    found = philox(counter, (seed & _LOW, seed >> _HALF))
    return np.stack(found, axis=-1).reshape(-1)[:count].astype(np.uint32)


def random_bits(op: Op, arrays: Sequence[Array]) -> Any:
    shape = shape_of(op.result.type)
    return words(arrays[0], prod(shape)).reshape(shape)


def random_uniform(op: Op, arrays: Sequence[Array]) -> Any:
    shape, dtype = shape_of(op.result.type), dtype_of(op.result.type)
    bits = UNIFORM_BITS[dtype.name]
    found = words(arrays[0], prod(shape)).reshape(shape)
    return ((found >> np.uint32(32 - bits)).astype(np.float64) * 2.0**-bits).astype(dtype)


def random_normal(op: Op, arrays: Sequence[Array]) -> Any:
    shape, dtype = shape_of(op.result.type), dtype_of(op.result.type)
    computed = np.dtype(np.float32) if is_half(dtype) else dtype
    bits = UNIFORM_BITS[computed.name]
    pairs = words(arrays[0], 2 * prod(shape)).reshape((*shape, 2)) >> np.uint32(32 - bits)
    # One is added so that the logarithm never sees zero.
    radius = np.sqrt(-2 * np.log((pairs[..., 0].astype(np.float64) + 1) * 2.0**-bits))
    angle = 2 * np.pi * (pairs[..., 1].astype(np.float64) * 2.0**-bits)
    return (radius * np.cos(angle)).astype(computed).astype(dtype)


RANDOM = {
    "ng.random_bits": random_bits,
    "ng.random_uniform": random_uniform,
    "ng.random_normal": random_normal,
}
