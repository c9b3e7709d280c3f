# SPDX-License-Identifier: Apache-2.0
"""Random numbers: those of a node are the same in each call, by its seed, or by its name where it states none."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from ....ir.types import TensorType, Type, f32, i1, i32, i64
from ..nodes import Node, operator
from ..tensor import Tensor


def _key(n: Node) -> Tensor:
    seed = n.attributes.get("seed")
    if seed is None:
        return n.verbs.known(np.array([0, crc32(n.outputs[0].encode())], np.uint64))
    stated = seed.i if seed.type == seed.INT else int(np.float32(seed.f).view(np.uint32))
    return n.verbs.known(np.array([stated % (1 << 64), 0], np.uint64))


def _uniform(n: Node, shape: tuple[int, ...], element: Type) -> Tensor:
    """In [0, 1)."""
    return n.verbs.random_uniform(_key(n), type=TensorType(shape, element))


@operator("RandomUniform", "RandomUniformLike")
def random_uniform(n: Node, like: Tensor | None = None) -> Tensor:
    shape, element = _form(n, like)
    low, high = n.number("low", 0.0), n.number("high", 1.0)
    return _uniform(n, shape, element) * (high - low) + low


@operator("RandomNormal", "RandomNormalLike")
def random_normal(n: Node, like: Tensor | None = None) -> Tensor:
    shape, element = _form(n, like)
    made = n.verbs.random_normal(_key(n), type=TensorType(shape, element))
    return made * n.number("scale", 1.0) + n.number("mean", 0.0)


def _form(n: Node, like: Tensor | None) -> tuple[tuple[int, ...], Type]:
    shape = tuple(n.given("shape", [])) if like is None else like.shape
    return shape, n.element("dtype", f32 if like is None or not like.is_float else like.element)


@operator("Bernoulli")
def bernoulli(n: Node, chance: Tensor) -> Tensor:
    return (_uniform(n, chance.shape, chance.element) < chance).cast(n.element("dtype", chance.element))


@operator("Multinomial")
def multinomial(n: Node, scores: Tensor) -> Tensor:
    """Classes by their unscaled log-probabilities: each draw takes the greatest of these, moved by Gumbel's numbers."""
    batch, classes = scores.shape
    draws = n.integer("sample_size", 1)
    rolled = 1 - _uniform(n, (batch, draws, classes), f32)  # in (0, 1]
    noise = -n.verbs.log(-n.verbs.log(rolled))
    moved = scores.cast(f32).with_axes([1]) + noise
    chosen = n.verbs.argmax(moved, type=TensorType((batch, draws), i64), axes=[2])
    return chosen.cast(n.element("dtype", i32))


@operator("Dropout")
def dropout(n: Node, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> list[Tensor]:
    on = training is not None and bool(n.settle(training))
    share = float(n.settle(ratio)) if ratio is not None else n.number("ratio", 0.5)
    kept = i1 if n.version >= 10 else x.element
    if not on or not share:
        return [x, n.verbs.numbers(True, kept, x.shape)]
    stays = _uniform(n, x.shape, f32) >= share
    return [stays.where(x * (1 / (1 - share)) if share < 1 else x, 0), stays]
