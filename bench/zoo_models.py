# SPDX-License-Identifier: Apache-2.0
"""Architectures with random weights for bench/models_zoo.py: what people train, small enough to run in seconds.

Each function gives a torch module and its inputs, and where the model is meant for them, names of dynamic dims.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from zoo_transformers import KINDS

#: Name -> what makes (module, inputs) or (module, inputs, dynamic shapes).
MODELS: dict[str, Callable[[], tuple[Any, ...]]] = {}


def model(build: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """Names a model after the function that makes it."""
    MODELS[build.__name__] = build
    return build


def image(size: int, batch: int = 1, channels: int = 3) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def tokens(vocabulary: int, length: int, batch: int = 1) -> torch.Tensor:
    return torch.randint(1, vocabulary, (batch, length))


class Picked(nn.Module):
    """A model of a library, called with keywords, of whose result some fields are the outputs."""

    def __init__(self, inner: nn.Module, names: list[str], fields: list[str]):
        super().__init__()
        self.inner, self.names, self.fields = inner, names, fields

    def forward(self, *values: torch.Tensor) -> Any:
        made = self.inner(**dict(zip(self.names, values, strict=True)))
        return tuple(made[f] for f in self.fields)


# ---- torchvision


def _vision(name: str, size: int = 64, **options: Any) -> None:
    def build() -> tuple[Any, ...]:
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options), (image(size),)

    MODELS[name] = build


for _name in (
    "resnet18 resnet50 resnext50_32x4d mobilenet_v2 mobilenet_v3_small mobilenet_v3_large efficientnet_b0 "
    "efficientnet_v2_s densenet121 convnext_tiny squeezenet1_1 shufflenet_v2_x1_0 regnet_y_400mf mnasnet1_0 vgg11_bn alexnet"
).split():
    _vision(_name)
_vision("googlenet", 96, init_weights=False, aux_logits=False)
_vision("inception_v3", 128, init_weights=False, aux_logits=False)
_vision("vit_b_16", image_size=64)
_vision("swin_t")
_vision("swin_v2_t")
_vision("maxvit_t", 224)


def _segmentation(name: str) -> None:
    def build() -> tuple[Any, ...]:
        import torchvision

        made = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
        return Outs(made), (image(65),)

    MODELS[name] = build


class Outs(nn.Module):
    """A segmentation model's mask."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)["out"]


for _name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50"):
    _segmentation(_name)


