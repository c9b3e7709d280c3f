# SPDX-License-Identifier: Apache-2.0
"""Matrix kernels, control flow, entry functions, and code for other machines."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from kernel_text import agree, compiled, host_with_vectors, interpreted, planned

from ngmlir.codegen import cpu
from ngmlir.llvm.machine import assembly, cpu_target, host_target
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import Limit

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
}
SUMS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32", "i8": "i32", "ui8": "i32", "i32": "i32"}


def numbers(shape: tuple[int, ...], dtype: str = "f32", seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype[0] in "iu":
        return random.integers(0 if dtype[0] == "u" else -9, 9, shape).astype(DTYPES[dtype])
    return random.standard_normal(shape).astype(DTYPES[dtype])


def matmul(
    m: int,
    n: int,
    k: int,
    block: tuple[int, int, int],
    dtype: str = "f32",
    *,
    layout: str = "NN",
    packed: bool = False,
) -> str:
    """out = relu(x @ w + bias) in blocks of M x N, K in steps; one program per column of blocks."""
    mr, nr, ku = block
    total = SUMS[dtype]
    x, w = (f"{m}x{k}", f"{k}x{n}")
    lhs, rhs = "%i, %q", "%q, %j"
    turn_lhs = turn_rhs = ""
    if layout[0] == "T":
        x, lhs, turn_lhs = f"{k}x{m}", "%q, %i", "dims = array<i64: 1, 0>, "
    if layout[1] == "T":
        w, rhs, turn_rhs = f"{n}x{k}", "%j, %q", "dims = array<i64: 1, 0>, "
    acc = f"vector<{mr}x{nr}x{total}>"
    weights = f"%w[{rhs}] {{{turn_rhs}masked}} : (memref<{w}x{dtype}>, index, index)"
    pack = ""
    if packed:
        pack = f"""
      %panel = tile.alloc : memref<{k}x{nr}x{dtype}, 3>
      tile.for %q = %c0 to %k {{
        %v = tile.load %w[{rhs}] {{{turn_rhs}masked}} : memref<{w}x{dtype}>, vector<1x{nr}x{dtype}>
        tile.store %v, %panel[%q, %c0] : vector<1x{nr}x{dtype}>, memref<{k}x{nr}x{dtype}, 3>
        ng.yield
      }}"""
        weights = f"%panel[%q, %c0] {{masked}} : (memref<{k}x{nr}x{dtype}, 3>, index, index)"
    zero = "0.0" if total[0] == "f" else "0"
    body = f"""
      %zero = ng.constant dense<{zero}> : {acc}
      %m = ng.constant {m} : index
      %k = ng.constant {k} : index
      %j = ng.multiply %p0, %c{nr} : index
      {pack}
      tile.for %i = %c0 to %m step %c{mr} {{
        %sum = tile.for %q = %c0 to %k step %c{ku} iter(%s = %zero) -> {acc} {{
          %a = tile.load %x[{lhs}] {{{turn_lhs}masked}} : memref<{x}x{dtype}>, vector<{mr}x{ku}x{dtype}>
          %b = tile.load {weights} -> vector<{ku}x{nr}x{dtype}>
          %t = tile.dot %a, %b, %s : {acc}
          ng.yield %t : {acc}
        }}
        %bias = tile.load %y[%j] {{masked}} : memref<{n}x{total}>, vector<{nr}x{total}>
        %rows = ng.broadcast %bias dims [1] : (vector<{nr}x{total}>) -> {acc}
        %moved = ng.add %sum, %rows : {acc}
        %r = ng.maximum %moved, %zero : {acc}
        tile.store %r, %o[%i, %j] {{masked}} : {acc}, memref<{m}x{n}x{total}>
        ng.yield
      }}"""
    inputs = {"x": f"memref<{x}x{dtype}>", "w": f"memref<{w}x{dtype}>", "y": f"memref<{n}x{total}>"}
    return planned(inputs, {"o": f"memref<{m}x{n}x{total}>"}, body, (-(-n // nr),))


def check_matmul(text: str, m: int, n: int, k: int, dtype: str, layout: str, vector_bytes: int) -> None:
    x, w = numbers((m, k), dtype), numbers((k, n), dtype, 1)
    bias = numbers((n,), SUMS[dtype], 2)
    given_x = np.ascontiguousarray(x.T) if layout[0] == "T" else x
    given_w = np.ascontiguousarray(w.T) if layout[1] == "T" else w
    (got,) = compiled(text, [given_x, given_w, bias], host_with_vectors(vector_bytes))
    wide = np.float64 if dtype in ("f32", "f64", "f16", "bf16") else np.int64
    want = np.maximum(x.astype(wide) @ w.astype(wide) + bias, 0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    ("size", "block"),
    [
        ((12, 64, 8), (6, 64, 4)),
        ((13, 70, 9), (6, 64, 4)),
        ((1, 40, 33), (1, 40, 4)),
        ((7, 17, 1), (4, 16, 8)),
        ((5, 1, 30), (5, 1, 4)),
        ((18, 48, 16), (6, 16, 4)),
    ],
)
def test_matmul(
    size: tuple[int, int, int], block: tuple[int, int, int], layout: str, vector_bytes: int
) -> None:
    text = matmul(*size, block, layout=layout)
    check_matmul(text, *size, "f32", layout, vector_bytes)


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i8", "ui8", "i32"])
def test_matmul_of_other_elements(dtype: str) -> None:
    size, block = (13, 50, 11), (6, 32, 4)
    check_matmul(matmul(*size, block, dtype), *size, dtype, "NN", host_target().vector_bytes)


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_packed_matmul(layout: str) -> None:
    size, block = (12, 150, 37), (6, 64, 4)
    check_matmul(
        matmul(*size, block, layout=layout, packed=True), *size, "f32", layout, host_target().vector_bytes
    )


def test_dot_rounds_as_it_says() -> None:
    """k ascending, one rounding per step (two where the machine has no fma): to the bit."""
    text = matmul(6, 32, 40, (6, 32, 4))
    x, w, y = numbers((6, 40)), numbers((40, 32), seed=1), np.zeros(32, np.float32)
    (got,) = compiled(text, [x, w, y])
    total = np.zeros((6, 32))
    for k in range(40):
        product = x[:, k : k + 1].astype(np.float64) * w[k]
        if not host_target().can("fma"):
            product = product.astype(np.float32)
        total = (product + total).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(got, np.maximum(total, 0).astype(np.float32))


def test_a_store_between_load_and_dot_is_seen_in_order() -> None:
    body = """
      %zero = ng.constant dense<0.0> : vector<2x16xf32>
      %a = tile.load %x[%c0, %c0] : memref<2x4xf32>, vector<2x4xf32>
      %s = tile.alloc : memref<4x16xf32, 3>
      %w0 = tile.load %w[%c0, %c0] : memref<4x16xf32>, vector<4x16xf32>
      tile.store %w0, %s[%c0, %c0] : vector<4x16xf32>, memref<4x16xf32, 3>
      %b = tile.load %s[%c0, %c0] : memref<4x16xf32, 3>, vector<4x16xf32>
      %w1 = ng.negative %w0 : vector<4x16xf32>
      tile.store %w1, %s[%c0, %c0] : vector<4x16xf32>, memref<4x16xf32, 3>
      %t = tile.dot %a, %b, %zero : vector<2x16xf32>
      tile.store %t, %o[%c0, %c0] : vector<2x16xf32>, memref<2x16xf32>"""
    text = planned({"x": "memref<2x4xf32>", "w": "memref<4x16xf32>"}, {"o": "memref<2x16xf32>"}, body)
    agree(text, numbers((2, 4)), numbers((4, 16)), tolerance=1e-5)


def test_convolution() -> None:
    """3 x 3 over NHWC with a border of padding: a dot per tap, masked on all sides."""
    body = """
      %zero = ng.constant dense<0.0> : vector<5x16xf32>
      %up = ng.subtract %p0, %c1 : index
      tile.for %column = %c0 to %c13 step %c5 {
        %sum = tile.for %ky = %c0 to %c3 iter(%s0 = %zero) -> vector<5x16xf32> {
          %y = ng.add %up, %ky : index
          %inner = tile.for %kx = %c0 to %c3 iter(%s1 = %s0) -> vector<5x16xf32> {
            %right = ng.add %column, %kx : index
            %left = ng.subtract %right, %c1 : index
            %a = tile.load %x[%y, %left, %c0] {masked} : memref<11x13x3xf32>, vector<5x3xf32>
            %b = tile.load %w[%ky, %kx, %c0, %c0] : memref<3x3x3x16xf32>, vector<3x16xf32>
            %t = tile.dot %a, %b, %s1 : vector<5x16xf32>
            ng.yield %t : vector<5x16xf32>
          }
          ng.yield %inner : vector<5x16xf32>
        }
        tile.store %sum, %o[%p0, %column, %c0] {masked} : vector<5x16xf32>, memref<11x13x16xf32>
        ng.yield
      }"""
    text = planned(
        {"x": "memref<11x13x3xf32>", "w": "memref<3x3x3x16xf32>"}, {"o": "memref<11x13x16xf32>"}, body, (11,)
    )
    agree(text, numbers((11, 13, 3)), numbers((3, 3, 3, 16), seed=1), tolerance=1e-4)


@pytest.mark.parametrize("columns", [1, 16, 100, 257])
def test_row_normalisation(columns: int) -> None:
    """Two passes over a row: its maximum, then the others relative to it, with a scalar carried between."""
    row = f"memref<9x{columns}xf32>"
    body = f"""
      %n = ng.constant {columns} : index
      %low = ng.constant dense<0xFF800000> : vector<32xf32>
      %low_pad = ng.constant 0xFF800000 : f32
      %m = tile.for %j = %c0 to %n step %c32 iter(%best = %low) -> vector<32xf32> {{
        %v = tile.load %x[%p0, %j] {{masked, pad = 0xFF800000 : f32}} : {row}, vector<32xf32>
        %next = ng.maximum %best, %v : vector<32xf32>
        ng.yield %next : vector<32xf32>
      }}
      %top = ng.max %m axes [0] : (vector<32xf32>) -> f32
      %tops = ng.broadcast %top dims [] : (f32) -> vector<32xf32>
      tile.for %j = %c0 to %n step %c32 {{
        %v = tile.load %x[%p0, %j] {{masked}} : {row}, vector<32xf32>
        %d = ng.subtract %v, %tops : vector<32xf32>
        tile.store %d, %o[%p0, %j] {{masked}} : vector<32xf32>, {row}
        ng.yield
      }}"""
    agree(planned({"x": row}, {"o": row}, body, (9,)), numbers((9, columns)))


# Control flow


@pytest.mark.parametrize("bounds", [(0, 10, 3), (5, 5, 1), (7, 2, 1), (3, 4, 9), (0, 9, 3)])
@pytest.mark.parametrize("known", [True, False])
def test_loops_with_any_bounds(bounds: tuple[int, int, int], known: bool) -> None:
    lower, upper, step = bounds
    fetch = "\n".join(
        f"%{name} = ng.constant {value} : index"
        if known
        else f"%{name}i = tile.load %n[%c{place}] : memref<3xi64>, i64\n%{name} = ng.cast %{name}i : (i64) -> index"
        for place, (name, value) in enumerate(zip(("lower", "upper", "step"), bounds, strict=True))
    )
    body = f"""
      {fetch}
      %start = ng.constant 100 : i64
      %r = tile.for %i = %lower to %upper step %step iter(%s = %start) -> i64 {{
        %d = ng.add %s, %s : i64
        %j = ng.cast %i : (index) -> i64
        %t = ng.add %d, %j : i64
        ng.yield %t : i64
      }}
      tile.store %r, %o[] : i64, memref<i64>"""
    agree(planned({"n": "memref<3xi64>"}, {"o": "memref<i64>"}, body), np.array([lower, upper, step]))


@pytest.mark.parametrize("value", [-3.0, 5.0])
def test_branches_and_while(value: float) -> None:
    body = """
      %x0 = tile.load %x[] : memref<f32>, f32
      %zero = ng.constant 0.0 : f32
      %limit = ng.constant 100.0 : f32
      %positive = ng.greater %x0, %zero : (f32, f32) -> i1
      %v = ng.broadcast %x0 dims [] : (f32) -> vector<20xf32>
      %r = ng.if %positive -> vector<20xf32> {
        %last = ng.while iter(%c = %v) -> vector<20xf32> {
          %first = ng.max %c axes [0] : (vector<20xf32>) -> f32
          %more = ng.less %first, %limit : (f32, f32) -> i1
          ng.yield %more : i1
        } do {
          %d = ng.add %c, %c : vector<20xf32>
          ng.yield %d : vector<20xf32>
        }
        ng.yield %last : vector<20xf32>
      } else {
        %minus = ng.negative %v : vector<20xf32>
        ng.yield %minus : vector<20xf32>
      }
      tile.store %r, %o[%c0] : vector<20xf32>, memref<20xf32>"""
    agree(planned({"x": "memref<f32>"}, {"o": "memref<20xf32>"}, body), np.float32(value))


# Whole programs

PROGRAM = """
tile.kernel @double ins(%x: memref<4x10xf32>) outs(%y: memref<4x10xf32>) grid(%p0 < 4, %p1 < 2) {
  %c5 = ng.constant 5 : index
  %j = ng.multiply %p1, %c5 : index
  %v = tile.load %x[%p0, %j] : memref<4x10xf32>, vector<5xf32>
  %w = ng.add %v, %v : vector<5xf32>
  tile.store %w, %y[%p0, %j] : vector<5xf32>, memref<4x10xf32>
  tile.return
}
tile.kernel @join ins(%x: memref<4x10xf32>, %y: memref<4x10xf32>) outs(%z: memref<4x10xf32>) {
  %c0 = ng.constant 0 : index
  %a = tile.load %x[%c0, %c0] : memref<4x10xf32>, vector<4x10xf32>
  %b = tile.load %y[%c0, %c0] : memref<4x10xf32>, vector<4x10xf32>
  %c = ng.subtract %a, %b : vector<4x10xf32>
  tile.store %c, %z[%c0, %c0] : vector<4x10xf32>, memref<4x10xf32>
  tile.return
}
func.func @main(%state: memref<4x10xf32>, %flag: memref<i1>, %out: memref<4x10xf32>, %k: memref<4x10xf32>, %arena: memref<512xi8>)
    attributes {ng.arguments = 2 : i64, ng.results = 2 : i64, ng.tied = array<i64: 0, 0>, ng.constants = [CONSTANT]} {
  %t = tile.view %arena at 0 : memref<4x10xf32>
  %u = tile.view %arena at 256 : memref<4x10xf32>
  tile.launch @double ins(%state) outs(%t)
  tile.for %i = 0 to 3 {
    tile.launch @double ins(%t) outs(%t)
    ng.yield
  }
  %f = tile.load %flag[] : memref<i1>, i1
  ng.if %f {
    tile.launch @join ins(%t, %k) outs(%u)
    ng.yield
  } else {
    tile.copy %k, %u : memref<4x10xf32>, memref<4x10xf32>
    ng.yield
  }
  tile.launch @join ins(%u, %state) outs(%out)
  tile.copy %u, %state : memref<4x10xf32>, memref<4x10xf32>
  func.return
}
"""


@pytest.mark.parametrize("constant", ["dense<3.0> : tensor<4x10xf32>", "VALUES"])
@pytest.mark.parametrize("flag", [True, False])
def test_an_entry_function_with_everything(flag: bool, constant: str) -> None:
    rows = [[float(10 * i + j) for j in range(10)] for i in range(4)]
    text = PROGRAM.replace("CONSTANT", constant.replace("VALUES", f"dense<{rows}> : tensor<4x10xf32>"))
    module = from_text(text)
    x = numbers((4, 10))
    got, want = compiled(module, [x, np.bool_(flag)]), interpreted(module, [x, np.bool_(flag)])
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_noalias_is_promised_only_where_it_holds() -> None:
    text = cpu.emit(
        from_text(PROGRAM.replace("CONSTANT", "dense<3.0> : tensor<4x10xf32>")), host_target()
    ).llvm
    double = next(line for line in text.splitlines() if "@double.program" in line and "define" in line)
    join = next(line for line in text.splitlines() if "@join.program" in line and "define" in line)
    assert "noalias" not in double  # once it doubles a buffer in place
    assert join.count("noalias") == 3


def test_a_view_of_an_argument_is_that_argument() -> None:
    kernel = planned({"x": "memref<16xf32>"}, {"o": "memref<16xf32>"}, "").partition("func.func")[0]
    text = f"""{kernel}
      func.func @main(%x: memref<4x4xf32>, %out: memref<16xf32>, %arena: memref<64xi8>)
          attributes {{ng.arguments = 1 : i64, ng.results = 1 : i64}} {{
        %flat = tile.view %x at 0 : memref<16xf32>
        %temporary = tile.view %arena at 0 : memref<16xf32>
        tile.launch @k ins(%flat) outs(%temporary)
        tile.launch @k ins(%temporary) outs(%out)
        return
      }}"""
    llvm = cpu.emit(from_text(text), host_target()).llvm
    assert "@k.program(ptr noalias %x, ptr noalias %o, i64" in llvm  # not aligned: arguments lie anywhere


def test_the_signature_names_what_goes_in_and_out() -> None:
    unit = cpu.emit(from_text(PROGRAM.replace("CONSTANT", "dense<3.0> : tensor<4x10xf32>")), host_target())
    signature = unit.entries[0].signature
    assert [p.name for p in signature.arguments] == ["state", "flag"]
    assert [p.name for p in signature.results] == ["state", "out"]
    assert signature.tied == ((0, 0),) and signature.arena_bytes == 512
    assert [c.bytes for c in unit.constants] == [160]


def test_unknown_sizes_are_refused() -> None:
    body = """
      %s = tile.subview %x[%c0] : memref<8xf32>, memref<?xf32>
      %v = tile.load %s[%c0] : memref<?xf32>, f32
      tile.store %v, %o[] : f32, memref<f32>"""
    with pytest.raises(Limit, match="not known at compile time"):
        cpu.emit(from_text(planned({"x": "memref<8xf32>"}, {"o": "memref<f32>"}, body)), host_target())


# Other machines

MIX = """
  %i = ng.multiply %p0, %c32 : index
  %h = tile.load %x[%i] {masked} : memref<100xDTYPE>, vector<32xDTYPE>
  %v = ng.cast %h : (vector<32xDTYPE>) -> vector<32xf32>
  %w = ng.sqrt %v : vector<32xf32>
  %f = ng.floor %w : vector<32xf32>
  %g = ng.round %f : vector<32xf32>
  %m = ng.maximum %g, %v : vector<32xf32>
  %q = ng.fma %m, %w, %v : vector<32xf32>
  %n = ng.cast %q : (vector<32xf32>) -> vector<32xi32>
  %n1 = ng.floor_divide %n, %n : vector<32xi32>
  %n2 = ng.cast %n1 : (vector<32xi32>) -> vector<32xDTYPE>
  %s = ng.add %n2, %h : vector<32xDTYPE>
  tile.store %s, %o[%i] {masked} : vector<32xDTYPE>, memref<100xDTYPE>"""


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i8", "ui64"])
def test_no_library_is_called(name: str, dtype: str) -> None:
    target = cpu_target(name)
    body = MIX.replace("DTYPE", dtype)
    text = planned({"x": f"memref<100x{dtype}>"}, {"o": f"memref<100x{dtype}>"}, body, (4,))
    if dtype in ("f32", "f16", "bf16"):
        text = text + matmul(13, 70, 9, (6, 16, 4), dtype).replace("@k", "@m").partition("func.func")[0]
        text = text.replace("func.return", launch_matmul(dtype) + "func.return").replace(
            "memref<0xi8>", "memref<65536xi8>"
        )
    code = assembly(cpu.emit(from_text(text), target).llvm, target)
    own = set(re.findall(r"^\"?([A-Za-z_][\w.]*)\"?:", code, re.M))
    assert called(code) - own == {"ngmlir_parallel"}


def launch_matmul(dtype: str) -> str:
    types = [
        f"memref<13x9x{dtype}>",
        f"memref<9x70x{dtype}>",
        f"memref<70x{SUMS[dtype]}>",
        f"memref<13x70x{SUMS[dtype]}>",
    ]
    views = "\n".join(f"%v{i} = tile.view %arena at {8192 * i} : {t}" for i, t in enumerate(types))
    return f"{views}\n  tile.launch @m ins(%v0, %v1, %v2) outs(%v3)\n  "


def called(text: str) -> set[str]:
    """What assembler text calls or jumps to outside of a function."""
    names = re.findall(r"\b(?:callq?|jmp|bl|b|tail|call)\s+\"?([A-Za-z_][\w.]*)", text)
    return {name.removesuffix("@PLT") for name in names if not name.startswith(".")}


@pytest.mark.parametrize(("name", "block"), [("x86-64-v4", (6, 64, 4)), ("x86-64-v3", (6, 16, 4))])
def test_the_matrix_kernel_spills_nothing(name: str, block: tuple[int, int, int]) -> None:
    """The loop has as many multiply-adds as the block needs, and no access to the stack among them."""
    target = cpu_target(name)
    mr, nr, ku = block
    text = assembly(cpu.emit(from_text(matmul(12, 64, 64, block)), target).llvm, target)
    count = mr * ku * nr // target.lanes(4)
    blocks = re.split(r"^(?:\.LBB|\tj).*$", text, flags=re.M)
    (loop,) = [block for block in blocks if block.count("vfmadd") >= count]
    assert loop.count("vfmadd") == count
    assert "rsp" not in loop
