# SPDX-License-Identifier: Apache-2.0
"""Calls of several programs in any order, with results that are wanted late, early or never, and a driver that fails now and
then: values stay right, and no memory is used by two at a time (the fake driver watches that of the host too)."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from fake_cuda import Machine

import ngmlir as ng
from ngmlir.support.diagnostics import UserError

_FAILING = ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuGraphLaunch", "cuLaunchKernel")


def _programs() -> list[Any]:
    """Arguments and results whose sizes share pieces of pinned memory, in both directions; one keeps state."""
    made: list[Any] = []
    for count, factors in ((250, 3), (750, 1), (3000, 1)):
        n, k = ng.make_axis(count, "N"), ng.make_axis(factors, "K")
        x, w = ng.placeholder([n]), ng.constant(np.arange(1, factors + 1, dtype=np.float32), [k])
        y = ng.axes_with_order(x * w, [n, k])
        made.append((ng.compile(y, [x], target="cuda"), count, factors))
    return made


def _wanted(value: float, count: int, factors: int) -> np.ndarray:
    return np.outer(np.full(count, value, np.float32), np.arange(1, factors + 1, dtype=np.float32))


@pytest.mark.parametrize("seed", range(4))
def test_results_are_right_in_any_order(machine: Machine, seed: int) -> None:
    rng = np.random.default_rng(seed)
    programs = _programs()
    waiting: list[tuple[Any, np.ndarray]] = []
    for step in range(120):
        run, count, factors = programs[rng.integers(len(programs))]
        value = float(step + 1)
        given, wanted = np.full(count, value, np.float32), _wanted(value, count, factors)
        if fails := rng.random() < 0.1:
            machine.answers[_FAILING[rng.integers(len(_FAILING))]] = ["CUDA_ERROR_INVALID_VALUE"]
        try:
            match rng.integers(5):
                case 0:
                    assert np.array_equal(run(given), wanted)
                case 1 | 2:
                    waiting.append((run.call_async(given), wanted))
                case 3 if waiting:
                    later, wanted = waiting.pop(rng.integers(len(waiting)))
                    assert np.array_equal(later.result(), wanted)
                case _ if waiting:
                    later, _ = waiting.pop(rng.integers(len(waiting)))
                    later.done()
                    del later  # nobody wants it any more
                case _:
                    assert np.array_equal(np.asarray(run.on_device(given)), wanted)
        except UserError as error:
            assert fails and "CUDA_ERROR_INVALID_VALUE" in str(error)
        machine.answers.clear()
        if rng.random() < 0.05:
            programs[:] = _programs()
            gc.collect()
    for later, wanted in waiting:
        assert np.array_equal(later.result(), wanted)
