# SPDX-License-Identifier: Apache-2.0
"""Settings of layers and optimizers that later releases have, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_helpers import X
from program_helpers import program as program

from ngmlir.frontends import fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]


def _run(place: Any, feed: dict[str, Any], *fetched: Any, program: Any = None) -> list[Any]:
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    return executor.run(program, feed=feed, fetch_list=list(fetched))


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("probability", [0.25, 1.0])
def test_dropout_that_scales_in_training(probability: float, place: Any) -> None:
    x = layers.data("x", [3], stop_gradient=False)
    made = layers.dropout(x, probability, seed=3, dropout_implementation="upscale_in_train")
    test = fluid.default_main_program().clone(for_test=True)
    slope = fluid.calc_gradient(layers.reduce_sum(made), x)
    whole = np.tile(X, (50, 1)) + 1
    found, by = _run(place, {"x": whole}, made, slope)
    stays = found != 0
    factor = 1 / (1 - probability) if probability < 1 else 0
    assert np.allclose(found, np.where(stays, whole * factor, 0)) and np.allclose(by, stays * factor)
    assert abs(stays.mean() - (1 - probability)) < 0.06
    (same,) = _run(place, {"x": whole}, made, program=test)
    assert np.array_equal(same, whole)


def test_an_implementation_that_is_not_there() -> None:
    with pytest.raises(UserError, match="upscale_in_train"):
        layers.dropout(layers.data("x", [3]), 0.5, dropout_implementation="upscale")


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("from_scores", [False, True])
def test_classes_that_do_not_count(from_scores: bool, place: Any) -> None:
    x, label = layers.data("x", [3], stop_gradient=False), layers.data("label", [1], dtype="int64")
    if from_scores:
        loss, shares = layers.softmax_with_cross_entropy(x, label, ignore_index=-1, return_softmax=True)
    else:
        shares = layers.softmax(x)
        loss = layers.cross_entropy(shares, label, ignore_index=-1)
    slope = fluid.calc_gradient(layers.reduce_sum(loss), x)
    classes = np.array([2, -1, 0, -1])
    found, share, by = _run(place, {"x": X, "label": classes[:, None]}, loss, shares, slope)
    wanted = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    counts, right = classes >= 0, np.maximum(classes, 0)
    rows = np.arange(4)
    assert np.allclose(share, wanted, atol=1e-6)
    assert np.allclose(found[:, 0], np.where(counts, -np.log(wanted[rows, right]), 0), atol=1e-5)
    assert np.allclose(by, (wanted - np.eye(3)[right]) * counts[:, None], atol=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_products_with_a_factor(place: Any) -> None:
    x = layers.data("x", [3])
    (found,) = _run(place, {"x": X}, layers.matmul(x, x, transpose_y=True, alpha=0.5))
    assert np.allclose(found, 0.5 * X @ X.T)


def test_an_optimizer_that_clips() -> None:
    attr = fluid.ParamAttr("w", fluid.initializer.Constant(1.0))
    loss = layers.reduce_sum(layers.fc(layers.data("x", [3]), 1, param_attr=attr, bias_attr=False))
    clip = fluid.clip.GradientClipByGlobalNorm(0.5)
    fluid.optimizer.SGD(1.0, grad_clip=clip).minimize(loss)
    _run(fluid.CPUPlace(), {"x": X})
    slope = X.sum(0)
    found = np.array(fluid.global_scope().find_var("w").get_tensor())
    assert np.allclose(found[:, 0], 1 - 0.5 * slope / np.linalg.norm(slope), atol=1e-6)


def test_a_clip_that_is_none() -> None:
    loss = layers.reduce_sum(layers.fc(layers.data("x", [3]), 1))
    with pytest.raises(UserError, match="is no clip"):
        fluid.optimizer.SGD(1.0, grad_clip=0.5).minimize(loss)
