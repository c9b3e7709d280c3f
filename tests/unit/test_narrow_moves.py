# SPDX-License-Identifier: Apache-2.0
"""Moves on GPUs of what is narrow on either side: rows of a few elements, thin matrices, many small ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from test_gpu_ideals import TARGET, kernels, tensor
from test_moves_in_line import moved, numbers

from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
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
        ((1001, 1001), (1, 0)),
    ],
)
def test_transposes_are_bound_by_memory(shape: Sequence[int], order: Sequence[int], element: str) -> None:
    result = [shape[d] for d in order]
    of, to = tensor(shape, element), tensor(result, element)
    near(f"%r = ng.transpose %a perm {[*order]} : ({of}) -> {to}", shape, result, element, 1.5)


def test_transposes_of_single_bytes_that_begin_anywhere() -> None:
    shape, result = (97, 101, 103), (103, 101, 97)
    of, to = tensor(shape, "i8"), tensor(result, "i8")
    near(f"%r = ng.transpose %a perm [2, 1, 0] : ({of}) -> {to}", shape, result, "i8", 2)


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


def added(random: np.random.RandomState, element: str) -> tuple[str, str, tuple[int, ...]]:
    """The type of windows, what they are added to, and how: along one dimension or two, long ones and short ones, near and far."""
    windows = [int(n) for n in random.choice([1, 2, 3, 5, 9, 40], random.randint(1, 5))]
    axes = sorted(random.permutation(len(windows))[: random.randint(1, 3)].tolist())
    taps, steps = ([int(n) for n in random.choice([1, 2, 3, 7, 20], len(axes))] for _ in range(2))
    dilations = [int(n) for n in random.choice([1, 1, 2, 3], len(axes))]
    whole = list(windows)
    for axis, count, step, dilation in zip(axes, taps, steps, dilations, strict=True):
        whole[axis] = (windows[axis] - 1) * step + (count - 1) * dilation + 1
    of, to = tensor((*taps, *windows), element), tensor(whole, element)
    body = f"%r = ng.overlap_add %a axes {axes} steps {steps} dilations {dilations} : ({of}) -> {to}"
    return body, to, (*taps, *windows)


def check_added(body: str, to: str, shape: Sequence[int], element: str) -> None:
    x = np.resize(np.arange(7) - 3, shape).astype(numbers((1,), element).dtype)
    text = f"func.func @main(%a: {tensor(shape, element)}) -> {to} {{\n {body}\n return %r : {to}\n}}"
    (wanted,) = run(from_text(text), x)
    np.testing.assert_array_equal(moved(body, to, x, element=element), np.asarray(wanted))


@pytest.mark.parametrize("element", ["f32", "i8", "f64"])
@pytest.mark.parametrize("seed", range(16))
def test_windows_are_added(seed: int, element: str) -> None:
    random = np.random.RandomState(seed)
    body, to, shape = added(random, element)
    while np.prod(shape) > 40000:
        body, to, shape = added(random, element)
    check_added(body, to, shape, element)


def adding(shape: Sequence[int], step: int, axes: Sequence[int], element: str) -> tuple[str, list[int]]:
    result = [*shape[len(axes) :]]
    for axis, taps in zip(axes, shape, strict=False):
        result[axis] = (result[axis] - 1) * step + taps
    steps, one = [step] * len(axes), [1] * len(axes)
    of, to = tensor(shape, element), tensor(result, element)
    return f"%r = ng.overlap_add %a axes {[*axes]} steps {steps} dilations {one} : ({of}) -> {to}", result


@pytest.mark.parametrize("element", ["f32", "i8"])
@pytest.mark.parametrize(
    ("shape", "step", "axes"),
    [
        ((3, 3, 50, 30, 9, 5), 2, [2, 3]),
        ((2, 3, 1700, 3, 5), 1, [1, 2]),
        ((3, 3, 300, 5, 20), 2, [0, 1]),
        ((5, 40, 60, 3), 4, [1]),
        ((3, 700, 9), 3, [0]),
    ],
)
def test_windows_of_several_rows_are_added(
    shape: Sequence[int], step: int, axes: Sequence[int], element: str
) -> None:
    body, result = adding(shape, step, axes, element)
    check_added(body, tensor(result, element), shape, element)


@pytest.mark.parametrize(
    ("shape", "step", "axes"),
    [
        ((401, 10000), 160, [0]),
        ((512, 200, 8), 128, [0]),
        ((25, 1000, 64), 10, [0]),
        ((3, 3, 64, 64, 28, 28), 2, [2, 3]),
        ((4, 4, 64, 16, 56, 56), 4, [2, 3]),
        ((3, 3, 8, 112, 112, 32), 1, [1, 2]),
        ((7, 7, 64, 12, 12), 7, [1, 2]),
    ],
)
def test_added_windows_are_bound_by_memory(shape: Sequence[int], step: int, axes: Sequence[int]) -> None:
    body, result = adding(shape, step, axes, "f32")
    near(body, shape, result, "f32", 1.1)


@pytest.mark.parametrize("element", [*ELEMENTS, "i1"])
@pytest.mark.parametrize(
    ("shape", "axes", "taps", "steps", "dilations"),
    [
        ((40, 9, 9), (1, 2), (3, 3), (1, 1), (1, 1)),
        ((6, 21, 23, 3), (1, 2), (5, 4), (2, 3), (1, 2)),
        ((3000, 4), (1,), (2,), (2,), (1,)),
        ((700, 5), (0,), (3,), (1,), (2,)),
        ((3, 5), (1,), (5,), (1,), (1,)),
    ],
)
def test_windows(
    shape: Sequence[int],
    axes: Sequence[int],
    taps: Sequence[int],
    steps: Sequence[int],
    dilations: Sequence[int],
    element: str,
) -> None:
    whole, places = [*taps, *shape], np.indices((*taps, *shape))
    at = [*places[len(taps) :]]
    for i, axis in enumerate(axes):
        whole[len(taps) + axis] = (shape[axis] - 1 - (taps[i] - 1) * dilations[i]) // steps[i] + 1
        at[axis] = at[axis] * steps[i] + places[i] * dilations[i]
    inside = tuple(map(slice, whole))
    x = numbers(shape, element)
    of, to = tensor(shape, element), tensor(whole, element)
    how = f"axes {[*axes]} steps {[*steps]} dilations {[*dilations]}"
    got = moved(f"%r = ng.windows %a {how} : ({of}) -> {to}", to, x, element=element)
    np.testing.assert_array_equal(got, x[tuple(each[inside] for each in at)])


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(
    ("shape", "taps", "step"),
    [
        ((64, 58, 58), 3, 1),
        ((64, 30, 30), 3, 2),
        ((2000, 5, 5), 3, 1),
        ((8, 114, 114, 32), 3, 1),
        ((8, 224, 224, 3), 16, 16),
    ],
)
def test_windows_are_bound_by_memory(shape: Sequence[int], taps: int, step: int, element: str) -> None:
    result = [taps, taps, shape[0], *((n - taps) // step + 1 for n in shape[1:3]), *shape[3:]]
    of, to = tensor(shape, element), tensor(result, element)
    how = f"axes [1, 2] steps [{step}, {step}] dilations [1, 1]"
    # Of single bytes, the instructions that find each of them are more than memory waits for.
    times = 2.5 if element == "i8" else 1.3
    near(f"%r = ng.windows %a {how} : ({of}) -> {to}", shape, result, element, times)


@pytest.mark.parametrize("element", ELEMENTS)
def test_slices_of_one_row_of_each_matrix_are_bound_by_memory(element: str) -> None:
    shape, result = (100000, 3, 32), (100000, 1, 32)
    of, to = tensor(shape, element), tensor(result, element)
    body = f"%r = ng.slice %a from [0, 1, 0] to [100000, 2, 32] step [1, 1, 1] : ({of}) -> {to}"
    near(body, shape, result, element, 0.65)  # a third of the operand is read


@pytest.mark.parametrize("element", [*ELEMENTS, "i1"])
def test_slices(element: str) -> None:
    for shape, first, last, step in (
        ((3000, 3, 32), (0, 1, 0), (3000, 2, 32), (1, 1, 1)),
        ((3, 900, 5, 16), (1, 0, 1, 0), (3, 900, 4, 16), (1, 1, 2, 1)),
        ((3, 5), (1, 2), (2, 3), (1, 1)),
        ((3000, 7), (2999, 5), (10, 1), (-2, -1)),
    ):
        x = numbers(shape, element)
        wanted = x[tuple(map(slice, first, last, step))]
        of, to = tensor(shape, element), tensor(wanted.shape, element)
        body = f"%r = ng.slice %a from {[*first]} to {[*last]} step {[*step]} : ({of}) -> {to}"
        np.testing.assert_array_equal(moved(body, to, x, element=element), wanted)
