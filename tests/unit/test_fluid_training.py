# SPDX-License-Identifier: Apache-2.0
"""Optimizers, clips, regularization, learning rates and averages of `fluid` against closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.frontends.fluid import layers

pytestmark = pytest.mark.usefixtures("programs")

Array = np.ndarray
PLACES = ("numpy", "cpu", "cuda-sim")
START = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
WEIGHT = np.array([0.3, 1.0, -0.7, 2.0], np.float32)


def parameter(attr: Any = None) -> fluid.Parameter:
    """A parameter that begins with START."""
    made = layers.create_parameter([4], "float32", attr=attr or "w")
    block = fluid.default_startup_program().global_block()
    block.remove_op(len(block.ops) - 1)
    fields = {"shape": [4], "dtype": "float32", "fp32_values": START.tolist()}
    block.append_op(type="assign_value", outputs={"Out": ["w"]}, attrs=fields)
    return made


def loss_of(w: fluid.Variable) -> fluid.Variable:
    """The sum of WEIGHT w^2 / 2, whose gradient is WEIGHT w."""
    weight = layers.assign(WEIGHT)
    weight.stop_gradient = True
    return layers.reduce_sum(layers.square(w) * weight * 0.5)


def steps(optimizer: Any, count: int, place: str = "cpu", attr: Any = None) -> Array:
    """The parameter after so many steps."""
    optimizer.minimize(loss_of(parameter(attr)))
    exe = fluid.Executor(fluid.Place(place))
    exe.run(fluid.default_startup_program())
    for _ in range(count):
        exe.run()
    return held("w")


def held(name: str) -> Array:
    return np.array(fluid.global_scope().tensor(name))


# ---- closed forms: each takes the state, the parameter, its gradient and the number of the step


def sgd(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    return p - 0.1 * g


def momentum(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["v"] = 0.9 * s.get("v", 0) + g
    return p - 0.1 * s["v"]


def nesterov(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["v"] = 0.9 * s.get("v", 0) + g
    return p - 0.1 * (g + 0.9 * s["v"])


def adam(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["m"], s["v"] = 0.9 * s.get("m", 0) + 0.1 * g, 0.999 * s.get("v", 0) + 0.001 * g * g
    rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return p - rate * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def lamb(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["m"], s["v"] = 0.9 * s.get("m", 0) + 0.1 * g, 0.999 * s.get("v", 0) + 0.001 * g * g
    step = s["m"] / (np.sqrt(s["v"]) + 1e-6) + 0.02 * p
    return p - 0.1 * np.linalg.norm(p) / np.linalg.norm(step) * step


def adamax(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["n"] = np.maximum(0.999 * s.get("n", 0) + 1e-8, np.abs(g))
    return p - 0.1 / (1 - 0.9**t) * s["m"] / s["n"]


def adagrad(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["m"] = s.get("m", 0) + g * g
    return p - 0.1 * g / (np.sqrt(s["m"]) + 1e-6)


def decayed(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["m"] = 0.95 * s.get("m", 0) + 0.05 * g * g
    return p - 0.1 * g / (np.sqrt(s["m"]) + 1e-6)


def adadelta(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["g"] = 0.95 * s.get("g", 0) + 0.05 * g * g
    u = -np.sqrt((s.get("u", 0) + 1e-6) / (s["g"] + 1e-6)) * g
    s["u"] = 0.95 * s.get("u", 0) + 0.05 * u * u
    return p + u


def rmsprop(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    s["m"] = 0.95 * s.get("m", 0) + 0.05 * g * g
    s["v"] = 0.5 * s.get("v", 0) + 0.1 * g / np.sqrt(s["m"] + 1e-6)
    return p - s["v"]


def ftrl(s: dict[str, Any], p: Array, g: Array, t: int) -> Array:
    old, l1, l2, rate = s.get("n", np.zeros(4)), 0.1, 0.2, 0.1
    new = old + g * g
    s["z"] = s.get("z", 0) + g - (np.sqrt(new) - np.sqrt(old)) / rate * p
    s["n"] = new
    moved = (l1 * np.sign(s["z"]) - s["z"]) / (np.sqrt(new) / rate + 2 * l2)
    return np.where(np.abs(s["z"]) > l1, moved, 0)


OPTIMIZERS: dict[str, tuple[Callable[[], Any], Callable[..., Array]]] = {
    "sgd": (lambda: fluid.optimizer.SGD(0.1), sgd),
    "momentum": (lambda: fluid.optimizer.Momentum(0.1, 0.9), momentum),
    "nesterov": (lambda: fluid.optimizer.Momentum(0.1, 0.9, use_nesterov=True), nesterov),
    "adam": (lambda: fluid.optimizer.Adam(0.1), adam),
    "lamb": (lambda: fluid.optimizer.Lamb(0.1, 0.02), lamb),
    "adamax": (lambda: fluid.optimizer.Adamax(0.1), adamax),
    "adagrad": (lambda: fluid.optimizer.Adagrad(0.1), adagrad),
    "decayed": (lambda: fluid.optimizer.DecayedAdagrad(0.1), decayed),
    "adadelta": (lambda: fluid.optimizer.Adadelta(0.1), adadelta),
    "rmsprop": (lambda: fluid.optimizer.RMSProp(0.1, momentum=0.5), rmsprop),
    "ftrl": (lambda: fluid.optimizer.Ftrl(0.1, l1=0.1, l2=0.2), ftrl),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ten_steps_of_an_optimizer(name: str, place: str) -> None:
    make, rule = OPTIMIZERS[name]
    state: dict[str, Any] = {}
    wanted = START.astype(np.float64)
    for t in range(1, 11):
        wanted = rule(state, wanted, WEIGHT * wanted, t)
    assert np.allclose(steps(make(), 10, place), wanted, rtol=1e-5, atol=1e-6)


def test_the_states_of_an_optimizer_are_filled_by_the_startup_program() -> None:
    fluid.optimizer.Adam(0.1).minimize(loss_of(parameter()))
    startup = fluid.default_startup_program().global_block()
    names = {"w_moment1_0", "w_moment2_0", "w_beta1_pow_0", "w_beta2_pow_0", "learning_rate_0"}
    assert names <= set(startup.vars)
    assert names <= {v.name for v in fluid.default_main_program().list_vars() if v.persistable}


def test_the_learning_rate_of_a_parameter() -> None:
    attr = fluid.ParamAttr(name="w", learning_rate=0.5)
    assert np.allclose(steps(fluid.optimizer.SGD(0.1), 1, attr=attr), START - 0.05 * WEIGHT * START)


# ---- regularization and clips

CLIPS: Mapping[str, tuple[Any, Callable[[Array], Array]]] = {
    "value": (fluid.clip.GradientClipByValue(0.5), lambda g: np.clip(g, -0.5, 0.5)),
    "norm": (fluid.clip.GradientClipByNorm(0.5), lambda g: g * min(1, 0.5 / np.linalg.norm(g))),
    "global": (fluid.clip.GradientClipByGlobalNorm(0.5), lambda g: g * 0.5 / max(0.5, np.linalg.norm(g))),
    "far": (fluid.clip.GradientClipByGlobalNorm(50.0), lambda g: g),
}


@pytest.mark.parametrize("name", CLIPS)
def test_clips(name: str) -> None:
    clip, rule = CLIPS[name]
    attr = fluid.ParamAttr(name="w", gradient_clip=clip)
    assert np.allclose(
        steps(fluid.optimizer.SGD(0.1), 1, attr=attr), START - 0.1 * rule(WEIGHT * START), atol=1e-6
    )


def test_the_gradients_of_a_group_are_clipped_together() -> None:
    w, v = (
        parameter(),
        layers.create_parameter(
            [2], "float32", attr=fluid.ParamAttr(name="v", initializer=fluid.initializer.Constant(3.0))
        ),
    )
    loss = loss_of(w) + layers.reduce_sum(v)
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.run()
    norm = np.sqrt(((WEIGHT * START) ** 2).sum() + 2)
    assert np.allclose(held("v"), 3 - 0.1 / norm)
    assert np.allclose(held("w"), START - 0.1 * WEIGHT * START / norm)


def test_different_norms_of_one_group_are_refused() -> None:
    w = parameter(fluid.ParamAttr(name="w", gradient_clip=fluid.clip.GradientClipByGlobalNorm(1.0)))
    other = fluid.ParamAttr(name="v", gradient_clip=fluid.clip.GradientClipByGlobalNorm(2.0))
    v = layers.create_parameter([2], "float32", attr=other)
    with pytest.raises(ValueError, match="clipped to different norms"):
        fluid.optimizer.SGD(0.1).minimize(loss_of(w) + layers.reduce_sum(v))


@pytest.mark.parametrize(
    ("regularizer", "rule"),
    [
        (fluid.regularizer.L2Decay(0.2), lambda p: 0.2 * p),
        (fluid.regularizer.L1Decay(0.2), lambda p: 0.2 * np.sign(p)),
    ],
)
def test_regularization(regularizer: Any, rule: Callable[[Array], Array]) -> None:
    attr = fluid.ParamAttr(name="w", regularizer=regularizer)
    wanted = START - 0.1 * (WEIGHT * START + rule(START))
    assert np.allclose(steps(fluid.optimizer.SGD(0.1), 1, attr=attr), wanted, atol=1e-6)
    regularized = [
        o
        for o in fluid.default_main_program().global_block().ops
        if "regularized" in "".join(o.output_arg_names)
    ]
    assert [o.attr("op_role") for o in regularized] == [1] * len(regularized)


def test_regularization_of_the_optimizer_is_for_parameters_without_their_own() -> None:
    wanted = START - 0.1 * (WEIGHT * START + 0.2 * START)
    assert np.allclose(
        steps(fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.2)), 1), wanted, atol=1e-6
    )


def test_lars() -> None:
    gradient = WEIGHT * START
    size = np.linalg.norm(START)
    rate = 0.1 * size / (np.linalg.norm(gradient) + 0.3 * size)
    assert np.allclose(
        steps(fluid.optimizer.SGD(0.1, LARS_weight_decay=0.3), 1), START - rate * gradient, atol=1e-6
    )


# ---- learning rates

RATES: Mapping[str, tuple[Callable[[], fluid.Variable], Callable[[int], float]]] = {
    "exponential": (lambda: layers.exponential_decay(0.5, 3, 0.7), lambda t: 0.5 * 0.7 ** (t / 3)),
    "staircase": (
        lambda: layers.exponential_decay(0.5, 3, 0.7, staircase=True),
        lambda t: 0.5 * 0.7 ** (t // 3),
    ),
    "natural": (lambda: layers.natural_exp_decay(0.5, 3, 0.7), lambda t: 0.5 * np.exp(-0.7 * t / 3)),
    "inverse": (
        lambda: layers.inverse_time_decay(0.5, 3, 0.7, staircase=True),
        lambda t: 0.5 / (1 + 0.7 * (t // 3)),
    ),
    "polynomial": (
        lambda: layers.polynomial_decay(0.5, 4, 0.1, 2.0),
        lambda t: 0.4 * (1 - min(t, 4) / 4) ** 2 + 0.1,
    ),
    "cycle": (
        lambda: layers.polynomial_decay(0.5, 4, 0.1, 2.0, cycle=True),
        lambda t: 0.4 * (1 - t / (4 * max(1, -(-t // 4)))) ** 2 + 0.1,
    ),
    "piecewise": (
        lambda: layers.piecewise_decay([2, 5], [1.0, 0.5, 0.1]),
        lambda t: 1.0 if t < 2 else 0.5 if t < 5 else 0.1,
    ),
    "noam": (lambda: layers.noam_decay(64, 4), lambda t: 64**-0.5 * min((t + 1) ** -0.5, (t + 1) * 4**-1.5)),
}


@pytest.mark.parametrize("name", RATES)
def test_learning_rates(name: str) -> None:
    make, rule = RATES[name]
    rate = make()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for t in range(9):
        (found,) = exe.run(fetch_list=[rate])
        assert np.allclose(found, [rule(t)], rtol=1e-5, atol=1e-6)


def test_schedules_share_one_counter() -> None:
    layers.exponential_decay(0.5, 3, 0.7)
    layers.piecewise_decay([2], [1.0, 0.5])
    assert [o.type for o in fluid.default_main_program().global_block().ops].count("increment") == 1


# ---- averages


def test_model_average() -> None:
    w = parameter()
    fluid.optimizer.SGD(0.1).minimize(loss_of(w))
    average = fluid.optimizer.ModelAverage(1.0, min_average_window=2, max_average_window=100)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    seen: list[Array] = []
    for _ in range(3):
        exe.run()
        seen.append(held("w"))
    with average.apply(exe):
        assert np.allclose(held("w"), np.mean(seen, 0), atol=1e-6)
    assert np.array_equal(held("w"), seen[-1])


@pytest.mark.parametrize("is_limited", [False, True])
def test_exponential_moving_average(is_limited: bool) -> None:
    w = parameter()
    fluid.optimizer.SGD(0.1).minimize(loss_of(w))
    steps = layers.autoincreased_step_counter() if is_limited else None
    average = fluid.optimizer.ExponentialMovingAverage(0.3, thres_steps=steps)
    average.update()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    mean, rest = np.zeros(4), 1.0
    for step in range(1, 4):
        exe.run()
        decay = min(0.3, (1 + step) / (10 + step)) if is_limited else 0.3
        mean, rest = decay * mean + (1 - decay) * held("w"), rest * decay
    last = held("w")
    with average.apply(exe):
        assert np.allclose(held("w"), mean / (1 - rest), atol=1e-6)
    assert np.array_equal(held("w"), last)
    with average.apply(exe, need_restore=False):
        pass
    assert not np.array_equal(held("w"), last)
    average.restore(exe)
    assert np.array_equal(held("w"), last)


def test_lamb_without_steps_or_decay() -> None:
    """A parameter of zeros moves by the learning rate alone; one that is excluded is not decayed."""
    zero, one = (
        layers.create_parameter([4], "float32", attr=fluid.ParamAttr(n, fluid.initializer.Constant(v)))
        for n, v in (("zero", 0.0), ("one", 1.0))
    )
    loss = layers.reduce_sum(zero + one * 0.0)
    lamb = fluid.optimizer.Lamb(0.1, 0.5, exclude_from_weight_decay_fn=lambda p: p.name == "one")
    lamb.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.run()
    assert np.allclose(held("zero"), -0.1 * 0.1 / (np.sqrt(0.001) + 1e-6))
    assert np.array_equal(held("one"), np.ones(4))


def test_initial_values() -> None:
    draw = {
        "uniform": (
            fluid.initializer.Uniform(-2.0, 3.0, seed=3),
            lambda x: (x.min() > -2) & (x.max() < 3) & (abs(x.mean() - 0.5) < 0.05),
        ),
        "normal": (
            fluid.initializer.Normal(1.0, 2.0, seed=3),
            lambda x: (abs(x.mean() - 1) < 0.05) & (abs(x.std() - 2) < 0.05),
        ),
        "xavier": (fluid.initializer.Xavier(seed=3), lambda x: abs(x).max() <= np.sqrt(6 / 250) + 1e-6),
        "xavier_normal": (
            fluid.initializer.Xavier(uniform=False, seed=3),
            lambda x: abs(x.std() - np.sqrt(2 / 250)) < 0.002,
        ),
        "msra": (fluid.initializer.MSRA(seed=3), lambda x: abs(x).max() <= np.sqrt(6 / 100) + 1e-6),
        "constant": (fluid.initializer.Constant(2.5), lambda x: (x == 2.5).all()),
    }
    for name, (initializer, _) in draw.items():
        layers.create_parameter(
            [100, 150], "float32", attr=fluid.ParamAttr(name=name, initializer=initializer)
        )
    layers.create_parameter(
        [1, 1, 4, 4],
        "float32",
        attr=fluid.ParamAttr(name="bilinear", initializer=fluid.initializer.Bilinear()),
    )
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    for name, (_, holds) in draw.items():
        assert holds(held(name)), name
    one = np.array([0.25, 0.75, 0.75, 0.25])
    assert np.allclose(held("bilinear")[0, 0], np.outer(one, one))


@pytest.mark.parametrize("place", PLACES)
def test_a_batch_without_rows_leaves_what_batch_normalization_keeps(place: str) -> None:
    x = layers.data("x", [3])
    fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.batch_norm(x)))
    exe = fluid.Executor(fluid.Place(place))
    exe.run(fluid.default_startup_program())
    names = [
        v.name for v in fluid.default_main_program().list_vars() if v.persistable and "batch_norm" in v.name
    ]
    for count in (4, 0, 1):
        before = [held(name) for name in names]
        exe.run(feed={"x": np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)})
        after = [held(name) for name in names]
        assert np.isfinite(after).all()
        assert np.array_equal(before, after) == (count == 0)
