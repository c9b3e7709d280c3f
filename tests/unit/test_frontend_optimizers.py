# SPDX-License-Identifier: Apache-2.0
"""Optimizers against their formulas in NumPy, and policies of learning rates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import lower, resolve
from ngmlir.frontends.common.learning_rate_policies import get_learning_rate_policy_callback
from ngmlir.frontends.common.utils import CommonSGDOptimizer
from ngmlir.frontends.neon import (
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    Affine,
    GradientDescentMomentum,
    LearningRateOptimizer,
    Optimizer,
    RMSProp,
    Sequential,
    UniformInit,
    clip_gradient_norm,
    clip_gradient_value,
    clip_weight_value,
)

Array = np.ndarray[Any, Any]
RATE = 0.05
STEPS = 7

#: A formula: from the weight to a generator that takes gradients (before weight decay) and gives weights.
Formula = Callable[[Array], Iterator[Array]]


def momentum(coef: float = 0.0, wdecay: float = 0.0, nesterov: bool = False) -> Any:
    def steps(w: Array) -> Any:
        v = np.zeros_like(w)
        while True:
            g = yield w
            u = -RATE * (g + wdecay * w)
            v = coef * v + u
            w = w + (coef * v + u if nesterov else v)

    return steps


def rmsprop(rho: float = 0.95, eps: float = 1e-6, wdecay: float = 0.0, coef: float = 0.0) -> Any:
    def steps(w: Array) -> Any:
        r, v = np.ones_like(w), np.zeros_like(w)
        while True:
            g = yield w
            r = rho * r + (1 - rho) * g * g
            v = coef * v + RATE * g / np.sqrt(r + eps) + RATE * wdecay * w
            w = w - v

    return steps


def adam(decay: float = 0.0, corrected: bool = False) -> Any:
    def steps(w: Array) -> Any:
        m, v, t = np.zeros_like(w), np.zeros_like(w), 0
        while True:
            g = yield w
            t += 1
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            if corrected:
                w = w - RATE * (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + decay * w)
            else:
                w = w - RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)

    return steps


def adagrad(w: Array) -> Any:
    G = np.zeros_like(w)
    while True:
        g = yield w
        G = G + g * g
        w = w - RATE * g / np.sqrt(G + 1e-8)


def adadelta(w: Array) -> Any:
    s, m = np.zeros_like(w), np.zeros_like(w)
    while True:
        g = yield w
        s = 0.95 * s + 0.05 * g * g
        d = np.sqrt(m + 1e-6) / np.sqrt(s + 1e-6) * g
        m = 0.95 * m + 0.05 * d * d
        w = w - RATE * d


CASES = [
    pytest.param(GradientDescentMomentum(RATE), momentum(), id="sgd"),
    pytest.param(GradientDescentMomentum(RATE, 0.9), momentum(0.9), id="momentum"),
    pytest.param(GradientDescentMomentum(RATE, 0.9, wdecay=0.1), momentum(0.9, 0.1), id="decay"),
    pytest.param(
        GradientDescentMomentum(RATE, 0.9, nesterov=True), momentum(0.9, nesterov=True), id="nesterov"
    ),
    pytest.param(RMSProp(learning_rate=RATE), rmsprop(), id="rmsprop"),
    pytest.param(
        RMSProp(0.8, RATE, 1e-4, wdecay=0.1, momentum_coef=0.5),
        rmsprop(0.8, 1e-4, 0.1, 0.5),
        id="rmsprop-momentum",
    ),
    pytest.param(Adagrad(RATE), adagrad, id="adagrad"),
    pytest.param(Adadelta(RATE), adadelta, id="adadelta"),
    pytest.param(Adam(RATE), adam(), id="adam"),
    pytest.param(AdamW(RATE, wdecay=0.1), adam(0.1, corrected=True), id="adamw"),
]


def problem() -> tuple[Any, Any, Any, Any]:
    """(x, w, b, cost): a least-squares problem, one cost for each sample."""
    N, F, K = ng.make_axis(4, "N"), ng.make_axis(3, "F"), ng.make_axis(2, "K")
    x = ng.placeholder([F, N])
    rng = np.random.default_rng(0)
    w = ng.variable([K, F], initial_value=rng.normal(size=(2, 3)), name="w")
    b = ng.variable([K], initial_value=rng.normal(size=2), name="b")
    y = ng.dot(w, x) + b
    return x, w, b, ng.sum(y * y, reduction_axes=["K"])


def gradients(w: Array, b: Array, x: Array) -> tuple[Array, Array]:
    """Divided by the length of the batch."""
    y = w @ x + b[:, None]
    return 2 * y @ x.T / x.shape[1], 2 * y.sum(1) / x.shape[1]


def starts() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, 3)).astype(np.float32).astype(float), rng.normal(size=2).astype(
        np.float32
    ).astype(float)


def batches() -> Iterator[Array]:
    rng = np.random.default_rng(5)
    for _ in range(STEPS):
        yield rng.normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize("name", ["numpy", "cpu"])
@pytest.mark.parametrize("optimizer, formula", CASES)
def test_formulas(name: str, optimizer: Optimizer, formula: Formula) -> None:
    x, w, b, cost = problem()
    with ng.transformers.make_transformer(name) as transformer:
        step = transformer.computation(optimizer(cost), x)
        read = transformer.computation([w, b])
        states = [formula(start) for start in starts()]
        values = [next(s) for s in states]
        for batch in batches():
            wanted = [s.send(g) for s, g in zip(states, gradients(*values, batch), strict=True)]
            assert float(step(batch)) == 0.0
            values = wanted
            for got, value in zip(read(), wanted, strict=True):
                np.testing.assert_allclose(got, value, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("optimizer", [GradientDescentMomentum, RMSProp, Adagrad, Adadelta, Adam, AdamW])
@pytest.mark.parametrize("clip", ["gradient_clip_norm", "gradient_clip_value", "weight_clip_value"])
def test_clips_do_something_in_each(optimizer: Any, clip: str) -> None:
    x, w, b, cost = problem()
    ends: list[list[Array]] = []
    for settings in ({}, {clip: 0.1}):
        with ng.transformers.make_transformer("numpy") as transformer:
            step = transformer.computation(optimizer(learning_rate=RATE, **settings)(cost), x)
            for batch in batches():
                step(batch * 3)
            ends.append(list(transformer.computation([w, b])()))
    assert any((one != other).any() for one, other in zip(*ends, strict=True))
    if clip == "weight_clip_value":
        assert all(np.abs(end).max() <= np.float32(0.1) for end in ends[1])


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_the_norm_is_that_of_all_gradients(name: str) -> None:
    x, w, b, cost = problem()
    with ng.transformers.make_transformer(name) as transformer:
        optimizer = GradientDescentMomentum(
            RATE, 0.5, wdecay=0.1, gradient_clip_norm=0.7, gradient_clip_value=0.5
        )
        step, read = transformer.computation(optimizer(cost), x), transformer.computation([w, b])
        values, v = list(starts()), [np.zeros((2, 3)), np.zeros(2)]
        for batch in batches():
            found = gradients(values[0], values[1], batch)
            s = 0.7 / max(np.sqrt(sum((g**2).sum() for g in found)), 0.7)
            for i, g in enumerate(found):
                v[i] = 0.5 * v[i] - RATE * (s * np.clip(g, -0.5, 0.5) + 0.1 * values[i])
                values[i] = values[i] + v[i]
            step(batch)
            for got, value in zip(read(), values, strict=True):
                np.testing.assert_allclose(got, value, rtol=2e-5, atol=2e-6)


def test_clips_by_themselves() -> None:
    g = ng.constant([3.0, -4.0], [ng.make_axis(2, "F")])

    def run(op: Any) -> Array:
        return ng.compile(op, target="numpy")()

    np.testing.assert_allclose(run(clip_gradient_norm([g], 2.5)), 0.5)
    np.testing.assert_allclose(run(clip_gradient_norm([g], 50)), 1)
    np.testing.assert_allclose(run(clip_gradient_value(g, 3.5)), [3, -3.5])
    np.testing.assert_allclose(run(clip_weight_value(g, 1, min_value_override=0)), [1, 0])
    assert clip_gradient_norm([g]) == 1 and clip_gradient_value(g) is g and clip_weight_value(g) is g


def test_small_steps_are_not_lost() -> None:
    """One and many steps far below the last bit of the weight: Kahan's sum keeps them."""
    w = ng.variable((), initial_value=1.0)
    with ng.transformers.make_transformer("cpu") as transformer:
        step = transformer.computation(GradientDescentMomentum(1e-9)(-w))
        for _ in range(1000):
            step()
        assert float(transformer.computation(w)()) == pytest.approx(1 + 1e-6, abs=6e-8)


