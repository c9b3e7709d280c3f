# SPDX-License-Identifier: Apache-2.0
"""Attention on CPUs: one kernel that never holds the scores, and one for the gradients; against NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_module, compile_open, pipeline_for, resolve
from ngmlir.decl.pipeline_text import named_pipelines
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.lower.kernels.fusion_kernel import kind
from ngmlir.passes.registry import PASSES
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.support.diagnostics import UserError

#: Batch, queries, keys, elements of queries and of values: ones, primes, whole tiles, less than a register.
SIZES = [
    (3, 64, 64, 32, 32),
    (2, 197, 130, 64, 64),
    (1, 33, 7, 5, 3),
    (2, 100, 301, 80, 40),
    (1, 8, 1009, 16, 16),
    (2, 31, 113, 1, 1),
    (1, 11, 1, 3, 130),
]
MASKS = ("none", "causal", "window", "seen", "finite", "added", "padded", "capped", "segments")


@dataclass
class Case:
    """A program with its arguments; `mask` is what NumPy does with the scores, `slope` with their gradients."""

    result: Any
    inputs: list[Any]
    arrays: list[Any]
    mask: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    error: Any


def case(
    sizes: tuple[int, ...], mask: str, dtype: str = "float32", form: str = "softmax", seed: int = 0
) -> Case:
    batch, length, total, depth, width = sizes
    random = np.random.default_rng(seed)
    B, L, T, D, E = (ng.make_axis(n, name=name) for n, name in zip(sizes, "BLTDE", strict=True))
    axes = [[B, L, D], [B, T, D], [B, T, E]]
    inputs = [ng.placeholder(a, dtype=dtype) for a in axes]
    arrays = [random.standard_normal([a.length for a in own]).astype(dtype) for own in axes]
    scores: Any = ng.dot(inputs[0], inputs[1], batch_axes=[B]) * depth**-0.5
    places, at = np.arange(total)[None], np.arange(length)[:, None] + max(0, total - length)
    by_mask = by_slope = lambda s: s

    def hide(condition: Any, shown: Any, value: float) -> None:
        nonlocal scores, by_mask, by_slope
        scores = ng.where(condition, scores, value)
        by_mask, by_slope = (lambda s: np.where(shown, s, value)), (lambda s: np.where(shown, s, 0))

    def also(axes: list[Any], array: Any) -> Any:
        inputs.append(ng.placeholder(axes, dtype=array.dtype.name))
        arrays.append(array)
        return inputs[-1]

    key, query = ng.iota([T], T), ng.iota([L], L) + ng.constant(np.int32(max(0, total - length)))
    if mask == "causal":
        hide(key <= query, places <= at, -np.inf)
    if mask == "window":
        hide(ng.logical_and(key <= query, query - key < 20), (places <= at) & (at - places < 20), -np.inf)
    if mask in ("seen", "finite"):
        shown = random.random((length, total)) < 0.3
        shown[length // 2] = False
        hide(also([L, T], shown), shown, -np.inf if mask == "seen" else -1e4)
    if mask == "segments":
        numbers = np.sort(random.integers(0, 3, (batch, total)).astype(np.int32))
        mine = np.sort(random.integers(0, 3, (batch, length)).astype(np.int32))
        same = numbers[:, None] == mine[:, :, None]
        hide(ng.equal(also([B, T], numbers), also([B, L], mine)), same, -1e9)
    if mask in ("added", "padded"):
        whole = mask == "added"
        bias = random.standard_normal((length, total) if whole else (batch, total)).astype(dtype) * 5
        bias[..., : total // 2] = np.where(random.random(bias[..., : total // 2].shape) < 0.5, -np.inf, 0)
        scores = scores + also([L, T] if whole else [B, T], bias)
        by_mask = partial(np.add, bias if whole else bias[:, None])
    if mask == "capped":
        scores = ng.tanh(scores / 5) * 5
        by_mask, by_slope = (lambda s: np.tanh(s / 5) * 5), None  # type: ignore[assignment]
    if form == "softmax":
        weights = ng.softmax(scores, normalization_axes=[T])
    else:
        powers = ng.exp(scores - ng.max(scores, reduction_axes=[T]))
        weights = powers / ng.sum(powers, reduction_axes=[T])
    made = ng.dot(weights, inputs[2], batch_axes=[B])
    return Case(made, inputs, arrays, by_mask, by_slope, ng.placeholder(made.axes, dtype=dtype))


def reference(c: Case, error: Any = None) -> list[Any]:
    """The result, and with its gradient those of queries, keys and values."""
    q, k, v = (x.astype(np.float64) for x in c.arrays[:3])
    factor = q.shape[-1] ** -0.5
    with np.errstate(all="ignore"):
        s = c.mask(q @ k.swapaxes(1, 2) * factor)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        if error is None:
            return [p @ v]
        g = error.astype(np.float64)
        dp = g @ v.swapaxes(1, 2)
        ds = c.slope(p * (dp - (dp * p).sum(-1, keepdims=True))) * factor
        return [p @ v, ds @ k, ds.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ g]


def kernels(module: Module) -> list[str]:
    """The kinds of fusions that the pipeline makes."""
    steps = named_pipelines().expanded("canonical, prepare, align-sides, attention, fuse, chain")
    made = parse_pipeline(steps, PASSES).run(module, resolve("cpu"), verify=True)
    return [kind(op) for op in made.walk() if op.name == "ng.fusion"]


def close(got: Any, want: Any, dtype: str) -> None:
    assert got.shape == want.shape and got.dtype == dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    bound = (1e-5 if dtype == "float32" else 1e-13) * max(1.0, np.nanmax(np.abs(want), initial=0))
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_is_one_kernel_that_gives_the_numbers(sizes: tuple[int, ...], mask: str) -> None:
    for dtype in ("float32", "float64"):
        c = case(sizes, mask, dtype)
        run = ng.compile([c.result], c.inputs, target="cpu")
        if sizes[2] > 1:
            assert kernels(run.module).count("attention") == 1
        close(run(*c.arrays)[0], reference(c)[0], dtype)


@pytest.mark.parametrize("form", ["softmax", "written"])
@pytest.mark.parametrize("mask", ["none", "causal", "window", "finite", "segments"])
@pytest.mark.parametrize("sizes", [SIZES[0], SIZES[2], (2, 50, 131, 16, 12)], ids=str)
def test_gradients_are_one_kernel(sizes: tuple[int, ...], mask: str, form: str) -> None:
    for dtype in ("float32", "float64"):
        c = case(sizes, mask, dtype, form)
        outputs = [c.result, *(ng.deriv(c.result, x, c.error) for x in c.inputs[:3])]
        run = ng.compile(outputs, [*c.inputs, c.error], target="cpu")
        assert kernels(run.module).count("attention") == 2
        error = np.random.default_rng(1).standard_normal(c.error.axes.lengths).astype(dtype)
        for got, want in zip(run(*c.arrays, error), reference(c, error), strict=True):
            close(got, want, dtype)


def test_each_gradient_by_itself() -> None:
    for which in ([0], [1], [2], [0, 2]):
        c = case((2, 40, 70, 8, 8), "causal", "float64")
        run = ng.compile(
            [ng.deriv(c.result, c.inputs[i], c.error) for i in which], [*c.inputs, c.error], target="cpu"
        )
        error = np.random.default_rng(1).standard_normal(c.error.axes.lengths)
        wanted = reference(c, error)[1:]
        for got, i in zip(run(*c.arrays, error), which, strict=True):
            close(got, wanted[i], "float64")


def test_gradients_beside_finite_differences() -> None:
    c = case((1, 9, 15, 4, 3), "finite", "float64")
    run = ng.compile(
        [c.result, *(ng.deriv(c.result, x, c.error) for x in c.inputs[:3])],
        [*c.inputs, c.error],
        target="cpu",
    )
    random = np.random.default_rng(2)
    error = random.standard_normal(c.error.axes.lengths)
    _, *slopes = run(*c.arrays, error)
    for i, slope in enumerate(slopes):
        step = random.standard_normal(slope.shape)
        ends = [
            run(*(x + e * step if j == i else x for j, x in enumerate(c.arrays)), error)[0]
            for e in (1e-6, -1e-6)
        ]
        np.testing.assert_allclose(
            ((ends[0] - ends[1]) * error).sum() / 2e-6, (slope * step).sum(), rtol=1e-6
        )


def test_what_scores_that_are_no_numbers_do() -> None:
    c = case((1, 40, 60, 8, 8), "none")
    q, k, v = c.arrays
    q[0, 3, 0], q[0, 5, 0], k[0, 50, 1], v[0, 7, 2] = np.nan, np.inf, -np.inf, np.inf
    (got,) = ng.compile([c.result], c.inputs, target="cpu")(q, k, v)
    (want,) = reference(c)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_blocks_that_are_hidden_are_not_read() -> None:
    """What the pass says that it assumes: by the formula all results would be NaN, zero times what is no number."""
    c = case((1, 300, 300, 8, 8), "causal")
    c.arrays[2][0, 250] = np.nan
    (got,) = ng.compile([c.result], c.inputs, target="cpu")(*c.arrays)
    assert np.isfinite(got[0, :128]).all() and np.isnan(got[0, 250:]).all()


def test_the_same_bits_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    c = case((4, 300, 300, 16, 16), "causal")
    outputs = [c.result, *(ng.deriv(c.result, x, c.error) for x in c.inputs[:3])]
    error = np.ones(c.error.axes.lengths, np.float32)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("NGMLIR_NUM_THREADS", threads)
        found.append(
            [x.tobytes() for x in ng.compile(outputs, [*c.inputs, c.error], target="cpu")(*c.arrays, error)]
        )
    assert found[0] == found[1]


def test_memory_does_not_grow_with_queries_times_keys() -> None:
    def arena(length: int) -> int:
        c = case((1, length, length, 64, 64), "causal")
        outputs = [c.result, *(ng.deriv(c.result, x, c.error) for x in c.inputs[:3])]
        module = ng.lift(outputs, [*c.inputs, c.error]).module
        main = pipeline_for(resolve("cpu")).run(module, resolve("cpu")).lookup("main")
        assert main is not None
        return main.block.args[-1].type.size  # type: ignore[union-attr]

    small, large = arena(512), arena(2048)
    assert large <= 4 * small + 4096 and large < 2048 * 2048


GROUPED = """func.func @main(%q: tensor<2x8x50x16xf32>, %k: tensor<2x2x50x16xf32>, %v: tensor<2x2x50x16xf32>) -> tensor<2x8x50x16xf32> {
  %0 = ng.reshape %q : (tensor<2x8x50x16xf32>) -> tensor<4x200x16xf32>
  %1 = ng.reshape %k : (tensor<2x2x50x16xf32>) -> tensor<4x50x16xf32>
  %2 = ng.reshape %v : (tensor<2x2x50x16xf32>) -> tensor<4x50x16xf32>
  %s = ng.dot %0, %1 contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<4x200x16xf32>, tensor<4x50x16xf32>) -> tensor<4x200x50xf32>
  %3 = ng.reshape %s : (tensor<4x200x50xf32>) -> tensor<2x8x50x50xf32>
  %i = ng.iota {dimension = 0 : i64} : tensor<50x50xi32>
  %j = ng.iota {dimension = 1 : i64} : tensor<50x50xi32>
  %m = ng.less_equal %j, %i : (tensor<50x50xi32>, tensor<50x50xi32>) -> tensor<50x50xi1>
  %w = ng.broadcast %m dims [2, 3] : (tensor<50x50xi1>) -> tensor<2x8x50x50xi1>
  %c = ng.constant dense<-1.0e30> : tensor<2x8x50x50xf32>
  %x = ng.select %w, %3, %c : (tensor<2x8x50x50xi1>, tensor<2x8x50x50xf32>, tensor<2x8x50x50xf32>) -> tensor<2x8x50x50xf32>
  %p = ng.softmax %x axes [3] : tensor<2x8x50x50xf32>
  %4 = ng.reshape %p : (tensor<2x8x50x50xf32>) -> tensor<4x200x50xf32>
  %o = ng.dot %4, %2 contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<4x200x50xf32>, tensor<4x50x16xf32>) -> tensor<4x200x16xf32>
  %5 = ng.reshape %o : (tensor<4x200x16xf32>) -> tensor<2x8x50x16xf32>
  return %5 : tensor<2x8x50x16xf32>
}
"""


def test_heads_of_queries_share_keys() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, heads, 50, 16), np.float32) for heads in (8, 2, 2))
    assert kernels(from_text(GROUPED)) == ["attention"]
    got: Any = compile_module(from_text(GROUPED), "cpu")(q, k, v)
    s = q.astype(np.float64) @ np.repeat(k, 4, 1).swapaxes(2, 3)
    s = np.where(np.tri(50) > 0, s, -1e30)
    p = np.exp(s - s.max(-1, keepdims=True))
    np.testing.assert_allclose(got[0], p / p.sum(-1, keepdims=True) @ np.repeat(v, 4, 1), atol=1e-5)


OPEN = """func.func @main(%q: tensor<[B]x[L]x24xf32>, %k: tensor<[B]x[T]x24xf32>, %v: tensor<[B]x[T]x24xf32>) -> tensor<[B]x[L]x24xf32> {
  %s = ng.dot %q, %k contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<[B]x[L]x24xf32>, tensor<[B]x[T]x24xf32>) -> tensor<[B]x[L]x[T]xf32>
  %i = ng.iota {dimension = 0 : i64} : tensor<[L]x[T]xi32>
  %j = ng.iota {dimension = 1 : i64} : tensor<[L]x[T]xi32>
  %m = ng.less_equal %j, %i : (tensor<[L]x[T]xi32>, tensor<[L]x[T]xi32>) -> tensor<[L]x[T]xi1>
  %w = ng.broadcast %m dims [1, 2] : (tensor<[L]x[T]xi1>) -> tensor<[B]x[L]x[T]xi1>
  %c = ng.constant dense<0xFF800000> : tensor<[B]x[L]x[T]xf32>
  %x = ng.select %w, %s, %c : (tensor<[B]x[L]x[T]xi1>, tensor<[B]x[L]x[T]xf32>, tensor<[B]x[L]x[T]xf32>) -> tensor<[B]x[L]x[T]xf32>
  %p = ng.softmax %x axes [2] : tensor<[B]x[L]x[T]xf32>
  %o = ng.dot %p, %v contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<[B]x[L]x[T]xf32>, tensor<[B]x[T]x24xf32>) -> tensor<[B]x[L]x24xf32>
  return %o : tensor<[B]x[L]x24xf32>
}"""


def test_one_program_serves_all_lengths() -> None:
    run = compile_open(lambda lengths: from_text(OPEN, lengths=lengths), {"B": 3, "L": 90, "T": 200})
    random = np.random.default_rng(0)
    assert run.peak({"B": 7, "L": 5000, "T": 5000}) == 0
    for batch, length, total in (
        (2, 2, 2),
        (3, 31, 113),
        (2, 32, 112),
        (4, 33, 111),
        (5, 200, 1009),
        (2, 7, 5),
    ):
        assert run.serves({"B": batch, "L": length, "T": total})
        q, k, v = (random.standard_normal((batch, n, 24), np.float32) for n in (length, total, total))
        s = q.astype(np.float64) @ k.swapaxes(1, 2)
        s = np.where(np.arange(total) <= np.arange(length)[:, None], s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        np.testing.assert_allclose(run(q, k, v)[0], p / p.sum(-1, keepdims=True) @ v, atol=1e-5)


def _cut(schedule: str) -> Module:
    c = case((2, 100, 90, 8, 8), "causal")
    steps = parse_pipeline(named_pipelines().expanded("canonical, attention"), PASSES)
    text = to_text(steps.run(ng.lift([c.result], c.inputs).module, resolve("cpu")))
    head, tail = text.split(") -> tensor<2x100x8xf32> {\n      %", 1)
    return from_text(f"{head}) {{ng.schedule = {schedule}}} -> tensor<2x100x8xf32> {{\n      %{tail}")


@pytest.mark.parametrize(
    "schedule",
    [
        "{keys = 7}",
        "{tile = [3, 8]}",
        '{by = "stream", tile = [5, 16], keys = 13, queries = 32}',
        "{queries = 512, keys = 1000}",
    ],
)
def test_any_cut_gives_the_numbers(schedule: str) -> None:
    c = case((2, 100, 90, 8, 8), "causal")
    got: Any = compile_module(_cut(schedule), "cpu")(*c.arrays)
    close(got[0], reference(c)[0], "float32")


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("{queries = 33, tile = [6, 16]}", "a program of 33 queries is not a multiple of the tiles of 16"),
        ('{by = "strips"}', "strips"),
    ],
)
def test_what_cannot_be_built_is_refused(schedule: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        compile_module(_cut(schedule), "cpu")


def test_a_fusion_of_other_ops_is_refused() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = ng.fusion attention(%x) -> tensor<4xf32> {
        %1 = ng.exp %x : tensor<4xf32>
        ng.yield %1 : tensor<4xf32>
      }
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(UserError, match="an attention is, on a CPU, a product, a softmax"):
        compile_module(from_text(text), "cpu")


OF_A_REDUCTION = """
func.func @main(%q: tensor<2x64x16xf32>, %k: tensor<2x48x16xf32>, %v: tensor<2x48x16xf32>) -> tensor<2x64x16xf32> {
  %s = ng.dot %q, %k contract [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x64x16xf32>, tensor<2x48x16xf32>) -> tensor<2x64x48xf32>
  %r = ng.REDUCED %s axes [2] : (tensor<2x64x48xf32>) -> tensor<2x64xf32>
  %b = ng.broadcast %r dims [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x48xf32>
  %d = ng.subtract %s, %b : tensor<2x64x48xf32>
  %c = ng.constant dense<-0.5> : tensor<2x64x48xf32>
  %m = ng.maximum %d, %c : tensor<2x64x48xf32>
  %p = ng.softmax %m axes [2] : tensor<2x64x48xf32>
  %o = ng.dot %p, %v contract [2] x [1] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>} : (tensor<2x64x48xf32>, tensor<2x48x16xf32>) -> tensor<2x64x16xf32>
  func.return %o : tensor<2x64x16xf32>
}
"""


@pytest.mark.parametrize("name", ["max", "min", "sum", "mean"])
def test_scores_that_depend_on_a_reduction_of_them_are_whole(name: str) -> None:
    module = from_text(OF_A_REDUCTION.replace("REDUCED", name))
    assert "attention" not in kernels(module)
    random = np.random.default_rng(3)
    arrays = [random.standard_normal((2, n, 16)).astype("f") for n in (64, 48, 48)]
    np.testing.assert_allclose(
        compile_module(module)(*arrays)[0], interpret(module, *arrays)[0], rtol=1e-4, atol=1e-4
    )
