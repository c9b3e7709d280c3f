# SPDX-License-Identifier: Apache-2.0
"""Small networks in the forms that exporters write, for the tools of ONNX Runtime to rewrite (needs torch)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dense = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size) + mask
        made = torch.matmul(torch.softmax(scores, -1), v).permute(0, 2, 1, 3).contiguous()
        return self.dense(made.view(made.size(0), made.size(1), self.heads * self.size))


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention, self.after = _Attention(width, heads), nn.LayerNorm(width, eps=1e-12)
        self.wide, self.back, self.last = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
            nn.LayerNorm(width, eps=1e-12),
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.after(self.attention(x, mask) + x)
        return self.last(self.back(nn.functional.gelu(self.wide(x))) + x)


class Bert(nn.Module):
    """Words, segments and a mask."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.words, self.places, self.segments = (
            nn.Embedding(99, width),
            nn.Embedding(16, width),
            nn.Embedding(2, width),
        )
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.pool, self.classes = nn.Linear(width, width), nn.Linear(width, 3)
        self.register_buffer("positions", torch.arange(16).expand((1, -1)))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Any:
        positions = self.positions[:, : input_ids.size(1)]
        x = self.words(input_ids) + self.segments(token_type_ids) + self.places(positions)
        x = self.norm(x)
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x, self.classes(torch.tanh(self.pool(x[:, 0])))


