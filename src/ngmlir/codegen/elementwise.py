# SPDX-License-Identifier: Apache-2.0
"""The elementwise ops of `ng` as LLVM instructions, on scalars and on vectors, for every target.

The ops with trait `math` are not here: the pass expand-math has expressed them in terms of these. No fast-math flags
are set, so LLVM neither fuses nor reorders floating point ops, and all targets give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ..ir.core import Op
from ..ir.types import FloatType, IndexType, IntegerType, Type, element_type
from ..ir.types import f32 as F32
from ..llvm.instructions import Instructions
from ..llvm.types import OF_DTYPE, Value, constant, f32, from_bits, i32, lanes_of, vector, with_element
from ..llvm.types import Type as LlvmType
from ..ops.library import in_library
from ..rewrite.advice import pass_for
from ..support.diagnostics import Limit

#: One op on LLVM values; `element` is the element type of the first operand (its integers are signed or unsigned).
Rule = Callable[..., Value]

#: Reduction, cumulative op, or combining mode of a scatter -> the elementwise op that combines two elements.
JOINS = {
    "add": "add",
    "sum": "add",
    "product": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "bitwise_or",
    "all": "bitwise_and",
    "cumulative_sum": "add",
    "cumulative_product": "multiply",
    "cumulative_max": "maximum",
    "cumulative_min": "minimum",
}


def llvm_element(element: Type) -> LlvmType:
    """The LLVM type that values of an element type have in arithmetic."""
    return "i64" if isinstance(element, IndexType) else OF_DTYPE[element.text]


def lower(b: Instructions, op: Op, operands: Sequence[Value]) -> Value:
    """The instructions of one elementwise op on operands of one shape, all scalars or all vectors."""
    name = op.name.partition(".")[2]
    source = element_type(op.operands[0].type)
    if name == "cast":
        return cast(b, operands[0], source, element_type(op.result.type))
    if name == "bitcast":
        target = llvm_element(element_type(op.result.type))
        return b.bitcast(operands[0], with_element(operands[0].type, target))
    if name == "select":
        return b.select(*operands)
    if name not in _RULES or in_library(op):
        raise Limit(f"{op.name} has no code generator", op.location, hint=pass_for(op))
    return apply(b, name, source, *operands)


def apply(b: Instructions, name: str, element: Type, *operands: Value) -> Value:
    """`apply(b, "maximum", f32, x, y)`: an op by its name; casts and select have functions of their own."""
    return _RULES[name](b, element, *operands)


def identity(name: str, element: Type) -> int | float:
    """The identity of `add`, `multiply`, `maximum`, `minimum`, `bitwise_or/and`."""
    match name:
        case "add":
            # x + -0.0 is x for every x; 0.0 would turn -0.0 into 0.0.
            return -0.0 if isinstance(element, FloatType) else 0
        case "multiply":
            return 1
        case "bitwise_or":
            return 0
        case "bitwise_and":
            return 1 if _width(element) == 1 else -1
        case "maximum" | "minimum":
            return _extreme(element, highest=name == "minimum")
        case _:
            raise KeyError(name)


def tree(join: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value:
    """Combines neighbours pairwise: a short dependency chain, in an order that depends only on the number of values."""
    values = list(values)
    while len(values) > 1:
        rest = values[len(values) // 2 * 2 :]
        values = [join(x, y) for x, y in zip(values[::2], values[1::2], strict=False)] + rest
    return values[0]


def multiply_words(b: Instructions, words: str, x: Value, y: Value) -> Value:
    """The dot product of the narrow elements in each i32; `words` names their types, such as `ui8_i8`."""
    left, right = (_parts(b, side, element) for side, element in zip((x, y), words.split("_"), strict=True))
    floats = words.startswith("bf")
    multiply, add = (b.fmul, b.fadd) if floats else (b.mul, b.add)
    return reduce(add, [multiply(p, q) for p, q in zip(left, right, strict=True)])


def _parts(b: Instructions, x: Value, element: str) -> list[Value]:
    """The elements in each word of a register, the lowest bits first, each widened to i32 or f32."""
    if element == "bf16":
        return [b.bitcast(v, with_element(x.type, f32)) for v in (b.shl(x, 16), b.and_(x, ~0xFFFF))]
    bits = max(8, int(element.lstrip("ui")))
    widened = b.lshr if element.startswith("u") else b.ashr
    return [
        widened(b.shl(x, 32 - bits - at) if at < 32 - bits else x, 32 - bits) for at in range(0, 32, bits)
    ]


def whole_words(b: Instructions, x: Value, element: Type) -> Value:
    """Words of two numbers of 16 bits, from half words of two bytes: i16 of signed ones, ui16 of unsigned ones."""
    count = 2 * lanes_of(x.type)
    bytes, wide = b.bitcast(x, vector(count, "i8")), vector(count, "i16")
    return b.bitcast(
        b.zext(bytes, wide) if _unsigned(element) else b.sext(bytes, wide), with_element(x.type, i32)
    )


def cast(b: Instructions, x: Value, source: Type, target: Type) -> Value:
    """`ng.cast`: see its doc line for the rounding."""
    to = with_element(x.type, llvm_element(target))
    if source is target:
        return x
    if isinstance(source, FloatType):
        if isinstance(target, FloatType):
            return _between_floats(b, x, source, target, to)
        if _width(target) == 1:
            return b.fcmp("une", x, 0.0)
        return _to_integer(b, x, source, target)
    if isinstance(target, FloatType):
        return b.uitofp(x, to) if _unsigned(source) else b.sitofp(x, to)
    if _width(target) == 1:
        return b.icmp("ne", x, 0)
    if _width(target) < _width(source):
        return b.trunc(x, to)
    if _width(target) > _width(source):
        return b.zext(x, to) if _unsigned(source) else b.sext(x, to)
    return x


def _to_integer(b: Instructions, x: Value, source: FloatType, target: Type) -> Value:
    """Rounds towards zero; values outside the range give the nearest integer of the type, and NaN gives 0.

    LLVM's conversion is defined only in range, and its saturating form is scalarized on x86: so x is clamped first.
    """
    if source.width < 32:
        x, source = b.fpext(x, with_element(x.type, f32)), F32
    low, high = _extreme(target, highest=False), _extreme(target, highest=True)
    bits, precision = int(high).bit_length(), 24 if source is F32 else 53
    below = (1 << bits) - (1 << max(0, bits - precision))  # the greatest float of the range
    inside = b.select(b.fcmp("ord", x, x), x, 0.0) if low else x  # a comparison with NaN gives the 0 of `low`
    inside = b.select(b.fcmp("ogt", inside, float(low)), inside, float(low))
    inside = b.select(b.fcmp("olt", inside, float(below)), inside, float(below))
    to = with_element(x.type, llvm_element(target))
    if _width(target) < 32:
        whole = b.fptosi(inside, with_element(x.type, i32))
        if lanes_of(x.type) > 1:
            # Already in range; but with the clamp LLVM selects instructions that pack with saturation.
            whole = b.smin(b.smax(whole, low), high)
        return b.trunc(whole, to)
    whole = b.fptoui(inside, to) if _unsigned(target) else b.fptosi(inside, to)
    if below == high:
        return whole
    return b.select(b.fcmp("ult", x, float(high + 1)), whole, -1 if _unsigned(target) else high)


def _between_floats(b: Instructions, x: Value, source: FloatType, target: FloatType, to: LlvmType) -> Value:
    if source.width == target.width:  # f16 and bf16: no instruction, and f32 holds both exactly
        return b.fptrunc(b.fpext(x, with_element(x.type, f32)), to)
    return b.fpext(x, to) if source.width < target.width else b.fptrunc(x, to)


def _width(element: Type) -> int:
    if isinstance(element, IndexType):
        return 64
    assert isinstance(element, IntegerType | FloatType)
    return element.width


def _unsigned(element: Type) -> bool:
    return isinstance(element, IntegerType) and (element.unsigned or element.width == 1)


def _float(element: Type) -> bool:
    return isinstance(element, FloatType)


def _extreme(element: Type, *, highest: bool) -> int | float:
    if _float(element):
        return float("inf") if highest else float("-inf")
    if _unsigned(element):
        return (1 << _width(element)) - 1 if highest else 0
    return (1 << (_width(element) - 1)) - 1 if highest else -(1 << (_width(element) - 1))


# One operand


def _negative(b: Instructions, element: Type, x: Value) -> Value:
    return b.fneg(x) if _float(element) else b.sub(0, x)


def _absolute(b: Instructions, element: Type, x: Value) -> Value:
    if _float(element):
        return b.fabs(x)
    return x if _unsigned(element) else b.abs(x)


def _sign(b: Instructions, element: Type, x: Value) -> Value:
    if _float(element):
        below = b.select(b.fcmp("olt", x, 0.0), constant(x.type, -1.0), x)
        return b.select(b.fcmp("ogt", x, 0.0), constant(x.type, 1.0), below)
    return b.smax(b.smin(x, 1), -1)


def _reciprocal(b: Instructions, element: Type, x: Value) -> Value:
    return b.fdiv(1.0, x)


def _rsqrt(b: Instructions, element: Type, x: Value) -> Value:
    return b.fdiv(1.0, b.sqrt(x))


def _square(b: Instructions, element: Type, x: Value) -> Value:
    return b.fmul(x, x) if _float(element) else b.mul(x, x)


# Two operands


def _arithmetic(float_name: str, integer_name: str) -> Rule:
    def rule(b: Instructions, element: Type, x: Value, y: Value) -> Value:
        return getattr(b, float_name if _float(element) else integer_name)(x, y)

    return rule


def _extremum(float_name: str, signed: str, unsigned: str) -> Rule:
    def rule(b: Instructions, element: Type, x: Value, y: Value) -> Value:
        name = float_name if _float(element) else unsigned if _unsigned(element) else signed
        return getattr(b, name)(x, y)

    return rule


def _comparison(float_name: str, integer_name: str) -> Rule:
    def rule(b: Instructions, element: Type, x: Value, y: Value) -> Value:
        if _float(element):
            return b.fcmp(float_name, x, y)
        prefix = "" if integer_name in ("eq", "ne") else "u" if _unsigned(element) else "s"
        return b.icmp(prefix + integer_name, x, y)

    return rule


def _divided(b: Instructions, element: Type, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient towards minus infinity and remainder of integers, both 0 where the divisor is 0."""
    is_zero = b.icmp("eq", y, 0)
    if _unsigned(element):
        divisor = b.select(is_zero, constant(y.type, 1), y)
        quotient = b.udiv(x, divisor)
        remainder = b.sub(x, b.mul(quotient, divisor))
        return b.select(is_zero, constant(x.type, 0), quotient), remainder
    # The smallest integer divided by -1 overflows, which LLVM leaves undefined; the negation does not.
    is_minus_one = b.icmp("eq", y, -1)
    divisor = b.select(b.or_(is_zero, is_minus_one), constant(y.type, 1), y)
    quotient = b.sdiv(x, divisor)
    remainder = b.sub(x, b.mul(quotient, divisor))
    opposite = b.icmp("slt", b.xor(remainder, divisor), 0)
    round_down = b.and_(b.icmp("ne", remainder, 0), opposite)
    quotient = b.add(quotient, b.sext(round_down, x.type))
    remainder = b.select(round_down, b.add(remainder, divisor), remainder)
    quotient = b.select(is_minus_one, b.sub(0, x), quotient)
    return b.select(is_zero, constant(x.type, 0), quotient), remainder


