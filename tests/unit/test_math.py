# SPDX-License-Identifier: Apache-2.0
"""The math library, judged by wider arithmetic: as the interpreter runs it, and as machine code of the host.

Errors are in units in the last place (ulp) of the exact result, which counts as a number of the element type with
unlimited exponent range: a result that should round to infinity and does has a small error like any other.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from ngmlir.codegen.elementwise import llvm_element, lower
from ngmlir.ir.core import Module
from ngmlir.ir.core import Value as IRValue
from ngmlir.ir.literals import dtype_of, item_bytes
from ngmlir.ir.types import element_type
from ngmlir.ir.verifier import check
from ngmlir.llvm.machine import assemble, host_target, nvptx_target
from ngmlir.llvm.text import Argument
from ngmlir.llvm.text import Module as LlvmModule
from ngmlir.llvm.types import Value, from_bits, i64, ptr, vector
from ngmlir.ops import ng
from ngmlir.ops.interpreter import run
from ngmlir.ops.library import LIBRARY
from ngmlir.ops.meaning.elementwise import TRANSCENDENTAL
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.lower.expand_math import expand_math, find_library_function
from ngmlir.runtime.library import Library
from ngmlir.support.home import folder

Array = np.ndarray[Any, Any]

SCALAR, VECTOR = nvptx_target(), host_target()
DTYPES = {"f32": np.float32, "f64": np.float64}
BITS = {
    "f16": (11, 16),
    "bf16": (8, 128),
    "f32": (24, 128),
    "f64": (53, 1024),
}  # digits, exponent of the first power of 2 too large
WIDER = {"f32": np.float64, "f64": np.longdouble}
LANES = {"f32": 16, "f64": 8}


def judged(operands: int) -> dict[str, tuple[Callable[..., Array], float, float]]:
    """Function of the library -> (exact value, largest error in ulp for f32 and f64), as the ops' entries state them."""
    return {
        name[3:]: (TRANSCENDENTAL[name[3:]], errors["f32"], errors["f64"])
        for name in sorted(LIBRARY)
        for definition in [ng.OPS[name].definition]
        if definition is not None and len(definition.operands) == operands
        for errors in [dict(definition.errors)]
        if errors
    }


UNARY, BINARY = judged(1), judged(2)
#: Functions of two operands that are exact.
EXACT = ("remainder",)
#: NumPy has none in wider types; see below.
ERF = UNARY.pop("erf")
ELEMENTS = ("f32", "f64")


def program(name: str, type: str) -> Module:
    """@main with the one op `ng.name`."""
    if name in BINARY or name in EXACT:
        text = f"func.func @main(%x: {type}, %y: {type}) -> {type} {{ %r = ng.{name} %x, %y : {type} return %r : {type} }}"
    else:
        text = f"func.func @main(%x: {type}) -> {type} {{ %r = ng.{name} %x : {type} return %r : {type} }}"
    return from_text(text)


def interpreted(name: str, element: str, *arrays: Array) -> Array:
    module = expand_math(program(name, f"tensor<{len(arrays[0])}x{element}>"), SCALAR)
    check(module)
    return run(module, *arrays)[0]


@cache
def compiled(name: str, element: str) -> Callable[..., Array]:
    """The expanded op as machine code, in a loop over arrays whose length is a multiple of the lanes."""
    lanes, arity = LANES[element], 2 if name in BINARY or name in EXACT else 1
    module = expand_math(program(name, f"tensor<{lanes}x{element}>"), SCALAR)
    pointers = [Argument(ptr, f"p{i}", "noalias") for i in range(arity + 1)]
    b = LlvmModule().function("f", "void", [*pointers, Argument(i64, "n")])
    *sources, out, n = b.arguments
    body = module.lookup("main").regions[0].block  # type: ignore[union-attr]
    wide = vector(lanes, llvm_element(element_type(body.args[0].type)))
    with b.loop(0, n, lanes) as loop:
        at = [b.getelementptr(element_of(wide), p, loop.index) for p in (*sources, out)]
        values: dict[IRValue, Value] = {
            a: b.load(wide, p, align=4) for a, p in zip(body.args, at, strict=False)
        }
        for op in body.ops:
            operands = [values[o] for o in op.operands]
            if op.name == "func.return":
                b.store(operands[0], at[-1], align=4)
            elif op.name == "ng.constant":
                element_of_op = element_type(op.result.type)
                bits = int.from_bytes(op.attributes["value"].data[: item_bytes(element_of_op)], "little")  # type: ignore[attr-defined]
                values[op.result] = from_bits(vector(lanes, llvm_element(element_of_op)), bits)
            else:
                values[op.result] = lower(b, op, operands)
    b.ret()
    library = Library(assemble(b.module.text(), host_target()), ["f"])
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(library["f"])

    def call(*arrays: Array, owner: object = library) -> Array:
        assert len(arrays[0]) % lanes == 0
        result = np.empty_like(arrays[0])
        entry(*[a.ctypes.data for a in (*arrays, result)], len(result))
        return result

    return call


