# SPDX-License-Identifier: Apache-2.0
"""Lengths that have no divisor, on GPUs: cumulative ops, products, softmax and searches of few long lines give what NumPy gives on
the simulated one, and take little longer than copies of what they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pytest
from test_gpu_bounds import ITEM
from test_gpu_ideals import TARGET, kernels, tensor
from test_gpu_reductions import on_gpu, values
from test_split_reductions import reduction

from ngmlir.compiler import assemble, compile_module, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES
from ngmlir.runtime.counted import counted
from ngmlir.support.machines import CHUNK_BYTES, MEETING_BLOCKS

NAMES = {"sum": "f32", "max": "bf16", "min": "f64", "product": "i32"}


def cumulative(name: str, shape: Sequence[int], axis: int, kind: str, options: str = "") -> str:
    type = tensor(shape, kind)
    body = f"%r = ng.cumulative_{name} %a axis {axis}{options} : {type}"
    return f"func.func @main(%a: {type}) -> {type} {{\n {body}\n func.return %r : {type}\n}}"


@pytest.mark.parametrize(
    ("shape", "axis"), [((20011,), 0), ((3, 20011), 1), ((20011, 3), 0), ((2, 12289, 5), 1), ((3, 9217), 1)]
)
@pytest.mark.parametrize(("reverse", "exclusive"), [*product((False, True), repeat=2)])
def test_runs_go_on_from_what_comes_before(
    shape: tuple[int, ...], axis: int, reverse: bool, exclusive: bool
) -> None:
    options = f" {{reverse = {str(reverse).lower()}, exclusive = {str(exclusive).lower()}}}"
    random = np.random.default_rng(shape[axis])
    for name, kind in (*NAMES.items(), ("sum", "i8"), ("max", "ui8"), ("sum", "f16"), ("sum", "bf16")):
        x = random.integers(0, 2, shape).astype(DTYPES[kind])
        if kind in ("f16", "bf16") and name == "sum":
            x = np.where(random.random(shape) < 0.01, x, -0.0).astype(x.dtype)
            np.moveaxis(x, axis, 0)[[*range(3000), *range(-3000, 0)]] = -0.0
        of = from_text(cumulative(name, shape, axis, kind, options))
        (want,) = run(of, x)
        got = on_gpu(of, x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got.astype(float)), np.signbit(want.astype(float)))


def test_what_is_no_number_goes_on() -> None:
    x = np.ones((2, 20011), np.float32)
    x[0, 5000], x[1, 9000] = np.nan, np.inf
    for name in ("sum", "max", "min"):
        of = from_text(cumulative(name, x.shape, 1, "f32"))
        np.testing.assert_array_equal(on_gpu(of, x), run(of, x)[0])


def test_the_end_of_a_line_lies_within_what_one_thread_moves() -> None:
    """Of many tiles, whole ones move in pieces of 16 bytes, and of the last one what is left of a piece element by element."""
    few = TARGET.threads * MEETING_BLOCKS * TARGET.multiprocessors
    for kind, rest in (("f64", 1), ("f32", 2), ("bf16", 7), ("i8", 5)):
        length = few * CHUNK_BYTES // ITEM[kind] + rest
        type = tensor((length,), kind)
        of = from_text(
            f"func.func @main(%a: {type}) -> {type} {{\n %r = ng.add %a, %a : {type}\n func.return %r : {type}\n}}"
        )
        x = np.random.default_rng(0).integers(-50, 50, length).astype(DTYPES[kind])
        np.testing.assert_array_equal(on_gpu(of, x), x + x)
        asked: list[int] = []
        for each in (length, length - rest):
            type = tensor((each,), kind)
            (found,) = kernels([type], type, f"%r = ng.add %a, %a : {type}")
            asked.append(found.counters.mix["memory"])
        assert asked[0] <= 1.02 * asked[1]


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_runs_that_a_program_asks_for(target: str) -> None:
    """Of any length, by itself: on a CPU run by run."""
    for (shape, axis, run_length), name in product([((3, 70), 1, 16), ((50, 3), 0, 7), ((9,), 0, 20)], NAMES):
        before = tuple(-(-n // run_length) if d == axis else n for d, n in enumerate(shape))
        x, y = tensor(shape, "f32"), tensor(before, "f32")
        body = f'%r = ng.cumulative_runs %a from %b axis {axis} run {run_length} {{combine = "{name}"}} : ({x}, {y}) -> {x}'
        of = from_text(f"func.func @main(%a: {x}, %b: {y}) -> {x} {{\n {body}\n func.return %r : {x}\n}}")
        given = [np.random.default_rng(1).integers(1, 3, s).astype(np.float32) for s in (shape, before)]
        (got,) = compile_module(of, target)(*given)
        np.testing.assert_array_equal(np.asarray(got), run(of, *given)[0])


@pytest.mark.parametrize("depth", [4099, 8191])
@pytest.mark.parametrize("contract", [*product((0, 1), repeat=2)])
def test_products_of_a_depth_without_divisors(contract: tuple[int, int], depth: int) -> None:
    random = np.random.default_rng(depth)
    for kind, result in (
        ("f32", "f32"),
        ("bf16", "bf16"),
        ("f16", "f32"),
        ("f64", "f64"),
        ("i8", "i32"),
        ("i32", "i32"),
    ):
        shapes = [
            (depth, n) if first else (n, depth) for n, first in zip((17, 24), (c == 0 for c in contract))
        ]
        x, y, z = tensor(shapes[0], kind), tensor(shapes[1], kind), tensor((17, 24), result)
        body = f"%r = ng.dot %a, %b contract [{contract[0]}] x [{contract[1]}] : ({x}, {y}) -> {z}"
        of = from_text(f"func.func @main(%a: {x}, %b: {y}) -> {z} {{\n {body}\n func.return %r : {z}\n}}")
        a, b = (random.integers(-1, 2, shape).astype(DTYPES[kind]) for shape in shapes)
        wide = [np.moveaxis(v.astype(np.float64), c, 1) for v, c in zip((a, b), contract, strict=True)]
        want = (wide[0] @ wide[1].T).astype(DTYPES[result])
        np.testing.assert_array_equal(on_gpu(of, a, b), want)


@pytest.mark.parametrize("shape", [(2, 65537), (3, 40009)])
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_softmax_in_parts(shape: tuple[int, int], kind: str) -> None:
    x = tensor(shape, kind)
    of = f"func.func @main(%a: {x}) -> {x} {{\n %r = ng.softmax %a axes [1] : {x}\n func.return %r : {x}\n}}"
    a = values(shape, kind)
    a[0, :-1], a[1, 0] = -np.inf, -np.inf
    wide = a.astype(np.float64)
    want = np.exp(wide - wide.max(axis=1, keepdims=True))
    want /= want.sum(axis=1, keepdims=True)
    got = on_gpu(from_text(of), a).astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2e-2 if kind == "bf16" else 2e-5, atol=1e-30)


@pytest.mark.parametrize(("shape", "axis"), [((3, 70_001), 1), ((2, 20_011, 5), 1), ((3, 65_537), 1)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_the_best_where_parts_leave_a_rest(name: str, shape: tuple[int, ...], axis: int) -> None:
    for kind, place in product(("f32", "i8"), (0, 7, -1)):
        x = values(shape, kind)
        line = np.moveaxis(x, axis, 0)
        best = {"argmax": 120, "argmin": -120}[name]
        line[place] = line[len(line) // 2] = best
        if kind == "f32":
            line[-1, 0], line[len(line) // 3, 1] = np.nan, np.nan
        got = on_gpu(reduction(name, shape, (axis,), kind, "i32"), x)
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis=axis))


def times(takes: Sequence[tuple[Sequence[int], str]], gives: tuple[Sequence[int], str], body: str) -> float:
    """How often all kernels together could copy what they read and write in the time that they take."""
    found = kernels([tensor(*type) for type in takes], tensor(*gives), f"%r = {body}")
    moved = sum(ITEM[element] * prod(shape) for shape, element in (*takes, gives))
    return sum(kernel.seconds(TARGET.gpu) for kernel in found) * TARGET.gpu.bandwidth * 1e9 / moved


@pytest.mark.parametrize(
    ("shape", "axis", "element"),
    [
        ((3, 1_000_003), 1, "f32"),
        ((1_000_003, 3), 0, "f32"),
        ((3, 1_000_003), 1, "f64"),
        ((200_003, 17), 0, "f32"),
    ],
)
def test_cumulative_ops_take_little_longer_than_copies(
    shape: tuple[int, ...], axis: int, element: str
) -> None:
    x = (shape, element)
    assert times([x], x, f"ng.cumulative_sum %a axis {axis} : {tensor(*x)}") <= 2.2


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "element", "most"),
    [
        (64, 64, 16_381, "f32", 3),
        (64, 64, 16_381, "f64", 3),
        (64, 64, 16_384, "bf16", 2.5),
        (17, 17, 100_003, "f32", 4),
    ],
)
def test_products_take_little_longer_than_copies(
    rows: int, columns: int, depth: int, element: str, most: float
) -> None:
    x, y, z = ((rows, depth), element), ((depth, columns), element), ((rows, columns), element)
    body = f"ng.dot %a, %b contract [1] x [0] : ({tensor(*x)}, {tensor(*y)}) -> {tensor(*z)}"
    assert times([x, y], z, body) <= most


MATRICES = [("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("f16", "f32"), ("i8", "i32"), ("i32", "i32")]


def batched(sizes: tuple[int, int, int, int], turned: tuple[int, int], element: str, result: str) -> str:
    """Of so many products of rows x depth by depth x columns; a side that is `turned` lies the other way round."""
    batch, rows, columns, depth = sizes
    x = tensor((batch, *((depth, rows) if turned[0] else (rows, depth))), element)
    y = tensor((batch, *((columns, depth) if turned[1] else (depth, columns))), element)
    many, z = "{lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}", tensor((batch, rows, columns), result)
    body = f"%r = ng.dot %a, %b contract [{2 - turned[0]}] x [{1 + turned[1]}] {many} : ({x}, {y}) -> {z}"
    return f"func.func @main(%a: {x}, %b: {y}) -> {z} {{\n {body}\n func.return %r : {z}\n}}"


@pytest.mark.parametrize("turned", [*product((0, 1), repeat=2)])
@pytest.mark.parametrize("sizes", [(37, 4, 4, 4), (300, 3, 5, 2), (3, 7, 1, 9), (19, 2, 30, 8)])
def test_small_products_of_a_batch(sizes: tuple[int, int, int, int], turned: tuple[int, int]) -> None:
    batch, rows, columns, depth = sizes
    random = np.random.default_rng(batch)
    for element, result in MATRICES:
        a = random.integers(-3, 4, (batch, rows, depth)).astype(DTYPES[element])
        c = random.integers(-3, 4, (batch, depth, columns)).astype(DTYPES[element])
        if a.dtype.kind not in "iu":
            a[1, 0, 0], c[2, 0, 0] = np.nan, np.inf
        sides = [
            np.ascontiguousarray(np.swapaxes(v, 1, 2)) if t else v
            for v, t in zip((a, c), turned, strict=True)
        ]
        with np.errstate(invalid="ignore"):
            want = np.matmul(a.astype(np.float64), c.astype(np.float64))
        got = on_gpu(from_text(batched(sizes, turned, element, result)), *sides)
        np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("sizes", "turned", "element", "most"),
    [
        *(((1 << 16, 4, 4, 4), turned, "f32", 1.01 if turned == (1, 0) else 1.7) for turned in ((1, 0), (0, 1))),
        ((1 << 16, 3, 3, 3), (0, 0), "f64", 1.1), ((1 << 15, 5, 7, 6), (0, 0), "f32", 1.3), ((1 << 16, 4, 4, 4), (0, 0), "bf16", 1.1),
    ],
)  # fmt: skip
def test_small_products_take_little_longer_than_copies(
    sizes: tuple[int, int, int, int], turned: tuple[int, int], element: str, most: float, arch: str
) -> None:
    target, (batch, rows, columns, depth) = nvptx_target(arch), sizes
    code = assemble(lower(from_text(batched(sizes, turned, element, element)), target), target)
    moved = batch * ITEM[element] * (rows * depth + depth * columns + rows * columns)
    took = sum(kernel.seconds(target.gpu) for kernel in counted(code, arch, 4))
    assert took * target.gpu.bandwidth * 1e9 / moved <= most


@pytest.mark.parametrize(
    ("shape", "element", "op", "most"),
    [
        ((7, 99_991), "f32", "ng.softmax %a axes [1]", 3), ((32, 1000, 64), "f32", "ng.softmax %a axes [1]", 2.5),
        ((3, 1_000_003), "bf16", "ng.normalize %a axes [1] {epsilon = 0.001 : f32}", 2.5),
        ((3, 1_048_576), "bf16", "ng.normalize %a axes [1] {epsilon = 0.001 : f32}", 2.5),
    ],
)  # fmt: skip
def test_what_goes_back_to_long_rows_takes_little_longer_than_copies(
    shape: tuple[int, ...], element: str, op: str, most: float
) -> None:
    assert times([(shape, element)], (shape, element), f"{op} : {tensor(shape, element)}") <= most


@pytest.mark.parametrize(
    ("name", "shape", "axes", "element", "most"),
    [
        ("sum", (8, 65_537, 64), (1,), "f32", 1.1), ("sum", (5, 200_003, 7), (1,), "f32", 1.1), ("sum", (97, 101, 103), (1,), "f32", 1.1),
        ("sum", (5, 200_003, 7), (0, 2), "f32", 1.4), ("max", (65_537, 64), (0,), "bf16", 1.6), ("argmax", (3, 1_000_003), (1,), "f32", 2.8),
        ("argmin", (3, 100_003, 50), (1,), "f32", 2),
    ],
)  # fmt: skip
def test_reductions_take_little_longer_than_copies(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...], element: str, most: float
) -> None:
    kept = [size for d, size in enumerate(shape) if d not in axes]
    gives = (kept, "i32" if name.startswith("arg") else element)
    body = f"ng.{name} %a axes {list(axes)} : ({tensor(shape, element)}) -> {tensor(*gives)}"
    assert times([(shape, element)], gives, body) <= most
