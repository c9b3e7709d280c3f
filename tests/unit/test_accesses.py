# SPDX-License-Identifier: Apache-2.0
"""Accesses whose range is known are held against their buffer; what is not known is not judged."""

from __future__ import annotations

import pytest

from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError

KERNEL = """
tile.kernel @k(%x: memref<8x64xf32>, %y: memref<8x64xf32>{index}) attributes {{grid = array<i64{grid}>}} {{
  %c0 = ng.constant 0 : index
  %c1 = ng.constant 1 : index
  %c8 = ng.constant 8 : index
  %c16 = ng.constant 16 : index
  %c64 = ng.constant 64 : index
{body}
  tile.return
}}
"""
LOOPS = """
  tile.for %i = {rows} {{
    tile.for %j = {columns} {{
      %v = tile.load %x[{load}] : memref<8x64xf32>, vector<{tile}xf32>
      tile.store %v, %y[%i, %j] : vector<{tile}xf32>, memref<8x64xf32>
      ng.yield
    }}
    ng.yield
  }}"""


def kernel(body: str, grid: str = "", index: str = "") -> str:
    return KERNEL.format(body=body, grid=grid and f": {grid}", index=index)


def loops(
    rows: str = "%c0 to %c8 step %c1",
    columns: str = "%c0 to %c64 step %c16",
    load: str = "%i, %j",
    tile: str = "16",
) -> str:
    return kernel(LOOPS.format(rows=rows, columns=columns, load=load, tile=tile))


@pytest.mark.parametrize(
    "text, message",
    [
        (loops(rows="%c0 to %c16 step %c1"), r"'tile.load' touches element 15 of dimension 0 of %x, which has 8"),
        (loops(columns="%c0 to %c64 step %c1"), "element 78 of dimension 1 of %x, which has 64"),
        (loops(columns="%c1 to %c64 step %c16"), "element 64 of dimension 1"),
        (loops(tile="64"), "element 111 of dimension 1"),
        (loops(tile="2x16", rows="%c1 to %c8 step %c1"), "element 8 of dimension 0"),
        (kernel("  %v = tile.load %x[%c0, %c64] : memref<8x64xf32>, f32"), "element 64 of"),
        (kernel("  %n = ng.subtract %c0, %c1 : index\n  %v = tile.load %x[%n, %c0] : memref<8x64xf32>, f32"), "element -1 of dimension 0"),
        (kernel("  %s = tile.subview %x[%c8, %c0] : memref<8x64xf32>, memref<64xf32, strided<[1], offset: ?>>"), "element 8 of dimension 0"),
        (kernel("  %v = tile.gather %x[%c8, %c0] : memref<8x64xf32>, f32"), "element 8 of dimension 0"),
        (kernel("  %v = tile.load %x[%p, %c0] : memref<8x64xf32>, f32", grid="9", index=", %p: index"), "element 8 of dimension 0"),
        (kernel("  %at = ng.multiply %p, %c16 : index\n  %v = tile.load %x[%c0, %at] {steps = array<i64: 4>} : memref<8x64xf32>, vector<8xf32>", grid="4", index=", %p: index"), "element 76 of dimension 1"),
        (kernel("  %v = tile.load %x[%c0, %c0] {dims = array<i64: 0>} : memref<8x64xf32>, vector<9xf32>"), "element 8 of dimension 0"),
    ],
)  # fmt: skip
def test_what_leaves_its_buffer_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        from_text(text, file="k.ngir")
    assert all(d.location.file == "k.ngir" and d.location.line > 5 for d in caught.value.diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        loops(),
        loops(rows="%c8 to %c0 step %c1"),  # never runs
        loops(tile="8x16", rows="%c0 to %c1 step %c1"),
        loops(load="%i, %c0", columns="%c0 to %c1 step %c1", tile="64"),
        kernel("  %v = tile.load %x[%c0, %c64] {masked} : memref<8x64xf32>, vector<16xf32>"),
        kernel("  %v = tile.load %x[%p, %c0] : memref<8x64xf32>, f32", grid="8", index=", %p: index"),
        # Of what is never run, or only perhaps, nothing is said.
        kernel("  %v = tile.load %x[%p, %c64] : memref<8x64xf32>, f32", grid="0", index=", %p: index"),
        kernel("  %d = ng.subtract %p, %p : index\n  %v = tile.load %x[%d, %c0] : memref<8x64xf32>, f32", grid="99", index=", %p: index"),
        kernel("  %m = ng.minimum %p, %c1 : index\n  %v = tile.load %x[%m, %c0] : memref<8x64xf32>, f32", grid="99", index=", %p: index"),
        kernel("  %in = ng.less %p, %c8 : (index, index) -> i1\n  ng.if %in {\n    %v = tile.load %x[%p, %c0] : memref<8x64xf32>, f32\n    ng.yield\n  } else {\n    ng.yield\n  }", grid="99", index=", %p: index"),
    ],
)  # fmt: skip
def test_what_may_be_right_is_taken(text: str) -> None:
    from_text(text)


def test_views_lie_in_their_arena() -> None:
    text = """func.func @main(%x: memref<4xf32>, %arena: memref<64xi8>) attributes {ng.arguments = 1 : i64, ng.results = 0 : i64} {
      %v = tile.view %arena at OFFSET : memref<4xf32>
      tile.copy %x, %v : memref<4xf32>, memref<4xf32>
      return
    }"""
    from_text(text.replace("OFFSET", "48"))
    with pytest.raises(UserError, match="shows bytes 64 to 80 of 64 bytes"):
        from_text(text.replace("OFFSET", "64"))
    with pytest.raises(UserError, match="begins at byte 2, which is not a multiple of the 4 bytes of f32"):
        from_text(text.replace("OFFSET", "2"))
