# SPDX-License-Identifier: Apache-2.0
"""Products by matrix instructions: whole programs on the simulated GPU beside NumPy, what their PTX is made of, and what
they ask of shared and global memory."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ngmlir as ng
from ngmlir.codegen.nvptx.shared import User, matrix_rows, storage
from ngmlir.compiler import assemble, lower
from ngmlir.ir import types
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.layouts import blocked, matrix_fragments
from ngmlir.ops.words import from_text
from ngmlir.runtime import ptxas
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.simulator.counters import Counters

TARGET = nvptx_target("sm_90a")
DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8),
    "ui8": np.dtype(np.uint8),
}


def product(
    rows: int,
    columns: int,
    depth: int,
    form: str = "NN",
    left: str = "bf16",
    right: str = "",
    batch: int = 0,
    schedule: str = "",
) -> str:
    right = right or left
    result = "i32" if left.endswith("i8") else "f32"
    first = f"{batch}x" if batch else ""
    a = f"{first}{depth}x{rows}" if form[0] == "T" else f"{first}{rows}x{depth}"
    b = f"{first}{columns}x{depth}" if form[1] == "T" else f"{first}{depth}x{columns}"
    at = 1 if batch else 0
    contract = f"[{at + (form[0] == 'N')}] x [{at + (form[1] == 'T')}]"
    given = ["lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>"] if batch else []
    given += [f"ng.schedule = {{{schedule}}}"] if schedule else []
    attributes = f"{{{', '.join(given)}}} " if given else ""
    out = f"tensor<{first}{rows}x{columns}x{result}>"
    return f"""
