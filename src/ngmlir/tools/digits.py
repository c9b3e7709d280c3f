# SPDX-License-Identifier: Apache-2.0
"""The network of the demo: 64-256-128-10 on handwritten digits, as an op graph and once more in plain NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import ngmlir as ng
from ngmlir.support.diagnostics import UserError

WIDTHS = (64, 256, 128, 10)
BATCH = 64
RATE, MOMENTUM = 0.1, 0.9

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Digits:
    """8 x 8 grey images in [0, 1], flattened, and their labels; a quarter held out."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


def load(seed: int = 0) -> Digits:
    """scikit-learn's bundled copy of the UCI digits: 1,797 images."""
    try:
        datasets: Any = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise UserError(
            "the demo needs scikit-learn for its data", hint="pip install 'ngmlir[demo]'"
        ) from None
    pixels, digits = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(digits))
    images = (np.asarray(pixels)[order] / 16).astype(np.float32)
    labels = np.asarray(digits)[order].astype(np.int32)
    held = len(labels) // 4
    return Digits(images[held:], labels[held:], images[:held], labels[:held])


def initial_weights(seed: int = 1) -> list[Array]:
    """Normal weights of deviation sqrt(2 / inputs) (He et al. 2015) and zero biases: w, b, w, b, ..."""
    random = np.random.default_rng(seed)
    out: list[Array] = []
    for inputs, outputs in pairwise(WIDTHS):
        out.append((random.normal(size=(inputs, outputs)) * np.sqrt(2 / inputs)).astype(np.float32))
        out.append(np.zeros(outputs, np.float32))
    return out


def batches(digits: Digits, epochs: int, seed: int = 2) -> Iterator[tuple[Array, Array]]:
    """Shuffled mini-batches; the rest of an epoch that fills no batch is left out."""
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(digits.train_labels))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            yield digits.train_images[chosen], digits.train_labels[chosen]


class Network:
    """The graph: parameters, a training step and a prediction."""

    def __init__(self, weights: list[Array]):
        self.layers = [
            ng.make_axis(n, name)
            for n, name in zip(WIDTHS, ("pixel", "wide", "narrow", "digit"), strict=True)
        ]
        self.parameters: list[ng.Tensor] = []
        for i, (inputs, outputs) in enumerate(pairwise(self.layers)):
            w, b = weights[2 * i : 2 * i + 2]
            self.parameters.append(ng.variable([inputs, outputs], initial_value=w, name=f"w{i}"))
            self.parameters.append(ng.variable([outputs], initial_value=b, name=f"b{i}"))

    def logits(self, images: ng.Tensor) -> ng.Tensor:
        x = images
        for i in range(0, len(self.parameters), 2):
            x = ng.dot(x, self.parameters[i]) + self.parameters[i + 1]
            if i + 2 < len(self.parameters):
                x = ng.relu(x)
        return x

    def training(self, rate: float = RATE, momentum: float = MOMENTUM) -> tuple[Any, ng.Tensor, ng.Tensor]:
        """(what a step returns, images, labels): one call computes the mean loss and updates all parameters."""
        batch = ng.make_axis(BATCH, "N")
        images = ng.placeholder([batch, self.layers[0]], name="images")
        labels = ng.placeholder([batch], dtype=np.int32, name="labels")
        targets = ng.one_hot(labels, self.layers[-1])
        losses = ng.cross_entropy_multi(ng.softmax(self.logits(images)), targets)
        loss = ng.mean(losses, out_axes=())
        updates: list[ng.Op] = []
        # Gradients are created before the assignments, so that they do not depend on them.
        gradients = [ng.deriv(loss, p) for p in self.parameters]
        with ng.Op.saved_user_deps():
            for p, gradient in zip(self.parameters, gradients, strict=True):
                velocity = ng.persistent_tensor(p.axes, initial_value=0.0, name=f"{p.name}_velocity")
                moved = momentum * velocity - rate * gradient
                updates += [ng.assign(velocity, moved), ng.assign(p, p + moved)]
            step = ng.doall(updates)
        return [loss, step], images, labels

    def prediction(self, count: int) -> tuple[ng.Tensor, ng.Tensor]:
        """(the most likely digit of each image, images)."""
        batch = ng.make_axis(count, "N")
        images = ng.placeholder([batch, self.layers[0]], name="images")
        return ng.argmax(self.logits(images), out_axes=[batch]), images


def numpy_step(weights: list[Array]) -> Callable[[Array, Array], np.float32]:
    """The same training step in NumPy, updating `weights` in place: the reference of the demo."""
    velocities = [np.zeros_like(w) for w in weights]
    one_hot = np.eye(WIDTHS[-1], dtype=np.float32)

    def step(images: Array, labels: Array) -> np.float32:
        inputs: list[Array] = []
        x = images
        for i in range(0, len(weights), 2):
            inputs.append(x)
            x = x @ weights[i] + weights[i + 1]
            if i + 2 < len(weights):
                x = np.maximum(x, 0)
        x = x - x.max(axis=1, keepdims=True)
        exponentials = np.exp(x)
        sums = exponentials.sum(axis=1, keepdims=True)
        targets = one_hot[labels]
        loss: np.float32 = (np.log(sums[:, 0]) - (x * targets).sum(axis=1)).mean()
        delta = (exponentials / sums - targets) / np.float32(len(labels))
        gradients: list[Array] = []
        for i in range(len(weights) - 2, -1, -2):
            gradients += [delta.sum(axis=0), inputs[i // 2].T @ delta]
            if i:
                delta = (delta @ weights[i].T) * (inputs[i // 2] > 0)
        for w, v, g in zip(weights, velocities, reversed(gradients), strict=True):
            v *= np.float32(MOMENTUM)
            v -= np.float32(RATE) * g
            w += v
        return loss

    return step
