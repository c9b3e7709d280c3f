# SPDX-License-Identifier: Apache-2.0
"""Language models: text that follows on a prompt, conversations, folders of safetensors, and the commands of the shell."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf_files
import numpy as np
import pytest
from decoder_blocks import decoded
from gguf_files import HEAD_SIZE, HEADS, HIDDEN, KV_HEADS, LAYERS, WIDTH

import ngmlir as ng
from ngmlir.frontends import gguf, safetensors
from ngmlir.frontends.decoders import templates
from ngmlir.frontends.decoders.model import LanguageModel
from ngmlir.frontends.neon.safetensors import write
from ngmlir.tools.streams import Streams
from ngmlir.tools.umbrella import main

TOKENS = [3, 100, 260, 265, 7, 9]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield gguf_files.written(tmp_path_factory.mktemp("gguf") / "model.gguf", "llama", ("Q8_0",))


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return gguf.load(path)


def test_greedy_text_is_that_of_the_greatest_logits(model: LanguageModel) -> None:
    tokens = [*TOKENS]
    made = [*model.generate_tokens(TOKENS, max_tokens=8)]
    for token in made:
        assert token == int(model.logits(tokens)[-1].argmax())
        tokens.append(token)
    assert len(made) == 8
    assert [*model.generate_tokens(TOKENS, max_tokens=8)] == made
    tokenizer = model.tokenizer
    assert tokenizer is not None
    whole = "".join(model.generate("abc de", max_tokens=8))
    known = [*model.generate_tokens(model.encode("abc de"), max_tokens=8)]
    assert whole == b"".join(tokenizer.text_bytes(t, False) for t in known).decode("utf-8", "replace")


def test_drawn_text_follows_from_the_seed(model: LanguageModel) -> None:
    def drawn(seed: int) -> list[int]:
        return [*model.generate_tokens(TOKENS, max_tokens=12, temperature=1.5, top_p=0.95, seed=seed)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_text_ends_at_stops(model: LanguageModel) -> None:
    whole = "".join(model.generate("abc", max_tokens=20, temperature=1.0, seed=5))
    for stop in (whole[4:7], [whole[9:10], whole[5:8]], whole[0], "never there"):
        stops = [stop] if isinstance(stop, str) else stop
        ends = [at for s in stops if (at := whole.find(s)) >= 0]
        wanted = whole[: min(ends)] if ends else whole
        assert "".join(model.generate("abc", max_tokens=20, temperature=1.0, seed=5, stop=stop)) == wanted
    with pytest.raises(ng.UserError, match="a stop is an empty text"):
        model.generate("abc", stop="")


def test_text_ends_at_tokens_that_end_it(model: LanguageModel) -> None:
    (first,) = model.generate_tokens(TOKENS, max_tokens=1)
    assert model.tokenizer is not None
    known = model.tokenizer.vocabulary
    object.__setattr__(known, "stops", frozenset([first]))
    try:
        assert [*model.generate_tokens(TOKENS, max_tokens=5)] == []
    finally:
        object.__setattr__(known, "stops", frozenset([2]))


def test_numbers_are_checked_before_anything_is_computed(model: LanguageModel) -> None:
    before = model.programs().compiled
    session = model.session(context=8)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        ([1] * 9, {}, "9 tokens are more than the context of 8"),
        ([], {}, "at least one token"),
        ([5000], {}, "5000 is no token"),
        (TOKENS, {"temperature": -1}, "temperature is -1"),
        (TOKENS, {"warmth": 1}, "called warmth"),
        (TOKENS, {"max_tokens": -1}, "max_tokens is -1"),
    ]
    for prompt, how, message in wrong:
        with pytest.raises(ng.UserError, match=message):
            model.generate(prompt, session=session, **how)
    assert session.lengths == [0] and model.programs().compiled == before
    # An answer ends where the context does.
    assert len([*model.generate_tokens(TOKENS, session=session, max_tokens=50)]) == 2


def test_sessions_go_on(model: LanguageModel) -> None:
    session = model.session()
    first = [*model.generate_tokens(TOKENS, session=session, max_tokens=4)]
    assert session.tokens == [TOKENS + first[:-1]]  # the last one has not been fed yet
    second = [*model.generate_tokens([first[-1], 11], session=session, max_tokens=4)]
    assert second == [*model.generate_tokens([*TOKENS, *first, 11], max_tokens=4)]


def test_conversations_compute_only_what_is_new(model: LanguageModel) -> None:
    session = model.session()
    messages = [{"role": "user", "content": "abc"}]
    answer = "".join(model.chat(messages, session=session, max_tokens=6))
    assert answer == "".join(model.chat(messages, max_tokens=6))
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "de"}]
    wanted = "".join(model.chat(messages, max_tokens=6))
    assert "".join(model.chat(messages, session=session, max_tokens=6)) == wanted


CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\\n' }}"
)
MESSAGES = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi "}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "so"}]  # fmt: skip


def test_templates_without_jinja(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = templates.prompt_of(MESSAGES, CHATML)
    monkeypatch.setattr(templates, "find_spec", lambda name: None)
    assert templates.prompt_of(MESSAGES, CHATML) == rendered
    for mark, wanted in {
        "<|start_header_id|>": "B<|start_header_id|>system<|end_header_id|>\n\nbe kind<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>",
        "<start_of_turn>": "B<start_of_turn>user\nbe kind\n\nhi<end_of_turn>\n<start_of_turn>model\nyes<end_of_turn>\n",
        "[INST]": "B[INST] <<SYS>>\nbe kind\n<</SYS>>\n\nhi [/INST] yes EB[INST] so [/INST]",
        "<|assistant|>": "B<|system|>\nbe kind<|end|>\n<|user|>\nhi <|end|>\n<|assistant|>\nyes<|end|>\n",
    }.items():
        assert templates.prompt_of(MESSAGES, f"{{{{ {mark} }}}}", "B", "E").startswith(wanted)
    with pytest.raises(ng.Limit, match="not known"):
        templates.prompt_of(MESSAGES, "{{ messages }}")
    assert templates.prompt_of(MESSAGES[1:2], None) == "user: hi \nassistant:"


def test_templates_with_what_trainers_write_into_them() -> None:
    marked = "{% for m in messages %}{% generation %}{{ m.content }}|{% endgeneration %}{% endfor %}"
    assert templates.prompt_of(MESSAGES, marked) == "be kind|hi |yes|so|"
    dumped = templates.prompt_of([{"role": "user", "content": "<é>'&"}], "{{ messages[0] | tojson }}")
    assert dumped == '{"role": "user", "content": "<é>\'&"}'
    assert templates.prompt_of(MESSAGES, "{{ messages[:1] | tojson(indent=1) }}").startswith(
        '[\n {\n  "role"'
    )


def test_templates_see_nothing_but_the_conversation() -> None:
    for template in (
        "{{ raise_exception('no') }}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{% for %}",
        "{{ 1 // 0 }}",
    ):
        with pytest.raises(ng.UserError, match="refuses these messages"):
            templates.prompt_of(MESSAGES, template)
    for wrong in (
        [],
        [{"role": "king", "content": "x"}],
        [{"role": "user"}],
        ["x"],
        [{"role": "user", "content": 3}],
    ):
        with pytest.raises(ng.UserError, match="message"):
            templates.prompt_of(wrong, CHATML)  # pyright: ignore[reportArgumentType]


# ---- folders of safetensors -----------------------------------------------------------------------------------

NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip


def folder(tmp_path: Path, kind: str = "F32", **changes: Any) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """A folder with the weights of a model of `gguf_files`, and these."""
    metadata, tensors = gguf_files.model("qwen2", (kind,))
    named: dict[str, Any] = {}
    for name, (shape, of, raw) in tensors.items():
        array = decoded(of, raw, shape)
        parts = name.split(".")
        if parts[0] == "blk":
            role = NAMES[parts[2]]
            named[f"model.layers.{parts[1]}.{role}.{parts[3]}"] = array
        else:
            whole = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[
                parts[0]
            ]
            named[f"{whole}.weight"] = array
    path = tmp_path / "model"
    path.mkdir(exist_ok=True)
    config = {
        "model_type": "qwen2", "vocab_size": 272, "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "max_position_embeddings": 512, "eos_token_id": 2, "tie_word_embeddings": False,
    } | changes  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    write(path / "model.safetensors", named)
    return path, metadata, tensors


def test_folders_give_the_logits_of_files(tmp_path: Path) -> None:
    path, metadata, tensors = folder(tmp_path)
    single = safetensors.load(path)
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf_files.content(metadata, tensors))
    wanted = gguf.load(file).logits(TOKENS)
    assert np.abs(single.logits(TOKENS) - wanted).max() < 1e-5
    with pytest.raises(ng.UserError, match="no tokenizer"):
        single.generate("text")
    # The same in two files with an index.
    from ngmlir.frontends.neon.safetensors import read

    whole = read(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    names = sorted(whole)
    places = {name: f"part{i % 2}.safetensors" for i, name in enumerate(names)}
    for part in sorted({*places.values()}):
        write(path / part, {n: whole[n].astype("float16") for n in names if places[n] == part})
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert np.abs(safetensors.load(path).logits(TOKENS) - wanted).max() < 0.05


@pytest.mark.parametrize("own", [None, 1.5])
def test_positions_of_folders_scaled_by_yarn(own: float | None, tmp_path: Path) -> None:
    told = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "truncate": True}
    path, metadata, tensors = folder(tmp_path, rope_scaling=told | ({"attention_factor": own} if own else {}))
    scaled = {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 128}
    if own:
        scaled["scaling.attn_factor"] = own / float(1 + 0.1 * np.log(4))
    file = tmp_path / "model.gguf"
    file.write_bytes(
        gguf_files.content(metadata | {f"qwen2.rope.{k}": v for k, v in scaled.items()}, tensors)
    )
    wanted = gguf.load(file).logits(TOKENS)
    assert np.abs(safetensors.load(path).logits(TOKENS) - wanted).max() < 1e-5


@pytest.mark.parametrize("context", [None, 32])
def test_positions_of_folders_scaled_by_factors_for_the_context(context: int | None, tmp_path: Path) -> None:
    """Factors for long contexts beyond the original one, else those for short ones; as in GGUF files."""
    path, metadata, tensors = folder(tmp_path)
    config = json.loads((path / "config.json").read_text())
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]) // 2
    trained = config["max_position_embeddings"]
    factors = {name: [by + i / size for i in range(size)] for name, by in (("short", 1.0), ("long", 4.0))}
    told = {"type": "longrope", **{f"{name}_factor": each for name, each in factors.items()}}
    config |= {"rope_scaling": told, "original_max_position_embeddings": trained // 4}
    (path / "config.json").write_text(json.dumps(config))
    amplitude = float(np.sqrt(1 + np.log(4) / np.log(trained // 4)))
    scaled = {"type": "longrope", "original_context_length": trained // 4, "attn_factor": amplitude}
    more = {
        f"rope_factors_{name}.weight": ((size,), "F32", np.array(each, "<f4").tobytes())
        for name, each in factors.items()
    }
    file = tmp_path / "model.gguf"
    file.write_bytes(
        gguf_files.content(
            metadata | {f"qwen2.rope.scaling.{k}": v for k, v in scaled.items()}, tensors | more
        )
    )
    wanted = gguf.load(file, context=context).logits(TOKENS)
    assert np.abs(safetensors.load(path, context=context).logits(TOKENS) - wanted).max() < 1e-5
    told["long_factor" if context is None else "short_factor"] = [1.0]
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ng.UserError, match=f"has no {size} numbers above 0 as"):
        safetensors.load(path, context=context)


def test_tensors_of_folders_that_nothing_reads_are_refused(tmp_path: Path) -> None:
    from ngmlir.frontends.neon.safetensors import read

    path, _, _ = folder(tmp_path, tie_word_embeddings=True)
    safetensors.load(path)  # the output is there, and is the embedding all the same
    whole, file = dict(read(path / "model.safetensors")), path / "model.safetensors"
    file.unlink()
    write(file, whole | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)})
    safetensors.load(path)
    file.unlink()
    write(file, whole | {"model.layers.0.self_attn.sinks": np.ones(4, np.float32)})
    with pytest.raises(ng.Limit, match=r"tensors that are not supported: model.layers.0.self_attn.sinks$"):
        safetensors.load(path)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"model_type": "bert"}, ng.Limit, "(?s)type 'bert'.*llama, mistral"),
        ({"hidden_act": "relu"}, ng.Limit, "activation 'relu'"),
        (
            {"rope_scaling": {"type": "su", "factor": 2.0}},
            ng.Limit,
            "(?s)method 'su'.*llama3, longrope, yarn",
        ),
        (
            {"rope_scaling": {"type": "yarn", "factor": 2.0, "mscale": 1.0}},
            ng.Limit,
            "yarn with mscale = 1.0",
        ),
        (
            {"rope_scaling": {"type": "yarn", "factor": 2.0, "truncate": False}},
            ng.Limit,
            "yarn with truncate = False",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            ng.Limit,
            "(?s)of the method 'gptq'.*GGUF",
        ),
        ({"layer_types": ["full_attention", "linear_attention"]}, ng.Limit, "layers of other types"),
        ({"hidden_size": "x"}, ng.UserError, "not of type int"),
        ({"hidden_size": 128}, ng.UserError, "has shape"),
        ({"num_hidden_layers": 3}, ng.UserError, "lacks its weight"),
        ({"num_key_value_heads": 3}, ng.UserError, "cannot be shared"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 0.0}},
            ng.UserError,
            "scales positions by 0.0",
        ),
        ({"rope_parameters": 3}, ng.UserError, "no dictionary"),
        ({"rope_theta": -1.0}, ng.UserError, "as the base of positions"),
    ]
    for changes, kind, message in cases:
        path, _, _ = folder(tmp_path, **changes)
        with pytest.raises(kind, match=message):
            safetensors.load(path)
    path, _, _ = folder(tmp_path)
    good = (path / "model.safetensors").read_bytes()
    for content in (b"", good[:7], good[:1000], good[:-4], b"\xff" * 8 + good[8:]):
        (path / "model.safetensors").unlink()
        (path / "model.safetensors").write_bytes(content)
        with pytest.raises(ng.UserError, match="damaged"):
            safetensors.load(path)
    (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../x"}}')
    with pytest.raises(ng.UserError, match="not in its folder"):
        safetensors.load(path)
    (path / "config.json").write_text("[]")
    with pytest.raises(ng.UserError, match="no dictionary"):
        safetensors.load(path)
    (path / "config.json").unlink()
    with pytest.raises(ng.UserError, match="no file config.json"):
        safetensors.load(path)


def test_tokenizers_of_folders(tmp_path: Path) -> None:
    path, _, _ = folder(tmp_path)
    vocab = {**{chr(0x100 + i): i for i in range(4)}, "a": 4, "b": 5, "ab": 6}
    text: dict[str, Any] = {
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]]},
        "added_tokens": [{"id": 7, "content": "<|im_end|>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|im_end|>"}}, {"Sequence": {}}],
        },
    }
    (path / "tokenizer.json").write_text(json.dumps(text))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": CHATML, "eos_token": "<|im_end|>"})
    )
    model = safetensors.load(path)
    assert model.tokenizer is not None and model.encode("abb<|im_end|>a") == [7, 6, 5, 7, 4]
    assert model.tokenizer.vocabulary.stops == {2, 7} and model.template == CHATML
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"model": {"type": "Unigram", "vocab": []}}, ng.Limit, "kind 'Unigram'"),
        ({"normalizer": {"type": "Lowercase"}}, ng.Limit, "step 'Lowercase'"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Punctuation"}]}}, ng.Limit, "step 'Punctuation'"),
        ({"model": {"type": "BPE", "vocab": {"a": 1 << 40}, "merges": []}}, ng.UserError, "out of range"),
        ({"model": {"type": "BPE", "vocab": {"a": 300}, "merges": []}}, ng.UserError, "embeddings for 272"),
        ({"model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["abc"]}}, ng.UserError, "not of two tokens"),
        ({"model": []}, ng.UserError, "is damaged"),
    ]  # fmt: skip
    for changes, kind, message in wrong:
        (path / "tokenizer.json").write_text(json.dumps(text | changes))
        with pytest.raises(kind, match=message):
            safetensors.load(path)


# ---- the shell ------------------------------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, *words: str, given: str = "") -> tuple[int, str, str]:
    own = Streams(io.StringIO(given), io.StringIO(), io.StringIO())
    monkeypatch.setattr("ngmlir.tools.umbrella.streams", lambda: own)
    code = main(words)
    assert isinstance(own.stdout, io.StringIO) and isinstance(own.stderr, io.StringIO)
    return code, own.stdout.getvalue(), own.stderr.getvalue()


def test_generate(monkeypatch: pytest.MonkeyPatch, path: Path, model: LanguageModel) -> None:
    wanted = "".join(model.generate("abc", max_tokens=6)) + "\n"
    assert run(monkeypatch, "generate", str(path), "abc", "--max-tokens", "6") == (0, wanted, "")
    code, made, said = run(
        monkeypatch, "generate", str(path), "-", "--max-tokens", "6", "--time", given="abc"
    )
    assert (code, made) == (0, wanted) and "tokens per second" in said
    flags = "--temperature 1 --top-k 9 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.1 --seed 4 --max-tokens 6 --threads 1".split()
    how: dict[str, Any] = {
        "temperature": 1.0,
        "top_k": 9,
        "top_p": 0.9,
        "min_p": 0.01,
        "repetition_penalty": 1.1,
        "seed": 4,
    }
    wanted = "".join(model.generate("abc", max_tokens=6, **how)) + "\n"
    assert run(monkeypatch, "generate", str(path), "abc", *flags) == (0, wanted, "")


def test_chat(monkeypatch: pytest.MonkeyPatch, path: Path, model: LanguageModel) -> None:
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "abc"}]
    first = "".join(model.chat(messages, max_tokens=4))
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "de"}]
    second = "".join(model.chat(messages, max_tokens=4))
    made = run(monkeypatch, "chat", str(path), "--system", "x", "--max-tokens", "4", given="abc\n\nde")
    assert made == (0, f"{first}\n{second}\n", "")


def test_commands_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch, path: Path, tmp_path: Path) -> None:
    cases = [
        (("generate", str(tmp_path / "none.gguf"), "x"), "cannot be read"),
        (("generate", str(tmp_path), "x"), "no file config.json"),
        (("generate", str(path), "abc", "--context", "1"), "more than the context of 1"),
        (("generate", str(path), "abc", "--top-p", "2"), "top_p is 2.0"),
        (("generate", str(path)), "required: prompt"),
        (("generate", str(path), "abc", "--temprature", "1"), "did you mean --temperature?"),
    ]
    for words, message in cases:
        code, made, said = run(monkeypatch, *words)
        assert (code, made) == (1, "") and message in said
    code, made, _ = run(monkeypatch, "--help")
    assert code == 0 and "generate" in made and "chat" in made
