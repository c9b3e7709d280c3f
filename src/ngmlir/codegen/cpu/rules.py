# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops for which CPUs have faster instructions than LLVM selects for the shared rules."""

from __future__ import annotations

from math import copysign

from ...ir.types import IntegerType, Type
from ...llvm import types as llvm
from ...llvm.instructions import Instructions
from ...llvm.types import Value, bits_of, constant, element_of, lanes_of, with_element
from ...support.machines import WORD_BITS
from ...support.target import Target
from .. import elementwise
from .bounds import Bound, Codes
from .formats import Machine
from .tiles import half, resize

#: The VRANGE operation: the maximum, with its own sign.
_GREATER = 0b0101
#: Bits of integers -> a float type that holds them exactly, and in which no quotient of two rounds up to an integer.
_QUOTIENTS = {8: llvm.f32, 16: llvm.f32, 32: llvm.f64}


def apply(b: Instructions, machine: Machine, name: str, element: Type, *operands: Value) -> Value:
    """An elementwise op on registers of `element`s."""
    if name in ("minimum", "maximum") and element_of(operands[0].type) in (llvm.f32, llvm.f64):
        width, size = lanes_of(operands[0].type), bits_of(operands[0].type)
        if name == "maximum" and machine.ranges and width * size < 128:
            wide = [resize(b, x, 128 // size) for x in operands]
            return resize(b, _ranged(b, *wide), width)
        if name == "maximum" and machine.ranges and width * size in (128, 256, 512):
            return _ranged(b, *operands)
        if machine.minps and all(x.name.startswith("%") for x in operands):
            return _least(b, *operands) if name == "minimum" else _greatest(b, *operands)
    if name in ("floor_divide", "remainder") and isinstance(element, IntegerType):
        # There are no division instructions for integer vectors; but for division by a constant LLVM multiplies.
        known = not operands[1].name.startswith("%")
        if element.width in _QUOTIENTS and not known:
            return _divided(b, element, *operands)[name == "remainder"]
    return elementwise.apply(b, name, element, *operands)


def limited(b: Instructions, name: str, x: Value, bound: Value, known: Bound) -> Value:
    """`maximum` or `minimum` (by its name in `ng`) of x and a number that is not NaN, by one comparison: x86's MAXPS and
    MINPS return their second operand if the operands are equal or one is NaN. Only a maximum with 0.0 needs an
    addition, which turns -0.0 into 0.0; where the bound is not constant, -0.0 is added if it is another number."""
    larger = name == "ng.maximum"
    found = b.select(b.fcmp("ogt" if larger else "olt", bound, x), bound, x)
    if not larger or not known.low <= 0 <= known.high:
        return found
    if known.low < known.high:
        zero, nothing = constant(x.type, 0.0), constant(x.type, -0.0)
        return b.fadd(found, b.select(b.fcmp("oeq", bound, 0.0), zero, nothing))
    return b.fadd(found, 0.0) if copysign(1, known.low) > 0 else found


def whole(b: Instructions, x: Value) -> Value:
    """Converts f32 that are NaN or in the range of i32 to i32, rounding towards zero; NaN gives 0."""
    to = with_element(x.type, llvm.i32)
    return b.select(b.fcmp("ord", x, x), b.fptosi(x, to), constant(to, 0))


def nearest(b: Instructions, x: Value, codes: Codes) -> Value:
    """The codes of floats. The instruction rounds to the nearest integer; integers below the range become the least
    i32, as NaN does, so that only the upper limit precedes it. LLVM selects instructions that pack with saturation where the
    limits are those of the type."""
    most = constant(x.type, float(codes.high))
    found = _converted(b, b.select(b.fcmp("olt", most, x), most, x))
    if codes.low != 0:
        found = b.select(b.fcmp("ord", x, x), found, constant(found.type, 0))
    if codes.zero < 0:  # so that the sum does not wrap around
        found = b.smax(found, codes.low)
    if codes.zero != 0:
        found = b.add(found, codes.zero)
    found = b.smax(found, codes.low + codes.zero)
    if codes.type.width == WORD_BITS:
        return found
    return b.trunc(b.smin(found, codes.high + codes.zero), with_element(x.type, f"i{codes.type.width}"))


def _converted(b: Instructions, x: Value) -> Value:
    """f32 as the nearest i32; the least i32 if that is beyond the range or NaN."""
    width = max(4, lanes_of(x.type))
    kind, wide = llvm.vector(width, llvm.i32), resize(b, x, width)
    if width == 16:
        whole, all_lanes, rounding = constant(kind, 0), constant("i16", -1), constant(llvm.i32, 4)
        return b.call(kind, "llvm.x86.avx512.mask.cvtps2dq.512", wide, whole, all_lanes, rounding)
    name = "llvm.x86.avx.cvt.ps2dq.256" if width == 8 else "llvm.x86.sse2.cvtps2dq"
    return resize(b, b.call(kind, name, wide), lanes_of(x.type))


def multiply_words(b: Instructions, target: Target, words: str, x: Value, y: Value, total: Value) -> Value:
    """`total` plus the dot products of the narrow elements in each i32 of `x` and `y`; `words` names their types. Where
    the instruction has `room`, each i32 of the sums is two 16-bit sums."""
    atom = target.dot(words)
    if atom is not None and atom.words != words:
        x, y = y, x
    if atom is None:
        add = b.fadd if element_of(total.type) == llvm.f32 else b.add
        return add(elementwise.multiply_words(b, words, x, y), total)
    width = lanes_of(total.type)
    lanes = min((bits // WORD_BITS for bits in atom.intrinsics if bits >= width * WORD_BITS), default=0)
    if not lanes:  # the register is wider than those of the machine: each half separately
        halves = [[half(b, v, part) for v in (x, y, total)] for part in (0, 1)]
        low, high = (multiply_words(b, target, atom.words, *each) for each in halves)
        return b.shuffle(low, high, list(range(width)))
    kind = llvm.vector(lanes * atom.group, llvm.bf16 if words.startswith("bf") else f"i{atom.element_bits}")
    left, right, sums = (resize(b, v, lanes) for v in (x, y, total))
    factors = [b.bitcast(v, kind) for v in (left, right)]
    name = atom.intrinsics[lanes * WORD_BITS]
    if atom.room:
        pairs = llvm.vector(2 * lanes, "i16")
        found = b.add(b.call(pairs, name, *factors), b.bitcast(sums, pairs))
        return resize(b, b.bitcast(found, sums.type), width)
    found = b.call(sums.type, name, *([sums] if atom.adds else []), *factors)
    return resize(b, found if atom.adds else b.add(found, sums), width)


def _ranged(b: Instructions, x: Value, y: Value) -> Value:
    """The maximum. VRANGE orders -0.0 below 0.0, but returns the number if one operand is NaN."""
    kind, width = element_of(x.type), lanes_of(x.type)
    bits = width * bits_of(x.type)
    name = f"llvm.x86.avx512.mask.range.{'ps' if kind == llvm.f32 else 'pd'}.{bits}"
    all_lanes = constant(f"i{max(8, width)}", -1)
    rounding = [constant(llvm.i32, 4)] if bits == 512 else []  # rounding mode of the thread
    found = b.call(x.type, name, x, y, constant(llvm.i32, _GREATER), x, all_lanes, *rounding)
    return b.select(b.fcmp("uno", x, y), b.fadd(x, y), found)


def _least(b: Instructions, x: Value, y: Value) -> Value:
    """The minimum in three instructions, as many as with VRANGE, but with fewer dependencies between them; and for
    scalars without the branch on a sign that LLVM emits for zeros. The two comparison orders give the same bits, or one
    zero each, or a NaN and a number; and a NaN remains a NaN whatever bits are or-ed into it."""
    one, other = (b.select(b.fcmp("olt", p, q), p, q) for p, q in ((x, y), (y, x)))
    return b.bitcast(b.or_(_bits(b, one), _bits(b, other)), x.type)


def _greatest(b: Instructions, x: Value, y: Value) -> Value:
    """The maximum: like `_least` with one more step. For zeros of different sign the xor is the sign bit, and -0.0 -
    -0.0 is 0.0; a NaN minus anything is NaN; and if both are equal, zero is subtracted."""
    one, other = (b.select(b.fcmp("ogt", p, q), p, q) for p, q in ((x, y), (y, x)))
    apart = b.xor(_bits(b, one), _bits(b, other))
    return b.fsub(b.bitcast(b.or_(_bits(b, one), apart), x.type), b.bitcast(apart, x.type))


def _bits(b: Instructions, x: Value) -> Value:
    return b.bitcast(x, with_element(x.type, f"i{bits_of(x.type)}"))


def _divided(b: Instructions, element: IntegerType, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient towards minus infinity and remainder, both 0 where the divisor is 0."""
    wide = with_element(x.type, _QUOTIENTS[element.width])
    whole = with_element(x.type, llvm.i32)
    if element.unsigned:
        ratio = b.fdiv(b.uitofp(x, wide), b.uitofp(y, wide))
        quotient = b.fptoui(ratio, whole)
    else:
        ratio = b.fdiv(b.sitofp(x, wide), b.sitofp(y, wide))
        quotient = b.fptosi(b.floor(ratio), whole)
    quotient = b.trunc(quotient, x.type) if element.width < 32 else quotient
    if not element.unsigned:
        # The smallest integer by -1 is beyond the range; its negation is itself.
        quotient = b.select(b.icmp("eq", y, -1), b.sub(0, x), quotient)
    by_zero, nothing = b.icmp("eq", y, 0), constant(x.type, 0)
    remainder = b.select(by_zero, nothing, b.sub(x, b.mul(quotient, y)))
    return b.select(by_zero, nothing, quotient), remainder
