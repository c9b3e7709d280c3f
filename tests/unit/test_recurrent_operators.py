# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks over sequences against loops over each sequence, on every target; their gradients against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ragged_cases import Applied, Array, Rows, check_gradients

TARGETS = ("numpy", "cpu", "cuda-sim")
RNG = np.random.default_rng(3)
FUNCTIONS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "identity": lambda x: x,
}  # fmt: skip
LENGTHS = [[3, 0, 5, 1], [2], [1, 1], [0, 0], []]
D = 2


def normal(*shape: int) -> Array:
    return 0.7 * RNG.normal(size=shape)


def inputs_of(type: str, lengths: list[int], begins: bool, peepholes: bool) -> dict[str, Any]:
    rows, count = sum(lengths), len(lengths)
    gates = 3 if type == "gru" else 4
    made: dict[str, Any] = {"Input": Rows(normal(rows, gates * D), [lengths])}
    if begins:
        made["H0"] = normal(count, D)
        if type != "gru":
            made["C0"] = normal(count, D)
    if type == "lstmp":
        made |= {"Weight": normal(3, 4 * D), "ProjWeight": normal(D, 3)}
    else:
        made["Weight"] = normal(D, gates * D)
    return made | {"Bias": normal(1, (7 if peepholes else gates) * D)}


def wanted(type: str, inputs: dict[str, Any], settings: dict[str, Any]) -> list[Array]:
    """Step by step, sequence by sequence."""
    x, lengths = inputs["Input"].array, inputs["Input"].lengths[0]
    gate = FUNCTIONS[settings.get("gate_activation", "sigmoid")]
    w, b = inputs["Weight"], inputs["Bias"][0]
    width = inputs["ProjWeight"].shape[1] if type == "lstmp" else D
    hidden, cells = np.zeros((len(x), width)), np.zeros((len(x), D))
    start = 0
    for s, n in enumerate(lengths):
        h = inputs["H0"][s] if "H0" in inputs else np.zeros(D)
        c = inputs["C0"][s] if "C0" in inputs else np.zeros(D)
        if type == "lstmp":
            project = FUNCTIONS[settings.get("proj_activation", "tanh")]
            h = project(h @ inputs["ProjWeight"]) if "H0" in inputs else np.zeros(width)
        steps = range(start, start + n)
        for row in reversed(steps) if settings.get("is_reverse") else steps:
            if type == "gru":
                act = FUNCTIONS[settings.get("activation", "tanh")]
                both, last = w.ravel()[: 2 * D * D].reshape(D, 2 * D), w.ravel()[2 * D * D :].reshape(D, D)
                given = x[row] + b
                u, r = np.split(gate(given[: 2 * D] + h @ both), 2)
                m = act(given[2 * D :] + (r * h) @ last)
                u = 1 - u if settings.get("origin_mode") else u
                h = (1 - u) * h + u * m
            else:
                act = FUNCTIONS[settings.get("candidate_activation", "tanh")]
                out = FUNCTIONS[settings.get("cell_activation", "tanh")]
                g, i, f, o = np.split(x[row] + b[: 4 * D] + h @ w, 4)
                w_i, w_f, w_o = np.split(b[4 * D :], 3) if len(b) > 4 * D else (0, 0, 0)
                i, f = gate(i + w_i * c), gate(f + w_f * c)
                c = f * c + i * act(g)
                h = gate(o + w_o * c) * out(c)
                if type == "lstmp":
                    h = project(h @ inputs["ProjWeight"])
            hidden[row], cells[row] = h, c
        start += n
    return [hidden] if type == "gru" else [hidden, cells]


SLOTS = {"lstm": ["Hidden", "Cell"], "lstmp": ["Projection", "Cell"], "gru": ["Hidden"]}
CASES = [
    ("lstm", False, False, {"use_peepholes": False}),
    ("lstm", True, True, {"is_reverse": True}),
    (
        "lstm",
        False,
        True,
        {"gate_activation": "tanh", "cell_activation": "relu", "candidate_activation": "identity"},
    ),
    ("lstmp", True, True, {}),
    ("lstmp", False, False, {"use_peepholes": False, "is_reverse": True, "proj_activation": "identity"}),
    ("gru", False, False, {}),
    ("gru", True, False, {"is_reverse": True, "activation": "relu"}),
    ("gru", True, False, {"origin_mode": True}),
]
NAMES = [f"{type}-{i}" for i, (type, *_) in enumerate(CASES)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("type", "begins", "peepholes", "settings"), CASES, ids=NAMES)
def test_values(type: str, begins: bool, peepholes: bool, settings: dict[str, Any], target: str) -> None:
    for lengths in LENGTHS:
        inputs = inputs_of(type, lengths, begins, peepholes)
        found = Applied(type, inputs, **settings).results(target)
        for slot, array in zip(SLOTS[type], wanted(type, inputs, settings), strict=True):
            assert np.allclose(found[slot].array, array, rtol=1e-9, atol=1e-12)
            assert found[slot].lengths == [lengths]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("type", "begins", "peepholes", "settings"), CASES, ids=NAMES)
def test_gradients(type: str, begins: bool, peepholes: bool, settings: dict[str, Any], order: int) -> None:
    if order == 2 and "relu" in settings.values():
        pytest.skip("the second derivative of relu is 0")
    inputs = inputs_of(type, [2, 0, 3] if order == 1 else [2, 1], begins, peepholes)
    check_gradients(type, inputs, SLOTS[type], [*inputs], order, **settings)


@pytest.mark.parametrize("type", ["lstm", "gru"])
def test_a_batch_is_each_sequence_alone(type: str) -> None:
    lengths = [*range(10)]
    inputs = inputs_of(type, lengths, False, type == "lstm")
    inputs = {
        slot: Rows(v.array.astype(np.float32), v.lengths) if isinstance(v, Rows) else v.astype(np.float32)
        for slot, v in inputs.items()
    }
    whole = Applied(type, inputs).results("cpu")["Hidden"].array
    ends = np.cumsum(lengths)
    for end, n in zip(ends, lengths, strict=True):
        rows = Rows(inputs["Input"].array[end - n : end], [[n]])
        alone = Applied(type, {**inputs, "Input": rows}).results("cpu")["Hidden"].array
        assert np.abs(whole[end - n : end] - alone).max(initial=0) <= 1e-6
