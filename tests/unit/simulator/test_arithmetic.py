# SPDX-License-Identifier: Apache-2.0
"""What single instructions compute, against NumPy, on PTX that LLVM prints."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ptx_support import (
    BF16,
    SUFFIX,
    TYPES,
    Machine,
    apply,
    assert_same,
    elementwise,
    kernel,
    pairs,
    pointers,
    samples,
)  # fmt: skip

from ngmlir.simulator.formats import FORMATS, fma, round_to

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("half", "bfloat", "float", "double")
WIDE = {"half": np.float64, "bfloat": np.float64, "float": np.float64}


def intrinsic(name: str, kind: str, operands: int, suffix: str = "") -> tuple[str, str]:
    """(call, declaration) of llvm.<name>.<type>."""
    mangled = f"llvm.{name}.{SUFFIX.get(kind, kind)}"
    arguments = ", ".join(f"{kind} %x{n}" for n in range(operands))
    types = ", ".join([kind] * operands)
    extra, extra_type = (f", {suffix}", ", i1") if suffix else ("", "")
    return (
        f"  %r = call {kind} @{mangled}({arguments}{extra})",
        f"declare {kind} @{mangled}({types}{extra_type})",
    )


def run_binary(expression: str, kind: str, result: str | None = None, head: str = "", left=None, right=None):
    if left is None:
        left, right = pairs(kind)
    ptx = elementwise(expression, [kind, kind], result or kind, head)
    with np.errstate(all="ignore"):
        return left, right, apply(ptx, [left, right], TYPES[result or kind])


# ---- integers

INTEGER_OPERATIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", INTEGER_OPERATIONS)
def test_integer_arithmetic(name, kind):
    left, right, actual = run_binary(f"  %r = {name} {kind} %x0, %x1", kind)
    with np.errstate(all="ignore"):
        assert_same(actual, INTEGER_OPERATIONS[name](left, right))


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["sdiv", "udiv", "srem", "urem"])
def test_integer_division_truncates(name, kind):
    left, right = pairs(kind)
    info = np.iinfo(TYPES[kind])
    defined = (right != 0) & ~((left == info.min) & (right == -1))
    right = np.where(defined, right, 1).astype(left.dtype)
    _, _, actual = run_binary(f"  %r = {name} {kind} %x0, %x1", kind, left=left, right=right)
    if name[0] == "u":
        unsigned = np.dtype(f"u{left.dtype.itemsize}")
        a, b = left.view(unsigned), right.view(unsigned)
        expected = (a // b if name == "udiv" else a % b).view(left.dtype)
    else:
        quotient = [
            abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            for a, b in zip(left.tolist(), right.tolist())
        ]
        exact = [
            q if name == "sdiv" else a - q * b for q, a, b in zip(quotient, left.tolist(), right.tolist())
        ]
        expected = np.array(exact).astype(left.dtype)
    assert_same(actual, expected)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["shl", "lshr", "ashr"])
def test_shifts(name, kind):
    left, right = pairs(kind)
    bits = 8 * left.dtype.itemsize
    right = (right.astype(np.int64) % bits).astype(left.dtype)
    _, _, actual = run_binary(f"  %r = {name} {kind} %x0, %x1", kind, left=left, right=right)
    if name == "lshr":
        unsigned = np.dtype(f"u{left.dtype.itemsize}")
        expected = (left.view(unsigned) >> right.view(unsigned)).view(left.dtype)
    else:
        expected = left << right if name == "shl" else left >> right
    assert_same(actual, expected)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["smin", "smax", "umin", "umax"])
def test_integer_extremes(name, kind):
    call, head = intrinsic(name, kind, 2)
    left, right, actual = run_binary(call, kind, head=head)
    pick = np.minimum if name.endswith("min") else np.maximum
    if name[0] == "u":
        unsigned = np.dtype(f"u{left.dtype.itemsize}")
        assert_same(actual, pick(left.view(unsigned), right.view(unsigned)).view(left.dtype))
    else:
        assert_same(actual, pick(left, right))


@pytest.mark.parametrize("name", ["smin", "smax"])
def test_integer_extremes_that_are_not_negative(name):
    """An extreme beside zero is one instruction from sm_90 on."""
    call, head = intrinsic(name, "i32", 2)
    call = call.replace("%r", "%m") + "\n  %r = call i32 @llvm.smax.i32(i32 %m, i32 0)"
    head = head if name == "smax" else head + "\ndeclare i32 @llvm.smax.i32(i32, i32)"
    left, right = pairs("i32")
    ptx = elementwise(call, ["i32", "i32"], "i32", head)
    pick = np.minimum if name == "smin" else np.maximum
    assert f"{name[1:]}.relu.s32" in ptx
    assert_same(apply(ptx, [left, right], TYPES["i32"]), np.maximum(pick(left, right), 0))


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["ctpop", "bitreverse", "ctlz", "cttz", "abs"])
def test_bit_counting(name, kind):
    call, head = intrinsic(name, kind, 1, "i1 false" if name in ("ctlz", "cttz", "abs") else "")
    values = samples(kind, np.random.default_rng(3))
    actual = apply(elementwise(call, [kind], kind, head), [values], values.dtype)
    bits = 8 * values.dtype.itemsize
    patterns = [format(v & ((1 << bits) - 1), f"0{bits}b") for v in values.tolist()]
    meaning = {
        "ctpop": lambda p: p.count("1"),
        "bitreverse": lambda p: int(p[::-1], 2),
        "ctlz": lambda p: len(p) - len(p.lstrip("0")),
        "cttz": lambda p: len(p) - len(p.rstrip("0")),
    }
    if name == "abs":
        expected = np.abs(values)
    else:
        exact = [meaning[name](p) for p in patterns]
        expected = np.array(exact, np.uint64).astype(f"u{bits // 8}").view(values.dtype)
    assert_same(actual, expected)


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("name", ["fshl", "fshr"])
def test_funnel_shifts(name, kind):
    head = f"declare {kind} @llvm.{name}.{kind}({kind}, {kind}, {kind})"
    left, right, actual = run_binary(
        f"  %r = call {kind} @llvm.{name}.{kind}({kind} %x0, {kind} %x1, {kind} %x1)", kind, head=head
    )
    bits = 8 * left.dtype.itemsize
    mask = (1 << bits) - 1
    exact = []
    for a, b in zip(left.tolist(), right.tolist()):
        whole, amount = (a & mask) << bits | (b & mask), b % bits
        exact.append((whole << amount >> bits if name == "fshl" else whole >> amount) & mask)
    assert_same(actual, np.array(exact, np.uint64).astype(f"u{bits // 8}").view(left.dtype))


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("signed", [True, False])
def test_overflow_of_products(kind, signed):
    """LLVM tests it with mul.hi."""
    name = f"llvm.{'s' if signed else 'u'}mul.with.overflow.{kind}"
    head = f"declare {{{kind}, i1}} @{name}({kind}, {kind})"
    body = f"""  %s = call {{{kind}, i1}} @{name}({kind} %x0, {kind} %x1)
  %v = extractvalue {{{kind}, i1}} %s, 0
  %f = extractvalue {{{kind}, i1}} %s, 1
  %r = select i1 %f, {kind} 77, {kind} %v"""
    left, right, actual = run_binary(body, kind, head=head)
    info = np.iinfo(left.dtype if signed else f"u{left.dtype.itemsize}")
    exact = []
    mask = (1 << 8 * left.dtype.itemsize) - 1
    for a, b in zip(left.tolist(), right.tolist()):
        product = a * b if signed else (a & mask) * (b & mask)
        exact.append(product & mask if info.min <= product <= info.max else 77)
    assert_same(actual, np.array(exact, np.uint64).astype(f"u{left.dtype.itemsize}").view(left.dtype))


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("condition", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"])
def test_integer_comparisons(condition, kind):
    body = f"  %c = icmp {condition} {kind} %x0, %x1\n  %r = select i1 %c, {kind} %x0, {kind} 5"
    left, right, actual = run_binary(body, kind)
    compare = {
        "eq": "equal",
        "ne": "not_equal",
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
    }
    a, b = left, right
    if condition[0] == "u":
        a, b = (v.view(f"u{v.dtype.itemsize}") for v in (left, right))
    holds = getattr(np, compare[condition if condition in compare else condition[1:]])(a, b)
    assert_same(actual, np.where(holds, left, left.dtype.type(5)))


def test_bytes_are_swapped():
    head = "declare i64 @llvm.bswap.i64(i64)"
    values = samples("i64", np.random.default_rng(3))
    actual = apply(
        elementwise("  %r = call i64 @llvm.bswap.i64(i64 %x0)", ["i64"], "i64", head), [values], values.dtype
    )
    assert_same(actual, values.byteswap())


# ---- floats

FLOAT_OPERATIONS = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", FLOAT_OPERATIONS)
def test_float_arithmetic(name, kind):
    left, right, actual = run_binary(f"  %r = {name} {kind} %x0, %x1", kind)
    with np.errstate(all="ignore"):
        if kind == "bfloat":
            expected = FLOAT_OPERATIONS[name](left.astype(np.float32), right.astype(np.float32)).astype(BF16)
        else:
            expected = FLOAT_OPERATIONS[name](left, right)
    assert_same(actual, expected)


def exact_fma(a: float, b: float, c: float, kind: str) -> float:
    """a * b + c by exact fractions, rounded once."""
    if not all(map(np.isfinite, (a, b, c))):
        return float(np.float64(a) * b + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    target = FORMATS[SUFFIX[kind]]
    exponent = max(_floor_log2(abs(exact)), target.least_exponent) - (target.precision - 1)
    scaled = exact / Fraction(2) ** exponent
    whole = round(scaled)  # ties to even
    if whole == 0:
        return -0.0 if exact < 0 else 0.0
    try:
        value = float(whole * Fraction(2) ** exponent)
    except OverflowError:
        value = float("inf") if exact > 0 else float("-inf")
    limit = 2.0 ** (2 - target.least_exponent) if kind != "double" else float("inf")
    return float(np.copysign(np.inf, value)) if abs(value) >= limit else value


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


@pytest.mark.parametrize("kind", FLOATS)
def test_fused_multiply_add_rounds_once(kind):
    rng = np.random.default_rng(11)
    a, b = pairs(kind)
    c = rng.permutation(b)
    # Cancellation and half-way cases: the places where rounding twice shows.
    x = rng.standard_normal(320).astype(a.dtype)
    y = rng.standard_normal(320).astype(a.dtype)
    with np.errstate(all="ignore"):
        z = (-(x.astype(np.float64) * y.astype(np.float64))).astype(a.dtype)
        small = (rng.standard_normal(320) * 2.0 ** rng.integers(-30, 30, 320)).astype(a.dtype)
    a, b, c = np.concatenate([a, x, x]), np.concatenate([b, y, y]), np.concatenate([c, z, small])
    head = f"declare {kind} @llvm.fma.{SUFFIX[kind]}({kind}, {kind}, {kind})"
    call = f"  %r = call {kind} @llvm.fma.{SUFFIX[kind]}({kind} %x0, {kind} %x1, {kind} %x2)"
    actual = apply(elementwise(call, [kind] * 3, kind, head), [a, b, c], a.dtype)
    with np.errstate(all="ignore"):
        exact = [exact_fma(float(i), float(j), float(k), kind) for i, j, k in zip(a, b, c)]
        assert_same(actual, np.array(exact).astype(a.dtype))


def test_double_rounding_of_single_fma():
    """2**-24 is half a unit of 1: the bit far below decides, and f64 drops it."""
    one_ulp = np.float32(2.0**-12)
    c = np.array([1.0, 1.0], np.float32)
    a = np.array([one_ulp * (1 + 2.0**-20), one_ulp], np.float32)
    b = np.array([one_ulp, one_ulp], np.float32)
    tie = fma(a, b, c, FORMATS["f32"])
    assert tie.tolist() == [1.0 + 2.0**-23, 1.0]
    deep = fma(np.float32([2.0**-24]), np.float32([1.0]), np.float32([1.0]), FORMATS["f32"])
    assert deep.tolist() == [1.0]
    big = np.array([2.0**100], np.float32)
    below = fma(
        np.float32([-(2.0**-60)]), np.float32([2.0**-60]), big + big * np.float32(2.0**-23), FORMATS["f32"]
    )
    assert below.tolist() == [float(big[0] * (1 + 2.0**-23))]


def test_what_is_no_number_loses_its_payload_in_a_single_fma():
    x = np.array([0x7FC00000, 0xFFC00001, 0x3F800000], np.uint32).view(np.float32)
    found = fma(x, np.float32([1, 1, 2]), np.float32([1, 1, 0]), FORMATS["f32"])
    np.testing.assert_array_equal(found.view(np.uint32), [0x7FFFFFFF, 0x7FFFFFFF, 0x40000000])


def test_double_fma_beyond_the_range_of_its_transforms():
    a = np.array([2.0**1000, 2.0**-600, 5e-324, 2.0**1023, 3.0])
    b = np.array([2.0**20, 2.0**-500, 0.5, 2.0, 2.0**-1074])
    c = np.array([-(2.0**1019), 5e-324, 5e-324, -np.inf, 2.0**-1074])
    with np.errstate(all="ignore"):
        exact = [exact_fma(*values, "double") for values in zip(a.tolist(), b.tolist(), c.tolist())]
        assert_same(fma(a, b, c, FORMATS["f64"]), np.array(exact))


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint", "roundeven", "fabs", "sqrt"])
def test_float_functions(name, kind):
    call, head = intrinsic(name, kind, 1)
    values = samples(kind, np.random.default_rng(5))
    actual = apply(elementwise(call, [kind], kind, head), [values], values.dtype)
    function = {"roundeven": np.rint, "fabs": np.abs}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float32) if values.dtype == BF16 else values
        assert_same(actual, function(wide).astype(values.dtype))


@pytest.mark.parametrize("kind", FLOATS)
def test_negation_keeps_every_bit_but_the_sign(kind):
    values = samples(kind, np.random.default_rng(5))
    actual = apply(elementwise(f"  %r = fneg {kind} %x0", [kind], kind), [values], values.dtype)
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    assert np.array_equal(actual.view(unsigned), values.view(unsigned) ^ sign)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ["minnum", "maxnum", "minimum", "maximum", "copysign"])
def test_float_extremes(name, kind):
    call, head = intrinsic(name, kind, 2)
    left, right, actual = run_binary(call, kind, head=head)
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "copysign":
            expected = np.copysign(a, b)
        elif name in ("minimum", "maximum"):
            expected = (np.minimum if name == "minimum" else np.maximum)(a, b)
        else:
            expected = (np.fmin if name == "minnum" else np.fmax)(a, b)
        if name != "copysign":
            # Of two zeros the negative one is the lesser.
            negative = np.signbit(a) | np.signbit(b) if "min" in name else np.signbit(a) & np.signbit(b)
            expected = np.where((a == 0) & (b == 0), np.where(negative, -0.0, 0.0), expected)
        assert_same(actual, expected.astype(left.dtype))


ORDERED = {"oeq": np.equal, "ogt": np.greater, "oge": np.greater_equal, "olt": np.less, "ole": np.less_equal}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    "condition", [*ORDERED, "one", "ord", "uno", "ueq", "une", "ugt", "uge", "ult", "ule"]
)
def test_float_comparisons(condition, kind):
    body = f"  %c = fcmp {condition} {kind} %x0, %x1\n  %r = zext i1 %c to i8"
    left, right, actual = run_binary(body, kind, "i8")
    a, b = left.astype(np.float64), right.astype(np.float64)
    unordered = np.isnan(a) | np.isnan(b)
    if condition in ("ord", "uno"):
        holds = unordered == (condition == "uno")
    elif condition in ("one", "une"):
        holds = np.not_equal(a, b) & (~unordered | (condition == "une"))
    else:
        holds = ORDERED["o" + condition[1:]](a, b)
        holds = holds | unordered if condition[0] == "u" else holds & ~unordered
    assert_same(actual, holds.astype(np.int8))


# ---- conversions

RANGES = [(source, target) for source in FLOATS for target in INTEGERS]


@pytest.mark.parametrize(("source", "target"), RANGES)
@pytest.mark.parametrize("name", ["fptosi.sat", "fptoui.sat"])
def test_float_to_integer_saturates(source, target, name):
    head = f"declare {target} @llvm.{name}.{target}.{SUFFIX[source]}({source})"
    call = f"  %r = call {target} @llvm.{name}.{target}.{SUFFIX[source]}({source} %x0)"
    values = samples(source, np.random.default_rng(5))
    actual = apply(elementwise(call, [source], target, head), [values], TYPES[target])
    info = np.iinfo(TYPES[target] if name == "fptosi.sat" else f"u{TYPES[target].itemsize}")
    exact = []
    for value in values.astype(np.float64).tolist():
        if np.isnan(value):
            exact.append(0)
        elif np.isinf(value):
            exact.append(info.max if value > 0 else info.min)
        else:
            exact.append(min(max(int(value), info.min), info.max))
    assert_same(actual, np.array(exact, info.dtype).view(TYPES[target]))


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("signed", [True, False])
def test_integer_to_float_rounds_once(source, target, signed):
    values = samples(source, np.random.default_rng(5))
    ptx = elementwise(f"  %r = {'si' if signed else 'ui'}tofp {source} %x0 to {target}", [source], target)
    actual = apply(ptx, [values], TYPES[target])
    mask = (1 << 8 * values.dtype.itemsize) - 1
    exact = [exact_fma_integer(v if signed else v & mask, target) for v in values.tolist()]
    with np.errstate(all="ignore"):
        assert_same(actual, np.array(exact).astype(TYPES[target]))


def exact_fma_integer(value: int, kind: str) -> float:
    target = FORMATS[SUFFIX[kind]]
    if value == 0:
        return 0.0
    exponent = max(0, abs(value).bit_length() - target.precision)
    rounded = float(round(Fraction(value, 2**exponent)) * 2**exponent)
    return float(np.copysign(np.inf, value)) if kind == "half" and abs(rounded) > 65504 else rounded


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_float_to_float(source, target):
    width = {kind: TYPES[kind].itemsize for kind in FLOATS}
    if width[source] == width[target]:
        pytest.skip("LLVM has no conversion between types of one size")
    name = "fptrunc" if width[source] > width[target] else "fpext"
    values = samples(source, np.random.default_rng(5))
    if source == "double":  # half-way between two bf16 and f16 numbers, and a little beside
        near = 1 + 2.0**-8 + np.array([0, 2.0**-40, -(2.0**-40), 2.0**-11, 2.0**-52] * 6 + [0, 0])
        values = np.concatenate([values, near])
    actual = apply(
        elementwise(f"  %r = {name} {source} %x0 to {target}", [source], target), [values], TYPES[target]
    )
    with np.errstate(all="ignore"):
        if target == "bfloat":
            exact = [exact_fma(float(v), 1.0, -0.0, "bfloat") for v in values]
            expected = np.array(exact, np.float32).astype(BF16)
        else:
            wide = values.astype(np.float64) if source == "bfloat" else values
            expected = wide.astype(TYPES[target])
    assert_same(actual, expected)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp", "rna"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_rounding_modes(mode, name):
    target = FORMATS[name]
    rng = np.random.default_rng(1)
    values = rng.standard_normal(200) * 2.0 ** rng.integers(-160, 140, 200)
    unit = 2.0 ** (1 - target.precision)
    values = np.concatenate([values, 1 + unit * np.array([0.25, 0.5, 0.75, 1.5]), [0.0, -0.0, 1e300, -1e300]])
    for value, rounded in zip(values.tolist(), round_to(values, target, mode).tolist()):
        if value == 0 or np.isinf(rounded) or abs(value) > 1e38:
            continue
        exponent = max(_floor_log2(abs(Fraction(value))), target.least_exponent) - (target.precision - 1)
        scaled = Fraction(value) / Fraction(2) ** exponent
        low = scaled.numerator // scaled.denominator
        choice = {
            "rn": round(scaled),
            "rm": low,
            "rp": low if scaled == low else low + 1,
            "rz": int(scaled),
            "rna": (1 if scaled > 0 else -1) * int(abs(scaled) + Fraction(1, 2)),
        }[mode]
        if abs(rounded) < 2.0 ** (2 - target.least_exponent) * (1 - 2.0**-target.precision):
            assert Fraction(rounded) == choice * Fraction(2) ** exponent, (value, rounded)
    beyond = round_to(np.array([1e300, -1e300]), target, mode).tolist()
    most = 2.0 ** (2 - target.least_exponent) * (1 - 2.0**-target.precision)
    up = {"rz": (most, -most), "rm": (most, -np.inf), "rp": (np.inf, -most)}.get(mode, (np.inf, -np.inf))
    assert tuple(beyond) == up


APPROXIMATE = {
    "sin.approx.f": np.sin,
    "cos.approx.f": np.cos,
    "ex2.approx.f": np.exp2,
    "ex2.approx.ftz.f": np.exp2,
    "lg2.approx.f": np.log2,
    "rcp.approx.ftz.f": np.reciprocal,
    "rsqrt.approx.f": lambda v: 1 / np.sqrt(v),
    "sqrt.approx.f": np.sqrt,
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_functions(name):
    head = f"declare float @llvm.nvvm.{name}(float)"
    values = np.linspace(-3, 3, 64).astype(np.float32)
    ptx = elementwise(f"  %r = call float @llvm.nvvm.{name}(float %x0)", ["float"], "float", head)
    assert "approx" in ptx
    with np.errstate(all="ignore"):
        expected = APPROXIMATE[name](values.astype(np.float64))
    np.testing.assert_allclose(apply(ptx, [values], values.dtype), expected, rtol=1e-6)


def test_denormals_are_flushed_only_where_the_opcode_says_so():
    values = np.array([2.0**-130, -(2.0**-130), 2.0**-126, 1.0] * 8, np.float32)
    ptx = elementwise("  %r = fmul float %x0, %x0", ["float"], "float")
    assert "mul.rn.f32" in ptx
    one = elementwise("  %r = fmul float %x0, 0.5", ["float"], "float")
    kept = apply(one, [values], values.dtype)
    flushed = apply(one.replace("mul.rn.f32", "mul.rn.ftz.f32"), [values], values.dtype)
    assert_same(kept, values * np.float32(0.5))
    assert_same(flushed, np.array([0.0, -0.0, 0.0, 0.5] * 8, np.float32))


# ---- packed types


@pytest.mark.parametrize("kind", ["half", "bfloat"])
@pytest.mark.parametrize("name", ["fadd", "fmul"])
def test_packed_pairs(kind, name):
    body = f"""  %p = getelementptr <2 x {kind}>, ptr addrspace(1) %a, i32 %t
  %q = getelementptr <2 x {kind}>, ptr addrspace(1) %c, i32 %t
  %x = load <2 x {kind}>, ptr addrspace(1) %p
  %y = load <2 x {kind}>, ptr addrspace(1) %q
  %z = {name} <2 x {kind}> %x, %y
  %w = getelementptr <2 x {kind}>, ptr addrspace(1) %o, i32 %t
  store <2 x {kind}> %z, ptr addrspace(1) %w"""
    machine = Machine(kernel(body, pointers("a", "c", "o")))
    left, right = (v[:64] for v in pairs(kind))
    addresses = [machine.put(v) for v in (left, right, np.zeros(64, left.dtype))]
    machine.module.launch("k", (1, 1, 1), 32, addresses)
    with np.errstate(all="ignore"):
        a, b = left.astype(np.float32), right.astype(np.float32)
        expected = (a + b if name == "fadd" else a * b).astype(left.dtype)
    assert_same(machine.get(addresses[-1], left.dtype, (64,)), expected)
