# SPDX-License-Identifier: Apache-2.0
"""Products whose sides wait in shared memory, on the simulated device, which finds races and reads of what is not there."""

from __future__ import annotations

import re
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from ngmlir.compiler import assemble, compile_module, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime import ptxas
from ngmlir.runtime.counted import counted, registers_of

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8}


def program(m: int, k: int, n: int, element: str, result: str, turned: tuple[bool, bool], stages: int) -> str:
    left = f"tensor<{k}x{m}x{element}>" if turned[0] else f"tensor<{m}x{k}x{element}>"
    right = f"tensor<{n}x{k}x{element}>" if turned[1] else f"tensor<{k}x{n}x{element}>"
    made, axes = f"tensor<{m}x{n}x{result}>", (int(not turned[0]), int(turned[1]))
    return f"""func.func @main(%x: {left}, %w: {right}) -> {made} {{
  %r = ng.dot %x, %w contract [{axes[0]}] x [{axes[1]}] {{ng.schedule = {{stages = {stages} : i64}}}} : ({left}, {right}) -> {made}
  return %r : {made}
}}
"""


@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)))
@pytest.mark.parametrize(("element", "result"), [("bf16", "bf16"), ("f16", "f32"), ("i8", "i32")])
@pytest.mark.parametrize(("size", "stages"), [((64, 128, 64), 2), ((64, 256, 32), 3), ((66, 128, 32), 3)])
def test_sides_wait_in_shared_memory(
    turned: tuple[bool, bool], element: str, result: str, size: tuple[int, int, int], stages: int
) -> None:
    m, k, n = size
    draw = np.random.default_rng(0)
    x, w = (
        draw.integers(-9, 9, s[:: -1 if t else 1]).astype(DTYPES[element])
        for s, t in zip(((m, k), (k, n)), turned, strict=True)
    )
    module = from_text(program(m, k, n, element, result, turned, stages))
    (found,) = compile_module(module, target="cuda-sim")(x, w)
    wide = np.float64 if element != "i8" else np.int64
    wanted = (x.T if turned[0] else x).astype(wide) @ (w.T if turned[1] else w).astype(wide)
    np.testing.assert_array_equal(found, wanted.astype(np.float32).astype(np.asarray(found).dtype))


