# SPDX-License-Identifier: Apache-2.0
"""A model of a folder: config.json and the names of tensors, as the record of `frontends.decoders`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ...support.diagnostics import Limit, UserError
from ..decoders.config import DecoderConfig, DecoderWeights, LayerKind, Rotation, yarn, yarn_amplitude
from ..decoders.tokens.tokenizer import Tokenizer
from ..decoders.weights import Weight, refuse_unread
from .files import Tensors, json_of
from .vocabulary import tokenizer_of

T = TypeVar("T")


class Model(NamedTuple):
    """What a folder holds."""

    config: DecoderConfig
    weights: DecoderWeights
    tokenizer: Tokenizer | None
    template: str | None


@dataclass(frozen=True)
class _Kind:
    """In what a `model_type` differs: `windows`, whether layers have windows without saying which, and Gemma's ways."""

    gemma: bool = False
    post_norms: bool = False
    windows: bool = False


_KINDS: Mapping[str, _Kind] = {
    "llama": _Kind(),
    "mistral": _Kind(windows=True),
    "qwen2": _Kind(),
    "qwen3": _Kind(),
    "phi3": _Kind(windows=True),
    "gemma": _Kind(gemma=True),
    "gemma2": _Kind(gemma=True, post_norms=True),
    "gemma3_text": _Kind(gemma=True, post_norms=True),
}
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu"}
#: Roles of a layer's weights, and what they are called behind `model.layers.N.`.
_LAYER = {
    "attn_norm": "input_layernorm.weight",
    "attn_q": "self_attn.q_proj.weight",
    "attn_k": "self_attn.k_proj.weight",
    "attn_v": "self_attn.v_proj.weight",
    "attn_output": "self_attn.o_proj.weight",
    "attn_q_bias": "self_attn.q_proj.bias",
    "attn_k_bias": "self_attn.k_proj.bias",
    "attn_v_bias": "self_attn.v_proj.bias",
    "attn_output_bias": "self_attn.o_proj.bias",
    "attn_q_norm": "self_attn.q_norm.weight",
    "attn_k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "ffn_gate": "mlp.gate_proj.weight",
    "ffn_up": "mlp.up_proj.weight",
    "ffn_down": "mlp.down_proj.weight",
    "ffn_gate_bias": "mlp.gate_proj.bias",
    "ffn_up_bias": "mlp.up_proj.bias",
    "ffn_down_bias": "mlp.down_proj.bias",
}
_WITH_POST_NORMS = {
    **_LAYER,
    "attn_post_norm": "post_attention_layernorm.weight",
    "ffn_norm": "pre_feedforward_layernorm.weight",
    "ffn_post_norm": "post_feedforward_layernorm.weight",
}


def read(folder: str | os.PathLike[str], context: int | None = None) -> Model:
    """A model, for `context` positions or as many as it was trained for. Raises UserError for what is damaged or does not fit, Limit for
    what is not supported."""
    path = Path(folder)
    found = json_of(path / "config.json")
    if found is None:
        raise UserError(f"'{path}' has no file config.json")
    name = found.get("model_type")
    kind = _KINDS.get(str(name))
    if kind is None:
        raise Limit(
            f"'{path}' is a model of type {name!r}, which is not supported",
            hint=f"supported types: {', '.join(_KINDS)}",
        )
    if (quantised := found.get("quantization_config")) is not None:
        method = (
            cast("Mapping[str, Any]", quantised).get("quant_method")
            if isinstance(quantised, Mapping)
            else quantised
        )
        raise Limit(
            f"'{path}' has quantised weights, of the method {method!r}, which is not supported",
            hint="supported are tensors of F32, F16 and BF16; and GGUF files, which have quantised weights",
        )
    tensors = Tensors(path)
    config = _Config(path, found, str(name), kind, context).config()
    config.check()
    weights = _weights(tensors, config, kind, bool(found.get("tie_word_embeddings", kind.gemma)))
    weights.check(config)
    refuse_unread(tensors.unread(), f"'{path}', a model of type {name!r},")
    tokenizer, template = tokenizer_of(path, found, config.vocabulary)
    return Model(config, weights, tokenizer, template)