class Raft(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        import torchvision

        self.inner = torchvision.models.optical_flow.raft_small(weights=None)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.inner(a, b, num_flow_updates=2)[-1]


@model
def raft_small() -> tuple[Any, ...]:
    return Raft(), (image(128), image(128))


@model
def video_r3d_18() -> tuple[Any, ...]:
    import torchvision

    return torchvision.models.video.r3d_18(weights=None), (torch.randn(1, 3, 8, 32, 32),)


@model
def resnet18_dynamic() -> tuple[Any, ...]:
    import torchvision

    batch = torch.export.Dim("batch", min=1, max=64)
    return torchvision.models.resnet18(weights=None), (image(64, 2),), ({0: batch},)


# ---- transformers


def _text(
    name: str,
    make: Callable[[Any], Any],
    fields: list[str],
    vocabulary: int = 200,
    masked: bool = True,
    dynamic: bool = False,
) -> None:
    def build() -> tuple[Any, ...]:
        import transformers

        names = ["input_ids", "attention_mask"] if masked else ["input_ids"]
        given = [tokens(vocabulary, 12, 2), torch.ones(2, 12, dtype=torch.int64)][: len(names)]
        if masked:
            given[1][1, 9:] = 0
        made = Picked(make(transformers), names, fields)
        if not dynamic:
            return made, tuple(given)
        dims = {0: torch.export.Dim("batch", min=1, max=16), 1: torch.export.Dim("length", min=2, max=64)}
        return made, tuple(given), (tuple(dims for _ in given),)

    MODELS[name] = build


_small: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 200,
    "max_position_embeddings": 64,
}
_hidden = ["last_hidden_state"]
_text("bert", lambda t: t.BertModel(t.BertConfig(**_small)), [*_hidden, "pooler_output"])
_text("bert_dynamic", lambda t: t.BertModel(t.BertConfig(**_small)), _hidden, dynamic=True)
_text("roberta", lambda t: t.RobertaForTokenClassification(t.RobertaConfig(**_small)), ["logits"])
_text(
    "distilbert",
    lambda t: t.DistilBertModel(
        t.DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=96)
    ),
    _hidden,
)
_text("electra", lambda t: t.ElectraModel(t.ElectraConfig(**_small, embedding_size=32)), _hidden)
_text(
    "albert",
    lambda t: t.AlbertModel(t.AlbertConfig(**_small, embedding_size=32)),
    _hidden,
)
_text(
    "deberta_v2",
    lambda t: t.DebertaV2Model(
        t.DebertaV2Config(**_small, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16)
    ),
    _hidden,
)
_text(
    "mobilebert",
    lambda t: t.MobileBertModel(
        t.MobileBertConfig(
            vocab_size=200,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            embedding_size=32,
            intra_bottleneck_size=32,
            true_hidden_size=32,
        )
    ),
    _hidden,
)
_text(
    "modernbert",
    lambda t: t.ModernBertModel(
        t.ModernBertConfig(
            **_small, pad_token_id=0, attn_implementation="sdpa", cls_token_id=1, sep_token_id=2
        )
    ),
    _hidden,
)
_gpt2: dict[str, Any] = {"vocab_size": 200, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
_text("gpt2", lambda t: t.GPT2LMHeadModel(t.GPT2Config(**_gpt2, use_cache=False)), ["logits"])
_llama: dict[str, Any] = {**_small, "num_key_value_heads": 2, "use_cache": False}
_text("llama", lambda t: t.LlamaForCausalLM(t.LlamaConfig(**_llama)), ["logits"])
_text(
    "llama_dynamic",
    lambda t: t.LlamaForCausalLM(t.LlamaConfig(**_llama)),
    ["logits"],
    masked=False,
    dynamic=True,
)
_text("mistral", lambda t: t.MistralForCausalLM(t.MistralConfig(**_llama, sliding_window=8)), ["logits"])
_text("qwen3", lambda t: t.Qwen3ForCausalLM(t.Qwen3Config(**_llama, head_dim=16)), ["logits"])
_text("gemma2", lambda t: t.Gemma2ForCausalLM(t.Gemma2Config(**_llama, head_dim=16)), ["logits"])
_text("phi3", lambda t: t.Phi3ForCausalLM(t.Phi3Config(**_llama, pad_token_id=0)), ["logits"])
_text(
    "mixtral",
    lambda t: t.MixtralForCausalLM(t.MixtralConfig(**_llama, num_local_experts=4, num_experts_per_tok=2)),
    ["logits"],
)
_text(
    "bloom",
    lambda t: t.BloomForCausalLM(
        t.BloomConfig(vocab_size=200, hidden_size=64, n_layer=2, n_head=4, use_cache=False)
    ),
    ["logits"],
)
_text(
    "mamba",
    lambda t: t.MambaForCausalLM(
        t.MambaConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2, state_size=8, use_cache=False)
    ),
    ["logits"],
    masked=False,
)
_text(
    "xlnet",
    lambda t: t.XLNetModel(t.XLNetConfig(vocab_size=200, d_model=64, n_layer=2, n_head=4, d_inner=96)),
    _hidden,
)
_text("fnet", lambda t: t.FNetModel(t.FNetConfig(**_small)), _hidden, masked=False)


@model
def t5() -> tuple[Any, ...]:
    import transformers as t

    config = t.T5Config(
        vocab_size=200, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, use_cache=False
    )
    made = Picked(t.T5ForConditionalGeneration(config), ["input_ids", "decoder_input_ids"], ["logits"])
    return made, (tokens(200, 12), tokens(200, 7))


@model
def bart() -> tuple[Any, ...]:
    import transformers as t

    config = t.BartConfig(
        vocab_size=200,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_position_embeddings=64,
        use_cache=False,
    )
    made = Picked(t.BartModel(config), ["input_ids", "decoder_input_ids"], _hidden)
    return made, (tokens(200, 12), tokens(200, 7))


