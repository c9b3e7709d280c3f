# SPDX-License-Identifier: Apache-2.0
"""Ops with regions, calls, and what `run` says of bad arguments."""

from __future__ import annotations

import numpy as np
import pytest
from meaning_helpers import same

from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import Limit, UserError

BRANCH = """
func.func @main(%c: tensor<i1>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>) {
  %r, %n = ng.if %c -> (tensor<3xf32>, tensor<i32>) {
    %d = ng.add %x, %x : tensor<3xf32>
    %one = ng.constant dense<1> : tensor<i32>
    ng.yield %d, %one : tensor<3xf32>, tensor<i32>
  } else {
    %zero = ng.constant dense<0> : tensor<i32>
    ng.yield %x, %zero : tensor<3xf32>, tensor<i32>
  }
  return %r, %n : tensor<3xf32>, tensor<i32>
}
"""
COLLATZ = """
func.func @main(%start: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
  %zero = ng.constant dense<0> : tensor<i64>
  %one = ng.constant dense<1> : tensor<i64>
  %two = ng.constant dense<2> : tensor<i64>
  %three = ng.constant dense<3> : tensor<i64>
  %n, %steps = ng.while iter(%x = %start, %s = %zero) -> (tensor<i64>, tensor<i64>) {
    %again = ng.greater %x, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
    ng.yield %again : tensor<i1>
  } do {
    %rest = ng.remainder %x, %two : tensor<i64>
    %even = ng.equal %rest, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %half = ng.floor_divide %x, %two : tensor<i64>
    %triple = ng.multiply %x, %three : tensor<i64>
    %up = ng.add %triple, %one : tensor<i64>
    %next = ng.select %even, %half, %up : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
    %count = ng.add %s, %one : tensor<i64>
    ng.yield %next, %count : tensor<i64>
  }
  return %n, %steps : tensor<i64>
}
"""


def scan_text(length: int, reverse: str) -> str:
    return f"""
func.func @main(%h: tensor<2xf32>, %xs: tensor<{length}x2xf32>, %k: tensor<2xf32>) -> (tensor<2xf32>, tensor<{length}x2xf32>, tensor<{length}xf32>) {{
  %s, %ys, %zs = ng.scan iter(%a = %h) over(%x: tensor<2xf32> = %xs) {{reverse = {reverse}}} -> (tensor<2xf32>, tensor<{length}x2xf32>, tensor<{length}xf32>) {{
    %m = ng.multiply %a, %k : tensor<2xf32>
    %n = ng.add %m, %x : tensor<2xf32>
    %t = ng.sum %n axes [0] : (tensor<2xf32>) -> tensor<f32>
    ng.yield %n, %n, %t : tensor<2xf32>, tensor<2xf32>, tensor<f32>
  }}
  return %s, %ys, %zs : tensor<2xf32>, tensor<{length}x2xf32>, tensor<{length}xf32>
}}
"""


def test_if_computes_one_side() -> None:
    module = from_text(BRANCH)
    x = np.arange(3, dtype=np.float32)
    taken, one = run(module, np.array(True), x)
    left, zero = run(module, np.array(False), x)
    assert same(taken, x + x)
    assert same(left, x)
    assert (one, zero) == (1, 0)


@pytest.mark.parametrize(("start", "steps"), [(1, 0), (6, 8), (27, 111)])
def test_while(start: int, steps: int) -> None:
    n, count = run(from_text(COLLATZ), np.array(start))
    assert (n, count) == (1, steps)


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(length: int, reverse: bool) -> None:
    rng = np.random.default_rng(1)
    h, xs, k = (
        rng.normal(size=2).astype("f4"),
        rng.normal(size=(length, 2)).astype("f4"),
        np.array([0.5, 2], "f4"),
    )
    last, states, sums = run(from_text(scan_text(length, str(reverse).lower())), h, xs, k)
    wanted = np.empty_like(xs)
    a = h
    for i in reversed(range(length)) if reverse else range(length):
        a = wanted[i] = a * k + xs[i]
    assert same(last, a)
    assert same(states, wanted)
    assert np.array_equal(sums, wanted.sum(1))


def test_calls_see_only_their_arguments() -> None:
    module = from_text("""
    func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = ng.add %x, %x : tensor<2xf32>
      return %y : tensor<2xf32>
    }
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %a = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %b = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %r = ng.fusion map(%p = %b, %q = %x) -> tensor<2xf32> {
        %s = ng.subtract %p, %q : tensor<2xf32>
        ng.yield %s : tensor<2xf32>
      }
      return %r : tensor<2xf32>
    }
    """)
    x = np.array([1.5, -2], np.float32)
    assert same(run(module, x)[0], 3 * x)
    assert same(run(module, x, entry="twice")[0], 2 * x)


def test_arguments_stay_as_they_are_and_must_fit() -> None:
    module = from_text(BRANCH)
    x = np.arange(3, dtype=np.float32)
    (r, n) = run(module, True, [0, 1, 2])
    assert same(r, x + x)
    with pytest.raises(UserError, match=r"argument 1 of @main is tensor<3xf32>, not float64 of shape \[3\]"):
        run(module, True, x.astype(np.float64))
    with pytest.raises(UserError, match=r"not float32 of shape \[2\]"):
        run(module, True, x[:2])
    with pytest.raises(UserError, match="takes 2 arguments, not 1"):
        run(module, True)
    with pytest.raises(UserError, match="no function @other"):
        run(module, entry="other")


def test_unknown_sizes_are_taken_from_the_operands() -> None:
    module = from_text("""
    func.func @main(%x: tensor<?x3xf32>) -> (tensor<?xf32>, tensor<?x3xf32>, tensor<2x?x3xf32>) {
      %s = ng.sum %x axes [1] : (tensor<?x3xf32>) -> tensor<?xf32>
      %b = ng.broadcast %s dims [0] : (tensor<?xf32>) -> tensor<?x3xf32>
      %f = ng.reshape %b : (tensor<?x3xf32>) -> tensor<?xf32>
      %g = ng.reshape %f : (tensor<?xf32>) -> tensor<?x3xf32>
      %w = ng.broadcast %x dims [1, 2] : (tensor<?x3xf32>) -> tensor<2x?x3xf32>
      return %s, %g, %w : tensor<?xf32>, tensor<?x3xf32>, tensor<2x?x3xf32>
    }
    """)
    for rows in (0, 1, 5):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        s, g, w = run(module, x)
        assert same(s, x.sum(1))
        assert same(g, np.repeat(x.sum(1), 3).reshape(rows, 3))
        assert same(w, np.stack([x, x]))


def test_a_size_from_nowhere_is_a_limit() -> None:
    module = from_text(
        "func.func @main() -> tensor<?xi32> {\n  %i = ng.iota {dimension = 0 : i64} : tensor<?xi32>\n  return %i : tensor<?xi32>\n}",
        file="f.ngir",
    )
    with pytest.raises(Limit, match="f.ngir:2:3: error: the size of tensor"):
        run(module)