def element_of(type: str) -> str:
    return type[type.index(" x ") + 3 : -1]


def errors(found: Array, exact: Array, element: str) -> Array:
    """Error of each result in ulp; infinite for a NaN where there is none, the reverse, or a zero of the wrong sign."""
    digits, limit = BITS[element]
    wide = exact.dtype.type
    end = np.ldexp(wide(1), limit)
    value = np.where(np.isinf(found), np.copysign(end, found), found.astype(wide))
    target = np.clip(exact, -end, end)
    exponent = np.clip(np.frexp(target)[1] - digits, 3 - limit - digits, limit - digits)
    error = np.ldexp(np.abs(value - target), -exponent)
    wrong_zero = (exact == 0) & ((found != 0) | (np.signbit(found) != np.signbit(exact)))
    error = np.where(wrong_zero | (np.isnan(found) != np.isnan(exact)), np.inf, error)
    return np.where(np.isnan(exact), np.where(np.isnan(found), 0.0, np.inf), error)


def assert_close(found: Array, exact: Array, element: str, bound: float, *arrays: Array) -> None:
    error = errors(found, exact, element)
    worst = int(np.argmax(error))
    at = ", ".join(repr(a[worst]) for a in arrays)
    assert error[worst] <= bound, f"{error[worst]:.3f} ulp at ({at}): {found[worst]!r}, not {exact[worst]!r}"


def neighbours(values: Array) -> Array:
    """Each value and the three numbers on either side of it."""
    out = [values]
    for direction in (-np.inf, np.inf):
        near = values
        for _ in range(3):
            near = np.nextafter(near, values.dtype.type(direction))
            out.append(near)
    return np.concatenate(out)


def special(element: str) -> Array:
    """Zeros, infinities, NaNs, ends of ranges, points where the functions change their method, and what lies beside."""
    dtype, (digits, limit) = DTYPES[element], BITS[element]
    ends = [limit * math.log(2), (3 - limit - digits) * math.log(2), (2 - limit) * math.log(2)]
    powers = np.ldexp(1.0, np.arange(3 - limit - digits, limit))
    points = [
        0.5,
        1.0,
        2.0,
        3.0,
        math.pi,
        80.0,
        88.0,
        709.0,
        9.5,
        22.0,
        3.95,
        5.95,
        60.0,
        *ends,
        limit,
        3 - limit - digits,
    ]
    turns = [k * math.pi / 4 for k in (*range(1, 50), 1001, 83443, 2**15, 2**20)]
    with np.errstate(all="ignore"):
        finite = np.array([*points, *turns, *powers, float(np.finfo(dtype).max), math.sqrt(0.5)], dtype)
        around = neighbours(np.concatenate([finite, -finite, np.zeros(1, dtype)]))
    return np.concatenate([around, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype)])


def samples(element: str, count: int, seed: int) -> Array:
    """Half of it spread over all bit patterns, half over the ranges where functions are interesting."""
    random, dtype = np.random.default_rng(seed), DTYPES[element]
    width = np.dtype(dtype).itemsize * 8
    bits = np.linspace(0, 1, count // 2, endpoint=False) * 2.0**width + random.integers(
        0, 2 ** (width - 24), count // 2
    )
    patterns = bits.astype(f"u{width // 8}").view(dtype)
    size = count // 8
    near_one = 1 + random.normal(0, 1, size) * 2.0 ** random.uniform(-width * 0.8, 0, size)
    small = random.normal(0, 1, size) * 10.0 ** random.uniform(-6, 2, size)
    spans = [
        random.uniform(-1, 1, size),
        random.uniform(-BITS[element][1], BITS[element][1], size),
        near_one,
        small,
    ]
    known = special(element)
    out = np.concatenate([known, patterns, *[s.astype(dtype) for s in spans]])
    return out[: len(out) // 16 * 16]


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", UNARY)
def test_compiled_functions_are_accurate(name: str, element: str):
    exact, *bounds = UNARY[name]
    for seed in range(8 if element == "f32" else 4):
        x = samples(element, 1 << 19, seed)
        with np.errstate(all="ignore"):
            assert_close(
                compiled(name, element)(x),
                exact(x.astype(WIDER[element])),
                element,
                bounds[element == "f64"],
                x,
            )


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", [*UNARY, "erf"])
def test_machine_code_and_interpreter_agree(name: str, element: str):
    x = np.concatenate([special(element)[::7], samples(element, 4096, 9)[-2048:]])
    x = x[: len(x) // 16 * 16]
    a, b = compiled(name, element)(x), interpreted(name, element, x)
    assert np.array_equal(a, b, equal_nan=True)
    assert np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))