class _Config:
    """The numbers of config.json."""

    def __init__(self, path: Path, found: Mapping[str, Any], name: str, kind: _Kind, context: int | None):
        self.path, self.found, self.name, self.kind, self.wanted = path, found, name, kind, context

    def get(self, key: str, default: T | type[T], of: Mapping[str, Any] | None = None) -> T:
        """A value of the kind of the default, or of the type that stands for it, which has to be there."""
        value = (self.found if of is None else of).get(key)
        kind = default if isinstance(default, type) else type(default)
        if value is None:
            if isinstance(default, type):
                raise UserError(f"'{self.path}' has no {key} in its config.json")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return cast("T", float(value))
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UserError(
                f"'{self.path}' has {key} = {value!r} in its config.json, not of type {kind.__name__}"
            )
        return cast("T", value)

    def config(self) -> DecoderConfig:
        width, heads = self.get("hidden_size", int), self.get("num_attention_heads", int)
        if not 1 <= heads <= width:
            raise UserError(f"'{self.path}' says that its width is {width}, and that it has {heads} heads")
        head_size = self.get("head_dim", width // heads)
        gemma = self.kind.gemma
        said = self.get("hidden_activation", self.get("hidden_act", "gelu_pytorch_tanh" if gemma else "silu"))
        # The first models of Gemma say gelu, and mean its approximation.
        activation = "gelu" if gemma and said == "gelu" else _ACTIVATIONS.get(said)
        if activation is None:
            raise Limit(
                f"'{self.path}' has the activation {said!r}, which is not supported",
                hint=f"supported: {', '.join(_ACTIVATIONS)}",
            )
        return DecoderConfig(
            architecture=self.name,
            vocabulary=self.get("vocab_size", int),
            width=width,
            hidden=self.get("intermediate_size", int),
            heads=heads,
            kv_heads=self.get("num_key_value_heads", heads),
            head_size=head_size,
            layers=self.layers(head_size),
            context=self.get("max_position_embeddings", int),
            epsilon=self.get("rms_norm_eps", 1e-6),
            activation="gelu" if activation == "gelu" else "silu",
            scale=1 / sqrt(max(self.get("query_pre_attn_scalar", float(max(head_size, 1))), 1e-9)),
            attention_cap=self.get("attn_logit_softcapping", 0.0),
            logit_cap=self.get("final_logit_softcapping", 0.0),
            embedding_scale=float(np.float32(sqrt(width))) if gemma else 1.0,
            unit_offset=gemma,
        )

    def layers(self, head_size: int) -> list[LayerKind]:
        count = self.get("num_hidden_layers", int)
        if not 1 <= count <= 1 << 16:
            raise UserError(f"'{self.path}' says that it has {count} layers")
        window = self.get("sliding_window", 0)
        near = LayerKind(self.rotation(head_size, near=True), window or None)
        far = LayerKind(self.rotation(head_size))
        return [near if window and each else far for each in self._windowed(count)]

    def _windowed(self, count: int) -> list[bool]:
        """For each layer, whether it attends to near positions only."""
        types = self.found.get("layer_types")
        if isinstance(types, list):
            names = cast("list[Any]", types)
            known = ("sliding_attention", "full_attention")
            if len(names) != count or any(each not in known for each in names):
                raise Limit(f"'{self.path}' has layers of other types than {' and '.join(known)}")
            return [each == known[0] for each in names]
        if self.name == "gemma2":
            return [i % 2 == 0 for i in range(count)]
        if self.name == "gemma3_text":
            every = max(self.get("sliding_window_pattern", 6), 1)
            return [(i + 1) % every != 0 for i in range(count)]
        if self.get("use_sliding_window", False):
            first = self.get("max_window_layers", count)
            return [i >= first for i in range(count)]
        return [self.kind.windows] * count

    def rotation(self, head_size: int, near: bool = False) -> Rotation:
        found: Any = self.found.get("rope_parameters") or {}
        if isinstance(found, Mapping) and "full_attention" in found:
            found = cast("Mapping[str, Any]", found)["sliding_attention" if near else "full_attention"]
        own_base = near and self.name == "gemma3_text"
        if not found and not own_base:
            found = self.found.get("rope_scaling") or {}
        if not isinstance(found, Mapping):
            raise UserError(f"'{self.path}' has parameters of positions that are no dictionary")
        known = cast("Mapping[str, Any]", found)
        base = self.get("rope_local_base_freq", 10000.0) if own_base else self.get("rope_theta", 10000.0)
        base = self.get("rope_theta", base, known)
        share = self.get("partial_rotary_factor", self.get("partial_rotary_factor", 1.0), known)
        size = int(head_size * share)
        kind = self.get("rope_type", self.get("type", "default", known), known)
        if not base > 0:
            raise UserError(f"'{self.path}' has {base} as the base of positions")
        if kind == "default":
            return Rotation(size, base)
        if kind == "longrope":
            return self._longrope(size, base, known)
        factor = self.get("factor", float, known)
        if not factor > 0:
            raise UserError(f"'{self.path}' scales positions by {factor}")
        if kind == "linear":
            return Rotation(size, base, linear=factor)
        if kind == "llama3":
            return Rotation(size, base, factors=self._llama3(size, base, factor, known))
        if kind == "yarn":
            return self._yarn(size, base, factor, known)
        raise Limit(
            f"'{self.path}' scales positions by the method {kind!r}, which is not supported",
            hint="supported methods: default, linear, llama3, longrope, yarn",
        )

    def _yarn(self, size: int, base: float, factor: float, known: Mapping[str, Any]) -> Rotation:
        for key in ("mscale", "mscale_all_dim", "truncate"):
            if known.get(key) is not None and known[key] is not (key == "truncate"):
                raise Limit(
                    f"'{self.path}' scales positions by yarn with {key} = {known[key]!r}, which is not supported"
                )
        context = self.get("max_position_embeddings", int)
        divided = yarn(
            size,
            base,
            factor,
            self.get("original_max_position_embeddings", context, known),
            self.get("beta_fast", 32.0, known),
            self.get("beta_slow", 1.0, known),
        )
        amplitude = self.get("attention_factor", yarn_amplitude(factor), known)
        return Rotation(size, base, factors=divided, amplitude=amplitude)

    def _longrope(self, size: int, base: float, known: Mapping[str, Any]) -> Rotation:
        """Frequencies are divided by factors for short or for long contexts; rows grow by what the context grew by training."""
        trained = self.get("max_position_embeddings", int)
        original = self.get("original_max_position_embeddings", trained)
        original = self.get("original_max_position_embeddings", original, known)
        growth = trained / max(original, 1) if original != trained else self.get("factor", 1.0, known)
        which = "long_factor" if (self.wanted or trained) > original else "short_factor"
        found: Any = known.get(which)
        factors: list[Any] = cast("list[Any]", found) if isinstance(found, list) else []
        if len(factors) != size // 2 or not all(isinstance(f, int | float) and f > 0 for f in factors):
            raise UserError(f"'{self.path}' has no {size // 2} numbers above 0 as {which} in its config.json")
        divided = [float(factor) for factor in factors]
        usual = sqrt(1 + log(growth) / log(original)) if growth > 1 and original > 1 else 1.0
        return Rotation(size, base, factors=divided, amplitude=self.get("attention_factor", usual, known))

    def _llama3(self, size: int, base: float, factor: float, known: Mapping[str, Any]) -> list[float]:
        """What each frequency is divided by: long waves by the factor, short ones by 1, those between by something between."""
        low, high = self.get("low_freq_factor", 1.0, known), self.get("high_freq_factor", 4.0, known)
        context = self.get("original_max_position_embeddings", 8192, known)
        if not 0 < low < high or context < 1:
            raise UserError(
                f"'{self.path}' scales positions between frequencies {low} and {high} of {context}"
            )
        made: list[float] = []
        for frequency in base ** (-np.arange(0, size, 2, dtype=np.float64) / max(size, 1)):
            turns = context * frequency / (2 * pi)
            smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
            made.append(float(1 / ((1 - smooth) / factor + smooth)))
        return made


def _weights(tensors: Tensors, config: DecoderConfig, kind: _Kind, tied: bool) -> DecoderWeights:
    def needed(name: str) -> Weight:
        found = tensors.weight(name)
        if found is None:
            raise UserError(f"'{tensors.folder}' has no tensor {name}")
        return found

    embedding = needed("model.embed_tokens.weight")
    output = embedding if tied else needed("lm_head.weight")
    layers = [_layer(tensors, config, kind, i) for i in range(len(config.layers))]
    return DecoderWeights(embedding, needed("model.norm.weight"), output, layers)


def _layer(tensors: Tensors, config: DecoderConfig, kind: _Kind, number: int) -> dict[str, Weight]:
    names = _WITH_POST_NORMS if kind.post_norms else _LAYER
    at = f"model.layers.{number}."
    found = {role: w for role, name in names.items() if (w := tensors.weight(at + name)) is not None}
    joined = tensors.weight(f"{at}self_attn.qkv_proj.weight")
    if joined is not None:
        queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
        found |= joined.split({"attn_q": queries, "attn_k": keys, "attn_v": keys})
    both = tensors.weight(f"{at}mlp.gate_up_proj.weight")
    if both is not None:
        found |= both.split({"ffn_gate": config.hidden, "ffn_up": config.hidden})
    return found
