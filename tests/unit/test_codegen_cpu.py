# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops and loads and stores with tails, as machine code: every op, every element type."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from kernel_text import agree, compiled, host_with_vectors, planned

from ngmlir.codegen.cpu.places import Extent, attributes
from ngmlir.llvm.machine import host_target

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS = {
    f"{sign}i{width}": np.dtype(f"{'u' if sign else 'i'}{width // 8}")
    for sign in ("", "u")
    for width in (8, 16, 32, 64)
}
SIZE = 67  # two or more registers and a tail at every width


def samples(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Ordinary numbers and all the special ones."""
    random = np.random.default_rng(seed)
    if dtype == "i1":
        return random.random(count) < 0.5
    if dtype in INTEGERS:
        kind = np.dtype(INTEGERS[dtype])
        info = np.iinfo(kind)
        values = random.integers(-9, 10, count).astype(kind)
        edge = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, 3, 7]
    else:
        kind = np.dtype(FLOATS[dtype])
        info = ml_dtypes.finfo(kind)
        values = (random.standard_normal(count) * 4).astype(kind)
        edge = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            info.tiny,
            info.smallest_subnormal,
            0.5,
            2.5,
            -1.5,
            1.0,
        ]
    places = random.permutation(count)[: 2 * len(edge)]
    with np.errstate(all="ignore"):
        values[places] = np.array([*edge, *edge][: len(places)], object).astype(kind)
    return values


def elementwise(op: str, source: str, result: str, operands: int, condition: bool = False) -> str:
    a, b = f"vector<{SIZE}x{source}>", f"vector<{SIZE}x{result}>"
    inputs = {f"x{i}": f"memref<{SIZE}x{source}>" for i in range(operands)}
    if condition:
        inputs = {"c": f"memref<{SIZE}xi1>", **inputs}
    lines = [f"%{n}v = tile.load %{n}[%c0] : {t}, {t.replace('memref', 'vector')}" for n, t in inputs.items()]
    names = ", ".join(f"%{n}v" for n in inputs)
    types = ", ".join(t.replace("memref", "vector") for t in inputs.values())
    lines.append(f"%r = {op} {names} : ({types}) -> {b}")
    lines.append(f"tile.store %r, %o[%c0] : {b}, memref<{SIZE}x{result}>")
    assert a in types
    return planned(inputs, {"o": f"memref<{SIZE}x{result}>"}, "\n".join(lines))


BOTH = ["absolute", "square", "negative", "sign"]
UNARY_FLOAT = [*BOTH, "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "round", "trunc"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "floor_divide"]
COMPARE = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHIFTS = ["shift_left", "shift_right_logical", "shift_right_arithmetic"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY_FLOAT)
def test_float_ops_of_one_operand(op: str, dtype: str) -> None:
    agree(elementwise(f"ng.{op}", dtype, dtype, 1), samples(dtype, SIZE))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_ops_of_one_operand(dtype: str) -> None:
    for op in ["absolute", "square", "bitwise_not", *(["negative", "sign"] if dtype[0] == "i" else [])]:
        agree(elementwise(f"ng.{op}", dtype, dtype, 1), samples(dtype, SIZE))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", [*BINARY, "divide", "copysign"])
def test_float_ops_of_two_operands(op: str, dtype: str) -> None:
    agree(elementwise(f"ng.{op}", dtype, dtype, 2), samples(dtype, SIZE), samples(dtype, SIZE, 1))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_ops_of_two_operands(dtype: str) -> None:
    for op in [*BINARY, "remainder", *BITS, *SHIFTS]:
        agree(elementwise(f"ng.{op}", dtype, dtype, 2), samples(dtype, SIZE), samples(dtype, SIZE, 1))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "i1"])
def test_comparisons_and_select(dtype: str) -> None:
    x, y = samples(dtype, SIZE), samples(dtype, SIZE, 1)
    for op in COMPARE:
        agree(elementwise(f"ng.{op}", dtype, "i1", 2), x, y)
    agree(elementwise("ng.select", dtype, dtype, 2, condition=True), samples("i1", SIZE, 2), x, y)


def test_bits_of_truth_values() -> None:
    x, y = samples("i1", SIZE), samples("i1", SIZE, 1)
    for op in BITS:
        agree(elementwise(f"ng.{op}", "i1", "i1", 2), x, y)
    agree(elementwise("ng.bitwise_not", "i1", "i1", 1), x)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_fma(dtype: str) -> None:
    arrays = [samples(dtype, SIZE, seed) for seed in range(3)]
    agree(elementwise("ng.fma", dtype, dtype, 3), *arrays)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, "i1"])
def test_casts(source: str) -> None:
    x = samples(source, SIZE)
    for result in [*FLOATS, *INTEGERS, "i1"]:
        values = x
        if source in FLOATS and result in INTEGERS:
            low, high = (0, 100) if result[0] == "u" else (-100, 100)
            values = np.random.default_rng(3).uniform(low, high, SIZE).astype(FLOATS[source])
        agree(elementwise("ng.cast", source, result, 1), values)


@pytest.mark.parametrize("bits", [True, False])
def test_conversions_of_every_half(bits: bool) -> None:
    """All 65536 values of f16 and bf16, to f32 and back, with and without the machine's instructions."""
    host = host_target()
    if bits and not host.can("half"):
        pytest.skip("this machine has no instructions for halves")
    if not bits and host.can("half") and not host.has("f16c"):
        pytest.skip(f"every {host.architecture.name} has instructions for halves")
    lesser = replace(host, features=host.features + ",-f16c", vector_bytes=0, vector_registers=0)
    target = host if bits else lesser
    assert target.can("half") == bits
    for dtype, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        x = np.arange(65536, dtype=np.uint16).view(kind)
        body = f"""
          tile.for %i = %c0 to %c65536 step %c64 {{
            %v = tile.load %x[%i] : memref<65536x{dtype}>, vector<64x{dtype}>
            %w = ng.cast %v : (vector<64x{dtype}>) -> vector<64xf32>
            tile.store %w, %o[%i] : vector<64xf32>, memref<65536xf32>
            %u = tile.load %y[%i] : memref<65536xf32>, vector<64xf32>
            %s = ng.cast %u : (vector<64xf32>) -> vector<64x{dtype}>
            tile.store %s, %q[%i] : vector<64x{dtype}>, memref<65536x{dtype}>
            ng.yield
          }}"""
        text = planned(
            {"x": f"memref<65536x{dtype}>", "y": "memref<65536xf32>"},
            {"o": "memref<65536xf32>", "q": f"memref<65536x{dtype}>"},
            body,
        )
        # Numbers just beside the halfway points, where a wrong rounding shows.
        with np.errstate(invalid="ignore"):
            y = x.astype(np.float32)
        step = np.random.default_rng(0).integers(-2, 3, 65536)
        half = 1 << (12 if dtype == "f16" else 15)
        y = (y.view(np.int32) + half + step.astype(np.int32)).view(np.float32)
        agree(text, x, y, target=target)


def test_f64_to_halves_rounds_once() -> None:
    random = np.random.default_rng(0)
    for dtype, kind, mantissa in (("f16", np.float16, 10), ("bf16", ml_dtypes.bfloat16, 7)):
        base = random.standard_normal(SIZE).astype(kind).astype(np.float64)
        unit = 2.0 ** (np.floor(np.log2(np.abs(base))) - mantissa)
        x = base + unit * 0.5 + unit * random.choice([-1e-9, 0.0, 1e-9], SIZE)
        (got,) = compiled(elementwise("ng.cast", "f64", dtype, 1), [x])
        up, down = (base + unit).astype(kind), base.astype(kind)
        error = np.abs(got.astype(np.float64) - x)
        best = np.minimum(np.abs(up.astype(np.float64) - x), np.abs(down.astype(np.float64) - x))
        assert (error == best).all()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 15, 16, 17, 31, 64, 97, 1000, 1021])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bf16", "i1"])