def test_erf_is_accurate():
    x32 = samples("f32", 1 << 19, 0)
    exact = np.array([math.erf(v) for v in x32.tolist()])
    assert_close(compiled("erf", "f32")(x32), exact, "f32", ERF[1], x32)
    x64 = np.concatenate(
        [samples("f64", 4096, 0)[-2048:], np.linspace(-6.2, 6.2, 8192), special("f64")[-64:]]
    )
    exact = np.array([np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(float(v))), 25)) for v in x64])
    exact = np.copysign(exact, x64)
    assert_close(compiled("erf", "f64")(x64), exact, "f64", ERF[2], x64)


@pytest.mark.parametrize("element", ELEMENTS)
def test_binary_functions_are_accurate(element: str):
    dtype, wider, count = DTYPES[element], WIDER[element], 1 << 18
    random, span = np.random.default_rng(4), 0.7 * BITS[element][1]
    ends = np.array(
        [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 2.5, -2.5, 1e30, -1e30, 1e-30]
    )
    odd = np.array(
        [
            2.0**24 - 1,
            2.0**24 + 2,
            2.0**25 + 4,
            2.0**53 - 1,
            2.0**53,
            np.finfo(dtype).max,
            np.finfo(dtype).tiny,
        ]
    )
    first, second = (g.ravel().astype(dtype) for g in np.meshgrid(*[np.concatenate([ends, odd, -odd])] * 2))
    x, y = samples(element, count, 5), samples(element, count, 6)[::-1].copy()
    x, y = np.concatenate([x, first]), np.concatenate([y, second])
    x, y = x[: len(x) // 16 * 16], y[: len(y) // 16 * 16]
    with np.errstate(all="ignore"):
        exact = np.arctan2(x.astype(wider), y.astype(wider))
        assert_close(
            compiled("atan2", element)(x, y), exact, element, BINARY["atan2"][1 + (element == "f64")], x, y
        )
        base = np.exp(random.uniform(-span, span, count)).astype(dtype)
        near_one = (
            1 + random.normal(0, 1, count) * 2.0 ** random.uniform(-BITS[element][0], -1, count)
        ).astype(dtype)
        exponents = [
            (random.uniform(-span, span, count) / np.log(np.abs(b).astype(wider))).astype(dtype)
            for b in (base, near_one)
        ]
        # Bases where the logarithm is least exact, to the powers that magnify its error most.
        middle = np.exp2(random.uniform(-0.6, 0.6, count)).astype(dtype)
        exponents.append(
            (random.uniform(-1.4, 1.4, count) * span / np.log(middle.astype(wider))).astype(dtype)
        )
        integers = random.integers(-40, 40, count).astype(dtype)
        x = np.concatenate([x, base, near_one, middle, random.normal(0, 10, count).astype(dtype)])
        y = np.concatenate([y, *exponents, integers])
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        assert_close(
            compiled("power", element)(x, y), exact, element, BINARY["power"][1 + (element == "f64")], x, y
        )


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_machine_code_and_interpreter_agree(name: str, element: str):
    x, y = (a[: 128 * 16] for a in (samples(element, 8192, 1)[-4096:], samples(element, 8192, 2)[-4096:]))
    assert np.array_equal(compiled(name, element)(x, y), interpreted(name, element, x, y), equal_nan=True)


@pytest.mark.parametrize("element", ELEMENTS)
def test_values_that_must_be_exact(element: str):
    dtype, (digits, limit) = DTYPES[element], BITS[element]
    exponents = np.arange(3 - limit - digits, limit).astype(dtype)
    powers = np.ldexp(dtype(1), exponents.astype(np.int32))
    assert np.array_equal(interpreted("exp2", element, exponents), powers)
    assert np.array_equal(interpreted("log2", element, powers), exponents)
    zero, one = np.zeros(1, dtype), np.ones(1, dtype)
    for name, x, y in [
        ("exp", zero, 1), ("cos", zero, 1), ("cosh", zero, 1), ("sigmoid", zero, 0.5), ("log", one, 0), ("log2", one, 0),
        ("log10", 10 * one, 1), ("log10", 1000 * one, 3), ("acos", one, 0), ("erf", 10 * one, 1), ("tanh", 30 * one, 1),
    ]:  # fmt: skip
        assert interpreted(name, element, x)[0] == y, name


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", ["sin", "cos", "tanh", "erf"])
def test_values_stay_within_one(name: str, element: str):
    x = samples(element, 1 << 18, 11)
    assert np.nanmax(np.abs(compiled(name, element)(x))) <= 1


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_far_arguments_near_multiples_of_half_pi(name: str):
    """What is left of these after the reduction is as small as it gets; digits of 2 / pi beyond the usual count."""
    far = [2.0**45, 1e22, 1e300, 6381956970095103 * 2.0**797, 7.507385369865516e234, 2.1684714451092387e20]
    x = np.array([*far, 1.0] * 8, np.float64)[:48]
    with mpmath.workprec(1300):
        exact = [mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(v)), 25) for v in x.tolist()]
    assert_close(compiled(name, "f64")(x), np.array([np.longdouble(e) for e in exact]), "f64", 32, x)


