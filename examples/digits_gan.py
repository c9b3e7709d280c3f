# SPDX-License-Identifier: Apache-2.0
"""A Wasserstein GAN with gradient penalty that draws digits: the critic's loss holds a derivative, so training needs second ones.

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
    """(distance to the nearest of the others, which one it is) of each point."""
    squares = (points**2).sum(1)[:, None] - 2 * points @ others.T + (others**2).sum(1)[None, :]
    which = squares.argmin(axis=1)
    return np.sqrt(np.maximum(squares[np.arange(len(points)), which], 0)), which


def judged(drawn: np.ndarray, data: digits.Digits) -> tuple[float, float]:
    """(how far from a real digit a drawn one is, as a multiple of how far a held-out one is; how many digits are drawn: e to
    the entropy of the labels of the nearest real ones, 10 if all are equally frequent)."""
    far, which = nearest(drawn, data.train_images)
    usual, _ = nearest(data.test_images, data.train_images)
    shares = np.bincount(data.train_labels[which], minlength=10) / len(drawn)
    entropy = -np.sum(shares * np.log(np.where(shares > 0, shares, 1)))
    return float(far.mean() / usual.mean()), float(np.exp(entropy))


def shown(images: np.ndarray) -> str:
    """Images side by side as letters."""
    levels = (images.reshape(-1, 8, 8) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join(
        "  ".join("".join(SHADES[v] * 2 for v in image[row]) for image in levels) for row in range(8)
    )


def main(iterations: int = 3000, target: str = "cpu") -> tuple[float, float]:
    """Trains both networks; gives what `judged` says of a thousand samples."""
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
    # Somewhere between a real and a drawn digit the critic should rise by one for each step of length one.
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

        report(0, "-")  # it has judged nothing yet
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
