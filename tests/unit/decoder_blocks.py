# SPDX-License-Identifier: Apache-2.0
"""Blocks of weights, element by element: what the description of each format says, for tests."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

#: Format -> elements and bytes of a block, and the number that GGUF files have for it.
SIZES = {
    "F32": (1, 4, 0), "F16": (1, 2, 1), "BF16": (1, 2, 30), "Q4_0": (32, 18, 2), "Q4_1": (32, 20, 3), "Q5_0": (32, 22, 6),
    "Q5_1": (32, 24, 7), "Q8_0": (32, 34, 8), "Q2_K": (256, 84, 10), "Q3_K": (256, 110, 11), "Q4_K": (256, 144, 12), "Q5_K": (256, 176, 13), "Q6_K": (256, 210, 14),
    "IQ4_NL": (32, 18, 20), "IQ4_XS": (256, 136, 23),
}  # fmt: skip
#: Where f16 scales are in a block.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}  # fmt: skip


def drawn(rng: np.random.Generator, name: str, shape: tuple[int, ...], size: float = 0.1) -> bytes:
    """Random bytes of a tensor whose elements are about as large as `size`."""
    elements, bytes_, _ = SIZES[name]
    count = int(np.prod(shape)) // elements
    if elements == 1:
        plain = (rng.normal(size=shape) * size).astype(np.float32)
        if name == "F32":
            return plain.tobytes()
        if name == "F16":
            return plain.astype(np.float16).tobytes()
        return (plain.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    blocks = rng.integers(0, 256, (count, bytes_)).astype(np.uint8)
    greatest = {
        "Q4_0": 8,
        "Q4_1": 8,
        "Q5_0": 16,
        "Q5_1": 16,
        "Q8_0": 64,
        "Q2_K": 40,
        "Q3_K": 100,
        "Q4_K": 400,
        "Q5_K": 900,
        "Q6_K": 2000,
        "IQ4_NL": 64,
        "IQ4_XS": 2000,
    }
    for at in SCALES[name]:
        scales = (rng.normal(size=count) * size / greatest[name]).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks.tobytes()


def decoded(name: str, data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of a tensor, f32."""
    elements, size, _ = SIZES[name]
    if name == "F32":
        return np.frombuffer(data, np.float32).reshape(shape).copy()
    if name == "F16":
        return np.frombuffer(data, np.float16).astype(np.float32).reshape(shape)
    if name == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    made = [x for at in range(0, len(data), size) for x in _BLOCKS[name](data[at : at + size])]
    assert len(made) == len(data) // size * elements
    return np.array(made, np.float32).reshape(shape)


def _half(block: bytes, at: int) -> Any:
    return np.float32(struct.unpack_from("<e", block, at)[0])


def _nibble(codes: bytes, i: int) -> int:
    return codes[i] & 15 if i < 16 else codes[i - 16] >> 4


def _q4_0(block: bytes) -> list[Any]:
    return [(_nibble(block[2:], i) - 8) * _half(block, 0) for i in range(32)]


def _q4_1(block: bytes) -> list[Any]:
    return [_nibble(block[4:], i) * _half(block, 0) + _half(block, 2) for i in range(32)]


def _q5_0(block: bytes) -> list[Any]:
    high = int.from_bytes(block[2:6], "little")
    return [((_nibble(block[6:], i) | (high >> i & 1) << 4) - 16) * _half(block, 0) for i in range(32)]


def _q5_1(block: bytes) -> list[Any]:
    high = int.from_bytes(block[4:8], "little")
    return [
        (_nibble(block[8:], i) | (high >> i & 1) << 4) * _half(block, 0) + _half(block, 2) for i in range(32)
    ]


def _q8_0(block: bytes) -> list[Any]:
    return [struct.unpack_from("b", block, 2 + i)[0] * _half(block, 0) for i in range(32)]


def _two_bits(codes: bytes, i: int) -> int:
    return codes[32 * (i // 128) + i % 32] >> 2 * (i % 128 // 32) & 3


def _q2_k(block: bytes) -> list[Any]:
    return [
        (_half(block, 80) * np.float32(block[i // 16] & 15)) * np.float32(_two_bits(block[16:], i))
        - _half(block, 82) * np.float32(block[i // 16] >> 4)
        for i in range(256)
    ]


def _q3_k(block: bytes) -> list[Any]:
    made: list[Any] = []
    for i in range(256):
        part = i // 16
        low = block[96 + part % 8] >> 4 * (part // 8) & 15
        scale = (low | (block[104 + part % 4] >> 2 * (part // 4) & 3) << 4) - 32
        code = _two_bits(block[32:], i) - (0 if block[i % 32] >> (i // 32) & 1 else 4)
        made.append((_half(block, 108) * np.float32(scale)) * np.float32(code))
    return made


def _scale_and_minimum(packed: bytes, j: int) -> tuple[int, int]:
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    return (
        (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4,
        (packed[j + 4] >> 4) | (packed[j] >> 6) << 4,
    )


def _k_blocks(block: bytes, codes: list[int]) -> list[Any]:
    made: list[Any] = []
    for i, code in enumerate(codes):
        scale, minimum = _scale_and_minimum(block[4:16], i // 32)
        made.append(
            (_half(block, 0) * np.float32(scale)) * np.float32(code) - _half(block, 2) * np.float32(minimum)
        )
    return made


def _four_bits(codes: bytes) -> list[int]:
    return [
        codes[32 * chunk + i] & 15 if half == 0 else codes[32 * chunk + i] >> 4
        for chunk in range(4)
        for half in range(2)
        for i in range(32)
    ]


def _q4_k(block: bytes) -> list[Any]:
    return _k_blocks(block, _four_bits(block[16:]))


def _q5_k(block: bytes) -> list[Any]:
    high = block[16:48]
    return _k_blocks(
        block, [code | (high[i % 32] >> (i // 32) & 1) << 4 for i, code in enumerate(_four_bits(block[48:]))]
    )


def _q6_k(block: bytes) -> list[Any]:
    low, high, scales = block[:128], block[128:192], struct.unpack_from("16b", block, 192)
    made: list[Any] = [0] * 256
    for n in range(2):
        for i in range(32):
            top = high[32 * n + i]
            for part in range(4):
                byte = low[64 * n + 32 * (part % 2) + i]
                code = (byte & 15 if part < 2 else byte >> 4) | (top >> 2 * part & 3) << 4
                scale = scales[8 * n + i // 16 + 2 * part]
                made[128 * n + 32 * part + i] = _half(block, 208) * np.float32(scale) * np.float32(code - 32)
    return made


_UNEVEN = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def _iq4_nl(block: bytes) -> list[Any]:
    return [np.float32(_UNEVEN[_nibble(block[2:], i)]) * _half(block, 0) for i in range(32)]


def _iq4_xs(block: bytes) -> list[Any]:
    high = int.from_bytes(block[2:4], "little")
    made: list[Any] = []
    for i in range(256):
        part = i // 32
        scale = (block[4 + part // 2] >> 4 * (part % 2) & 15 | (high >> 2 * part & 3) << 4) - 32
        code = _nibble(block[8 + 16 * part :], i % 32)
        made.append(np.float32(_UNEVEN[code]) * (_half(block, 0) * np.float32(scale)))
    return made


_BLOCKS = {
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0, "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs,
}  # fmt: skip
