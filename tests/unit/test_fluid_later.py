# SPDX-License-Identifier: Apache-2.0
"""Layers, initializers and learning rates whose names are those of later releases, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any

import numpy as np
import pytest
from program_helpers import program as program

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 4, 3)).astype(np.float32)
P, T = RNG.uniform(size=(4, 3)).astype(np.float32), RNG.integers(0, 2, (4, 3)).astype(np.float32)
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]

#: What a layer makes of x and y, and what that is of arrays; and what it takes.
LAYERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, Any]]] = {
    "log_loss": (layers.log_loss, lambda p, t: -t * np.log(p + 1e-4) - (1 - t) * np.log(1 - p + 1e-4), (P, T)),
    "huber_loss": (
        lambda x, y: layers.huber_loss(x, y, 0.5),
        lambda x, y: np.where(abs(y - x) < 0.5, (y - x) ** 2 / 2, 0.5 * (abs(y - x) - 0.25)),
        (X, Y),
    ),
    "margin_rank_loss": (
        lambda x, y: layers.margin_rank_loss(layers.ones_like(x), x, y), lambda x, y: np.maximum(0, y - x + 0.1), (X, Y),
    ),
    "mse_loss": (layers.mse_loss, lambda x, y: np.mean((x - y) ** 2).reshape(1), (X, Y)),
    "not_equal": (layers.not_equal, np.not_equal, (P, np.where(T > 0, P, T))),
    "less_equal": (layers.less_equal, np.less_equal, (P, np.where(T > 0, P, T))),
    "greater_than": (layers.greater_than, np.greater, (P, np.where(T > 0, P, T))),
    "greater_equal": (layers.greater_equal, np.greater_equal, (P, np.where(T > 0, P, T))),
    "zeros_like": (lambda x, y: layers.zeros_like(x), lambda x, y: 0 * x, (X, Y)),
    "stack": (lambda x, y: layers.stack([x, y], -1), lambda x, y: np.stack([x, y], -1), (X, Y)),
    "stack, first": (lambda x, y: layers.stack([x, y]), lambda x, y: np.stack([x, y]), (X, Y)),
    "isfinite": (lambda x, y: layers.isfinite(x / (y - y)), lambda x, y: np.array([False]), (X, Y)),
}  # fmt: skip


def _run(fetched: Any, place: Any, **feed: Any) -> list[Any]:
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=fetched, return_numpy=False)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, place: Any) -> None:
    build, expected, given = LAYERS[name]
    made = build(layers.data("x", [3]), layers.data("y", [3]))
    with np.errstate(all="ignore"):
        (found,) = _run([made], place, x=given[0], y=given[1])
    found, wanted = np.array(found), expected(*given)
    assert found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_sequences(place: Any) -> None:
    x, y = (layers.data(n, [2], lod_level=1) for n in "xy")
    offset, length = (layers.data(n, [1], dtype="int64") for n in ("offset", "length"))
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    feed = {
        n: fluid.create_lod_tensor(rows + 100 * i, [c], place)
        for i, (n, c) in enumerate((("x", [2, 0, 4]), ("y", [1, 3, 2])))
    }
    feed |= {"offset": np.array([[1], [0], [1]]), "length": np.array([[1], [0], [2]])}
    both, part = _run(
        [layers.sequence_concat([x, y]), layers.sequence_slice(x, offset, length)], place, **feed
    )
    assert both.lod() == [[0, 3, 6, 12]] and np.array(both)[:, 0].tolist() == [
        0,
        2,
        100,
        102,
        104,
        106,
        4,
        6,
        8,
        10,
        108,
        110,
    ]
    assert part.lod() == [[0, 1, 1, 3]] and np.array(part).tolist() == [[2, 3], [6, 7], [8, 9]]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_learning_rates(place: Any) -> None:
    rate = layers.cosine_decay(0.1, 2, 5)
    warm = layers.linear_lr_warmup(rate, 3, 0.0, 0.3)
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    found = np.array([executor.run(fetch_list=[rate, warm]) for _ in range(6)])[..., 0]
    cosine = [0.05 * (cos(step // 2 * pi / 5) + 1) for step in range(6)]
    assert np.allclose(found[:, 0], cosine) and np.allclose(
        found[:, 1], [0, 0.1, 0.2, *cosine[3:]], atol=1e-6
    )


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_initializers(place: Any) -> None:
    values = RNG.normal(size=(3, 4))
    attr = fluid.ParamAttr("w", fluid.initializer.NumpyArrayInitializer(values))
    made = layers.fc(layers.data("x", [3]), 4, param_attr=attr, bias_attr=False)
    attr = fluid.ParamAttr("t", fluid.initializer.TruncatedNormal(1.0, 0.5, seed=3))
    drawn = layers.create_parameter([60, 50], "float32", attr=attr)
    found, many = map(np.array, _run([made, drawn], place, x=X))
    assert np.allclose(found, X @ values, rtol=1e-5, atol=1e-6)
    # The deviation of a normal distribution that is cut at two deviations is 0.8796 of its own.
    assert abs(many - 1).max() <= 1.0 and abs(many.mean() - 1) < 0.04 and abs(many.std() - 0.44) < 0.02


def test_an_array_of_another_shape() -> None:
    attr = fluid.ParamAttr("w", fluid.initializer.NumpyArrayInitializer(np.ones((4, 3))))
    with pytest.raises(
        UserError, match=r"an array of shape \[4, 3\] is given to 'w', which has the shape \[3, 4\]"
    ):
        layers.fc(layers.data("x", [3]), 4, param_attr=attr)
