# SPDX-License-Identifier: Apache-2.0
"""The meaning of elementwise ops, number by number against Python's own integers, floats and fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from meaning_helpers import (
    BF16,
    BOOL,
    FLOATS,
    INTEGERS,
    NUMERIC,
    SHAPES,
    SIGNED,
    is_float,
    same,
    sample,
    special,
    tensor,
    ulps,
    value,
)

from ngmlir.ir.core import Op
from ngmlir.ir.definition import ELEMENTS
from ngmlir.ir.literals import float_bits, type_of_dtype
from ngmlir.ops import ng
from ngmlir.testing import ordinary_numbers, wide_numbers

NAN, INF = math.nan, math.inf


def rounded(exact: float, dtype: np.dtype) -> Any:
    """A float64 rounded once; NumPy alone would round twice on the way to bfloat16."""
    bits = float_bits(exact, type_of_dtype(dtype))
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]


def wrapped(exact: int, dtype: np.dtype) -> Any:
    return np.array(exact % (1 << 8 * dtype.itemsize), f"u{dtype.itemsize}").view(dtype)[()]


def _divided(a: float, b: float) -> float:
    if b == 0:
        return NAN if a == 0 or a != a else math.copysign(INF, a) * math.copysign(1, b)
    return a / b


def _remainder(a: float, b: float) -> float:
    return NAN if b == 0 or math.isinf(a) else a % b  # Python takes C's fmod, which is exact


def _greater(a: float, b: float) -> float:
    if a != a or b != b:
        return NAN
    return max(a, b, key=lambda x: (x, math.copysign(1, x)))


def _lesser(a: float, b: float) -> float:
    if a != a or b != b:
        return NAN
    return min(a, b, key=lambda x: (x, math.copysign(1, x)))


def _rooted(a: float) -> float:
    return NAN if a < 0 else math.sqrt(a)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda a: math.copysign(float(function(a)), a) if math.isfinite(a) else a


COMPARISONS: dict[type[Op], Callable[..., bool]] = {
    ng.EqualOp: lambda a, b: a == b,
    ng.NotEqualOp: lambda a, b: a != b,
    ng.LessOp: lambda a, b: a < b,
    ng.LessEqualOp: lambda a, b: a <= b,
    ng.GreaterOp: lambda a, b: a > b,
    ng.GreaterEqualOp: lambda a, b: a >= b,
}
#: Of floats: exact functions of Python floats. Their one rounding to float64 does no harm to narrower types.
OF_FLOATS: dict[type[Op], Callable[..., float]] = {
    ng.NegativeOp: lambda a: -a,
    ng.AbsoluteOp: abs,
    ng.SignOp: lambda a: a if a == 0 or a != a else math.copysign(1, a),
    ng.SquareOp: lambda a: a * a,
    ng.ReciprocalOp: lambda a: _divided(1.0, a),
    ng.SqrtOp: _rooted,
    ng.FloorOp: _whole(math.floor),
    ng.CeilOp: _whole(math.ceil),
    ng.RoundOp: _whole(round),
    ng.TruncOp: _whole(math.trunc),
    ng.AddOp: lambda a, b: a + b,
    ng.SubtractOp: lambda a, b: a - b,
    ng.MultiplyOp: lambda a, b: a * b,
    ng.DivideOp: _divided,
    ng.RemainderOp: _remainder,
    ng.MaximumOp: _greater,
    ng.MinimumOp: _lesser,
    ng.CopysignOp: math.copysign,
    **COMPARISONS,
}


def _power(a: int, b: int, width: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << width)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


def _unsigned(a: int, width: int) -> int:
    return a % (1 << width)


#: Of integers: exact results, to be taken modulo the width.
OF_INTEGERS: dict[type[Op], Callable[..., Any]] = {
    ng.NegativeOp: lambda a, width: -a,
    ng.AbsoluteOp: lambda a, width: abs(a),
    ng.SignOp: lambda a, width: (a > 0) - (a < 0),
    ng.SquareOp: lambda a, width: a * a,
    ng.AddOp: lambda a, b, width: a + b,
    ng.SubtractOp: lambda a, b, width: a - b,
    ng.MultiplyOp: lambda a, b, width: a * b,
    ng.FloorDivideOp: lambda a, b, width: a // b if b else 0,
    ng.RemainderOp: lambda a, b, width: a % b if b else 0,
    ng.PowerOp: _power,
    ng.MaximumOp: lambda a, b, width: max(a, b),
    ng.MinimumOp: lambda a, b, width: min(a, b),
    ng.BitwiseNotOp: lambda a, width: ~a,
    ng.BitwiseAndOp: lambda a, b, width: a & b,
    ng.BitwiseOrOp: lambda a, b, width: a | b,
    ng.BitwiseXorOp: lambda a, b, width: a ^ b,
    ng.ShiftLeftOp: lambda a, b, width: a << b if 0 <= b < width else 0,
    ng.ShiftRightLogicalOp: lambda a, b, width: _unsigned(a, width) >> b if 0 <= b < width else 0,
    ng.ShiftRightArithmeticOp: lambda a, b, width: (
        a >> (b if 0 <= b < width else width - 1 if a < 0 else width)
    ),
    ng.EqualOp: lambda a, b, width: a == b,
    ng.NotEqualOp: lambda a, b, width: a != b,
    ng.LessOp: lambda a, b, width: a < b,
    ng.LessEqualOp: lambda a, b, width: a <= b,
    ng.GreaterOp: lambda a, b, width: a > b,
    ng.GreaterEqualOp: lambda a, b, width: a >= b,
}
OF_BOOLS: dict[type[Op], Callable[..., bool]] = {
    ng.BitwiseNotOp: lambda a: not a,
    ng.BitwiseAndOp: lambda a, b: a and b,
    ng.BitwiseOrOp: lambda a, b: a or b,
    ng.BitwiseXorOp: lambda a, b: a != b,
    **COMPARISONS,
}
#: Exact functions that mpmath has by no name, or by another.
EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
}
#: Functions that are rounded from exact values, and how to get those.
ROUNDED: dict[type[Op], Callable[..., Any]] = {
    op: exact
    for op in ng.OPS.values()
    if op.definition and "elementwise" in op.definition.traits and op.definition.errors
    for exact in [EXACT.get(op.name[3:], getattr(mpmath, op.name[3:], None))]
    if exact is not None
}


def arity(op: type[Op]) -> int:
    assert op.definition is not None
    return len(op.definition.operands)


def pairs_of(dtype: np.dtype, count: int) -> list[np.ndarray]:
    """Every combination of special numbers, and some random ones."""
    grid = np.meshgrid(*[special(dtype)] * count, indexing="ij")
    return [
        np.concatenate([g.reshape(-1).astype(dtype), sample(dtype, (61,), i)]) for i, g in enumerate(grid)
    ]


def wide_pairs_of(dtype: np.dtype, count: int) -> list[np.ndarray]:
    """The same, and numbers of all exponents."""
    rng = np.random.default_rng(7)
    return [
        np.concatenate([x, wide_numbers(type_of_dtype(dtype), 2000, rng)]) for x in pairs_of(dtype, count)
    ]


def cases(table: dict[type[Op], Any], dtypes: tuple[np.dtype, ...]) -> list[Any]:
    found = []
    for op in table:
        assert op.definition is not None
        takes = ELEMENTS[op.definition.operands[0].constraint.element]
        found += [pytest.param(op, d, id=f"{op.name}-{d.name}") for d in dtypes if takes(type_of_dtype(d))]
    return found


@pytest.mark.parametrize(("op", "dtype"), cases(OF_FLOATS, FLOATS))
def test_floats(op: type[Op], dtype: np.dtype) -> None:
    arrays = wide_pairs_of(dtype, arity(op))
    found = value(op, *arrays)
    exact = [OF_FLOATS[op](*map(float, numbers)) for numbers in zip(*arrays, strict=True)]
    wanted = (
        np.array(exact, bool) if found.dtype == BOOL else np.array([rounded(e, dtype) for e in exact], dtype)
    )
    assert same(found, wanted)


@pytest.mark.parametrize(("op", "dtype"), cases(OF_INTEGERS, INTEGERS))
def test_integers(op: type[Op], dtype: np.dtype) -> None:
    arrays, width = wide_pairs_of(dtype, arity(op)), 8 * dtype.itemsize
    found = value(op, *arrays)
    exact = [OF_INTEGERS[op](*map(int, numbers), width) for numbers in zip(*arrays, strict=True)]
    assert same(
        found,
        np.array(exact, bool) if found.dtype == BOOL else np.array([wrapped(e, dtype) for e in exact], dtype),
    )


@pytest.mark.parametrize(("op", "dtype"), cases(OF_BOOLS, (BOOL,)))
def test_bools(op: type[Op], dtype: np.dtype) -> None:
    arrays = pairs_of(dtype, arity(op))
    exact = [OF_BOOLS[op](*map(bool, numbers)) for numbers in zip(*arrays, strict=True)]
    assert same(value(op, *arrays), np.array(exact, bool))


@pytest.mark.parametrize(("op", "dtype"), cases(ROUNDED, FLOATS))
def test_functions_are_rounded_from_exact_values(op: type[Op], dtype: np.dtype) -> None:
    """On the op's domain, on special numbers, and on numbers of all magnitudes."""
    definition, count = op.definition, arity(op)
    assert definition is not None
    rng = np.random.default_rng(5)
    home = [ordinary_numbers(o.domain, tensor((150,), dtype), rng) for o in definition.operands]
    arrays = [np.concatenate(parts) for parts in zip(home, pairs_of(dtype, count), strict=True)]
    found = value(op, *arrays)
    wanted, known = [], []
    for i, numbers in enumerate(zip(*arrays, strict=True)):
        if not all(np.isfinite(np.array(numbers, np.float64))) or 0 in numbers:
            continue  # what these give is a matter of signs, and stands in the op's entry
        with mpmath.workdps(60):
            try:
                exact = ROUNDED[op](*(mpmath.mpf(float(n)) for n in numbers))
            except (ZeroDivisionError, ValueError, OverflowError):
                continue
        if isinstance(exact, mpmath.mpc) and exact.imag:
            exact = mpmath.nan
        known.append(i)
        wanted.append(float(exact.real))
    with np.errstate(over="ignore"):
        halfway = np.array(wanted, np.float32) if dtype.itemsize == 2 else np.array(wanted)
        assert ulps(found[known], halfway.astype(dtype)) <= (1 if dtype == np.float64 else 0)


