# SPDX-License-Identifier: Apache-2.0
"""Operators that draw random numbers: their distributions, by fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp, pi, sqrt
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

Array = np.ndarray[Any, Any]
layers = fluid.layers
PLACES = {"numpy": fluid.NumpyPlace(), "cpu": fluid.CPUPlace(), "cuda-sim": fluid.Place("cuda-sim")}
COUNT = 40_000


def _run(
    type: str,
    attrs: dict[str, Any],
    inputs: dict[str, Array] | None = None,
    place: str = "cpu",
    outputs: tuple[str, ...] = ("Out",),
    runs: int = 1,
) -> list[list[Array]]:
    """What an operator by itself gives, in each run of one scope."""
    program, given = fluid.Program(), inputs or {}
    block = program.global_block()
    with fluid.program_guard(program, fluid.Program()):
        for slot, array in given.items():
            layers.data(slot, list(array.shape), dtype=array.dtype, append_batch_size=False)
        made = {slot: block.create_var(name=f"made_{slot}") for slot in outputs}
        taken = {slot: slot for slot in given}
        block.append_op(type=type, inputs=taken, outputs=made, attrs=attrs)
    executor, scope = fluid.Executor(PLACES[place]), fluid.Scope()
    names = [variable.name for variable in made.values()]
    return [executor.run(program, given, names, scope=scope) for _ in range(runs)]


def _normal(x: float) -> float:
    return (1 + erf(x / sqrt(2))) / 2


#: Operator -> its attributes beside the shape, distribution function, mean, variance.
_INSIDE = _normal(2) - _normal(-2)
_SPREAD = 1 - 2 * 2 * exp(-2) / sqrt(2 * pi) / _INSIDE
LAWS: dict[str, tuple[dict[str, Any], Callable[[float], float], float, float]] = {
    "uniform_random": ({"min": -2.0, "max": 3.0}, lambda x: min(max((x + 2) / 5, 0), 1), 0.5, 25 / 12),
    "gaussian_random": ({"mean": 1.0, "std": 2.0}, lambda x: _normal((x - 1) / 2), 1.0, 4.0),
    "truncated_gaussian_random": (
        {"mean": -1.0, "std": 0.5},
        lambda x: min(max((_normal((x + 1) / 0.5) - _normal(-2)) / _INSIDE, 0), 1),
        -1.0,
        0.25 * _SPREAD,
    ),
}
LAWS["uniform_random_batch_size_like"] = LAWS["uniform_random"]
LAWS["gaussian_random_batch_size_like"] = LAWS["gaussian_random"]


def _drawn(type: str, seed: int, place: str = "cpu", dtype: str = "float32", count: int = COUNT) -> Array:
    attrs = {**LAWS[type][0], "seed": seed, "dtype": dtype}
    if type.endswith("_like"):
        ((made,),) = _run(
            type, {**attrs, "shape": [-1, 50]}, {"Input": np.zeros((count // 50, 3), np.float32)}, place
        )
    else:
        ((made,),) = _run(type, {**attrs, "shape": [count // 50, 50]}, place=place)
    assert made.shape == (count // 50, 50) and made.dtype == np.dtype(dtype)
    return made.reshape(-1).astype(np.float64)


def _distance(values: Array, law: Callable[[float], float]) -> float:
    """The greatest distance of the empirical distribution function from the true one (Kolmogorov and Smirnov)."""
    ordered = np.sort(values)
    true = np.array([law(float(x)) for x in ordered])
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(true - steps[:-1]), np.max(steps[1:] - true)))


@pytest.mark.parametrize("seed", [1, 7, 12345])
@pytest.mark.parametrize("type", LAWS)
def test_numbers_have_their_distribution(type: str, seed: int) -> None:
    values = _drawn(type, seed)
    _, law, mean, variance = LAWS[type]
    # With the right law one seed in 2,000 is further away than this.
    assert _distance(values, law) < 2.0 / sqrt(COUNT)
    assert abs(values.mean() - mean) < 4 * sqrt(variance / COUNT)
    assert abs(values.var() / variance - 1) < 4 * sqrt(2 / COUNT)
    # Neighbours have nothing to do with each other.
    centred = values - values.mean()
    assert abs(np.mean(centred[1:] * centred[:-1])) < 4 * variance / sqrt(COUNT)


@pytest.mark.parametrize("type", LAWS)
def test_a_seed_gives_the_same_numbers_everywhere(type: str) -> None:
    want = _drawn(type, 5, "numpy", count=500)
    for place in ("cpu", "cuda-sim"):
        np.testing.assert_allclose(_drawn(type, 5, place, count=500), want, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(_drawn(type, 6, "numpy", count=500), want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("type", LAWS)
def test_elements_of_every_type_of_floats(type: str, dtype: str) -> None:
    values = _drawn(type, 3, dtype=dtype, count=2000)
    assert _distance(values, LAWS[type][1]) < 2.0 / sqrt(2000)


@pytest.mark.parametrize("type", ["uniform_random", "gaussian_random", "truncated_gaussian_random"])
def test_shapes_and_limits(type: str) -> None:
    for shape in ([1], [7], [1, 1, 1], [2, 3, 5, 7]):
        ((made,),) = _run(type, {"shape": shape, "seed": 1})
        assert made.shape == tuple(shape) and np.isfinite(made).all()
    values = _drawn("uniform_random", 9)
    assert values.min() >= -2 and values.max() < 3
    values = _drawn("truncated_gaussian_random", 9)
    assert values.min() >= -2 and values.max() <= 0


@pytest.mark.parametrize("type", ["uniform_random", "gaussian_random", "truncated_gaussian_random"])
def test_numbers_of_integers_are_refused(type: str) -> None:
    with pytest.raises(UserError, match="random numbers are floats"):
        _run(type, {"shape": [2], "dtype": "int32"})


def test_without_a_seed_each_run_draws_other_numbers() -> None:
    (first,), (second,) = _run("gaussian_random", {"shape": [1000]}, runs=2)
    assert not np.array_equal(first, second)
    assert abs(np.mean(first * second)) < 4 / sqrt(1000)
    (first,), (second,) = _run("gaussian_random", {"shape": [1000], "seed": 4}, runs=2)
    assert np.array_equal(first, second)


def test_a_length_of_another_tensor_in_any_place() -> None:
    given = {"Input": np.zeros((3, 5), np.float32)}
    for input_at, output_at, shape in ((0, 0, (3, 4)), (1, 0, (5, 4)), (1, 1, (7, 5))):
        attrs = {"shape": [7, 4], "input_dim_idx": input_at, "output_dim_idx": output_at, "seed": 2}
        for type in ("uniform_random_batch_size_like", "gaussian_random_batch_size_like"):
            ((made,),) = _run(type, attrs, given)
            assert made.shape == shape


@pytest.mark.parametrize("place", PLACES)
def test_positions_are_drawn_with_their_probabilities(place: str) -> None:
    rows = 600 if place == "cuda-sim" else 20_000
    chances = np.array([0.1, 0.0, 0.6, 0.3], np.float32)
    ((made,),) = _run("sampling_id", {"seed": 11}, {"X": np.tile(chances, (rows, 1))}, place)
    assert made.dtype == np.int64 and made.shape == (rows,)
    counts = np.bincount(made, minlength=4)
    assert counts[1] == 0
    assert np.all(np.abs(counts - rows * chances) <= 4 * np.sqrt(rows * chances * (1 - chances)))
    ((again,),) = _run("sampling_id", {"seed": 11}, {"X": np.tile(chances, (rows, 1))}, "numpy")
    assert np.array_equal(made, again)


@pytest.mark.parametrize("place", PLACES)
def test_parts_of_items_lie_at_places_of_their_own(place: str) -> None:
    items = 40 if place == "cuda-sim" else 4000
    whole = np.arange(items * 30, dtype=np.float32).reshape(items, 5, 6)
    given = {"X": whole, "Seed": np.array([3], np.int64)}
    ((made, following),) = _run("random_crop", {"shape": [3, 2]}, given, place, ("Out", "SeedOut"))
    assert made.shape == (items, 3, 2) and made.dtype == np.float32
    assert following.dtype == np.int64 and following == 4
    starts = made[:, 0, 0] - whole[:, 0, 0]
    row, column = starts // 6, starts % 6
    # Each part is a piece of its item, as it stands there.
    offsets = np.arange(3)[:, None] * 6 + np.arange(2)
    np.testing.assert_array_equal(made, (whole[:, 0, 0] + starts)[:, None, None] + offsets)
    assert row.min() >= 0 and row.max() <= 2 and column.min() >= 0 and column.max() <= 4
    counts = np.bincount((row * 5 + column).astype(int), minlength=15)
    assert np.all(np.abs(counts - items / 15) < 4.5 * sqrt(items / 15))
    if place != "cuda-sim":
        assert abs(np.corrcoef(row, column)[0, 1]) < 4 / sqrt(items)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("probability", [0.0, 0.25, 0.9, 1.0])
def test_dropout_keeps_its_share_and_changes_no_number(probability: float, place: str) -> None:
    count = 2000 if place == "cuda-sim" else COUNT
    x = np.random.default_rng(0).normal(size=(count // 50, 50)).astype(np.float32)
    attrs = {"dropout_prob": probability, "seed": 17}
    ((made, mask),) = _run("dropout", attrs, {"X": x}, place, ("Out", "Mask"))
    assert made.dtype == mask.dtype == np.float32 and set(np.unique(mask)) <= {0.0, 1.0}
    np.testing.assert_array_equal(made, x * mask)
    share = 1 - probability
    assert abs(mask.mean() - share) <= 4 * sqrt(share * probability / count)
    # No row and no column is kept more than another.
    for axis, length in ((0, x.shape[0]), (1, x.shape[1])):
        assert np.all(np.abs(mask.mean(axis) - share) <= 5 * sqrt(share * probability / length) + 1e-12)
    ((again, _),) = _run("dropout", attrs, {"X": x}, "numpy", ("Out", "Mask"))
    np.testing.assert_array_equal(made, again)


@pytest.mark.parametrize("in_steps", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_two_dropouts_of_one_variable_have_masks_of_their_own(place: str, in_steps: bool) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = layers.data("x", [3, 60], append_batch_size=False, stop_gradient=False)
        if in_steps:
            rnn = layers.StaticRNN()
            with rnn.step():
                row = rnn.step_input(x)
                for _ in range(2):
                    rnn.step_output(layers.dropout(row, 0.5))
            one, two = rnn()
        else:
            one, two = (layers.dropout(x, 0.5) for _ in range(2))
        slope = fluid.calc_gradient(layers.reduce_sum(one * 2.0 + two * 3.0), x)
        executor, feed = fluid.Executor(PLACES[place]), {"x": np.ones((3, 60), np.float32)}
        first, second, found = executor.run(feed=feed, fetch_list=[one, two, slope])
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(found, first * 2 + second * 3)


def test_two_losses_of_one_variable_draw_samples_of_their_own() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x, label = layers.data("x", [5]), layers.data("label", [1], dtype="int64")
        costs = [layers.nce(x, label, 50, param_attr="w", bias_attr="b") for _ in range(2)]
        executor = fluid.Executor(fluid.CPUPlace())
        executor.run(fluid.default_startup_program())
        rows = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
        feed = {"x": rows, "label": np.zeros((4, 1), np.int64)}
        assert not np.array_equal(*executor.run(feed=feed, fetch_list=costs))


def test_dropout_for_test_scales() -> None:
    x = np.array([[1.0, -2.0, np.nan, np.inf]], np.float32)
    ((made,),) = _run("dropout", {"dropout_prob": 0.25, "is_test": True}, {"X": x})
    np.testing.assert_array_equal(made, np.float32(0.75) * x)


def test_a_fixed_seed_of_zero_is_a_seed() -> None:
    x = {"X": np.ones((50, 50), np.float32)}
    (first, _), (second, _) = _run("dropout", {"fix_seed": True}, x, outputs=("Out", "Mask"), runs=2)
    assert np.array_equal(first, second)
    (first, _), (second, _) = _run("dropout", {}, x, outputs=("Out", "Mask"), runs=2)
    assert not np.array_equal(first, second)


def test_the_places_of_parts_follow_from_their_seed() -> None:
    whole = np.arange(64 * 30, dtype=np.float32).reshape(64, 5, 6)
    found: dict[int, list[Array]] = {}
    for seed in (0, 8, 9):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            x = layers.data("x", [5, 6])
            made = layers.random_crop(x, [3, 2], seed=seed)
            executor, scope = fluid.Executor(), fluid.Scope()
            found[seed] = [
                executor.run(feed={"x": whole}, fetch_list=[made], scope=scope)[0] for _ in range(2)
            ]
    assert np.array_equal(*found[8]) and np.array_equal(*found[9]) and not np.array_equal(*found[0])
    assert not np.array_equal(found[8][0], found[9][0])
