# SPDX-License-Identifier: Apache-2.0
"""A network of two hidden layers on handwritten digits: layers, an optimizer, batches, and a training loop.

./run python examples/digits_mlp.py
"""

from __future__ import annotations

import numpy as np

import ngmlir as ng
from ngmlir.frontends.neon import (
    Adam,
    Affine,
    ArrayIterator,
    KaimingInit,
    Layer,
    Rectlin,
    Sequential,
    Softmax,
    ax,
    loop_eval,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
)
from ngmlir.tools import digits

BATCH = 64


class Thinned(Layer):
    """Dropout with a mask for each sample; the built-in `Dropout` has one mask for the batch."""

    def __init__(self, keep: float, seed: int):
        super().__init__()
        self.keep, self.seed = keep, seed

    def __call__(self, in_obj: ng.Tensor) -> ng.Tensor:
        return in_obj if self.inference_mode else ng.dropout(in_obj, self.keep, seed=self.seed)


def main(epochs: int = 100, target: str = "cpu") -> float:
    """Trains for some passes over the data; returns the accuracy on held-out digits."""
    np.random.seed(0)  # initial values and the order of samples are drawn from NumPy's generator
    data = digits.load()

    def batches(images: np.ndarray, labels: np.ndarray, **settings: object) -> ArrayIterator:
        arrays = {
            "image": {"data": images, "axes": ("N", "pixel")},
            "label": {"data": labels, "axes": ("N",)},
        }
        return ArrayIterator(arrays, batch_size=BATCH, **settings)

    steps = epochs * (len(data.train_labels) // BATCH)
    train_set = batches(data.train_images, data.train_labels, total_iterations=steps, shuffle=True)
    test_set = batches(data.test_images, data.test_labels)
    inputs = train_set.make_placeholders(include_iteration=True)
    ax.Y.length = 10

    model = Sequential(
        [
            Thinned(keep=0.85, seed=1),
            Affine(KaimingInit(), nout=256, activation=Rectlin()),
            Thinned(keep=0.7, seed=2),
            Affine(KaimingInit(), nout=128, activation=Rectlin()),
            Thinned(keep=0.7, seed=3),
            Affine(KaimingInit(), axes=ax.Y, activation=Softmax()),
        ],
        name="mlp",
    )
    loss = ng.cross_entropy_multi(model(inputs["image"]), ng.one_hot(inputs["label"], axis=ax.Y))
    rate = {"name": "schedule", "base_lr": 0.002, "gamma": 0.2, "schedule": [steps // 2, steps * 3 // 4]}
    optimizer = Adam(rate, iteration=inputs["iteration"])
    cost = ng.sequential([optimizer(loss), ng.mean(loss, out_axes=())])
    with Layer.inference_mode_on():
        found = ng.argmax(model(inputs["image"]), out_axes=[ax.N])
    right = ng.equal(found, inputs["label"])

    with ng.transformers.make_transformer(target) as transformer:
        train = make_bound_computation(transformer, {"batch_cost": cost}, inputs)
        test = make_bound_computation(transformer, {"accuracy": right}, inputs)
        callbacks = make_default_callbacks(
            transformer,
            None,
            frequency=max(1, steps // 5),
            train_computation=train,
            total_iterations=steps,
            eval_set=test_set,
            loss_computation=test,
        )
        loop_train(train_set, callbacks)
        accuracy = loop_eval(test_set, test)["accuracy"]
    print(f"{accuracy:.2%} of {len(data.test_labels)} held-out digits are recognized")
    return accuracy


if __name__ == "__main__":
    main()
