# SPDX-License-Identifier: Apache-2.0
"""An autoencoder for digits, written with arrays (`ng.numpy`) and without layers.

./run python examples/digits_autoencoder.py
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import ngmlir as ng
import ngmlir.numpy as nn
from ngmlir.tools import digits

CODE, BATCH, RATE = 8, 64, 2e-3
WIDTHS = (64, 128, 64, CODE, 64, 128, 64)


class Network:
    """Linear layers with tanh in between; the code and the output image have no activation."""

    def __init__(self, draw: np.random.Generator):
        self.weights = [
            nn.variable(draw.normal(0, 1 / np.sqrt(m), (m, n)).astype(np.float32))
            for m, n in pairwise(WIDTHS)
        ]
        self.biases = [nn.variable(np.zeros(n, np.float32)) for n in WIDTHS[1:]]

    def __call__(self, x: ng.Tensor) -> ng.Tensor:
        straight = (WIDTHS.index(CODE) - 1, len(self.weights) - 1)
        for number, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ w + b
            if number not in straight:
                x = nn.tanh(x)
        return x


def adam(loss: ng.Tensor, rate: ng.Tensor, keep: float = 0.9, keep_squares: float = 0.999) -> ng.Op:
    """A step of Adam, as in its paper, for all variables of a loss."""
    steps = nn.persistent_tensor(np.float32(0))
    t = steps + 1
    writes = [ng.assign(steps, t)]
    for v in loss.variables():
        slope = ng.deriv(loss, v)
        mean, squares = (nn.persistent_tensor(np.zeros(v.shape, np.float32)) for _ in range(2))
        m = keep * mean + (1 - keep) * slope
        s = keep_squares * squares + (1 - keep_squares) * slope**2
        move = m / (1 - keep**t) / (nn.sqrt(s / (1 - keep_squares**t)) + 1e-8)
        writes += [ng.assign(mean, m), ng.assign(squares, s), ng.assign(v, v - rate * move)]
    return ng.doall(writes)


def principal(data: digits.Digits) -> float:
    """The mean squared error of the best linear code of the same width (principal components)."""
    middle = data.train_images.mean(axis=0)
    _, _, directions = np.linalg.svd(data.train_images - middle, full_matrices=False)
    test = data.test_images - middle
    return float(np.mean((test - test @ directions[:CODE].T @ directions[:CODE]) ** 2))


def main(epochs: int = 200, target: str = "cpu") -> tuple[float, float]:
    """(mean squared error of held-out digits, that of principal components)."""
    data = digits.load()
    network = Network(np.random.default_rng(0))
    images, rate = nn.placeholder((BATCH, 64), "float32"), nn.placeholder((), "float32")
    loss = nn.mean((network(images) - images) ** 2)
    held_out = nn.placeholder(data.test_images.shape, "float32")
    error = nn.mean((network(held_out) - held_out) ** 2)
    with ng.Op.saved_user_deps():  # these assignments run only if a computation asks for them
        update = adam(loss, rate)
        transformer = ng.transformers.make_transformer(target)
        train = transformer.computation([loss, update], images, rate)
    test = transformer.computation(error, held_out)

    baseline = principal(data)
    print(f"{CODE} principal components: {baseline:.5f}")
    with transformer:
        for step, batch in enumerate(digits.batches(data, epochs)):
            part = step / (epochs * (len(data.train_images) // BATCH))
            train(batch[0], RATE * (1 + np.cos(np.pi * part)) / 2)
            if step % (epochs * 21 // 5) == 0:
                print(f"step {step:5}: {float(test(data.test_images)):.5f}")
        reached = float(test(data.test_images))
    print(f"autoencoder: {reached:.5f}, {1 - reached / baseline:.0%} less")
    return reached, baseline


if __name__ == "__main__":
    main()
