# SPDX-License-Identifier: Apache-2.0
"""`x * y + z` rounded once, for machines without an fma instruction: as functions in the module itself.

LLVM would call the C library for each lane. With these functions no library is needed, and the bits are the same as on
all other machines. They assume rounding to nearest, as all generated code does.
"""

from __future__ import annotations

from ...llvm.text import Argument, Function, Module
from ...llvm.types import (
    Value,
    constant,
    element_of,
    f32,
    f64,
    i1,
    i64,
    lanes_of,
    mangled,
    poison,
    with_element,
)

_I128 = "i128"
_BIAS = 1023
#: If the exponents of the factors are between -_FAR and _FAR, neither they nor their product are near the ends of the
#: range.
_FAR = 450
_SIGN = -(1 << 63)
#: Position of the leading bit of a number in 128 bits: leaves one bit for a carry and the sign bit.
_FIRST = 125
#: Significand bits of f64, the exponent of the last bit of denormals, and the bits of infinity.
_DIGITS, _LEAST, _INFINITY = 53, -1074, 0x7FF << 52


def fma(b: Function, x: Value, y: Value, z: Value) -> Value:
    """Calls the fma function for the type of the operands; adds it to the module at its first use."""
    kind = x.type
    name = f"fused.{mangled(kind)}"
    if name not in b.module.functions:
        inner = _begin(b.module, name, kind)
        rule = _by_doubles if element_of(kind) == f32 else _by_pairs
        inner.ret(rule(inner, *inner.arguments))
    return b.call(kind, name, x, y, z)


def _begin(module: Module, name: str, kind: str) -> Function:
    return module.function(name, kind, [Argument(kind, n) for n in "xyz"], linkage="internal")


def _by_doubles(b: Function, x: Value, y: Value, z: Value) -> Value:
    """For f32: the product is exact in f64, and the sum is rounded to f32 at the end."""
    wide = with_element(x.type, f64)
    total = _odd_sum(b, b.fmul(b.fpext(x, wide), b.fpext(y, wide)), b.fpext(z, wide))
    return b.fptrunc(total, x.type)


def _odd_sum(b: Function, x: Value, y: Value) -> Value:
    """The sum, rounded to odd: rounding it again to fewer bits gives the same as rounding the exact sum once."""
    total, lost = _exact_sum(b, x, y)
    bits = b.bitcast(total, with_element(x.type, i64))
    even = b.icmp("eq", b.and_(bits, 1), 0)
    inexact = b.and_(b.fcmp("one", lost, 0.0), even)
    outwards = b.icmp("sge", b.xor(bits, b.bitcast(lost, bits.type)), 0)
    step = b.select(outwards, constant(bits.type, 1), constant(bits.type, -1))
    return b.bitcast(b.select(inexact, b.add(bits, step), bits), x.type)