# ---- what is trained, and when


def test_nothing_leaks_into_graphs_built_later() -> None:
    x, w, b, cost = problem()
    train = Adam(RATE)(cost)
    after = ng.sum(w * 1, out_axes=())
    with ng.transformers.make_transformer("numpy") as transformer:
        look, read = transformer.computation(after), transformer.computation(w)
        first = look()
        look(), read()
        assert look() == first
        step = transformer.computation(train, x)
        step(next(batches()))
        assert look() != first


def test_gradients_are_those_before_the_update() -> None:
    x, w, b, cost = problem()
    g = ng.deriv(ng.sum(cost, out_axes=()), w)
    with ng.transformers.make_transformer("cpu") as transformer:
        batch = next(batches())
        mean = ng.mean(cost, out_axes=())
        before, slope = transformer.computation([mean, g], x)(batch)
        run = transformer.computation(ng.sequential([mean, g, RMSProp(learning_rate=0.1)(cost), mean]), x)
        assert run(batch) == before  # a member runs once, in its place
        again = transformer.computation(mean, x)(batch)
        assert again < before


def test_which_variables_are_trained() -> None:
    x, w, b, cost = problem()
    for chosen in ([w], {"w": w}, (v for v in [w])):
        with ng.transformers.make_transformer("numpy") as transformer:
            step = transformer.computation(GradientDescentMomentum(RATE)(cost, variables=chosen), x)
            step(next(batches()))
            got = transformer.computation([w, b])()
            assert (got[0] != starts()[0].astype("f")).all() and (got[1] == starts()[1].astype("f")).all()
    with pytest.raises(ValueError, match="no variables"):
        Adam()(ng.sum(x, out_axes=["N"]))


