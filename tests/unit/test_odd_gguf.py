# SPDX-License-Identifier: Apache-2.0
"""GGUF files as converters other than llama.cpp's write them, and damaged ones: read as llama.cpp reads them, or refused by name."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import decoder_reference
import gguf_files
import numpy as np
import pytest

import ngmlir as ng
from ngmlir.frontends import gguf
from ngmlir.frontends.gguf.container import Container

TOKENS = np.random.default_rng(5).integers(0, 270, 12).tolist()
INFINITE, NAN = float("inf"), float("nan")


class Stored(bytes):
    """A value of metadata as it is in a file."""


def signed(of: int) -> Stored:
    return Stored(struct.pack("<Ii", 5, of))


def long(of: int) -> Stored:
    return Stored(struct.pack("<IQ", 10, of))


def double(of: float) -> Stored:
    return Stored(struct.pack("<Id", 12, of))


@pytest.fixture(autouse=True)
def stored_values(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gguf_files.value
    monkeypatch.setattr(gguf_files, "value", lambda of: of if isinstance(of, Stored) else plain(of))


def loaded(folder: Path, metadata: Any, tensors: Any, **how: Any) -> Any:
    path = folder / "odd.gguf"
    path.unlink(missing_ok=True)
    path.write_bytes(gguf_files.content(metadata, tensors))
    return gguf.load(path, **how)


def refused(folder: Path, metadata: Any, tensors: Any, message: str, kind: Any = ng.UserError) -> None:
    """The file is named, and what to do is said."""
    with pytest.raises(kind, match=f"(?s)odd.gguf.*{message}.*\nhint: "):
        loaded(folder, metadata, tensors)


def without(of: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in of.items() if name not in names}


def same(one: Any, other: Any) -> bool:
    return one.config == other.config


def test_numbers_that_a_file_may_leave_out(tmp_path: Path) -> None:
    a = "llama."
    metadata, tensors = gguf_files.model(
        **{f"{a}rope.dimension_count": 64, f"{a}attention.head_count_kv": 4, f"{a}vocab_size": 272}
    )
    keys = gguf_files.HEADS * gguf_files.HEAD_SIZE
    for part in "kv":
        for layer in range(gguf_files.LAYERS):
            raw = np.random.default_rng(layer).normal(size=(keys, gguf_files.WIDTH)).astype(np.float32)
            tensors[f"blk.{layer}.attn_{part}.weight"] = ((keys, gguf_files.WIDTH), "F32", raw.tobytes())
    whole = loaded(tmp_path, metadata, tensors)
    optional = [f"{a}{key}" for key in ("rope.dimension_count", "rope.freq_base", "attention.head_count_kv", "attention.key_length",
                                         "attention.value_length", "vocab_size")]  # fmt: skip
    for keys_left_out in (*([key] for key in optional), optional):
        assert same(loaded(tmp_path, without(metadata, *keys_left_out), tensors), whole)
    for key in (
        "general.architecture",
        *(f"{a}{key}" for key in ("context_length", "embedding_length", "block_count", "feed_forward_length",
                                  "attention.head_count", "attention.layer_norm_rms_epsilon")),
    ):  # fmt: skip
        refused(tmp_path, without(metadata, key), tensors, f"(has no|lacks) {key}")


def test_a_number_for_each_layer(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    whole = loaded(tmp_path, metadata, tensors)
    for key, value in (("attention.head_count", gguf_files.HEADS), ("attention.head_count_kv", gguf_files.KV_HEADS),
                       ("feed_forward_length", gguf_files.HIDDEN)):  # fmt: skip
        key = f"llama.{key}"
        assert same(loaded(tmp_path, metadata | {key: [value] * gguf_files.LAYERS}, tensors), whole)
        refused(tmp_path, metadata | {key: [value, 1]}, tensors, f"layers with different {key}", ng.Limit)
        for other in ([], [value] * 3):
            refused(tmp_path, metadata | {key: other}, tensors, f"{len(other)} numbers in {key}, not one for")
        refused(tmp_path, metadata | {key: ["4", "4"]}, tensors, "not of type int")
    refused(tmp_path, metadata | {"llama.block_count": [2, 2]}, tensors, "2 numbers in llama.block_count")


def test_tied_embeddings(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model("llama", ("Q4_0",))
    tied = without(tensors, "output.weight")
    model = loaded(tmp_path, metadata, tied)
    wanted = decoder_reference.logits(metadata, tied | {"output.weight": tied["token_embd.weight"]}, TOKENS)
    assert np.abs(model.logits(TOKENS) - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("architecture", "named"), [("llama", True), ("phi3", False)])
def test_factors_for_short_and_for_long_contexts(architecture: str, named: bool, tmp_path: Path) -> None:
    a = f"{architecture}.rope."
    changes: dict[str, Any] = {
        f"{a}scaling.original_context_length": 128, f"{a}scaling.attn_factor": 1.19, f"{a}dimension_count": 32,
    }  # fmt: skip
    if named:
        changes |= {f"{a}scaling.type": "longrope", f"{a}scaling.factor": 4.0}
    metadata, tensors = gguf_files.model(architecture, **changes)
    factors = {"short": np.linspace(1, 1.5, 16), "long": np.linspace(1, 9, 16)}
    stored = {part: ((16,), "F32", of.astype(np.float32).tobytes()) for part, of in factors.items()}
    both = {f"rope_factors_{part}.weight": factor for part, factor in stored.items()}
    for part, context in (("long", None), ("short", 64)):
        made = loaded(tmp_path, metadata, tensors | both, context=context).logits(TOKENS)
        wanted = decoder_reference.logits(metadata, tensors | {"rope_freqs.weight": stored[part]}, TOKENS)
        assert np.abs(made - wanted).max() < 1e-5 * np.abs(wanted).max()
    for part, context in (("long", 129), ("short", 128)):
        rotation = loaded(tmp_path, metadata, tensors | both, context=context).config.layers[0].rotation
        assert np.array_equal(np.float32(rotation.factors), np.float32(factors[part]))
    long = "rope_factors_long.weight"
    refused(tmp_path, metadata, tensors | without(both, long), f"no tensor {long}")
    refused(tmp_path, metadata, tensors | both | {long: ((8,), "F32", bytes(32))}, "not 16 elements of F32")
    refused(tmp_path, metadata, tensors | both | {long: ((16,), "F32", bytes(64))}, "not finite")


def test_numbers_of_other_types(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    values = (
        "x",
        True,
        ["a", "b"],
        [[1], [2]],
        signed(-1),
        long((1 << 64) - 1),
        NAN,
        INFINITE,
        double(1e308),
    )
    for key in ("embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
                "attention.key_length", "context_length", "rope.dimension_count", "expert_count"):  # fmt: skip
        for value in values:
            with pytest.raises((ng.UserError, ng.Limit)) as error:
                loaded(tmp_path, metadata | {f"llama.{key}": value}, tensors)
            assert "odd.gguf" in str(error.value) and len(str(error.value)) < 500
    for key in (
        "rope.freq_base",
        "rope.scaling.factor",
        "attention.layer_norm_rms_epsilon",
        "attention.scale",
    ):
        for value in ("x", True, ["a"], [[1]], signed(-1), NAN, INFINITE, double(1e308)):
            refused(tmp_path, metadata | {f"llama.{key}": value}, tensors, "")
    refused(tmp_path, metadata | {"general.architecture": ["llama"]}, tensors, "no general.architecture")
    metadata, tensors = gguf_files.model("phi3")
    for window in (signed(-5), 1 << 31):
        refused(tmp_path, metadata | {"phi3.attention.sliding_window": window}, tensors, "attends to")


def test_numbers_of_yarn(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model(
        **{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0}
    )
    tracemalloc.start()
    for size in (signed(-2), 1 << 31, long(1 << 40)):
        refused(tmp_path, metadata | {"llama.rope.dimension_count": size}, tensors, "elements")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20  # the file has 9 MB, which the test itself puts together
    for key, values in {
        "freq_base": (0.5, NAN, INFINITE),
        "scaling.factor": (-1.0, INFINITE, double(1e308)),
        "scaling.yarn_beta_fast": (0.5, INFINITE, double(1e308)),
        "scaling.yarn_beta_slow": (0.0, -1.0, 99.0, NAN),
        "scaling.original_context_length": (0, signed(-1), 1.5),
    }.items():
        for value in values:
            refused(tmp_path, metadata | {f"llama.rope.{key}": value}, tensors, "")
    loaded(tmp_path, metadata | {"llama.rope.scaling.yarn_beta_slow": double(5e-324)}, tensors)


def test_vocabularies(tmp_path: Path) -> None:
    t = "tokenizer.ggml."
    metadata, tensors = gguf_files.model()
    plain = loaded(tmp_path, metadata, tensors).encode("ab c")
    usual = loaded(
        tmp_path, without(metadata, *(f"{t}{key}" for key in ("bos_token_id", "eos_token_id"))), tensors
    )
    assert usual.encode("ab c") == plain and plain[0] == 1
    assert usual.tokenizer.vocabulary.stops == {2} and usual.tokenizer.vocabulary.unknown == 0
    bare = loaded(tmp_path, metadata | {f"{t}add_bos_token": False, f"{t}add_eos_token": True}, tensors)
    assert bare.encode("ab c") == [*plain[1:], 2]
    added = [2, 3, 3, *[6] * 256, *[1] * 12, 4]
    found = loaded(tmp_path, metadata | {f"{t}token_type": added}, tensors)
    assert 271 in found.encode("a\u00e9")
    assert 2 in found.encode("a</s>") and 2 not in found.tokenizer.encode("a</s>", special=False)
    for none in ("none", "no_vocab"):
        silent = loaded(tmp_path, without(metadata | {f"{t}model": none}, f"{t}tokens"), tensors)
        assert silent.tokenizer is None
        with pytest.raises(ng.UserError, match="no tokenizer"):
            silent.encode("a")
    for changes, message in (
        ({f"{t}model": ["llama"]}, "model = .*not of type str"),
        ({f"{t}tokens": 7}, "a tokenizer without tokens"),
        ({f"{t}tokens": []}, "a tokenizer without tokens"),
        ({f"{t}scores": "x"}, "no score for each"),
        ({f"{t}scores": [NAN] * 272}, "not finite"),
        ({f"{t}token_type": ["x"] * 272}, "not a type for each"),
        ({f"{t}bos_token_id": signed(-1)}, "-1 for tokenizer.ggml.bos_token_id"),
        ({f"{t}eos_token_id": True}, "True for tokenizer.ggml.eos_token_id"),
        ({f"{t}unknown_token_id": [1, 2]}, "for tokenizer.ggml.unknown_token_id"),
        ({f"{t}add_bos_token": "false"}, "add_bos_token = 'false', not of type bool"),
        ({f"{t}add_space_prefix": [True, False]}, "add_space_prefix = .*not of type bool"),
        ({f"{t}model": "gpt2", f"{t}merges": ["a b"], f"{t}pre": 1}, "pre = 1, not of type str"),
        ({f"{t}model": "gpt2", f"{t}merges": [1, 2]}, "without merges"),
    ):
        refused(tmp_path, metadata | changes, tensors, message)
    refused(tmp_path, without(metadata, f"{t}scores"), tensors, "no score for each")
    refused(tmp_path, metadata | {f"{t}model": "bert"}, tensors, "kind 'bert'", ng.Limit)


def test_alignments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for alignment in (8, 24, 64, 4096):  # multiples of 8, as the format's description says
        monkeypatch.setattr(gguf_files, "ALIGNMENT", alignment)
        metadata, tensors = gguf_files.model("llama", ("Q4_0",), **{"general.alignment": alignment})
        model = loaded(tmp_path, metadata, tensors)
        assert bytes(model.weights.embedding.data) == tensors["token_embd.weight"][2]
    for value in ("x", 0, 4, 12, True, [32], signed(-8), 1 << 30, 24.0):
        refused(tmp_path, {"general.alignment": value}, {}, "damaged GGUF file: general.alignment is")


def test_tensors_that_are_damaged(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    content = gguf_files.content(metadata, tensors)
    path = tmp_path / "odd.gguf"

    def changed(name: str, place: int, code: str, value: int) -> None:
        """A number behind the name of a tensor: its rank, its lengths, its type, its first byte."""
        at = content.index(name.encode()) + len(name) + place
        path.unlink(missing_ok=True)
        path.write_bytes(
            content[:at] + struct.pack("<" + code, value) + content[at + struct.calcsize(code) :]
        )

    def fails(message: str, kind: Any = ng.UserError) -> None:
        with pytest.raises(kind, match=f"(?s)odd.gguf.*{message}.*\nhint: "):
            gguf.load(path)

    name = "blk.0.attn_q.weight"
    changed(name, 4, "Q", 0)
    fails(f"'{name}' has the shape")
    changed(name, 4, "Q", 1 << 62)
    fails(f"'{name}' has the shape")
    changed(name, 4 + 16 + 4, "Q", 5)
    fails(f"'{name}' begins at byte 5, not a multiple of 32")
    changed(name, 4 + 16 + 4, "Q", 1 << 62)
    fails(f"{name} ends at byte .* the file is cut short")
    changed(name, 4 + 16 + 4, "Q", 0)
    fails(f"'token_embd.weight' and '{name}' overlap|'{name}' and 'token_embd.weight' overlap")
    changed(name, 0, "I", 9)
    fails(f"'{name}' has 9 dimensions")
    changed(name, 4 + 16, "I", 99)
    fails("elements of type of number 99", ng.Limit)
    twice = content.replace(b"blk.1.attn_q.weight", b"blk.0.attn_q.weight")
    path.write_bytes(twice)
    fails(f"the tensor '{name}' stands twice")


def test_names_that_stand_twice_cost_no_memory(tmp_path: Path) -> None:
    """Zeros are tensors without a name: the second is refused, not the last of millions."""
    path = tmp_path / "odd.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 20, 0) + bytes(24 << 20))
    tracemalloc.start()
    with pytest.raises(ng.UserError, match="the tensor '' stands twice"):
        Container(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