def _exact_sum(b: Function, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded sum, and its rounding error."""
    total = b.fadd(x, y)
    part = b.fsub(total, x)
    return total, b.fadd(b.fsub(x, b.fsub(total, part)), b.fsub(y, part))


# f64: product and sum are pairs of numbers (value and error), which are exact as long as no exponent is near an end of
# its range. The method is Boldo's and Melquiond's.


def _by_pairs(b: Function, x: Value, y: Value, z: Value) -> Value:
    # Lanes beyond a tile may hold poison; a branch on poison is undefined behaviour.
    x, y, z = map(b.freeze, (x, y, z))
    product, low = _exact_product(b, x, y)
    rest, rest_low = _exact_sum(b, z, low)
    total, total_low = _exact_sum(b, product, rest)
    found = b.fadd(total, _odd_sum(b, rest_low, total_low))
    nothing = b.or_(b.fcmp("oeq", x, 0.0), b.fcmp("oeq", y, 0.0))
    found = b.select(nothing, b.fadd(product, z), found)
    x_usual = b.or_(_exponent_within(b, x, -_FAR, _FAR), b.fcmp("oeq", x, 0.0))
    y_usual = b.or_(_exponent_within(b, y, -_FAR, _FAR), b.fcmp("oeq", y, 0.0))
    usual = b.and_(b.and_(x_usual, y_usual), _exponent_within(b, z, -_BIAS, 2 * _FAR))
    lanes = lanes_of(x.type)
    with b.when(b.not_(b.reduce("and", usual) if lanes > 1 else usual), [found]) as unusual:
        exact = poison(x.type)
        for lane in range(lanes):
            one = _exactly(b, *(b.extract(v, lane) for v in (x, y, z)))
            exact = one if lanes == 1 else b.insert(exact, one, lane)
        unusual.next(exact)
    return unusual.results[0]


def _exact_product(b: Function, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded product, and its rounding error: products of halves with 26 bits are exact."""
    product = b.fmul(x, y)
    (x_high, x_low), (y_high, y_low) = _halves(b, x), _halves(b, y)
    lost = b.fsub(b.fmul(x_high, y_high), product)
    lost = b.fadd(b.fadd(lost, b.fmul(x_high, y_low)), b.fmul(x_low, y_high))
    return product, b.fadd(lost, b.fmul(x_low, y_low))


def _halves(b: Function, x: Value) -> tuple[Value, Value]:
    scaled = b.fmul(x, 2.0**27 + 1)
    high = b.fsub(scaled, b.fsub(scaled, x))
    return high, b.fsub(x, high)


def _exponent_within(b: Function, x: Value, low: int, high: int) -> Value:
    field = b.and_(b.lshr(b.bitcast(x, with_element(x.type, i64)), 52), 0x7FF)
    return b.icmp("ule", b.sub(field, low + _BIAS), high - low)


def _exactly(b: Function, x: Value, y: Value, z: Value) -> Value:
    name = "fused.exact"
    if name not in b.module.functions:
        inner = _begin(b.module, name, f64)
        inner.ret(_by_integers(inner, *inner.arguments))
    return b.call(f64, name, x, y, z)


# For every f64: the product has 106 bits, so product and addend fit into 128 bits each. If bits that are shifted out of
# the smaller one are not 0, its last bit is set (a sticky bit).


def _by_integers(b: Function, x: Value, y: Value, z: Value) -> Value:
    product = b.fmul(x, y)
    exact = _sum(b, (x, y, z))
    # Zeros, infinities and NaNs: nothing is rounded, or the rounding of the multiplication alone is right.
    usual = b.and_(_finite_and_not_zero(b, x), _finite_and_not_zero(b, y))
    found = b.select(b.fcmp("oeq", z, 0.0), product, exact)
    # A finite product may be rounded to infinity, which must not be added to an infinite z.
    found = b.select(_finite(b, z), found, b.fadd(z, z))
    return b.select(usual, found, b.fadd(product, z))


def _finite(b: Function, x: Value) -> Value:
    return b.fcmp("olt", b.fabs(x), float("inf"))


def _finite_and_not_zero(b: Function, x: Value) -> Value:
    return b.and_(_finite(b, x), b.fcmp("one", x, 0.0))


def _sum(b: Function, numbers: tuple[Value, Value, Value]) -> Value:
    """The result for three numbers that are finite and not zero."""
    (x, xe), (y, ye), (z, ze) = (_apart(b, number) for number in numbers)
    x_bits, y_bits, z_bits = (b.bitcast(number, i64) for number in numbers)
    product, pe = _from_first(b, b.mul(x, y), b.add(xe, ye))
    z, ze = _from_first(b, z, ze)
    product_bits = b.xor(x_bits, y_bits)

    less = b.and_(b.icmp("eq", pe, ze), b.icmp("ult", product, z))
    swap = b.or_(b.icmp("slt", pe, ze), less)
    great, exponent = b.select(swap, z, product), b.select(swap, ze, pe)
    small, small_exponent = b.select(swap, product, z), b.select(swap, pe, ze)
    sign = b.and_(b.select(swap, z_bits, product_bits), _SIGN)
    aligned = _shifted(b, small, b.sub(exponent, small_exponent))
    unlike = b.icmp("slt", b.xor(product_bits, z_bits), 0)
    total = b.select(unlike, b.sub(great, aligned), b.add(great, aligned))

    carried = b.icmp("slt", b.shl(total, 1), 0)
    total = b.select(carried, _shifted(b, total, constant(i64, 1)), total)
    digits, exponent = _from_first(b, total, b.add(exponent, b.zext(carried, i64)))
    size = _rounded(b, digits, exponent)
    result = b.bitcast(b.or_(size, sign), f64)
    return b.select(b.icmp("eq", total, 0), constant(f64, 0.0), result)


def _apart(b: Function, x: Value) -> tuple[Value, Value]:
    """A number as an integer of 128 bits and the exponent of its last bit."""
    bits = b.bitcast(x, i64)
    field = b.and_(b.lshr(bits, 52), 0x7FF)
    first = b.shl(b.zext(b.icmp("ne", field, 0), i64), 52)
    digits = b.or_(b.and_(bits, (1 << 52) - 1), first)
    return b.zext(digits, _I128), b.add(b.umax(field, 1), _LEAST - 1)


def _from_first(b: Function, digits: Value, exponent: Value) -> tuple[Value, Value]:
    """The same number, shifted so that its leading bit is at `_FIRST`."""
    zeros = b.intrinsic("llvm.ctlz", _I128, digits, constant(i1, 0))
    up = b.and_(b.sub(zeros, 127 - _FIRST), 127)
    return b.shl(digits, up), b.sub(exponent, b.trunc(up, i64))


def _shifted(b: Function, x: Value, by: Value) -> Value:
    """Shifts to the right; the last bit is set if any bit that was shifted out is 1."""
    count = b.zext(b.umin(by, 127), _I128)
    kept = b.lshr(x, count)
    lost = b.icmp("ne", b.shl(kept, count), x)
    return b.or_(kept, b.zext(lost, _I128))


def _rounded(b: Function, digits: Value, exponent: Value) -> Value:
    """The bits of the nearest f64, without its sign."""
    normal = _FIRST + 1 - _DIGITS
    cut = b.zext(b.smin(b.smax(b.sub(_LEAST, exponent), normal), 127), _I128)
    kept = b.lshr(digits, cut)
    rest, middle = b.sub(digits, b.shl(kept, cut)), b.shl(constant(_I128, 1), b.sub(cut, 1))
    odd = b.and_(b.icmp("eq", rest, middle), b.trunc(kept, i1))
    up = b.or_(b.icmp("ugt", rest, middle), odd)
    # The leading bit of a normal number adds 1 to the exponent field, and so does a carry.
    field = b.smin(b.smax(b.add(exponent, normal - _LEAST), 0), 0x7FE)
    size = b.add(b.shl(field, 52), b.add(b.trunc(kept, i64), b.zext(up, i64)))
    return b.umin(size, _INFINITY)