POINTS = [op for op in ng.OPS.values() if op.definition and op.definition.points]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", POINTS, ids=lambda op: op.name)
def test_points_that_the_entry_states(op: type[Op], dtype: np.dtype) -> None:
    assert op.definition is not None
    for numbers, wanted in op.definition.points:
        found = value(op, *[np.array(n).astype(dtype) for n in numbers])
        assert same(found, np.array(wanted).astype(dtype)), numbers


@pytest.mark.parametrize(
    "op", [op for op in ng.OPS.values() if "elementwise" in op.definition.traits], ids=str
)
def test_nan_stays_nan(op: type[Op]) -> None:
    """In functions of one float that give a float."""
    assert op.definition is not None
    takes = [
        o.constraint.accepts(tensor((), np.float32))
        for o in (*op.definition.operands, *op.definition.results)
    ]
    if takes == [True, True] and "stated" not in op.definition.traits:
        assert np.isnan(value(op, np.array(NAN, np.float32)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_division_with_rest(dtype: np.dtype) -> None:
    rng = np.random.default_rng(2)
    lhs = np.concatenate([rng.uniform(-50, 50, 300), [1, -1, 5, -5, 0.0, -0.0, 6, -6, -1e-6]]).astype(dtype)
    rhs = np.concatenate([rng.uniform(-3, 3, 300), [0.1, 0.1, INF, INF, 2, 2, -3, 3, 1]]).astype(dtype)
    rhs = np.where(rhs == 0, np.ones_like(rhs), rhs)
    quotient, rest = value(ng.FloorDivideOp, lhs, rhs), value(ng.RemainderOp, lhs, rhs)
    computed = np.float64 if dtype == np.float64 else np.float32
    for a, b, q, r in zip(lhs, rhs, quotient, rest, strict=True):
        a, b = float(a), float(b)
        assert float(q) == float(computed(a // b).astype(dtype))
        assert same(np.asarray(r), np.asarray(computed(a % b).astype(dtype)))
    zero = np.zeros((), dtype)
    assert np.isnan(value(ng.RemainderOp, lhs[:1], zero.reshape(1)).astype(float)).all()
    assert np.isinf(value(ng.FloorDivideOp, lhs[:1], zero.reshape(1)).astype(float)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_quotients_of_all_sizes_are_rounded_down(dtype: np.dtype) -> None:
    """To the nearest float as far as all integers are floats, and beyond to one of the two around the quotient."""
    x, y = wide_pairs_of(dtype, 2)
    most = 2 ** {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name]
    seen = 0
    for a, b, found in zip(x, y, value(ng.FloorDivideOp, x, y), strict=True):
        if not math.isfinite(a) or not math.isfinite(b) or b == 0:
            continue
        exact = math.floor(Fraction(float(a)) / Fraction(float(b)))
        if abs(exact) <= most:
            seen += 1
            assert float(found) == exact
        elif math.isfinite(found):
            assert abs(Fraction(float(found)) - exact) * most <= 2 * abs(exact)
        else:
            assert abs(exact) * 2 > float(ml_dtypes.finfo(dtype).max)
    assert seen > 100


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rsqrt_rounds_twice(dtype: np.dtype) -> None:
    (x,) = pairs_of(dtype, 1)
    assert same(value(ng.RsqrtOp, x), value(ng.ReciprocalOp, value(ng.SqrtOp, x)))


def _fma(a: float, b: float, c: float, dtype: np.dtype) -> Any:
    """By fractions, rounded to the multiple of the last place."""
    if not all(map(math.isfinite, (a, b, c))):
        return rounded(c if math.isinf(c) and math.isfinite(a) and math.isfinite(b) else a * b + c, dtype)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        zero = a * b + c if a == 0 or b == 0 else 0.0
        return rounded(zero, dtype)
    sign = 1 if exact > 0 else -1
    precision = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name]
    smallest = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}[dtype.name]
    top = abs(exact).numerator.bit_length() - abs(exact).denominator.bit_length()
    top += 0 if abs(exact) >= Fraction(2) ** top else -1
    step = Fraction(2) ** max(top - precision + 1, smallest)
    count = round(exact / step)  # of fractions: to nearest even
    try:
        near = float(count * step)
    except OverflowError:
        near = sign * INF
    return rounded(near if near else math.copysign(0.0, sign), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once(dtype: np.dtype) -> None:
    rng = np.random.default_rng(11)
    some = special(dtype)
    a, b, c = (g.reshape(-1) for g in np.meshgrid(some[::2], some[1::2], some[::3], indexing="ij"))
    x, y = sample(dtype, (400,), 1), sample(dtype, (400,), 2)
    with np.errstate(all="ignore"):
        # Addends that nearly cancel the product, and that are far below its last place.
        near = -(x.astype(np.float64) * y.astype(np.float64)) * (
            1 + rng.normal(size=400) * 2.0 ** rng.integers(-60, 0, 400)
        )
        far = x.astype(np.float64) * y.astype(np.float64) * 2.0 ** rng.integers(-70, 70, 400)
        a, b = np.concatenate([a, x, x]), np.concatenate([b, y, y])
        c = np.concatenate([c, near.astype(dtype), far.astype(dtype)])
    wanted = [_fma(float(p), float(q), float(r), dtype) for p, q, r in zip(a, b, c, strict=True)]
    assert same(value(ng.FmaOp, a, b, c), np.array(wanted, dtype))


def test_fma_at_the_ends_of_the_range() -> None:
    tiny, huge = 5e-324, 1.7976931348623157e308
    points = [
        (tiny, 0.5, tiny), (tiny, 0.5, 0.0), (-tiny, 0.5, 0.0), (huge, 2.0, -huge), (huge, 2.0, -INF), (huge, huge, NAN),
        (2.0**-540, 2.0**-535, 2.0**-1074), (1e-200, 1e-200, 1e-320), (3e-160, 7e-165, -2e-320), (INF, 0.0, 1.0),
        (1e300, 1e10, -1e308), (2.0**1000, 2.0**-1000, -1.0), (-0.0, 1.0, -0.0), (2.0**-1022, 1 - 2.0**-53, tiny),
    ]  # fmt: skip
    a, b, c = (np.array(column) for column in zip(*points, strict=True))
    assert same(value(ng.FmaOp, a, b, c), np.array([_fma(*p, np.dtype(np.float64)) for p in points]))


@pytest.mark.parametrize("dtype", (BOOL, *NUMERIC), ids=str)
def test_select(dtype: np.dtype) -> None:
    for shape in SHAPES:
        condition, a, b = sample(BOOL, shape, 3), sample(dtype, shape, 4), sample(dtype, shape, 5)
        wanted = [x if t else y for t, x, y in zip(condition.ravel(), a.ravel(), b.ravel(), strict=True)]
        assert same(value(ng.SelectOp, condition, a, b), np.array(wanted, dtype).reshape(shape))


def _cast(number: Any, source: np.dtype, target: np.dtype) -> Any:
    if target == BOOL:
        return float(number) != 0 if is_float(source) else int(number) != 0
    if not is_float(target) and is_float(source):
        info, exact = np.iinfo(target), float(number)
        if exact != exact:
            return 0
        return max(
            info.min, min(info.max, int(exact) if abs(exact) < INF else info.max if exact > 0 else info.min)
        )
    if not is_float(target):
        return wrapped(int(number), target)
    if is_float(source):
        return rounded(float(number), target)
    if target.itemsize == 2:
        return np.float32(int(number)).astype(target)
    return target.type(int(number))


@pytest.mark.parametrize("source", (BOOL, *NUMERIC), ids=str)
@pytest.mark.parametrize("target", (BOOL, *NUMERIC), ids=str)
def test_cast(source: np.dtype, target: np.dtype) -> None:
    numbers = np.concatenate([special(source), sample(source, (50,))])
    if is_float(source) and not is_float(target) and target != BOOL:
        info = np.iinfo(target)
        edges = [float(end + d) for end in (info.min, 0, info.max) for d in (-1.0, -0.5, 0.0, 0.5, 1.0)]
        with np.errstate(over="ignore"):
            near = np.array([2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**63), *edges]).astype(source)
        around = [(near.view(f"i{source.itemsize}") + d).view(source) for d in (-1, 0, 1)]
        numbers = np.concatenate([numbers, *around])
    with np.errstate(over="ignore"):
        wanted = np.array([_cast(n, source, target) for n in numbers], target)
    assert same(value(ng.CastOp, numbers, type=tensor(numbers.shape, target)), wanted)


def test_float64_reaches_bfloat16_in_one_rounding() -> None:
    # Just above a tie of bfloat16, by less than float32 can hold.
    above, below = 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7 + 2.0**-8 - 2.0**-40
    numbers = np.array([above, -above, below, -below, 1 + 2.0**-8, 3.4028235e38 * 2])
    found = value(ng.CastOp, numbers, type=tensor(numbers.shape, BF16))
    assert found.astype(float).tolist() == [1 + 2.0**-7, -1 - 2.0**-7, 1 + 2.0**-7, -1 - 2.0**-7, 1.0, INF]


@pytest.mark.parametrize(
    ("source", "target"), [(a, b) for a in NUMERIC for b in NUMERIC if a.itemsize == b.itemsize]
)
def test_bitcast(source: np.dtype, target: np.dtype) -> None:
    for shape in SHAPES:
        numbers = sample(source, shape)
        found = value(ng.BitcastOp, numbers, type=tensor(shape, target))
        assert found.shape == shape
        assert found.tobytes() == numbers.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shape_does_not_matter(shape: tuple[int, ...]) -> None:
    for op in (*OF_FLOATS, *ROUNDED, ng.RsqrtOp, ng.FmaOp):
        for dtype in FLOATS:
            arrays = [np.asarray(np.abs(sample(dtype, shape, i))) for i in range(arity(op))]
            flat = value(op, *[a.reshape(-1) for a in arrays])
            assert same(value(op, *arrays), flat.reshape(shape))
    for op in OF_INTEGERS:
        for dtype in SIGNED:
            arrays = [sample(dtype, shape, i) for i in range(arity(op))]
            assert same(value(op, *arrays), value(op, *[a.reshape(-1) for a in arrays]).reshape(shape))