def test_loops_with_a_masked_tail(size: int, dtype: str) -> None:
    op = "bitwise_xor" if dtype == "i1" else "add"
    body = f"""
      %n = ng.constant {size} : index
      tile.for %i = %c0 to %n step %c32 {{
        %v = tile.load %x[%i] {{masked}} : memref<{size}x{dtype}>, vector<32x{dtype}>
        %w = tile.load %y[%i] {{masked}} : memref<{size}x{dtype}>, vector<32x{dtype}>
        %r = ng.{op} %v, %w : vector<32x{dtype}>
        tile.store %r, %o[%i] {{masked}} : vector<32x{dtype}>, memref<{size}x{dtype}>
        ng.yield
      }}"""
    type = f"memref<{size}x{dtype}>"
    text = planned({"x": type, "y": type}, {"o": type}, body)
    agree(text, samples(dtype, size), samples(dtype, size, 1))


@pytest.mark.parametrize("shape", [(3, 5), (7, 64), (1, 33), (9, 1), (5, 100)])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_grids_of_masked_blocks(shape: tuple[int, int], vector_bytes: int) -> None:
    """Blocks of 4 x 24 over any matrix, on a grid of programs: both dimensions have a boundary."""
    rows, columns = shape
    type = f"memref<{rows}x{columns}xf32>"
    body = f"""
      %i = ng.multiply %p0, %c4 : index
      %j = ng.multiply %p1, %c24 : index
      %v = tile.load %x[%i, %j] {{masked, pad = 7.0 : f32}} : {type}, vector<4x24xf32>
      %r = ng.square %v : vector<4x24xf32>
      tile.store %r, %o[%i, %j] {{masked}} : vector<4x24xf32>, {type}"""
    grid = (-(-rows // 4), -(-columns // 24))
    target = host_with_vectors(vector_bytes)
    agree(planned({"x": type}, {"o": type}, body, grid), np.random.rand(*shape).astype("f"), target=target)


@pytest.mark.parametrize("start", [-40, -17, -3, -1, 0, 2, 30, 45, 60])
@pytest.mark.parametrize("vector_bytes", [16, 64])
def test_windows_that_begin_or_end_outside(start: int, vector_bytes: int) -> None:
    """The index is read from memory, so that nothing is known of it; what lies outside is the padding."""
    body = """
      %at = tile.load %n[] : memref<i64>, i64
      %i = ng.cast %at : (i64) -> index
      %j = ng.add %i, %c1 : index
      %v = tile.load %x[%i, %j] {masked, pad = -5 : i32} : memref<41x43xi32>, vector<3x37xi32>
      tile.store %v, %o[%c0, %c0] : vector<3x37xi32>, memref<3x37xi32>
      %w = tile.load %x[%c0, %c0] : memref<41x43xi32>, vector<3x37xi32>
      %all = tile.load %x[%c0, %c0] : memref<41x43xi32>, vector<41x43xi32>
      tile.store %all, %q[%c0, %c0] : vector<41x43xi32>, memref<41x43xi32>
      tile.store %w, %q[%i, %j] {masked} : vector<3x37xi32>, memref<41x43xi32>"""
    text = planned(
        {"x": "memref<41x43xi32>", "n": "memref<i64>"},
        {"o": "memref<3x37xi32>", "q": "memref<41x43xi32>"},
        body,
    )
    x = np.arange(41 * 43, dtype=np.int32).reshape(41, 43)
    agree(text, x, np.int64(start), target=host_with_vectors(vector_bytes))


def test_scalars_and_empty_grids() -> None:
    body = """
      %v = tile.load %x[] : memref<f32>, f32
      %w = ng.add %v, %v : f32
      tile.store %w, %o[] : f32, memref<f32>"""
    agree(planned({"x": "memref<f32>"}, {"o": "memref<f32>"}, body), np.float32(2.5))
    body = """
      %v = tile.load %x[%p0] : memref<0xf32>, f32
      tile.store %v, %o[%p0] : f32, memref<0xf32>"""
    agree(planned({"x": "memref<0xf32>"}, {"o": "memref<0xf32>"}, body, (0,)), np.empty(0, np.float32))


# Products with a sum, rounded once, where no instruction does it


def parts(dtype: str, count: int, kind: str, seed: int) -> list[np.ndarray]:
    """Three operands whose sum is hard to round: bits are drawn, not numbers."""
    random = np.random.default_rng(seed)
    float_type, width, digits, bias = {
        "f32": (np.float32, 32, 23, 127),
        "f64": (np.float64, 64, 52, 1023),
    }[dtype]
    bits = random.integers(0, (1 << width) - 1, (3, count), np.uint64, endpoint=True)
    if kind == "all":
        return list(bits.astype(f"u{width // 8}").view(float_type))
    sign, fraction = bits >> np.uint64(width - 1) << np.uint64(width - 1), bits & np.uint64((1 << digits) - 1)
    if kind == "ties":  # few digits set
        fraction = (fraction >> np.uint64(digits - 2) << np.uint64(digits - 2)) | (fraction & np.uint64(1))
    first = random.integers(0, 2 * bias + 1, count)
    if kind in ("usual", "cancelled"):  # all far from the ends of the range
        first = random.integers(bias - bias // 8, bias + bias // 8, count)
    product = {
        "ties": random.integers(1, 2 * bias, count),
        "near": random.integers(1, 2 * bias, count),
        "small": random.integers(-digits - 8, 8, count),
        "usual": random.integers(bias - bias // 4, bias + bias // 4, count),
        "cancelled": random.integers(bias - bias // 4, bias + bias // 4, count),
        "great": random.integers(2 * bias - 3, 2 * bias + 5, count),
    }[kind]
    apart = random.integers(-3, 4, count) if kind == "near" else random.integers(-130, 130, count)
    exponents = np.stack([first, product + bias - first, product + apart]).clip(0, 2 * bias + 1)
    whole = sign | fraction | exponents.astype(np.uint64) << np.uint64(digits)
    x, y, z = whole.astype(f"u{width // 8}").view(float_type)
    if kind == "cancelled":  # the addend is the rounded product, or a few units beside it
        z = -(x * y) * (1 + random.integers(-2, 3, count).astype(float_type) * np.finfo(float_type).eps)
    return [x, y, z]


@pytest.mark.parametrize("kind", ["all", "ties", "near", "small", "great", "usual", "cancelled"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_fma_without_an_instruction(dtype: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as exact arithmetic rounded once, special values and denormals included."""
    monkeypatch.setenv("NGMLIR_CPU", "native")
    if host_target().architecture.name != "x86_64":
        pytest.skip("every machine of this architecture has the instruction")
    monkeypatch.setenv("NGMLIR_CPU", "x86-64-v2")
    assert not host_target().can("fma")
    for seed in range(8):
        agree(elementwise("ng.fma", dtype, dtype, 3), *parts(dtype, SIZE, kind, seed))
        agree(elementwise("ng.fma", dtype, dtype, 3), *(samples(dtype, SIZE, 3 * seed + i) for i in range(3)))


def test_what_overlaps_nothing_is_promised_and_nothing_else() -> None:
    """As of each two: they lie in other memory, or one ends where the other begins."""
    random = np.random.default_rng(1)

    def apart(x: Extent, y: Extent) -> bool:
        return (x.space, x.index) != (y.space, y.index) or x.stop <= y.start or y.stop <= x.start

    for count in [1, 2, 3, 5, 9] * 60:
        launches: list[list[Extent]] = []
        for _ in range(random.integers(1, 3)):
            starts, sizes = random.integers(0, 12, count), random.integers(0, 5, count)
            spaces = random.choice(["arena", "argument"], count)
            launches.append([Extent(s, 0, a, a + n) for s, a, n in zip(spaces, starts, sizes, strict=True)])
        alone = [
            all(apart(launch[i], e) for launch in launches for j, e in enumerate(launch) if i != j)
            for i in range(count)
        ]
        assert attributes(launches) == ["noalias" if each else "" for each in alone]
    assert attributes([[None, launches[0][0]]]) == ["", ""]
