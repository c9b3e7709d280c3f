# SPDX-License-Identifier: Apache-2.0
"""The text builder, judged by LLVM and by running what it wrote."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from ngmlir.llvm.machine import assemble, assembly, cpu_target, host_target
from ngmlir.llvm.text import Argument, Function, Module
from ngmlir.llvm.types import constant, f32, f64, from_bits, i1, i8, i32, i64, lanes, poison, ptr, vector
from ngmlir.runtime.library import Library
from ngmlir.support.diagnostics import Bug

f32x4 = vector(4, f32)


def begin(*arguments: Argument, result: str = "void") -> Function:
    return Module().function("f", result, arguments)


def run(b: Function, result: object, *arguments: object) -> object:
    """Runs the function with ctypes arguments (numpy arrays as pointers)."""
    loaded = Library(assemble(b.module.text(), host_target()), ["f"])
    passed = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments]
    function = ctypes.CFUNCTYPE(result, *(type(a) for a in passed))(loaded["f"])  # type: ignore[arg-type]
    return function(*passed)


X, Y, N = Argument(ptr, "x", "noalias readonly"), Argument(ptr, "y", "noalias"), Argument(i64, "n")


@pytest.mark.parametrize("n", [0, 1, 5, 64])
def test_a_loop_carries_values(n: int):
    b = begin(X, N, result=f32)
    x, count = b.arguments
    with b.loop(0, count, carried=[constant(f32, 0.5), constant(i64, 0)]) as loop:
        total, sum_of_indices = loop.carried
        item = b.load(f32, b.getelementptr(f32, x, loop.index), align=4)
        loop.next(b.fadd(total, item), b.add(sum_of_indices, loop.index))
    total, indices = loop.results
    b.ret(b.fadd(total, b.sitofp(indices, f32)))
    data = np.arange(max(n, 1), dtype=np.float32)
    assert run(b, ctypes.c_float, data, ctypes.c_int64(n)) == 0.5 + 2 * data[:n].sum()


def test_nested_loops_and_conditions():
    b = begin(N, result=i64)
    (n,) = b.arguments
    with b.loop(0, n, carried=[constant(i64, 0)]) as rows:
        with b.loop(rows.index, n, 2, carried=rows.carried) as columns:
            (sum_,) = columns.carried
            even = b.icmp("eq", b.and_(columns.index, 1), 0)
            with b.when(even, [sum_]) as odd_out:
                odd_out.next(b.add(sum_, columns.index))
            columns.next(*odd_out.results)
        rows.next(*columns.results)
    b.ret(rows.results[0])
    expected = sum(j for i in range(9) for j in range(i, 9, 2) if j % 2 == 0)
    assert run(b, ctypes.c_int64, ctypes.c_int64(9)) == expected


def test_a_constant_loop_needs_no_guard():
    b = begin()
    with b.loop(0, 4):
        pass
    b.ret()
    assert b.text().count("icmp") == 1


def test_bodies_say_what_their_values_become():
    b = begin(N)
    with pytest.raises(Bug, match="must call next"), b.loop(0, 4, carried=[b.arguments[0]]):
        pass
    with pytest.raises(Bug, match="1 carried values"), b.loop(0, 4, carried=[b.arguments[0]]) as loop:
        loop.next()


def test_blocks_phi_and_switch():
    b = begin(N, result=i64)
    (n,) = b.arguments
    one, two, other, end = (b.label(name) for name in ("one", "two", "other", "end"))
    b.switch(n, other, [(1, one), (2, two)])
    for label in (one, two, other):
        b.place(label)
        b.branch(end)
    b.place(end)
    result = b.phi(i64, (constant(i64, 10), one), (constant(i64, 20), two))
    b.add_incoming(result, constant(i64, -1), other)
    b.ret(result)
    assert [run(b, ctypes.c_int64, ctypes.c_int64(k)) for k in (1, 2, 3)] == [10, 20, -1]


def test_vectors_in_and_out_of_memory():
    b = begin(X, Y)
    x, y = b.arguments
    v = b.load(f32x4, x, align=4)
    reverse = b.shuffle(v, None, [3, 2, 1, 0])
    both = b.shuffle(v, reverse, [0, 4, 1, 5])
    both = b.insert(both, b.extract(v, 3), 2)
    both = b.fma(both, b.splat(b.load(f32, x, align=4), 4), lanes(f32, [1.0, 2.0, 3.0, 4.0]))
    b.store(both, y, align=4)
    b.ret()
    data, out = np.array([2, 3, 5, 7], np.float32), np.zeros(4, np.float32)
    run(b, None, data, out)
    assert out.tolist() == [2 * 2 + 1, 7 * 2 + 2, 7 * 2 + 3, 5 * 2 + 4]


def test_masks_leave_memory_alone():
    b = begin(X, Y)
    x, y = b.arguments
    mask = lanes(i1, [1, 0, 1, 0])
    v = b.masked_load(f32x4, x, mask, constant(f32x4, -1.0), align=4)
    b.masked_store(v, y, lanes(i1, [1, 1, 0, 0]), align=4)
    far = b.getelementptr(f32, x, lanes(i64, [3, 2, 1, 0]))
    w = b.gather(f32x4, far, lanes(i1, [1, 1, 1, 0]), constant(f32x4, 9.0), align=4)
    b.scatter(w, b.getelementptr(f32, y, lanes(i64, [4, 6, 8, 10])), constant("<4 x i1>", 1), align=4)
    b.ret()
    data, out = np.array([2, 3, 5, 7], np.float32), np.zeros(12, np.float32)
    run(b, None, data, out)
    assert out.tolist() == [2, -1, 0, 0, 7, 0, 5, 0, 3, 0, 9, 0]


def test_reductions_and_comparisons():
    b = begin(X, result=f32)
    v = b.load(f32x4, b.arguments[0], align=4)
    positive = b.select(b.fcmp("ogt", v, 0.0), v, 0.0)
    ordered = b.reduce("fadd", positive, constant(f32, 0.0))
    quick = b.reduce("fadd", positive, constant(f32, 0.0), flags="reassoc")
    b.ret(b.fadd(b.fsub(ordered, quick), b.reduce("fmaximum", b.fneg(v))))
    assert run(b, ctypes.c_float, np.array([1, -4, 2, 3], np.float32)) == 4.0


def test_integers_wrap_and_saturate():
    b = begin(Argument(f64, "x"), Argument(i32, "i"), result=i64)
    x, i = b.arguments
    clipped = b.sext(b.fptosi_sat(x, i8), i64)
    minimum = b.sext(b.smin(b.abs(i), 100), i64)
    b.ret(b.add(b.mul(clipped, 1000), b.sub(minimum, b.not_(b.zext(i, i64)))))
    expected = 127 * 1000 + 7 - ~(-7 & 0xFFFFFFFF)
    assert run(b, ctypes.c_int64, ctypes.c_double(1e9), ctypes.c_int32(-7)) == expected


def test_floats_by_their_bits():
    """Every constant arrives in memory with the bits that it was made from, signalling NaN included."""
    patterns = [0x7F800001, 0xFFC12345, 0x80000000, 1, 0x007FFFFF, 0x3DCCCCCD, 0x7F7FFFFF, 0xFF800000]
    b = begin(Y)
    for index, bits in enumerate(patterns):
        b.store(from_bits(f32, bits), b.getelementptr(f32, b.arguments[0], index), align=4)
    b.ret()
    out = np.zeros(len(patterns), np.uint32)
    run(b, None, out)
    assert out.tolist() == patterns


def test_calls_declare_what_they_need():
    module = Module()
    square = module.function("square", f64, [Argument(f64, "x")], linkage="internal")
    (side,) = square.arguments
    square.ret(square.fmul(side, side))
    b = module.function("f", f64, [Argument(f64, "x")])
    (x,) = b.arguments
    direct = b.call(f64, "square", x)
    through_pointer = b.call(f64, square.address, x)
    b.ret(b.call(f64, "pow", b.fadd(direct, through_pointer), constant(f64, 2.0)))
    text = module.text()
    assert text.count("declare") == 1 and "declare double @pow(double, double)" in text
    assert run(b, ctypes.c_double, ctypes.c_double(3.0)) == 18.0**2


def test_variadic_functions_are_called_by_their_full_type():
    b = begin(Y)
    b.module.declare("sprintf", i32, [ptr, ptr, "..."])
    form = b.module.constant_bytes("form", b"%d\0", align=1)
    b.call(i32, "sprintf", b.arguments[0], form, constant(i32, 42))
    b.ret()
    out = np.zeros(3, np.uint8)
    run(b, None, out)
    assert out.tobytes() == b"42\0"


def test_metadata_reaches_llvm():
    b = begin(X, Y)
    module = b.module
    x, y = b.arguments
    first, second = module.alias_scopes(2)
    v = b.load(f32x4, x, align=16, attach=f"{module.invariant}, {first}")
    b.store(v, y, align=16, attach=f"{module.nontemporal}, {second}")
    b.memcpy(y, x, 16)
    b.memset(y, 0, 8)
    b.prefetch(x)
    b.comment("two\nlines")
    b.ret()
    assert module.nontemporal == module.nontemporal
    assert "movnt" in assembly(module.text(), cpu_target("x86-64-v2"))


def test_atomics_and_aggregates():
    b = begin(Argument(ptr, "x"), result=i64)
    (x,) = b.arguments
    before = b.atomic("add", x, constant(i64, 5))
    pair = b.compare_exchange(x, constant(i64, 8), constant(i64, 100), "acq_rel acquire")
    found, same = b.extract_value(pair, 0, i64), b.extract_value(pair, 1, i1)
    again = b.insert_value(poison(pair.type), b.add(found, b.zext(same, i64)), 0)
    b.ret(b.add(before, b.extract_value(again, 0, i64)))
    data = np.array([3], np.int64)
    assert run(b, ctypes.c_int64, data) == 3 + 8 + 1
    assert data[0] == 100


def test_globals():
    b = begin(result=i64)
    counter = b.module.variable("counter", i64, "41", align=8)
    b.ret(b.add(b.load(i64, counter, align=8), 1))
    shared = b.module.variable("tile", "[64 x float]", "undef", align=16, space=3)
    assert shared.type == "ptr addrspace(3)"
    assert "@tile = internal addrspace(3) global [64 x float] undef, align 16" in b.module.text()
    assert run(b, ctypes.c_int64) == 42


def test_functions_have_one_definition():
    module = Module()
    module.function("f", "void")
    with pytest.raises(Bug, match="@f is defined twice"):
        module.function("f", "void")


BINARY: list[tuple[str, Callable[[int, int], int]]] = [
    ("add", lambda x, y: x + y), ("sub", lambda x, y: x - y), ("mul", lambda x, y: x * y),
    ("udiv", lambda x, y: x // y), ("urem", lambda x, y: x % y), ("and_", lambda x, y: x & y),
    ("or_", lambda x, y: x | y), ("xor", lambda x, y: x ^ y), ("shl", lambda x, y: x << y),
    ("lshr", lambda x, y: x >> y), ("ashr", lambda x, y: x >> y), ("sdiv", lambda x, y: x // y),
    ("srem", lambda x, y: x % y), ("smin", min), ("smax", max), ("umin", min), ("umax", max),
]  # fmt: skip


@pytest.mark.parametrize(("method", "meaning"), BINARY)
def test_integer_instructions(method: str, meaning: Callable[[int, int], int]):
    b = begin(N, Argument(i64, "m"), result=i64)
    b.ret(getattr(b, method)(*b.arguments))
    assert run(b, ctypes.c_int64, ctypes.c_int64(1000), ctypes.c_int64(7)) == meaning(1000, 7)


FLOATING: list[tuple[str, Callable[..., object]]] = [
    ("fadd", np.add), ("fsub", np.subtract), ("fmul", np.multiply), ("fdiv", np.divide),
    ("copysign", np.copysign), ("minimum", np.minimum), ("maximum", np.maximum), ("minnum", np.fmin),
    ("maxnum", np.fmax), ("frem", np.fmod),
    ("fabs", np.abs), ("fneg", np.negative), ("sqrt", np.sqrt), ("floor", np.floor), ("ceil", np.ceil),
    ("ftrunc", np.trunc), ("roundeven", np.rint),
]  # fmt: skip


@pytest.mark.parametrize(("method", "meaning"), FLOATING)
def test_floating_instructions(method: str, meaning: Callable[..., np.ndarray]):
    values = [0.0, -0.0, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-310, 1e300]
    arity = 1 if FLOATING.index((method, meaning)) >= 10 else 2
    b = begin(Argument(f64, "x"), Argument(f64, "y"), result=f64)
    b.ret(getattr(b, method)(*b.arguments[:arity]))
    loaded = Library(assemble(b.module.text(), host_target()), ["f"])
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(loaded["f"])
    with np.errstate(all="ignore"):
        for x in values:
            for y in values:
                expected = meaning(*np.array([x, y])[:arity])
                found = function(x, y)
                assert np.array_equal(found, expected, equal_nan=True), (x, y)
                signs = "copysign", "fneg", "minimum", "maximum"
                if method in signs and not (x == y == 0) and not np.isnan(expected):
                    assert np.signbit(found) == np.signbit(expected), (x, y)
