# SPDX-License-Identifier: Apache-2.0
"""A Wasserstein GAN with gradient penalty that generates digits: the critic's loss contains a gradient, so training needs second derivatives.

./run python examples/digits_gan.py
"""

from __future__ import annotations

import numpy as np

import ngmlir as ng
from ngmlir.frontends.neon import (
    Adam,
    Affine,
    Convolution,
    KaimingInit,
    Logistic,
    Rectlin,
    Sequential,
    ax,
)
from ngmlir.tools import digits

BATCH, NOISE, CRITIC_STEPS, PENALTY = 64, 32, 4, 10.0
SHADES = " .:-=+*#%@"


def leaky(x: ng.Tensor) -> ng.Tensor:
    return ng.maximum(x, 0.2 * x)


def nearest(points: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each point: (distance to the nearest of the others, its index)."""
    squares = (points**2).sum(1)[:, None] - 2 * points @ others.T + (others**2).sum(1)[None, :]
    which = squares.argmin(axis=1)
    return np.sqrt(np.maximum(squares[np.arange(len(points)), which], 0)), which


def judged(drawn: np.ndarray, data: digits.Digits) -> tuple[float, float]:
    """(mean distance of generated digits to the nearest real one, divided by that of held-out digits; e to the entropy of
    the labels of these nearest digits: 10 if all classes are equally frequent)."""
    far, which = nearest(drawn, data.train_images)
    usual, _ = nearest(data.test_images, data.train_images)
    shares = np.bincount(data.train_labels[which], minlength=10) / len(drawn)
    entropy = -np.sum(shares * np.log(np.where(shares > 0, shares, 1)))
    return float(far.mean() / usual.mean()), float(np.exp(entropy))


def shown(images: np.ndarray) -> str:
    """Images side by side as text."""
    levels = (images.reshape(-1, 8, 8) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join(
        "  ".join("".join(SHADES[v] * 2 for v in image[row]) for image in levels) for row in range(8)
    )


def main(iterations: int = 3000, target: str = "cpu") -> tuple[float, float]:
    """Trains both networks; returns `judged` of a thousand samples."""
    np.random.seed(0)
    data = digits.load()
    ax.N.length = BATCH
    pixels = [ng.make_axis(1, "C"), ng.make_axis(8, "H"), ng.make_axis(8, "W")]
    noise_axis = ng.make_axis(NOISE, "noise")

    init = KaimingInit()
    generator = Sequential(
        [
            Affine(init, nout=128, activation=Rectlin()),
            Affine(init, nout=128, activation=Rectlin()),
            Affine(init, axes=pixels, activation=Logistic()),
        ],
        name="generator",
    )
    critic = Sequential(
        [
            Convolution((3, 3, 16), init, padding=1, bias_init=0, activation=leaky),
            Convolution((3, 3, 32), init, padding=1, strides=2, bias_init=0, activation=leaky),
            Affine(init, nout=64, activation=leaky),
            Affine(init, axes=()),
        ],
        name="critic",
    )

    real = ng.placeholder([ax.N, *pixels], name="real")
    noise = ng.normal(ng.constant(0, [ax.N, noise_axis]), seed=1)
    fake = generator(noise)
    distance = ng.mean(critic(real) - critic(fake), out_axes=())
    # The gradient of the critic between real and generated digits should have norm 1.
    mixed = ng.uniform(ng.constant(0, [ax.N]), seed=2)
    between = fake + mixed * (real - fake)
    slope = ng.deriv(critic(between), between)
    length = ng.L2_norm(slope, out_axes=[ax.N])
    penalty = ng.mean(ng.square(length - 1), out_axes=())
    train_critic = ng.sequential(
        [Adam(1e-3, 0.5, 0.9)(PENALTY * penalty - distance, subgraph=critic), distance]
    )
    train_generator = Adam(1e-3, 0.5, 0.9)(-ng.mean(critic(fake), out_axes=()), subgraph=generator)

    draw = np.random.default_rng(0)
    with ng.transformers.make_transformer(target) as transformer:
        sharpen = transformer.computation([train_critic, penalty], real)
        improve = transformer.computation(train_generator)
        sample = transformer.computation(ng.axes_with_order(fake, [ax.N, *pixels]))

        def drawn(count: int) -> np.ndarray:
            return np.concatenate([sample().reshape(BATCH, 64) for _ in range(-(-count // BATCH))])[:count]

        def report(step: int, critic: str) -> tuple[float, float]:
            far, kinds = judged(drawn(1000), data)
            print(f"step {step:5}: critic {critic:>6}, distance to real digits {far:.2f}, {kinds:.1f} digits")
            return far, kinds

        report(0, "-")  # no training yet
        for step in range(1, iterations + 1):
            for _ in range(CRITIC_STEPS):
                chosen = draw.integers(0, len(data.train_images), BATCH)
                found, _ = sharpen(data.train_images[chosen].reshape(BATCH, 1, 8, 8))
            improve()
            if step % max(1, iterations // 6) == 0:
                result = report(step, f"{found:.3f}")
        print(shown(drawn(6)))
    return result


if __name__ == "__main__":
    main()
