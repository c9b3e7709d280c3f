# SPDX-License-Identifier: Apache-2.0
"""Decompositions of composite ops, written on verbs, so that they run on IR values, graph nodes and arrays alike.

A decomposition returns the results, or None if the op is kept: integer division is primitive, and a
size that is not known yet cannot become a constant. f16 and bf16 are computed in f32 and rounded once where
the op's definition says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, prod
from typing import Any, Literal, TypeVar

from ..ir.attributes import integers, numeric_literal
from ..ir.core import Op
from ..ir.definition import Typing
from ..ir.elements import ElementsAttr, elements, filled
from ..ir.types import (
    DYNAMIC,
    FloatType,
    IntegerType,
    ShapedType,
    TensorType,
    Type,
    element_type,
    f32,
    f64,
    i32,
    i64,
    shape_of,
    ui32,
    ui64,
    with_element,
)
from ..support.borders import positions
from ..support.lengths import Length, is_open
from . import ng_rules, rules
from .disjoint_windows import sums_of_disjoint_windows, windows_of_single_taps
from .fields import get_bool, get_enum, get_float, get_i64, get_i64s
from .meaning.random import MULTIPLIERS, ROUNDS, UNIFORM_BITS, WEYL
from .ng import NgVerbs
from .sorting import argsort

V = TypeVar("V")
Decomposition = Callable[[NgVerbs[Any], Op, Sequence[Any]], Sequence[Any] | None]

_NUMPY_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def _number(verbs: NgVerbs[V], value: float, type: Type) -> V:
    if isinstance(value, Length):
        return verbs.extent(value=value, type=type)
    return verbs.constant(type=type, value=filled(numeric_literal(value, element_type(type)), type))


def _computed(type: Type) -> Type:
    """The type in which f16 and bf16 are computed; for any other the type itself."""
    return with_element(type, f32) if element_type(type).text in ("f16", "bf16") else type


def _converted(verbs: NgVerbs[V], value: V, source: Type, target: Type) -> V:
    return value if source is target else verbs.cast(value, type=target)


def _static(*types: Type) -> bool:
    return all(t.static for t in types if isinstance(t, ShapedType))


# ---- elementwise -------------------------------------------------------------------------------------------


def square(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V]:
    (x,) = operands
    return [verbs.multiply(x, x)]


def reciprocal(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    type = op.result.type
    return [verbs.divide(_number(verbs, 1, type), operands[0])] if _static(type) else None


def rsqrt(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    return reciprocal(verbs, op, [verbs.sqrt(operands[0])]) if _static(op.result.type) else None


def sign(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    (x,), type = operands, op.result.type
    if not _static(type):
        return None
    zero, one, less = (_number(verbs, n, type) for n in (0, 1, -1))
    negative = verbs.select(verbs.less(x, zero), less, x)
    return [verbs.select(verbs.greater(x, zero), one, negative)]


def _quotient(verbs: NgVerbs[V], type: Type, lhs: V, rhs: V) -> V:
    zero, one = _number(verbs, 0, type), _number(verbs, 1, type)
    quotient = verbs.floor(verbs.divide(lhs, rhs))
    rest = verbs.fma(verbs.negative(quotient), rhs, lhs)
    rest = verbs.select(verbs.equal(quotient, zero), lhs, rest)
    # The quotient was rounded before floor, and may so have reached the next integer.
    below = verbs.bitwise_and(verbs.less(rest, zero), verbs.greater(rhs, zero))
    above = verbs.bitwise_and(verbs.greater(rest, zero), verbs.less(rhs, zero))
    wrong = verbs.bitwise_or(below, above)
    return verbs.select(wrong, verbs.subtract(quotient, one), quotient)


def floor_divide(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    type = op.result.type
    if not isinstance(element_type(type), FloatType) or not _static(type):
        return None
    wide = _computed(type)
    lhs, rhs = (_converted(verbs, x, type, wide) for x in operands)
    return [_converted(verbs, _quotient(verbs, wide, lhs, rhs), wide, type)]


def fma(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """f16 and bf16 in f64, where the product is exact; the sum is rounded to odd, so that the cast rounds once."""
    type = op.result.type
    if _computed(type) is type or not _static(type):
        return None
    wide, whole = with_element(type, f64), with_element(type, i64)
    x, y, addend = (verbs.cast(o, type=wide) for o in operands)
    product = verbs.multiply(x, y)
    total = verbs.add(product, addend)
    second = verbs.subtract(total, product)
    first = verbs.subtract(total, second)
    lost = verbs.add(verbs.subtract(product, first), verbs.subtract(addend, second))
    bits, zero, one = verbs.bitcast(total, type=whole), _number(verbs, 0, whole), _number(verbs, 1, whole)
    outwards = verbs.equal(verbs.copysign(lost, total), lost)
    step = verbs.select(outwards, one, _number(verbs, -1, whole))
    even = verbs.equal(verbs.bitwise_and(bits, one), zero)
    inexact = verbs.greater(verbs.absolute(lost), _number(verbs, 0, wide))
    step = verbs.select(verbs.bitwise_and(even, inexact), step, zero)
    return [verbs.cast(verbs.bitcast(verbs.add(bits, step), type=wide), type=type)]


# ---- shape and indices -------------------------------------------------------------------------------------


def stack(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    axis, target = get_i64(op, "axis"), op.result.type
    if not _static(target):
        return None
    shape = list(shape_of(target))
    shape[axis] = 1
    piece = rules.reshaped(target, shape, rules.names_of(target))
    return [verbs.concatenate([verbs.reshape(x, type=piece) for x in operands], axis=axis)]


def one_hot(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    (indices,), axis, target = operands, get_i64(op, "axis"), op.result.type
    source = op.operands[0].type
    if not _static(source, target):
        return None
    counted = element_type(source)
    if isinstance(counted, IntegerType) and shape_of(target)[axis] > 1 << (counted.width - 1):
        indices, counted = verbs.cast(indices, type=with_element(source, i32)), i32
    classes = with_element(target, counted)
    kept = [d for d in range(len(shape_of(target))) if d != axis]
    there = verbs.broadcast(indices, type=classes, dimensions=kept)
    return [verbs.cast(verbs.equal(there, verbs.iota(type=classes, dimension=axis)), type=target)]


def border_pad(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    (x,), source = operands, op.operands[0].type
    if not _static(source):
        return None
    for axis, (low, high) in enumerate(zip(get_i64s(op, "low"), get_i64s(op, "high"), strict=True)):
        if low or high:
            at = positions(get_enum(op, "border"), shape_of(source)[axis], low, high)
            names = rules.names_of(source)
            type = rules.reshaped(source, [len(at)], names and [names[axis]], i64)
            assert isinstance(type, TensorType)
            x = verbs.gather(x, verbs.constant(type=type, value=elements(at, type)), axis=axis)
    return [x]


def lookup(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V]:
    table, indices = operands
    return [verbs.gather(table, indices, axis=get_i64(op, "axis"))]


def overlap_add(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    source, target = op.operands[0].type, op.result.type
    wide = _computed(target)
    if wide is target:
        return sums_of_disjoint_windows(verbs, op, operands)
    named = {name: get_i64s(op, name) for name in ("axes", "steps", "dilations")}
    summed = verbs.overlap_add(verbs.cast(operands[0], type=_computed(source)), type=wide, **named)
    return [verbs.cast(summed, type=target)]


def cumulative_runs(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """One run at a time, each combined with its start value."""
    source, before = (o.type for o in op.operands)
    if not _static(source, before):
        return None
    axis, run, combine = get_i64(op, "axis"), get_i64(op, "run"), get_enum(op, "combine")
    along = getattr(verbs, f"cumulative_{combine}")
    join = getattr(verbs, {"sum": "add", "product": "multiply", "max": "maximum", "min": "minimum"}[combine])
    wide, shape = with_element(source, element_type(before)), shape_of(source)
    value = _converted(verbs, operands[0], source, wide)

    def part(value: V, shape: Sequence[int], first: int, end: int) -> V:
        starts = [first if d == axis else 0 for d in range(len(shape))]
        limits = [end if d == axis else size for d, size in enumerate(shape)]
        return verbs.slice(value, starts=starts, limits=limits, steps=[1] * len(shape))

    parts: list[V] = []
    for number, first in enumerate(range(0, shape[axis], run)):
        end = min(first + run, shape[axis])
        within = along(
            part(value, shape, first, end),
            axis=axis,
            reverse=get_bool(op, "reverse"),
            exclusive=get_bool(op, "exclusive"),
        )
        kept = [d for d in range(len(shape)) if d != axis]
        own, names = (
            [end - first if d == axis else size for d, size in enumerate(shape)],
            rules.names_of(wide),
        )
        line = rules.reshaped(before, [shape[d] for d in kept], names and [names[d] for d in kept])
        start = verbs.reshape(part(operands[1], shape_of(before), number, number + 1), type=line)
        parts.append(
            join(verbs.broadcast(start, type=rules.reshaped(wide, own, names), dimensions=kept), within)
        )
    return [_converted(verbs, verbs.concatenate(parts, axis=axis), wide, source)]


# ---- along axes --------------------------------------------------------------------------------------------


def _spread(verbs: NgVerbs[V], value: V, axes: Sequence[int], type: Type) -> V:
    """Broadcasts a reduced value along the reduced dimensions."""
    kept = [d for d in range(len(shape_of(type))) if d not in axes]
    return verbs.broadcast(value, type=type, dimensions=kept)


def constant(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """A number that is broadcast, instead of an array whose size depends on open lengths."""
    literal, type = op.attributes["value"], op.result.type
    if not isinstance(literal, ElementsAttr) or not is_open(shape_of(type)):
        return None
    one = TensorType((), literal.type.element)
    return [verbs.broadcast(verbs.constant(type=one, value=literal.of_type(one)), type=type, dimensions=())]


def extent(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """A known length becomes a constant."""
    value = get_i64(op, "value")
    return None if isinstance(value, Length) else [_number(verbs, value, op.result.type)]


def mean(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    source, axes = op.operands[0].type, get_i64s(op, "axes")
    if not _static(source):
        return None
    wide = _computed(source)
    (reduced,) = ng_rules.reduce(Typing((wide,), {"axes": integers(axes)}))
    count = prod(shape_of(source)[a] for a in axes)
    total = verbs.sum(_converted(verbs, operands[0], source, wide), axes=axes)
    return [_converted(verbs, verbs.divide(total, _number(verbs, count, reduced)), reduced, op.result.type)]


def first_max(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V]:
    return [verbs.max(operands[0], axes=get_i64s(op, "axes"))]


def _powers(verbs: NgVerbs[V], x: V, axes: Sequence[int], type: Type) -> tuple[V, V, V]:
    """x minus its maximum, its exponential, and the sum of that."""
    shifted = verbs.subtract(x, _spread(verbs, verbs.max(x, axes=axes), axes, type))
    powers = verbs.exp(shifted)
    return shifted, powers, verbs.sum(powers, axes=axes)


def _log_softmax(verbs: NgVerbs[V], x: V, axes: Sequence[int], type: Type) -> V:
    shifted, _, total = _powers(verbs, x, axes, type)
    return verbs.subtract(shifted, _spread(verbs, verbs.log(total), axes, type))


def softmax(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V]:
    type, axes = op.result.type, get_i64s(op, "axes")
    wide = _computed(type)
    _, powers, total = _powers(verbs, _converted(verbs, operands[0], type, wide), axes, wide)
    # One division for each row: a total is at least 1, so its inverse is a normal number.
    inverse = verbs.reciprocal(total)
    return [_converted(verbs, verbs.multiply(powers, _spread(verbs, inverse, axes, wide)), wide, type)]


def segment_softmax(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V]:
    """As softmax, with the reductions of each segment expanded to its rows."""
    (x, offsets), type, axis = operands, op.result.type, get_i64(op, "axis")
    wide, shape = _computed(type), list(shape_of(type))
    (count,) = shape_of(op.operands[1].type)
    shape[axis] = DYNAMIC if count == DYNAMIC else count - 1
    each = rules.reshaped(wide, shape)

    def spread(combine: Literal["sum", "max"], value: V) -> V:
        gathered = verbs.segment_reduce(value, offsets, type=each, axis=axis, combine=combine)
        return verbs.segment_expand(gathered, offsets, type=wide, axis=axis)

    x = _converted(verbs, x, type, wide)
    powers = verbs.exp(verbs.subtract(x, spread("max", x)))
    return [_converted(verbs, verbs.divide(powers, spread("sum", powers)), wide, type)]


def log_softmax(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V]:
    type, axes = op.result.type, get_i64s(op, "axes")
    wide = _computed(type)
    found = _log_softmax(verbs, _converted(verbs, operands[0], type, wide), axes, wide)
    return [_converted(verbs, found, wide, type)]


def cross_entropy(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    type, axes = op.operands[0].type, get_i64s(op, "axes")
    if not _static(type):
        return None
    wide = _computed(type)
    logits, targets = (_converted(verbs, x, type, wide) for x in operands)
    zero = _number(verbs, 0, wide)
    products = verbs.multiply(targets, _log_softmax(verbs, logits, axes, wide))
    counted = verbs.select(verbs.equal(targets, zero), zero, products)
    (reduced,) = ng_rules.reduce(Typing((wide,), {"axes": integers(axes)}))
    return [_converted(verbs, verbs.negative(verbs.sum(counted, axes=axes)), reduced, op.result.type)]


def normalize(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    type, axes = op.result.type, get_i64s(op, "axes")
    if not _static(type):
        return None
    wide = _computed(type)
    (reduced,) = ng_rules.reduce(Typing((wide,), {"axes": integers(axes)}))
    x = _converted(verbs, operands[0], type, wide)
    # The mean is subtracted before squaring, so that a large one causes no loss of precision.
    centered = verbs.subtract(x, _spread(verbs, verbs.mean(x, axes=axes), axes, wide))
    variance = verbs.mean(verbs.square(centered), axes=axes)
    scale = verbs.rsqrt(verbs.add(variance, _number(verbs, get_float(op, "epsilon"), reduced)))
    return [_converted(verbs, verbs.multiply(centered, _spread(verbs, scale, axes, wide)), wide, type)]


# ---- random numbers ----------------------------------------------------------------------------------------


def _random_block(verbs: NgVerbs[V], key: V, block: V, line: TensorType) -> tuple[V, V, V, V]:
    """The four words of each of these blocks, in the lower halves of ui64; the upper halves are masked where they matter."""

    def number(value: int) -> V:
        return _number(verbs, value, line)

    def upper(value: V) -> V:
        return verbs.shift_right_logical(value, half)

    def key_word(i: int) -> V:
        word = verbs.slice(key, starts=[i], limits=[i + 1], steps=[1])
        return verbs.broadcast(verbs.reshape(word, type=TensorType((), ui64)), type=line, dimensions=[])

    low, half = number(0xFFFFFFFF), number(32)
    seed, stream = key_word(0), key_word(1)
    a, b, c, d = block, upper(block), stream, upper(stream)
    keys = seed, upper(seed)
    for i in range(ROUNDS):
        k, l = (verbs.add(word, number(i * w & 0xFFFFFFFF)) for word, w in zip(keys, WEYL, strict=True))
        first, second = (
            verbs.multiply(verbs.bitwise_and(word, low), number(by))
            for word, by in zip((a, c), MULTIPLIERS, strict=True)
        )
        a = verbs.bitwise_xor(verbs.bitwise_xor(upper(second), b), k)
        c = verbs.bitwise_xor(verbs.bitwise_xor(upper(first), d), l)
        b, d = second, first
    return a, b, c, d


def _random_words(verbs: NgVerbs[V], key: V, count: int, each: int) -> list[V]:
    """The words of `count` elements, each of which takes `each` (one or two) consecutive words of the stream.

    Every element computes the block that has its words, so that no array of blocks is ever stored, and users of the words may be
    fused with them. Threads with several adjacent elements compute the block that these share once."""
    line, share = TensorType((count,), ui64), 4 // each
    place = verbs.iota(type=line, dimension=0)
    block = verbs.shift_right_logical(place, _number(verbs, share.bit_length() - 1, line))
    words = _random_block(verbs, key, block, line)
    which = verbs.bitwise_and(place, _number(verbs, share - 1, line))
    *others, found = (words[i : i + each] for i in range(0, 4, each))
    for i, own in reversed([*enumerate(others)]):
        here = verbs.equal(which, _number(verbs, i, line))
        found = tuple(verbs.select(here, word, other) for word, other in zip(own, found, strict=True))
    return [verbs.cast(word, type=with_element(line, ui32)) for word in found]


def random_bits(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    target = op.result.type
    if not _static(target):
        return None
    (words,) = _random_words(verbs, operands[0], prod(shape_of(target)), 1)
    return [verbs.reshape(words, type=target)]


def _fractions(verbs: NgVerbs[V], bits: V, source: Type, target: Type, start: int) -> V:
    """(upper n bits + start) * 2^-n of words, where n is the number of random bits of the type."""
    taken = UNIFORM_BITS[_NUMPY_NAMES[element_type(target).text]]
    upper = verbs.shift_right_logical(bits, _number(verbs, 32 - taken, source)) if taken < 32 else bits
    whole = verbs.cast(upper, type=target)
    if start:
        whole = verbs.add(whole, _number(verbs, start, target))
    return verbs.multiply(whole, _number(verbs, 2.0**-taken, target))


def random_uniform(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    target = op.result.type
    if not _static(target):
        return None
    words = with_element(target, ui32)
    return [_fractions(verbs, verbs.random_bits(operands[0], type=words), words, target, 0)]


def random_normal(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    target = op.result.type
    if not _static(target):
        return None
    count = prod(shape_of(target))
    element = element_type(_computed(target))
    words, line = TensorType((count,), ui32), TensorType((count,), element)
    radius_bits, angle_bits = _random_words(verbs, operands[0], count, 2)
    # One is added so that the operand of the logarithm is never zero.
    logarithm = verbs.log(_fractions(verbs, radius_bits, words, line, 1))
    radius = verbs.sqrt(verbs.multiply(_number(verbs, -2, line), logarithm))
    turn = _fractions(verbs, angle_bits, words, line, 0)
    found = verbs.multiply(radius, verbs.cos(verbs.multiply(_number(verbs, 2 * pi, line), turn)))
    wide = with_element(target, element)
    return [_converted(verbs, verbs.reshape(found, type=wide), wide, target)]


#: Ops that a target may carry out as they are: only others decompose them.
PRIMITIVE_ON_SOME = frozenset({"ng.border_pad"})

#: Op name -> its decomposition.
DECOMPOSITIONS: dict[str, Decomposition] = {
    "ng.square": square,
    "ng.reciprocal": reciprocal,
    "ng.rsqrt": rsqrt,
    "ng.sign": sign,
    "ng.floor_divide": floor_divide,
    "ng.fma": fma,
    "ng.stack": stack,
    "ng.one_hot": one_hot,
    "ng.lookup": lookup,
    "ng.border_pad": border_pad,
    "ng.argsort": argsort,
    "ng.windows": windows_of_single_taps,
    "ng.overlap_add": overlap_add,
    "ng.cumulative_runs": cumulative_runs,
    "ng.constant": constant,
    "ng.extent": extent,
    "ng.mean": mean,
    "ng.first_max": first_max,
    "ng.softmax": softmax,
    "ng.segment_softmax": segment_softmax,
    "ng.log_softmax": log_softmax,
    "ng.cross_entropy": cross_entropy,
    "ng.normalize": normalize,
    "ng.random_bits": random_bits,
    "ng.random_uniform": random_uniform,
    "ng.random_normal": random_normal,
}
