# SPDX-License-Identifier: Apache-2.0
"""The kinds of models that the package transformers knows, each made small: two layers of 64 numbers, and their inputs.

What a kind calls its sizes differs; of the names below each takes those that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

#: What sizes are called -> small ones.
SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim"), 128),
    "num_key_value_heads": 2, "head_dim": 16, "embedding_size": 32, "vocab_size": 211, "use_cache": False,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
#: The same of what reads words and pictures.
PARTS = {"num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "image_size": 64, "patch_size": 16}

WORDS = (
    "albert electra distilbert roberta xlm-roberta camembert big_bird opt gpt_neox rwkv bart pegasus mbart marian blenderbot "
    "mt5 umt5 xlm flaubert convbert layoutlm esm ernie roformer mpnet ibert starcoder2 stablelm olmo olmo2 qwen2 gemma "
    "gemma3_text cohere phi granite glm nemotron mpt biogpt xglm ctrl gpt_bigcode persimmon recurrent_gemma rembert "
    "data2vec-text yoso nystromformer splinter mra smollm3 helium diffllama ernie4_5 exaone4 hunyuan_v1_dense lfm2 openai-gpt"
).split()
PICTURES = (
    "vit deit beit dinov2 regnet poolformer mobilevit resnet bit focalnet ijepa vit_msn yolos dpt mobilenet_v1 efficientnet "
    "swiftformer textnet hgnet_v2 dinov3_vit data2vec-vision siglip_vision_model clip_vision_model mask2former"
).split()
FILMS = "timesformer videomae vivit".split()
SOUNDS = "hubert wav2vec2-conformer wavlm unispeech-sat sew sew-d data2vec-audio".split()


class First(nn.Module):
    """A model called with one keyword, of whose result the first tensor is the output."""

    def __init__(self, inner: nn.Module, name: str):
        super().__init__()
        self.inner, self.name = inner, name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = {self.name: x}
        if self.name == "input_ids" and self.inner.config.is_encoder_decoder:
            given["decoder_input_ids"] = x[:, :7]
        try:
            made = self.inner(**given, return_dict=False)
        except TypeError:  # some only give dictionaries
            made = self.inner(**given).to_tuple()
        return made if isinstance(made, torch.Tensor) else made[0]


def _small(kind: str, name: str, shaped: Callable[[Any], tuple[int, ...]]) -> tuple[Any, ...]:
    from transformers import AutoConfig, AutoModel

    whole = AutoConfig.for_model(kind)
    config = AutoConfig.for_model(kind, **{k: n for k, n in SIZES.items() if hasattr(whole, k)})
    for key, size in PARTS.items() if kind not in SOUNDS else ():
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, size)
    module = AutoModel.from_config(config, attn_implementation="eager")
    shape = shaped(config)
    return First(module, name), (torch.randint(3, 200, shape) if name == "input_ids" else torch.randn(shape),)


def _side(config: Any) -> int:
    side = getattr(config, "image_size", 64)
    return side if isinstance(side, int) else 64


#: Name -> what makes (module, inputs), as in zoo_models.py.
KINDS: dict[str, Callable[[], tuple[Any, ...]]] = {
    **{k: partial(_small, k, "input_ids", lambda c: (2, 16)) for k in WORDS},
    **{k: partial(_small, k, "pixel_values", lambda c: (1, 3, _side(c), _side(c))) for k in PICTURES},
    **{
        k: partial(_small, k, "pixel_values", lambda c: (1, c.num_frames, 3, _side(c), _side(c)))
        for k in FILMS
    },
    **{k: partial(_small, k, "input_values", lambda c: (1, 8000)) for k in SOUNDS},
}
