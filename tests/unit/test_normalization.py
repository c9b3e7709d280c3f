# SPDX-License-Identifier: Apache-2.0
"""Layer norm and batch norm: against NumPy in f64, their derivatives, their state, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from network_helpers import COMPILED, TARGETS, Array, agree, drawn, named, on
from slopes import check_slopes

import ngmlir as ng
from ngmlir.compiler import lower, resolve
from ngmlir.op_graph.tensor import Tensor
from ngmlir.ops.words import to_text


def normal(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


# ---- layer norm ------------------------------------------------------------------------------------------------

#: Axes, their lengths, and the positions that are reduced by default.
LAYERS = [
    ("N C", (3, 5), (1,)), ("C N", (7, 3), (0,)), ("C N", (1, 3), (0,)), ("N C", (1, 257), (1,)),
    ("C REC N", (5, 3, 2), (0,)), ("N H C", (2, 3, 4), (1, 2)), ("REC N C", (1, 1, 13), (2,)),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("names", "lengths", "reduced"), LAYERS, ids=str)
def test_layer_norm(target: str, names: str, lengths: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    axes = named(names, *lengths)
    inner = [axes[d] for d in reduced]
    x, g, b = drawn(*axes), drawn(*inner, seed=1), drawn(*inner, seed=2)
    found = on(target, lambda x, g, b: ng.layer_norm(x, g, b, epsilon=1e-3), [x, g, b], [axes, inner, inner])
    shape = [n if d in reduced else 1 for d, n in enumerate(lengths)]
    wanted = normal(x, reduced, 1e-3) * g.reshape(shape) + b.reshape(shape)
    np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_large_mean_costs_no_digits(target: str) -> None:
    axes = named("N C", 4, 300)
    x = (drawn(*axes) + 1000).astype(np.float32)
    found = on(target, ng.layer_norm, [x], [axes])
    np.testing.assert_allclose(found, normal(x, (1,), 1e-5), atol=2e-3)  # the mean is rounded to 3e-5
    same = on(target, ng.layer_norm, [np.full((4, 300), 12345.678)], [axes])
    assert np.abs(same).max() < 0.5  # no variance is negative


@pytest.mark.parametrize("target", TARGETS)
def test_rms_norm(target: str) -> None:
    axes = named("N C", 3, 5)
    x, g = drawn(*axes), drawn(axes[1], seed=1)
    found = on(target, lambda x, g: ng.rms_norm(x, g, reduction_axes="C"), [x, g], [axes, axes[1:]])
    wanted = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def scaled(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, g, b: ng.tanh(norm(x, g, b))


@pytest.mark.parametrize("norm", [ng.layer_norm, ng.rms_norm, ng.batch_norm])
@pytest.mark.parametrize(("names", "lengths", "reduced"), LAYERS, ids=str)
def test_derivatives(norm: Any, names: str, lengths: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    if max(lengths) > 50:
        lengths = (1, 11)
    axes = named(names, *lengths)
    inner = [a for a in axes if a.name not in ("N", "REC")]
    values = [drawn(*axes), drawn(*inner, seed=1), drawn(*inner, seed=2)]
    with ng.default_float("f64"):
        check_slopes(scaled(norm), values, [axes, inner, inner])


@pytest.mark.parametrize("norm", [ng.layer_norm, ng.rms_norm, ng.batch_norm])
def test_derivatives_on_targets(norm: Any) -> None:
    axes = named("N REC C", 5, 3, 7)
    inner = axes[2:]
    agree(scaled(norm), [drawn(*axes), drawn(*inner, seed=1), drawn(*inner, seed=2)], [axes, inner, inner])


def launches(*results: Tensor, inputs: list[Tensor]) -> int:
    lowered = lower(ng.lift(results, inputs).module, resolve("x86-64-v3"))
    return to_text(lowered).count("tile.launch")


def test_a_layer_norm_is_one_kernel_and_its_gradient_one_pass_over_rows() -> None:
    N, C = named("N C", 64, 256)
    x, g, b = ng.placeholder([N, C]), ng.placeholder([C]), ng.placeholder([C])
    y = ng.layer_norm(x, g, b)
    assert launches(y, inputs=[x, g, b]) == 1
    total = ng.sum(y * y, out_axes=())
    assert launches(*[ng.deriv(total, v) for v in (x, g, b)], inputs=[x, g, b]) <= 3


# ---- batch norm ------------------------------------------------------------------------------------------------

BATCHES = [
    ("N C", (6, 5), (0,)), ("C N", (3, 7), (1,)), ("N H W C", (2, 3, 5, 4), (0, 1, 2)), ("C REC N", (5, 3, 2), (1, 2)),
    ("K N", (4, 3), (1,)), ("K REC N", (4, 1, 3), (1, 2)), ("N K J", (5, 2, 3), (0,)), ("C N", (1, 1), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("names", "lengths", "reduced"), BATCHES, ids=str)
def test_batch_norm(target: str, names: str, lengths: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    axes = named(names, *lengths)
    kept = [a for d, a in enumerate(axes) if d not in reduced]
    x, g, b = drawn(*axes), drawn(*kept, seed=1), drawn(*kept, seed=2)
    shape = [1 if d in reduced else n for d, n in enumerate(lengths)]
    inputs = [ng.placeholder(a) for a in (axes, kept, kept)]
    mean, variance = (
        ng.persistent_tensor(kept, initial_value=0.5),
        ng.persistent_tensor(kept, initial_value=1),
    )
    transformer = ng.transformers.make_transformer(target)
    y = ng.batch_norm(*inputs, mean, variance, momentum=0.75)
    step = transformer.computation(y, *inputs)
    look = transformer.computation([mean, variance])
    use = transformer.computation(ng.batch_norm(*inputs, mean, variance, training=False), *inputs)
    wanted = normal(x, reduced, 1e-3) * g.reshape(shape) + b.reshape(shape)
    for moved in (1, 2):
        np.testing.assert_allclose(step(x, g, b), wanted, atol=3e-6)
        share = 0.75**moved
        for found, start, now in zip(look(), (0.5, 1), (x.mean(reduced), x.var(reduced)), strict=True):
            np.testing.assert_allclose(found, share * start + (1 - share) * now, atol=1e-6)
    running, spread = (s.reshape(shape) for s in look())
    wanted = (x - running) / np.sqrt(spread + 1e-3) * g.reshape(shape) + b.reshape(shape)
    for _ in range(2):
        np.testing.assert_allclose(use(x, g, b), wanted, atol=3e-6)
    np.testing.assert_array_equal(look()[0], running.reshape(look()[0].shape))  # nothing was written


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_come_through_and_write_nothing(target: str) -> None:
    N, C = named("N C", 6, 3)
    x = ng.placeholder([N, C])
    mean, variance = ng.persistent_tensor([C], initial_value=0), ng.persistent_tensor([C], initial_value=1)
    weights = ng.constant(drawn(N, C, seed=3), [N, C])
    with_state, without = ng.batch_norm(x, None, None, mean, variance), ng.batch_norm(x)
    slopes = [ng.deriv(ng.sum(y * weights, out_axes=()), x) for y in (with_state, without)]
    transformer = ng.transformers.make_transformer(target)
    a, b = transformer.computation(slopes, x)(drawn(N, C))
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert np.abs(a).max() > 0.1
    assert not transformer.computation(mean)().any()
    transformer.computation([with_state, *slopes], x)(drawn(N, C))
    np.testing.assert_allclose(transformer.computation(mean)(), 0.1 * drawn(N, C).mean(0), atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_inside_a_loop_each_step_moves_the_averages(target: str) -> None:
    T, N, C = named("T N C", 4, 5, 3)
    x = ng.placeholder([T, N, C])
    mean, variance = ng.persistent_tensor([C], initial_value=0), ng.persistent_tensor([C], initial_value=1)
    _, y = ng.scan(lambda _, now: ((), ng.batch_norm(now, None, None, mean, variance)), (), x, T)
    transformer = ng.transformers.make_transformer(target)
    value = drawn(T, N, C)
    np.testing.assert_allclose(transformer.computation(y, x)(value), normal(value, (1,), 1e-3), atol=3e-6)
    wanted = np.zeros(3)
    for now in value:
        wanted = 0.9 * wanted + 0.1 * now.mean(0)
    np.testing.assert_allclose(transformer.computation(mean)(), wanted, atol=1e-6)


@pytest.mark.parametrize("target", COMPILED)
def test_inference_has_derivatives_too(target: str) -> None:
    N, C = named("N C", 5, 3)

    def build(x: Tensor, g: Tensor, m: Tensor, v: Tensor) -> Tensor:
        return ng.batch_norm(x, g, 0.5, m, v * v + 1, training=False)

    values, axes = [drawn(N, C), *(drawn(C, seed=i) for i in range(3))], [[N, C], [C], [C], [C]]
    with ng.default_float("f64"):
        check_slopes(build, values, axes)
    agree(build, values, axes, target)


@pytest.mark.parametrize("target", TARGETS)
def test_elements_of_64_bits(target: str) -> None:
    N, C = named("N C", 5, 3)
    x = ng.placeholder([N, C], dtype="f64")
    mean = ng.persistent_tensor([C], dtype="f64", initial_value=0)
    transformer = ng.transformers.make_transformer(target)
    value = drawn(N, C) + 1e6
    found = transformer.computation(ng.batch_norm(x, None, None, mean), x)(value)
    np.testing.assert_allclose(found, normal(value, (0,), 1e-3), atol=1e-8)
    np.testing.assert_allclose(transformer.computation(mean)(), 0.1 * value.mean(0), rtol=1e-14)
    assert ng.layer_norm(x).dtype == np.float64


def test_any_batch() -> None:
    N, C = ng.make_axis(name="N"), ng.make_axis(3, "C")
    x = ng.placeholder([N, C])
    run = ng.compile([ng.batch_norm(x), ng.deriv(ng.layer_norm(x) * ng.layer_norm(x) * 2, x, error=x)], [x])
    for n in (4, 1, 7):
        value = np.random.RandomState(n).uniform(-1, 1, (n, 3))
        np.testing.assert_allclose(run(value)[0], normal(value, (0,), 1e-3), atol=3e-6)


def test_what_does_not_fit_is_refused() -> None:
    N, C, K = named("N C K", 4, 3, 2)
    x = ng.placeholder([N, C])
    with pytest.raises(ng.IncompatibleAxesError, match=r"gamma has axes \(K\)"):
        ng.layer_norm(x, ng.placeholder([K]))
    with pytest.raises(ng.IncompatibleAxesError, match=r"ng.constant\(array, axes\)"):
        ng.layer_norm(x, np.ones(3))
    with pytest.raises(ng.AxisLengthError, match="axis C has 3 elements"):
        ng.layer_norm(x, ng.placeholder([ng.make_axis(4, "C")]))
    with pytest.raises(ng.UserError, match="must not be negative"):
        ng.layer_norm(x, epsilon=-1)
    with pytest.raises(ng.UserError, match="needs mean= and variance="):
        ng.batch_norm(x, training=False, mean=0)
    with pytest.raises(ng.IncompatibleAxesError, match=r"mean has axes \(N, C\)"):
        ng.batch_norm(x, mean=ng.persistent_tensor([N, C]))
    with pytest.raises(ng.IncompatibleAxesError, match="a running average with axes"):
        ng.batch_norm(x, mean=ng.persistent_tensor([]))
    with pytest.raises(ng.UserError, match="has none of them"):
        ng.batch_norm(ng.placeholder([K]))
    with pytest.raises(ng.UserError, match="the momentum"):
        ng.batch_norm(x, momentum=2)
