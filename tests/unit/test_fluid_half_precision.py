# SPDX-License-Identifier: Apache-2.0
"""Programs whose products are computed in 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid.contrib import mixed_precision
from ngmlir.ir.types import bf16, f16
from ngmlir.programs.half_precision import to_half

layers = fluid.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 3, 8, 8)).astype(np.float32)
Y = RNG.integers(0, 4, (16, 1))


def built(optimizer: Any) -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = layers.data("x", [3, 8, 8]), layers.data("y", [1], dtype="int64")
        hidden = layers.batch_norm(layers.conv2d(x, 8, 3, padding=1, bias_attr=False), act="relu")
        hidden = layers.fc(layers.pool2d(hidden, pool_size=2, pool_stride=2), 16, act="tanh")
        loss = layers.mean(layers.cross_entropy(layers.fc(hidden, 4, act="softmax"), y))
        optimizer.minimize(loss)
    return main, startup, loss


def trained(optimizer: Any, place: fluid.Place, steps: int = 8) -> list[float]:
    main, startup, loss = built(optimizer)
    exe, scope = fluid.Executor(place), fluid.Scope()
    exe.run(startup, scope=scope)
    return [float(exe.run(main, {"x": X, "y": Y}, [loss], scope=scope)[0][0]) for _ in range(steps)]


@pytest.mark.parametrize(("dtype", "scale"), [("bfloat16", 1.0), ("float16", 1024.0)])
@pytest.mark.parametrize("place", [fluid.NumpyPlace(), fluid.CPUPlace(), fluid.Place("cuda-sim")], ids=str)
def test_training_follows_float32(place: fluid.Place, dtype: str, scale: float) -> None:
    steps = 2 if place.target == "cuda-sim" else 8
    wide = trained(fluid.optimizer.Momentum(0.05, 0.9), place, steps)
    half = trained(mixed_precision.decorate(fluid.optimizer.Momentum(0.05, 0.9), scale, dtype), place, steps)
    assert half != wide and half[-1] < half[0]
    np.testing.assert_allclose(half, wide, rtol=0.05)


def test_products_and_their_gradients_are_in_16_bits_and_nothing_else() -> None:
    main, _, _ = built(mixed_precision.decorate(fluid.optimizer.SGD(0.1), 64.0))
    elements: dict[str, set[str]] = {}
    for operator in main.view.walk():
        found = {str(main.view.top.visible(n).type.element) for n in (*operator.reads, *operator.writes) if n}
        elements.setdefault(operator.type, set()).update(found)
    for type in ("conv2d", "mul", "conv2d_grad", "mul_grad"):
        assert elements[type] == {"bf16"}
    for type in ("batch_norm", "softmax", "cross_entropy", "sgd", "mean"):
        assert elements[type] <= {"f32", "i64"}
    assert all(p.view.type.element.text == "f32" for p in main.global_block().all_parameters())


def test_a_scale_that_is_a_power_of_two_changes_no_bit() -> None:
    one, scaled = (
        trained(mixed_precision.decorate(fluid.optimizer.SGD(0.1), scale), fluid.NumpyPlace(), 3)
        for scale in (1.0, 2.0**12)
    )
    assert one == scaled


def test_small_gradients_of_float16_need_a_scale() -> None:
    def gradient(scale: float) -> float:
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = layers.data("x", [2])
            loss = layers.mean(layers.scale(layers.fc(x, 1, bias_attr=False), 1e-9))
            _, pairs = mixed_precision.decorate(fluid.optimizer.SGD(0.1), scale, "float16").minimize(loss)
        exe, scope = fluid.Executor(fluid.NumpyPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        feed = {"x": np.ones((1, 2), np.float32)}
        return float(exe.run(main, feed, [pairs[0][1]], scope=scope)[0].ravel()[0])

    assert gradient(1.0) == 0 and gradient(2.0**20) == pytest.approx(1e-9, rel=1e-3)


def test_what_is_written_again_is_cast_again_and_float64_stays() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = layers.data("x", [2, 2], append_batch_size=False)
        wide = layers.data("wide", [2, 2], append_batch_size=False, dtype="float64")
        first = layers.matmul(x, x)
        layers.assign(first, x)
        second = layers.matmul(x, first)
        third = layers.matmul(wide, wide)
    assert to_half(main.view, bf16) == 2 and to_half(main.view, f16) == 0
    casts = [op.inputs["X"][0] for op in main.view.walk() if op.type == "cast"]
    assert casts == ["x", f"{first.name}.bf16", "x", first.name, f"{second.name}.bf16"]
    value = np.array([[1, 1], [0, 1]], np.float32)
    feed = {"x": value, "wide": value.astype(np.float64)}
    given = fluid.Executor(fluid.NumpyPlace()).run(main, feed, [second, third], scope=fluid.Scope())
    np.testing.assert_array_equal(given[0], value @ value @ value @ value)
    assert given[1].dtype == np.float64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dest_dtype": "bfloat17"}, "products are not computed in 'bfloat17'"),
        ({"init_loss_scaling": 0}, "scaled by a positive number, not 0"),
        ({"init_loss_scaling": "1"}, "scaled by a positive number"),
    ],
)
def test_bad_settings(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ng.UserError, match=message):
        mixed_precision.decorate(fluid.optimizer.SGD(0.1), **given)