def _divided_floats(b: Instructions, x: Value, y: Value) -> Value:
    """The quotient rounded down. The sign of the remainder, which fma computes exactly, corrects quotients that were
    rounded."""
    quotient = b.floor(b.fdiv(x, y))
    rest = b.fma(b.fneg(quotient), y, x)
    rest = b.select(b.fcmp("oeq", quotient, 0.0), x, rest)
    # The quotient was rounded before `floor`, and may have reached the next integer.
    below = b.and_(b.fcmp("olt", rest, 0.0), b.fcmp("ogt", y, 0.0))
    above = b.or_(below, b.and_(b.fcmp("ogt", rest, 0.0), b.fcmp("olt", y, 0.0)))
    return b.select(above, b.fsub(quotient, 1.0), quotient)


def _floor_divide(b: Instructions, element: Type, x: Value, y: Value) -> Value:
    if not isinstance(element, FloatType):
        return _divided(b, element, x, y)[0]
    if element.width > 16:
        return _divided_floats(b, x, y)
    wide = with_element(x.type, f32)
    return b.fptrunc(_divided_floats(b, b.fpext(x, wide), b.fpext(y, wide)), x.type)


def _remainder(b: Instructions, element: Type, x: Value, y: Value) -> Value:
    """The remainder of integers; that of floats is in the math library."""
    return _divided(b, element, x, y)[1]


