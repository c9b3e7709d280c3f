# SPDX-License-Identifier: Apache-2.0
"""GPU kernels: from hand-written IR to PTX, through ptxas where it is installed, run by the simulator, and
compared with the interpreter or with NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from kernel_text import interpreted, planned

from ngmlir.codegen.nvptx import emit
from ngmlir.llvm.machine import assembly, nvptx_target
from ngmlir.ops.interpreter import run as interpret
from ngmlir.ops.words import from_text
from ngmlir.passes.lower.barriers import barriers
from ngmlir.runtime import ptxas
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.support.artifact import Artifact, Launch
from ngmlir.support.diagnostics import Limit, UserError

TARGET = nvptx_target("sm_90a")
BF16 = ml_dtypes.bfloat16
#: Checks what ptxas says of each kernel only once per text.
ASSEMBLED: set[str] = set()


def ptx_of(text: str) -> tuple[str, Artifact]:
    """The PTX of a planned module, assembled where that is possible."""
    unit = emit(barriers(from_text(text), TARGET), TARGET)
    ptx = assembly(unit.llvm, TARGET)
    assert "call" not in ptx.replace("callseq", ""), "a GPU has no library to call"
    if ptxas.available() and ptx not in ASSEMBLED:
        report = ptxas.assemble(ptx, "sm_90a")
        assert not report.spill_stores and not report.spill_loads and not report.stack_bytes, report.log
        assert not report.warnings, report.log
        ASSEMBLED.add(ptx)
    return ptx, Artifact("ptx", ptx.encode(), unit.entries, TARGET.key, unit.constants)


def simulated(text: str, arrays: Sequence[np.ndarray], seed: int | None = 1) -> list[np.ndarray]:
    _, artifact = ptx_of(text)
    return load(artifact, CudaSimDevice(seed=seed)).run(arrays)


def agree(text: str, *arrays: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> list[np.ndarray]:
    """The simulator computes what the interpreter computes, whatever the order of warps."""
    expected = interpreted(text, arrays)
    for seed in (None, 7):
        results = simulated(text, arrays, seed)
        for got, wanted in zip(results, expected, strict=True):
            if rtol or atol:
                np.testing.assert_allclose(got.astype("f8"), wanted.astype("f8"), rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(got, wanted)
    return results


def numbers(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(max(info.min, -100), min(info.max, 100), shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


# ---- elementwise


@pytest.mark.parametrize("size", [1, 5, 31, 128, 1000, 1024])
def test_elementwise_in_one_dimension(size: int) -> None:
    blocks = -(-size // 256)
    buffer = f"memref<{size}xf32>"
    body = f"""
  %at = ng.multiply %p0, %c256 : index
  %x = tile.load %a[%at] {{masked}} : {buffer}, vector<256xf32>
  %y = tile.load %b[%at] {{masked}} : {buffer}, vector<256xf32>
  %s = ng.add %x, %y : vector<256xf32>
  %m = ng.multiply %s, %x : vector<256xf32>
  tile.store %m, %out[%at] {{masked}} : vector<256xf32>, {buffer}"""
    text = planned({"a": buffer, "b": buffer}, {"out": buffer}, body, [blocks])
    agree(text, numbers(size), numbers(size, seed=1))


def test_aligned_accesses_are_16_bytes_wide_and_unmasked() -> None:
    body = """
  %at = ng.multiply %p0, %c512 : index
  %x = tile.load %a[%at] {masked} : memref<4096xf32>, vector<512xf32>
  %s = ng.add %x, %x : vector<512xf32>
  tile.store %s, %out[%at] {masked} : vector<512xf32>, memref<4096xf32>"""
    ptx, _ = ptx_of(planned({"a": "memref<4096xf32>"}, {"out": "memref<4096xf32>"}, body, [8]))
    assert "ld.global.nc.v4" in ptx and "st.global.v4" in ptx
    assert "@%p" not in ptx and "ld.global.nc.b32" not in ptx


def test_dimensions_of_one_element_do_not_narrow_accesses() -> None:
    body = """
  %x = tile.load %a[%c0, %p0, %c0] : memref<512x3x1xf32>, vector<1x1xf32>
  %y = tile.load %b[%p0, %c0, %c0] : memref<3x512x1xf32>, vector<512x1xf32>
  %z = ng.reshape %x : (vector<1x1xf32>) -> f32
  %w = ng.broadcast %z dims [] : (f32) -> vector<512x1xf32>
  %s = ng.add %y, %w : vector<512x1xf32>
  tile.store %s, %out[%p0, %c0, %c0] : vector<512x1xf32>, memref<3x512x1xf32>"""
    inputs = {"a": "memref<512x3x1xf32>", "b": "memref<3x512x1xf32>"}
    text = planned(inputs, {"out": "memref<3x512x1xf32>"}, body, [3])
    agree(text, numbers(512, 3, 1), numbers(3, 512, 1, seed=1))
    ptx, _ = ptx_of(text)
    assert "ld.global.nc.v4" in ptx and "st.global.v4" in ptx


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 100), (64, 64), (13, 257)])
def test_elementwise_with_broadcast_loads(rows: int, columns: int) -> None:
    matrix = f"memref<{rows}x{columns}xf32>"
    body = f"""
  %i = ng.multiply %p0, %c8 : index
  %j = ng.multiply %p1, %c64 : index
  %x = tile.load %a[%i, %j] {{masked}} : {matrix}, vector<8x64xf32>
  %row = tile.load %b[%j] {{masked}} : memref<{columns}xf32>, vector<64xf32>
  %column = tile.load %c[%i] {{masked}} : memref<{rows}xf32>, vector<8xf32>
  %r = ng.broadcast %row dims [1] : (vector<64xf32>) -> vector<8x64xf32>
  %k = ng.broadcast %column dims [0] : (vector<8xf32>) -> vector<8x64xf32>
  %one = ng.constant dense<1.5> : vector<8x64xf32>
  %s = ng.add %x, %r : vector<8x64xf32>
  %t = ng.multiply %s, %k : vector<8x64xf32>
  %u = ng.maximum %t, %one : vector<8x64xf32>
  tile.store %u, %out[%i, %j] {{masked}} : vector<8x64xf32>, {matrix}"""
    inputs = {"a": matrix, "b": f"memref<{columns}xf32>", "c": f"memref<{rows}xf32>"}
    text = planned(inputs, {"out": matrix}, body, [-(-rows // 8), -(-columns // 64)])
    agree(text, numbers(rows, columns), numbers(columns, seed=1), numbers(rows, seed=2))


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    3e38,
    -7.0,
    3.0,
    1e-8,
    123.75,
    -2.5,
]
FLOAT_NAMES = ("f16", "bf16", "f32", "f64")
INTEGER_NAMES = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")
DTYPES = {
    "f16": np.float16, "bf16": BF16, "f32": np.float32, "f64": np.float64, "i1": np.bool_,
    **{f"i{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
}  # fmt: skip


def all_pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """256 pairs of the numbers at which things go wrong."""
    if dtype in FLOAT_NAMES:
        with np.errstate(over="ignore"):
            values = np.array(SPECIAL).astype(DTYPES[dtype])
    else:
        info = np.iinfo(DTYPES[dtype])
        low = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, 8, 31, 100, 15, 64, 33]
        values = np.array([v if info.min <= v <= info.max else 1 for v in low], DTYPES[dtype])
        if info.min:
            values[9:12] = [-1, -2, -7]
    return np.repeat(values, 16), np.tile(values, 16)


def elementwise_kernel(dtype: str, ops: Sequence[str], result: str | None = None) -> str:
    result = result or dtype
    lines = [f"  %x = tile.load %a[%c0] : memref<256x{dtype}>, vector<256x{dtype}>"]
    lines += [f"  %y = tile.load %b[%c0] : memref<256x{dtype}>, vector<256x{dtype}>"]
    for i, op in enumerate(ops):
        lines += [f"  %r{i} = {op}"]
        lines += [f"  tile.store %r{i}, %out{i}[%c0] : vector<256x{result}>, memref<256x{result}>"]
    outputs = {f"out{i}": f"memref<256x{result}>" for i in range(len(ops))}
    return planned({"a": f"memref<256x{dtype}>", "b": f"memref<256x{dtype}>"}, outputs, "\n".join(lines))


@pytest.mark.parametrize("dtype", FLOAT_NAMES)
def test_float_ops_at_special_values(dtype: str) -> None:
    two = [
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "copysign",
        "floor_divide",
    ]
    one = [
        "negative",
        "absolute",
        "sign",
        "square",
        "reciprocal",
        "sqrt",
        "rsqrt",
        "floor",
        "ceil",
        "round",
        "trunc",
    ]
    kind = f"vector<256x{dtype}>"
    ops = [f"ng.{name} %x, %y : {kind}" for name in two] + [f"ng.{name} %x : {kind}" for name in one]
    text = elementwise_kernel(dtype, [*ops, f"ng.fma %x, %y, %x : {kind}"])
    pair = all_pairs(dtype)
    for got, wanted in zip(simulated(text, pair), interpreted(text, pair), strict=True):
        same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted))
        assert same.all(), (pair[0][~same], pair[1][~same], got[~same], wanted[~same])


@pytest.mark.parametrize("dtype", INTEGER_NAMES)
def test_integer_ops_at_special_values(dtype: str) -> None:
    two = ["add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "remainder", "bitwise_and"]
    two += ["bitwise_or", "bitwise_xor", "shift_left", "shift_right_logical", "shift_right_arithmetic"]
    one = ["absolute", "square", "bitwise_not"] + ([] if dtype[0] == "u" else ["negative", "sign"])
    kind = f"vector<256x{dtype}>"
    ops = [f"ng.{name} %x, %y : {kind}" for name in two] + [f"ng.{name} %x : {kind}" for name in one]
    agree(elementwise_kernel(dtype, ops), *all_pairs(dtype))


@pytest.mark.parametrize("dtype", [*FLOAT_NAMES, *INTEGER_NAMES])
def test_comparisons(dtype: str) -> None:
    names = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
    kind = f"vector<256x{dtype}>"
    ops = [f"ng.{name} %x, %y : ({kind}, {kind}) -> vector<256xi1>" for name in names]
    agree(elementwise_kernel(dtype, ops, "i1"), *all_pairs(dtype))


@pytest.mark.parametrize("source", ["i1", *FLOAT_NAMES, "i8", "i32", "i64", "ui8", "ui32", "ui64"])
def test_casts(source: str) -> None:
    targets = ["i1", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "ui8", "ui32", "ui64"]
    lines = [f"  %x = tile.load %a[%c0] : memref<256x{source}>, vector<256x{source}>"]
    for t in targets:
        lines += [f"  %r{t} = ng.cast %x : (vector<256x{source}>) -> vector<256x{t}>"]
        lines += [f"  tile.store %r{t}, %out{t}[%c0] : vector<256x{t}>, memref<256x{t}>"]
    outputs = {f"out{t}": f"memref<256x{t}>" for t in targets}
    x = numbers(256, dtype=DTYPES[source]) if source not in FLOAT_NAMES else numbers(256, dtype="f4") * 30
    x = x.astype(DTYPES[source])
    agree(planned({"a": f"memref<256x{source}>"}, outputs, "\n".join(lines)), x)


def test_roundings_are_those_of_the_program() -> None:
    ops = [
        "ng.multiply %x, %y : K",
        "ng.add %r0, %x : K",
        "ng.divide %r1, %y : K",
        "ng.sqrt %r2 : K",
        "ng.fma %x, %y, %r3 : K",
    ]
    ptx, _ = ptx_of(elementwise_kernel("f32", [op.replace("K", "vector<256xf32>") for op in ops]))
    # Two elements of each op per thread, nothing fused, nothing approximate, denormals kept.
    for instruction in ("mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32", "fma.rn.f32"):
        assert ptx.count(instruction) == 2
    assert "ftz" not in ptx and "approx" not in ptx


@pytest.mark.parametrize("sm", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100a", "sm_120"])
def test_every_generation_assembles(sm: str) -> None:
    target = nvptx_target(sm)
    kinds = [f"vector<256x{dtype}>" for dtype in FLOAT_NAMES]
    texts = [
        elementwise_kernel(
            dtype, [f"ng.maximum %x, %y : {k}", f"ng.fma %x, %y, %x : {k}", f"ng.floor_divide %x, %y : {k}"]
        )
        for dtype, k in zip(FLOAT_NAMES, kinds, strict=True)
    ]
    texts += [product(64, 64, 64, "NN", "bf16", step=32)]
    for text in texts:
        ptx = assembly(emit(from_text(text), target).llvm, target)
        assert ("mma.sync" in ptx) == (text is texts[-1] and sm != "sm_75")
        if ptxas.available():
            assert not ptxas.assemble(ptx, sm).spill_stores


# ---- reductions


@pytest.mark.parametrize("columns", [1, 2, 31, 33, 100, 1000, 1024, 4096])
def test_softmax_of_rows_in_one_pass(columns: int) -> None:
    width = 1 << max(0, columns - 1).bit_length()
    rows, kind, row = 5, f"vector<{width}xf32>", f"memref<5x{columns}xf32>"
    body = f"""
  %x = tile.load %a[%p0, %c0] {{masked, pad = 0xFF800000 : f32}} : {row}, {kind}
  %m = ng.max %x axes [0] : ({kind}) -> f32
  %mm = ng.broadcast %m dims [] : (f32) -> {kind}
  %d = ng.subtract %x, %mm : {kind}
  %z = ng.constant dense<0.0> : {kind}
  %one = ng.constant dense<1.0> : {kind}
  %e = ng.fma %d, %d, %one : {kind}
  %q = ng.reciprocal %e : {kind}
  %s = ng.sum %q axes [0] : ({kind}) -> f32
  %ss = ng.broadcast %s dims [] : (f32) -> {kind}
  %y = ng.divide %q, %ss : {kind}
  tile.store %y, %out[%p0, %c0] {{masked}} : {kind}, {row}"""
    agree(planned({"a": row}, {"out": row}, body, [rows]), numbers(rows, columns), rtol=3e-6)


@pytest.mark.parametrize("shape", [(4, 64), (3, 50), (16, 128), (33, 7), (64, 64), (1, 300)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_along_either_dimension(shape: tuple[int, int], axis: int) -> None:
    kind, kept = f"vector<{shape[0]}x{shape[1]}xf32>", shape[1 - axis]
    lines = [f"  %x = tile.load %a[%c0, %c0] : memref<{shape[0]}x{shape[1]}xf32>, {kind}"]
    outputs = {}
    for name in ("sum", "product", "max", "min", "mean"):
        lines += [f"  %{name} = ng.{name} %x axes [{axis}] : ({kind}) -> vector<{kept}xf32>"]
        lines += [f"  tile.store %{name}, %o{name}[%c0] : vector<{kept}xf32>, memref<{kept}xf32>"]
        outputs[f"o{name}"] = f"memref<{kept}xf32>"
    text = planned({"a": f"memref<{shape[0]}x{shape[1]}xf32>"}, outputs, "\n".join(lines))
    agree(text, numbers(*shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [*FLOAT_NAMES, "i8", "i32", "ui64"])
def test_reductions_to_one_value_of_every_type(dtype: str) -> None:
    lines = [f"  %x = tile.load %a[%c0] : memref<300x{dtype}>, vector<300x{dtype}>"]
    for name in ("sum", "max", "min"):
        lines += [f"  %{name} = ng.{name} %x axes [0] : (vector<300x{dtype}>) -> {dtype}"]
        lines += [f"  tile.store %{name}, %o{name}[] : {dtype}, memref<{dtype}>"]
    outputs = {f"o{name}": f"memref<{dtype}>" for name in ("sum", "max", "min")}
    tolerance = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-5, "f64": 1e-12}.get(dtype, 0.0)
    text = planned({"a": f"memref<300x{dtype}>"}, outputs, "\n".join(lines))
    agree(text, numbers(300, dtype=DTYPES[dtype]), rtol=tolerance, atol=tolerance)


def test_any_and_all() -> None:
    body = """
  %x = tile.load %a[%c0, %c0] : memref<9x200xi1>, vector<9x200xi1>
  %any = ng.any %x axes [1] : (vector<9x200xi1>) -> vector<9xi1>
  %all = ng.all %x axes [1] : (vector<9x200xi1>) -> vector<9xi1>
  tile.store %any, %o0[%c0] : vector<9xi1>, memref<9xi1>
  tile.store %all, %o1[%c0] : vector<9xi1>, memref<9xi1>"""
    x = numbers(9, 200, dtype=bool)
    x[0], x[1], x[2, 199] = True, False, True
    agree(planned({"a": "memref<9x200xi1>"}, {"o0": "memref<9xi1>", "o1": "memref<9xi1>"}, body), x)


@pytest.mark.parametrize("name", ["sum", "product", "max", "min"])
@pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_cumulative_ops(name: str, reverse: bool, exclusive: bool) -> None:
    flags = f"{{reverse = {str(reverse).lower()}, exclusive = {str(exclusive).lower()}}}"
    lines, outputs, inputs, arrays = [], {}, {}, []
    for i, (shape, axis) in enumerate([((300,), 0), ((5, 70), 1), ((40, 6), 0), ((1024,), 0)]):
        sizes = "x".join(map(str, shape))
        at = ", ".join(["%c0"] * len(shape))
        lines += [f"  %x{i} = tile.load %a{i}[{at}] : memref<{sizes}xi32>, vector<{sizes}xi32>"]
        lines += [f"  %y{i} = ng.cumulative_{name} %x{i} axis {axis} {flags} : vector<{sizes}xi32>"]
        lines += [f"  tile.store %y{i}, %o{i}[{at}] : vector<{sizes}xi32>, memref<{sizes}xi32>"]
        inputs[f"a{i}"] = outputs[f"o{i}"] = f"memref<{sizes}xi32>"
        arrays.append(numbers(*shape, dtype=np.int32, seed=i))
    agree(planned(inputs, outputs, "\n".join(lines)), *arrays)


# ---- shape


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "f64"])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (37, 100), (3, 130)])
def test_transpose(rows: int, columns: int, dtype: str) -> None:
    source, target = f"memref<{rows}x{columns}x{dtype}>", f"memref<{columns}x{rows}x{dtype}>"
    body = f"""
  %i = ng.multiply %p0, %c32 : index
  %j = ng.multiply %p1, %c32 : index
  %x = tile.load %a[%i, %j] {{masked}} : {source}, vector<32x32x{dtype}>
  %t = ng.transpose %x perm [1, 0] : vector<32x32x{dtype}>
  tile.store %t, %o0[%j, %i] {{masked}} : vector<32x32x{dtype}>, {target}
  %u = tile.load %a[%i, %j] {{dims = array<i64: 1, 0>, masked}} : {source}, vector<32x32x{dtype}>
  tile.store %u, %o1[%j, %i] {{masked}} : vector<32x32x{dtype}>, {target}"""
    grid = [-(-rows // 32), -(-columns // 32)]
    text = planned({"a": source}, {"o0": target, "o1": target}, body, grid)
    agree(text, numbers(rows, columns, dtype=DTYPES[dtype]))


def test_steps_and_negative_positions() -> None:
    body = """
  %m = ng.constant -3 : index
  %at = ng.add %p0, %m : index
  %x = tile.load %a[%at, %m] {masked, pad = 9.0 : f32, steps = array<i64: 2, 3>} : memref<11x40xf32>, vector<4x16xf32>
  %i = ng.multiply %p0, %c4 : index
  tile.store %x, %out[%i, %c0] : vector<4x16xf32>, memref<32x16xf32>"""
    agree(planned({"a": "memref<11x40xf32>"}, {"out": "memref<32x16xf32>"}, body, [8]), numbers(11, 40))


def test_reshapes_slices_and_tables() -> None:
    body = """
  %x = tile.load %a[%c0, %c0] : memref<8x32xf32>, vector<8x32xf32>
  %y = ng.reshape %x : (vector<8x32xf32>) -> vector<4x64xf32>
  tile.store %y, %o0[%c0, %c0] : vector<4x64xf32>, memref<4x64xf32>
  %z = tile.load %b[%c0, %c0] : memref<6x35xf32>, vector<6x35xf32>
  %w = ng.reshape %z : (vector<6x35xf32>) -> vector<10x21xf32>
  tile.store %w, %o1[%c0, %c0] : vector<10x21xf32>, memref<10x21xf32>
  %s = ng.slice %z from [1, 30] to [6, -1] step [2, -2] : (vector<6x35xf32>) -> vector<3x16xf32>
  tile.store %s, %o2[%c0, %c0] : vector<3x16xf32>, memref<3x16xf32>
  %t = ng.constant dense<[1.0, -2.5, 3.0]> : vector<3xf32>
  %n = ng.iota {dimension = 0 : i64} : vector<3xf32>
  %p = ng.multiply %t, %n : vector<3xf32>
  tile.store %p, %o3[%c0] : vector<3xf32>, memref<3xf32>"""
    outputs = {
        "o0": "memref<4x64xf32>",
        "o1": "memref<10x21xf32>",
        "o2": "memref<3x16xf32>",
        "o3": "memref<3xf32>",
    }
    agree(
        planned({"a": "memref<8x32xf32>", "b": "memref<6x35xf32>"}, outputs, body),
        numbers(8, 32),
        numbers(6, 35),
    )


def test_slices_of_wide_and_narrow_elements_from_one_position() -> None:
    body = """
  %x = tile.load %a[%c0] : memref<64xf32>, vector<64xf32>
  %y = tile.load %b[%c0] : memref<64xi8>, vector<64xi8>
  %s = ng.slice %x from [7] to [39] step [1] : (vector<64xf32>) -> vector<32xf32>
  %t = ng.slice %y from [7] to [39] step [1] : (vector<64xi8>) -> vector<32xi8>
  tile.store %s, %o0[%c0] : vector<32xf32>, memref<32xf32>
  tile.store %t, %o1[%c0] : vector<32xi8>, memref<32xi8>"""
    inputs = {"a": "memref<64xf32>", "b": "memref<64xi8>"}
    text = planned(inputs, {"o0": "memref<32xf32>", "o1": "memref<32xi8>"}, body)
    agree(text, numbers(64), numbers(64, dtype=np.int8))


# ---- products


def product(
    rows: int, columns: int, depth: int, form: str, dtype: str = "f32", wide: str = "f32", step: int = 16
) -> str:
    """relu(lhs @ rhs + bias); `form` says of each side whether it is stored transposed."""
    left = f"memref<{depth}x{rows}x{dtype}>" if form[0] == "T" else f"memref<{rows}x{depth}x{dtype}>"
    right = f"memref<{columns}x{depth}x{dtype}>" if form[1] == "T" else f"memref<{depth}x{columns}x{dtype}>"
    swap = "dims = array<i64: 1, 0>, "
    at = {"T": lambda a, b: f"[{b}, {a}]", "N": lambda a, b: f"[{a}, {b}]"}
    body = f"""
  %i = ng.multiply %p0, %c64 : index
  %j = ng.multiply %p1, %c64 : index
  %start = ng.constant dense<{"0" if wide[0] == "i" else "0.0"}> : vector<64x64x{wide}>
  %acc = tile.for %k = %c0 to %c{depth} step %c{step} iter(%sum = %start) -> vector<64x64x{wide}> {{
    %l = tile.load %a{at[form[0]]("%i", "%k")} {{{swap if form[0] == "T" else ""}masked}} : {left}, vector<64x{step}x{dtype}>
    %r = tile.load %b{at[form[1]]("%k", "%j")} {{{swap if form[1] == "T" else ""}masked}} : {right}, vector<{step}x64x{dtype}>
    %next = tile.dot %l, %r, %sum : vector<64x64x{wide}>
    ng.yield %next : vector<64x64x{wide}>
  }}
  %bias = tile.load %c[%j] {{masked}} : memref<{columns}x{wide}>, vector<64x{wide}>
  %bb = ng.broadcast %bias dims [1] : (vector<64x{wide}>) -> vector<64x64x{wide}>
  %s = ng.add %acc, %bb : vector<64x64x{wide}>
  %y = ng.maximum %s, %start : vector<64x64x{wide}>
  tile.store %y, %out[%i, %j] {{masked}} : vector<64x64x{wide}>, memref<{rows}x{columns}x{wide}>"""
    inputs = {"a": left, "b": right, "c": f"memref<{columns}x{wide}>"}
    return planned(
        inputs, {"out": f"memref<{rows}x{columns}x{wide}>"}, body, [-(-rows // 64), -(-columns // 64)]
    )


@pytest.mark.parametrize(
    ("kind", "word", "part"),
    [("i32", np.int32, np.int16), ("i16", np.int16, np.int8), ("ui16", np.uint16, np.uint8)],
)
def test_product_of_pairs(kind: str, word: type[np.integer], part: type[np.integer]) -> None:
    """Each i32 holds two i16, each half word of the right side two bytes; sums wrap around."""
    random = np.random.default_rng(0)
    left = random.integers(-(2**31), 2**31, (70, 20), dtype=np.int32)
    right = random.integers(-(2**31), 2**31, (20, 33), dtype=np.int32).astype(word)
    bias = np.zeros(33, np.int32)
    text = product(70, 33, 20, "NN", "i32", "i32").replace("%r, %sum :", '%r, %sum {words = "i16_i16"} :')
    text = text.replace("20x33xi32", f"20x33x{kind}").replace("16x64xi32", f"16x64x{kind}")
    (got,) = simulated(text, [left, right, bias])
    x = left.view(np.int16).astype(np.int32)
    y = right.view(part).reshape(20, 33, 2).transpose(0, 2, 1).reshape(40, 33).astype(np.int32)
    np.testing.assert_array_equal(got, np.maximum(x @ y, 0))


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 64, 32), (70, 33, 50), (1, 130, 16)])
def test_product_with_bias_and_relu(rows: int, columns: int, depth: int, form: str) -> None:
    text = product(rows, columns, depth, form)
    left = numbers(*((depth, rows) if form[0] == "T" else (rows, depth)))
    right = numbers(*((columns, depth) if form[1] == "T" else (depth, columns)), seed=1)
    bias = numbers(columns, seed=2)
    (got,) = simulated(text, [left, right, bias])
    x = left.T if form[0] == "T" else left
    y = right.T if form[1] == "T" else right
    expected = np.maximum(x.astype("f8") @ y.astype("f8") + bias, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_products_add_up_by_fma_with_ascending_depth() -> None:
    text = product(64, 64, 64, "NN")
    arrays = [numbers(64, 64), numbers(64, 64, seed=1), numbers(64, seed=2)]
    np.testing.assert_array_equal(simulated(text, arrays)[0], interpreted_exactly(text, arrays))


def interpreted_exactly(text: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return interpret(from_text(text), *arrays, exact=True)[0]


@pytest.mark.parametrize(("dtype", "wide"), [("f64", "f64"), ("i32", "i32"), ("i8", "i32")])
def test_products_of_other_types(dtype: str, wide: str) -> None:
    text = product(40, 65, 33, "NT", dtype, wide)
    arrays = [
        numbers(40, 33, dtype=DTYPES[dtype]),
        numbers(65, 33, dtype=DTYPES[dtype]),
        numbers(65, dtype=DTYPES[wide]),
    ]
    agree(text, *arrays, rtol=0 if wide[0] == "i" else 1e-12)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
def test_products_by_matrix_instructions(form: str, dtype: str) -> None:
    rows, columns, depth = 70, 100, 80
    text = product(rows, columns, depth, form, dtype, step=32)
    ptx, _ = ptx_of(text)
    assert "mma.sync.aligned.m16n8k16" in ptx and "fma.rn.f32" not in ptx
    left = numbers(*((depth, rows) if form[0] == "T" else (rows, depth)), dtype=DTYPES[dtype])
    right = numbers(*((columns, depth) if form[1] == "T" else (depth, columns)), dtype=DTYPES[dtype], seed=1)
    bias = numbers(columns, seed=2)
    (got,) = simulated(text, [left, right, bias])
    x = (left.T if form[0] == "T" else left).astype("f8")
    y = (right.T if form[1] == "T" else right).astype("f8")
    np.testing.assert_allclose(got, np.maximum(x @ y + bias, 0), rtol=1e-4, atol=1e-4)


def test_two_products_in_a_row() -> None:
    body = """
  %x = tile.load %a[%c0, %c0] : memref<32x16xbf16>, vector<32x16xbf16>
  %y = tile.load %b[%c0, %c0] : memref<16x32xbf16>, vector<16x32xbf16>
  %z = ng.constant dense<0.0> : vector<32x32xf32>
  %s = tile.dot %x, %y, %z : vector<32x32xf32>
  %m = ng.max %s axes [1] : (vector<32x32xf32>) -> vector<32xf32>
  %mm = ng.broadcast %m dims [0] : (vector<32xf32>) -> vector<32x32xf32>
  %d = ng.subtract %s, %mm : vector<32x32xf32>
  %p = ng.cast %d : (vector<32x32xf32>) -> vector<32x32xbf16>
  %v = tile.load %c[%c0, %c0] : memref<32x16xbf16>, vector<32x16xbf16>
  %w = ng.constant dense<0.0> : vector<32x16xf32>
  %o = tile.dot %p, %v, %w : vector<32x16xf32>
  tile.store %o, %out[%c0, %c0] : vector<32x16xf32>, memref<32x16xf32>"""
    inputs = {"a": "memref<32x16xbf16>", "b": "memref<16x32xbf16>", "c": "memref<32x16xbf16>"}
    text = planned(inputs, {"out": "memref<32x16xf32>"}, body)
    arrays = [
        numbers(32, 16, dtype=BF16),
        numbers(16, 32, dtype=BF16, seed=1),
        numbers(32, 16, dtype=BF16, seed=2),
    ]
    agree(text, *arrays, rtol=1e-4, atol=1e-3)


# ---- by index, buffers, control flow


@pytest.mark.parametrize("kind", ["i32", "i64", "ui8"])
def test_gather(kind: str) -> None:
    body = f"""
  %at = ng.multiply %p0, %c64 : index
  %i = tile.load %b[%at] {{masked}} : memref<100x{kind}>, vector<64x{kind}>
  %j = ng.iota {{dimension = 1 : i64}} : vector<64x16xi32>
  %ii = ng.broadcast %i dims [0] : (vector<64x{kind}>) -> vector<64x16x{kind}>
  %x = tile.gather %a[%ii, %j] : memref<40x16xf32>, vector<64x16xf32>
  tile.store %x, %out[%at, %c0] {{masked}} : vector<64x16xf32>, memref<100x16xf32>"""
    text = planned(
        {"a": "memref<40x16xf32>", "b": f"memref<100x{kind}>"}, {"out": "memref<100x16xf32>"}, body, [2]
    )
    indices = np.random.default_rng(0).integers(0, 40, 100).astype(DTYPES[kind])
    agree(text, numbers(40, 16), indices)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "f16", "i8", "i16"])
@pytest.mark.parametrize("combine", ["set", "add", "max", "min"])
def test_scatter(combine: str, dtype: str) -> None:
    """Positions repeat, within a thread and across threads and warps: the order of the elements counts."""
    kind = f"vector<600x{dtype}>"
    body = f"""
  %z = tile.load %a[%c0] : memref<50x{dtype}>, vector<50x{dtype}>
  tile.store %z, %out[%c0] : vector<50x{dtype}>, memref<50x{dtype}>
  tile.barrier
  %i = tile.load %b[%c0] : memref<600xi32>, vector<600xi32>
  %x = tile.load %c[%c0] : memref<600x{dtype}>, {kind}
  %l = ng.constant dense<50> : vector<600xi32>
  %m = ng.less %i, %l : (vector<600xi32>, vector<600xi32>) -> vector<600xi1>
  tile.scatter %x, %m, %out[%i] {{combine = "{combine}"}} : {kind}, memref<50x{dtype}>"""
    inputs = {"a": f"memref<50x{dtype}>", "b": "memref<600xi32>", "c": f"memref<600x{dtype}>"}
    text = planned(inputs, {"out": f"memref<50x{dtype}>"}, body)
    arrays = [
        numbers(50, dtype=DTYPES[dtype]),
        np.random.default_rng(0).integers(0, 60, 600).astype("i4"),
        numbers(600, dtype=DTYPES[dtype], seed=1),
    ]
    agree(text, *arrays)


@pytest.mark.parametrize("operation", ["copy", "copy_async"])
@pytest.mark.parametrize("columns", [64, 37])
def test_shared_buffers(operation: str, columns: int) -> None:
    copy = {
        "copy": "tile.copy %w, %s : {window}, {shared}\n  tile.barrier",
        "copy_async": "%t = tile.copy_async %w, %s : {window}, {shared}\n  tile.wait %t : (!tile.token) -> ()",
    }[operation]
    window, shared = (
        f"memref<8x{columns}xf32, strided<[{columns}, 1], offset: ?>>",
        f"memref<8x{columns}xf32, 3>",
    )
    body = f"""
  %s = tile.alloc : {shared}
  %i = ng.multiply %p0, %c8 : index
  %w = tile.subview %a[%i, %c0] : memref<16x{columns}xf32>, {window}
  {copy.format(window=window, shared=shared)}
  %x = tile.load %s[%c0, %c0] {{dims = array<i64: 1, 0>}} : {shared}, vector<{columns}x8xf32>
  tile.store %x, %out[%p0, %c0, %c0] : vector<{columns}x8xf32>, memref<2x{columns}x8xf32>"""
    text = planned({"a": f"memref<16x{columns}xf32>"}, {"out": f"memref<2x{columns}x8xf32>"}, body, [2])
    agree(text, numbers(16, columns))
    assert ("cp.async.cg" in ptx_of(text)[0]) == (operation == "copy_async" and columns == 64)


def test_what_is_asked_for_ahead_may_lie_anywhere() -> None:
    body = """
  %far = ng.constant -1000000007 : index
  tile.prefetch %a[%far, %p0] : memref<4x128xf32>
  %x = tile.load %a[%p0, %c0] : memref<4x128xf32>, vector<128xf32>
  tile.store %x, %out[%p0, %c0] : vector<128xf32>, memref<4x128xf32>"""
    agree(planned({"a": "memref<4x128xf32>"}, {"out": "memref<4x128xf32>"}, body, [4]), numbers(4, 128))


def test_loops_carry_scalars_and_tiles() -> None:
    body = """
  %z = ng.constant dense<0.0> : vector<128xf32>
  %low = ng.constant 0xFF800000 : f32
  %sum, %top = tile.for %k = %c0 to %c1000 step %c128 iter(%s = %z, %t = %low) -> (vector<128xf32>, f32) {
    %x = tile.load %a[%p0, %k] {masked} : memref<3x1000xf32>, vector<128xf32>
    %n = ng.add %s, %x : vector<128xf32>
    %m = ng.max %x axes [0] : (vector<128xf32>) -> f32
    %u = ng.maximum %t, %m : f32
    ng.yield %n, %u : vector<128xf32>, f32
  }
  %total = ng.sum %sum axes [0] : (vector<128xf32>) -> f32
  %first = ng.equal %p0, %c0 : (index, index) -> i1
  %r = ng.if %first -> f32 {
    %d = ng.subtract %total, %top : f32
    ng.yield %d : f32
  } else {
    ng.yield %total : f32
  }
  tile.store %r, %o0[%p0] : f32, memref<3xf32>
  tile.store %top, %o1[%p0] : f32, memref<3xf32>"""
    text = planned({"a": "memref<3x1000xf32>"}, {"o0": "memref<3xf32>", "o1": "memref<3xf32>"}, body, [3])
    agree(text, numbers(3, 1000), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("step", ["%c0", "%n"])
def test_a_loop_whose_step_is_not_known_to_be_positive_is_a_limit(step: str) -> None:
    body = f"""
  %n = tile.load %a[] : memref<index>, index
  tile.for %i = %c0 to %c8 step {step} {{
    tile.store %i, %out[%i] : index, memref<8xindex>
    ng.yield
  }}"""
    with pytest.raises(Limit, match="the step of a loop must be a positive constant"):
        ptx_of(planned({"a": "memref<index>"}, {"out": "memref<8xindex>"}, body))


def test_loops_of_unknown_length() -> None:
    body = """
  %n = tile.load %b[%p0] : memref<4xi64>, i64
  %stop = ng.cast %n : (i64) -> index
  %z = ng.constant dense<0.0> : vector<64xf32>
  %sum = tile.for %k = %c0 to %stop iter(%s = %z) -> vector<64xf32> {
    %x = tile.load %a[%k, %c0] : memref<9x64xf32>, vector<64xf32>
    %t = ng.add %s, %x : vector<64xf32>
    ng.yield %t : vector<64xf32>
  }
  tile.store %sum, %out[%p0, %c0] : vector<64xf32>, memref<4x64xf32>"""
    text = planned({"a": "memref<9x64xf32>", "b": "memref<4xi64>"}, {"out": "memref<4x64xf32>"}, body, [4])
    agree(text, numbers(9, 64), np.array([0, 1, 9, 4], "i8"))


@pytest.mark.parametrize("grid", [[], [3], [2, 3], [2, 3, 4], [2, 3, 2, 2], [65537, 1]])
def test_grids(grid: list[int]) -> None:
    sizes = "x".join(map(str, grid)) + "x" if grid else ""
    kind = f"memref<{sizes}i64>"
    lines = ["  %t0 = ng.add %c7, %c0 : index"]
    for d in range(len(grid)):
        lines += [f"  %m{d} = ng.multiply %t{d}, %c10 : index", f"  %t{d + 1} = ng.add %m{d}, %p{d} : index"]
    lines += [f"  %v = ng.cast %t{len(grid)} : (index) -> i64"]
    at = ", ".join(f"%p{d}" for d in range(len(grid)))
    lines += [f"  tile.store %v, %out[{at}] : i64, {kind}"]
    text = planned({}, {"out": kind}, "\n".join(lines), grid)
    programs = f"grid({', '.join(f'%p{d} < {size}' for d, size in enumerate(grid))})"
    assert programs in text
    text = text.replace(programs, f"{programs} threads(32)")
    (got,) = simulated(text, [])
    expected = np.full(grid, 7)
    for d in range(len(grid)):
        expected = expected * 10 + np.arange(grid[d]).reshape([-1 if i == d else 1 for i in range(len(grid))])
    np.testing.assert_array_equal(got, expected)


# ---- entry functions

ADD = """
tile.kernel @add ins(%x: memref<64xf32>, %y: memref<64xf32>) outs(%z: memref<64xf32>) threads(64) {
  %c0 = ng.constant 0 : index
  %a = tile.load %x[%c0] : memref<64xf32>, vector<64xf32>
  %b = tile.load %y[%c0] : memref<64xf32>, vector<64xf32>
  %c = ng.add %a, %b : vector<64xf32>
  tile.store %c, %z[%c0] : vector<64xf32>, memref<64xf32>
  tile.return
}
"""


def test_constants_arena_and_tied_results() -> None:
    text = (
        ADD
        + """
