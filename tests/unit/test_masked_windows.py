# SPDX-License-Identifier: Apache-2.0
"""Windows that leave their buffer: what is not there is copied as 0, on every target, in the background and at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import Limit, UserError

TARGETS = ("cpu", "cuda-sim")
DTYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "f16": np.float16}


def program(
    element: str, whole: tuple[int, int], window: tuple[int, int], at: tuple[int, int], background: bool
) -> str:
    """Copies a window to shared memory, and what came there to the result."""
    source, kept = f"memref<{whole[0]}x{whole[1]}x{element}>", f"memref<{window[0]}x{window[1]}x{element}, 3>"
    shown = f"memref<{window[0]}x{window[1]}x{element}, strided<[{whole[1]}, 1], offset: ?>>"
    out = f"{window[0]}x{window[1]}x{element}"
    copied = f"tile.copy %part, %kept : {shown}, {kept}"
    if background:
        copied = f"%t = tile.copy_async %part, %kept : {shown}, {kept}\n tile.wait %t : !tile.token"
    return f"""
func.func @main(%x: tensor<{whole[0]}x{whole[1]}x{element}>) -> tensor<{out}> {{
  %r = tile.call @k ins(%x) -> tensor<{out}>
  func.return %r : tensor<{out}>
}}
tile.kernel @k ins(%x: {source}) outs(%y: memref<{out}>) {{
  %i = ng.constant {at[0]} : index
  %j = ng.constant {at[1]} : index
  %kept = tile.alloc : {kept}
  %part = tile.subview %x[%i, %j] {{masked}} : {source}, {shown}
  {copied}
  tile.barrier
  tile.copy %kept, %y : {kept}, memref<{out}>
  tile.return
}}
"""


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(DTYPES)),
    st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 3, 8, 16, 17, 48])),
    st.tuples(st.sampled_from([1, 4, 7]), st.sampled_from([1, 5, 16, 32])),
    st.tuples(st.integers(-9, 11), st.one_of(st.integers(-40, 60), st.sampled_from([-32, -16, 16, 32]))),
    st.booleans(),
)
@example("f32", (4, 16), (4, 16), (0, 0), True)
@example("f32", (3, 16), (4, 32), (2, -16), True)
@example("f16", (0, 0), (4, 16), (0, 0), False)
@example("i8", (9, 48), (4, 32), (8, 32), True)
def test_what_is_not_there_is_copied_as_zero(
    element: str, whole: tuple[int, int], window: tuple[int, int], at: tuple[int, int], background: bool
) -> None:
    x = (np.arange(whole[0] * whole[1]) % 100 + 1).reshape(whole).astype(DTYPES[element])
    wanted = np.zeros(window, x.dtype)
    for r in range(window[0]):
        for c in range(window[1]):
            if 0 <= at[0] + r < whole[0] and 0 <= at[1] + c < whole[1]:
                wanted[r, c] = x[at[0] + r, at[1] + c]
    module = from_text(program(element, whole, window, at, background))
    np.testing.assert_array_equal(run(module, x)[0], wanted)
    for target in TARGETS:
        (found,) = compile_module(module, target=target)(x)
        np.testing.assert_array_equal(found, wanted, err_msg=target)


def test_only_copies_read_a_window_that_leaves_its_buffer() -> None:
    with pytest.raises(UserError) as caught:
        from_text("""
tile.kernel @k ins(%x: memref<10xf32>, %some: memref<i1>) outs(%y: memref<8xf32>) {
  %c0 = ng.constant 0 : index
  %c6 = ng.constant 6 : index
  %if = tile.load %some[] : memref<i1>, i1
  %part = tile.subview %x[%c6] {masked} : memref<10xf32>, memref<8xf32, strided<[1], offset: ?>>
  ng.if %if {
    %v = tile.load %part[%c0] : memref<8xf32, strided<[1], offset: ?>>, vector<8xf32>
    tile.store %v, %y[%c0] : vector<8xf32>, memref<8xf32>
    ng.yield
  } else {
    ng.yield
  }
  tile.copy %y, %part : memref<8xf32>, memref<8xf32, strided<[1], offset: ?>>
  tile.return
}
""")
    said = str(caught.value)
    assert "8:5: error: 'tile.load' uses %part, which may be out of bounds of its buffer" in said
    assert "14:3: error: 'tile.copy' uses %part" in said and "6:3: note: it is masked here" in said


def test_between_kernels_it_is_refused_by_name() -> None:
    module = from_text("""
func.func @main(%x: memref<10xf32>, %y: memref<8xf32>, %arena: memref<0xi8>) attributes {ng.arguments = 2 : i64, ng.results = 1 : i64, ng.tied = array<i64: 0, 1>} {
  %c6 = ng.constant 6 : index
  %part = tile.subview %x[%c6] {masked} : memref<10xf32>, memref<8xf32, strided<[1], offset: ?>>
  tile.copy %part, %y : memref<8xf32, strided<[1], offset: ?>>, memref<8xf32>
  func.return
}
""")
    with pytest.raises(Limit, match="a masked window between kernels"):
        compile_module(module, target="cuda-sim")
