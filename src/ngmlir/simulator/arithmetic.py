# SPDX-License-Identifier: Apache-2.0
"""Integer and floating-point arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoding import Elementwise, Step, decodes, reader, writer
from .formats import FORMATS, STORAGE, UNSIGNED, flush, fma, saturate
from .frame import Frame
from .program import Instruction, Register
from .registers import Slots, Threads

Array = np.ndarray


def simple(slots: Slots, instruction: Instruction, kind: str, operation: Elementwise) -> Step:
    """A step for `d = operation(a, b, ...)`, all of type `kind`; results are written in place where that is cheap."""
    out = slots.write(instruction, instruction.operands[0], kind)
    negated = any(isinstance(o, Register) and o.negated for o in instruction.operands)
    if isinstance(operation, np.ufunc) and out is not None and not negated:
        sources = [slots.read(instruction, o, kind) for o in instruction.operands[1:]]

        def step(frame: Frame, threads: Threads) -> None:
            views = frame.views
            if threads is ...:
                operation(*[views[source] for source in sources], out=views[out], casting="unsafe")
            else:
                views[out][threads] = operation(*[views[source][threads] for source in sources])

        return step
    reads = [reader(slots, instruction, o, kind) for o in instruction.operands[1:]]
    write = writer(slots, instruction, instruction.operands[0], kind)
    return lambda frame, threads: write(frame, threads, operation(*[read(frame, threads) for read in reads]))


def _is_float(kind: str) -> bool:
    return kind in FORMATS


def floating(slots: Slots, instruction: Instruction, operation: Elementwise) -> Step:
    """A step for a float operation that NumPy computes in the format's compute type."""
    target = FORMATS[instruction.type]
    modifiers = instruction.modifiers
    ftz, sat = "ftz" in modifiers, "sat" in modifiers
    if target.direct and not ftz and not sat:
        return simple(slots, instruction, instruction.type, operation)

    def whole(*operands: Array) -> Array:
        values = [target.decode(v) for v in operands]
        if ftz:
            values = [flush(v) for v in values]
        result = operation(*values)
        if ftz:
            result = flush(result)
        return target.encode(saturate(result) if sat else result)

    return simple(slots, instruction, instruction.type, whole)


def _rounds_to_nearest(slots: Slots, instruction: Instruction) -> None:
    if {"rz", "rm", "rp"} & set(instruction.modifiers):
        raise slots.limit(instruction, "only rounding to nearest is simulated in arithmetic")


_INTEGER = {"add": np.add, "sub": np.subtract}
_FLOAT = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@decodes("add", "sub")
def _add(slots: Slots, instruction: Instruction) -> Step:
    if _is_float(instruction.type):
        _rounds_to_nearest(slots, instruction)
        return floating(slots, instruction, _FLOAT[instruction.head])
    if "cc" in instruction.modifiers:
        raise slots.limit(instruction)
    operation = _INTEGER[instruction.head]
    if "sat" in instruction.modifiers:
        return simple(
            slots, instruction, "s32", lambda a, b: _clip(operation(a.astype(np.int64), b), np.int32)
        )
    return simple(slots, instruction, instruction.type, operation)


def _clip(value: Array, dtype: type[np.integer]) -> Array:
    info = np.iinfo(dtype)
    return np.clip(value, info.min, info.max).astype(dtype)


@decodes("mul")
def _mul(slots: Slots, instruction: Instruction) -> Step:
    if _is_float(instruction.type):
        _rounds_to_nearest(slots, instruction)
        return floating(slots, instruction, np.multiply)
    return _product(slots, instruction, accumulate=False)


