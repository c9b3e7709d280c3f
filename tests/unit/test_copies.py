# SPDX-License-Identifier: Apache-2.0
"""Copies of arrays whatever their order in memory: the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.support.arrays import contiguous, copy_into


def test_copies_of_any_order_are_the_same() -> None:
    rng = np.random.default_rng(0)
    for turn in range(200):
        rank = int(rng.integers(0, 5))
        shape = rng.integers(0 if turn % 7 == 0 else 1, [0, 300000, 700, 80, 30][rank] + 1, rank)
        source = rng.integers(-100, 100, shape).astype(["f4", "f8", "i1", "f2"][turn % 4])
        source = np.asfortranarray(source) if turn % 3 else source
        source = source.transpose(rng.permutation(rank)) if rank else source
        if rank and turn % 5 == 0:
            source = source[tuple(slice(None, None, int(rng.choice([-1, 1, 2]))) for _ in range(rank))]
        if rank and turn % 11 == 0 and source.size:
            source = np.broadcast_to(source[:1], source.shape)
        target = np.empty(source.shape, ["f4", "f8"][turn % 2])
        copy_into(target, source)
        np.testing.assert_array_equal(target, source)
        made = contiguous(source, np.dtype("f4"))
        assert made.flags.c_contiguous and made.dtype == "f4"
        np.testing.assert_array_equal(made, source)


@pytest.mark.parametrize("backend", ["numpy", "cpu", "cuda-sim"])
def test_feeding_in_fortrans_order(backend: str) -> None:
    n, c = ng.make_axis(name="N"), ng.make_axis(300, "C")
    x = ng.placeholder([n, c])
    w = ng.variable([c], initial_value=1)
    run = ng.compile([x[::200] * w, x[:, ::100]], [x], target=backend)
    rows = np.asfortranarray(np.random.default_rng(0).integers(-9, 9, (400, 300)))
    for fed in (rows, rows.astype(np.float32), rows[::-1], rows.astype(">f4")):
        first, second = run(fed)
        np.testing.assert_array_equal(first, fed[::200])
        np.testing.assert_array_equal(second, fed[:, ::100])