func.func @main(%x: tensor<{a}x{left}>, %w: tensor<{b}x{right}>) -> {out} {{
  %0 = ng.dot %x, %w contract {contract} {attributes}: (tensor<{a}x{left}>, tensor<{b}x{right}>) -> {out}
  %1 = ng.add %0, %0 : {out}
  func.return %1 : {out}
}}
"""


def numbers(shape: tuple[int, ...], element: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if element.endswith("i8"):
        info = np.iinfo(DTYPES[element])
        return random.integers(info.min, info.max + 1, shape).astype(DTYPES[element])
    return random.standard_normal(shape).astype(DTYPES[element])


def run(text: str, form: str, sm: str = "sm_90a", *, count: bool = False) -> tuple[str, list[Counters]]:
    """Runs a product on the simulator and compares it with NumPy; its PTX and counts."""
    module: Module = from_text(text)
    target = nvptx_target(sm)
    artifact = assemble(lower(module, target), target)
    device = CudaSimDevice(count=count, seed=3)
    program = load(artifact, device)
    inputs = [value.type for value in module.lookup("main").regions[0].block.args]  # type: ignore[union-attr]
    arrays: list[np.ndarray] = []
    for seed, type in enumerate(inputs):
        assert isinstance(type, types.TensorType)
        arrays.append(numbers(tuple(type.shape), type.element.text, seed))  # type: ignore[arg-type]
    got = np.asarray(program.run(arrays)[0])
    integers = arrays[0].dtype.kind in "iu"
    x, w = (array.astype(np.int64 if integers else np.float64) for array in arrays)
    x = x.swapaxes(-1, -2) if form[0] == "T" else x
    w = w.swapaxes(-1, -2) if form[1] == "T" else w
    expected = 2 * (x @ w)
    if integers:
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    ptx = artifact.code.decode()
    if ptxas.available():
        report = ptxas.assemble(ptx, sm)
        assert not report.spill_stores and not report.stack_bytes and not report.warnings, report.log
    return ptx, list(device.counted.values()) if device.counted is not None else []


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(17, 33, 65), (16, 8, 16), (40, 24, 72)])
def test_odd_sizes_and_transposed_sides(rows: int, columns: int, depth: int, form: str) -> None:
    ptx, _ = run(product(rows, columns, depth, form), form)
    assert "mma.sync.aligned.m16n8k16" in ptx and "ldmatrix" in ptx


@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 1, 1), (1, 40, 7), (131, 1, 3), (2, 3, 0)])
def test_thin_products(rows: int, columns: int, depth: int) -> None:
    run(product(rows, columns, depth, "NT", "f16"), "NT")


@pytest.mark.parametrize(
    ("left", "right"), [("i8", "i8"), ("ui8", "ui8"), ("ui8", "i8"), ("i8", "ui8"), ("f16", "f16")]
)
@pytest.mark.parametrize("form", ["NN", "NT"])
def test_elements(left: str, right: str, form: str) -> None:
    """All values of bytes, the least one times itself included."""
    ptx, _ = run(product(33, 20, 70, form, left, right), form)
    assert "mma.sync" in ptx


def test_batches() -> None:
    run(product(20, 17, 35, "TN", batch=3), "TN")


def test_f32_is_not_rounded() -> None:
    """tf32 is asked for by nobody here."""
    text = product(32, 32, 32).replace("bf16", "f32")
    ptx = assemble(lower(from_text(text), TARGET), TARGET).code.decode()
    assert "mma" not in ptx and "fma.rn.f32" in ptx


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
def test_no_conflicts_and_no_wasted_sectors(form: str) -> None:
    schedule = "tile = [64, 64], step = 32, threads = 128"
    ptx, (counted,) = run(product(128, 64, 64, form, schedule=schedule), form, count=True)
    assert counted.shared.ratio == 1.0 and counted.reads.ratio == counted.writes.ratio == 1.0
    assert counted.useful_threads > 0.99
    assert "ld.global.nc.v4" in ptx and "st.shared.v4" in ptx
    assert ("ldmatrix.sync.aligned.m8n8.x4.trans" in ptx) == (form != "NT")
    assert len(re.findall(r"mma\.sync", ptx)) == 2 * 2 * 4  # 16 x 8 x 16 of 32 x 32 x 32 for each warp


def test_products_of_tiles_in_python() -> None:
    """As users write them: a layer with its activation, on bf16."""
    N, C, K = ng.make_axis(20, "N"), ng.make_axis(50, "C"), ng.make_axis(30, "K")
    x, w = ng.placeholder([N, C], dtype="bf16"), ng.placeholder([C, K], dtype="bf16")
    layer = ng.compile([ng.tanh(ng.dot(x, w))], [x, w], target="cuda-sim")
    a, b = numbers((20, 50), "bf16", 0), numbers((50, 30), "bf16", 1)
    (got,) = layer(a, b)
    expected = np.tanh(a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), expected, atol=0.01)


SIZES = st.sampled_from([16, 32, 64, 128])


@settings(max_examples=30, deadline=None)
@given(
    SIZES,
    SIZES,
    st.sampled_from([32, 64]),
    st.sampled_from([64, 96, 128]),
    st.sampled_from([1, 2]),
    st.data(),
)
def test_places_hold_every_element_once(
    rows: int, columns: int, depth: int, threads: int, item: int, data: st.DataObject
) -> None:
    found = matrix_fragments(rows, columns, depth, threads, item)
    reader = data.draw(st.sampled_from([found.lhs, found.rhs]))
    order = data.draw(st.sampled_from([(0, 1), (1, 0)]))
    writer = blocked(reader.shape, threads, 16 // item, order)
    place = storage(types.i8 if item == 1 else types.bf16, [User(writer), User(reader, by_matrix=True)])
    everything = [place.at((r, c)) for r in range(reader.shape[0]) for c in range(reader.shape[1])]
    assert len(set(everything)) == len(everything) and max(everything) < place.elements
    read = matrix_rows(reader, place)
    if item == 2:  # along either dimension, in as few wavefronts as there are
        assert read is not None and place.wavefronts(read.layout, 8) <= 4
    if read is not None:
        assert read.layout.registers * read.words * 4 // item == reader.registers
