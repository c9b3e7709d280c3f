# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements between lanes: shapes, reductions, cumulative ops, strided and indexed access."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest
from kernel_text import agree, compiled, host_with_vectors, planned

from ngmlir.codegen.cpu import indexed
from ngmlir.codegen.cpu.tiles import transpose_blocks
from ngmlir.ir.verifier import check
from ngmlir.llvm.machine import cpu_target, host_target
from ngmlir.llvm.types import Value, vector
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import UserError

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "ui8": np.uint8,
}
SIZES = (16, 32, 64)


def memref(shape: tuple[int, ...], dtype: str = "f32") -> str:
    return f"memref<{''.join(f'{d}x' for d in shape)}{dtype}>"


def tile(shape: tuple[int, ...], dtype: str = "f32") -> str:
    return f"vector<{''.join(f'{d}x' for d in shape)}{dtype}>" if shape else dtype


def at_zero(name: str, rank: int) -> str:
    return f"%{name}[{', '.join(['%c0'] * rank)}]"


def through(
    ops: str | list[str], old: tuple[int, ...], new: tuple[int, ...], dtype: str = "f32", result: str = ""
) -> str:
    """A kernel that loads one tile, applies each of `ops` to %v and stores the results."""
    a, b = memref(old, dtype), memref(new, result or dtype)
    u, w = tile(old, dtype), tile(new, result or dtype)
    ops = [ops] if isinstance(ops, str) else ops
    lines = [f"%v = tile.load {at_zero('x', len(old))} : {a}, {u}"]
    for i, op in enumerate(ops):
        types = w if "cumulative" in op else f"({u}) -> {w}"
        lines.append(f"%r{i} = {op} : {types}")
        lines.append(f"tile.store %r{i}, {at_zero(f'o{i}', len(new))} : {w}, {b}")
    return planned({"x": a}, {f"o{i}": b for i in range(len(ops))}, "\n".join(lines))


def numbers(shape: tuple[int, ...], dtype: str = "f32") -> np.ndarray:
    random = np.random.default_rng(prod(shape))
    if dtype == "i1":
        return random.random(shape) < 0.5
    if dtype in ("i32", "ui8"):
        return random.integers(0, 9, shape).astype(DTYPES[dtype])
    return random.standard_normal(shape).astype(DTYPES[dtype])


# Shapes


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((16, 16), (1, 0)),
        ((32, 16), (1, 0)),
        ((8, 8), (1, 0)),
        ((4, 4), (1, 0)),
        ((3, 5), (1, 0)),
        ((1, 40), (1, 0)),
        ((40, 1), (1, 0)),
        ((19, 23), (1, 0)),
        ((2, 3, 20), (0, 2, 1)),
        ((2, 3, 20), (1, 0, 2)),
        ((2, 3, 5), (2, 1, 0)),
        ((2, 3, 4, 5), (3, 1, 0, 2)),
    ],
)
def test_transpose(shape: tuple[int, ...], order: tuple[int, ...], size: int) -> None:
    new = tuple(shape[d] for d in order)
    text = through(f"ng.transpose %v perm {list(order)}", shape, new)
    agree(text, numbers(shape), target=host_with_vectors(size))


