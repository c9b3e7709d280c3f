# SPDX-License-Identifier: Apache-2.0
"""Decoders of GGUF files: the metadata of each architecture, and the names of its tensors, as the record of `frontends.decoders`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from reprlib import repr as shortened
from typing import Any, Literal, TypeVar, cast

import numpy as np

from ...support.diagnostics import Limit, UserError
from ..decoders.config import DecoderConfig, DecoderWeights, LayerKind, Rotation, yarn, yarn_amplitude
from ..decoders.weights import Weight, refuse_unread
from .container import Container

T = TypeVar("T")


@dataclass(frozen=True)
class _Architecture:
    """In what an architecture differs from others: the order of rotated pairs, and what only some have.

    `window` says of a layer, by its number, whether it attends to near positions only, where the file has a window.
    """

    order: Literal["interleaved", "halves"] = "halves"
    activation: Literal["silu", "gelu"] = "silu"
    scaled_embedding: bool = False
    post_norms: bool = False
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    window: Callable[[int], bool] | None = None
    near_base: float | None = None


#: By the value of `general.architecture`. Gemma's norms have their offset in the file already.
ARCHITECTURES: Mapping[str, _Architecture] = {
    "llama": _Architecture("interleaved"),
    "qwen2": _Architecture(),
    "qwen3": _Architecture(),
    "phi3": _Architecture(window=lambda layer: True),
    "gemma": _Architecture(activation="gelu", scaled_embedding=True),
    "gemma2": _Architecture(
        activation="gelu",
        scaled_embedding=True,
        post_norms=True,
        attention_cap=50.0,
        logit_cap=30.0,
        window=lambda layer: layer % 2 == 0,
    ),
    "gemma3": _Architecture(
        activation="gelu",
        scaled_embedding=True,
        post_norms=True,
        window=lambda layer: layer % 6 < 5,
        near_base=10000.0,
    ),
}
#: Models whose scale of products of queries and keys is that of `width / heads`, not of the size of a head: those of 27 billion
#: parameters, which their files do not say. Architecture and number of layers.
_OWN_SCALE = (("gemma2", 46), ("gemma3", 62))
_GREATEST = float(np.finfo(np.float32).max)
#: Roles of a layer's weights, and what they are called behind `blk.N.`.
_LAYER = {
    "attn_norm": "attn_norm.weight",
    "attn_q": "attn_q.weight",
    "attn_k": "attn_k.weight",
    "attn_v": "attn_v.weight",
    "attn_output": "attn_output.weight",
    "attn_q_bias": "attn_q.bias",
    "attn_k_bias": "attn_k.bias",
    "attn_v_bias": "attn_v.bias",
    "attn_output_bias": "attn_output.bias",
    "attn_q_norm": "attn_q_norm.weight",
    "attn_k_norm": "attn_k_norm.weight",
    "attn_post_norm": "post_attention_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "ffn_gate": "ffn_gate.weight",
    "ffn_up": "ffn_up.weight",
    "ffn_down": "ffn_down.weight",
    "ffn_gate_bias": "ffn_gate.bias",
    "ffn_up_bias": "ffn_up.bias",
    "ffn_down_bias": "ffn_down.bias",
    "ffn_post_norm": "post_ffw_norm.weight",
}


def decoder_of(file: Container, context: int | None = None) -> tuple[DecoderConfig, DecoderWeights]:
    """What a file holds, for a context of so many tokens (by default as many as the model was trained for). UserError for metadata and
    tensors that do not fit each other, Limit for what is not supported."""
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise UserError(f"'{file.path}' has no general.architecture")
    known = ARCHITECTURES.get(name)
    if known is None:
        raise Limit(
            f"'{file.path}' is a model of the architecture {name!r}, which is not supported",
            hint=f"supported architectures: {', '.join(ARCHITECTURES)}",
        )
    config = _Metadata(file, name, known, context).config()
    config.check()
    weights = _weights(file, config)
    weights.check(config)
    refuse_unread(file.unread(), f"'{file.path}', of the architecture {name!r},")
    for weight in weights.all():
        weight.check_scales()
    file.let_go()
    return config, weights


class _Metadata:
    """The numbers of a model, by their names behind `ARCHITECTURE.`."""

    def __init__(self, file: Container, name: str, known: _Architecture, context: int | None = None):
        self.file, self.name, self.known, self.context = file, name, known, context

    def config(self) -> DecoderConfig:
        known = self.known
        if self.get("expert_count", 0):
            raise Limit(f"'{self.file.path}' is a mixture of experts, which is not supported")
        width, heads = self.get("embedding_length", int), self.get("attention.head_count", int)
        if not 1 <= heads <= width:
            raise UserError(
                f"'{self.file.path}' says that its width is {width}, and that it has {heads} heads"
            )
        head_size = self.get("attention.key_length", width // heads)
        if self.get("attention.value_length", head_size) != head_size:
            raise Limit(f"'{self.file.path}' has keys and values of different sizes, which is not supported")
        layers = self.get("block_count", int)
        if not 1 <= layers <= 1 << 16:
            raise UserError(f"'{self.file.path}' says that it has {layers} layers")
        tokens = self.file.strings("tokenizer.ggml.tokens")
        table = self.file.tensors.get("token_embd.weight")
        if table is None or not table.shape:
            raise UserError(f"'{self.file.path}' has no tensor token_embd.weight")
        vocabulary = table.shape[0]
        if tokens is not None and len(tokens) > vocabulary:
            raise UserError(f"'{self.file.path}' has {len(tokens)} tokens, and embeddings for {vocabulary}")
        scale = 1 / sqrt(width / heads if (self.name, layers) in _OWN_SCALE else max(head_size, 1))
        return DecoderConfig(
            architecture=self.name,
            vocabulary=vocabulary,
            width=width,
            hidden=self.get("feed_forward_length", int),
            heads=heads,
            kv_heads=self.get("attention.head_count_kv", heads),
            head_size=head_size,
            layers=self.layers(layers, head_size),
            context=self.get("context_length", int),
            epsilon=self.get("attention.layer_norm_rms_epsilon", float),
            activation=known.activation,
            scale=self.get("attention.scale", scale),
            attention_cap=self.get("attn_logit_softcapping", known.attention_cap),
            logit_cap=self.get("final_logit_softcapping", known.logit_cap),
            embedding_scale=float(np.float32(sqrt(width))) if known.scaled_embedding else 1.0,
        )

    def layers(self, count: int, head_size: int) -> list[LayerKind]:
        far = self.rotation(head_size)
        window = self.get("attention.sliding_window", 0)
        if not window or self.known.window is None:
            return [LayerKind(far)] * count
        near = far
        if self.known.near_base is not None:
            near = Rotation(far.size, self.get("rope.freq_base_swa", self.known.near_base), far.order)
        kinds = {True: LayerKind(near, window), False: LayerKind(far)}
        return [kinds[each] for each in self.windowed(count, self.known.window)]

    def windowed(self, count: int, usual: Callable[[int], bool]) -> list[bool]:
        """For each layer, whether it attends to near positions only: as the file says, by a flag for each layer or by the number of
        layers of which the last does not, else as usual."""
        key = f"{self.name}.attention.sliding_window_pattern"
        flags = self.file.numbers(key)
        if flags is not None:
            if len(flags) != count:
                raise UserError(f"'{self.file.path}' has {count} layers, and {len(flags)} numbers in {key}")
            return [bool(flag) for flag in flags]
        every = self.get("attention.sliding_window_pattern", 0)
        return [layer % every < every - 1 if every > 0 else usual(layer) for layer in range(count)]

    def rotation(self, head_size: int) -> Rotation:
        kind = self.get("rope.scaling.type", "linear")
        if kind not in ("none", "linear", "yarn", "longrope"):
            raise Limit(
                f"'{self.file.path}' scales positions by the method {kind!r}, which is not supported",
                hint="supported methods: none, linear, yarn, longrope, and frequency factors (rope_freqs.weight)",
            )
        scale = self.get("rope.scaling.factor", self.get("rope.scale_linear", 1.0))
        if kind in ("none", "longrope") or scale == 0:  # 0 is written where there is none
            scale = 1.0
        if not scale > 0:
            raise UserError(f"'{self.file.path}' scales positions by {scale}")
        size, base = self.get("rope.dimension_count", head_size), self.get("rope.freq_base", 10000.0)
        trained = self.get("context_length", int)
        original = self.get("rope.scaling.original_context_length", trained)
        divided = self.factors("rope_freqs.weight", size)
        both = {each: self.factors(f"rope_factors_{each}.weight", size) for each in ("short", "long")}
        if divided is None and (kind == "longrope" or any(both.values())):
            wanted = "long" if (self.context or trained) > original else "short"
            divided = both[wanted]
            if divided is None:
                raise UserError(f"'{self.file.path}' has no tensor rope_factors_{wanted}.weight")
        amplitude = self.get("rope.scaling.attn_factor", 1.0)
        if kind != "yarn":
            return Rotation(size, base, self.known.order, scale, divided, amplitude)
        made = yarn(
            size,
            base,
            scale,
            original,
            self.get("rope.scaling.yarn_beta_fast", 32.0),
            self.get("rope.scaling.yarn_beta_slow", 1.0),
        )
        if divided is not None:
            made = [a * b for a, b in zip(made, divided, strict=True)]
        return Rotation(size, base, self.known.order, 1.0, made, amplitude * yarn_amplitude(scale))

    def factors(self, name: str, size: int) -> list[float] | None:
        """What frequencies are divided by, of a tensor; None where there is none."""
        found = self.file.weight(name)
        if found is None:
            return None
        if found.format.name != "F32" or found.shape != (size // 2,):
            raise UserError(f"'{self.file.path}': {name} is not {size // 2} elements of F32")
        return np.frombuffer(found.data, "<f4").tolist()

    def get(self, key: str, default: T | type[T]) -> T:
        """The value of a key: of the kind of the default, or of the type that stands for it, which has to be there."""
        whole = f"{self.name}.{key}"
        found: Any = self.file.metadata.get(whole)
        kind = default if isinstance(default, type) else type(default)
        if found is None:
            if isinstance(default, type):
                raise UserError(f"'{self.file.path}' lacks {whole} in its metadata")
            return default
        several = self.file.numbers(whole)
        if several is not None:
            found = self.of_all_layers(whole, several)
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            found = float(found)
        if not isinstance(found, kind) or isinstance(found, bool):
            raise UserError(
                f"'{self.file.path}' has {whole} = {shortened(found)}, not of type {kind.__name__}"
            )
        if isinstance(found, float) and not abs(found) <= _GREATEST:
            raise UserError(f"'{self.file.path}' has {whole} = {found}, which is not finite in f32")
        return cast("T", found)

    def of_all_layers(self, whole: str, several: np.ndarray[Any, Any]) -> Any:
        """The number that all layers have, of an entry with one for each."""
        count = self.file.metadata.get(f"{self.name}.block_count")
        if not len(several) or not isinstance(count, int) or len(several) != count:
            raise UserError(
                f"'{self.file.path}' has {len(several)} numbers in {whole}, not one for each layer"
            )
        if len(different := np.unique(several)) > 1:
            raise Limit(
                f"'{self.file.path}' has layers with different {whole}, which is not supported: {shortened(different.tolist())}",
                hint="models whose layers all have the same number can be run",
            )
        return several[0].item()


def _weights(file: Container, config: DecoderConfig) -> DecoderWeights:
    def needed(name: str) -> Weight:
        found = file.weight(name)
        if found is None:
            raise UserError(f"'{file.path}' has no tensor {name}")
        return found

    embedding = needed("token_embd.weight")
    layers = [_layer(file, config, number) for number in range(len(config.layers))]
    return DecoderWeights(
        embedding, needed("output_norm.weight"), file.weight("output.weight") or embedding, layers
    )


def _layer(file: Container, config: DecoderConfig, number: int) -> dict[str, Weight]:
    found: dict[str, Weight] = {}
    for role, name in _LAYER.items():
        weight = file.weight(f"blk.{number}.{name}")
        if weight is not None:
            found[role] = weight
    # One matrix for queries, keys and values, or for both sides of the gated unit.
    joined = file.weight(f"blk.{number}.attn_qkv.weight")
    if joined is not None:
        queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
        found |= joined.split({"attn_q": queries, "attn_k": keys, "attn_v": keys})
    both = found.get("ffn_up")
    if "ffn_gate" not in found and both is not None and both.shape[0] == 2 * config.hidden:
        found |= both.split({"ffn_gate": config.hidden, "ffn_up": config.hidden})
    return found
