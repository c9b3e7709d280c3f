# SPDX-License-Identifier: Apache-2.0
"""Residual and VGG networks with batch normalization and dropout, on digits as images of three channels.

./run python examples/programs/image_classification.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from recognize_digits import data as digits

import ngmlir.frontends.fluid as fluid

BATCH = 32


def data(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Digits of `side` x `side` pixels and three channels."""

    def larger(x: np.ndarray) -> np.ndarray:
        times = side // x.shape[-1]
        return np.tile(x.repeat(times, 2).repeat(times, 3), (1, 3, 1, 1))

    train_x, train_y, test_x, test_y = digits()
    return larger(train_x), train_y, larger(test_x), test_y


def conv_bn_layer(
    input: fluid.Variable, ch_out: int, filter_size: int, stride: int, padding: int, act: str | None = "relu"
) -> fluid.Variable:
    made = fluid.layers.conv2d(
        input, ch_out, filter_size, stride=stride, padding=padding, act=None, bias_attr=False
    )
    return fluid.layers.batch_norm(made, act=act)


def shortcut(input: fluid.Variable, ch_out: int, stride: int) -> fluid.Variable:
    return input if input.shape[1] == ch_out else conv_bn_layer(input, ch_out, 1, stride, 0, None)


def basic_block(input: fluid.Variable, ch_out: int, stride: int) -> fluid.Variable:
    first = conv_bn_layer(input, ch_out, 3, stride, 1)
    second = conv_bn_layer(first, ch_out, 3, 1, 1, act=None)
    return fluid.layers.elementwise_add(second, shortcut(input, ch_out, stride), act="relu")


def resnet(input: fluid.Variable, width: int = 8) -> fluid.Variable:
    """A residual network of three blocks."""
    made: Any = conv_bn_layer(input, width, 3, 1, 1)
    for times, stride in ((1, 1), (2, 2), (4, 2)):
        made = basic_block(made, width * times, stride)
    pooled = fluid.layers.pool2d(made, pool_type="avg", global_pooling=True)
    return fluid.layers.fc(pooled, 10, act="softmax")


def vgg(input: fluid.Variable, width: int = 8) -> fluid.Variable:
    """A VGG network of three groups of convolutions, with dropout."""

    def block(x: fluid.Variable, filters: int, groups: int, dropouts: list[float]) -> fluid.Variable:
        return fluid.nets.img_conv_group(
            x, [filters] * groups, 2, pool_stride=2, conv_padding=1, conv_filter_size=3, conv_act="relu",
            conv_with_batchnorm=True, conv_batchnorm_drop_rate=dropouts, pool_type="max",
        )  # fmt: skip

    made = block(input, width, 2, [0.1, 0.0])
    made = block(made, 2 * width, 2, [0.1, 0.0])
    made = block(made, 4 * width, 2, [0.1, 0.0])
    hidden = fluid.layers.fc(fluid.layers.dropout(made, 0.2), 64)
    return fluid.layers.fc(fluid.layers.batch_norm(hidden, act="relu"), 10, act="softmax")


def main(
    network: Callable[[fluid.Variable], fluid.Variable] = resnet,
    passes: int = 5,
    side: int = 16,
    place: fluid.Place | None = None,
    save_to: str | None = None,
) -> float:
    """Trains for some passes over the data; gives the share of the test images that are recognized. What predicts is saved to a
    folder."""
    train_x, train_y, test_x, test_y = data(side)
    main_program, startup = fluid.Program(), fluid.Program()
    main_program.random_seed = startup.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        images = fluid.layers.data("pixel", [3, side, side])
        label = fluid.layers.data("label", [1], dtype="int64")
        predict = network(images)
        avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
        acc = fluid.layers.accuracy(predict, label)
        test_program = main_program.clone(for_test=True)
        fluid.optimizer.Adam(0.003).minimize(avg_cost)

    exe = fluid.Executor(place or fluid.CPUPlace())
    draw = np.random.default_rng(1)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(passes):
            order = draw.permutation(len(train_x))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                rows = order[start : start + BATCH]
                exe.run(
                    main_program, feed={"pixel": train_x[rows], "label": train_y[rows]}, fetch_list=[avg_cost]
                )
        (share,) = exe.run(test_program, feed={"pixel": test_x, "label": test_y}, fetch_list=[acc])
        if save_to is not None:
            fluid.io.save_inference_model(save_to, ["pixel"], [predict], exe, main_program)
    return float(share[0])


if __name__ == "__main__":
    print(f"recognized: {main(resnet):.1%} by a residual network, {main(vgg):.1%} by VGG")
