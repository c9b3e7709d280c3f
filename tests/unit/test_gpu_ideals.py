# SPDX-License-Identifier: Apache-2.0
"""How near kernels of the common families come to the ideal of a GPU's memory, for the shapes that people have.

Where rows do not begin with a sector, they move as lines (`codegen/nvptx/lines.py`, `line_memory.py`). Products of such rows are the one
exception: what a warp asks for, 128 bytes in a row, lies in five sectors where four would do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.counted import Counted, counted

TARGET = nvptx_target("sm_90a")
NEAR, ONE_MORE = 1.1, 1.3


def kernels(
    takes: Sequence[str], gives: str, body: str, arguments: Sequence[np.ndarray] | None = None
) -> list[Counted]:
    given = ", ".join(f"%{name}: {type}" for name, type in zip("abc", takes, strict=False))
    text = f"func.func @main({given}) -> {gives} {{\n {body}\n func.return %r : {gives}\n}}"
    return counted(assemble(lower(from_text(text), TARGET), TARGET), TARGET.cpu, 12, arguments)


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def hold(found: Sequence[Counted], sectors: float = NEAR, useful: float = 0.9) -> None:
    assert found
    for each in found:
        c = each.counters
        if c.memory_bytes < 1 << 14:
            continue  # the last step of a reduction, of a few rows
        assert c.globally_asked.ratio <= sectors and c.shared.ratio <= NEAR, c.kernel
        assert c.useful_threads >= useful, c.kernel
        assert not each.spills, c.kernel


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("shape", [(1000003,), (65536, 10), (3, 1000, 7), (333, 37), (127, 1001)])
def test_elementwise(shape: tuple[int, ...], element: str) -> None:
    x = tensor(shape, element)
    hold(kernels([x, x], x, f"%r = ng.maximum %a, %b : {x}"))


ODD = [
    (65536, 3),
    (40000, 5),
    (30000, 7),
    (65536, 10),
    (6000, 33),
    (6000, 37),
    (1000, 251),
    (500, 1001),
    (100, 5003),
]


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
@pytest.mark.parametrize("shape", [*ODD, (3, 1000, 7), (512, 512), (333, 37), (127, 1001), (16, 65537)])
def test_rows(shape: tuple[int, ...], element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[:-1], element)
    # Of a row of 3 in 4 lanes, or of 5 in 8, some are idle while it is read.
    body = f"%r = ng.max %a axes [{len(shape) - 1}] : ({x}) -> {y}"
    hold(kernels([x], y, body), useful=0.9 if shape[-1] >= 64 else 0.8)


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("shape", ODD)
def test_rows_that_are_written(shape: tuple[int, int], element: str) -> None:
    x = tensor(shape, element)
    hold(kernels([x], x, f"%r = ng.softmax %a axes [1] : {x}"))


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize(
    ("shape", "sectors"),
    [
        *(
            ((65536, 10), NEAR),
            ((512, 512), NEAR),
            ((96, 4, 64), NEAR),
            ((1000, 251), NEAR),
            ((500, 1001), 1.11),
        ),
        # Of too many rows for the registers of a block, and few columns, tiles are narrow so that more blocks are: 128 bytes that
        # begin off a sector lie in five, 64 in three.
        *(((127, 1001), ONE_MORE), ((100, 5003), ONE_MORE)),
    ],
)
def test_columns(shape: tuple[int, ...], sectors: float, element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[-1:], element)
    axes = list(range(len(shape) - 1))
    found = kernels([x], y, f"%r = ng.max %a axes {axes} : ({x}) -> {y}")
    hold(found, 1.5 if sectors == ONE_MORE and element == "bf16" else sectors)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("shape", [shape for shape in ODD if shape[1] < 5000])
def test_positions_in_rows(shape: tuple[int, int], element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[:1], "i64")
    hold(
        kernels([x], y, f"%r = ng.argmax %a axes [1] : ({x}) -> {y}"), useful=0.9 if shape[-1] >= 64 else 0.8
    )


@pytest.mark.parametrize(
    ("shape", "sectors"),
    [
        ((40000, 5), NEAR),
        ((6000, 37), ONE_MORE),
        ((1000, 251), NEAR),
        ((500, 1001), NEAR),
    ],  # of narrow tiles, as above
)
def test_positions_in_columns(shape: tuple[int, int], sectors: float) -> None:
    x, y = tensor(shape), tensor(shape[1:], "i64")
    (first, *_) = kernels([x], y, f"%r = ng.argmax %a axes [0] : ({x}) -> {y}")
    hold([first], sectors)


@pytest.mark.parametrize("element", ["f32", "bf16", "f64", "i8"])
@pytest.mark.parametrize("shape", [(65536, 10), (512, 512), (96, 640), (1024, 96), (64, 64)])
def test_transposes(shape: tuple[int, int], element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[::-1], element)
    hold(kernels([x], y, f"%r = ng.transpose %a perm [1, 0] : ({x}) -> {y}"))


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("shape", [(1771, 37), (127, 1001), (513, 129), (1001, 1001), (333, 777)])
def test_transposes_of_rows_that_are_off_a_sector(shape: tuple[int, int], element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[::-1], element)
    hold(kernels([x], y, f"%r = ng.transpose %a perm [1, 0] : ({x}) -> {y}"))


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("shape", [(65537, 10), (333, 37), (127, 1001)])
def test_what_is_computed_with_a_row_or_a_column(shape: tuple[int, int], across: int, element: str) -> None:
    x, y = tensor(shape, element), tensor(shape[across : across + 1], element)
    body = f"%0 = ng.broadcast %b dims [{across}] : ({y}) -> {x}\n %r = ng.maximum %a, %0 : {x}"
    hold(kernels([x, y], x, body))


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
def test_pads_and_concatenations(element: str) -> None:
    for shape, low, high in (
        ((256, 256), (1, 1), (1, 1)),
        ((8, 30, 30, 16), (0, 1, 1, 0), (0, 1, 1, 0)),
        ((250000,), (3,), (5,)),
    ):
        x, y = tensor(shape, element), tensor([sum(s) for s in zip(shape, low, high, strict=True)], element)
        hold(kernels([x], y, f"%r = ng.pad %a low {[*low]} high {[*high]} : ({x}) -> {y}"))
    for lengths in ((100003, 200005), (333 * 37, 500 * 37)):
        x, z = (tensor((n,), element) for n in lengths)
        y = tensor((sum(lengths),), element)
        hold(kernels([x, z], y, f"%r = ng.concatenate %a, %b axis 0 : ({x}, {z}) -> {y}"))


@pytest.mark.parametrize("width", [64, 96, 1000])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers(width: int, axis: int) -> None:
    """Whole rows, and columns of which all are wanted."""
    count = 300 if axis == 0 else width
    x, at = tensor((300, width)), tensor((count,), "i32")
    y = tensor((count, width) if axis == 0 else (300, count))
    given = [np.zeros((300, width), np.float32), np.roll(np.arange(count, dtype=np.int32), 32)]
    hold(kernels([x, at], y, f"%r = ng.gather %a[%b] axis {axis} : ({x}, {at}) -> {y}", given))


@pytest.mark.parametrize(("first", "last"), [(64, 72), (3, 13), (0, 100), (8, 256)])
def test_slices_of_columns(first: int, last: int) -> None:
    x, y = tensor((4096, 256)), tensor((4096, last - first))
    body = f"%r = ng.slice %a from [0, {first}] to [4096, {last}] step [1, 1] : ({x}) -> {y}"
    hold(kernels([x], y, body))


@pytest.mark.parametrize("step", [2, 3, 8])
def test_every_so_many_th_element_touches_each_sector_once(step: int) -> None:
    n = 4096
    x, y = tensor((n * step,)), tensor((n,))
    hold(kernels([x], y, f"%r = ng.slice %a from [0] to [{n * step}] step [{step}] : ({x}) -> {y}"))


@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("shape", [(128, 128, 128), (192, 64, 96), (128, 784, 512)])
def test_products(shape: tuple[int, int, int], element: str) -> None:
    m, k, n = shape
    a, b, y = tensor((m, k), element), tensor((k, n), element), tensor((m, n))
    hold(kernels([a, b], y, f"%r = ng.dot %a, %b contract [1] x [0] : ({a}, {b}) -> {y}"))


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_what_products_copy_in_the_background_is_asked_for_too(turned: tuple[bool, bool]) -> None:
    """Rows of tiles that are shorter than 128 bytes are copied without meeting in a bank."""
    x = tensor((512, 512), "bf16")
    body = f"%r = ng.dot %a, %b contract [{int(not turned[0])}] x [{int(turned[1])}] : {x}"
    (found,) = kernels([x, x], x, body)
    hold([found])
    assert found.counters.reads.touched == 2 * 512 * 512 * 2 // 32


@pytest.mark.parametrize("element", ["i32", "i64", "i8", "f32"])
@pytest.mark.parametrize("shape", [(300, 4096), (512, 1000), (5000, 33), (20000, 8)])
def test_rows_in_order(shape: tuple[int, int], element: str) -> None:
    """One kernel sorts rows, after one that makes integers of floats; in no step do lanes meet in a bank."""
    x, y = tensor(shape, element), tensor(shape, "i32")
    found = kernels([x], y, f"%r = ng.argsort %a axis 1 : ({x}) -> {y}")
    assert len(found) == 1 + (element == "f32")
    hold(found)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((40000, 5), 1), ((6000, 37), 1), ((500, 1001), 1), ((300, 256), 0), ((8, 1000, 64), 1)],
)
def test_what_runs_along_lines(shape: tuple[int, ...], axis: int, element: str) -> None:
    x = tensor(shape, element)
    hold(kernels([x], x, f"%r = ng.cumulative_max %a axis {axis} : {x}"))


@pytest.mark.parametrize(("first", "last"), [(0, 64), (16, 256), (3, 200)])
def test_columns_of_a_slice_are_read_in_tiles(first: int, last: int) -> None:
    x, y, z = tensor((4096, 256)), tensor((4096, last - first)), tensor((last - first,))
    body = f"""%s = ng.slice %a from [0, {first}] to [4096, {last}] step [1, 1] : ({x}) -> {y}
 %r = ng.sum %s axes [0] : ({y}) -> {z}"""
    (found, *_) = kernels([x], z, body)
    hold([found])
    assert found.counters.flight_bytes >= 64


def test_a_slice_that_lies_in_one_piece_is_no_kernel() -> None:
    """Where it begins at a piece of 16 bytes it is a view; elsewhere it is read on the way."""
    for first in (64, 63):
        body = f"""%s = ng.slice %a from [{first}] to [8192] step [1] : (tensor<9000xf32>) -> tensor<{8192 - first}xf32>
 %r = ng.tanh %s : tensor<{8192 - first}xf32>"""
        found = kernels(["tensor<9000xf32>"], f"tensor<{8192 - first}xf32>", body)
        assert [each.counters.kernel for each in found] == ["map_tanh"]
