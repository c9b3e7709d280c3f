# SPDX-License-Identifier: Apache-2.0
"""Small GGUF files of random weights, for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from decoder_blocks import SIZES, drawn

ALIGNMENT = 32


def value(of: Any) -> bytes:
    """A value of metadata: its kind, and its bytes."""
    if isinstance(of, bool):
        return struct.pack("<I?", 7, of)
    if isinstance(of, int):
        return struct.pack("<II", 4, of)
    if isinstance(of, float):
        return struct.pack("<If", 6, of)
    if isinstance(of, str):
        return struct.pack("<I", 8) + text(of)
    items = list(of)
    parts = [value(item) for item in items]
    kind = parts[0][:4] if parts else struct.pack("<I", 4)
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(items)) + b"".join(part[4:] for part in parts)


def text(of: str) -> bytes:
    raw = of.encode("utf-8", errors="surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def content(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], str, bytes]]) -> bytes:
    """A file: values by key, and for each tensor its shape, format and bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + value(of) for key, of in metadata.items())
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", SIZES[kind][2], len(data))
        data += raw + bytes(-len(raw) % ALIGNMENT)
    return head + bytes(-len(head) % ALIGNMENT) + data


#: The sizes of the models below; whole blocks of 256 elements.
WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, LAYERS = 256, 512, 4, 2, 64, 2
#: Which architecture has which of the optional weights.
BIASES = {"qwen2": ("q", "k", "v")}
QK_NORMS = ("qwen3", "gemma3")
POST_NORMS = ("gemma2", "gemma3")


def vocabulary() -> list[str]:
    """Tokens of a tokenizer of kind `llama`: three special ones, bytes, and some pieces."""
    pieces = ["\u2581", "a", "b", "c", "d", "e", "\u2581a", "ab", "abc", "\u2581ab", "de", "cde", "\u00e9"]
    return ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *pieces]


def model(
    architecture: str = "llama", kinds: Sequence[str] = ("F32",), seed: int = 0, **changes: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and tensors of a random model whose matrices have elements of these formats, in turns."""
    rng = np.random.default_rng(seed)
    tokens = vocabulary()
    a = architecture
    metadata: dict[str, Any] = {
        "general.architecture": a,
        f"{a}.context_length": 512,
        f"{a}.embedding_length": WIDTH,
        f"{a}.block_count": LAYERS,
        f"{a}.feed_forward_length": HIDDEN,
        f"{a}.attention.head_count": HEADS,
        f"{a}.attention.head_count_kv": KV_HEADS,
        f"{a}.attention.key_length": HEAD_SIZE,
        f"{a}.attention.value_length": HEAD_SIZE,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{a}.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(max(i - 258, 0)) for i in range(len(tokens))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    metadata |= changes
    tensors: dict[str, Any] = {}

    turns = cycle(kinds)

    def matrix(name: str, rows: int, columns: int, size: float = 0.06) -> None:
        of = next(turns)
        tensors[name] = ((rows, columns), of, drawn(rng, of, (rows, columns), size))

    def vector(name: str, size: int, around: float = 1.0) -> None:
        tensors[name] = ((size,), "F32", (around + 0.1 * rng.normal(size=size)).astype(np.float32).tobytes())

    matrix("token_embd.weight", len(tokens), WIDTH, size=0.5)
    vector("output_norm.weight", WIDTH)
    if not a.startswith("gemma"):
        matrix("output.weight", len(tokens), WIDTH)
    for i in range(LAYERS):
        at = f"blk.{i}."
        vector(at + "attn_norm.weight", WIDTH)
        vector(at + "ffn_norm.weight", WIDTH)
        if a == "phi3":
            matrix(at + "attn_qkv.weight", (HEADS + 2 * KV_HEADS) * HEAD_SIZE, WIDTH)
            matrix(at + "ffn_up.weight", 2 * HIDDEN, WIDTH)
        else:
            for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
                matrix(f"{at}attn_{part}.weight", heads * HEAD_SIZE, WIDTH)
                if part in BIASES.get(a, ()):
                    vector(f"{at}attn_{part}.bias", heads * HEAD_SIZE, 0.0)
            matrix(at + "ffn_gate.weight", HIDDEN, WIDTH)
            matrix(at + "ffn_up.weight", HIDDEN, WIDTH)
        matrix(at + "attn_output.weight", WIDTH, HEADS * HEAD_SIZE)
        matrix(at + "ffn_down.weight", WIDTH, HIDDEN)
        if a in QK_NORMS:
            vector(at + "attn_q_norm.weight", HEAD_SIZE)
            vector(at + "attn_k_norm.weight", HEAD_SIZE)
        if a in POST_NORMS:
            vector(at + "post_attention_norm.weight", WIDTH)
            vector(at + "post_ffw_norm.weight", WIDTH)
    return metadata, tensors


def written(path: Path, *of: Any, **changes: Any) -> Path:
    """The path, where a random model is now."""
    path.write_bytes(content(*model(*of, **changes)))
    return path