def halves(element: str) -> Array:
    """All numbers of f16 or bf16."""
    dtype = dtype_of(
        from_text(f"func.func @f(%x: {element}) {{ return }}").lookup("f").regions[0].block.args[0].type
    )  # type: ignore[union-attr]
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


HALVES = [(name, element) for name in UNARY for element in ("f16", "bf16")]
#: The functions that the library has for f16 or bf16, shorter than those for f32.
SHORTER = [(name, element) for name, element in HALVES if find_library_function(f"{name}_{element}")]


@pytest.mark.parametrize(
    "name, element", [*(pair for pair in HALVES if pair not in SHORTER), ("erf", "f16"), ("erf", "bf16")]
)
def test_every_half_is_rounded_from_f32(name: str, element: str):
    x = halves(element)
    found = interpreted(name, element, x)
    wide = interpreted(name, "f32", x.astype(np.float32))
    with np.errstate(all="ignore"):
        expected = wide.astype(x.dtype).astype(np.float32)
        assert np.array_equal(found.astype(np.float32), expected, equal_nan=True)


@pytest.mark.parametrize("name, element", SHORTER)
def test_shorter_functions_round_nearly_right(name: str, element: str):
    x = halves(element)
    with np.errstate(all="ignore"):
        exact = UNARY[name][0](x.astype(np.float64))
        assert_close(interpreted(name, element, x), exact, element, 0.54, x)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_powers_of_halves_round_nearly_right(element: str):
    x, random = halves(element), np.random.default_rng(0)
    with np.errstate(all="ignore"):
        reach = random.uniform(-1.1, 1.1, len(x)) * BITS[element][1]
        near_the_ends = (reach / np.log2(np.abs(x.astype(np.float64)))).astype(x.dtype)
        for y in (
            *(np.full_like(x, each) for each in (2, 3, -1, 0.5, 0)),
            near_the_ends,
            random.permutation(x),
        ):
            exact = np.power(x.astype(np.float64), y.astype(np.float64))
            assert_close(interpreted("power", element, x, y), exact, element, 0.51, x, y)


@pytest.mark.parametrize("element", ["i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"])
def test_integer_power_is_its_meaning(element: str):
    module = program("power", f"tensor<1024x{element}>")
    tiles = program("power", f"vector<1024x{element}>")
    dtype = dtype_of(module.lookup("main").regions[0].block.args[0].type)  # type: ignore[union-attr]
    random, low = np.random.default_rng(0), 0 if element[0] == "u" else -5
    x = random.integers(low, 12, 1024).astype(dtype)
    y = random.integers(low, 30, 1024).astype(dtype)
    x[:64], y[:64] = (
        np.repeat(np.arange(low, low + 8), 8).astype(dtype),
        np.tile(np.arange(low, low + 8), 8).astype(dtype),
    )
    for each in (module, tiles):
        assert np.array_equal(run(expand_math(each, SCALAR), x, y)[0], run(module, x, y)[0])


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("far", [False, True])
def test_tiles_leave_the_rare_path_out_unless_it_is_needed(name: str, far: bool, element: str):
    branching, straight = (
        expand_math(program(name, f"{container}<4x8x{element}>"), VECTOR)
        for container in ("vector", "tensor")
    )
    check(branching)
    x = np.linspace(-1e4, 1e4, 32, dtype=DTYPES[element]).reshape(4, 8)
    if far:
        x[1, 3], x[2, 5] = 1e30, np.inf
    assert np.array_equal(run(branching, x)[0], run(straight, x)[0], equal_nan=True)
    assert [op.name for op in branching.walk()].count("ng.if") == 1
    assert "ng.if" not in [op.name for op in straight.walk()]


