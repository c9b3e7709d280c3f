# SPDX-License-Identifier: Apache-2.0
"""What a decoder is: the record that readers of files fill, and that programs are built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log, pi
from typing import Literal

import numpy as np

from ...support.diagnostics import UserError
from .weights import Weight

#: No model that can be run here has more of anything than this.
_MOST = 1 << 24
#: Nor are positions embedded in more elements of a head than these.
_MOST_TURNED = 1 << 16


@dataclass(frozen=True)
class Rotation:
    """Rotary position embedding: pairs of elements of a head are rotated by the position times their frequency.

    The pairs are neighbours (`interleaved`), or elements half of `size` apart (`halves`). Frequency i of `size / 2` is
    `base ** (-2 i / size)`, divided by `factors[i]`, and by `linear`. Rotated elements are multiplied by `amplitude`.
    """

    size: int
    base: float = 10000.0
    order: Literal["interleaved", "halves"] = "halves"
    linear: float = 1.0
    factors: Sequence[float] | None = None
    amplitude: float = 1.0

    def frequencies(self) -> np.ndarray:
        """[size / 2], float32."""
        exponents = np.arange(0, self.size, 2, dtype=np.float64) / self.size
        with np.errstate(all="ignore"):  # `check` refuses what is not finite
            made = 1.0 / (np.float64(self.base) ** exponents) / self.linear
            if self.factors is not None:
                made = made / np.asarray(self.factors, np.float64)
            return made.astype(np.float32)


def yarn(
    size: int, base: float, factor: float, context: float, fast: float = 32.0, slow: float = 1.0
) -> list[float]:
    """What YaRN divides the `size / 2` frequencies by: 1 where a wave turns more than `fast` times in the `context` that a model was first trained
    for, `factor` where it turns less than `slow` times, something between for those between. UserError for numbers that have no such waves."""
    if not (base > 1 and factor > 0 and context >= 1 and 0 < slow < fast and 2 <= size <= _MOST_TURNED):
        raise UserError(
            f"positions are scaled by yarn with base {base}, factor {factor}, context {context}, turns {slow} to {fast}, in {size} elements"
        )

    def place(turns: float) -> float:
        return size * (log(context) - log(turns) - log(2 * pi)) / (2 * log(base))

    low, high = max(floor(place(fast)), 0), min(ceil(place(slow)), size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0.0, 1.0)
    return (1 / (ramp / factor + 1 - ramp)).tolist()


def yarn_amplitude(factor: float) -> float:
    """The amplitude of YaRN where a model says no other."""
    return 1 + 0.1 * log(factor) if factor > 1 else 1.0


@dataclass(frozen=True)
class LayerKind:
    """In what layers differ: how positions are embedded, and how many of the last ones a position attends to (None: all)."""

    rotation: Rotation
    window: int | None = None


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder of the family of llama: RMS norms, rotary positions, grouped heads, gated units.

    `layers` has one entry for each layer. `scale` is what products of queries and keys are multiplied with; soft caps bound them
    and the logits: `cap * tanh(x / cap)`. `unit_offset` adds 1 to the weights of norms. `embedding_scale` multiplies embeddings.
    """

    architecture: str
    vocabulary: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    layers: Sequence[LayerKind]
    context: int
    epsilon: float = 1e-5
    activation: Literal["silu", "gelu"] = "silu"
    scale: float = 0.0
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    embedding_scale: float = 1.0
    unit_offset: bool = False

    def check(self) -> None:
        """UserError for numbers that no decoder has."""
        counts = {
            "vocabulary": self.vocabulary,
            "width": self.width,
            "hidden": self.hidden,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_size": self.head_size,
            "layers": len(self.layers),
            "context": self.context,
        }
        for name, count in counts.items():
            if not 1 <= count <= _MOST:
                raise UserError(f"the model says that its {name} is {count}", hint=f"1 to {_MOST}")
        if self.heads % self.kv_heads:
            raise UserError(
                f"the model has {self.heads} heads, which {self.kv_heads} heads of keys and values cannot be shared by"
            )
        for kind in self.layers:
            turned = kind.rotation.size
            if turned % 2 or not 2 <= turned <= min(self.head_size, _MOST_TURNED):
                raise UserError(f"positions are embedded in {turned} elements of heads of {self.head_size}")
            if kind.window is not None and not 1 <= kind.window <= _MOST:
                raise UserError(f"the model says that a position attends to {kind.window} positions")
            if not np.isfinite(kind.rotation.frequencies()).all():
                raise UserError("the model has frequencies of positions that are not finite")
            if not (isfinite(kind.rotation.amplitude) and kind.rotation.amplitude > 0):
                raise UserError(f"the model multiplies rotated elements by {kind.rotation.amplitude}")
        numbers = [self.epsilon, self.scale, self.attention_cap, self.logit_cap, self.embedding_scale]
        if not all(isfinite(n) and n >= 0 for n in numbers):
            raise UserError(f"the model has numbers that are not finite or below 0: {numbers}")


