# SPDX-License-Identifier: Apache-2.0
"""Expands functions of floats into the arithmetic of the math library (`lowering/math/*.ngir`).

The library is written for scalars: `exp.ngir` defines `@exp_f32`. Its body replaces `ng.exp`, with every type lifted
to the container of the op's type, so scalars, vectors and tensors share one text, and all targets compute the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from ...ir.attributes import UnitAttr, integers
from ...ir.core import Module, Op, Value, callee
from ...ir.types import (
    FloatType,
    IntegerType,
    Type,
    VectorType,
    element_type,
    f32,
    i1,
    shape_of,
    with_element,
)
from ...ops import ng
from ...ops.builder import Builder
from ...ops.fields import RARE
from ...ops.library import LIBRARY, NONPOSITIVE, in_library
from ...ops.words import from_text
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.diagnostics import Bug
from ...support.home import folder
from ...support.target import Target


@contract(anchor="function")
def expand_math(module: Module, target: Target) -> Module:
    """Replaces transcendental ops and remainders of floats by arithmetic: f32 and f64 by the math library, f16 and bf16 through f32.

    Where the library has a function for f16 or bf16, shorter because these need fewer bits, that is called; its operands and
    results are f32 too, and the results are at most 0.54 units in the last place of f16 or bf16 from the exact ones.

    Before:
        func.func @main(%x: f16) -> f16 {
          %0 = ng.atanh %x : f16
          return %0 : f16
        }
    After:
        func.func @main(%x: f16) -> f16 {
          %0 = ng.cast %x : (f16) -> f32
          %a = ng.absolute %0 : f32
          ...
          %r = ng.cast %7 : (f32) -> f16
          func.return %r : f16
        }
    """

    def expand(op: Op, builder: Builder) -> Sequence[Value] | None:
        if not in_library(op):
            return None
        element = element_type(op.result.type)
        if not isinstance(element, FloatType):
            return [integer_power(builder, *op.operands)]
        name, operands = op.name.partition(".")[2], op.operands
        if element.width < 32:
            operands = tuple(builder.cast(o, type=with_element(o.type, f32)) for o in operands)
        computed = element if find_library_function(f"{name}_{element}") else f32
        if NONPOSITIVE in op.attributes and find_library_function(f"{name}_nonpositive_{computed}"):
            name = f"{name}_nonpositive"
        made = _Inliner(builder, operands[0].type).inline(f"{name}_{computed}", operands)
        return [builder.cast(made, type=op.result.type) if element.width < 32 else made]

    return sweep(module, expand, LIBRARY)


@cache
def _library_file(name: str) -> Module | None:
    """The file `exp.ngir` of the math library, with the functions for all element types."""
    path = folder("lowering") / "math" / f"{name}.ngir"
    # The functions that these call are in other files, which the verifier would miss here.
    return from_text(path.read_text(), file=str(path), verify=False) if path.is_file() else None


def find_library_function(symbol: str) -> Op | None:
    """The function `@exp_f32` of the math library, from `exp.ngir`, if there is one."""
    file = _library_file(symbol.rpartition("_")[0])
    return file.lookup(symbol) if file is not None else None


def library_function(symbol: str) -> Op:
    """The function `@exp_f32` of the math library; raises `Bug` where it has none."""
    found = find_library_function(symbol)
    if found is None:
        raise Bug(f"the math library has no @{symbol}")
    return found


class _Inliner:
    """Inlines library functions at the builder, with every type lifted to the container of `like`."""

    def __init__(self, builder: Builder, like: Type):
        self.builder, self.like = builder, like
        self.branches = isinstance(like, VectorType)  # rare cases are branched around only for vectors

    def inline(self, symbol: str, arguments: Sequence[Value]) -> Value:
        body = library_function(symbol).regions[0].block
        values = dict(zip(body.args, arguments, strict=True))
        late = {op.operands[1]: op for op in body.ops if self.branches and RARE in op.attributes}
        calls: dict[Value, Op] = {}
        for op in body.ops:
            operands = [values[o] for o in op.operands if o in values]
            if op.name == "func.return":
                return operands[0]
            if op.name == "func.call":
                if op.result in late:
                    calls[op.result] = op
                    continue
                made = self.inline(callee(op), operands)
            elif op.name == "ng.constant":
                made = self.builder.number(op.attributes["value"], self.lifted(op.result))
            elif op.name == "ng.select" and op.operands[1] in calls:
                call = calls[op.operands[1]]
                made = self.rarely(operands[0], callee(call), [values[o] for o in call.operands], operands[1])
            else:
                made = self.copy(op, operands)
            values[op.result] = made
        raise Bug(f"@{symbol} of the math library has no return")

    def lifted(self, value: Value) -> Type:
        return with_element(self.like, value.type)

    def copy(self, op: Op, operands: Sequence[Value]) -> Value:
        kept = {name: value for name, value in op.attributes.items() if not isinstance(value, UnitAttr)}
        new = type(op)(operands, [self.lifted(op.result)], kept, (), self.builder.location)
        return self.builder.add_op(new).result

    def rarely(self, condition: Value, symbol: str, arguments: Sequence[Value], usual: Value) -> Value:
        """`symbol(arguments)` in the lanes where the condition holds; not computed at all if it holds in none."""
        builder = self.builder
        return where_any(
            builder,
            condition,
            lambda: builder.select(condition, self.inline(symbol, arguments), usual),
            usual,
        )


def where_any(builder: Builder, condition: Value, special: Callable[[], Value], usual: Value) -> Value:
    """The value of `special`, which must equal `usual` in the lanes where `condition` is false. It is not computed if the condition,
    which is rare, is false in all lanes."""
    marked = {"axes": integers(range(len(shape_of(condition.type)))), RARE: UnitAttr()}
    some = builder.add_op(ng.AnyOp([condition], [i1], marked, (), builder.location)).result
    return builder.branch(some, lambda: [special()], lambda: [usual])[0]


def integer_power(builder: Builder, base: Value, exponent: Value) -> Value:
    """base ^ exponent modulo 2^width, by squaring. To a negative exponent: 0, except for the bases 1 and -1."""
    type = base.type
    element = element_type(type)
    assert isinstance(element, IntegerType)
    zero, one, width = builder.number(0, type), builder.number(1, type), element.width

    def to_the(bits: range, result: Value, square: Value, rest: Value) -> tuple[Value, Value, Value]:
        for bit in bits:
            odd = builder.not_equal(builder.bitwise_and(rest, one), zero)
            result = builder.select(odd, builder.multiply(result, square), result)
            if bit + 1 < width:
                square = builder.multiply(square, square)
                rest = builder.shift_right_logical(rest, one)
        return result, square, rest

    # Exponents of more bits overflow for all bases but -1, 0 and 1, so the other bits are rarely needed.
    few = max(1, (width - 1).bit_length()) if isinstance(type, VectorType) else width
    result, square, rest = to_the(range(few), one, base, exponent)
    if few < width:
        more = builder.not_equal(rest, zero)
        result = where_any(builder, more, lambda: to_the(range(few, width), result, square, rest)[0], result)
    if element.unsigned or element is i1:
        return result
    minus_one = builder.number(-1, type)
    unit = builder.bitwise_or(builder.equal(base, one), builder.equal(base, minus_one))
    # For the bases 1 and -1 the result is right for all exponents: only the lowest bit matters.
    return builder.select(builder.greater_equal(exponent, zero), result, builder.select(unit, result, zero))
