# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements, of every kind of shape, as the CPU carries them out, beside NumPy; on the simulated GPU those whose
blocks share the work in a way of their own."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES


def tensor(shape: tuple[int, ...], kind: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{kind}>"


def numbered(shape: tuple[int, ...], kind: str) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 251 - 100).astype(DTYPES[kind])


def moved(
    body: str, result: str, *arrays: np.ndarray, kinds: tuple[str, ...], target: str = "cpu"
) -> np.ndarray:
    names = [
        f"%{'abc'[i]}: {tensor(a.shape, kind)}" for i, (a, kind) in enumerate(zip(arrays, kinds, strict=True))
    ]
    text = f"func.func @main({', '.join(names)}) -> {result} {{\n  %r = {body}\n  return %r : {result}\n}}\n"
    (got,) = compile_module(from_text(text), target)(*arrays)
    return np.asarray(got)


@pytest.mark.parametrize("kind", ["f32", "f64", "i8", "f16"])
@pytest.mark.parametrize(
    "shape, order",
    [
        ((1, 1), (1, 0)), ((3, 70), (1, 0)), ((70, 3), (1, 0)), ((33, 50), (1, 0)), ((200, 300), (1, 0)), ((5, 17, 40), (0, 2, 1)),
        ((5, 17, 40), (2, 1, 0)), ((5, 17, 40), (1, 2, 0)), ((6, 4, 9), (1, 0, 2)), ((3, 4, 20, 5), (0, 3, 1, 2)),
        ((3, 4, 20, 5), (3, 0, 2, 1)), ((700, 5, 16), (0, 2, 1)), ((131, 257), (1, 0)), ((2, 129, 65), (0, 2, 1)),
    ],
)  # fmt: skip
def test_transpose(shape: tuple[int, ...], order: tuple[int, ...], kind: str) -> None:
    x = numbered(shape, kind)
    want = x.transpose(order)
    a, r = tensor(shape, kind), tensor(want.shape, kind)
    got = moved(f"ng.transpose %a perm {list(order)} : ({a}) -> {r}", r, x, kinds=(kind,))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["f32", "i8", "f64"])
@pytest.mark.parametrize("size", [1, 2, 31, 130, 1000])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 9, -1, -2])
def test_slice_with_steps(size: int, step: int, kind: str) -> None:
    """Steps end at the last element, so that reading beyond it would be seen."""
    x = numbered((size,), kind)
    start, limit = (0, size) if step > 0 else (size - 1, -1)
    want = x[start : None if limit < 0 else limit : step]
    r = tensor(want.shape, kind)
    body = f"ng.slice %a from [{start}] to [{limit}] step [{step}] : ({tensor((size,), kind)}) -> {r}"
    np.testing.assert_array_equal(moved(body, r, x, kinds=(kind,)), want)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("kind", ["f32", "i8"])
@pytest.mark.parametrize(
    "shapes, axis",
    [
        (((3,), (5,)), 0), (((700,), (1,), (40000,)), 0), (((4, 3), (4, 1)), 1), (((900, 3), (900, 1)), 1),
        (((9, 600), (9, 700)), 1), (((2, 3, 4), (2, 5, 4)), 1), (((50, 2, 400), (50, 1, 400)), 1),
        (((300, 10), (300, 0), (300, 20)), 1),
    ],
)  # fmt: skip
def test_concatenate(shapes: tuple[tuple[int, ...], ...], axis: int, kind: str, target: str) -> None:
    arrays = [numbered(shape, kind) for shape in shapes]
    want = np.concatenate(arrays, axis)
    names, types = (
        ", ".join(f"%{'abc'[i]}" for i in range(len(shapes))),
        ", ".join(tensor(s, kind) for s in shapes),
    )
    r = tensor(want.shape, kind)
    body = f"ng.concatenate {names} axis {axis} : ({types}) -> {r}"
    np.testing.assert_array_equal(moved(body, r, *arrays, kinds=(kind,) * len(arrays), target=target), want)


@pytest.mark.parametrize("count", [511, 512])
def test_concatenate_of_more_than_a_launch_takes(count: int) -> None:
    """A launch has room for 512 buffers; hundreds of operands are told apart by halves, not one in the other."""
    arrays = [numbered((2, i % 3 + 1), "i8") + np.int8(i % 7) for i in range(count)]
    want = np.concatenate(arrays, 1)
    arguments = ", ".join(f"%x{i}: {tensor(a.shape, 'i8')}" for i, a in enumerate(arrays))
    names, types = (
        ", ".join(f"%x{i}" for i in range(count)),
        ", ".join(tensor(a.shape, "i8") for a in arrays),
    )
    r = tensor(want.shape, "i8")
    text = (
        f"func.func @main({arguments}) -> {r} {{\n"
        f"  %r = ng.concatenate {names} axis 1 : ({types}) -> {r}\n  return %r : {r}\n}}\n"
    )
    (got,) = compile_module(from_text(text), "cuda-sim")(*arrays)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("kind", ["f32", "i8", "i64"])