@decodes("mad", "fma")
def _mad(slots: Slots, instruction: Instruction) -> Step:
    if not _is_float(instruction.type):
        return _product(slots, instruction, accumulate=True)
    _rounds_to_nearest(slots, instruction)
    target = FORMATS[instruction.type]
    modifiers = instruction.modifiers
    ftz, sat, relu = ("ftz" in modifiers), ("sat" in modifiers), ("relu" in modifiers)

    def operation(*operands: Array) -> Array:
        values = [target.decode(v) for v in operands]
        if ftz:
            values = [flush(v) for v in values]
        a, b, c = values
        result = fma(a, b, c, target)
        if ftz or sat or relu:
            value = target.decode(result)
            value = flush(value) if ftz else value
            value = saturate(value) if sat else value
            result = target.encode(np.maximum(value, 0).astype(value.dtype) if relu else value)
        return result

    return simple(slots, instruction, instruction.type, operation)


def _product(slots: Slots, instruction: Instruction, accumulate: bool) -> Step:
    """mul and mad of integers: .lo, .hi or .wide."""
    kind = instruction.type
    size = STORAGE[kind][0].itemsize
    modifiers = instruction.modifiers
    if "wide" in modifiers:
        result, product = f"{kind[0]}{16 * size}", _wide_product
    elif "hi" in modifiers:
        result, product = kind, _high_product
    else:
        result, product = kind, np.multiply
    if "sat" in modifiers:
        raise slots.limit(instruction)
    reads = [reader(slots, instruction, o, kind) for o in instruction.operands[1:3]]
    write = writer(slots, instruction, instruction.operands[0], result)
    if not accumulate:
        if product is np.multiply:
            return simple(slots, instruction, kind, np.multiply)
        return lambda frame, threads: write(
            frame, threads, product(*[read(frame, threads) for read in reads])
        )
    third = reader(slots, instruction, instruction.operands[3], result)
    return lambda frame, threads: write(
        frame, threads, product(*[read(frame, threads) for read in reads]) + third(frame, threads)
    )


def _wide_product(a: Array, b: Array) -> Array:
    wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
    return a.astype(wide) * b.astype(wide)