@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)))
@pytest.mark.parametrize(("element", "result"), [("bf16", "f32"), ("f16", "f16"), ("i8", "i32")])
@pytest.mark.parametrize(
    "size",
    [
        (40, 72, 24),
        (136, 1000, 8),
        (8, 8, 200),
        (127, 129, 131),
        (16, 208, 112),
        (70, 134, 66),
        (60, 196, 68),
        (64, 4, 12),
    ],
)
def test_tiles_reach_beyond_the_sides(
    turned: tuple[bool, bool], element: str, result: str, size: tuple[int, int, int]
) -> None:
    """What is not there is 0, whatever the other side has: nothing of it is finite in the last column of the left one."""
    m, k, n = size
    draw = np.random.default_rng(0)
    x, w = (draw.integers(-3, 3, s).astype(DTYPES[element]) for s in ((m, k), (k, n)))
    if element != "i8":
        x[0, -1], w[-1, 0] = np.inf, np.nan
    module = from_text(program(m, k, n, element, result, turned, 3))
    given = [np.ascontiguousarray(v.T) if t else v for v, t in zip((x, w), turned, strict=True)]
    (found,) = compile_module(module, target="cuda-sim")(*given)
    wide = np.float64 if element != "i8" else np.int64
    with np.errstate(all="ignore"):
        wanted = (x.astype(wide) @ w.astype(wide)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(found).astype(np.float32), wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_of_any_size_is_copied_in_the_background(arch: str) -> None:
    target = nvptx_target(arch)
    text = program(1000, 1000, 1000, "bf16", "f32", (False, False), 1).replace(
        " {ng.schedule = {stages = 1 : i64}}", ""
    )
    assert "cp.async" in assemble(lower(from_text(text), target), target).code.decode()
    narrow = text.replace("1000", "1002")  # whose rows begin at a piece of 4 bytes
    assert "cp.async.ca.shared.global" in assemble(lower(from_text(narrow), target), target).code.decode()
    # Where rows begin anywhere, no piece that is copied is aligned: sides are copied so that they are, or the product is small.
    for size, staged in (("1001", True), ("401", False)):
        other = text.replace("1000", size)
        assert ("cp.async" in assemble(lower(from_text(other), target), target).code.decode()) == staged


def test_rounds_are_copied_in_the_background_and_read_by_ldmatrix() -> None:
    target = nvptx_target("sm_80")
    text = program(128, 256, 128, "bf16", "f32", (False, False), 3).replace(
        "stages", "step = 32 : i64, stages"
    )
    module = lower(from_text(text), target)
    (kernel,) = [op for op in module.ops if op.name == "tile.kernel"]
    names = [op.name for op in kernel.walk()]
    assert names.count("tile.copy_async") == 6  # of both sides: two rounds before the loop, one in it
    assert "tile.copy" not in names and names.count("tile.barrier") <= 1
    code = assemble(module, target).code.decode()
    assert "cp.async.cg.shared.global" in code and "ld.shared" not in code.split("mma.sync")[1]
    assert "ldmatrix" in code and re.search(
        r"wait_group\s+2", code
    )  # one round of two copies stays under way


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("size", "sectors"), [(402, 1.5), (1002, 1.25)])
def test_rows_of_whole_pieces_of_4_bytes_ask_for_little_more(arch: str, size: int, sectors: float) -> None:
    """What a tile has of a row that begins off a sector lies in one sector more: of 128 bytes in five, of 64 in three."""
    target = nvptx_target(arch)
    text = program(size, size, size, "bf16", "bf16", (False, True), 1).replace(
        " {ng.schedule = {stages = 1 : i64}}", ""
    )
    (found,) = counted(assemble(lower(from_text(text), target), target), arch, 6)
    counters = found.counters
    assert counters.globally_asked.ratio <= sectors and counters.shared.ratio <= 1.1
    assert counters.useful_threads >= 0.9 and not found.spills


@pytest.mark.skipif(not ptxas.available(), reason="needs ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("size", [128, 130, 131])
def test_ptxas_gives_up_no_optimisation(arch: str, size: int) -> None:
    target = nvptx_target(arch)
    text = program(size, size, size, "bf16", "bf16", (False, False), 3)
    assert not ptxas.assemble(assemble(lower(from_text(text), target), target).code.decode(), arch).warnings


@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)))
@pytest.mark.parametrize("element", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize(
    "size", [(64, 96, 64), (33, 65, 17), (1, 7, 100), (128, 40, 3), (5, 1, 5), (70, 129, 130), (17, 31, 1)]
)
def test_products_by_multiply_adds_load_a_round_ahead(
    turned: tuple[bool, bool], element: str, size: tuple[int, int, int]
) -> None:
    """Also where a tile reaches beyond both sides; what is not a number stays in its row and column."""
    m, k, n = size
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}[element]
    draw = np.random.default_rng(0)
    x, w = (
        draw.integers(-9, 9, s[:: -1 if t else 1]).astype(kind)
        for s, t in zip(((m, k), (k, n)), turned, strict=True)
    )
    if element[0] == "f":
        x[0, 0], w[-1, -1] = np.nan, np.inf
    text = program(m, k, n, element, element, turned, 1).replace(" {ng.schedule = {stages = 1 : i64}}", "")
    (found,) = compile_module(from_text(text), target="cuda-sim")(x, w)
    with np.errstate(invalid="ignore"):
        wanted = (x.T if turned[0] else x) @ (w.T if turned[1] else w)
    np.testing.assert_array_equal(found, wanted)


def with_a_residual(m: int, k: int, n: int, element: str, result: str, turned: tuple[bool, bool]) -> str:
    """To the product a tensor of its size is added."""
    text, made = program(m, k, n, element, result, turned, 1), f"tensor<{m}x{n}x{result}>"
    text = text.replace(" {ng.schedule = {stages = 1 : i64}}", "").replace("%r = ng.dot", "%0 = ng.dot")
    text = text.replace(f") -> {made} {{", f", %c: {made}) -> {made} {{", 1)
    return text.replace("  return", f"  %r = ng.add %0, %c : {made}\n  return")


