# SPDX-License-Identifier: Apache-2.0
"""Matrix products of every shape and storage, with epilogues, as the CPU computes them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from ngmlir.compiler import compile_module, compile_open, emit, lower, resolve
from ngmlir.ir.types import f32
from ngmlir.llvm.machine import assemble, cpu_target
from ngmlir.ops.fields import get_i64s
from ngmlir.ops.words import from_text
from ngmlir.passes.analysis.product import Product
from ngmlir.passes.schedule.candidate import ranked
from ngmlir.passes.schedule.products import panels
from ngmlir.runtime.buffers import DTYPES
from ngmlir.runtime.cpu import load
from ngmlir.support.artifact import Artifact
from ngmlir.support.target import Target


def product(
    m: int, k: int, n: int, storage: str = "NN", kind: str = "f32", batch: int = 0, end: str = ""
) -> str:
    before = f"{batch}x" if batch else ""
    a = f"tensor<{before}{f'{m}x{k}' if storage[0] == 'N' else f'{k}x{m}'}x{kind}>"
    b = f"tensor<{before}{f'{k}x{n}' if storage[1] == 'N' else f'{n}x{k}'}x{kind}>"
    r = f"tensor<{before}{m}x{n}x{kind}>"
    first = bool(batch)
    places = f"contract [{first + (storage[0] == 'N')}] x [{first + (storage[1] == 'T')}]"
    batches = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if batch else ""
    bias = f", %c: tensor<{n}x{kind}>" if end else ""
    body = f"  %p = ng.dot %a, %b {places}{batches} : ({a}, {b}) -> {r}\n"
    if end:
        dims = 2 if batch else 1
        body += f"  %w = ng.broadcast %c dims [{dims}] : (tensor<{n}x{kind}>) -> {r}\n  %q = ng.add %p, %w : {r}\n"
        body += f"  %r = ng.{end} %q : {r}\n"
    return f"func.func @main(%a: {a}, %b: {b}{bias}) -> {r} {{\n{body}  return {'%r' if end else '%p'} : {r}\n}}\n"


def arrays(m: int, k: int, n: int, storage: str, kind: str, batch: int) -> tuple[np.ndarray, np.ndarray]:
    random, dtype = np.random.default_rng(m + k + n), DTYPES[kind]
    before = (batch,) if batch else ()
    shapes = ((m, k) if storage[0] == "N" else (k, m), (k, n) if storage[1] == "N" else (n, k))
    draw = random.integers if dtype.kind in "iu" else random.uniform
    a, b = (draw(-3, 4, (*before, *shape)).astype(dtype) for shape in shapes)
    return a, b


def expected(a: np.ndarray, b: np.ndarray, storage: str) -> np.ndarray:
    wide = np.int64 if a.dtype.kind in "iu" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    x = x.swapaxes(-1, -2) if storage[0] == "T" else x
    return np.matmul(x, y.swapaxes(-1, -2) if storage[1] == "T" else y)


def check(m: int, k: int, n: int, storage: str = "NN", kind: str = "f32", batch: int = 0) -> None:
    a, b = arrays(m, k, n, storage, kind, batch)
    (got,) = compile_module(from_text(product(m, k, n, storage, kind, batch)))(a, b)
    want = expected(a, b, storage)
    if a.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want.astype(a.dtype))
        return
    tolerance = {"f16": 1e-2, "bf16": 5e-2, "f64": 1e-12}.get(kind, 1e-5)
    scale = np.sqrt(k) * 10
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("storage", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    "m, k, n",
    [
        (1, 1, 1),
        (1, 37, 1),
        (1, 9, 70),
        (70, 9, 1),
        (3, 130, 5),
        (8, 33, 19),
        (9, 5, 16),
        (65, 63, 67),
        (1, 1, 40),
        (30, 1, 3),
        (70, 130, 2),
        (37, 100, 6),
    ],
)
def test_small_products(m: int, k: int, n: int, storage: str) -> None:
    check(m, k, n, storage)


@pytest.mark.parametrize("storage", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    "m, k, n",
    [(1, 515, 700), (5, 700, 515), (20, 600, 400), (130, 2503, 101), (1000, 300, 1), (300, 70, 600)],
)  # fmt: skip
def test_products_whose_right_side_is_far(m: int, k: int, n: int, storage: str) -> None:
    check(m, k, n, storage)


@pytest.mark.parametrize("kind", ["f64", "f16", "bf16", "i32", "i8", "ui8", "i64"])
@pytest.mark.parametrize(
    "m, k, n, storage",
    [
        (13, 21, 35, "NN"),
        (1, 40, 9, "NT"),
        (6, 17, 4, "TT"),
        (9, 50, 1, "TN"),
        (45, 31, 3, "TN"),
        (45, 31, 3, "NT"),
    ],
)
def test_other_elements(m: int, k: int, n: int, storage: str, kind: str) -> None:
    check(m, k, n, storage, kind)


@pytest.mark.parametrize("kind", ["f16", "bf16", "i16"])
@pytest.mark.parametrize(
    "m, k, n, storage", [(40, 2601, 133, "NT"), (25, 700, 390, "TN"), (130, 600, 500, "NN")]
)
def test_narrow_elements_that_are_far(m: int, k: int, n: int, storage: str, kind: str) -> None:
    check(m, k, n, storage, kind)


@pytest.mark.parametrize("storage", ["NN", "NT", "TN", "TT"])
def test_batches_whose_right_sides_are_far(storage: str) -> None:
    check(33, 2300, 90, storage, batch=2)


def register_tile(of: Product, machine: Target) -> tuple[int, int]:
    """Rows and vectors of the sums that stay in registers."""
    rows, columns = ranked(panels(of, machine, {}), 1.0)[0].schedule.tile
    return rows, columns // machine.lanes(4)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64"])
@pytest.mark.parametrize("m, n", [(1, 1), (1, 1000), (3, 7), (64, 64), (100, 10), (1024, 1024)])
def test_register_tiles_fit_and_keep_the_multipliers_busy(target: str, m: int, n: int) -> None:
    machine = cpu_target(target)
    of = Product(0, m, n, 512, False, True, f32, f32, f32)
    rows, vectors = register_tile(of, machine)
    assert rows <= m and (vectors - 1) * machine.lanes(4) < n
    assert rows * vectors + vectors * (rows > 1) + 1 < machine.vector_registers
    if m == n == 1024:
        assert rows * vectors >= machine.fmas * machine.fma_cycles
        assert (rows + vectors) / machine.loads <= rows * vectors / machine.fmas


def test_rows_that_share_cache_sets_are_few() -> None:
    """Of rows 4 KiB apart a cache of eight ways and 32 KiB holds eight lines; of others as many as there is room for."""
    machine = replace(cpu_target("x86-64-v3"), l1_bytes=32 * 1024, l1_ways=8)
    tiles = {
        depth: register_tile(Product(0, 1024, 8, depth, False, True, f32, f32, f32), machine)[0]
        for depth in (1000, 1024, 512, 2048)
    }
    assert tiles[1024] <= 6 and tiles[2048] <= 6 and tiles[512] <= 12
    assert tiles[1000] > 8


def test_a_panel_stays_in_the_second_cache() -> None:
    """Of 1 MiB 64 KiB, so that sums need not wait; or half of the near cache, where that is more."""
    of = Product(0, 1000, 1000, 8000, False, True, f32, f32, f32)
    for l2, most in ((1 << 20, 1024), (1 << 18, 256), (1 << 17, 256)):
        machine = replace(cpu_target("x86-64-v3"), l1_bytes=1 << 15, l2_bytes=l2)
        cut = ranked(panels(of, machine, {"tile": (6, 16)}), 1.0)[0].schedule
        assert most * 7 // 8 <= cut.depth <= most and cut.block[0] * cut.depth * 4 <= l2 * 9 // 8


def test_a_deep_product_of_f64() -> None:
    check(101, 2100, 257, "TT", "f64")


@pytest.mark.parametrize("storage", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("m, k, n", [(3, 4, 5), (1, 20, 7), (40, 33, 18), (6, 9, 1)])
def test_batches(m: int, k: int, n: int, storage: str) -> None:
    check(m, k, n, storage, batch=7)


@pytest.mark.parametrize(
    "m, k, n, batch",
    [
        (1, 50, 33, 0),
        (7, 600, 300, 0),
        (120, 900, 257, 0),
        (40, 20, 1, 0),
        (5, 6, 7, 3),
        (75, 300, 3, 0),
        (33, 40, 4, 3),
    ],
)
@pytest.mark.parametrize("storage", ["NN", "NT"])
def test_epilogues(m: int, k: int, n: int, batch: int, storage: str) -> None:
    a, b = arrays(m, k, n, storage, "f32", batch)
    c = np.linspace(-9, 9, n, dtype=np.float32)
    text = product(m, k, n, storage, "f32", batch, end="absolute")
    (got,) = compile_module(from_text(text))(a, b, c)
    np.testing.assert_allclose(got, np.abs(expected(a, b, storage) + c), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("storage", ["NN", "NT", "TN", "TT"])
def test_few_columns_with_operands_of_the_size_of_the_result(storage: str) -> None:
    """The product is computed transposed: its rows are those of the right side. The rest of the kernel sees the result as it is."""
    m, k, n = 83, 37, 3
    a, b = arrays(m, k, n, storage, "f32", 0)
    c = np.linspace(-9, 9, m * n, dtype=np.float32).reshape(m, n)
    text = product(m, k, n, storage).replace(") -> tensor", f", %c: tensor<{m}x{n}xf32>) -> tensor", 1)
    text = text.replace("return %p", f"%q = ng.multiply %p, %c : tensor<{m}x{n}xf32>\n  return %q")
    (got,) = compile_module(from_text(text))(a, b, c)
    np.testing.assert_allclose(got, expected(a, b, storage) * c, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "m, k, n, storage",
    [(131, 2200, 330, "NN"), (131, 300, 330, "TN"), (4, 700, 700, "NT"), (1, 900, 900, "NN")],
)
def test_sums_do_not_depend_on_how_work_is_shared(m: int, k: int, n: int, storage: str) -> None:
    """A target with other caches blocks otherwise, but every sum has the same terms in the same order."""
    a, b = arrays(m, k, n, storage, "f32", 0)
    target = resolve("cpu")
    results = []
    for l2 in (target.l2_bytes, target.l2_bytes // 8):
        changed = replace(target, l2_bytes=l2)
        unit = emit(lower(from_text(product(m, k, n, storage)), changed), changed)
        artifact = Artifact("object", assemble(unit.llvm, changed), unit.entries, changed.key, unit.constants)
        results.append(load(artifact)(a, b)[0])
    np.testing.assert_array_equal(results[0].view(np.int32), results[1].view(np.int32))


WINDOWS = """func.func @main(%x: tensor<16x16x64xf32>, %w: tensor<3x3x64x256xf32>) -> tensor<14x14x256xf32> {
  %a = ng.windows %x axes [0, 1] steps [1, 1] dilations [1, 1] : (tensor<16x16x64xf32>) -> tensor<3x3x14x14x64xf32>
  %b = ng.dot %a, %w contract [0, 1, 4] x [0, 1, 2] : (tensor<3x3x14x14x64xf32>, tensor<3x3x64x256xf32>) -> tensor<14x14x256xf32>
  return %b : tensor<14x14x256xf32>
}"""


def test_products_of_windows_are_shared_among_all_cores() -> None:
    """Programs pack what they multiply, so there are no more of them than the cores need; every sum stays the same."""
    x, w = (
        np.linspace(-1, 1, 16 * 16 * 64, dtype=np.float32),
        np.linspace(-3, 2, 9 * 64 * 256, dtype=np.float32),
    )
    target, results, programs = resolve("cpu"), [], {}
    for cores in (1, 2, 6, 64):
        changed = replace(target, cores=cores)
        lowered = lower(from_text(WINDOWS), changed)
        programs[cores] = max(prod(get_i64s(op, "grid")) for op in lowered.ops if op.name == "tile.kernel")
        unit = emit(lowered, changed)
        artifact = Artifact("object", assemble(unit.llvm, changed), unit.entries, changed.key, unit.constants)
        results.append(load(artifact)(x.reshape(16, 16, 64), w.reshape(3, 3, 64, 256))[0])
    assert programs[1] <= 4 and programs[2] % 2 == 0 and programs[6] >= 6 and 14 <= programs[64] <= 256
    for result in results:
        np.testing.assert_array_equal(result.view(np.int32), results[0].view(np.int32))


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("rows, columns, depth", [(1, 3072, 768), (32, 1024, 256), (128, 2304, 768)])
def test_few_programs_are_as_many_for_each_core(rows: int, columns: int, depth: int, cores: int) -> None:
    of = Product(0, rows, columns, depth, False, True, f32, f32, f32, kept=True)
    machine = replace(cpu_target("x86-64-v3"), cores=cores, l1_bytes=1 << 15, l2_bytes=1 << 20)
    cut = ranked(panels(of, machine, {}), 1.0)[0].schedule
    beside, programs = -(-rows // cut.block[0]), -(-columns // cut.block[1])
    assert beside * programs % cores == 0 or beside * programs >= 2 * cores or cores == 8
    assert programs * cut.block[1] - columns < cut.tile[1] * programs


@pytest.mark.parametrize("machine", ["x86-64-v3", ""])
def test_any_number_of_rows_by_one_program(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are known only at the call are split into tiles of every size; no row is left out or computed from others."""
    text = """
    func.func @main(%x: tensor<[M]x40xf32>, %w: tensor<40x70xf32>) -> tensor<[M]x70xf32> {
      %0 = ng.dot %x, %w contract [1] x [0] : (tensor<[M]x40xf32>, tensor<40x70xf32>) -> tensor<[M]x70xf32>
      return %0 : tensor<[M]x70xf32>
    }
    """
    if machine:
        monkeypatch.setenv("NGMLIR_CPU", machine)
    run = compile_open(lambda lengths: from_text(text, lengths=lengths), {"M": 30})
    random = np.random.default_rng(0)
    w = random.standard_normal((40, 70), np.float32)
    for rows in (*range(2, 24), 37, 61):
        assert run.serves({"M": rows})
        x = random.standard_normal((rows, 40), np.float32)
        np.testing.assert_allclose(run(x, w)[0], x.astype(np.float64) @ w, atol=1e-4)