@pytest.mark.parametrize("combine", ["set", "add", "max", "min"])
@pytest.mark.parametrize(
    "shape, count",
    [((40,), 100), ((5,), 1), ((7, 9), 30), ((600, 70), 50), ((9000,), 300), ((1500, 600), 40)],
)
def test_scatter_in_order(shape: tuple[int, ...], count: int, combine: str, kind: str, target: str) -> None:
    """Indices repeat, count from the end, and lie outside."""
    index = np.random.default_rng(3).integers(-shape[0] - 2, shape[0] + 2, count).astype(np.int32)
    x, u = numbered(shape, kind), numbered((count, *shape[1:]), kind)[::-1].copy()
    want = x.copy()
    join = {"set": lambda old, new: new, "add": np.add, "max": np.maximum, "min": np.minimum}[combine]
    for place, row in zip(index, u, strict=True):
        if -shape[0] <= place < shape[0]:
            want[place] = join(want[place], row)
    a, i, b = tensor(shape, kind), tensor((count,), "i32"), tensor(u.shape, kind)
    body = f'ng.scatter %a[%b], %c axis 0 {{combine = "{combine}"}} : ({a}, {i}, {b}) -> {a}'
    np.testing.assert_array_equal(moved(body, a, x, index, u, kinds=(kind, "i32", kind), target=target), want)


@pytest.mark.parametrize("kind", ["f32", "i8", "f16", "f64"])
@pytest.mark.parametrize("shape, count", [((40,), 100), ((1,), 33), ((30, 5), 7), ((30, 200), 9)])
def test_gather_clamps(shape: tuple[int, ...], count: int, kind: str) -> None:
    index = np.random.default_rng(4).integers(-shape[0] - 9, shape[0] + 9, count).astype(np.int32)
    x = numbered(shape, kind)
    want = x[np.clip(np.where(index < 0, index + shape[0], index), 0, shape[0] - 1)]
    r = tensor(want.shape, kind)
    body = f"ng.gather %a[%b] axis 0 : ({tensor(shape, kind)}, {tensor((count,), 'i32')}) -> {r}"
    np.testing.assert_array_equal(moved(body, r, x, index, kinds=(kind, "i32")), want)


@pytest.mark.parametrize("kind", ["f32", "i8"])
@pytest.mark.parametrize(
    "shape, low, high",
    [
        ((5, 7, 2), (0, 1, 0), (0, 2, 0)), ((5, 7, 2), (1, 0, 0), (0, 0, 0)), ((5, 7, 2), (0, 0, 3), (1, 0, 0)),
        ((3, 1, 4, 5), (0, 2, 0, 0), (0, 0, 0, 0)), ((3, 4), (0, 0), (0, 0)), ((0, 4), (2, 0), (0, 0)), ((3, 0), (0, 2), (1, 0)),
        ((), (), ()), ((1, 1, 1), (0, 1, 0), (0, 0, 0)), ((40, 3, 2, 17), (0, 1, 0, 0), (0, 1, 0, 0)),
    ],
)  # fmt: skip
def test_pad_whose_inner_rows_stay_whole(
    shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], kind: str
) -> None:
    x = numbered(shape, kind)
    want = np.pad(x, [*zip(low, high, strict=True)]) if shape else x
    a, r = tensor(shape, kind), tensor(want.shape, kind)
    body = f"ng.pad %a low {list(low)} high {list(high)} : ({a}) -> {r}"
    np.testing.assert_array_equal(moved(body, r, x, kinds=(kind,)), want)


@pytest.mark.parametrize("count", [1023, 1024, 2100])
def test_concatenation_of_thousands(count: int) -> None:
    """Of more than a call of a kernel takes: groups first. Rows are many enough for several programs."""
    x = numbered((40, count), "f32")
    parts = [
        f"  %p{i} = ng.slice %a from [0, {i}] to [40, {i + 1}] step [1, 1] : (tensor<40x{count}xf32>) -> tensor<40x1xf32>\n"
        for i in (0, 1)
    ]
    names = ", ".join(f"%p{i % 2}" for i in range(count))
    types = ", ".join(["tensor<40x1xf32>"] * count)
    a = tensor(x.shape, "f32")
    text = f"func.func @main(%a: {a}) -> {a} {{\n{''.join(parts)}  %r = ng.concatenate {names} axis 1 : ({types}) -> {a}\n  return %r : {a}\n}}\n"
    (got,) = compile_module(from_text(text), "cpu")(x)
    np.testing.assert_array_equal(np.asarray(got), x[:, np.arange(count) % 2])