def _high_product(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    ua, ub = a.astype(np.uint64), b.astype(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = ua & low, ua >> half, ub & low, ub >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    high = a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    return high.astype(a.dtype)


@decodes("dp4a")
def _dp4a(slots: Slots, instruction: Instruction) -> Step:
    """c plus the dot product of the four bytes of a and those of b."""
    *_, a_kind, b_kind = instruction.modifiers
    kind = "s32" if "s32" in (a_kind, b_kind) else "u32"
    a, b, c = (
        reader(slots, instruction, o, k) for o, k in zip(instruction.operands[1:], (a_kind, b_kind, kind))
    )
    write = writer(slots, instruction, instruction.operands[0], kind)

    def octets(values: Array, kind: str) -> Array:
        return (
            np.ascontiguousarray(values)[:, None]
            .view(np.int8 if kind == "s32" else np.uint8)
            .astype(np.int64)
        )

    def step(frame: Frame, threads: Threads) -> None:
        total = (octets(a(frame, threads), a_kind) * octets(b(frame, threads), b_kind)).sum(axis=1)
        write(frame, threads, (total + c(frame, threads)).astype(STORAGE[kind][0]))

    return step


@decodes("div")
def _div(slots: Slots, instruction: Instruction) -> Step:
    if _is_float(instruction.type):
        _rounds_to_nearest(slots, instruction)
        return floating(slots, instruction, np.divide)
    return simple(slots, instruction, instruction.type, lambda a, b: _quotient(a, b)[0])


@decodes("rem")
def _rem(slots: Slots, instruction: Instruction) -> Step:
    return simple(slots, instruction, instruction.type, lambda a, b: _quotient(a, b)[1])


def _quotient(a: Array, b: Array) -> tuple[Array, Array]:
    """Truncating division. The result of division by zero is undefined in PTX; the hardware gives all ones, and the
    remainder `a`."""
    unsigned = UNSIGNED[a.dtype.itemsize]
    signed = a.dtype.kind == "i"
    ua = np.where(a < 0, -a, a).view(unsigned) if signed else a
    ub = np.where(b < 0, -b, b).view(unsigned) if signed else b
    zero = ub == 0
    quotient = ua // np.where(zero, unsigned.type(1), ub)
    remainder = ua - quotient * ub
    if signed:
        quotient, remainder = quotient.view(a.dtype), remainder.view(a.dtype)
        quotient = np.where((a < 0) != (b < 0), -quotient, quotient)
        remainder = np.where(a < 0, -remainder, remainder)
    everything = np.array(-1, np.int64).astype(a.dtype)
    return np.where(zero, everything, quotient), np.where(zero, a, remainder)


@decodes("min", "max")
def _extreme(slots: Slots, instruction: Instruction) -> Step:
    least = instruction.head == "min"
    if not _is_float(instruction.type):
        whole = np.minimum if least else np.maximum
        if "relu" not in instruction.modifiers:
            return simple(slots, instruction, instruction.type, whole)
        return simple(slots, instruction, instruction.type, lambda a, b: np.maximum(whole(a, b), 0))
    if "relu" in instruction.modifiers or "abs" in instruction.modifiers or len(instruction.operands) > 3:
        raise slots.limit(instruction)
    propagate = "NaN" in instruction.modifiers
    pick = (np.minimum if least else np.maximum) if propagate else (np.fmin if least else np.fmax)

    def operation(a: Array, b: Array) -> Array:
        result = pick(a, b)
        zeros = (a == 0) & (b == 0)
        if zeros.any():  # -0.0 is less than +0.0
            negative = np.signbit(a) | np.signbit(b) if least else np.signbit(a) & np.signbit(b)
            zero = np.where(negative, -0.0, 0.0).astype(result.dtype)
            result = np.where(zeros, zero, result)
        return result

    return floating(slots, instruction, operation)


@decodes("neg")
def _neg(slots: Slots, instruction: Instruction) -> Step:
    if _is_float(instruction.type):
        kind, sign = _sign_bits(slots, instruction)
        return simple(slots, instruction, kind, lambda bits: bits ^ sign)
    return simple(slots, instruction, instruction.type, np.negative)


@decodes("abs")
def _abs(slots: Slots, instruction: Instruction) -> Step:
    if _is_float(instruction.type):
        kind, sign = _sign_bits(slots, instruction)
        return simple(slots, instruction, kind, lambda bits: bits & ~sign)
    return simple(slots, instruction, instruction.type, lambda a: np.where(a < 0, -a, a))


@decodes("copysign")
def _copysign(slots: Slots, instruction: Instruction) -> Step:
    kind, sign = _sign_bits(slots, instruction)
    return simple(slots, instruction, kind, lambda a, b: (a & sign) | (b & ~sign))


def _sign_bits(slots: Slots, instruction: Instruction) -> tuple[str, np.unsignedinteger]:
    """For operations on signs alone, exact also for NaNs: the type of the bits, and a mask of the sign bits."""
    if "ftz" in instruction.modifiers:
        raise slots.limit(instruction)
    dtype, lanes = STORAGE[instruction.type]
    bits = 8 * dtype.itemsize
    signs = sum(1 << (bits * lane + bits - 1) for lane in range(lanes))
    return f"b{bits * lanes}", UNSIGNED[dtype.itemsize * lanes].type(signs)


def _inverse(value: Array) -> Array:
    return np.divide(value.dtype.type(1), value)


def _tanh(value: Array) -> Array:
    return np.tanh(value.astype(np.float64)).astype(value.dtype)


def _through_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda value: function(value.astype(np.float64)).astype(value.dtype)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt,
    "rcp": _inverse,
    "rsqrt": _through_double(lambda v: 1.0 / np.sqrt(v)),
    "ex2": _through_double(np.exp2),
    "lg2": _through_double(np.log2),
    "sin": _through_double(np.sin),
    "cos": _through_double(np.cos),
    "tanh": _tanh,
}


@decodes(*_UNARY)
def _unary(slots: Slots, instruction: Instruction) -> Step:
    """Approximate instructions are rounded to nearest: the simulator models their meaning, not their error."""
    _rounds_to_nearest(slots, instruction)
    return floating(slots, instruction, _UNARY[instruction.head])