@pytest.mark.parametrize("size", [(64, 64, 128), (131, 40, 135)])
@pytest.mark.parametrize(
    ("element", "result"), [("bf16", "bf16"), ("f16", "f32"), ("i8", "i32"), ("f32", "f32")]
)
def test_what_is_added_is_loaded_as_it_lies(size: tuple[int, int, int], element: str, result: str) -> None:
    """Sums go to where it is: by elements with all that elementwise ops give beside them, infinities and NaN too."""
    m, k, n = size
    types, draw = DTYPES | {"f32": np.float32, "i32": np.int32}, np.random.default_rng(0)
    x, w, c = (
        draw.integers(-4, 5, shape).astype(types[each])
        for shape, each in (((m, k), element), ((k, n), element), ((m, n), result))
    )
    if element != "i8":
        c[3, 5], c[-1, -1] = np.nan, np.inf
    wanted = (x.astype(np.float64) @ w.astype(np.float64)).astype(types[result]) + c
    (got,) = compile_module(from_text(with_a_residual(*size, element, result, (False, False))), "cuda-sim")(
        x, w, c
    )
    np.testing.assert_array_equal(np.asarray(got).astype(np.float64), wanted.astype(np.float64))


def test_what_is_added_comes_a_few_elements_after_the_others() -> None:
    """Beside so many sums not all of it finds registers: some is loaded when the first has been added."""
    cut = "{ng.schedule = {tile = [32, 256], threads = 64 : i64}} : (tensor<40x"
    text = with_a_residual(40, 24, 268, "bf16", "f32", (False, False)).replace(": (tensor<40x", cut, 1)
    draw = np.random.default_rng(0)
    x, w = (draw.integers(-4, 5, shape).astype(DTYPES["bf16"]) for shape in ((40, 24), (24, 268)))
    c = draw.integers(-4, 5, (40, 268)).astype(np.float32)
    c[3, 5], c[-1, -1] = np.nan, np.inf
    (got,) = compile_module(from_text(text), "cuda-sim")(x, w, c)
    np.testing.assert_array_equal(got, x.astype(np.float32) @ w.astype(np.float32) + c)
    code = assemble(lower(from_text(text), target := nvptx_target("sm_80")), target).code.decode()
    assert re.search(r"ld\.global\.nc[^;]*;(?s:.*)add\.rn\.f32(?s:.*)ld\.global\.nc", code)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_to_add_costs_nothing_in_shared_memory(arch: str) -> None:
    """The sums pass there on the way to whole rows, with or without what is added."""
    target, size = nvptx_target(arch), (512, 256, 512, "bf16", "bf16", (False, False))
    plain = program(*size, 1).replace(" {ng.schedule = {stages = 1 : i64}}", "")
    (alone,), (added,) = (
        counted(assemble(lower(from_text(text), target), target), arch, 2)
        for text in (plain, with_a_residual(*size))
    )
    assert added.counters.shared.parts == alone.counters.shared.parts and not added.spills


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("size", "element", "result", "added"),
    [
        # Of many sums: whose rows end within pieces; to which is added what lies as they do, or in lines that begin off a sector.
        ((7091, 29, 236), "f32", "f32", False), ((3116, 88, 732), "bf16", "f32", True), ((261, 440, 7359), "bf16", "f32", True),
        ((1547, 2463, 1857), "ui8", "i32", True), ((1662, 6543, 1395), "f16", "f16", True),
    ],
)  # fmt: skip
def test_turned_products_spill_nothing(
    arch: str, size: tuple[int, int, int], element: str, result: str, added: bool
) -> None:
    target, turned = nvptx_target(arch), (True, True)
    plain = program(*size, element, result, turned, 1).replace(" {ng.schedule = {stages = 1 : i64}}", "")
    text = with_a_residual(*size, element, result, turned) if added else plain
    found = registers_of(assemble(lower(from_text(text), target), target), arch)
    assert not any(spills for _, spills in found.values())