func.func @main(%state: memref<64xf32>, %x: memref<64xf32>, %out: memref<64xf32>, %k: memref<64xf32>, %arena: memref<512xi8>)
    attributes {ng.arguments = 2 : i64, ng.results = 2 : i64, ng.tied = array<i64: 0, 0>, ng.constants = [dense<2.0> : tensor<64xf32>]} {
  %t = tile.view %arena at 256 : memref<64xf32>
  tile.launch @add ins(%x, %k) outs(%t)
  tile.launch @add ins(%state, %t) outs(%state)
  tile.launch @add ins(%t, %state) outs(%out)
  func.return
}
"""
    )
    unit = emit(from_text(text), TARGET)
    (entry,) = unit.entries
    assert entry.signature.tied == ((0, 0),) and entry.signature.arena_bytes == 512
    assert [launch.threads for launch in entry.launches] == [64] * 3
    assert "noalias" not in unit.llvm.split("%p0")[0], "the first buffer may be the one that is written"
    state, x = numbers(64), numbers(64, seed=1)
    tied, out = simulated(text, [state, x])
    np.testing.assert_array_equal(tied, state + (x + np.float32(2)))
    np.testing.assert_array_equal(out, (x + np.float32(2)) + tied)


def test_kernels_in_place_read_before_they_write() -> None:
    text = """
