# SPDX-License-Identifier: Apache-2.0
"""Elementwise programs and reductions of 16M elements and more take little longer on a GPU than memory takes to copy what
they read and write: bounds that are counted from a sample of blocks, on two generations; nothing is timed."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from test_gpu_ideals import tensor

from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.counted import counted, registers_of

ITEM = {"f32": 4, "i32": 4, "bf16": 2, "f16": 2, "f64": 8, "i64": 8, "i8": 1, "ui8": 1}
MANY = 1 << 24


def share(arch: str, takes: str, gives: str, body: str, moved: int) -> float:
    """Of the bandwidth of copying that all kernels together may reach at most."""
    target = nvptx_target(arch)
    body = body if "%r = " in body else f"%r = {body}"
    text = f"func.func @main(%a: {takes}) -> {gives} {{\n {body}\n func.return %r : {gives}\n}}"
    kernels = counted(assemble(lower(from_text(text), target), target), arch, 8)
    assert not any(kernel.spills for kernel in kernels)
    return moved / (target.gpu.bandwidth * 1e9) / sum(kernel.seconds(target.gpu) for kernel in kernels)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("shape", [(MANY,), (MANY + 3,), (4096, 4099)])
def test_elementwise(arch: str, element: str, shape: tuple[int, ...]) -> None:
    x, moved = tensor(shape, element), 2 * ITEM[element] * prod(shape)
    assert share(arch, x, x, f"ng.tanh %a : {x}", moved) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("shape", "element"), [((1 << 20, 2, 5), "f64"), ((1 << 20, 3, 7), "bf16")])
def test_two_short_loops_inside(arch: str, shape: tuple[int, int, int], element: str) -> None:
    """A tile spans both of them, and many steps of the loop around."""
    x, y = tensor((shape[0], shape[2]), element), tensor(shape, element)
    moved = ITEM[element] * (prod(shape) + shape[0] * shape[2])
    assert share(arch, x, y, f"ng.broadcast %a dims [0, 2] : ({x}) -> {y}", moved) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("length", [MANY, MANY + 3])
def test_random_numbers(arch: str, length: int) -> None:
    """Four neighbours are words of one block of the generator: the thread that has them computes it once."""
    y = tensor((length,))
    body = f"ng.random_uniform %a : (tensor<2xui64>) -> {y}"
    assert share(arch, "tensor<2xui64>", y, body, ITEM["f32"] * length) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("shape", [(4096, 4096), (1 << 20, 16), (16, 1 << 20), (128, 1 << 17), (4099, 4099)])
def test_rows(arch: str, element: str, shape: tuple[int, int]) -> None:
    x, y = tensor(shape, element), tensor(shape[:1], element)
    body = f"ng.sum %a axes [1] : ({x}) -> {y}"
    assert share(arch, x, y, body, ITEM[element] * prod(shape)) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("shape", "axes", "element"),
    [
        *[((4096, 4099), (1,), element) for element in ("f64", "i64", "i8")],
        ((MANY,), (0,), "i8"), ((48_126, 515), (0, 1), "ui8"), ((140, 131_072), (1,), "i8"), ((140, 131_072), (1,), "bf16"),
        ((4099, 4096), (0,), "i8"),
        *[((MANY + 43,), (0,), element) for element in ("i32", "f16", "f64")],
        *[((n, m), (0,), "f32") for n, m in [(1_000_003, 16), (1_000_003, 17), (2_396_749, 7), (254_209, 66), (65_537, 257)]],
        ((3, 5_592_407), (1,), "bf16"), ((541_201, 31), (0,), "i32"), ((1_000_003, 17), (0,), "f64"),
        *[(shape, (0, 2), "f32") for shape in [(256, 64, 1024), (64, 512, 521), (31, 37, 14639), (257, 257, 257)]],
        *[((n, m), (1,), e) for n, m in [(1_000_003, 17), (254_209, 66), (5_592_407, 3)] for e in ("f32", "bf16", "i64")],
        ((32, 128, 56, 73), (0, 2, 3), "f32"), *[((257, 257, 257), axes, "bf16") for axes in [(0, 1), (0, 2), (1, 2), (1,)]],
    ],
)  # fmt: skip
def test_sums_over_any_axes_of_any_length(
    arch: str, element: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    kept = tuple(s for d, s in enumerate(shape) if d not in axes)
    x, y = tensor(shape, element), tensor(kept, element)
    body = f"ng.sum %a axes {list(axes)} : ({x}) -> {y}"
    assert share(arch, x, y, body, ITEM[element] * (prod(shape) + prod(kept))) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("name", "element"),
    [
        *[
            (name, element)
            for name in ("exp", "exp2", "log", "tanh", "sigmoid", "sin", "cos", "tan", "asinh", "softplus")
            for element in ("bf16", "f16")
        ],
        *[(name, "f16") for name in ("log1p", "log2", "log10")],
    ],
)
def test_functions_of_halves(arch: str, element: str, name: str) -> None:
    x = tensor((MANY,), element)
    assert share(arch, x, x, f"ng.{name} %a : {x}", 2 * ITEM[element] * MANY) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize(
    "shape", [(4096, 4096), (4099, 4099), (1 << 18, 64), (1_000_003, 17), (1000, 16_807)]
)
def test_softmax(arch: str, element: str, shape: tuple[int, int]) -> None:
    x, y = tensor(shape, element), tensor(shape[:1], element)
    body = f"""%m = ng.max %a axes [1] : ({x}) -> {y}
 %mb = ng.broadcast %m dims [0] : ({y}) -> {x}
 %d = ng.subtract %a, %mb : {x}
 %e = ng.exp %d : {x}
 %s = ng.sum %e axes [1] : ({x}) -> {y}
 %sb = ng.broadcast %s dims [0] : ({y}) -> {x}
 %r = ng.divide %e, %sb : {x}"""
    assert share(arch, x, x, body, 2 * ITEM[element] * prod(shape)) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("shape", "element"),
    [
        *[((n, m), "f32") for n, m in [(4096, 4096), (1 << 20, 16), (16, 1 << 20), (1 << 14, 1 << 10), (4099, 4099)]],
        *[((n, m), "f32") for n, m in [(1000, 16_807), (2_000_000, 10)]],
        *[((n, m), "bf16") for n, m in [(4096, 4096), (1 << 10, 1 << 14), (16, 1 << 20), (1 << 14, 1 << 10), (4099, 4099)]],
        *[((n, m), "bf16") for n, m in [(65_537, 257), (254_209, 66), (1_000_003, 17), (2_396_749, 7)]],
        *[(shape, "i8") for shape in [(4099, 4096), (4099, 4099), (1_000_003, 17)]], ((4099, 4096), "ui8"),
    ],
)  # fmt: skip
def test_columns(arch: str, shape: tuple[int, int], element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[1:], element)
    body = f"ng.max %a axes [0] : ({x}) -> {y}"
    assert share(arch, x, y, body, ITEM[element] * prod(shape)) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_few_columns_do_not_fill_all_registers(arch: str) -> None:
    """So that each thread of the largest blocks has room for what it computes."""
    shape = (9, 7859, 3)
    x, y = tensor(shape, "f64"), tensor((9, 3), "f64")
    body = f"%e = ng.exp %a : {x}\n %r = ng.sum %e axes [1] : ({x}) -> {y}"
    assert share(arch, x, y, body, ITEM["f64"] * prod(shape)) >= 0.06  # by nine blocks; none spills


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_all_of_what_is_computed_with_a_row_is_made_nowhere_in_memory(arch: str, element: str) -> None:
    shape = (40_001, 411)
    x, row, v = tensor(shape, element), tensor((1, *shape[1:]), element), tensor(shape[1:], element)
    body = f"""%s = ng.slice %a from [0, 0] to [1, {shape[1]}] step [1, 1] : ({x}) -> {row}
 %v = ng.reshape %s : ({row}) -> {v}
 %b = ng.broadcast %v dims [1] : ({v}) -> {x}
 %d = ng.subtract %a, %b : {x}
 %r = ng.max %d axes [0, 1] : ({x}) -> tensor<{element}>"""
    assert share(arch, x, f"tensor<{element}>", body, ITEM[element] * prod(shape)) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_sum_of_all(arch: str) -> None:
    x = tensor((MANY,))
    assert share(arch, x, "tensor<f32>", f"ng.sum %a axes [0] : ({x}) -> tensor<f32>", 4 * MANY) >= 0.85


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("element", "shape"),
    [
        *[
            ("f32", shape)
            for shape in [(4096, 8192), (1024, 65536), (2048, 50257), (1024, 16384), (132, 131072)]
        ],
        *[("bf16", shape) for shape in [(1024, 65536), (132, 131072)]],
        *[(element, shape) for element in ("f32", "bf16") for shape in [(1 << 18, 64), (1_000_003, 17)]],
    ],
)
def test_positions_of_the_greatest(arch: str, element: str, shape: tuple[int, int]) -> None:
    x, y = tensor(shape, element), f"tensor<{shape[0]}xi64>"
    moved = ITEM[element] * prod(shape) + ITEM["i64"] * shape[0]
    assert share(arch, x, y, f"ng.argmax %a axes [1] : ({x}) -> {y}", moved) >= 0.85


def test_a_loop_that_few_blocks_run_has_more_rounds_under_way() -> None:
    """As many as memory needs to be busy, and one that is waited for: of rows of bf16 that one block of a multiprocessor
    reads in tiles of 8 KB, two and one."""
    target = nvptx_target("sm_90a")

    def stages(rows: int, element: str) -> int:
        x = tensor((rows, 28672), element)
        text = f"""func.func @main(%a: {x}) -> tensor<{rows}x{element}> {{
 %r = ng.max %a axes [1] {{ng.schedule = {{by = "rows", tile = 4096, threads = 128}}}} : ({x}) -> tensor<{rows}x{element}>
 func.return %r : tensor<{rows}x{element}>
}}"""
        names = [op.name for kernel in lower(from_text(text), target).ops for op in kernel.walk()]
        return names.count("tile.load")

    # Two tiles before the loop, and one in it, which is for the next round but one.
    assert stages(140, "bf16") == 3 and stages(140, "f32") == 1 and stages(1400, "bf16") == 1


#: What `mma.sync` reaches of the peak of a GPU's matrix instructions: that of sm_90 is of `wgmma`.
BY_MMA = {"sm_80": 1.0, "sm_90a": 0.65}


@pytest.mark.parametrize("arch", sorted(BY_MMA))
@pytest.mark.parametrize(
    ("size", "turned"), [*((1024, each) for each in product((False, True), repeat=2)), (4096, (False, False))]
)
def test_products_of_bf16(arch: str, size: int, turned: tuple[bool, bool]) -> None:
    target, x = nvptx_target(arch), tensor((size, size), "bf16")
    body = f"ng.dot %a, %b contract [{int(not turned[0])}] x [{int(turned[1])}] : {x}"
    text = f"func.func @main(%a: {x}, %b: {x}) -> {x} {{\n %r = {body}\n func.return %r : {x}\n}}"
    kernels = counted(assemble(lower(from_text(text), target), target), arch, 4)
    assert not any(kernel.spills for kernel in kernels)
    gpu = target.gpu
    peak = gpu.matrix_flops * target.multiprocessors * gpu.clock * 1e6 * BY_MMA[arch]
    assert 2 * size**3 / peak / sum(kernel.seconds(gpu) for kernel in kernels) >= 0.6


@pytest.mark.parametrize("arch", sorted(BY_MMA))
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_products_of_f32_multiply_nearly_all_the_time(arch: str, turned: tuple[bool, bool]) -> None:
    """Not by tf32: the bound is that of multiply-adds."""
    target, size = nvptx_target(arch), 2048
    x = tensor((size, size))
    body = f"ng.dot %a, %b contract [{int(not turned[0])}] x [{int(turned[1])}] : {x}"
    text = f"func.func @main(%a: {x}, %b: {x}) -> {x} {{\n %r = {body}\n func.return %r : {x}\n}}"
    kernels = counted(assemble(lower(from_text(text), target), target), arch, 2)
    assert not any(kernel.spills for kernel in kernels)
    gpu = target.gpu
    peak = 2 * gpu.multiply_adds["f32"] * target.multiprocessors * gpu.clock * 1e6
    assert 2 * size**3 / peak / sum(kernel.seconds(gpu) for kernel in kernels) >= 0.8


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("batch", "rows", "columns", "depth", "element", "result", "then"),
    [
        (0, 17_472, 1920, 32, "f64", "f64", ""), (1000, 17, 17, 17, "f64", "f64", ""),
        (0, 1111, 8617, 58, "bf16", "bf16", "ng.tanh %0"),  # of each sum much is computed
        # Sums of which each lies inside by its row and by its column.
        (0, 3776, 4360, 416, "f16", "f32", ""), (0, 8864, 8124, 2, "f32", "f32", "ng.add %0, %0"),
    ],
)  # fmt: skip
def test_products_keep_their_sums_in_registers(
    arch: str, batch: int, rows: int, columns: int, depth: int, element: str, result: str, then: str
) -> None:
    target, before = nvptx_target(arch), (batch,) if batch else ()
    x, y = tensor((*before, rows, depth), element), tensor((*before, depth, columns), element)
    z, contract = tensor((*before, rows, columns), result), len(before)
    many = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if batch else ""
    text = f"""func.func @main(%a: {x}, %b: {y}) -> {z} {{
 %0 = ng.dot %a, %b contract [{contract + 1}] x [{contract}]{many} : ({x}, {y}) -> {z}
 {f"%r = {then} : {z}" if then else ""}
 func.return {"%r" if then else "%0"} : {z}
}}"""
    found = registers_of(assemble(lower(from_text(text), target), target), arch)
    assert not any(spills for _, spills in found.values())
