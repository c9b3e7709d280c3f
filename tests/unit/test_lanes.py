# SPDX-License-Identifier: Apache-2.0
"""Sequences packed into lanes: where they are, what a network makes of them, and how often its loop runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ragged_cases import Applied
from test_recurrent_operators import inputs_of, wanted

import ngmlir as ng
import ngmlir.frontends.fluid as fluid
from ngmlir import numpy as ops
from ngmlir.frontends.fluid import layers
from ngmlir.op_graph.packed_lanes import rows_of_lanes
from ngmlir.programs.lanes import packed
from ngmlir.programs.lower import lower
from ngmlir.programs.lowered import Lowered
from ngmlir.transformers import fed_programs


def packing(lengths: list[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int, int]:
    """The lane and the first step of each sequence, and the numbers of lanes and steps."""
    offsets = ops.asarray(np.cumsum([0, *lengths]).astype(np.int32))

    def value(x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(ng.compile(x, [], target="numpy")())

    made = packed(offsets, lambda counts: [int(value(count)[0]) for count in counts])
    return value(made.lane), value(made.start), made.lanes, made.steps


DRAW = np.random.default_rng(0)
BATCHES = [
    [3, 5], [7, 0], [1, 1], [0, 4, 0], [9] * 8, [1] * 40, [64, *[2] * 31], [31, 1, 30, 2, 29, 3],
    *[DRAW.integers(0, most, count).tolist() + [1] for count, most in ((2, 9), (7, 3), (31, 20), (32, 64), (33, 64), (100, 30))],
]  # fmt: skip


@pytest.mark.parametrize("lengths", BATCHES, ids=lambda each: f"{len(each)} of {sum(each)}")
def test_each_row_has_a_place_of_its_own(lengths: list[int]) -> None:
    lane, start, lanes, steps = packing(lengths)
    cells = [(at, step) for at, s, n in zip(lane, start, lengths, strict=True) for step in range(s, s + n)]
    assert len(set(cells)) == sum(lengths)
    assert all(0 <= at < lanes and step < steps for at, step in cells)
    assert max(lengths) <= steps <= 2 * max(lengths)
    # At least as few as a lane for each.
    assert steps * lanes <= max(lengths) * max(2, len(lengths) + 32)


@pytest.mark.parametrize(
    "lengths", [[], [0], [0, 0], [5], *BATCHES], ids=lambda each: f"{len(each)} of {sum(each)}"
)
def test_each_place_has_a_row_of_its_own_or_none(lengths: list[int]) -> None:
    """As graphs are fed: the rows of a sequence lie behind each other in one lane."""
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    lanes = rows_of_lanes(offsets)
    number = sum(lengths)
    assert lanes.dtype == np.int32
    assert sorted(lanes[lanes < number].tolist()) == list(range(number))
    assert (lanes[lanes >= number] == number).all()
    longest = max(lengths, default=0)
    assert longest <= lanes.shape[0] <= 2 * longest
    assert lanes.size <= longest * max(2, len(lengths))
    for begin, length in zip(offsets.tolist(), lengths, strict=False):
        if length:
            step, lane = (int(each[0]) for each in np.nonzero(lanes == begin))
            assert lanes[step : step + length, lane].tolist() == list(range(begin, begin + length))


def test_equal_lengths_have_a_lane_each() -> None:
    assert packing([9] * 8)[2:] == (8, 9)
    assert rows_of_lanes(np.arange(0, 73, 9, np.int32)).shape == (9, 8)


def test_few_cells_hold_no_row() -> None:
    lengths = np.random.default_rng(1).integers(1, 65, 200).tolist()
    *_, lanes, steps = packing(lengths)
    assert lanes * steps < 1.1 * sum(lengths)
    assert rows_of_lanes(np.cumsum([0, *lengths]).astype(np.int32)).size < 1.1 * sum(lengths)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("type", ["lstm", "lstmp", "gru"])
@pytest.mark.parametrize("is_reverse", [False, True])
def test_values_of_many_sequences(type: str, is_reverse: bool, target: str) -> None:
    """Of several groups, some without rows."""
    lengths = np.random.default_rng(2).integers(0, 9, 70).tolist()
    inputs = inputs_of(type, lengths, begins=True, peepholes=type == "lstm")
    settings = {"is_reverse": is_reverse, **({} if type == "gru" else {"use_peepholes": type == "lstm"})}
    found = Applied(type, inputs, **settings).results(target)
    for each, expected in zip(found.values(), wanted(type, inputs, settings), strict=True):
        assert np.allclose(each.array, expected, rtol=1e-9, atol=1e-12)


def test_an_infinity_stays_in_its_sequence() -> None:
    """Also in gradients by rows."""
    lengths = [1, 6, 2, 1]
    inputs = inputs_of("lstm", lengths, begins=False, peepholes=False)
    inputs["Input"].array[0] = np.inf
    settings = {"use_peepholes": False, "candidate_activation": "relu", "cell_activation": "relu"}
    for target in ("numpy", "cpu"):
        made = Applied("lstm", inputs, **settings)
        hidden = made.results(target)["Hidden"].array
        assert np.isfinite(hidden[1:]).all()
        assert not np.isfinite(hidden[0]).all()
        (by_rows,) = made.gradients(["Hidden"], ["Input"], target)
        assert np.isfinite(by_rows[1:]).all()


@pytest.mark.parametrize("is_reverse", [False, True])
def test_an_infinity_before_a_product_stays_in_its_sequence(is_reverse: bool) -> None:
    """Rows may be gathered before the product: gradients of other sequences are those without the infinity."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3  # of other weights a sequence may have no gradient
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.data("x", [4], lod_level=1)
        x.stop_gradient = False
        hidden, _ = layers.dynamic_lstm(
            layers.fc(x, 32), 32, use_peepholes=False, is_reverse=is_reverse, candidate_activation="relu"
        )
        by_rows = fluid.calc_gradient(layers.reduce_sum(hidden), x)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    lengths = [1, 6, 2, 1]
    array = np.random.default_rng(5).normal(size=(sum(lengths), 4)).astype("f")

    def gradients() -> np.ndarray[Any, Any]:
        rows = fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())
        found = exe.run(main, feed={"x": rows}, fetch_list=[by_rows], scope=scope, return_numpy=False)
        return np.array(found[0])

    expected = gradients()
    assert np.abs(expected).min(1).all()
    for row in (0, len(array) - 1):
        kept, array[row] = array[row].copy(), np.inf
        found = gradients()
        array[row] = kept
        others = np.arange(len(array)) != row
        assert np.allclose(found[others], expected[others], rtol=1e-5, atol=1e-6)


def test_a_training_step_runs_each_loop_once_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """And once backward; two networks over the same sequences pack them once."""
    seen: list[Lowered] = []

    def noted(program: Any, **how: Any) -> Lowered:
        seen.append(lower(program, **how))
        return seen[-1]

    monkeypatch.setattr(fed_programs, "lower", noted)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.data("x", [8], lod_level=1)
        for _ in range(2):
            x = layers.dynamic_lstm(layers.fc(x, 32), 32)[0]
        loss = layers.mean(x)
        fluid.optimizer.SGD(0.1).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    rows = fluid.create_lod_tensor(np.ones((6, 8), np.float32), [[3, 1, 2]], None)
    exe.run(main, feed={"x": rows}, fetch_list=[loss], scope=scope)
    scans = [op for op in seen[-1].module.walk() if op.name == "ng.scan"]
    products = [any(inner.name == "ng.dot" for inner in scan.walk()) for scan in scans]
    assert not seen[-1].measures
    assert (products.count(True), products.count(False)) == (4, 1)