@model
def whisper() -> tuple[Any, ...]:
    import transformers as t

    config = t.WhisperConfig(
        vocab_size=200,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_source_positions=50,
        max_target_positions=32,
        num_mel_bins=16,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    made = Picked(t.WhisperModel(config), ["input_features", "decoder_input_ids"], _hidden)
    return made, (torch.randn(1, 16, 100), tokens(200, 6))


@model
def wav2vec2() -> tuple[Any, ...]:
    import transformers as t

    config = t.Wav2Vec2Config(
        **{k: v for k, v in _small.items() if k != "max_position_embeddings"},
        conv_dim=(32, 32, 32),
        conv_stride=(5, 2, 2),
        conv_kernel=(10, 3, 3),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return Picked(t.Wav2Vec2ForCTC(config), ["input_values"], ["logits"]), (torch.randn(1, 1600),)


@model
def audio_spectrogram_transformer() -> tuple[Any, ...]:
    import transformers as t

    config = t.ASTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        num_mel_bins=32,
        max_length=64,
    )
    return Picked(t.ASTModel(config), ["input_values"], _hidden), (torch.randn(1, 64, 32),)


@model
def clip() -> tuple[Any, ...]:
    import transformers as t

    config = t.CLIPConfig(
        text_config={**_small, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
        },
        projection_dim=32,
    )
    names = ["input_ids", "pixel_values"]
    return Picked(t.CLIPModel(config), names, ["logits_per_image", "text_embeds"]), (
        tokens(200, 9),
        image(32),
    )


@model
def segformer() -> tuple[Any, ...]:
    import transformers as t

    config = t.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], decoder_hidden_size=32)
    return Picked(t.SegformerForSemanticSegmentation(config), ["pixel_values"], ["logits"]), (image(64),)


@model
def detr() -> tuple[Any, ...]:
    import transformers as t

    config = t.YolosConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=[64, 64],
        num_detection_tokens=10,
    )
    return Picked(t.YolosForObjectDetection(config), ["pixel_values"], ["logits", "pred_boxes"]), (image(64),)


@model
def dinov2() -> tuple[Any, ...]:
    import transformers as t

    config = t.Dinov2Config(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=56, patch_size=14
    )
    return Picked(t.Dinov2Model(config), ["pixel_values"], _hidden), (image(70),)


@model
def depth_anything() -> tuple[Any, ...]:
    import transformers as t

    config = t.DPTConfig(
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=64,
        patch_size=16,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[16, 24, 32, 32],
        fusion_hidden_size=32,
        head_in_index=-1,
    )
    return Picked(t.DPTForDepthEstimation(config), ["pixel_values"], ["predicted_depth"]), (image(64),)


@model
def vits_flow() -> tuple[Any, ...]:
    import transformers as t

    config = t.UnivNetConfig(
        model_in_channels=8, model_hidden_channels=8, num_mel_bins=16, kernel_predictor_hidden_channels=8
    )
    return Picked(t.UnivNetModel(config), ["input_features", "noise_sequence"], ["waveforms"]), (
        torch.randn(1, 10, 16),
        torch.randn(1, 10, 8),
    )


@model
def time_series_patchtst() -> tuple[Any, ...]:
    import transformers as t

    config = t.PatchTSTConfig(
        num_input_channels=3,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        d_model=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        prediction_length=8,
    )
    return Picked(t.PatchTSTForPrediction(config), ["past_values"], ["prediction_outputs"]), (
        torch.randn(2, 32, 3),
    )


# ---- own modules: what people write themselves


def _own(name: str, make: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]]) -> None:
    MODELS[name] = lambda: (make(), inputs())


