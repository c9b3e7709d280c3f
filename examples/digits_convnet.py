# SPDX-License-Identifier: Apache-2.0
"""A convolutional network on handwritten digits, with batch normalization, and a checkpoint.

./run python examples/digits_convnet.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import ngmlir as ng
from ngmlir.frontends.neon import (
    Adam,
    Affine,
    ArrayIterator,
    Convolution,
    Dropout,
    KaimingInit,
    Layer,
    Pooling,
    Rectlin,
    Saver,
    Sequential,
    Softmax,
    ax,
    loop_eval,
    make_bound_computation,
)
from ngmlir.tools import digits

BATCH = 64


def main(epochs: int = 20, target: str = "cpu") -> float:
    """Trains for some passes over the data; returns the accuracy on held-out digits."""
    np.random.seed(0)
    data = digits.load()

    def batches(images: np.ndarray, labels: np.ndarray, **settings: object) -> ArrayIterator:
        pictures = images.reshape(-1, 1, 8, 8)
        arrays = {
            "image": {"data": pictures, "axes": ("N", "C", "H", "W")},
            "label": {"data": labels, "axes": ("N",)},
        }
        return ArrayIterator(arrays, batch_size=BATCH, **settings)

    steps = epochs * (len(data.train_labels) // BATCH)
    train_set = batches(data.train_images, data.train_labels, total_iterations=steps, shuffle=True)
    test_set = batches(data.test_images, data.test_labels)
    inputs = train_set.make_placeholders(include_iteration=True)
    ax.Y.length = 10

    init = KaimingInit()
    model = Sequential(
        [
            Convolution((3, 3, 16), init, padding=1, batch_norm=True, activation=Rectlin()),
            Convolution((3, 3, 32), init, padding=1, batch_norm=True, activation=Rectlin()),
            Pooling((2, 2), strides=2),
            Convolution((3, 3, 48), init, padding=1, batch_norm=True, activation=Rectlin()),
            Pooling((2, 2), strides=2),
            Dropout(keep=0.8, seed=1),
            Affine(init, axes=ax.Y, activation=Softmax()),
        ],
        name="convnet",
    )
    loss = ng.cross_entropy_multi(model(inputs["image"]), ng.one_hot(inputs["label"], axis=ax.Y))
    rate = {"name": "schedule", "base_lr": 0.003, "gamma": 0.2, "schedule": [steps // 2, steps * 3 // 4]}
    optimizer = Adam(rate, iteration=inputs["iteration"])
    cost = ng.sequential([optimizer(loss), ng.mean(loss, out_axes=())])
    with Layer.inference_mode_on():
        found = ng.argmax(model(inputs["image"]), out_axes=[ax.N])
    right = ng.equal(found, inputs["label"])

    with ng.transformers.make_transformer(target) as transformer:
        train = make_bound_computation(transformer, {"batch_cost": cost}, inputs)
        test = make_bound_computation(transformer, {"accuracy": right}, inputs)
        for batch in train_set:
            made = train(batch)["batch_cost"]
            if batch["iteration"] % max(1, steps // 5) == 0:
                print(f"step {batch['iteration']:4}: cost {float(made):.4f}, {loop_eval(test_set, test)}")
        accuracy = loop_eval(test_set, test)["accuracy"]

        # Save the weights to a file, and load them into another transformer.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "convnet.safetensors"
            saver = Saver()
            saver.setup_save(transformer, test)
            saver.save(file)
            size = file.stat().st_size
            with ng.transformers.make_transformer(target) as other:
                again = make_bound_computation(other, {"accuracy": right}, inputs)
                saver.setup_restore(other, again, file)
                saver.restore()
                assert loop_eval(test_set, again)["accuracy"] == accuracy
    print(f"{accuracy:.2%} of {len(data.test_labels)} held-out digits are recognized; weights: {size} bytes")
    return accuracy


if __name__ == "__main__":
    main()
