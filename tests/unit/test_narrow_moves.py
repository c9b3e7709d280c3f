# SPDX-License-Identifier: Apache-2.0
"""Moves on GPUs of what is narrow on either side: rows of a few elements, thin matrices, many small ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from test_gpu_ideals import TARGET, kernels, tensor
from test_moves_in_line import moved, numbers

from ngmlir.support.machines import MEMORY_LATENCY

ELEMENTS = ["f32", "bf16", "i8", "f64"]
SIZES = [1, 2, 3, 4, 5, 7, 8, 10, 33, 64, 101, 130]


def near(body: str, takes: Sequence[int], gives: Sequence[int], element: str, times: float) -> None:
    """The bound is so many times that of copying at most, or what two answers of memory take."""
    (found,) = kernels([tensor(takes, element)], tensor(gives, element), body)
    gpu = TARGET.gpu
    item = numbers((1,), element).itemsize
    ideal = item * (int(np.prod(takes)) + int(np.prod(gives))) / (gpu.bandwidth * 1e9)
    assert found.seconds(gpu) <= max(times * ideal, 2 * MEMORY_LATENCY)
    assert not found.spills


def drawn(random: np.random.RandomState, most: int = 40000) -> tuple[int, ...]:
    while True:
        shape = tuple(int(n) for n in random.choice(SIZES, random.randint(2, 6)))
        if np.prod(shape) <= most:
            return shape


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("seed", range(12))
def test_transposes(seed: int, element: str) -> None:
    random = np.random.RandomState(seed)
    shape = drawn(random)
    order = random.permutation(len(shape)).tolist()
    x = numbers(shape, element)
    wanted = x.transpose(order)
    of, to = tensor(shape, element), tensor(wanted.shape, element)
    body = f"%r = ng.transpose %a perm {order} : ({of}) -> {to}"
    np.testing.assert_array_equal(moved(body, to, x, element=element), wanted)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((1024, 1024, 2), (1, 0, 2)),
        ((1024, 1024, 3), (1, 0, 2)),
        ((8, 512, 12, 64), (0, 2, 1, 3)),
        ((1000003, 3), (1, 0)),
        ((3, 1000003), (1, 0)),
        ((8, 224, 224, 3), (0, 3, 1, 2)),
        ((8, 3, 224, 224), (0, 2, 3, 1)),
        ((10000, 5, 7), (0, 2, 1)),
        ((10000, 3, 3), (0, 2, 1)),
        ((10000, 4, 4), (0, 2, 1)),
    ],
)
def test_transposes_are_bound_by_memory(shape: Sequence[int], order: Sequence[int], element: str) -> None:
    result = [shape[d] for d in order]
    of, to = tensor(shape, element), tensor(result, element)
    near(f"%r = ng.transpose %a perm {[*order]} : ({of}) -> {to}", shape, result, element, 1.5)


@pytest.mark.parametrize("element", [*ELEMENTS, "i1", "i64"])
@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ((3000, 3), (0, 1), (0, 1)),
        ((3000, 1), (0, 0), (0, 2)),
        ((2500, 7), (3, 5), (1, 0)),
        ((700, 5, 3), (0, 1, 1), (0, 1, 1)),
        ((500, 6, 2, 3), (2, 0, 1, 0), (1, 0, 3, 0)),
        ((9, 300, 31), (1, 2, 3), (3, 2, 1)),
        ((3, 4, 40, 10), (0, 3, 5, 0), (1, 10, 7, 0)),
        ((0, 3), (2000, 0), (3000, 1)),
    ],
)
def test_pads(shape: Sequence[int], low: Sequence[int], high: Sequence[int], element: str) -> None:
    x = numbers(shape, element)
    wanted = np.pad(x, [*zip(low, high, strict=True)], constant_values=1)
    of, to = tensor(shape, element), tensor(wanted.shape, element)
    fill = "true" if element == "i1" else f"{'1' if element[0] == 'i' else '1.0'} : {element}"
    body = f"%r = ng.pad %a low {[*low]} high {[*high]} {{value = {fill}}} : ({of}) -> {to}"
    np.testing.assert_array_equal(moved(body, to, x, element=element), wanted)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ((1000003, 3), (0, 1), (0, 1)),
        ((10000, 3, 3), (0, 1, 1), (0, 1, 1)),
        ((64, 64, 56, 56), (0, 0, 1, 1), (0, 0, 1, 1)),
        ((97, 101, 103), (1, 2, 3), (3, 2, 1)),
        ((16384, 4, 10), (0, 1, 0), (0, 1, 0)),
    ],
)
def test_pads_are_bound_by_memory(
    shape: Sequence[int], low: Sequence[int], high: Sequence[int], element: str
) -> None:
    result = [sum(sizes) for sizes in zip(low, shape, high, strict=True)]
    of, to = tensor(shape, element), tensor(result, element)
    near(f"%r = ng.pad %a low {[*low]} high {[*high]} : ({of}) -> {to}", shape, result, element, 1.3)