class Tagger(nn.Module):
    def __init__(self, kind: str):
        super().__init__()
        self.embed = nn.Embedding(100, 24)
        self.rnn = getattr(nn, kind)(24, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(64, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.head(self.rnn(self.embed(x))[0]), -1)


for _kind in ("LSTM", "GRU", "RNN"):
    _own(
        f"tagger_{_kind.lower()}",
        lambda kind=_kind: Tagger(kind),
        lambda: (tokens(100, 11, 3),),
    )


class ResBlock(nn.Module):
    def __init__(self, channels: int, time: int):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, channels)
        self.c1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.c2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(time, channels * 2)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
        h = self.c1(F.silu(self.n1(x)))
        return x + self.c2(F.silu(self.n2(h) * (1 + scale) + shift))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 3, 3, padding=1)
        self.down, self.up = nn.Conv2d(32, 32, 3, 2, 1), nn.ConvTranspose2d(32, 32, 4, 2, 1)
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.blocks = nn.ModuleList(ResBlock(32, 64) for _ in range(3))
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.merge = nn.Conv2d(64, 32, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        steps = torch.exp(-9.2 * torch.arange(16, device=x.device) / 16).to(x.dtype)
        angle = t[:, None].to(x.dtype) * steps[None]
        t = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        a = self.blocks[0](self.first(x), t)
        b = self.blocks[1](self.down(a), t)
        n, c, h, w = b.shape
        flat = b.flatten(2).transpose(1, 2)
        b = b + self.attention(flat, flat, flat)[0].transpose(1, 2).reshape(n, c, h, w)
        up = F.interpolate(self.up(b), scale_factor=0.5, mode="nearest")
        up = F.interpolate(up, size=a.shape[2:], mode="bilinear", align_corners=False)
        return self.last(self.blocks[2](self.merge(torch.cat([a, up], 1)), t))


_own("unet_diffusion", UNet, lambda: (image(32, 2), torch.tensor([3, 500])))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ELU()
        )
        self.mean, self.spread = nn.Linear(784, 10), nn.Linear(784, 10)
        self.decoder = nn.Sequential(
            nn.Linear(10, 784),
            nn.Unflatten(1, (16, 7, 7)),
            nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1),
            nn.PReLU(8),
            nn.ConvTranspose2d(8, 1, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> Any:
        h = self.encoder(x).flatten(1)
        mean, spread = self.mean(h), self.spread(h)
        loss = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1)
        return self.decoder(mean + noise * (0.5 * spread).exp()), loss


_own("vae", VAE, lambda: (image(28, 2, 1), torch.randn(2, 10)))


class TCN(nn.Module):
    def __init__(self, gated: bool):
        super().__init__()
        self.gated = gated
        self.first = nn.Conv1d(4, 32, 1)
        self.layers = nn.ModuleList(nn.Conv1d(32, 64, 3, dilation=2**i) for i in range(5))
        self.skips = nn.ModuleList(nn.Conv1d(32, 32, 1) for _ in range(5))
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        total = torch.zeros_like(x)
        for layer, skip in zip(self.layers, self.skips, strict=True):
            a, b = layer(F.pad(x, (2 * layer.dilation[0], 0))).chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid(b) if self.gated else F.relu(a) + F.softplus(b)
            total = total + skip(h)
            x = x + h
        return self.norm(total)


_own("tcn", lambda: TCN(False), lambda: (torch.randn(2, 4, 50),))
_own("wavenet", lambda: TCN(True), lambda: (torch.randn(2, 4, 100),))


