# SPDX-License-Identifier: Apache-2.0
"""Slices that are read where they lie: whatever else happens to the memory that they are a part of."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module, lower
from ngmlir.llvm.machine import cpu_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.parts import first_of_part
from ngmlir.ops.words import from_text, to_text

X = "tensor<6x8xf32>"
ROW, ROWS = "tensor<1x8xf32>", "tensor<2x8xf32>"


def taken(name: str, of: str, first: int, rows: int = 1, type: str = X) -> str:
    return (
        f"%{name} = ng.slice {of} from [{first}, 0] to [{first + rows}, 8] step [1, 1] : "
        f"({type}) -> tensor<{rows}x8xf32>"
    )


#: Bodies of @main(%x: 6x8, %v: 6x8), whose second result, if it has one, is the new value of %v.
PROGRAMS = {
    "given back": (f"{taken('a', '%x', 2)}\n{taken('b', '%x', 2)}", [("%a", ROW), ("%b", ROW), ("%a", ROW)]),
    "of what is computed": (
        f"%e = ng.exp %x : {X}\n{taken('a', '%e', 1)}\n%b = ng.negative %a : {ROW}\n%f = ng.cumulative_sum %e axis 0 : {X}",
        [("%b", ROW), ("%f", X), ("%a", ROW)],
    ),
    "a part of a part": (
        f"{taken('a', '%x', 1, 4)}\n{taken('b', '%a', 2, 2, 'tensor<4x8xf32>')}\n{taken('c', '%b', 1, 1, ROWS)}\n"
        f"%s = ng.slice %c from [0, 3] to [1, 6] step [1, 1] : ({ROW}) -> tensor<1x3xf32>\n"
        "%r = ng.tanh %s : tensor<1x3xf32>",
        [("%r", "tensor<1x3xf32>"), ("%s", "tensor<1x3xf32>")],
    ),
    "beside its whole": (
        f"%e = ng.cumulative_max %x axis 1 : {X}\n{taken('a', '%e', 3)}\n%w = ng.reshape %a : ({ROW}) -> tensor<8xf32>\n"
        f"%c = ng.broadcast %w dims [1] : (tensor<8xf32>) -> {X}\n%r = ng.multiply %e, %c : {X}",
        [("%r", X)],
    ),
    "overlapping": (
        f"%e = ng.cumulative_max %x axis 1 : {X}\n{taken('a', '%e', 0, 5)}\n{taken('b', '%e', 1, 5)}\n"
        "%r = ng.add %a, %b : tensor<5x8xf32>",
        [("%r", "tensor<5x8xf32>")],
    ),
    "one row of one element": (
        "%a = ng.slice %x from [4, 5] to [5, 6] step [1, 1] : (tensor<6x8xf32>) -> tensor<1x1xf32>\n"
        "%r = ng.exp %a : tensor<1x1xf32>",
        [("%r", "tensor<1x1xf32>"), ("%a", "tensor<1x1xf32>")],
    ),
    "of a constant": (
        f"%k = ng.constant dense<{[[float(8 * i + j) for j in range(8)] for i in range(6)]}> : {X}\n{taken('a', '%k', 4)}\n"
        f"{taken('c', '%x', 1)}\n%b = ng.multiply %a, %c : {ROW}",
        [("%b", ROW), ("%a", ROW)],
    ),
    "of what runs in a loop": (
        f"{taken('h0', '%x', 0)}\n%h, %ys = ng.scan iter(%c = %h0) over(%s: tensor<8xf32> = %x) -> ({ROW}, tensor<6x4xf32>) {{\n"
        "%p = ng.slice %s from [2] to [6] step [1] : (tensor<8xf32>) -> tensor<4xf32>\n"
        f"%w = ng.reshape %s : (tensor<8xf32>) -> {ROW}\n%n = ng.add %c, %w : {ROW}\nng.yield %n, %p : {ROW}, tensor<4xf32>\n}}",
        [("%h", ROW), ("%ys", "tensor<6x4xf32>")],
    ),
    "handed on by a loop": (
        f"%z = ng.scan iter(%c = %x) over(%s: tensor<8xf32> = %v) -> {X} {{\n"
        f"{taken('top', '%c', 0, 5)}\n{taken('last', '%c', 5)}\n%w = ng.reshape %s : (tensor<8xf32>) -> {ROW}\n"
        f"%n = ng.add %last, %w : {ROW}\n%m = ng.concatenate %n, %top axis 0 : ({ROW}, tensor<5x8xf32>) -> {X}\n"
        f"ng.yield %m : {X}\n}}",
        [("%z", X)],
    ),
    "carried as they are": (
        f"{taken('a', '%x', 0, 2)}\n{taken('b', '%x', 1, 2)}\n"
        f"%p, %q = ng.scan iter(%c = %a, %d = %b) over(%s: tensor<8xf32> = %v) -> ({ROWS}, {ROWS}) {{\n"
        f"{taken('r', '%c', 1, 1, ROWS)}\n%o = ng.concatenate %r, %r axis 0 : ({ROW}, {ROW}) -> {ROWS}\n"
        f"ng.yield %d, %o : {ROWS}, {ROWS}\n}}",
        [("%p", ROWS), ("%q", ROWS)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts(name: str) -> None:
    body, results = PROGRAMS[name]
    types = ", ".join(t for _, t in results)
    text = (
        f"func.func @main(%x: {X}, %v: {X}) -> ({types}) {{\n{body}\n"
        f"return {', '.join(v for v, _ in results)} : {types}\n}}"
    )
    rng = np.random.default_rng(0)
    x, v = (rng.normal(size=(6, 8)).astype(np.float32) for _ in range(2))
    given = x.copy(), v.copy()
    for got, wanted in zip(compile_module(from_text(text))(x, v), run(from_text(text), x, v), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6)
    assert np.array_equal(given[0], x) and np.array_equal(given[1], v)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_parts_of_variables_that_change_places(order: tuple[int, int]) -> None:
    """Each variable's new value is made of a part of the other's old one, or of its own."""
    first, second = (("%v", "%x"), ("%x", "%v"))[order[0]]
    text = f"""func.func @main(%x: {X}, %v: {X}) -> ({X}, {X}, {ROW}) attributes {{ng.tied = array<i64: 0, 0, 1, 1>}} {{
      {taken("a", first, 0, 3)}
      {taken("b", first, 3, 3)}
      %m = ng.concatenate %b, %a axis 0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> {X}
      {taken("c", second, 5)}
      %w = ng.reshape %c : ({ROW}) -> tensor<8xf32>
      %d = ng.broadcast %w dims [1] : (tensor<8xf32>) -> {X}
      %n = ng.add %v, %d : {X}
      return %m, %n, %c : {X}, {X}, {ROW}
    }}"""
    rng = np.random.default_rng(1)
    x, v = (rng.normal(size=(6, 8)).astype(np.float32) for _ in range(2))
    expected = run(from_text(text), x.copy(), v.copy())
    bound = compile_module(from_text(text))
    for got, wanted in zip(bound(x.copy(), v.copy()), expected, strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "shape, starts, limits, steps, first",
    [
        ((10,), (3,), (7,), (1,), 3), ((10,), (3,), (8,), (2,), None), ((10,), (9,), (4,), (-1,), None), ((10,), (9,), (8,), (-1,), 9),
        ((4, 5), (1, 0), (3, 5), (1, 1), 5), ((4, 5), (1, 1), (3, 5), (1, 1), None), ((4, 5), (2, 1), (3, 4), (3, 1), 11),
        ((4, 5), (0, 2), (4, 3), (1, 1), None), ((4, 1), (1, 0), (4, 1), (1, 1), 1), ((4, 1, 3), (1, 0, 0), (4, 1, 3), (1, 1, 1), 3),
        ((2, 4, 3), (1, 1, 0), (2, 3, 3), (1, 1, 1), 15), ((2, 4, 3), (0, 1, 0), (2, 3, 3), (1, 1, 1), None),
        ((4, 5), (1, 0), (1, 5), (1, 1), None), ((4, 5), (3, 0), (0, 5), (-2, 1), None),
    ],
)  # fmt: skip
def test_what_lies_in_one_piece(
    shape: tuple[int, ...],
    starts: tuple[int, ...],
    limits: tuple[int, ...],
    steps: tuple[int, ...],
    first: int | None,
) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    part = x[tuple(slice(a, b, s) for a, b, s in zip(starts, limits, steps, strict=True))]
    whole, taken_ = ("".join(f"{d}x" for d in s) for s in (shape, part.shape))
    module = from_text(
        f"func.func @main(%x: tensor<{whole}i64>) -> tensor<{taken_}i64> {{ %r = ng.slice %x from {list(starts)} to {list(limits)} "
        f"step {list(steps)} : (tensor<{whole}i64>) -> tensor<{taken_}i64> return %r : tensor<{taken_}i64> }}"
    )
    found = first_of_part(module.ops[0].block.ops[0])
    assert found == first
    if found is not None:
        np.testing.assert_array_equal(x.ravel()[found : found + part.size].reshape(part.shape), part)


def test_many_parts_are_one_kernel() -> None:
    def program(n: int) -> str:
        one, all_ = "tensor<1x32xf32>", f"tensor<{n}x32xf32>"
        lines = [
            f"%s{i} = ng.slice %x from [{i}, 0] to [{i + 1}, 32] step [1, 1] : ({all_}) -> {one}\n%t{i} = ng.cumulative_sum %s{i} axis 1 : "
            f"{one}"
            for i in range(n)
        ]
        types = ", ".join([one] * n)
        return "\n".join(
            [
                f"func.func @main(%x: {all_}) -> ({types}) {{",
                *lines,
                f"return {', '.join(f'%t{i}' for i in range(n))} : {types}",
                "}",
            ]
        )

    text = to_text(lower(from_text(program(100)), cpu_target("x86-64-v3")))
    assert text.count("tile.kernel") == 1 and text.count("tile.launch") == 100
    x = np.random.default_rng(0).normal(size=(100, 32)).astype(np.float32)
    found = np.concatenate([np.asarray(r) for r in compile_module(from_text(program(100)))(x)])
    np.testing.assert_allclose(found, x.cumsum(1), rtol=1e-4, atol=1e-5)


def test_many_copies() -> None:
    """Of many results that are parts of an argument, each is copied by a call."""
    n = 200
    lines = [
        f"%s{i} = ng.slice %x from [{i}] to [{i + 3}] step [1] : (tensor<{n + 2}xi8>) -> tensor<3xi8>"
        for i in range(n)
    ]
    types = ", ".join(["tensor<3xi8>"] * n)
    text = "\n".join(
        [
            f"func.func @main(%x: tensor<{n + 2}xi8>) -> ({types}) {{",
            *lines,
            f"return {', '.join(f'%s{i}' for i in range(n))} : {types}",
            "}",
        ]
    )
    x = np.arange(n + 2).astype(np.int8)
    for i, found in enumerate(compile_module(from_text(text))(x)):
        np.testing.assert_array_equal(found, x[i : i + 3])