#: The weights of a layer: those that it has to have, and others. Matrices are [outputs, inputs].
NEEDED = (
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)
OPTIONAL = (
    "attn_q_bias",
    "attn_k_bias",
    "attn_v_bias",
    "attn_output_bias",
    "attn_q_norm",
    "attn_k_norm",
    "attn_post_norm",
    "ffn_gate_bias",
    "ffn_up_bias",
    "ffn_down_bias",
    "ffn_post_norm",
)


@dataclass(frozen=True)
class DecoderWeights:
    """The weights by role: `embedding` [vocabulary, width], `norm` [width], `output` [vocabulary, width], and for each layer those
    of `NEEDED` and some of `OPTIONAL`. Norms of queries and keys come before positions are embedded; `post` norms apply to what
    attention or a gated unit gives, before it is added."""

    embedding: Weight
    norm: Weight
    output: Weight
    layers: Sequence[Mapping[str, Weight]] = field(default_factory=tuple)

    def check(self, config: DecoderConfig) -> None:
        """UserError for weights that are not there, or have another shape than the model's numbers say."""
        if len(self.layers) != len(config.layers):
            raise UserError(
                f"the model has weights of {len(self.layers)} layers, and says that it has {len(config.layers)}"
            )
        width, queries, keys = (
            config.width,
            config.heads * config.head_size,
            config.kv_heads * config.head_size,
        )
        shapes = {
            "attn_norm": (width,),
            "attn_q": (queries, width),
            "attn_k": (keys, width),
            "attn_v": (keys, width),
            "attn_output": (width, queries),
            "ffn_norm": (width,),
            "ffn_gate": (config.hidden, width),
            "ffn_up": (config.hidden, width),
            "ffn_down": (width, config.hidden),
            "attn_q_bias": (queries,),
            "attn_k_bias": (keys,),
            "attn_v_bias": (keys,),
            "attn_output_bias": (width,),
            "attn_q_norm": (config.head_size,),
            "attn_k_norm": (config.head_size,),
            "attn_post_norm": (width,),
            "ffn_gate_bias": (config.hidden,),
            "ffn_up_bias": (config.hidden,),
            "ffn_down_bias": (width,),
            "ffn_post_norm": (width,),
        }
        table = (config.vocabulary, width)
        for weight, shape in ((self.embedding, table), (self.norm, (width,)), (self.output, table)):
            weight.expect(shape)
        for number, layer in enumerate(self.layers):
            for role in NEEDED:
                if role not in layer:
                    raise UserError(f"layer {number} of the model lacks its weight {role}")
            for role, weight in layer.items():
                weight.expect(shapes[role])

    def all(self) -> list[Weight]:
        """Each weight once."""
        found = [
            self.embedding,
            self.norm,
            self.output,
            *(w for layer in self.layers for w in layer.values()),
        ]
        return list({id(weight): weight for weight in found}.values())