class Graph(nn.Module):
    """Message passing with sums, means and maxima over the neighbours, then attention over edges."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 16), nn.Linear(48, 16), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges[0], edges[1]
        h = F.relu(self.a(x))
        messages = h[source]
        wide = target[:, None].expand(-1, 16)
        added = torch.zeros_like(h).index_add(0, target, messages)
        count = torch.zeros_like(h[:, 0]).scatter_add(0, target, torch.ones_like(messages[:, 0]))
        most = torch.zeros_like(h).scatter_reduce(0, wide, messages, "amax", include_self=True)
        h = self.b(torch.cat([added, added / count.clamp(min=1)[:, None], most], 1))
        score = F.leaky_relu(self.c(torch.cat([h[source], h[target]], 1)), 0.2).squeeze(1).exp()
        norm = torch.zeros_like(h[:, 0]).index_add(0, target, score)
        return torch.zeros_like(h).index_add(0, target, h[source] * (score / norm[target])[:, None])


_own("graph_network", Graph, lambda: (torch.randn(20, 8), torch.randint(0, 20, (2, 60))))


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, 16, mode="sum") for n in (50, 1000, 7))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16))
        self.top = nn.Sequential(nn.Linear(22, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        parts = [x, *(table.weight[i].sum(1) for table, i in zip(self.tables, (a, b, c), strict=True))]
        z = torch.stack(parts, 1)
        rows, columns = torch.tril_indices(4, 4, -1)
        pairs = torch.bmm(z, z.transpose(1, 2))[:, rows, columns]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))


_own(
    "recommender_dlrm",
    Recommender,
    lambda: (torch.randn(5, 13), tokens(50, 3, 5), tokens(1000, 4, 5), tokens(7, 1, 5)),
)


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 8, mode="mean")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bag(x)


_own("embedding_bag", Bags, lambda: (tokens(50, 4, 5),))


class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(128))
        self.register_buffer("mel", torch.rand(65, 20))
        self.head = nn.Conv1d(20, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.stft(x, 128, 64, window=self.window, return_complex=True)
        power = torch.view_as_real(found).square().sum(-1)
        mel = torch.log(torch.clamp(power.transpose(1, 2) @ self.mel, min=1e-6))
        return self.head(mel.transpose(1, 2))


_own("audio_front_end", Spectrogram, lambda: (torch.randn(2, 1000),))


class Filter(nn.Module):
    """A product in the frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(2, 8, 17, 9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.view_as_real(torch.fft.rfft2(x))[..., :9, :]
        return (found.permute(4, 0, 1, 2, 3) * self.gain[:, :, :16].unsqueeze(1)).abs().sum(0).mean((2, 3))


_own("fft_filter", Filter, lambda: (image(16, 2, 8),))


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.matrix = nn.Linear(16, 9)
        self.body = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = self.matrix(self.turn(x).amax(2)).view(-1, 3, 3)
        x = torch.bmm((turned + torch.eye(3, dtype=x.dtype)), x)
        distance = torch.cdist(x.transpose(1, 2), x.transpose(1, 2))
        near = distance.topk(4, dim=-1, largest=False).indices
        grouped = torch.gather(
            x.transpose(1, 2).unsqueeze(1).expand(-1, x.shape[2], -1, -1),
            2,
            near.unsqueeze(-1).expand(-1, -1, -1, 3),
        )
        return self.head(self.body(grouped.amax(2).transpose(1, 2)).amax(2))


_own("point_net", PointNet, lambda: (torch.randn(2, 3, 40),))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 6)
        self.first, self.second = (
            nn.Parameter(torch.randn(6, 16, 32) / 4),
            nn.Parameter(torch.randn(6, 32, 16) / 5),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.gate(x).softmax(-1).topk(2, -1)
        each = torch.einsum("td,edh->teh", x, self.first)
        each = torch.einsum("teh,ehd->ted", F.gelu(each, approximate="tanh"), self.second)
        picked = torch.gather(each, 1, chosen.unsqueeze(-1).expand(-1, -1, 16))
        return (picked * (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)).sum(1)


_own("mixture_of_experts", Experts, lambda: (torch.randn(9, 16),))


class Head(nn.Module):
    """Boxes of a detector, the best of them, and what non-maximum suppression leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5 * 3, 3, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        import torchvision

        made = self.conv(x).permute(0, 2, 3, 1).reshape(-1, 5)
        corner = made[:, :2].sigmoid() * 20
        boxes, scores = torch.cat([corner, corner + made[:, 2:4].exp() * 8], 1), made[:, 4].sigmoid()
        best, places = scores.topk(50)
        boxes = boxes[places]
        kept = torchvision.ops.nms(boxes, best, 0.5)
        return boxes[kept], best[kept]


_own("detection_head", Head, lambda: (image(32),))


class RoI(nn.Module):
    def forward(self, x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        import torchvision

        return torchvision.ops.roi_align(x, [boxes], (5, 5), 0.5, 2, True)


_own(
    "roi_align",
    RoI,
    lambda: (image(24, 1, 4), torch.tensor([[1.0, 2, 30, 40], [5.5, 6, 20, 17], [-3, 0, 10, 50]])),
)


class Sampler(nn.Module):
    """A spatial transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Linear(3 * 256, 6)

    def forward(self, x: torch.Tensor) -> Any:
        theta = self.where(x.flatten(1)).view(-1, 2, 3) * 0.3
        grid = F.affine_grid(theta, [x.shape[0], 3, 20, 24], align_corners=False)
        warped = [
            F.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=a)
            for m, p, a in (
                ("bilinear", "zeros", False),
                ("bicubic", "border", True),
                ("bilinear", "reflection", False),
            )
        ]
        return tuple(warped)