def test_a_subgraph_trains_its_own_variables() -> None:
    noise = ng.placeholder([ng.make_axis(2, "F"), ng.make_axis(4, "N")])
    init = UniformInit(-1, 1)
    maker, judge = (
        Sequential([Affine(init, nout=3)], name="maker"),
        Sequential([Affine(init, nout=1)], name="judge"),
    )
    cost = ng.mean(judge(maker(noise)))
    assert set(maker.variables) == {"maker/Affine/Linear/W", "maker/Affine/Bias/W"}
    with pytest.raises(ValueError, match="one of the two"):
        Adam()(cost, variables=[], subgraph=judge)
    with ng.transformers.make_transformer("numpy") as transformer:
        everything = [*maker.variables.values(), *judge.variables.values()]
        step = transformer.computation(RMSProp(weight_clip_value=0.01)(cost, subgraph=judge), noise)
        read = transformer.computation(everything)
        before = read()
        step(np.ones((2, 4)))
        changed = [bool((a != b).any()) for a, b in zip(before, read(), strict=True)]
        assert changed == [False, False, True, True]
        assert all(np.abs(v).max() <= np.float32(0.01) for v in read()[2:])


def test_a_cost_without_a_batch_is_not_divided() -> None:
    w = ng.variable((), initial_value=3.0)
    with ng.transformers.make_transformer("numpy") as transformer:
        transformer.computation(GradientDescentMomentum(0.5)(w * w))()
        assert float(transformer.computation(w)()) == 0.0


