# SPDX-License-Identifier: Apache-2.0
"""GGUF files: what is read, and what is refused."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf_files
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ngmlir as ng
from ngmlir.frontends import gguf
from ngmlir.frontends.gguf.container import Container

ROLES = [
    f"blk.1.{n}.weight" for n in ("attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_down", "attn_norm")
]


def file(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / f"{len(content)}-{hash(content)}.gguf"
    path.write_bytes(content)
    return path


def loaded(tmp_path: Path, metadata: Any, tensors: Any) -> Any:
    return gguf.load(file(tmp_path, gguf_files.content(metadata, tensors)))


def test_metadata_of_every_kind(tmp_path: Path) -> None:
    scalars = [(0, "B", 200), (1, "b", -3), (2, "H", 60000), (3, "h", -9), (4, "I", 1 << 31), (5, "i", -7), (6, "f", 0.5),
               (7, "?", True), (10, "Q", 1 << 63), (11, "q", -(1 << 62)), (12, "d", 0.1)]  # fmt: skip
    body, count = b"", 0
    for kind, code, value in scalars:
        body += gguf_files.text(f"one{kind}") + struct.pack("<I" + code, kind, value)
        body += gguf_files.text(f"some{kind}") + struct.pack("<IIQ" + 2 * code, 9, kind, 2, value, value)
        count += 2
    body += (
        gguf_files.text("words")
        + struct.pack("<IIQ", 9, 8, 2)
        + gguf_files.text("a\u00e9")
        + gguf_files.text("")
    )
    nested = struct.pack("<IIQ", 9, 9, 2) + 2 * struct.pack("<IQII", 4, 2, 5, 6)
    body += gguf_files.text("nested") + nested
    path = file(tmp_path, b"GGUF" + struct.pack("<IQQ", 3, 0, count + 2) + body)
    found = Container(path).metadata
    for kind, _, value in scalars:
        assert found[f"one{kind}"] == value
        assert found[f"some{kind}"].tolist() == [value, value]
    assert found["words"] == ["a\u00e9", ""]
    assert [each.tolist() for each in found["nested"]] == [[5, 6], [5, 6]]


def test_tensors_are_views_of_the_file(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model("llama", ("Q4_0", "F16"))
    found = Container(file(tmp_path, gguf_files.content(metadata, tensors)))
    for name, (shape, kind, raw) in tensors.items():
        weight = found.weight(name)
        assert weight is not None and (weight.shape, weight.format.name) == (shape, kind)
        assert bytes(weight.data) == raw
        assert weight.data.obj is found.data.obj
    assert found.weight("other") is None


def test_files_that_end_early(tmp_path: Path) -> None:
    whole = gguf_files.content(*gguf_files.model())
    data = whole.index(b"blk.1.ffn_down.weight")
    for size in (
        0,
        3,
        4,
        8,
        20,
        24,
        60,
        200,
        1000,
        data // 2,
        data,
        data + 40,
        len(whole) - 1,
        len(whole) - 100_000,
    ):
        with pytest.raises(ng.UserError, match="damaged|cut short|no GGUF file"):
            gguf.load(file(tmp_path, whole[:size]))


def test_claims_cost_no_memory(tmp_path: Path) -> None:
    huge = (1 << 60, (1 << 64) - 1)
    heads = [struct.pack("<IQQ", 3, n, 0) for n in huge] + [struct.pack("<IQQ", 3, 0, n) for n in huge]
    one = struct.pack("<IQQ", 3, 0, 1)
    key = one + gguf_files.text("k")
    heads += [one + struct.pack("<Q", n) for n in huge]
    heads += [key + struct.pack("<IQ", 8, n) for n in huge]
    heads += [key + struct.pack("<IIQ", 9, kind, n) for n in huge for kind in (0, 4, 8, 9, 12)]
    heads += [key + struct.pack("<IIQ", 9, 9, 1) * 3000]
    tensor = struct.pack("<IQQ", 3, 1, 0) + gguf_files.text("t")
    heads += [tensor + struct.pack("<IQQIQ", 2, n, 4, 0, 0) for n in (0, *huge)]
    heads += [tensor + struct.pack("<IQIQ", 1, 1 << 47, 0, 0), tensor + struct.pack("<I", 5) + bytes(60)]
    for head in heads:
        tracemalloc.start()
        with pytest.raises(ng.UserError):
            Container(file(tmp_path, b"GGUF" + head + bytes(64))).weight("t")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


def test_tensors_that_are_not_whole(tmp_path: Path) -> None:
    found = file(tmp_path, gguf_files.content({}, {"t": ((4,), "F32", bytes(16))})[:-20])
    with pytest.raises(ng.UserError, match=r"tensor t ends at byte .* the file is cut short"):
        Container(found).weight("t")
    odd = file(tmp_path, gguf_files.content({}, {"t": ((2, 48), "Q4_0", bytes(54))}))
    with pytest.raises(
        ng.UserError, match="rows of 48 elements, not a multiple of the 32 of a block of Q4_0"
    ):
        Container(odd).weight("t")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_altered_headers_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    content = bytearray(_WHOLE)
    for at, byte in changes:
        content[at % _HEAD] = byte
    path = Path(_FOLDER.name) / "altered.gguf"
    path.unlink(missing_ok=True)  # a file that is mapped is replaced, not written over
    path.write_bytes(content)
    try:
        gguf.load(path)
    except (ng.UserError, ng.Limit):
        pass


def _folder() -> Any:
    import tempfile

    return tempfile.TemporaryDirectory()


_FOLDER = _folder()
_WHOLE = gguf_files.content(*gguf_files.model())
_HEAD = _WHOLE.index(b"blk.1.ffn_down.weight") + 64


def test_other_versions_and_files(tmp_path: Path) -> None:
    for version, message in ((1, "of version 1"), (4, "of version 4"), (3 << 24, "other byte order")):
        with pytest.raises(ng.Limit, match=message):
            gguf.load(file(tmp_path, b"GGUF" + struct.pack("<IQQ", version, 0, 0)))
    with pytest.raises(ng.UserError, match="no GGUF file"):
        gguf.load(file(tmp_path, b"PK\3\4" + bytes(100)))
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ng.UserError, match="cannot be read"):
            gguf.load(path)


def test_what_is_not_supported_is_named_with_what_is(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"general.architecture": "mamba"}, "the architecture 'mamba'", "llama, qwen2, qwen3"),
        ({"llama.expert_count": 8}, "mixture of experts", ""),
        ({"llama.rope.scaling.type": "su"}, "by the method 'su'", "linear, yarn"),
        ({"llama.attention.value_length": 32}, "keys and values of different sizes", ""),
        ({"tokenizer.ggml.model": "bert"}, "a tokenizer of kind 'bert'", "llama .*gpt2"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.pre": "other"}, "by the method 'other'", "qwen2"),
    ]  # fmt: skip
    for changes, message, hint in cases:
        with pytest.raises(ng.Limit, match=f"(?s){message}.*{hint}"):
            loaded(tmp_path, metadata | changes, tensors)
    content = gguf_files.content(metadata, tensors)
    at = content.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 4 + 16
    for number, name in ((15, "Q8_K"), (16, "IQ2_XXS"), (39, "MXFP4"), (77, "of number 77")):
        with pytest.raises(ng.Limit, match=f"(?s)blk.0.attn_q.weight has elements of type {name}.*Q4_0"):
            gguf.load(file(tmp_path, content[:at] + struct.pack("<I", number) + content[at + 4 :]))


def test_tensors_that_nothing_reads_are_refused(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    extra = ((8,), "F32", bytes(32))
    with pytest.raises(ng.Limit, match=r"'llama', has tensors that are not supported: output.bias$"):
        loaded(tmp_path, metadata, tensors | {"output.bias": extra})
    more = {f"blk.0.more.{i}": extra for i in range(5)}
    with pytest.raises(ng.Limit, match=r"blk.0.more.0, blk.0.more.1, blk.0.more.2, and 2 more$"):
        loaded(tmp_path, metadata, tensors | more)


def parts(folder: Path, changes: dict[str, Any] | None = None) -> list[Path]:
    """A model in three files."""
    metadata, tensors = gguf_files.model()
    names, made = [*tensors], list[Path]()
    for i in range(3):
        own: dict[str, Any] = {"split.no": i, "split.count": 3, "split.tensors.count": len(names)} | (
            changes or {}
        )
        path = folder / f"small-{i + 1:05}-of-00003.gguf"
        path.write_bytes(
            gguf_files.content(
                own if i else metadata | own, {n: tensors[n] for n in names[i * 9 : i * 9 + 9 + 9 * (i == 2)]}
            )
        )
        made.append(path)
    return made


def test_models_in_several_files(tmp_path: Path) -> None:
    first, second, third = parts(tmp_path)
    metadata, tensors = gguf_files.model()
    whole, split = loaded(tmp_path, metadata, tensors), gguf.load(first)
    assert [bytes(w.data) for w in split.weights.all()] == [bytes(w.data) for w in whole.weights.all()]
    with pytest.raises(ng.UserError, match=r"(?s)is part 2 of a model in 3 files.*open the first"):
        gguf.load(second)
    other = tmp_path / "other.gguf"
    other.write_bytes(first.read_bytes())
    with pytest.raises(ng.UserError, match=r"is part 1 of a model in 3 files"):
        gguf.load(other)
    third.unlink()
    with pytest.raises(ng.UserError, match=r"00003-of-00003.gguf' cannot be read: No such file"):
        gguf.load(first)
    third.write_bytes(second.read_bytes())
    with pytest.raises(
        ng.UserError, match=r"the tensor .* stands in .*00003-of-00003.gguf' and in a part before it"
    ):
        gguf.load(first)
    with pytest.raises(ng.UserError, match=r"the 3 parts of .* tensors, not 99 as it says"):
        gguf.load(parts(tmp_path, {"split.tensors.count": 99})[0])


def test_metadata_that_does_not_fit(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"llama.embedding_length": 128}, "has shape"),
        ({"llama.embedding_length": -1.5}, "not of type int"),
        ({"llama.block_count": 3}, "has no|lacks"),
        ({"llama.block_count": 0}, "0 layers"),
        ({"llama.block_count": 1 << 31}, "layers"),
        ({"llama.attention.head_count": 0}, "0 heads"),
        ({"llama.attention.head_count": 8}, "has shape"),
        ({"llama.attention.head_count_kv": 3}, "cannot be shared by"),
        ({"llama.attention.head_count_kv": 0}, "its kv_heads is 0"),
        ({"llama.feed_forward_length": 511}, "has shape"),
        ({"llama.context_length": 0}, "its context is 0"),
        ({"llama.rope.dimension_count": 63}, "embedded in 63 elements"),
        ({"llama.rope.dimension_count": 128}, "embedded in 128 elements"),
        ({"llama.rope.freq_base": 0.0}, "not finite"),
        ({"llama.rope.scaling.factor": -2.0}, "scales positions by -2.0"),
        ({"llama.rope.scaling.attn_factor": 0.0}, "multiplies rotated elements by 0.0"),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.freq_base": 1.0}, "by yarn with base 1.0"),
        (
            {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.yarn_beta_slow": 40.0},
            "turns 40.0 to 32.0",
        ),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "not finite"),
        ({"general.alignment": 7}, "general.alignment is 7"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "which is no token"),
        ({"tokenizer.ggml.scores": [1.0]}, "no score for each"),
        ({"tokenizer.ggml.token_type": [1]}, "not a type for each"),
        ({"tokenizer.ggml.tokens": [str(i) for i in range(400)]}, "400 tokens, and embeddings for 272"),
        ({"tokenizer.ggml.model": "gpt2"}, "without merges"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": ["ab"]}, "not two tokens"),
    ]
    for changes, message in cases:
        with pytest.raises(ng.UserError, match=message):
            loaded(tmp_path, metadata | changes, tensors)
    for key in ("general.architecture", "llama.embedding_length", "llama.context_length"):
        with pytest.raises(ng.UserError, match=f"no {key}|lacks {key}"):
            loaded(tmp_path, {k: v for k, v in metadata.items() if k != key}, tensors)
    for role in ROLES:
        with pytest.raises(ng.UserError, match="lacks its weight"):
            loaded(tmp_path, metadata, {k: v for k, v in tensors.items() if k != role})
    for name in ("token_embd.weight", "output_norm.weight"):
        with pytest.raises(ng.UserError, match=f"no tensor {name}|vocabulary is 0"):
            loaded(tmp_path, metadata, {k: v for k, v in tensors.items() if k != name})


def test_scales_that_are_nan(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model("llama", ("Q8_0",))
    shape, kind, raw = tensors["blk.1.ffn_down.weight"]
    bad = raw[: 34 * 7] + np.float16(np.nan).tobytes() + raw[34 * 7 + 2 :]
    tensors["blk.1.ffn_down.weight"] = (shape, kind, bad)
    with pytest.raises(ng.UserError, match="blk.1.ffn_down.weight: the scale of block 7 is not finite"):
        loaded(tmp_path, metadata, tensors)


def test_logits_that_are_nan_are_no_text(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.model()
    shape, kind, _ = tensors["output_norm.weight"]
    tensors["output_norm.weight"] = (shape, kind, np.full(shape, np.nan, np.float32).tobytes())
    model = loaded(tmp_path, metadata, tensors)
    with pytest.raises(ng.UserError, match="NaN or infinite"):
        next(model.generate_tokens([1, 2]))


def test_files_that_are_written_are_read_back(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    metadata: dict[str, Any] = {
        "text": "a\u00e9", "whole": 7, "below": -7, "long": 1 << 40, "deep": -(1 << 40), "part": 0.25, "yes": True, "none": [],
        "words": ["x", ""], "numbers": [1, 2], "halves": [0.5, 1.5], "flags": [True, False], "nested": [[1], [2, 3]],
    }  # fmt: skip
    kinds: tuple[Any, ...] = (np.float32, np.float16, ml_dtypes.bfloat16)
    arrays: dict[str, Any] = {kind.__name__: draw.normal(size=(3, 5)).astype(kind) for kind in kinds}
    source = Container(file(tmp_path, gguf_files.content(*gguf_files.model("llama", ("Q4_K",)))))
    copied = source.weight("blk.0.attn_q.weight")
    assert copied is not None
    path = tmp_path / "made.gguf"
    gguf.write(path, metadata, arrays | {"copied": copied})
    found = Container(path)
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.metadata.items()}
    plain["nested"] = [each.tolist() for each in found.metadata["nested"]]
    assert plain == metadata
    for name, array in arrays.items():
        weight = found.weight(name)
        assert weight is not None and weight.shape == (3, 5) and bytes(weight.data) == array.tobytes()
    again = found.weight("copied")
    assert again is not None and (again.shape, again.format) == (copied.shape, copied.format)
    assert bytes(again.data) == bytes(copied.data)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "made.gguf"
    for metadata in (
        {"a": None},
        {"a": [1, "x"]},
        {"a": 1 << 64},
        {"a": -(1 << 63) - 1},
        {"a": {}},
        {"a": [None]},
    ):
        with pytest.raises(ng.UserError, match="a is"):
            gguf.write(path, metadata, {})
    for array in (np.zeros(3), np.zeros((0, 2), np.float32), np.zeros(2, np.int32)):
        with pytest.raises(ng.UserError, match="t is an array"):
            gguf.write(path, {}, {"t": array})
    assert not path.exists()
