# SPDX-License-Identifier: Apache-2.0
"""Long rows whose exponentials are kept until the row's sum is known: in an output, or in scratch where that is needed."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module, lower
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text, to_text

ROWS = "tensor<5x1111xf32>"


def powers(name: str, of: str, type: str = ROWS) -> str:
    """exp(x - max) as %NAME, and its sum, spread over the row, as %NAME_all."""
    kept = type.replace("x1111", "")
    return f"""
      %{name}_max = ng.max {of} axes [1] : ({type}) -> {kept}
      %{name}_top = ng.broadcast %{name}_max dims [0] : ({kept}) -> {type}
      %{name}_less = ng.subtract {of}, %{name}_top : {type}
      %{name} = ng.exp %{name}_less : {type}
      %{name}_sum = ng.sum %{name} axes [1] : ({type}) -> {kept}
      %{name}_all = ng.broadcast %{name}_sum dims [0] : ({kept}) -> {type}"""


SOFTMAX = f"{powers('p', '%x')}\n      %s = ng.divide %p, %p_all : {ROWS}"
#: What is computed, its results, how many values are kept in scratch.
CASES = {
    "softmax": (SOFTMAX, ["%s"], 0),
    "what was kept too": (SOFTMAX, ["%p", "%s"], 0),
    # The operand may be where a result will be, and is read once more.
    "read again": (f"{SOFTMAX}\n %t = ng.multiply %s, %x : {ROWS}", ["%t"], 1),
    "another read at the end": (f"{SOFTMAX}\n %t = ng.multiply %s, %y : {ROWS}", ["%t"], 1),
    "read in the phase that keeps": (
        f"{powers('p', '%x')}\n %u = ng.multiply %y, %p_top : {ROWS}\n %v = ng.sum %u axes [1] : ({ROWS}) -> tensor<5xf32>\n"
        f" %w = ng.broadcast %v dims [0] : (tensor<5xf32>) -> {ROWS}\n %a = ng.add %p_all, %w : {ROWS}\n"
        f" %s = ng.divide %p, %a : {ROWS}",
        ["%s"],
        1,
    ),
    "two and one result": (
        f"{SOFTMAX}{powers('q', '%y')}\n %t = ng.divide %q, %q_all : {ROWS}\n %u = ng.add %s, %t : {ROWS}",
        ["%u"],
        None,
    ),
    "one after the other": (f"{SOFTMAX}{powers('q', '%s')}\n %t = ng.divide %q, %q_all : {ROWS}", ["%t"], None),
}  # fmt: skip


def program(body: str, results: list[str]) -> str:
    types = ", ".join([ROWS] * len(results))
    return (
        f"func.func @main(%x: {ROWS}, %y: {ROWS}) -> ({types}) {{{body}\n"
        f"      return {', '.join(results)} : {types}\n    }}"
    )


@pytest.mark.parametrize("name", CASES)
def test_kept_rows(name: str) -> None:
    body, results, scratch = CASES[name]
    text = program(body, results)
    random = np.random.default_rng(1)
    x, y = (random.normal(0, 3, (5, 1111)).astype(np.float32) for _ in range(2))
    x[1, 3], x[2, :7], x[3, 1110] = -np.inf, 1e4, np.nan
    given = x.copy(), y.copy()
    with np.errstate(all="ignore"):
        expected = run(from_text(text), x, y)
    found = compile_module(from_text(text))(x, y)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=3e-6, atol=1e-30)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, (x, y), strict=True))
    kernels = to_text(lower(from_text(text), cpu_target("x86-64-v3")))
    assert scratch is None or kernels.count("tile.alloc") == scratch


@pytest.mark.parametrize("name", CASES)
def test_kept_rows_in_the_place_of_operands(name: str) -> None:
    """Operands that nobody reads afterwards give their memory to the results."""
    body, results, _ = CASES[name]
    before = "\n".join(
        f"      %{v}_turned = ng.transpose %{v}_given perm [1, 0] : (tensor<1111x5xf32>) -> {ROWS}\n"
        f"      %{v} = ng.cumulative_max %{v}_turned axis 1 : {ROWS}"
        for v in "xy"
    )
    text = program(f"\n{before}{body}", results)
    text = text.replace(
        f"%x: {ROWS}, %y: {ROWS}", "%x_given: tensor<1111x5xf32>, %y_given: tensor<1111x5xf32>"
    )
    random = np.random.default_rng(2)
    x, y = (random.normal(0, 3, (1111, 5)).astype(np.float32) for _ in range(2))
    for got, wanted in zip(compile_module(from_text(text))(x, y), run(from_text(text), x, y), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=3e-6, atol=1e-30)