_own("spatial_transformer", Sampler, lambda: (image(16, 2),))


class Super(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.PReLU(), nn.Conv2d(32, 27, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pixel_shuffle(self.conv(x), 3) + F.interpolate(x, scale_factor=3, mode="bicubic")


_own("super_resolution", Super, lambda: (image(20),))


class Sorter(nn.Module):
    """Orders, running sums and searches."""

    def forward(self, x: torch.Tensor) -> Any:
        ordered, places = x.sort(dim=-1, descending=True)
        total = ordered.softmax(-1).cumsum(-1)
        kept = torch.where(total > 0.7, torch.zeros_like(ordered), ordered)
        return (
            kept.scatter(1, places, kept),
            x.argmax(-1),
            torch.searchsorted(x[0].sort().values.contiguous(), x[1].contiguous()),
        )


_own("nucleus_sampling", Sorter, lambda: (torch.randn(3, 300),))


class Decoder(nn.Module):
    """One step of generation with caches of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
        q, k, v = (t.view(1, 1, 4, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        made = F.scaled_dot_product_attention(q, keys, values)
        return self.out(made.transpose(1, 2).reshape(1, 1, 32)), keys, values


_own(
    "decoder_step", Decoder, lambda: (torch.randn(1, 1, 32), torch.randn(1, 4, 9, 8), torch.randn(1, 4, 9, 8))
)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 32, 4, 4)
        self.tokens = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.mix = nn.Sequential(nn.Linear(64, 32), nn.Hardswish(), nn.Linear(32, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        return (x + self.tokens(x)).mean(1)


_own("mlp_mixer", Mixer, lambda: (image(32),))


class Solver(nn.Module):
    """A physics-informed network and a neural ODE of fixed steps."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            a = self.net(x)
            b = self.net(x + 0.05 * a)
            x = x + 0.1 * b
        return x / (1 + x.norm(dim=-1, keepdim=True))


_own("neural_ode", Solver, lambda: (torch.randn(7, 3),))


class Axial(nn.Module):
    """Three-dimensional medical segmentation."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(
            nn.Conv3d(1, 8, 3, padding=1), nn.InstanceNorm3d(8, affine=True), nn.LeakyReLU()
        )
        self.down, self.up = nn.MaxPool3d(2), nn.ConvTranspose3d(8, 8, 2, 2)
        self.b = nn.Conv3d(8, 8, 3, padding=1, groups=2)
        self.head = nn.Conv3d(16, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = F.interpolate(F.avg_pool3d(self.up(self.b(self.down(a))), 2), scale_factor=2, mode="trilinear")
        return self.head(torch.cat([a, b], 1)).softmax(1)


_own("unet_3d", Axial, lambda: (torch.randn(1, 1, 8, 16, 16),))


class Loops(nn.Module):
    """A recurrence that the exporter leaves as a loop over time."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 8)

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.tanh(x @ self.cell.weight_ih[:8].T + h @ self.cell.weight_hh[:8].T)
            return h, h * 2

        return scan(step, torch.zeros(x.shape[1], 8, dtype=x.dtype), x)


_own("scan_over_time", Loops, lambda: (torch.randn(5, 2, 6),))


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x).tanh(), (x,))


_own("branch", Branch, lambda: (torch.randn(3, 4),))


def _detector(name: str, size: int) -> None:
    def build() -> tuple[Any, ...]:
        import torchvision

        made = torchvision.models.get_model(
            name, weights=None, weights_backbone=None, num_classes=4, min_size=size, max_size=size
        )
        return Found(made), (torch.rand(3, size, size),)

    MODELS[name] = build


class Found(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        found = self.inner([x])[0]
        return found["boxes"], found["scores"], found["labels"]


_detector("retinanet_resnet50_fpn", 128)
_detector("fasterrcnn_mobilenet_v3_large_fpn", 128)
_detector("ssdlite320_mobilenet_v3_large", 320)

MODELS.update({f"small_{name}": build for name, build in KINDS.items()})
