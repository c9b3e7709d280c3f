# SPDX-License-Identifier: Apache-2.0
"""A decoder in NumPy, written from the description of the models: whole prompts, no cache, float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from decoder_blocks import decoded


def logits(metadata: Mapping[str, Any], tensors: Mapping[str, Any], tokens: Sequence[int]) -> np.ndarray:
    """[tokens, vocabulary] for one sequence."""
    a = metadata["general.architecture"]
    known = {key.removeprefix(f"{a}."): value for key, value in metadata.items()}
    w = {name: decoded(kind, raw, shape).astype(np.float64) for name, (shape, kind, raw) in tensors.items()}
    gemma = a.startswith("gemma")
    width, heads, shared = (
        known["embedding_length"],
        known["attention.head_count"],
        known["attention.head_count_kv"],
    )
    size = known["attention.key_length"]
    count = len(tokens)
    scaling, factor = (
        known.get("rope.scaling.type", "linear"),
        known.get("rope.scaling.factor", known.get("rope.scale_linear", 1.0)) or 1.0,
    )
    x = w["token_embd.weight"][np.asarray(tokens)] * (np.sqrt(width) if gemma else 1)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        if name not in w:
            return x
        mean = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + known["attention.layer_norm_rms_epsilon"]) * w[name]

    amplitude = known.get("rope.scaling.attn_factor", 1.0)
    if scaling == "yarn":
        amplitude *= 1 + 0.1 * np.log(factor)

    def ramp(i: int, turned: int) -> float:
        """How much of the factor of YaRN frequency i has: from those that turn `fast` times in the first context to those that turn `slow` times."""
        trained = known.get("rope.scaling.original_context_length", known["context_length"])
        fast, slow = known.get("rope.scaling.yarn_beta_fast", 32), known.get("rope.scaling.yarn_beta_slow", 1)
        low, high = (
            turned * np.log(trained / (turns * 2 * np.pi)) / (2 * np.log(known["rope.freq_base"]))
            for turns in (fast, slow)
        )
        low, high = max(np.floor(low), 0), min(np.ceil(high), turned - 1)
        return float(np.clip((i - low) / max(high - low, 0.001), 0, 1))

    def rotated(x: np.ndarray, base: float) -> np.ndarray:
        turned = known.get("rope.dimension_count", size)
        made = x.copy()
        for position in range(count):
            for i in range(turned // 2):
                angle = position * base ** (-2 * i / turned)
                if "rope_freqs.weight" in w:
                    angle /= w["rope_freqs.weight"][i]
                if scaling == "linear":
                    angle /= factor
                if scaling == "yarn":
                    angle *= 1 - ramp(i, turned) + ramp(i, turned) / factor
                p, q = (2 * i, 2 * i + 1) if a == "llama" else (i, i + turned // 2)
                cos, sin = amplitude * np.cos(angle), amplitude * np.sin(angle)
                made[position, :, p] = x[position, :, p] * cos - x[position, :, q] * sin
                made[position, :, q] = x[position, :, q] * cos + x[position, :, p] * sin
        return made

    for layer in range(known["block_count"]):
        at = f"blk.{layer}."
        y = norm(x, at + "attn_norm.weight")
        if at + "attn_qkv.weight" in w:
            q, k, v = np.split(
                y @ w[at + "attn_qkv.weight"].T, [heads * size, (heads + shared) * size], axis=-1
            )
        else:
            q, k, v = (y @ w[f"{at}attn_{p}.weight"].T + w.get(f"{at}attn_{p}.bias", 0) for p in "qkv")
        q, k, v = (
            q.reshape(count, heads, size),
            k.reshape(count, shared, size),
            v.reshape(count, shared, size),
        )
        near = {"gemma2": layer % 2 == 0, "gemma3": layer % 6 < 5, "phi3": True}.get(a, False)
        pattern = known.get("attention.sliding_window_pattern")
        if pattern is not None:
            near = pattern[layer] if isinstance(pattern, list) else layer % pattern < pattern - 1
        base = 10000.0 if a == "gemma3" and near else known["rope.freq_base"]
        q, k = norm(q, at + "attn_q_norm.weight"), norm(k, at + "attn_k_norm.weight")
        q, k = rotated(q, base), rotated(k, base)
        out = np.zeros_like(q)
        for h in range(heads):
            g = h // (heads // shared)
            scores = q[:, h] @ k[:, g].T / np.sqrt(size)
            if a == "gemma2":
                scores = 50 * np.tanh(scores / 50)
            for i in range(count):
                for j in range(count):
                    window = known.get("attention.sliding_window") if near else None
                    if j > i or (window and i - j >= window):
                        scores[i, j] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, h] = shares / shares.sum(-1, keepdims=True) @ v[:, g]
        y = out.reshape(count, heads * size) @ w[at + "attn_output.weight"].T + w.get(
            at + "attn_output.bias", 0
        )
        x = x + norm(y, at + "post_attention_norm.weight")
        y = norm(x, at + "ffn_norm.weight")
        if at + "ffn_gate.weight" in w:
            gate, up = (
                y @ w[f"{at}ffn_{p}.weight"].T + w.get(f"{at}ffn_{p}.bias", 0) for p in ("gate", "up")
            )
        else:
            gate, up = np.split(y @ w[at + "ffn_up.weight"].T, 2, axis=-1)
        if gemma:
            gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        y = (gate * up) @ w[at + "ffn_down.weight"].T + w.get(at + "ffn_down.bias", 0)
        x = x + norm(y, at + "post_ffw_norm.weight")
    made = norm(x, "output_norm.weight") @ w.get("output.weight", w["token_embd.weight"]).T
    return 30 * np.tanh(made / 30) if a == "gemma2" else made