@pytest.mark.parametrize(
    "type",
    [
        "f32",
        "f64",
        "f16",
        "tensor<f32>",
        "tensor<0xbf16>",
        "tensor<4x3xf64, #ng.axes<N, C>>",
        "vector<2x5xf16>",
    ],
)
@pytest.mark.parametrize("name", sorted(name.partition(".")[2] for name in LIBRARY))
def test_every_op_expands_on_every_container(name: str, type: str):
    module = expand_math(program(name, type), VECTOR)
    check(module)
    assert not LIBRARY & {op.name for op in module.walk()}


def test_the_library_is_one_sound_module():
    files = sorted((folder("lowering") / "math").glob("*.ngir"))
    module = from_text("\n".join(f.read_text() for f in files))
    symbols = {op.symbol for op in module.ops}
    assert len(symbols) == len(module.ops)
    for file in files:
        own = from_text(file.read_text(), verify=False)
        assert {op.symbol.rpartition("_")[0] for op in own.ops} == {file.stem}
    for name in LIBRARY:
        assert {f"{name.partition('.')[2]}_{e}" for e in ELEMENTS} <= symbols


def test_constants_come_from_the_fitting_script():
    script = Path(__file__).parents[2] / "bench" / "fit_math.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("element", ELEMENTS)
def test_exponentials_of_nothing_above_zero_are_the_same_bits(element: str):
    dtype = DTYPES[element]
    bits = np.dtype(dtype).itemsize * 8
    integers = np.dtype(f"uint{bits}").type
    random = np.random.default_rng(0)
    near = -np.abs(random.standard_normal(1 << 14) * 1e2)
    every = random.integers(1 << (bits - 1), (1 << bits) - 1, 1 << 14, dtype=integers).view(
        dtype
    )  # all below zero
    ends = [
        0.0,
        -0.0,
        -np.inf,
        np.nan,
        -80.0,
        -86.5,
        -87.33,
        -103.97,
        -104.5,
        -708.4,
        -745.13,
        -746.0,
        -1e-45,
        *(-131.2, -131.7, -132.4, -191.0, -797.8, -1063.3, -1151.0),  # where 2^n becomes zero
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate([near.astype(dtype), every, np.array(ends).astype(dtype)])
    text = to_text(program("exp", f"tensor<{len(x)}x{element}>")).replace(
        "ng.exp %x", "ng.exp %x {ng.nonpositive}"
    )
    shorter = expand_math(from_text(text), SCALAR)
    longer = expand_math(program("exp", f"tensor<{len(x)}x{element}>"), SCALAR)
    assert len([*shorter.walk()]) < len([*longer.walk()])
    (found,), (expected,) = run(shorter, x), run(longer, x)
    assert np.array_equal(np.isnan(found), np.isnan(x))
    known = ~np.isnan(x)
    assert np.array_equal(found[known].view(integers), expected[known].view(integers))


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_halves_know_what_is_not_above_zero(element: str):
    x = halves(element)
    with np.errstate(all="ignore"):
        x = x[~(x.astype(np.float32) > 0)]
    text = to_text(program("exp", f"tensor<{len(x)}x{element}>"))
    shorter = expand_math(from_text(text.replace("ng.exp %x", "ng.exp %x {ng.nonpositive}")), SCALAR)
    (found,) = run(shorter, x)
    with np.errstate(all="ignore"):
        assert_close(found, np.exp(x.astype(np.float64)), element, 0.54, x)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_masked_elements_meet_no_denormals(name: str, element: str):
    """Which take a hundred cycles each; -1e30 stands for nothing in many models."""
    x = np.array([-1e30, -np.inf, -1e6, -2000.0], DTYPES[element])
    with np.errstate(under="raise"):
        (found,) = run(expand_math(program(name, f"tensor<4x{element}>"), SCALAR), x)
    assert not found.any()