def test_any_length_of_batch() -> None:
    x = ng.placeholder([ng.make_axis(name="N")])
    w = ng.variable((), initial_value=0.0)
    with ng.transformers.make_transformer("cpu") as transformer:
        step, read = (
            transformer.computation(GradientDescentMomentum(1.0)(-(w * x)), x),
            transformer.computation(w),
        )
        for length in (3, 5):
            step(np.arange(length))
        assert float(read()) == 1 + 2  # means


def test_an_update_is_few_kernels() -> None:
    """Each variable is changed by one kernel, together with all that is kept for it."""
    x, w, b, cost = problem()
    counts: list[int] = []
    for trained in ([w, b], []):
        with ng.transformers.make_transformer("cpu") as transformer:
            result = (
                Adam(RATE)(cost, variables=trained)
                if trained
                else ng.doall([ng.deriv(cost, v) for v in (w, b)])
            )
            made = transformer.computation([result, ng.deriv(cost, w), ng.deriv(cost, b)], x)
            made.transform()
            counts.append(launches(made.module))
    assert counts[0] - counts[1] <= 3


def launches(module: Any) -> int:
    return sum(op.name == "tile.launch" for op in lower(module, resolve("cpu")).walk())


class Signs(LearningRateOptimizer):
    """As a program writes one of its own: with two writes, and marked ops."""

    metadata = {"layer_type": "signs"}  # noqa: RUF012

    @ng.with_op_metadata
    def variable_update(self, variable: Any, grad: Any, scale_factor: Any) -> Any:
        count = ng.persistent_tensor((), initial_value=0).named("signs_count")
        move = self.lrate * scale_factor * ng.sign(clip_gradient_value(grad, self.gradient_clip_value))
        return ng.sequential([ng.assign(variable, variable - move), ng.assign(count, count + 1)])


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_an_optimizer_of_a_program_says_what_changes_a_variable(name: str) -> None:
    w = ng.variable((), initial_value=2.0)
    with ng.transformers.make_transformer(name) as transformer:
        optimizer = Signs(0.5, gradient_clip_norm=100, weight_clip_value=1.25)
        assert float(ng.compile(optimizer.lrate)()) == 0.5
        step = transformer.computation(optimizer(w * w))
        assert {"signs"} == {op.metadata["layer_type"] for op in optimizer.ops if "layer_type" in op.metadata}
        read = transformer.computation(w)
        found = []
        for _ in range(3):
            step()
            found.append(float(read()))
        assert found == [1.25, 0.75, 0.25]  # 1.5 is clipped


def test_an_optimizer_that_says_nothing() -> None:
    w = ng.variable((), initial_value=2.0)
    with pytest.raises(NotImplementedError, match="variable_update"):
        LearningRateOptimizer(0.1)(w * w)
    with pytest.raises(NotImplementedError, match="variable_update"):
        Optimizer()(w * w)

    class Forgetful(LearningRateOptimizer):
        def variable_update(self, variable: Any, grad: Any, scale_factor: Any) -> Any:
            ng.assign(variable, variable - self.lrate * grad)

    with pytest.raises(ng.UserError, match=r"gives None, which is no op[\s\S]*return ng.assign"):
        Forgetful(0.1)(w * w)


