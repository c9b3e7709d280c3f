# SPDX-License-Identifier: Apache-2.0
"""Decoders against NumPy: whole prompts, tokens one by one, several sequences, caches that grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import decoder_reference
import gguf_files
import numpy as np
import pytest
from decoder_blocks import SIZES

import ngmlir as ng
from ngmlir.frontends import gguf
from ngmlir.frontends.decoders.model import LanguageModel
from ngmlir.frontends.gguf.architectures import ARCHITECTURES as KNOWN
from ngmlir.frontends.gguf.architectures import _Metadata
from ngmlir.frontends.gguf.container import Container

TOKENS = np.random.default_rng(5).integers(0, 270, 21).tolist()
ARCHITECTURES = ("llama", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3")
WINDOWS = ("phi3", "gemma2", "gemma3")


def near(made: Any, wanted: Any) -> None:
    assert np.abs(made - wanted).max() < 1e-5 * max(1.0, float(np.abs(wanted).max()))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageModel]:
    yield gguf.load(gguf_files.written(tmp_path_factory.mktemp("gguf") / "small.gguf", "llama", ("Q4_0",)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_architectures(architecture: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = (
        {f"{architecture}.attention.sliding_window": 7} if architecture in WINDOWS else {}
    )
    metadata, tensors = gguf_files.model(architecture, **changes)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.content(metadata, tensors))
    model = gguf.load(path)
    wanted = decoder_reference.logits(metadata, tensors, TOKENS)
    near(model.logits(TOKENS), wanted)
    session = model.session()
    for i, token in enumerate(TOKENS):
        near(session.feed([[token]])[0], wanted[i])


def test_all_formats_and_scaled_positions(tmp_path: Path) -> None:
    kinds = [name for name in SIZES if name != "F32"]
    changes: dict[str, Any] = {
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 2.0,
        "llama.rope.dimension_count": 32,
    }
    metadata, tensors = gguf_files.model("llama", kinds, 3, **changes)
    factors = np.linspace(1, 4, 16).astype(np.float32)
    tensors["rope_freqs.weight"] = ((16,), "F32", factors.tobytes())
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.content(metadata, tensors))
    assert {kind for _, kind, _ in tensors.values()} == {*SIZES}
    model = gguf.load(path)
    near(model.logits(TOKENS), decoder_reference.logits(metadata, tensors, TOKENS))


@pytest.mark.parametrize(
    "changes",
    [
        {"scaling.type": "none", "scaling.factor": 2.0},
        {"scaling.factor": 0.0},
        {"scaling.factor": 3.0},
        {"scale_linear": 3.0},
        {"scaling.type": "linear", "scaling.factor": 4.0, "scaling.attn_factor": 1.25},
        {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 128},
        {"scaling.type": "yarn", "scaling.factor": 16.0, "dimension_count": 48, "freq_base": 5e5},
        {"scaling.type": "yarn", "scaling.factor": 8.0, "scaling.attn_factor": 0.75, "scaling.original_context_length": 64,
         "scaling.yarn_beta_fast": 16.0, "scaling.yarn_beta_slow": 2.0, "freqs": True},
    ],
)  # fmt: skip
def test_scaled_positions(changes: dict[str, Any], tmp_path: Path) -> None:
    factors = changes.get("freqs")
    named = {f"llama.rope.{key}": value for key, value in changes.items() if key != "freqs"}
    metadata, tensors = gguf_files.model("llama", seed=4, **named)
    if factors:
        tensors["rope_freqs.weight"] = ((32,), "F32", np.linspace(1, 4, 32).astype(np.float32).tobytes())
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.content(metadata, tensors))
    near(gguf.load(path).logits(TOKENS), decoder_reference.logits(metadata, tensors, TOKENS))


def test_biases_of_all_products(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model("llama", seed=6)
    draw = np.random.default_rng(9)
    for layer in range(gguf_files.LAYERS):
        for part in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            (rows, _), _, _ = tensors[f"blk.{layer}.{part}.weight"]
            bias = draw.normal(size=rows).astype(np.float32)
            tensors[f"blk.{layer}.{part}.bias"] = ((rows,), "F32", bias.tobytes())
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.content(metadata, tensors))
    near(gguf.load(path).logits(TOKENS), decoder_reference.logits(metadata, tensors, TOKENS))


@pytest.mark.parametrize("pattern", [2, [True, False], [False, False]])
def test_windows_as_the_file_says(pattern: Any, tmp_path: Path) -> None:
    changes = {"gemma3.attention.sliding_window": 5, "gemma3.attention.sliding_window_pattern": pattern}
    metadata, tensors = gguf_files.model("gemma3", seed=2, **changes)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.content(metadata, tensors))
    near(gguf.load(path).logits(TOKENS), decoder_reference.logits(metadata, tensors, TOKENS))
    path.unlink()
    path.write_bytes(
        gguf_files.content(metadata | {"gemma3.attention.sliding_window_pattern": [True]}, tensors)
    )
    with pytest.raises(
        ng.UserError, match="2 layers, and 1 numbers in gemma3.attention.sliding_window_pattern"
    ):
        gguf.load(path)


@pytest.mark.parametrize(
    ("architecture", "layers", "own"), [("gemma2", 46, True), ("gemma3", 62, True), ("gemma3", 48, False)]
)
def test_scale_of_the_large_models(architecture: str, layers: int, own: bool, tmp_path: Path) -> None:
    a = architecture
    changes: dict[str, Any] = {f"{a}.block_count": layers, f"{a}.attention.head_count": 2, f"{a}.attention.key_length": 32,
                               f"{a}.attention.value_length": 32}  # fmt: skip
    path = gguf_files.written(tmp_path / "model.gguf", a, **changes)
    config = _Metadata(Container(path), a, KNOWN[a]).config()
    assert config.scale == 1 / np.sqrt(gguf_files.WIDTH / 2 if own else 32)


def test_prompts_in_parts_give_what_whole_prompts_give(small: LanguageModel) -> None:
    wanted = small.logits(TOKENS)
    for parts in ((21,), (20, 1), (1, 20), (3, 17, 1), (2, 2, 17), (7, 7, 7), (16, 5), (6, 15)):
        session, at = small.session(), 0
        for count in parts:
            made = session.feed([TOKENS[at : at + count]])
            at += count
            near(made[0], wanted[at - 1])
        assert session.lengths == [21]


def test_sequences_of_different_lengths_give_what_single_ones_give(small: LanguageModel) -> None:
    prompts = [TOKENS[:5], TOKENS[5:16], TOKENS[16:17]]
    session = small.session(3)
    made = session.feed(prompts)
    for row, prompt in zip(made, prompts, strict=True):
        near(row, small.logits(prompt)[-1])
    for more in ([[1], [2], [3]], [[4, 5, 6], [7], []], [[8], [], [9, 10]]):
        prompts = [a + b for a, b in zip(prompts, more, strict=True)]
        made = session.feed(more)
        for row, prompt, new in zip(made, prompts, more, strict=True):
            near(row, small.logits(prompt)[-1] if new else np.zeros_like(row))
    assert session.lengths == [len(p) for p in prompts] and session.tokens == prompts


def test_programs_serve_all_lengths(small: LanguageModel) -> None:
    draw = np.random.default_rng(7)
    before = small.programs().compiled
    for length in (1, 2, 3, 5, 17, 64, 65, 100, 128, 131, 300):
        session = small.session()
        prompt = draw.integers(0, 270, length).tolist()
        first = session.feed([prompt])
        assert np.isfinite(first).all() and session.cache.rows >= length
        for _ in range(3):
            session.feed([[1]])
    assert small.programs().compiled - before <= 2  # for single tokens and for prompts


def test_caches_grow_and_keep_what_they_hold(small: LanguageModel) -> None:
    tokens = np.random.default_rng(8).integers(0, 270, 346).tolist()
    wanted = small.logits(tokens)
    session = small.session()
    session.feed([tokens[:60]])
    assert session.cache.rows == 64
    session.feed([tokens[60:70]])
    assert session.cache.rows == 128
    near(session.feed([tokens[70:]])[0], wanted[-1])
    rows = session.cache.rows
    assert len(tokens) <= rows <= len(tokens) * 1.125 + 64
    assert session.cache.nbytes == 2 * 2 * 2 * 64 * rows * 4


def test_forgetting_tokens(small: LanguageModel) -> None:
    session = small.session()
    session.feed([TOKENS])
    session.cut(9)
    assert session.tokens == [TOKENS[:9]]
    near(session.feed([TOKENS[9:12]])[0], small.logits(TOKENS[:12])[-1])
    session.cut(0)
    near(session.feed([TOKENS[3:8]])[0], small.logits(TOKENS[3:8])[-1])
    several = small.session(2)
    several.feed([TOKENS[:4], TOKENS[:11]])
    several.cut(6)
    made = several.feed([TOKENS[4:7], TOKENS[6:7]])
    near(made[0], small.logits(TOKENS[:7])[-1])
    near(made[1], small.logits(TOKENS[:7])[-1])


def test_what_is_fed_is_checked_before_anything_changes(small: LanguageModel) -> None:
    session = small.session(context=8)
    session.feed([[1, 2, 3]])
    wrong: list[tuple[Any, str]] = [
        ([[1, 272]], "272 is no token of the model"),
        ([[-1]], "-1 is no token of the model"),
        ([[1.5]], "are not a list of whole numbers"),
        ([[[1]]], "are not a list of whole numbers"),
        ([[1], [2]], "tokens of 2 sequences were given, but the session has 1"),
        ([[1] * 6], "9 tokens are more than the context of 8"),
        ([[]], "at least one token"),
    ]
    for tokens, message in wrong:
        with pytest.raises(ng.UserError, match="(?s)" + message):
            session.feed(tokens)
    assert session.tokens == [[1, 2, 3]]
    near(session.feed([[4] * 5])[0], small.logits([1, 2, 3, *[4] * 5])[-1])
    with pytest.raises(ng.UserError, match="at least one token"):
        small.session(2).feed([[1], []])
    for context in (0, -1, True, 2.5):
        with pytest.raises(ng.UserError, match="context is"):
            small.session(context=context)  # pyright: ignore[reportArgumentType]
    for count in (0, -3, True):
        with pytest.raises(ng.UserError, match="sequences"):
            small.session(count)


def test_threads_leave_the_bits_as_they_are(tmp_path: Path) -> None:
    path = gguf_files.written(tmp_path / "model.gguf", "qwen2", ("Q8_0",))
    made = [gguf.load(path, threads=threads) for threads in (1, 2)]
    found: list[Any] = []
    for model in made:
        session = model.session()
        found.append([session.feed([TOKENS]).tobytes(), session.feed([[5]]).tobytes()])
    assert found[0] == found[1]
