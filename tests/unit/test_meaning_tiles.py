# SPDX-License-Identifier: Apache-2.0
"""Kernels: where tiles lie in buffers, what is outside, scratch, asynchronous copies, and planned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meaning_helpers import BF16, BOOL, FLOATS, INTEGERS, NUMERIC, is_float, same, sample, special

from ngmlir.ir.literals import type_of_dtype
from ngmlir.ops.interpreter import run
from ngmlir.ops.meaning.numbers import fma
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError

EVERY = (BOOL, *NUMERIC)


def kernel(
    signature: str, body: str, grid: str = "", outputs: int = 1, name: str = "k", verify: bool = True
) -> Any:
    """A module of one kernel; %c0 to %c9 are constants. What is not verified may leave its buffers when it runs."""
    constants = "\n".join(f"  %c{i} = ng.constant {i} : index" for i in range(10) if f"%c{i}" in body)
    return from_text(
        f"tile.kernel @{name}({signature}) attributes {{grid = array<i64{grid and ': '}{grid}>, outputs = {outputs} : i64}} {{\n"
        f"{constants}\n{body}\n  tile.return\n}}",
        file="k.ngir",
        verify=verify,
    )


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_masked_windows_over_the_edges(dtype: np.dtype) -> None:
    t = type_of_dtype(dtype)
    module = kernel(
        f"%x: memref<5x7x{t}>, %y: memref<5x7x{t}>, %i: index, %j: index",
        f"""
  %a = ng.multiply %i, %c2 : index
  %b = ng.multiply %j, %c4 : index
  %v = tile.load %x[%a, %b] {{masked}} : memref<5x7x{t}>, vector<2x4x{t}>
  tile.store %v, %y[%a, %b] {{masked}} : vector<2x4x{t}>, memref<5x7x{t}>""",
        "3, 2",
    )
    x = sample(dtype, (5, 7))
    for order in (None, 0, 1):
        assert same(run(module, x, entry="k", order=order)[0], x)


def test_what_is_outside_reads_as_the_padding() -> None:
    module = kernel(
        "%x: memref<3x4xf32>, %y: memref<4x6xf32>",
        """
  %m = ng.constant -1 : index
  %v = tile.load %x[%m, %m] {masked, pad = 2.5 : f32} : memref<3x4xf32>, vector<4x6xf32>
  tile.store %v, %y[%c0, %c0] : vector<4x6xf32>, memref<4x6xf32>""",
    )
    x = sample(np.dtype(np.float32), (3, 4))
    wanted = np.full((4, 6), 2.5, np.float32)
    wanted[1:4, 1:5] = x
    assert same(run(module, x, entry="k")[0], wanted)


def test_dims_and_steps() -> None:
    module = kernel(
        "%x: memref<6x5x7xf32>, %y: memref<3x2xf32>, %z: memref<2x9x3xf32>",
        """
  %v = tile.load %x[%c1, %c4, %c2] {dims = array<i64: 2, 0>, steps = array<i64: 2, 3>} : memref<6x5x7xf32>, vector<3x2xf32>
  tile.store %v, %y[%c0, %c0] : vector<3x2xf32>, memref<3x2xf32>
  tile.store %v, %z[%c0, %c8, %c0] {dims = array<i64: 2, 0>} : vector<3x2xf32>, memref<2x9x3xf32>""",
        outputs=2,
    )
    x = sample(np.dtype(np.float32), (6, 5, 7))
    y, z = run(module, x, entry="k")
    wanted = x[1:5:3, 4, 2:7:2].T
    assert same(y, wanted)
    assert same(np.ascontiguousarray(z[:, 8, :]), np.ascontiguousarray(wanted.T))
    assert np.isnan(z[:, :8]).all(), "what is not written is poison"


def test_scalars_and_points() -> None:
    module = kernel(
        "%x: memref<4xf32>, %p: memref<f32>, %y: memref<f32>, %z: memref<4xf32>",
        """
  %a = tile.load %x[%c3] : memref<4xf32>, f32
  %b = tile.load %p[] : memref<f32>, f32
  %s = ng.multiply %a, %b : f32
  tile.store %s, %y[] : f32, memref<f32>
  %v = tile.load %x[%c0] : memref<4xf32>, vector<4xf32>
  %w = ng.broadcast %s dims [] : (f32) -> vector<4xf32>
  %u = ng.add %v, %w : vector<4xf32>
  tile.store %u, %z[%c0] : vector<4xf32>, memref<4xf32>""",
        outputs=2,
    )
    x, p = np.arange(4, dtype=np.float32), np.array(2.5, np.float32)
    y, z = run(module, x, p, entry="k")
    assert same(y, np.array(7.5, np.float32))
    assert same(z, x + np.float32(7.5))


@pytest.mark.parametrize("access", ["tile.load %x[%i, %c3]", "tile.load %x[%m, %c0]"])
def test_an_access_outside_is_an_error_with_a_place(access: str) -> None:
    module = kernel(
        "%x: memref<3x4xf32>, %y: memref<2x2xf32>, %i: index",
        f"""
  %m = ng.constant -1 : index
  %v = {access} : (memref<3x4xf32>, index, index) -> vector<2x2xf32>
  tile.store %v, %y[%c0, %c0] : vector<2x2xf32>, memref<2x2xf32>""",
        "1",
        verify=False,
    )
    with pytest.raises(
        UserError,
        match=r"k.ngir:\d+:3: error: tile.load accesses index (4|-1) of dimension [01], which has [34]",
    ):
        run(module, np.zeros((3, 4), np.float32), entry="k")


def test_stores_outside_or_into_inputs_are_errors() -> None:
    body = """
  %v = tile.load %x[%c0] : memref<4xf32>, vector<3xf32>
  tile.store %v, %{}[%c2] : vector<3xf32>, memref<4xf32>"""
    with pytest.raises(UserError, match="tile.store accesses index 4"):
        run(
            kernel("%x: memref<4xf32>, %y: memref<4xf32>", body.format("y"), verify=False),
            np.zeros(4, np.float32),
            entry="k",
        )
    with pytest.raises(UserError, match="writes to an input"):
        run(
            kernel("%x: memref<4xf32>, %y: memref<4xf32>", body.format("x").replace("[%c2]", "[%c0]")),
            np.zeros(4, np.float32),
            entry="k",
        )


def test_gather() -> None:
    module = kernel(
        "%x: memref<5x7xf32>, %i: memref<6xi32>, %y: memref<6xf32>",
        """
  %at = tile.load %i[%c0] : memref<6xi32>, vector<6xi32>
  %v = tile.gather %x[%c3, %at] : memref<5x7xf32>, vector<6xf32>
  tile.store %v, %y[%c0] : vector<6xf32>, memref<6xf32>""",
    )
    x, i = sample(np.dtype(np.float32), (5, 7)), np.array([0, 6, 3, 3, 1, 5], np.int32)
    assert same(run(module, x, i, entry="k")[0], x[3, i])
    with pytest.raises(UserError, match="tile.gather accesses index 7 of dimension 1"):
        run(module, x, i + 1, entry="k")


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=str)
@pytest.mark.parametrize("combine", ["set", "add", "max", "min"])
def test_scatter(dtype: np.dtype, combine: str) -> None:
    t = type_of_dtype(dtype)
    zero = "0.0" if is_float(dtype) else "0"
    module = kernel(
        f"%v: memref<6x{t}>, %m: memref<6xi1>, %i: memref<6xi32>, %y: memref<4x{t}>",
        f"""
  %z = ng.constant dense<{zero}> : vector<4x{t}>
  tile.store %z, %y[%c0] : vector<4x{t}>, memref<4x{t}>
  %at = tile.load %i[%c0] : memref<6xi32>, vector<6xi32>
  %mask = tile.load %m[%c0] : memref<6xi1>, vector<6xi1>
  %new = tile.load %v[%c0] : memref<6x{t}>, vector<6x{t}>
  tile.scatter %new, %mask, %y[%at] {{combine = "{combine}"}} : vector<6x{t}>, memref<4x{t}>""",
    )
    v = sample(dtype, (6,))
    mask, at = np.array([1, 1, 0, 1, 1, 1], bool), np.array([1, 3, 99, 1, 0, 3], np.int32)
    wanted = [dtype.type(0)] * 4
    fold = {"set": lambda old, new: new, "add": lambda old, new: old + new, "max": max, "min": min}[combine]
    with np.errstate(over="ignore"):
        for p, i, n in zip(mask, at, v, strict=True):
            if p:
                wanted[i] = fold(wanted[i], n)
    assert same(run(module, v, mask, at, entry="k")[0], np.array(wanted, dtype))


def test_scratch_is_poison_and_windows_share_memory() -> None:
    module = kernel(
        "%x: memref<2x4xf32>, %y: memref<2x4xf32>, %z: memref<4xf32>",
        """
  %s = tile.alloc : memref<2x2x4xf32, 3>
  %w = tile.subview %s[%c1, %c0, %c0] : memref<2x2x4xf32, 3>, memref<2x4xf32, strided<[4, 1], offset: ?>, 3>
  tile.copy %x, %w : memref<2x4xf32>, memref<2x4xf32, strided<[4, 1], offset: ?>, 3>
  %v = tile.load %s[%c1, %c0, %c0] {dims = array<i64: 1, 2>} : memref<2x2x4xf32, 3>, vector<2x4xf32>
  tile.store %v, %y[%c0, %c0] : vector<2x4xf32>, memref<2x4xf32>
  %u = tile.load %s[%c0, %c1, %c0] : memref<2x2x4xf32, 3>, vector<4xf32>
  tile.store %u, %z[%c0] : vector<4xf32>, memref<4xf32>""",
        outputs=2,
    )
    x = sample(np.dtype(np.float32), (2, 4))
    y, z = run(module, x, entry="k")
    assert same(y, x)
    assert np.isnan(z).all()


def test_a_window_must_fit() -> None:
    module = kernel(
        "%x: memref<5xf32>, %y: memref<3xf32>, %i: index",
        """
  %a = ng.multiply %i, %c3 : index
  %w = tile.subview %x[%a] : memref<5xf32>, memref<3xf32, strided<[1], offset: ?>>
  tile.copy %w, %y : memref<3xf32, strided<[1], offset: ?>>, memref<3xf32>""",
        "2",
        verify=False,
    )
    with pytest.raises(UserError, match=r"tile.subview accesses index 5 of dimension 0, which has 5"):
        run(module, np.zeros(5, np.float32), entry="k")


def copying(wait: str) -> Any:
    return kernel(
        "%x: memref<4xf32>, %y: memref<4xf32>",
        f"""
  %s = tile.alloc : memref<4xf32, 3>
  %z = ng.constant dense<1.0> : vector<4xf32>
  tile.store %z, %s[%c0] : vector<4xf32>, memref<4xf32, 3>
  %t = tile.copy_async %x, %s : memref<4xf32>, memref<4xf32, 3>
  {wait}
  tile.barrier
  %v = tile.load %s[%c0] : memref<4xf32, 3>, vector<4xf32>
  tile.store %v, %y[%c0] : vector<4xf32>, memref<4xf32>""",
        verify=False,
    )


def test_an_asynchronous_copy_is_there_only_after_waiting() -> None:
    x = sample(np.dtype(np.float32), (4,))
    assert same(run(copying("tile.wait %t : !tile.token"), x, entry="k")[0], x)
    assert np.isnan(run(copying(""), x, entry="k")[0]).all()


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [("f32", "f32"), ("bf16", "f32"), ("f16", "f32"), ("f64", "f64"), ("i8", "i32"), ("i32", "i32")],
)
def test_tile_product(narrow: str, wide: str) -> None:
    module = kernel(
        f"%a: memref<3x5x{narrow}>, %b: memref<5x4x{narrow}>, %c: memref<3x4x{wide}>, %y: memref<3x4x{wide}>",
        f"""
  %p = tile.load %a[%c0, %c0] : memref<3x5x{narrow}>, vector<3x5x{narrow}>
  %q = tile.load %b[%c0, %c0] : memref<5x4x{narrow}>, vector<5x4x{narrow}>
  %r = tile.load %c[%c0, %c0] : memref<3x4x{wide}>, vector<3x4x{wide}>
  %s = tile.dot %p, %q, %r : vector<3x4x{wide}>
  tile.store %s, %y[%c0, %c0] : vector<3x4x{wide}>, memref<3x4x{wide}>""",
    )
    dtypes = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": BF16, "i8": "i1", "i32": "i4"}
    narrow_type, wide_type = np.dtype(dtypes[narrow]), np.dtype(dtypes[wide])
    a, b, c = sample(narrow_type, (3, 5)), sample(narrow_type, (5, 4), 1), sample(wide_type, (3, 4), 2)
    exact = run(module, a, b, c, entry="k", exact=True)[0]
    wanted = c
    if is_float(wide_type):
        for k in range(5):
            wanted = fma(
                *np.broadcast_arrays(a[:, k, None].astype(wide_type), b[None, k].astype(wide_type)), wanted
            )
        assert np.allclose(run(module, a, b, c, entry="k")[0], wanted, rtol=1e-4, atol=1e-4)
    else:
        wanted = (c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(wide_type)
        assert same(run(module, a, b, c, entry="k")[0], wanted)
    assert same(exact, wanted)


def loop(body: str, upper: str = "%c5", step: str = "%c2") -> Any:
    return kernel(
        "%y: memref<i64>",
        f"""
  %zero = ng.constant 0 : i64
  %r = tile.for %i = %c1 to {upper} step {step} iter(%s = %zero) -> i64 {{
    {body}
    ng.yield %n : i64
  }}
  tile.store %r, %y[] : i64, memref<i64>""",
    )


def test_loops() -> None:
    body = "%w = ng.cast %i : (index) -> i64\n    %n = ng.add %s, %w : i64"
    assert run(loop(body), entry="k")[0] == 1 + 3
    assert run(loop(body, "%c6"), entry="k")[0] == 1 + 3 + 5
    assert run(loop(body, "%c1"), entry="k")[0] == 0
    with pytest.raises(UserError, match="it must be positive"):
        run(loop(body, step="%c0"), entry="k")


def test_branches_in_kernels_store() -> None:
    module = kernel(
        "%y: memref<4xi64>, %i: index",
        """
  %two = ng.less %i, %c2 : (index, index) -> i1
  %w = ng.cast %i : (index) -> i64
  ng.if %two {
    tile.store %w, %y[%i] : i64, memref<4xi64>
    ng.yield
  } else {
    %m = ng.negative %w : i64
    tile.store %m, %y[%i] : i64, memref<4xi64>
    ng.yield
  }""",
        "4",
    )
    assert run(module, entry="k")[0].tolist() == [0, 1, -2, -3]


PLANNED = """
func.func @main(%x: memref<4xf32>, %state: memref<4xf32>, %out: memref<4xf32>, %c: memref<4xf32>, %arena: memref<64xi8>) attributes {
    ng.arguments = 2 : i64, ng.results = 2 : i64, ng.tied = array<i64: 1, 1>, ng.constants = [dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>]} {
  %t = tile.view %arena at 16 : memref<4xf32>
  tile.launch @add ins(%x, %c) outs(%t)
  tile.launch @add ins(%t, %state) outs(%out)
  tile.copy %t, %state : memref<4xf32>, memref<4xf32>
  func.return
}
tile.kernel @add ins(%a: memref<4xf32>, %b: memref<4xf32>) outs(%y: memref<4xf32>) {
  %c0 = ng.constant 0 : index
  %v = tile.load %a[%c0] : memref<4xf32>, vector<4xf32>
  %w = tile.load %b[%c0] : memref<4xf32>, vector<4xf32>
  %s = ng.add %v, %w : vector<4xf32>
  tile.store %s, %y[%c0] : vector<4xf32>, memref<4xf32>
  tile.return
}
"""


def test_planned_memory() -> None:
    x, state = np.ones(4, np.float32), np.full(4, 10, np.float32)
    out, new = run(from_text(PLANNED), x, state)
    assert out.tolist() == [12, 13, 14, 15]
    assert new.tolist() == [2, 3, 4, 5]
    assert state.tolist() == [10] * 4


def test_arenas_have_an_end_and_hold_nothing_at_first() -> None:
    with pytest.raises(UserError, match="tile.view takes bytes 56 to 72 of a buffer of 64"):
        run(
            from_text(PLANNED.replace("at 16", "at 56"), verify=False),
            np.ones(4, np.float32),
            np.ones(4, np.float32),
        )
    early = PLANNED.replace("tile.launch @add ins(%x, %c) outs(%t)\n", "")
    assert np.isnan(run(from_text(early), np.ones(4, np.float32), np.ones(4, np.float32))[0]).all()


def test_views_of_views() -> None:
    text = PLANNED.replace(
        "%t = tile.view %arena at 16 : memref<4xf32>",
        "%p = tile.view %arena at 0 : memref<2x8xf32>\n  %t = tile.view %p at 48 : memref<4xf32>",
    )
    assert run(from_text(text), np.ones(4, np.float32), np.zeros(4, np.float32))[0].tolist() == [2, 3, 4, 5]


def test_vectors_mean_what_tensors_mean() -> None:
    """One op, both containers: the same bits."""
    ops = "%r = ng.exp %v : {0}\n  %s = ng.maximum %r, %v : {0}\n  %t = ng.max %s axes [1] : ({0}) -> {1}"
    tensor = f"""func.func @main(%v: tensor<3x30xf16>) -> tensor<3xf16> {{
  {ops.format("tensor<3x30xf16>", "tensor<3xf16>")}
  return %t : tensor<3xf16>
}}"""
    tiles = kernel(
        "%x: memref<3x30xf16>, %y: memref<3xf16>",
        f"""
  %v = tile.load %x[%c0, %c0] : memref<3x30xf16>, vector<3x30xf16>
  {ops.format("vector<3x30xf16>", "vector<3xf16>")}
  tile.store %t, %y[%c0] : vector<3xf16>, memref<3xf16>""",
    )
    x = np.resize(special(np.dtype(np.float16)), (3, 30))
    assert same(run(tiles, x, entry="k")[0], run(from_text(tensor), x)[0])
