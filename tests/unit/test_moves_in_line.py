# SPDX-License-Identifier: Apache-2.0
"""Kernels of GPUs that only move elements, by lines of memory: each element comes to its place, and none is touched twice."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from test_gpu_ideals import hold, kernels, tensor

from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text

DTYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i1": np.bool_, "i64": np.int64,
}  # fmt: skip


def numbers(shape: Sequence[int], element: str) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(DTYPES[element])


def moved(body: str, gives: str, *arrays: np.ndarray, element: str) -> np.ndarray:
    given = ", ".join(f"%{n}: {tensor(a.shape, element)}" for n, a in zip("abcdef", arrays, strict=False))
    text = f"func.func @main({given}) -> {gives} {{\n {body}\n func.return %r : {gives}\n}}"
    (found,) = compile_module(from_text(text), target="cuda-sim")(*arrays)
    return np.asarray(found)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "first", "last", "step"),
    [
        ((256, 256), (1, 1), (255, 255), (1, 1)),
        ((50, 1001), (1, 3), (50, 998), (3, 1)),
        ((9, 7, 130), (1, 0, 1), (8, 7, 130), (2, 3, 1)),
        ((1, 2000), (0, 5), (1, 1999), (1, 1)),
        ((33, 513), (0, 0), (33, 512), (1, 1)),
        ((70, 65), (2, 1), (69, 65), (1, 1)),
        ((40, 200), (0, 3), (40, 13), (1, 1)),
        ((5, 600), (0, 1), (5, 600), (1, 2)),
    ],
)
def test_slices(
    shape: Sequence[int], first: Sequence[int], last: Sequence[int], step: Sequence[int], element: str
) -> None:
    x = numbers(shape, element)
    wanted = x[tuple(map(slice, first, last, step))]
    of, to = tensor(shape, element), tensor(wanted.shape, element)
    body = f"%r = ng.slice %a from {[*first]} to {[*last]} step {[*step]} : ({of}) -> {to}"
    np.testing.assert_array_equal(moved(body, to, x, element=element), wanted)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
@pytest.mark.parametrize("shape", [(256, 256), (500, 1001), (2000, 133)])
def test_slices_ask_for_each_sector_once(shape: tuple[int, int], element: str) -> None:
    of, to = tensor(shape, element), tensor((shape[0] - 2, shape[1] - 2), element)
    last = [size - 1 for size in shape]
    hold(kernels([of], to, f"%r = ng.slice %a from [1, 1] to {last} step [1, 1] : ({of}) -> {to}"))


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 5, 64, 333])
@pytest.mark.parametrize(
    "widths", [(3, 1), (1, 1), (10, 20, 7), (129, 200), (64, 64), (127, 1), (0, 5, 3), (300, 301)]
)
def test_concatenations_of_short_rows(rows: int, widths: tuple[int, ...], element: str) -> None:
    parts = [numbers((rows, width), element) for width in widths]
    types, to = [tensor(p.shape, element) for p in parts], tensor((rows, sum(widths)), element)
    names = ", ".join(f"%{n}" for n, _ in zip("abcdef", parts, strict=False))
    body = f"%r = ng.concatenate {names} axis 1 : ({', '.join(types)}) -> {to}"
    np.testing.assert_array_equal(moved(body, to, *parts, element=element), np.concatenate(parts, axis=1))


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
@pytest.mark.parametrize("widths", [(10, 20, 7), (129, 200), (127, 1)])
def test_concatenations_ask_for_each_sector_once(widths: tuple[int, ...], element: str) -> None:
    types, to = [tensor((4000, w), element) for w in widths], tensor((4000, sum(widths)), element)
    names = ", ".join(f"%{n}" for n, _ in zip("abc", widths, strict=False))
    hold(kernels(types, to, f"%r = ng.concatenate {names} axis 1 : ({', '.join(types)}) -> {to}"))


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [((256, 256), (1, 1), (1, 1)), ((30, 1001), (0, 3), (1, 0)), ((700,), (3,), (5,)), ((4, 5, 6, 16), (0, 1, 1, 0), (0, 1, 1, 0)), ((3, 600), (0, 1), (0, 0))],
)  # fmt: skip
def test_pads(shape: Sequence[int], low: Sequence[int], high: Sequence[int], element: str) -> None:
    x = numbers(shape, element)
    wanted = np.pad(x, [*zip(low, high, strict=True)])
    of, to = tensor(shape, element), tensor(wanted.shape, element)
    body = f"%r = ng.pad %a low {[*low]} high {[*high]} : ({of}) -> {to}"
    np.testing.assert_array_equal(moved(body, to, x, element=element), wanted)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((50, 33), 0, 70), ((50, 33), 0, 2200), ((50, 1), 0, 7), ((9, 7, 5), 1, 130), ((3, 50, 2, 3), 1, 33), ((1, 20), 0, 3000),
        ((40, 511), 0, 41), ((1, 1, 1), 1, 1), ((7, 511), 0, 2113), ((5, 4), 0, 0), ((3000, 5), 1, 7), ((300, 2), 0, 5000),
    ],
)  # fmt: skip
def test_gathers_of_rows(shape: Sequence[int], axis: int, count: int, element: str) -> None:
    """Positions that count from the end, and those beyond it, which are moved inside."""
    x, size = numbers(shape, element), shape[axis]
    at = np.random.default_rng(0).integers(-size - 2, size + 2, count).astype(np.int32)
    wanted = np.take(x, np.clip(np.where(at < 0, at + size, at), 0, size - 1), axis)
    of, to = tensor(shape, element), tensor(wanted.shape, element)
    text = f"""func.func @main(%a: {of}, %b: tensor<{count}xi32>) -> {to} {{
 %r = ng.gather %a[%b] axis {axis} : ({of}, tensor<{count}xi32>) -> {to}
 func.return %r : {to}
}}"""
    (found,) = compile_module(from_text(text), target="cuda-sim")(x, at)
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize(
    ("width", "more"), [(7, 1.2), (16, 1.1), (33, 1.25), (96, 1.15), (101, 1.25), (1001, 1.1)]
)
def test_gathers_of_rows_ask_for_little_more_than_the_sectors_in_which_they_lie(
    width: int, more: float
) -> None:
    """Rows that begin anywhere; each request that reads some also reads where they are."""
    size, count = 3000, 4000
    x, at, y = tensor((size, width)), tensor((count,), "i32"), tensor((count, width))
    given = np.random.default_rng(0).integers(0, size, count).astype(np.int32)
    (found,) = kernels(
        [x, at],
        y,
        f"%r = ng.gather %a[%b] axis 0 : ({x}, {at}) -> {y}",
        [np.zeros((size, width), np.float32), given],
    )
    first = given.astype(np.int64) * width * 4
    needed = int(((first + 4 * width - 1) // 32 - first // 32 + 1).sum()) + (count + count * width) * 4 // 32
    assert found.counters.globally_asked.parts <= more * needed and found.counters.useful_threads >= 0.9


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *(((50, 33), axis) for axis in (0, 1)),
        *((shape, axis) for shape in ((3, 50, 7), (90, 30, 7)) for axis in (0, 1, 2)),
        *(((1000,), 0), ((1, 1), 1), ((2, 513), 1), ((2200, 3), 0), ((0, 5), 1), ((513, 1), 0)),
    ],
)
def test_gathers_of_elements(shape: Sequence[int], axis: int, element: str) -> None:
    x, size = numbers(shape, element), shape[axis]
    at = np.random.default_rng(0).integers(-size - 2, size + 2, shape)
    wanted = np.take_along_axis(x, np.clip(np.where(at < 0, at + size, at), 0, size - 1), axis)
    of, places = tensor(shape, element), tensor(shape, "i64")
    text = f"""func.func @main(%a: {of}, %b: {places}) -> {of} {{
 %r = ng.gather_elements %a[%b] axis {axis} : ({of}, {places}) -> {of}
 func.return %r : {of}
}}"""
    (found,) = compile_module(from_text(text), target="cuda-sim")(x, at)
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(512, 512), (4000, 33), (40000, 7)])
def test_gathers_of_elements_in_order_ask_for_each_sector_once(shape: tuple[int, int], axis: int) -> None:
    x, at = tensor(shape), tensor(shape, "i32")
    given = np.broadcast_to(
        np.arange(shape[axis], dtype=np.int32).reshape([-1, 1] if axis == 0 else [1, -1]), shape
    )
    body = f"%r = ng.gather_elements %a[%b] axis {axis} : ({x}, {at}) -> {x}"
    hold(kernels([x, at], x, body, [np.zeros(shape, np.float32), given.copy()]))
