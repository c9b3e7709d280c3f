# SPDX-License-Identifier: Apache-2.0
"""Programs that are fed images of other sizes: pooling, windows as sequences, and resizing, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers

Array = np.ndarray[Any, Any]


def windows(x: Array, size: int, step: int, border: int) -> list[list[Array]]:
    """The parts of windows that are no padding, as many as there are if lengths are rounded up."""
    counts = [-(-(n + 2 * border - size) // step) + 1 for n in x.shape[2:]]
    return [
        [
            x[:, :, max(0, i * step - border) : i * step - border + size, max(0, j * step - border) : j * step - border + size]
            for j in range(counts[1])
        ]
        for i in range(counts[0])
    ]  # fmt: skip


def pooled(x: Array, size: int, step: int, border: int, of: Callable[[Array], Array]) -> Array:
    rows = [np.stack([of(each) for each in row], -1) for row in windows(x, size, step, border)]
    return np.stack(rows, -2)


def sequences(x: Array) -> Array:
    """The windows of 3 x 2 elements, one down and two across at a time."""
    _, _, height, width = x.shape
    places = [(i, j) for i in range(height - 2) for j in range(0, width - 1, 2)]
    return np.array([image[:, i : i + 3, j : j + 2].ravel() for image in x for i, j in places])


def resized(x: Array, *sizes: int) -> Array:
    for axis, size in enumerate(sizes, 2):
        old = x.shape[axis]
        at = np.arange(size) * (old - 1) / (size - 1)
        low = np.minimum(at.astype(int), old - 1)
        weight = (at - low).reshape([-1] + [1] * (3 - axis))
        x = x.take(low, axis) * (1 - weight) + x.take(np.minimum(low + 1, old - 1), axis) * weight
    return x


CASES: dict[str, tuple[Callable[[fluid.Variable], fluid.Variable], Callable[[Array], Array]]] = {
    "greatest": (
        lambda x: layers.pool2d(x, 2, "max", 2, ceil_mode=True),
        lambda x: pooled(x, 2, 2, 0, lambda part: part.max((2, 3))),
    ),
    "mean": (
        lambda x: layers.pool2d(x, 3, "avg", 2, 1, ceil_mode=True),
        lambda x: pooled(x, 3, 2, 1, lambda part: part.mean((2, 3))),
    ),
    "mean of all": (
        lambda x: layers.pool2d(x, 3, "avg", 2, 1, ceil_mode=True, exclusive=False),
        lambda x: pooled(x, 3, 2, 1, lambda part: part.sum((2, 3)) / 9),
    ),
    "sequences": (lambda x: layers.im2sequence(x, [3, 2], [1, 2]), sequences),
    "resized": (lambda x: layers.resize_bilinear(x, [5, 7]), lambda x: resized(x, 5, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_images_of_any_size(name: str, open_compilations: list[str]) -> None:
    build, reference = CASES[name]
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.data("x", [-1, 2, -1, -1], append_batch_size=False)
        factor = layers.create_parameter(
            [1], "float32", name="factor", default_initializer=fluid.initializer.Constant(2.0)
        )
        made = build(layers.elementwise_mul(x, factor))
        loss = layers.reduce_sum(made)
        fluid.backward.append_backward(loss)
    scope, executor = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    executor.run(startup, scope=scope)
    draw = np.random.default_rng(3)

    def check(sizes: Sequence[int]) -> None:
        value = draw.standard_normal((sizes[0], 2, *sizes[1:])).astype(np.float32)
        out, slope = executor.run(main, {"x": value}, [made, "factor@GRAD"], scope=scope, return_numpy=False)
        wanted = reference(value)
        np.testing.assert_allclose(np.array(out), 2 * wanted, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(
            np.array(slope), [wanted.sum()], rtol=1e-4, atol=1e-3 * np.sqrt(wanted.size)
        )

    for _ in range(12):
        check([int(draw.integers(2, 5)), *draw.integers(6, 40, 2).tolist()])
    assert len(open_compilations) == 1
    for sizes in ((1, 5, 5), (1, 3, 2), (2, 6, 3)):
        check(sizes)