def _shift(name: str) -> Rule:
    def rule(b: Instructions, element: Type, x: Value, y: Value) -> Value:
        width = _width(element)
        shifted = getattr(b, name)(x, b.umin(y, width - 1))
        return b.select(b.icmp("ult", y, width), shifted, constant(x.type, 0))

    return rule


def _shift_right_arithmetic(b: Instructions, element: Type, x: Value, y: Value) -> Value:
    if _unsigned(element):
        return _RULES["shift_right_logical"](b, element, x, y)
    return b.ashr(x, b.umin(y, _width(element) - 1))


def _plain(method: Callable[..., Value]) -> Rule:
    def rule(b: Instructions, element: Type, *operands: Value) -> Value:
        return method(b, *operands)

    return rule


def _fma(b: Instructions, element: Type, x: Value, y: Value, z: Value) -> Value:
    # Called on the instance, not through the class: the module may replace `fma`.
    return b.fma(x, y, z)


def _bitwise_not(b: Instructions, element: Type, x: Value) -> Value:
    return b.xor(x, from_bits(x.type, 1) if _width(element) == 1 else constant(x.type, -1))


_RULES: dict[str, Rule] = {
    "negative": _negative,
    "absolute": _absolute,
    "sign": _sign,
    "square": _square,
    "reciprocal": _reciprocal,
    "sqrt": _plain(Instructions.sqrt),
    "rsqrt": _rsqrt,
    "floor": _plain(Instructions.floor),
    "ceil": _plain(Instructions.ceil),
    "round": _plain(Instructions.roundeven),
    "trunc": _plain(Instructions.ftrunc),
    "bitwise_not": _bitwise_not,
    "add": _arithmetic("fadd", "add"),
    "subtract": _arithmetic("fsub", "sub"),
    "multiply": _arithmetic("fmul", "mul"),
    "divide": _plain(Instructions.fdiv),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "maximum": _extremum("maximum", "smax", "umax"),
    "minimum": _extremum("minimum", "smin", "umin"),
    "copysign": _plain(Instructions.copysign),
    "bitwise_and": _plain(Instructions.and_),
    "bitwise_or": _plain(Instructions.or_),
    "bitwise_xor": _plain(Instructions.xor),
    "shift_left": _shift("shl"),
    "shift_right_logical": _shift("lshr"),
    "shift_right_arithmetic": _shift_right_arithmetic,
    "equal": _comparison("oeq", "eq"),
    "not_equal": _comparison("une", "ne"),
    "less": _comparison("olt", "lt"),
    "less_equal": _comparison("ole", "le"),
    "greater": _comparison("ogt", "gt"),
    "greater_equal": _comparison("oge", "ge"),
    "fma": _fma,
}