tile.kernel @turn ins(%x: memref<64x64xf32>) outs(%y: memref<64x64xf32>) {
  %c0 = ng.constant 0 : index
  %a = tile.load %x[%c0, %c0] : memref<64x64xf32>, vector<64x64xf32>
  %m = ng.max %a axes [1] : (vector<64x64xf32>) -> vector<64xf32>
  %b = tile.load %x[%c0, %c0] {dims = array<i64: 1, 0>} : memref<64x64xf32>, vector<64x64xf32>
  %mm = ng.broadcast %m dims [0] : (vector<64xf32>) -> vector<64x64xf32>
  %d = ng.subtract %b, %mm : vector<64x64xf32>
  tile.store %d, %y[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  tile.return
}
func.func @main(%x: memref<64x64xf32>, %arena: memref<0xi8>)
    attributes {ng.arguments = 1 : i64, ng.results = 1 : i64, ng.tied = array<i64: 0, 0>} {
  tile.launch @turn ins(%x) outs(%x)
  func.return
}
"""
    x = numbers(64, 64)
    for seed in range(8):
        (got,) = simulated(text, [x], seed)
        np.testing.assert_array_equal(got, x.T - x.max(1, keepdims=True))


def test_an_empty_grid_launches_nothing() -> None:
    body = "  %x = ng.constant 1.0 : f32\n  tile.store %x, %out[%p0] : f32, memref<0xf32>"
    (got,) = simulated(planned({}, {"out": "memref<0xf32>"}, body, [0]), [])
    assert got.shape == (0,)


def test_copies_and_loops_between_kernels() -> None:
    text = (
        ADD.replace("64x", "3x")
        + """
func.func @main(%x: memref<5x3xf32>, %s: memref<3xf32>, %all: memref<5x3xf32>, %last: memref<3xf32>, %arena: memref<64xi8>)
    attributes {ng.arguments = 2 : i64, ng.results = 2 : i64} {
  %c0 = ng.constant 0 : index
  %c4 = ng.constant 4 : index
  %t = tile.view %arena at 16 : memref<3xf32>
  tile.copy %s, %t : memref<3xf32>, memref<3xf32>
  tile.for %i = 0 to 5 {
    %back = ng.subtract %c4, %i : index
    %w = tile.subview %x[%back, %c0] : memref<5x3xf32>, memref<3xf32, strided<[1], offset: ?>>
    %wx = tile.view %w at 0 : memref<3xf32>
    tile.launch @add ins(%wx, %t) outs(%t)
    %o = tile.subview %all[%back, %c0] : memref<5x3xf32>, memref<3xf32, strided<[1], offset: ?>>
    tile.copy %t, %o : memref<3xf32>, memref<3xf32, strided<[1], offset: ?>>
    ng.yield
  }
  tile.copy %t, %last : memref<3xf32>, memref<3xf32>
  func.return
}
"""
    )
    x, s = numbers(5, 3), numbers(3, seed=1)
    every, last = simulated(text, [x, s])
    sums = [s]
    for row in x[::-1]:
        sums.append(row + sums[-1])
    np.testing.assert_array_equal(every, np.array(sums[:0:-1]))
    np.testing.assert_array_equal(last, sums[-1])
    unit = emit(from_text(text), TARGET)
    assert len(unit.entries[0].launches) == 12 and unit.llvm.count("define ptx_kernel") == 2


def test_symbols_that_ptx_cannot_spell() -> None:
    text = planned(
        {},
        {"out": "memref<1xf32>"},
        "  %x = ng.constant 1.5 : f32\n  tile.store %x, %out[%c0] : f32, memref<1xf32>",
    )
    (got,) = simulated(text.replace("@k", '@"a.b-c"'), [])
    assert got == [1.5]


def test_computing_between_kernels_is_a_limit() -> None:
    # A condition is read there (tests/unit/test_bodies.py); other numbers are not.
    text = """
func.func @main(%x: memref<f32>, %arena: memref<0xi8>) attributes {ng.arguments = 1 : i64, ng.results = 0 : i64} {
  %c = tile.load %x[] : memref<f32>, f32
  func.return
}
"""
    with pytest.raises(Limit, match="between kernels"):
        emit(from_text(text), TARGET)


def test_too_much_shared_memory_is_a_limit() -> None:
    body = "  %s = tile.alloc : memref<60000xf32, 3>"
    with pytest.raises(Limit, match="needs 240000 bytes of shared memory per block, sm_90a has 232448"):
        emit(from_text(planned({}, {"out": "memref<1xf32>"}, body)), TARGET)


def test_more_than_48_kilobytes_are_asked_for_at_the_launch() -> None:
    body = """
  %at = ng.constant 15000 : index
  %s = tile.alloc : memref<16000xf32, 3>
  %x = tile.load %a[%c0] : memref<1000xf32>, vector<1000xf32>
  tile.store %x, %s[%at] : vector<1000xf32>, memref<16000xf32, 3>
  tile.barrier
  %back = ng.constant 15999 : index
  %y = tile.load %s[%back] {steps = array<i64: -1>} : memref<16000xf32, 3>, vector<1000xf32>
  tile.store %y, %out[%c0] : vector<1000xf32>, memref<1000xf32>"""
    text = planned({"a": "memref<1000xf32>"}, {"out": "memref<1000xf32>"}, body)
    agree(text, numbers(1000))
    _, artifact = ptx_of(text)
    (launch,) = artifact.entries[0].steps
    assert isinstance(launch, Launch) and 64000 <= launch.shared_bytes <= 72000


@pytest.mark.parametrize("threads", [32, 96, 160, 224, 1024])
def test_any_whole_number_of_warps(threads: int) -> None:
    body = """
  %at = ng.multiply %p0, %c64 : index
  %x = tile.load %a[%at, %c0] {masked} : memref<100x65xf32>, vector<64x128xf32>
  %m = ng.sum %x axes [1] : (vector<64x128xf32>) -> vector<64xf32>
  %n = ng.max %x axes [0] : (vector<64x128xf32>) -> vector<128xf32>
  %c = ng.cumulative_sum %n axis 0 : vector<128xf32>
  %t = ng.transpose %x perm [1, 0] : (vector<64x128xf32>) -> vector<128x64xf32>
  tile.store %t, %turned[%c0, %at] {masked} : vector<128x64xf32>, memref<65x100xf32>
  tile.store %m, %rows[%at] {masked} : vector<64xf32>, memref<100xf32>
  tile.store %c, %columns[%p0, %c0] {masked} : vector<128xf32>, memref<2x65xf32>"""
    outputs = {"turned": "memref<65x100xf32>", "rows": "memref<100xf32>", "columns": "memref<2x65xf32>"}
    text = planned({"a": "memref<100x65xf32>"}, outputs, body, [2]).replace(
        "(%p0 < 2)", f"(%p0 < 2) threads({threads})"
    )
    agree(text, numbers(100, 65), rtol=1e-5, atol=1e-5)


def test_threads_come_in_warps() -> None:
    with pytest.raises(UserError, match="asks for 48 threads"):
        emit(
            from_text(
                ADD.replace("threads(64)", "threads(48)")
                + """
func.func @main(%x: memref<64xf32>, %out: memref<64xf32>, %arena: memref<0xi8>) attributes {ng.arguments = 1 : i64, ng.results = 1 : i64} {
  tile.launch @add ins(%x, %x) outs(%out)
  func.return
}
"""
            ),
            TARGET,
        )


@pytest.mark.parametrize(
    ("grid", "launched"),
    [("%i < 70000, %j < 2", (140000, 1, 1)), ("%i < 3, %j < 65535, %k < 70000", (70000, 65535, 3)), ("%i < 65536, %j < 3, %k < 32768", None), ("%i < 2147483647", (2**31 - 1, 1, 1)), ("%i < 2147483648", None)],
)  # fmt: skip
def test_grids_fit_the_hardware(grid: str, launched: tuple[int, int, int] | None) -> None:
    text = f"""
tile.kernel @k ins(%x: memref<4xf32>) outs(%y: memref<4xf32>) grid({grid}) {{
  %c = ng.constant 0 : index
  %v = tile.load %x[%c] : memref<4xf32>, vector<4xf32>
  tile.store %v, %y[%c] : vector<4xf32>, memref<4xf32>
  tile.return
}}
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %arena: memref<0xi8>) attributes {{ng.arguments = 1 : i64, ng.results = 1 : i64}} {{
  tile.launch @k ins(%x) outs(%y)
  func.return
}}
"""
    if launched is None:
        with pytest.raises(
            Limit, match=r"kernel @k has \d+ blocks\nhint: a launch can have at most 2147483647"
        ):
            emit(from_text(text), TARGET)
    else:
        (launch,) = emit(from_text(text), TARGET).entries[0].steps
        assert isinstance(launch, Launch) and launch.grid == launched
