# SPDX-License-Identifier: Apache-2.0
"""`x * y + z` rounded once, on machines that have no instruction for it: functions of the module itself.

LLVM would call the C library, lane by lane; so code for such machines needs no library either, and has the same
bits as on all others. Numbers are rounded to nearest, as everywhere in generated code.
"""

from __future__ import annotations

from ...llvm.instructions import Instructions
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
_SIGN = -(1 << 63)
#: Where the first digit of a number in 128 bits stands: a sum may carry, and still has its sign bit.
_FIRST = 125
#: Digits of f64, the exponent of the last one of denormals, and its infinity as bits.
_DIGITS, _LEAST, _INFINITY = 53, -1074, 0x7FF << 52


def fma(b: Instructions, x: Value, y: Value, z: Value) -> Value:
    """Calls the function for the type of the operands, which the module then has."""
    kind, module = x.type, b.module
    name = f"fused.{mangled(kind)}"
    if name not in module.functions:
        _define(module, name, kind)
    return b.call(kind, name, x, y, z)


def _define(module: Module, name: str, kind: str) -> None:
    b = module.function(name, kind, [Argument(kind, n) for n in "xyz"], linkage="internal")
    x, y, z = b.arguments
    if element_of(kind) == f32:
        b.ret(_by_doubles(b, x, y, z))
    elif kind == f64:
        b.ret(_by_integers(b, x, y, z))
    else:
        found = poison(kind)
        for lane in range(lanes_of(kind)):
            found = b.insert(found, fma(b, *(b.extract(v, lane) for v in (x, y, z))), lane)
        b.ret(found)


def _by_doubles(b: Instructions, x: Value, y: Value, z: Value) -> Value:
    """Of f32: the product is exact in f64; the sum is rounded to odd, so that rounding it to f32 does as rounding
    once would."""
    wide = with_element(x.type, f64)
    product, addend = b.fmul(b.fpext(x, wide), b.fpext(y, wide)), b.fpext(z, wide)
    total = b.fadd(product, addend)
    # What the sum lost, exactly.
    part = b.fsub(total, product)
    lost = b.fadd(b.fsub(product, b.fsub(total, part)), b.fsub(addend, part))
    bits = b.bitcast(total, with_element(x.type, i64))
    even = b.icmp("eq", b.and_(bits, 1), 0)
    inexact = b.and_(b.fcmp("one", lost, 0.0), even)
    outwards = b.icmp("sge", b.xor(bits, b.bitcast(lost, bits.type)), 0)
    step = b.select(outwards, constant(bits.type, 1), constant(bits.type, -1))
    odd = b.select(inexact, b.add(bits, step), bits)
    return b.fptrunc(b.bitcast(odd, wide), x.type)


# f64: the product has 106 digits, so it and the addend stand in 128 bits, and what is shifted out of the lesser one
# leaves a trace in its last bit.


def _by_integers(b: Function, x: Value, y: Value, z: Value) -> Value:
    product = b.fmul(x, y)
    exact = _sum(b, (x, y, z))
    # Zeros, infinities and NaNs: nothing is rounded, or the multiplication alone rounds as it must.
    usual = b.and_(_finite_and_not_zero(b, x), _finite_and_not_zero(b, y))
    found = b.select(b.fcmp("oeq", z, 0.0), product, exact)
    # A finite product may be rounded to infinity, which is not to meet another.
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
    """A number as a whole number of 128 bits and the exponent of its last digit."""
    bits = b.bitcast(x, i64)
    field = b.and_(b.lshr(bits, 52), 0x7FF)
    first = b.shl(b.zext(b.icmp("ne", field, 0), i64), 52)
    digits = b.or_(b.and_(bits, (1 << 52) - 1), first)
    return b.zext(digits, _I128), b.add(b.umax(field, 1), _LEAST - 1)


def _from_first(b: Function, digits: Value, exponent: Value) -> tuple[Value, Value]:
    """The same number with its first digit in its place."""
    zeros = b.intrinsic("llvm.ctlz", _I128, digits, constant(i1, 0))
    up = b.and_(b.sub(zeros, 127 - _FIRST), 127)
    return b.shl(digits, up), b.sub(exponent, b.trunc(up, i64))


def _shifted(b: Function, x: Value, by: Value) -> Value:
    """To the right; the last bit tells whether all that went was 0."""
    count = b.zext(b.umin(by, 127), _I128)
    kept = b.lshr(x, count)
    lost = b.icmp("ne", b.shl(kept, count), x)
    return b.or_(kept, b.zext(lost, _I128))


def _rounded(b: Function, digits: Value, exponent: Value) -> Value:
    """The bits of the f64 that is nearest, without its sign."""
    normal = _FIRST + 1 - _DIGITS
    cut = b.zext(b.smin(b.smax(b.sub(_LEAST, exponent), normal), 127), _I128)
    kept = b.lshr(digits, cut)
    rest, middle = b.sub(digits, b.shl(kept, cut)), b.shl(constant(_I128, 1), b.sub(cut, 1))
    odd = b.and_(b.icmp("eq", rest, middle), b.trunc(kept, i1))
    up = b.or_(b.icmp("ugt", rest, middle), odd)
    # The first digit of a normal number adds 1 to the field of the exponent, and so does a carry.
    field = b.smin(b.smax(b.add(exponent, normal - _LEAST), 0), 0x7FE)
    size = b.add(b.shl(field, 52), b.add(b.trunc(kept, i64), b.zext(up, i64)))
    return b.umin(size, _INFINITY)