def test_a_warning_of_variables_that_have_no_part_in_the_cost() -> None:
    v, w = ng.variable((), initial_value=2.0, name="v"), ng.variable((), initial_value=2.0, name="w")
    with pytest.warns(UserWarning, match="does not depend on w"):
        Adam()(v * v, variables=[v, w], warning=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Adam()(v * v, variables=[v], warning=True)
        Adam()(v * v, variables=[v, w])


# ---- rates


COSINE = {"name": "cosine", "base_lr": 0.1, "max_iter": 40, "min_lr": 0.01}


def cosine(i: float) -> float:
    return 0.01 + 0.09 * (1 + np.cos(np.pi * min(i / 40, 1))) / 2


POLICIES: list[Any] = [
    pytest.param(0.1, lambda i: 0.1, id="number"),
    pytest.param({"name": "fixed", "base_lr": 0.1}, lambda i: 0.1, id="fixed"),
    pytest.param(
        {"name": "step", "base_lr": 0.1, "gamma": 0.5, "step": 20},
        lambda i: 0.1 * 0.5 ** (i // 20),
        id="step",
    ),
    pytest.param(
        {"name": "schedule", "base_lr": 0.1, "gamma": 0.5, "schedule": [10, 50]},
        lambda i: 0.1 * 0.5 ** ((i >= 10) + (i >= 50)),
        id="schedule",
    ),
    pytest.param(
        {"name": "schedule", "base_lr": 0.1, "gamma": [0.5, 0.1], "schedule": [10, 50]},
        lambda i: 0.1 * 0.5 ** (i >= 10) * 0.1 ** (i >= 50),
        id="schedule-each",
    ),
    pytest.param({"name": "exp", "base_lr": 0.1, "gamma": 0.99}, lambda i: 0.1 * 0.99**i, id="exp"),
    pytest.param(
        {"name": "inv", "base_lr": 0.1, "gamma": 0.01, "power": 0.75},
        lambda i: 0.1 * (1 + 0.01 * i) ** -0.75,
        id="inv",
    ),
    pytest.param(
        {"name": "poly", "base_lr": 0.1, "max_iter": 100, "power": 2},
        lambda i: 0.1 * (1 - i / 100) ** 2,
        id="poly",
    ),
    pytest.param(
        {"name": "sigmoid", "base_lr": 0.1, "gamma": 0.1, "step_size": 30},
        lambda i: 0.1 / (1 + np.exp(-0.1 * (i - 30))),
        id="sigmoid",
    ),
    pytest.param(lambda i: 0.1 / (i + 1), lambda i: 0.1 / (i + 1), id="function"),
    pytest.param(COSINE, cosine, id="cosine"),
    pytest.param(
        {"name": "warmup", "steps": 10, "then": COSINE},
        lambda i: cosine(max(i - 10, 0)) * min(i / 10, 1),
        id="warmup",
    ),
    pytest.param(
        {"name": "warmup", "steps": 50, "start": 0.25, "then": 0.2},
        lambda i: 0.2 * min(0.25 + 0.75 * i / 50, 1),
        id="warmup-number",
    ),
    pytest.param(
        {
            "name": "sequence",
            "boundaries": [10, 50],
            "policies": [
                0.5,
                {"name": "warmup", "steps": 5, "then": COSINE},
                {"name": "inv", "base_lr": 0.1, "gamma": 0.01, "power": 0.75},
            ],
        },
        lambda i: (
            0.5
            if i < 10
            else cosine(max(i - 15, 0)) * min((i - 10) / 5, 1)
            if i < 50
            else 0.1 * (1 + 0.01 * (i - 50)) ** -0.75
        ),
        id="sequence",
    ),
]


@pytest.mark.parametrize("dtype", ["ui32", "f32"])
@pytest.mark.parametrize("policy, wanted", POLICIES)
def test_policies(policy: Any, wanted: Callable[[float], float], dtype: str) -> None:
    iteration = ng.placeholder((), dtype=dtype)
    run = ng.compile(get_learning_rate_policy_callback(policy)(iteration), [iteration], "numpy")
    for i in (0, 1, 9, 10, 11, 49, 50, 99):
        np.testing.assert_allclose(run(i), wanted(i), rtol=1e-5, atol=1e-8)


def test_a_rate_that_is_fed() -> None:
    rate = ng.placeholder(())
    w = ng.variable((), initial_value=1.0)
    with ng.transformers.make_transformer("numpy") as transformer:
        for given in (rate, {"name": "provided", "lr_placeholder": rate}):
            step = transformer.computation(GradientDescentMomentum(given)(w), rate)
            step(0.25)
        assert float(transformer.computation(w)()) == 0.5


def test_a_rate_that_follows_the_iteration() -> None:
    i, w = ng.placeholder((), dtype="i32"), ng.variable((), initial_value=0.0)
    policy = {"name": "step", "base_lr": 1.0, "gamma": 0.5, "step": 2}
    with ng.transformers.make_transformer("cpu") as transformer:
        step = transformer.computation(GradientDescentMomentum(policy, iteration=i)(-w), i)
        for n in range(4):
            step(n)
        assert float(transformer.computation(w)()) == 1 + 1 + 0.5 + 0.5


def test_a_rate_that_depends_on_the_iteration_needs_one() -> None:
    """It would stay what it is at 0, in silence."""
    schedule = {"name": "step", "base_lr": 1.0, "gamma": 0.5, "step": 2}
    w = ng.variable((), initial_value=1.0)
    for rate in (schedule, lambda i: 0.1 / (i + 1)):
        for optimizer in (Adam, Adagrad, Adadelta, AdamW, RMSProp, GradientDescentMomentum):
            with pytest.raises(ng.UserError, match=r"depends on the iteration[\s\S]*hint: iteration=inputs"):
                optimizer(learning_rate=rate)
    for rate in (0.1, {"name": "fixed", "base_lr": 0.1}, w, lambda i: ng.constant(0.1)):
        Adam(rate)
    assert float(ng.compile(Adam(schedule, iteration=4).lrate)()) == 0.25


def test_policies_that_are_none() -> None:
    with pytest.raises(NotImplementedError, match="step"):
        get_learning_rate_policy_callback({"name": "stpe"})
    with pytest.raises(ValueError, match="lacks gamma, step"):
        get_learning_rate_policy_callback({"name": "step", "base_lr": 1})
    with pytest.raises(ValueError, match="3 gammas"):
        GradientDescentMomentum({"name": "schedule", "base_lr": 1, "gamma": [1, 2, 3], "schedule": [1, 2]})
    for policy, message in (
        ({"name": "cosine", "base_lr": 1, "max_iter": 9, "min": 0}, r"'cosine' has no 'min'[\s\S]*min_lr"),
        ({"name": "cosine", "base_lr": 1, "max_iter": 0}, "max_iter of the learning-rate policy 'cosine'"),
        ({"name": "warmup", "steps": 5}, "lacks then"), ({"name": "warmup", "steps": -1, "then": 1}, "steps of the"),
        ({"name": "warmup", "steps": 1, "then": {"name": "step"}}, "'step' lacks base_lr"),
        ({"name": "sequence", "policies": [1, 2], "boundaries": [3, 4]}, "2 policies follow"),
        ({"name": "sequence", "policies": [1, 2, 3], "boundaries": [4, 3]}, "boundaries ascend"),
    ):  # fmt: skip
        with pytest.raises(ng.UserError, match=message):
            get_learning_rate_policy_callback(policy)
    with pytest.raises(ValueError, match="learning rate"):
        Adam("fast")


def test_the_common_optimizer() -> None:
    w = ng.variable((), initial_value=4.0)
    sgd = CommonSGDOptimizer({"name": "exp", "base_lr": 0.5, "gamma": 0.5})
    with ng.transformers.make_transformer("numpy") as transformer:
        step = transformer.computation(sgd.minimize(w, w.variables()), sgd.get_iter_buffer())
        read = transformer.computation(w)
        assert float(read()) == 4  # it runs where it is asked for
        step(0), step(1)
        assert float(read()) == 4 - 0.5 - 0.25
