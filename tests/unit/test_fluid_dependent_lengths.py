# SPDX-License-Identifier: Apache-2.0
"""Inputs of which a length is computed of those of others: the rows of all labels of a batch of padded sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers
from ngmlir.support.diagnostics import UserError

Feed = dict[str, np.ndarray[Any, Any]]
WORDS, WIDTH = 7, 4


def padded(name: str, *shape: int, dtype: str = "float32") -> fluid.Variable:
    return layers.data(name, [-1, *shape], dtype=dtype, append_batch_size=False)


def labels_of_words() -> fluid.Variable:
    """As many labels and weights as there are words, in one column; and scores between all words of a sentence."""
    x = layers.fc(padded("x", -1, WIDTH), WIDTH, num_flatten_dims=2)
    scores = layers.elementwise_add(layers.matmul(x, x, transpose_y=True), padded("mask", -1, -1))
    mixed = layers.matmul(layers.softmax(scores), x)
    guess = layers.reshape(layers.fc(mixed, WORDS, num_flatten_dims=2), [-1, WORDS])
    label = layers.one_hot(padded("label", 1, dtype="int64"), WORDS)
    loss = layers.softmax_with_cross_entropy(guess, layers.label_smooth(label, epsilon=0.1), soft_label=True)
    weight = padded("weight", 1)
    return layers.reduce_sum(loss * weight) / layers.reduce_sum(weight)


def words(draw: np.random.Generator, count: int, length: int) -> Feed:
    return {
        "x": draw.standard_normal((count, length, WIDTH)).astype("f4"),
        "mask": draw.standard_normal((count, length, length)).astype("f4"),
        "label": draw.integers(0, WORDS, (count * length, 1)),
        "weight": draw.random((count * length, 1)).astype("f4"),
    }


def pooled_maps() -> fluid.Variable:
    """One target for each place that a pooling of images leaves, and one more for each image."""
    made = layers.pool2d(padded("x", 1, 4, -1), [4, 2], "max", [4, 2])
    rows = layers.reshape(made, [-1, 1])
    targets = layers.concat([rows, padded("more", 1)], axis=0)
    return layers.reduce_mean(layers.square(targets - padded("target", 1)))


def maps(draw: np.random.Generator, count: int, length: int) -> Feed:
    length += 2  # one place alone has a program of its own
    shapes = {"x": (count, 1, 4, length), "more": (count, 1), "target": (count * (length // 2) + count, 1)}
    return {name: draw.standard_normal(shape).astype("f4") for name, shape in shapes.items()}


def built(build: Callable[[], fluid.Variable]) -> tuple[fluid.Program, fluid.Variable, fluid.Scope]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = build()
        if main.global_block().all_parameters():
            fluid.optimizer.SGD(0.1).minimize(loss)
    scope = fluid.Scope()
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    return main, loss, scope


@pytest.mark.parametrize("first", [(2, 3), (3, 3), (2, 8), (4, 2)])
@pytest.mark.parametrize(("build", "feed"), [(labels_of_words, words), (pooled_maps, maps)])
def test_two_compilations(
    build: Callable[[], fluid.Variable],
    feed: Callable[[np.random.Generator, int, int], Feed],
    first: tuple[int, int],
    open_compilations: list[str],
) -> None:
    draw = np.random.default_rng(1)
    batches = [feed(draw, *first)] + [feed(draw, *draw.integers(2, 9, 2).tolist()) for _ in range(12)]
    main, loss, scope = built(build)
    executor = fluid.Executor(fluid.CPUPlace())
    losses = [executor.run(main, batch, [loss], scope=scope)[0] for batch in batches]
    # Where lengths are the same by chance in the batch for which code is made, others need their own.
    assert len(open_compilations) <= 2

    main, loss, scope = built(build)
    for batch, found in zip(batches, losses, strict=True):
        alone = fluid.Executor(fluid.CPUPlace())  # it has no programs of other batches
        np.testing.assert_allclose(found, alone.run(main, batch, [loss], scope=scope)[0], rtol=2e-5)


def test_a_length_that_does_not_follow_is_refused() -> None:
    draw = np.random.default_rng(1)
    main, loss, scope = built(labels_of_words)
    executor = fluid.Executor(fluid.CPUPlace())
    for sizes in ((3, 4), (4, 5), (2, 6)):
        executor.run(main, words(draw, *sizes), [loss], scope=scope)
    batch = words(draw, 3, 5)
    batch["label"] = batch["label"][:-1]
    with pytest.raises(UserError, match=r"label.*14|14.*label"):
        executor.run(main, batch, [loss], scope=scope)
    executor.run(main, words(draw, 3, 5), [loss], scope=scope)
