# SPDX-License-Identifier: Apache-2.0
"""A language model that is made by hand, written to a GGUF file, read again, and asked to go on.

It knows the letters and goes on in the alphabet. Its one layer adds nothing, so that the logits of a letter are its embedding times the matrix
`output`, which has the embedding of each letter in the row of the one that follows.

./run python examples/language_model.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ngmlir.frontends import gguf

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WIDTH, HIDDEN, HEADS = 64, 64, 2


def metadata() -> dict[str, Any]:
    """What the file says about the model and its tokens."""
    tokens = ["<unk>", "<s>", "</s>", *LETTERS]
    return {
        "general.architecture": "llama",
        "llama.context_length": 256,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": [2, 3, 3] + [1] * len(LETTERS),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_space_prefix": False,
    }


def tensors(draw: np.random.Generator) -> dict[str, np.ndarray]:
    """The weights by name."""
    count = 3 + len(LETTERS)
    embedding = draw.choice([-1.0, 1.0], (count, WIDTH)).astype(np.float32)
    output = np.zeros((count, WIDTH), np.float32)
    output[4:] = embedding[3:-1]  # b after a
    output[2] = embedding[-1]  # the end after z
    ones, square, none = (
        np.ones(WIDTH, np.float32),
        np.eye(WIDTH, dtype=np.float32),
        np.zeros((WIDTH, WIDTH), np.float32),
    )
    layer = {"attn_norm": ones, "attn_q": square, "attn_k": square, "attn_v": square, "attn_output": none}
    layer |= {"ffn_norm": ones, "ffn_gate": square, "ffn_up": square, "ffn_down": none}
    named = {f"blk.0.{name}.weight": array for name, array in layer.items()}
    return {"token_embd.weight": embedding, "output_norm.weight": ones, "output.weight": output, **named}


def main(path: Path | None = None, prompt: str = "abc") -> str:
    """What the model writes after a prompt."""
    with tempfile.TemporaryDirectory() as folder:
        file = path or Path(folder) / "alphabet.gguf"
        gguf.write(file, metadata(), tensors(np.random.default_rng(0)))
        model = gguf.load(file)
        written: list[str] = []
        sys.stdout.write(prompt)
        for text in model.generate(prompt, max_tokens=40):
            sys.stdout.write(text)
            written.append(text)
        sys.stdout.write("\n")
    return "".join(written)


if __name__ == "__main__":
    main()
