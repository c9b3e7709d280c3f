# SPDX-License-Identifier: Apache-2.0
"""The program of a decoder: tokens and caches in, logits and caches out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from ...ir.attributes import UnitAttr, integers
from ...ir.core import Block, Module, Value, module
from ...ir.elements import elements
from ...ir.types import TensorType, f32, i1, i32, shape_of
from ...ops import func
from ...ops.builder import Builder, function
from ...passes.graph.integer_products import REASSOCIATES
from .config import DecoderConfig, DecoderWeights, LayerKind, Rotation
from .weights import Weight

#: The position of a row of a cache that holds nothing: later than any other.
NOTHING = (1 << 31) - 1
#: Arguments before the caches.
FEEDS = ("tokens", "positions", "rows", "wanted", "held")


class Sizes(NamedTuple):
    """Lengths of a program: sequences, tokens of each in one call, rows of a cache, and of how many tokens logits are wanted."""

    sequences: int
    tokens: int
    rows: int
    wanted: int


@dataclass(frozen=True)
class _Turns:
    """Cosines and sines of the angles of positions, [sequences, tokens, 1, size / 2]."""

    rotation: Rotation
    cosines: Value
    sines: Value


def decoder(config: DecoderConfig, weights: DecoderWeights, sizes: Sizes) -> Module:
    """One function of a decoder.

    Arguments: `tokens` and `positions` [sequences, tokens]; `rows` [tokens], the rows of the caches where their keys and values are
    put; `wanted` [sequences, wanted], for which tokens logits are given; `held` [sequences, rows], the position of each row of the
    caches after that (`NOTHING`: the row is not read); then keys and values of each layer [sequences, heads, rows, size].
    Results: logits [sequences, wanted, vocabulary], f32; then the caches, in place of the arguments.
    """
    return _Building(config, weights, sizes).module()


class _Building:
    def __init__(self, config: DecoderConfig, weights: DecoderWeights, sizes: Sizes):
        self.config, self.weights, self.sizes = config, weights, sizes
        n, s, t, w = sizes
        cache = TensorType((n, config.kv_heads, t, config.head_size), f32)
        types = [TensorType(shape, i32) for shape in ((n, s), (n, s), (s,), (n, w), (n, t))]
        names = [f"{part}{i}" for i in range(len(config.layers)) for part in ("keys", "values")]
        self.block = Block([*types, *[cache] * len(names)], [*FEEDS, *names])
        self.b = Builder(self.block)
        self.turns: dict[int, _Turns] = {}
        self.masks: dict[int | None, Value] = {}

    def module(self) -> Module:
        tokens, self.positions, self.rows, wanted, self.held, *caches = self.block.args
        b, config = self.b, self.config
        x = self.weights.embedding.rows(b, tokens)
        if config.embedding_scale != 1.0:
            x = b.multiply(x, b.number(config.embedding_scale, x.type))
        after: list[Value] = []
        for number, kind in enumerate(config.layers):
            layer = self.weights.layers[number]
            x, keys, values = self.layer(x, layer, kind, caches[2 * number], caches[2 * number + 1])
            after += [keys, values]
        n, _, _, w = self.sizes
        at = b.broadcast(wanted, type=TensorType((n, w, config.width), i32), dimensions=[0, 1])
        x = self.normalized(b.gather_elements(x, at, axis=1), self.weights.norm)
        logits = self.capped(self.product(x, self.weights.output), config.logit_cap)
        b.end(func.ReturnOp, logits, *after)
        tied = [number for i in range(len(after)) for number in (1 + i, len(FEEDS) + i)]
        return module([function("main", self.block, {"ng.tied": integers(tied), REASSOCIATES: UnitAttr()})])

    def layer(
        self, x: Value, layer: Mapping[str, Weight], kind: LayerKind, keys: Value, values: Value
    ) -> tuple[Value, Value, Value]:
        b = self.b
        y = self.normalized(x, layer["attn_norm"])
        q, k, v = (self.heads(y, layer, part) for part in "qkv")
        q, k = self.turned(q, kind.rotation), self.turned(k, kind.rotation)
        keys, values = (
            b.scatter(cache, self.rows, b.transpose(new, permutation=[0, 2, 1, 3]), axis=2)
            for cache, new in ((keys, k), (values, v))
        )
        y = self.product(self.attended(q, keys, values, kind.window), layer["attn_output"])
        y = self.biased(y, layer.get("attn_output_bias"))
        x = b.add(x, self.normalized(y, layer.get("attn_post_norm")))
        y = self.gated(self.normalized(x, layer["ffn_norm"]), layer)
        return b.add(x, self.normalized(y, layer.get("ffn_post_norm"))), keys, values

    def product(self, x: Value, weight: Weight) -> Value:
        """[..., inputs] by a weight [outputs, inputs]: [..., outputs]."""
        b, (*lead, inputs) = self.b, shape_of(x.type)
        # As a matrix, of which the compiler knows most.
        flat = b.reshape(x, type=TensorType((prod(lead), inputs), f32))
        made = b.dot(flat, weight.value(b), lhs_contract=[1], rhs_contract=[1])
        return b.reshape(made, type=TensorType((*lead, weight.shape[0]), f32))

    def biased(self, x: Value, bias: Weight | None) -> Value:
        return x if bias is None else self.b.add(x, self.along_last(bias.value(self.b), x))

    def along_last(self, value: Value, like: Value) -> Value:
        return self.b.broadcast(value, type=like.type, dimensions=[len(shape_of(like.type)) - 1])

    def normalized(self, x: Value, weight: Weight | None) -> Value:
        """Divided by the root of the mean square over the last dimension; as it is where there is no weight."""
        if weight is None:
            return x
        b, shape = self.b, shape_of(x.type)
        last = len(shape) - 1
        mean = b.mean(b.multiply(x, x), axes=[last])
        factor = b.rsqrt(b.add(mean, b.number(self.config.epsilon, mean.type)))
        scale = weight.value(b)
        if self.config.unit_offset:
            scale = b.add(scale, b.number(1.0, scale.type))
        wide = b.broadcast(factor, type=x.type, dimensions=[*range(last)])
        return b.multiply(b.multiply(x, wide), self.along_last(scale, x))

    def heads(self, x: Value, layer: Mapping[str, Weight], part: str) -> Value:
        """Queries, keys or values [sequences, tokens, heads, size]."""
        b, config, (n, s, _, _) = self.b, self.config, self.sizes
        made = self.biased(self.product(x, layer[f"attn_{part}"]), layer.get(f"attn_{part}_bias"))
        count = config.heads if part == "q" else config.kv_heads
        made = b.reshape(made, type=TensorType((n, s, count, config.head_size), f32))
        return self.normalized(made, layer.get(f"attn_{part}_norm"))

    def angles(self, rotation: Rotation) -> _Turns:
        if id(rotation) not in self.turns:
            b, (n, s, _, _) = self.b, self.sizes
            half = rotation.size // 2
            type = TensorType((n, s, 1, half), f32)
            line = TensorType((half,), f32)
            frequencies = b.constant(type=line, value=elements(rotation.frequencies(), line))
            places = b.cast(self.positions, type=TensorType((n, s), f32))
            angles = b.multiply(
                b.broadcast(places, type=type, dimensions=[0, 1]),
                b.broadcast(frequencies, type=type, dimensions=[3]),
            )
            turns = [b.cos(angles), b.sin(angles)]
            if rotation.amplitude != 1.0:
                turns = [b.multiply(each, b.number(rotation.amplitude, type)) for each in turns]
            self.turns[id(rotation)] = _Turns(rotation, *turns)
        return self.turns[id(rotation)]

    def turned(self, x: Value, rotation: Rotation) -> Value:
        """Applies rotary position embedding. Adjacent pairs are moved to a distance of half the rotated elements, in queries
        and keys alike, which does not change their products."""
        b, shape = self.b, shape_of(x.type)
        turns = self.angles(rotation)
        size, half = rotation.size, rotation.size // 2

        def elements_of(start: int, stop: int, step: int = 1) -> Value:
            return b.slice(x, starts=[0, 0, 0, start], limits=[*shape[:3], stop], steps=[1, 1, 1, step])

        if rotation.order == "interleaved":
            first, second = elements_of(0, size - 1, 2), elements_of(1, size, 2)
        else:
            first, second = elements_of(0, half), elements_of(half, size)
        cosines, sines = (self.for_heads(each, first) for each in (turns.cosines, turns.sines))
        parts = [
            b.subtract(b.multiply(first, cosines), b.multiply(second, sines)),
            b.add(b.multiply(second, cosines), b.multiply(first, sines)),
        ]
        if size < shape[3]:
            parts.append(elements_of(size, shape[3]))
        return b.concatenate(parts, axis=3)

    def for_heads(self, value: Value, like: Value) -> Value:
        n, s, _, half = shape_of(value.type)
        flat = self.b.reshape(value, type=TensorType((n, s, half), f32))
        return self.b.broadcast(flat, type=like.type, dimensions=[0, 1, 3])

    def attended(self, q: Value, keys: Value, values: Value, window: int | None) -> Value:
        """softmax(scale q k^T, masked) v, [sequences, tokens, heads * size]; heads share keys and values in groups."""
        b, config, (n, s, _, _) = self.b, self.config, self.sizes
        groups = config.heads // config.kv_heads
        q = b.reshape(q, type=TensorType((n, s, config.kv_heads, groups, config.head_size), f32))
        scores = b.dot(
            q, keys, lhs_contract=[4], rhs_contract=[3], lhs_batch=[0, 2], rhs_batch=[0, 1]
        )  # [sequences, heads of keys, tokens, groups, rows]
        scores = b.multiply(scores, b.number(config.scale, scores.type))
        scores = self.capped(scores, config.attention_cap)
        mask = self.mask(window)
        wide = b.broadcast(mask, type=TensorType(shape_of(scores.type), i1), dimensions=[0, 2, 4])
        scores = b.select(wide, scores, b.number(float("-inf"), scores.type))
        shares = b.softmax(scores, axes=[4])
        made = b.dot(shares, values, lhs_contract=[4], rhs_contract=[2], lhs_batch=[0, 1], rhs_batch=[0, 1])
        made = b.transpose(made, permutation=[0, 2, 1, 3, 4])
        return b.reshape(made, type=TensorType((n, s, config.heads * config.head_size), f32))

    def mask(self, window: int | None) -> Value:
        """Whether a token attends to a row of the caches, [sequences, tokens, rows]: to its own position and those before, of
        these to the last `window`."""
        if window not in self.masks:
            b, (n, s, t, _) = self.b, self.sizes
            type = TensorType((n, s, t), i32)
            held = b.broadcast(self.held, type=type, dimensions=[0, 2])
            own = b.broadcast(self.positions, type=type, dimensions=[0, 1])
            seen = b.less_equal(held, own)
            if window is not None:
                near = b.greater(held, b.subtract(own, b.number(window, type)))
                seen = b.bitwise_and(seen, near)
            self.masks[window] = seen
        return self.masks[window]

    def gated(self, x: Value, layer: Mapping[str, Weight]) -> Value:
        b = self.b

        def part(x: Value, name: str) -> Value:
            return self.biased(self.product(x, layer[f"ffn_{name}"]), layer.get(f"ffn_{name}_bias"))

        return part(b.multiply(self.active(part(x, "gate")), part(x, "up")), "down")

    def active(self, x: Value) -> Value:
        b = self.b
        if self.config.activation == "silu":
            return b.multiply(x, b.sigmoid(x))
        # x / 2 (1 + tanh(y)) = x sigmoid(2 y)
        cube = b.multiply(b.multiply(x, x), x)
        inner = b.add(x, b.multiply(cube, b.number(0.044715, x.type)))
        return b.multiply(x, b.sigmoid(b.multiply(inner, b.number(2 * float(np.sqrt(2 / np.pi)), x.type))))

    def capped(self, x: Value, cap: float) -> Value:
        b = self.b
        if not cap:
            return x
        return b.multiply(b.tanh(b.multiply(x, b.number(1 / cap, x.type))), b.number(cap, x.type))