class _Gpt2Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.weight, self.bias = (
            nn.Parameter(torch.randn(width, 3 * width) * 0.2),
            nn.Parameter(torch.randn(3 * width) * 0.1),
        )
        self.project, self.wide, self.back = (
            nn.Linear(width, width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.register_buffer("seen", torch.tril(torch.ones(32, 32, dtype=torch.bool)).view(1, 1, 32, 32))

    def forward(self, x: Tensor, past: Tensor) -> Any:
        y = self.first(x)
        q, k, v = (
            torch.addmm(self.bias, y.view(-1, y.size(-1)), self.weight)
            .view(y.size(0), y.size(1), -1)
            .split(self.heads * self.size, 2)
        )
        q, k, v = (t.view(t.size(0), t.size(1), self.heads, self.size).permute(0, 2, 1, 3) for t in (q, k, v))
        k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
        present = torch.stack([k, v])
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        seen = self.seen[:, :, k.size(-2) - q.size(-2) : k.size(-2), : k.size(-2)]
        scores = torch.where(seen, scores, torch.tensor(-1e4))
        made = torch.matmul(torch.softmax(scores, -1), v).permute(0, 2, 1, 3).contiguous()
        x = x + self.project(made.view(made.size(0), made.size(1), -1))
        y = self.wide(self.second(x))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + self.back(y), present


class Gpt2(nn.Module):
    """Words and what was kept of those before."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.words, self.places = nn.Embedding(99, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(_Gpt2Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 99, bias=False)

    def forward(self, input_ids: Tensor, position_ids: Tensor, past_0: Tensor, past_1: Tensor) -> Any:
        x, kept = self.words(input_ids) + self.places(position_ids), []
        for layer, past in zip(self.layers, (past_0, past_1), strict=True):
            x, present = layer(x, past)
            kept.append(present)
        return self.head(self.norm(x)), *kept


class _Rms(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.float32)
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class _LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, shared: int):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.first, self.second = _Rms(width), _Rms(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, shared * self.size, bias=False) for _ in range(2))
        self.gate, self.up, self.down = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(3 * width, width, bias=False),
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        def turned(t: Tensor) -> Tensor:
            a, b = t[..., : t.size(-1) // 2], t[..., t.size(-1) // 2 :]
            return t * cos + torch.cat([-b, a], -1) * sin

        y = self.first(x)
        b, s = y.size(0), y.size(1)
        q = turned(self.q(y).view(b, s, self.heads, self.size).transpose(1, 2))
        k = turned(self.k(y).view(b, s, self.shared, self.size).transpose(1, 2))
        v = self.v(y).view(b, s, self.shared, self.size).transpose(1, 2)
        k, v = (
            t[:, :, None]
            .expand(b, self.shared, self.heads // self.shared, s, self.size)
            .reshape(b, self.heads, s, self.size)
            for t in (k, v)
        )
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.size) + mask, -1)
        x = x + self.o(torch.matmul(weights, v).transpose(1, 2).reshape(b, s, -1))
        y = self.second(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Words; positions are their order."""

    def __init__(self, width: int = 64, heads: int = 4, shared: int = 2, layers: int = 2):
        super().__init__()
        self.words = nn.Embedding(99, width)
        self.layers = nn.ModuleList(_LlamaLayer(width, heads, shared) for _ in range(layers))
        self.norm, self.head = _Rms(width), nn.Linear(width, 99, bias=False)
        size = width // heads
        angles = torch.outer(
            torch.arange(32).float(), 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size)
        )
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def forward(self, input_ids: Tensor) -> Tensor:
        s = input_ids.size(1)
        mask = torch.triu(torch.full((32, 32), -1e4), 1)[:s, :s]
        x = self.words(input_ids)
        for layer in self.layers:
            x = layer(x, self.cos[:s], self.sin[:s], mask)
        return self.head(self.norm(x))


class _Block(nn.Module):
    def __init__(self, inner: int, outer: int, step: int):
        super().__init__()
        self.one, self.two = (
            nn.Conv2d(inner, outer, 3, step, 1, bias=False),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
        )
        self.a, self.b = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
        self.skip = (
            nn.Sequential(nn.Conv2d(inner, outer, 1, step, bias=False), nn.BatchNorm2d(outer))
            if step > 1
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.two(torch.relu(self.a(self.one(x)))))
        return torch.relu(y + self.skip(x))


class ResNet(nn.Module):
    """Images of 3 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.pool = (
            nn.Conv2d(3, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.MaxPool2d(3, 2, 1),
        )
        self.blocks = nn.Sequential(_Block(8, 8, 1), _Block(8, 16, 2))
        self.average, self.classes = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.blocks(self.pool(torch.relu(self.norm(self.stem(image)))))
        return self.classes(torch.flatten(self.average(x), 1))


class Squeezed(nn.Module):
    """Activations that convolutions take in, a gate, parts that are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = (
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.Conv2d(8, 8, 1),
            nn.Conv2d(8, 8, 3, padding=1),
        )
        self.gate, self.back = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.pool, self.classes = nn.AvgPool2d(2), nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = nn.functional.leaky_relu(self.stem(image), 0.1)
        x = torch.cat([torch.clamp(self.left(x), -0.5, 0.8), torch.sigmoid(self.right(x))], 1)
        x = self.pool(x * torch.sigmoid(self.back(torch.tanh(self.gate(x.mean((2, 3), keepdim=True))))))
        return torch.softmax(self.classes(x.mean((2, 3))), -1)


class Reader(nn.Module):
    """Words by an LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.reader, self.classes = (
            nn.Embedding(99, 12),
            nn.LSTM(12, 10, 1, bidirectional=True),
            nn.Linear(20, 3),
        )

    def forward(self, input_ids: Tensor) -> Tensor:
        made, _ = self.reader(self.words(input_ids).transpose(0, 1))
        return self.classes(made)


def networks() -> dict[str, tuple[nn.Module, dict[str, Tensor]]]:
    """Networks by name, each with inputs."""
    torch.manual_seed(0)
    ids, mask = torch.randint(0, 99, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    past = {f"past_{i}": torch.randn(2, 2, 4, 3, 8) for i in range(2)}
    positions = torch.arange(3, 10).expand(2, -1).contiguous()
    image = torch.randn(2, 3, 33, 29)
    made: dict[str, tuple[nn.Module, dict[str, Tensor]]] = {
        "bert": (
            Bert(),
            {"input_ids": ids, "token_type_ids": torch.randint(0, 2, (2, 7)), "attention_mask": mask},
        ),
        "gpt2": (Gpt2(), {"input_ids": ids, "position_ids": positions, **past}),
        "llama": (Llama(), {"input_ids": ids}),
        "resnet": (ResNet(), {"image": image}),
        "squeezed": (Squeezed(), {"image": image}),
        "reader": (Reader(), {"input_ids": ids}),
    }
    for network, _ in made.values():
        network.eval()
        for each in network.modules():
            if isinstance(each, nn.BatchNorm2d):
                each.running_mean, each.running_var = (
                    torch.randn_like(each.bias) * 0.2,
                    torch.rand_like(each.bias) + 0.5,
                )
    return made
