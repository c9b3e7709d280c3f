# SPDX-License-Identifier: Apache-2.0
"""Networks of blocks, whose values may be computed again: training steps by plain gradient descent, all values returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ngmlir as ng
import ngmlir.numpy as nn

Block = Callable[..., Any]


class Step(NamedTuple):
    """What a training step returns (the loss, then gradients and new values of variables), and what it is fed."""

    returns: list[Any]
    fed: list[Any]
    arrays: list[Any]


def kept(block: Block) -> Block:
    """The block as it is: what `ng.recompute` may stand for."""
    return block


class Weights:
    """Variables drawn from a normal distribution."""

    def __init__(self) -> None:
        self.draw = np.random.default_rng(3)
        self.made: list[Any] = []

    def __call__(self, *axes: Any, value: float | None = None) -> Any:
        """One with these axes, or of this shape."""
        shape = [axis if isinstance(axis, int) else axis.length for axis in axes]
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
        numbers = self.draw.normal(0, fan**-0.5, shape) if value is None else np.full(shape, value)
        array = numbers.astype("float32")
        named = not isinstance(axes[0], int)
        self.made.append(ng.variable(axes, initial_value=array) if named else nn.variable(array))
        return self.made[-1]


def _step(loss: Any, weights: Weights, fed: Any) -> Step:
    slopes = [ng.deriv(loss, w) for w in weights.made]
    updates = [ng.assign(w, w - g * 0.1) for w, g in zip(weights.made, slopes, strict=True)]
    shape = [axis.length for axis in fed.axes]
    array = np.random.default_rng(5).normal(size=shape).astype("float32")
    return Step([loss, *slopes, ng.doall(updates)], [fed], [array])


def mlp(mark: Block, depth: int = 8, width: int = 48, batch: int = 40) -> Step:
    """Pairs of layers with tanh."""
    weights, x = Weights(), nn.placeholder((batch, width), "float32")

    def block(h: Any, *own: Any) -> Any:
        for w in own:
            h = nn.tanh(h @ w)
        return h

    h = x
    for _ in range(depth // 2):
        h = mark(block)(h, weights(width, width), weights(width, width))
    return _step(nn.mean(h * h), weights, x)


def convnet(mark: Block, depth: int = 4, channels: int = 8, size: int = 12, batch: int = 4) -> Step:
    """Residual blocks of two convolutions with normalisation over the batch."""
    weights = Weights()
    n, h, w = (ng.make_axis(k, name=name) for k, name in ((batch, "B"), (size, "H"), (size, "W")))
    r, s = (ng.make_axis(3, name=name) for name in "RS")
    first, c, d = (ng.make_axis(k, name=name) for k, name in ((3, "C0"), (channels, "C"), (channels, "D")))
    x = ng.placeholder([n, first, h, w])

    def convolved(x: Any, filters: Any, into: Any) -> Any:
        y = ng.convolve(x, filters, {h: r, w: s}, padding="same")
        return ng.cast_axes(y, [n, h, w, into])

    def block(x: Any, *own: Any) -> Any:
        a, gamma, beta, b, gamma2, beta2 = own
        y = ng.batch_norm(convolved(x, a, d), gamma, beta, reduction_axes=[n, h, w])
        y = ng.batch_norm(convolved(ng.relu(y), b, c), gamma2, beta2, reduction_axes=[n, h, w])
        return ng.relu(x + y)

    y = convolved(x, weights(first, r, s, c), c)
    for _ in range(depth):
        own = [weights(c, r, s, d), weights(d, value=1), weights(d, value=0)]
        own += [weights(d, r, s, c), weights(c, value=1), weights(c, value=0)]
        y = mark(block)(y, *own)
    return _step(ng.mean(ng.square(y), out_axes=()), weights, x)


def transformer(
    mark: Block, depth: int = 3, width: int = 32, heads: int = 4, length: int = 24, batch: int = 2
) -> Step:
    """Blocks of attention and two layers, with normalisation, dropout and residual connections."""
    weights, x = Weights(), nn.placeholder((batch, length, width), "float32")
    random = nn.random.default_rng(7)

    def normalised(h: Any, gamma: Any) -> Any:
        centred = h - nn.mean(h, axis=-1, keepdims=True)
        return centred / nn.sqrt(nn.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * gamma

    def dropped(h: Any) -> Any:
        return nn.where(random.uniform(size=h.shape) < 0.9, h / 0.9, 0)

    def parts(h: Any) -> Any:
        return nn.transpose(nn.reshape(h, (batch, length, heads, width // heads)), (0, 2, 1, 3))

    def block(h: Any, *own: Any) -> Any:
        first, query, key, value, out, second, up, down = own
        y = normalised(h, first)
        scores = parts(y @ query) @ nn.transpose(parts(y @ key), (0, 1, 3, 2)) * (width // heads) ** -0.5
        power = nn.exp(scores - nn.max(scores, axis=-1, keepdims=True))
        mixed = power / nn.sum(power, axis=-1, keepdims=True) @ parts(y @ value)
        h = h + dropped(nn.reshape(nn.transpose(mixed, (0, 2, 1, 3)), (batch, length, width)) @ out)
        y = normalised(h, second) @ up
        return h + dropped((y * 0.5 * (1 + nn.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))) @ down)

    h = x
    for _ in range(depth):
        square = [weights(width, width) for _ in range(4)]
        own = [
            weights(width, value=1), *square, weights(width, value=1),
            weights(width, 4 * width), weights(4 * width, width),
        ]  # fmt: skip
        h = mark(block)(h, *own)
    return _step(nn.mean(h * h), weights, x)


NETWORKS: dict[str, Callable[..., Step]] = {"mlp": mlp, "convnet": convnet, "transformer": transformer}