@pytest.mark.parametrize("dtype", ["f64", "f16", "ui8", "i1"])
def test_transpose_of_other_elements(dtype: str) -> None:
    agree(through("ng.transpose %v perm [1, 0]", (9, 33), (33, 9), dtype), numbers((9, 33), dtype))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((4, 16), (64,)),
        ((3, 7), (21,)),
        ((21,), (7, 3)),
        ((2, 3, 4), (6, 4)),
        ((1,), ()),
        ((5, 20), (10, 10)),
    ],
)
def test_reshape(old: tuple[int, ...], new: tuple[int, ...], size: int) -> None:
    agree(through("ng.reshape %v", old, new), numbers(old), target=host_with_vectors(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("old", "new", "dims"),
    [
        ((), (3, 20), []),
        ((20,), (3, 20), [1]),
        ((3,), (3, 20), [0]),
        ((3, 1), (3, 5, 1), [0, 2]),
        ((2, 9), (2, 4, 9), [0, 2]),
        ((2, 9), (2, 9, 4), [0, 1]),
    ],
)
def test_broadcast(old: tuple[int, ...], new: tuple[int, ...], dims: list[int], size: int) -> None:
    agree(through(f"ng.broadcast %v dims {dims}", old, new), numbers(old), target=host_with_vectors(size))


def test_slice() -> None:
    text = through("ng.slice %v from [4, 1] to [-1, 20] step [-2, 3]", (5, 20), (3, 7))
    agree(text, numbers((5, 20)))
    agree(through("ng.slice %v from [16] to [48] step [1]", (64,), (32,)), numbers((64,)))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenate(axis: int) -> None:
    old, new = (3, 2, 20), tuple(n * (1 + (d == axis)) for d, n in enumerate((3, 2, 20)))
    agree(
        through(f"ng.concatenate %v, %v axis {axis}", old, new).replace(
            f"({tile(old)})", f"({tile(old)}, {tile(old)})"
        ),
        numbers(old),
    )


@pytest.mark.parametrize("words", [1, 3, 16, 37])
def test_bytes_of_words_are_looked_up(words: int) -> None:
    """Each byte by itself, by its lowest four bits."""
    inputs = {"t": memref((2, 16), "ui8"), "x": memref((2, words), "i32")}
    body = f"""
      %a = tile.load %t[%c0, %c0] : {memref((2, 16), "ui8")}, vector<2x16xui8>
      %b = tile.load %x[%c0, %c0] : {memref((2, words), "i32")}, vector<2x{words}xi32>
      %v = tile.lookup_table %a[%b] : (vector<2x16xui8>, vector<2x{words}xi32>) -> vector<2x{words}xi32>
      tile.store %v, %o[%c0, %c0] : vector<2x{words}xi32>, {memref((2, words), "i32")}"""
    draw = np.random.default_rng(words)
    table = draw.integers(0, 256, (2, 16)).astype(np.uint8)
    indices = draw.integers(-(1 << 31), 1 << 31, (2, words)).astype(np.int32)
    agree(planned(inputs, {"o": memref((2, words), "i32")}, body), table, indices)


@pytest.mark.parametrize("name", ["host", "x86-64-v4", "x86-64-v3", "x86-64-v2", "without"])
@pytest.mark.parametrize("element", ["ui8", "i8"])
def test_all_bytes_are_looked_up(name: str, element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each index of 8 bits, in tiles of whole registers, of several rows, and of less than one; also without such instructions."""
    host = host_target()
    target = host if name in ("host", "without") else cpu_target(name)
    if not target.enabled <= host.enabled:
        pytest.skip(f"this machine cannot run code for {name}")
    if name == "without":
        monkeypatch.setattr(indexed, "_LOOKUPS", {})
    shapes = [(256,), (2, 300), (17,), (1,)]
    inputs = {"t": memref((256,), element), **{f"x{i}": memref(s, "ui8") for i, s in enumerate(shapes)}}
    lines = [f"%t0 = tile.load %t[%c0] : {inputs['t']}, vector<256x{element}>"]
    for i, shape in enumerate(shapes):
        at, own = tile(shape, "ui8"), tile(shape, element)
        lines += [
            f"%b{i} = tile.load {at_zero(f'x{i}', len(shape))} : {memref(shape, 'ui8')}, {at}",
            f"%v{i} = tile.lookup_table %t0[%b{i}] : (vector<256x{element}>, {at}) -> {own}",
            f"tile.store %v{i}, {at_zero(f'o{i}', len(shape))} : {own}, {memref(shape, element)}",
        ]
    outputs = {f"o{i}": memref(s, element) for i, s in enumerate(shapes)}
    draw = np.random.default_rng(3)
    table = draw.integers(0, 256, 256).astype(np.uint8).view(np.int8 if element == "i8" else np.uint8)
    indices = [
        np.arange(256, dtype=np.uint8),
        *(draw.integers(0, 256, s).astype(np.uint8) for s in shapes[1:]),
    ]
    agree(planned(inputs, outputs, "\n".join(lines)), table, *indices, target=target)


def test_constants_and_iota() -> None:
    body = """
      %a = ng.constant dense<[[1.0, -0.0, 3.0], [4.0, 0x7FC00000, 6.0]]> : vector<2x3xf32>
      tile.store %a, %o[%c0, %c0] : vector<2x3xf32>, memref<2x3xf32>
      %b = ng.iota {dimension = 1 : i64} : vector<3x21xi16>
      tile.store %b, %q[%c0, %c0] : vector<3x21xi16>, memref<3x21xi16>
      %c = ng.iota {dimension = 0 : i64} : vector<3x21xbf16>
      tile.store %c, %r[%c0, %c0] : vector<3x21xbf16>, memref<3x21xbf16>"""
    outputs = {"o": memref((2, 3)), "q": memref((3, 21), "i16"), "r": memref((3, 21), "bf16")}
    agree(planned({}, outputs, body))


# Reductions


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((20,), [0]),
        ((1,), [0]),
        ((64,), [0]),
        ((3, 20), [1]),
        ((3, 20), [0]),
        ((3, 20), [0, 1]),
        ((16, 16), [1]),
        ((37, 5), [1]),
        ((37, 2), [1]),
        ((5, 1), [1]),
        ((2, 3, 4), [0, 2]),
        ((2, 3, 20), [1]),
        ((7,), []),
    ],
)
def test_reductions(shape: tuple[int, ...], axes: list[int], size: int) -> None:
    new = tuple(d for i, d in enumerate(shape) if i not in axes)
    for dtype in ("f32", "i32", "bf16", "ui8"):
        exact, rounded = [f"ng.{op} %v axes {axes}" for op in ("max", "min")], ["sum", "product"]
        tolerance = {"f32": 1e-5, "bf16": 1e-2}.get(dtype, 0.0)
        x = numbers(shape, dtype)
        agree(through(exact, shape, new, dtype), x, target=host_with_vectors(size))
        text = through([f"ng.{op} %v axes {axes}" for op in rounded], shape, new, dtype)
        agree(text, x, target=host_with_vectors(size), tolerance=tolerance)


@pytest.mark.parametrize("shape", [(20,), (64,), (3, 17)])
def test_truth_reductions(shape: tuple[int, ...]) -> None:
    for op in ("any", "all"):
        for value in (np.zeros(shape, bool), np.ones(shape, bool), numbers(shape, "i1")):
            agree(through(f"ng.{op} %v axes [{len(shape) - 1}]", shape, shape[:-1], "i1"), value)


def test_special_numbers_in_reductions() -> None:
    x = numbers((3, 20))
    x[0, 19], x[1, 3] = np.nan, -np.inf
    agree(through("ng.max %v axes [1]", (3, 20), (3,)), x)
    x[0, 19], x[1, 3] = np.inf, 1.0
    agree(through("ng.sum %v axes [1]", (3, 20), (3,)), x, tolerance=1e-5)
    agree(through("ng.cumulative_sum %v axis 1 {exclusive = true}", (2, 1), (2, 1)), x[:2, :1])


def test_rows_reduce_alike_however_many_there_are() -> None:
    x = numbers((19, 100))
    (all_rows,) = compiled(through("ng.sum %v axes [1]", (19, 100), (19,)), [x])
    for i in (0, 7, 18):
        (one,) = compiled(through("ng.sum %v axes [0]", (100,), ()), [x[i]])
        assert one.tobytes() == all_rows[i].tobytes()


# Cumulative ops


@pytest.mark.parametrize("size", [16, 64])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1,), 0), ((20,), 0), ((64,), 0), ((3, 37), 1), ((5, 20), 0), ((2, 3, 4), 1)]
)
def test_cumulative(shape: tuple[int, ...], axis: int, size: int) -> None:
    flags = ("", "{reverse = true}", "{exclusive = true}", "{exclusive = true, reverse = true}")
    for op in ("sum", "product", "max", "min"):
        for dtype in ("f32", "i32"):
            text = through([f"ng.cumulative_{op} %v axis {axis} {f}" for f in flags], shape, shape, dtype)
            tolerance = 0.0 if dtype == "i32" or op in ("max", "min") else 1e-4
            agree(text, numbers(shape, dtype), target=host_with_vectors(size), tolerance=tolerance)


# Access


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "i1", "f64", "ui8"])
@pytest.mark.parametrize(
    "steps", ["", ", steps = array<i64: 1, 2>", ", steps = array<i64: 1, -1>", ", steps = array<i64: 2, 0>"]
)
@pytest.mark.parametrize("dims", ["", "dims = array<i64: 1, 0>"])
def test_strided_loads_and_stores(dims: str, steps: str, dtype: str, size: int) -> None:
    """Windows of 5 x 20 in any direction, half of which lies outside where it is masked."""
    a, b = memref((70, 70), dtype), memref((5, 20), dtype)
    words = f"{dims}{steps}".lstrip(", ")
    masked = f"{words}, masked" if words else "masked"
    attributes = f"{{{words}}}" if words else ""
    body = f"""
      %v = tile.load %x[%c22, %c23] {attributes} : {a}, {tile((5, 20), dtype)}
      tile.store %v, {at_zero("o", 2)} : {tile((5, 20), dtype)}, {b}
      %w = tile.load %x[%c60, %c62] {{{masked}}} : {a}, {tile((5, 20), dtype)}
      tile.store %w, {at_zero("q", 2)} : {tile((5, 20), dtype)}, {b}"""
    outputs = {"o": b, "q": b}
    if "0>" not in steps:
        body += f"""
      %zero = ng.constant {"false" if dtype == "i1" else "0.0" if dtype[0] == "f" else "0"} : {dtype}
      %row = ng.broadcast %zero dims [] : ({dtype}) -> {tile((70,), dtype)}
      tile.for %i = %c0 to %c70 {{
        tile.store %row, %r[%i, %c0] : {tile((70,), dtype)}, {a}
        ng.yield
      }}
      tile.store %v, %r[%c60, %c62] {{{masked}}} : {tile((5, 20), dtype)}, {a}"""
        outputs["r"] = a
    agree(planned({"x": a}, outputs, body), numbers((70, 70), dtype), target=host_with_vectors(size))


def test_layouts_with_strides() -> None:
    body = """
      %s = tile.subview %x[%c3, %c1, %c5] : memref<6x8x64xf32>, memref<4x32xf32, strided<[64, 1], offset: ?>>
      %v = tile.load %s[%c1, %c2] : memref<4x32xf32, strided<[64, 1], offset: ?>>, vector<2x20xf32>
      tile.store %v, %o[%c0, %c0] : vector<2x20xf32>, memref<2x20xf32>
      %m = tile.alloc : memref<2x20xf32, 3>
      tile.store %v, %m[%c0, %c0] : vector<2x20xf32>, memref<2x20xf32, 3>
      %t = tile.load %m[%c0, %c0] {dims = array<i64: 1, 0>} : memref<2x20xf32, 3>, vector<20x2xf32>
      tile.store %t, %q[%c0, %c0] : vector<20x2xf32>, memref<20x2xf32>
      tile.copy %s, %r : memref<4x32xf32, strided<[64, 1], offset: ?>>, memref<4x32xf32>"""
    outputs = {"o": memref((2, 20)), "q": memref((20, 2)), "r": memref((4, 32))}
    agree(planned({"x": memref((6, 8, 64))}, outputs, body), numbers((6, 8, 64)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "ui8", "bf16", "i1"])
@pytest.mark.parametrize("count", [1, 5, 16, 37])
def test_gather(count: int, dtype: str, size: int) -> None:
    a, t = memref((8, 50), dtype), tile((count,), dtype)
    body = f"""
      %i = tile.load %n[%c0] : memref<{count}xi32>, vector<{count}xi32>
      %v = tile.gather %x[%c3, %i] : {a}, {t}
      tile.store %v, %o[%c0] : {t}, {memref((count,), dtype)}"""
    index = np.random.default_rng(1).integers(0, 50, count).astype(np.int32)
    text = planned({"x": a, "n": f"memref<{count}xi32>"}, {"o": memref((count,), dtype)}, body)
    agree(text, numbers((8, 50), dtype), index, target=host_with_vectors(size))


@pytest.mark.parametrize("combine", ["set", "add", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "i32", "bf16", "ui8"])
def test_scatter(combine: str, dtype: str) -> None:
    """Positions repeat, so the order shows."""
    t = tile((3, 21), dtype)
    body = f"""
      %start = tile.load %x[%c0] : memref<40x{dtype}>, vector<40x{dtype}>
      tile.store %start, %o[%c0] : vector<40x{dtype}>, memref<40x{dtype}>
      %i = tile.load %n[%c0, %c0] : memref<3x21xi64>, vector<3x21xi64>
      %m = tile.load %w[%c0, %c0] : memref<3x21xi1>, vector<3x21xi1>
      %v = tile.load %y[%c0, %c0] : {memref((3, 21), dtype)}, {t}
      tile.scatter %v, %m, %o[%i] {{combine = "{combine}"}} : {t}, memref<40x{dtype}>"""
    inputs = {
        "x": memref((40,), dtype),
        "y": memref((3, 21), dtype),
        "n": "memref<3x21xi64>",
        "w": "memref<3x21xi1>",
    }
    index = np.random.default_rng(1).integers(0, 40, (3, 21))
    text = planned(inputs, {"o": memref((40,), dtype)}, body)
    agree(text, numbers((40,), dtype), numbers((3, 21), dtype), index, numbers((3, 21), "i1"))


def test_what_is_asked_for_ahead_may_lie_anywhere() -> None:
    body = """
      %far = ng.constant -1000000007 : index
      tile.prefetch %x[%far, %far] : memref<4x16xf32>
      tile.prefetch %x[%p0, %c3] : memref<4x16xf32>
      %v = tile.load %x[%p0, %c0] : memref<4x16xf32>, vector<16xf32>
      tile.store %v, %o[%p0, %c0] : vector<16xf32>, memref<4x16xf32>"""
    text = planned({"x": "memref<4x16xf32>"}, {"o": "memref<4x16xf32>"}, body, [4])
    agree(text, numbers((4, 16), "f32"))
    with pytest.raises(UserError, match="1 indices into"):
        check(from_text(text.replace("%x[%p0, %c3]", "%x[%p0]")))


@pytest.mark.parametrize("element", ["i8", "i16", "float", "double"])
@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("beside", [1, 2, 4])
def test_blocks_are_flipped_by_shuffles(element: str, n: int, beside: int) -> None:
    """Of every number of lanes: also several blocks side by side in each register."""
    width = n * beside
    lanes: dict[Value, np.ndarray] = {}

    class Shuffles:
        def shuffle(self, x: Value, y: Value, indices: list[int]) -> Value:
            made = Value(x.type, f"%{len(lanes)}")
            lanes[made] = np.concatenate([lanes[x], lanes[y]])[indices]
            return made

    matrix = np.arange(n * width).reshape(n, width)
    rows = [Value(vector(width, element), f"%{i}") for i in range(n)]
    lanes.update(zip(rows, matrix, strict=True))
    made = transpose_blocks(Shuffles(), rows)  # type: ignore[arg-type]
    wanted = matrix.reshape(n, beside, n).transpose(2, 1, 0).reshape(n, width)
    np.testing.assert_array_equal(np.stack([lanes[row] for row in made]), wanted)
