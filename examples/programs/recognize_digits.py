# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits by fully connected layers, or by convolutions.

./run python examples/programs/recognize_digits.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import ngmlir.frontends.fluid as fluid

BATCH = 64


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images [n, 1, 8, 8] and labels [n, 1] to train on, and those to test on."""
    found: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = (found.images[order, None] / 16).astype(np.float32)
    y = found.target[order, None].astype(np.int64)
    cut = len(order) * 8 // 10
    return x[:cut], y[:cut], x[cut:], y[cut:]


def mlp(image: fluid.Variable) -> fluid.Variable:
    """Two hidden layers."""
    hidden = fluid.layers.fc(fluid.layers.fc(image, 128, act="relu"), 64, act="relu")
    return fluid.layers.fc(hidden, 10, act="softmax")


def conv(image: fluid.Variable) -> fluid.Variable:
    """Two convolutions with pooling."""
    first = fluid.nets.simple_img_conv_pool(image, 20, 3, 2, 2, conv_padding=1, act="relu")
    second = fluid.nets.simple_img_conv_pool(first, 50, 3, 2, 2, conv_padding=1, act="relu")
    return fluid.layers.fc(second, 10, act="softmax")


def main(
    network: Callable[[fluid.Variable], fluid.Variable] = mlp,
    passes: int = 15,
    place: fluid.Place | None = None,
    save_to: str | None = None,
    dtype: str = "float32",
) -> float:
    """Trains for some passes over the data; gives the share of the test images that are recognized. What predicts is saved to a
    folder. Products are computed in `dtype`, which may be `bfloat16` or `float16`."""
    train_x, train_y, test_x, test_y = data()
    main_program, startup = fluid.Program(), fluid.Program()
    main_program.random_seed = startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        image = fluid.layers.data("image", [1, 8, 8])
        label = fluid.layers.data("label", [1], dtype="int64")
        predict = network(image)
        avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
        acc = fluid.layers.accuracy(predict, label)
        test_program = main_program.clone(for_test=True)
        if network is mlp:
            decay = fluid.regularizer.L2Decay(0.0005)
            optimizer = fluid.optimizer.Momentum(0.1, 0.9, regularization=decay)
        else:
            optimizer = fluid.optimizer.Adam(0.002)
        if dtype == "float32":
            optimizer.minimize(avg_cost)
        else:
            scaling = 1024.0 if dtype == "float16" else 1.0
            fluid.contrib.mixed_precision.decorate(optimizer, scaling, dtype).minimize(avg_cost)

    exe = fluid.Executor(place or fluid.CPUPlace())
    draw = np.random.default_rng(1)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            order = draw.permutation(len(train_x))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                rows = order[start : start + BATCH]
                exe.run(
                    main_program, feed={"image": train_x[rows], "label": train_y[rows]}, fetch_list=[avg_cost]
                )
        (share,) = exe.run(test_program, feed={"image": test_x, "label": test_y}, fetch_list=[acc])
        if save_to is not None:
            fluid.io.save_inference_model(save_to, ["image"], [predict], exe, main_program)
    return float(share[0])


if __name__ == "__main__":
    print(f"recognized: {main(mlp):.1%} by fully connected layers, {main(conv):.1%} by convolutions")
