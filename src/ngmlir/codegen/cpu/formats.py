# SPDX-License-Identifier: Apache-2.0
"""How elements are represented in registers, in which type they are computed, and the casts between element types.

In registers, f16 and bf16 are their bits (i16), which every target can load and shuffle; arithmetic widens them to f32
and rounds each result. Conversions for which some targets would call a library are integer code here.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.types import FloatType, IntegerType, Type, i1
from ...ir.types import f32 as F32
from ...llvm import types as llvm
from ...llvm.instructions import Instructions
from ...llvm.types import Value, bits_of, constant, element_of, from_bits, lanes_of, with_element
from ...support.target import Target
from .. import elementwise


class Machine(NamedTuple):
    """What code generation asks of a target: capabilities of `lowering/machines.toml`."""

    masks: bool  # masked vector loads and stores of any element, gathers of 4 and 8 byte elements
    word_masks: bool  # masked vector loads and stores of 4 and 8 byte elements
    half: bool  # conversions between f16 and f32
    ranges: bool  # AVX-512's VRANGE
    longs: bool  # vectors of floats to 64-bit integers
    fma: bool  # products with a sum, rounded once
    minps: bool  # x86's MINPS and MAXPS, which return the second operand if both are equal or one is NaN
    nearest: bool  # x86's CVTPS2DQ: f32 to the nearest i32, and to the least one if that is beyond the range or NaN


def machine_of(target: Target) -> Machine:
    """The capabilities of a target."""
    return Machine(*(target.can(capability) for capability in Machine._fields))


def narrow(element: Type) -> bool:
    """Whether arithmetic on the elements happens in f32 (f16 and bf16)."""
    return element.text in ("f16", "bf16")


def storage(element: Type) -> llvm.Type:
    """The LLVM type of one element in a register."""
    return llvm.i16 if narrow(element) else elementwise.llvm_element(element)


def memory(element: Type) -> llvm.Type:
    """The LLVM type of one element in a buffer."""
    return llvm.i8 if element is i1 else storage(element)


def computing(element: Type) -> Type:
    """The element type in which arithmetic is done."""
    return F32 if narrow(element) else element


def number(type: llvm.Type, value: float, element: Type) -> Value:
    """A number in every lane of a register of `element`s."""
    if narrow(element):
        kind = llvm.f16 if element.text == "f16" else llvm.bf16
        return from_bits(type, llvm.float_bits(kind, value))
    if element is i1:
        return from_bits(type, int(bool(value)))
    return constant(type, value)


def unpack(b: Instructions, machine: Machine, element: Type, x: Value) -> Value:
    """Converts a register from the storage form (`storage`) to the type that arithmetic uses (`computing`)."""
    match element.text:
        case "bf16":
            return _as(b, b.shl(_wide(b, x), 16), llvm.f32)
        case "f16" if machine.half:
            return b.fpext(_as(b, x, llvm.f16), with_element(x.type, llvm.f32))
        case "f16":
            return _half_to_float(b, x)
        case _:
            return x


def pack(b: Instructions, machine: Machine, element: Type, x: Value) -> Value:
    """The inverse of `unpack`; f32 is rounded to nearest even."""
    match element.text:
        case "bf16":
            return _float_to_bfloat(b, x)
        case "f16" if machine.half:
            return _as(b, b.fptrunc(x, with_element(x.type, llvm.f16)), llvm.i16)
        case "f16":
            return _float_to_half(b, x)
        case _:
            return x


def cast(b: Instructions, machine: Machine, x: Value, source: Type, target: Type) -> Value:
    """`ng.cast` between registers."""
    if source is target:
        return x
    if source.text == "f64" and narrow(target):
        return pack(b, machine, target, _round_to_odd(b, x))
    x = unpack(b, machine, source, x)
    if isinstance(computing(source), FloatType) and lanes_of(x.type) > 1 and not machine.longs:
        if isinstance(target, IntegerType) and target.width == 64:
            return _to_long(b, x, target.unsigned)
    return pack(b, machine, target, elementwise.cast(b, x, computing(source), computing(target)))


def _to_long(b: Instructions, x: Value, unsigned: bool) -> Value:
    """Floats to 64-bit integers as `ng.cast` defines it, computed as two 32-bit halves, for machines that would convert
    lane by lane."""
    x = x if element_of(x.type) == llvm.f64 else b.fpext(x, with_element(x.type, llvm.f64))
    low, end = (0.0, 2.0**64) if unsigned else (-(2.0**63), 2.0**63)
    below = end - end * 2.0**-53  # the next smaller float
    inside = x if unsigned else b.select(b.fcmp("ord", x, x), x, 0.0)
    inside = b.select(b.fcmp("ogt", inside, low), inside, low)
    whole = b.ftrunc(b.select(b.fcmp("olt", inside, below), inside, below))
    upper = b.floor(b.fmul(whole, 2.0**-32))
    lower = b.fsub(whole, b.fmul(upper, 2.0**32))
    # The low bits of 2**52 + n are those of n; of a negative n if 2**51 is added too.
    upper_bits = b.shl(_as(b, b.fadd(upper, 1.5 * 2.0**52), llvm.i64), 32)
    lower_bits = b.and_(_as(b, b.fadd(lower, 2.0**52), llvm.i64), 0xFFFFFFFF)
    greatest = -1 if unsigned else (1 << 63) - 1
    return b.select(b.fcmp("ult", x, end), b.or_(upper_bits, lower_bits), greatest)


def _as(b: Instructions, x: Value, element: llvm.Type) -> Value:
    return b.bitcast(x, with_element(x.type, element))


def _wide(b: Instructions, x: Value) -> Value:
    return b.zext(x, with_element(x.type, llvm.i32))


def _short(b: Instructions, x: Value) -> Value:
    return b.trunc(x, with_element(x.type, llvm.i16))


def _float_to_bfloat(b: Instructions, x: Value) -> Value:
    bits = _as(b, x, llvm.i32)
    odd = b.and_(b.lshr(bits, 16), 1)
    rounded = b.lshr(b.add(b.add(bits, 0x7FFF), odd), 16)
    # Rounding could carry a NaN's mantissa away.
    quiet = b.or_(b.lshr(bits, 16), 0x40)
    return _short(b, b.select(b.fcmp("uno", x, x), quiet, rounded))


def _half_to_float(b: Instructions, x: Value) -> Value:
    bits = _wide(b, x)
    sign = b.shl(b.and_(bits, 0x8000), 16)
    magnitude = b.shl(b.and_(bits, 0x7FFF), 13)
    # The exponent is 112 too small; a multiplication corrects it, also for denormals.
    scaled = b.fmul(_as(b, magnitude, llvm.f32), 2.0**112)
    special = b.or_(magnitude, 0x7F800000)
    finite = b.icmp("ult", magnitude, 0x7C00 << 13)
    return _as(b, b.or_(sign, b.select(finite, _as(b, scaled, llvm.i32), special)), llvm.f32)


def _float_to_half(b: Instructions, x: Value) -> Value:
    bits = _as(b, x, llvm.i32)
    sign = b.lshr(b.and_(bits, 0x80000000), 16)
    magnitude = b.and_(bits, 0x7FFFFFFF)
    odd = b.and_(b.lshr(magnitude, 13), 1)
    normal = b.lshr(b.add(b.add(magnitude, 0xFFF - (112 << 23) & 0xFFFFFFFF), odd), 13)
    # Adding 0.5 leaves the bits of a denormal, rounded, at the end of the mantissa.
    small = b.sub(_as(b, b.fadd(_as(b, magnitude, llvm.f32), 0.5), llvm.i32), 0x3F000000)
    result = b.select(b.icmp("ult", magnitude, 113 << 23), small, normal)
    result = b.select(b.icmp("uge", magnitude, 143 << 23), from_bits(bits.type, 0x7C00), result)
    quiet = b.or_(b.and_(b.lshr(magnitude, 13), 0x3FF), 0x7E00)
    result = b.select(b.icmp("ugt", magnitude, 0x7F800000), quiet, result)
    return _short(b, b.or_(sign, result))


def _round_to_odd(b: Instructions, x: Value) -> Value:
    """f64 to f32 such that a second rounding gives what one rounding would have given."""
    near = b.fptrunc(x, with_element(x.type, llvm.f32))
    back = b.fpext(near, x.type)
    bits = _as(b, near, llvm.i32)
    away = b.fcmp("ogt", b.fabs(x), b.fabs(back))
    other = b.add(bits, b.select(away, constant(bits.type, 1), constant(bits.type, -1)))
    even = b.icmp("eq", b.and_(bits, 1), 0)
    changed = b.and_(b.fcmp("one", back, x), even)
    return _as(b, b.select(changed, other, bits), llvm.f32)


def item_bytes(type: llvm.Type) -> int:
    """Bytes of one element of a buffer."""
    return max(1, bits_of(type) // 8)
