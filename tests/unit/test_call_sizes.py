# SPDX-License-Identifier: Apache-2.0
"""Calls of code for all lengths that native code prepares: what Python does for new lengths, it is asked for only where that has to be."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ngmlir.compiler import compile_open
from ngmlir.ops.words import from_text
from ngmlir.runtime.open_cpu import OpenCpu
from ngmlir.runtime.sizes import Sizes, Step
from ngmlir.support.diagnostics import UserError
from ngmlir.support.lengths import Guard, Length, expression_of

TEXT = """
func.func @main(%x: tensor<[N]x[2*M + 1]xf32>, %w: tensor<[2*M + 1]x40xf32>) -> (tensor<[N]x40xf32>, tensor<[2*M + 2]xf32>) {
  %0 = ng.dot %x, %w contract [1] x [0] : (tensor<[N]x[2*M + 1]xf32>, tensor<[2*M + 1]x40xf32>) -> tensor<[N]x40xf32>
  %1 = ng.exp %0 : tensor<[N]x40xf32>
  %2 = ng.dot %1, %1 contract [1] x [1] : (tensor<[N]x40xf32>, tensor<[N]x40xf32>) -> tensor<[N]x[N]xf32>
  %3 = ng.dot %2, %1 contract [1] x [0] : (tensor<[N]x[N]xf32>, tensor<[N]x40xf32>) -> tensor<[N]x40xf32>
  %4 = ng.sum %x axes [0] : (tensor<[N]x[2*M + 1]xf32>) -> tensor<[2*M + 1]xf32>
  %5 = ng.pad %4 low [0] high [1] : (tensor<[2*M + 1]xf32>) -> tensor<[2*M + 2]xf32>
  return %3, %5 : tensor<[N]x40xf32>, tensor<[2*M + 2]xf32>
}"""


class Otherwise(Exception):
    """What is called with what the quick way does not take."""


def otherwise(*_: Any) -> Any:
    raise Otherwise


@pytest.fixture(scope="module")
def run() -> OpenCpu:
    return compile_open(lambda lengths: from_text(TEXT, lengths=lengths), {"N": 60, "M": 20})


def given(n: int, m: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(n)
    made = draw.normal(size=(n, 2 * m + 1)), draw.normal(size=(2 * m + 1, 40)) / (2 * m + 1)
    return made[0].astype(np.float32), made[1].astype(np.float32)


def right(found: Any, x: Any, w: Any) -> None:
    e = np.exp(x @ w)
    np.testing.assert_allclose(found[0], e @ e.T @ e, rtol=1e-4)
    np.testing.assert_allclose(found[1], np.append(x.sum(0), np.float32(0)), atol=1e-4)


def test_lengths_below_those_seen_need_no_python(run: OpenCpu) -> None:
    run(*given(64, 30))
    quick = run.quick(otherwise)
    for n, m in ((64, 30), (2, 2), (7, 30), (63, 3), (33, 13)):
        right(quick(*given(n, m)), *given(n, m))


def test_arrays_of_another_process_need_no_python(run: OpenCpu) -> None:
    """These have a copy of the dtype."""
    run(*given(64, 30))
    x, w = pickle.loads(pickle.dumps(given(7, 3)))
    assert x.dtype is not np.dtype(np.float32)
    right(run.quick(otherwise)(x, w), x, w)
    with pytest.raises(Otherwise):
        run.quick(otherwise)(x.astype(">f4"), w)


def test_what_is_not_foreseen_is_asked_for(run: OpenCpu) -> None:
    run(*given(64, 30))
    quick = run.quick(otherwise)
    x, w = given(10, 4)
    for arrays in (
        given(5000, 4),  # no place for it
        given(1, 4),
        given(10, 0),
        (x, w[:-2]),  # two lengths for one name
        (x[:, :-1], w),  # no 2*M + 1
        (x[:, :-1], w[:-1]),
        (x.astype(np.float64), w),
        (x[::-1], w),
        (x[0], w),
        (x,),
        (x, w, w),
        (x.tolist(), w),
    ):
        with pytest.raises(Otherwise):
            quick(*arrays)
    right(run(x[::-1], w), x[::-1], w)
    with pytest.raises(UserError):
        run(x, w[:-2])


def test_greater_lengths_make_room_once(run: OpenCpu) -> None:
    for n, m in ((100, 3), (9, 90), (150, 60), (140, 2), (8, 8)):
        right(run(*given(n, m)), *given(n, m))
    quick = run.quick(otherwise)
    for n, m in ((149, 59), (100, 3), (9, 90)):
        right(quick(*given(n, m)), *given(n, m))


def test_layouts_take_at_most_an_eighth_more_than_their_lengths_need() -> None:
    """Here M takes no memory, so that layouts keep room for it."""
    run = compile_open(lambda lengths: from_text(TEXT, lengths=lengths), {"N": 60, "M": 20})
    run(*given(64, 30))
    for n in (65, 100, 200):
        with pytest.raises(Otherwise):
            run.quick(otherwise)(*given(n, 3))
        run(*given(n, 3))
        quick = run.quick(otherwise)
        right(quick(*given(n, 30)), *given(n, 30))
        with pytest.raises(Otherwise):
            quick(*given(n * 9 // 8 + 2, 3))


@pytest.mark.parametrize("relation", ["==", "!=", ">=", "<"])
def test_guards_are_looked_at(run: OpenCpu, relation: str) -> None:
    run(*given(64, 30))
    n, m = Length.named("N", 3), Length.named("M", 3)
    guard = Guard(expression_of(n // 4 * 4 - m * m + 5), relation)
    quick = run.quick(otherwise, (guard,))
    taken = set[bool]()
    for lengths in ((4, 3), (7, 3), (8, 3), (2, 2), (20, 5), (20, 6), (31, 2)):
        holds = guard.holds(dict(zip("NM", lengths, strict=True)))
        taken.add(holds)
        if holds:
            right(quick(*given(*lengths)), *given(*lengths))
        else:
            with pytest.raises(Otherwise):
                quick(*given(*lengths))
    assert len(taken) == 2


def test_bounds_of_64_bits() -> None:
    sizes = Sizes(["N"])
    n = Length.named("N", 3)
    sizes.require(Guard(expression_of((1 << 63) - n), ">="))
    assert sizes.are_words
    assert sizes.steps[-1][0] == Step.NOT_LESS
    sizes.require(Guard(expression_of((1 << 64) - n), ">="))
    assert not sizes.are_words
