# SPDX-License-Identifier: Apache-2.0
# Generated from dialects/ng.ngd by `python -m ngmlir.decl.generate`; do not edit.
"""The ng dialect. Tensors with named axes. Every op is a value, but for notes; nothing here has an effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from ..ir.attributes import Attribute
from ..ir.core import Op, Region, Value
from ..ir.definition import AttributeField, Constraint, Domain, OpDefinition, Operand
from ..ir.types import Type
from . import fields, ng_rules

V = TypeVar("V")


class ConstantOp(Op):
    """A number or an array that is known at compile time. The bits of floats are kept, also of -0.0 and NaN."""

    __slots__ = ()
    name = "ng.constant"
    definition = OpDefinition(
        name,
        operands=(),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        attributes=(
            AttributeField("value", "literal", None, False),
        ),
        traits=frozenset(['constant', 'flat', 'pure', 'stated']),
        rule=ng_rules.constant,
        form=('$value',),
        doc='A number or an array that is known at compile time. The bits of floats are kept, also of -0.0 and NaN.',
        example='%c = ng.constant -0.0 : f32',
    )

    @property
    def value(self) -> Attribute:
        return fields.get_literal(self, "value")


class IotaOp(Op):
    """The position of each element along one dimension."""

    __slots__ = ()
    name = "ng.iota"
    definition = OpDefinition(
        name,
        operands=(),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric")),
        ),
        attributes=(
            AttributeField("dimension", "i64", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'stated']),
        rule=ng_rules.iota,
        form=(),
        doc='The position of each element along one dimension.',
        example='%i = ng.iota {dimension = 1 : i64} : tensor<4x3xi32, #ng.axes<N, C>>',
    )

    @property
    def dimension(self) -> int:
        return fields.get_i64(self, "dimension")


class ExtentOp(Op):
    """A number that follows from lengths, in every element: `[4*N + 1]` in a program that is compiled for any length N."""

    __slots__ = ()
    name = "ng.extent"
    definition = OpDefinition(
        name,
        operands=(),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric")),
        ),
        attributes=(
            AttributeField("value", "i64", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'stated']),
        form=(),
        doc='A number that follows from lengths, in every element: `[4*N + 1]` in a program that is compiled for any length N.',
        example='%n = ng.extent {value = 12 : i64} : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def value(self) -> int:
        return fields.get_i64(self, "value")


class NegativeOp(Op):
    """The negative; integers wrap around."""

    __slots__ = ()
    name = "ng.negative"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(signed)", "value", "signed"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(signed)", "value", "signed"), "T"),
        ),
        traits=frozenset(['elementwise', 'linear', 'pure']),
        form=('$input',),
        doc='The negative; integers wrap around.',
        example='%r = ng.negative %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AbsoluteOp(Op):
    """The absolute value; the smallest signed integer is unchanged."""

    __slots__ = ()
    name = "ng.absolute"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$input',),
        doc='The absolute value; the smallest signed integer is unchanged.',
        example='%r = ng.absolute %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SignOp(Op):
    """-1, 0 or 1; -0.0 and NaN are unchanged."""

    __slots__ = ()
    name = "ng.sign"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(signed)", "value", "signed"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(signed)", "value", "signed"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$input',),
        points=(((-0.0,), -0.0), ((float("inf"),), 1.0), ((-float("inf"),), -1.0)),
        doc='-1, 0 or 1; -0.0 and NaN are unchanged.',
        example='%r = ng.sign %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SquareOp(Op):
    """The square."""

    __slots__ = ()
    name = "ng.square"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$input',),
        doc='The square.',
        example='%r = ng.square %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class ReciprocalOp(Op):
    """One divided by the operand."""

    __slots__ = ()
    name = "ng.reciprocal"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.25, 4.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$input',),
        points=(((-0.0,), -float("inf")), ((-float("inf"),), -0.0)),
        doc='One divided by the operand.',
        example='%r = ng.reciprocal %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SqrtOp(Op):
    """The square root, correctly rounded; NaN below zero; sqrt(-0.0) = -0.0."""

    __slots__ = ()
    name = "ng.sqrt"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.1, 16.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$input',),
        points=(((-0.0,), -0.0), ((-1.0,), float("nan")), ((float("inf"),), float("inf"))),
        doc='The square root, correctly rounded; NaN below zero; sqrt(-0.0) = -0.0.',
        example='%r = ng.sqrt %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class RsqrtOp(Op):
    """One divided by the square root: reciprocal(sqrt(x)), two roundings."""

    __slots__ = ()
    name = "ng.rsqrt"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.1, 16.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$input',),
        doc='One divided by the square root: reciprocal(sqrt(x)), two roundings.',
        example='%r = ng.rsqrt %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class ExpOp(Op):
    """e to the power of the operand."""

    __slots__ = ()
    name = "ng.exp"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.1), ('f64', 1.1)),
        points=(((-float("inf"),), 0.0), ((float("inf"),), float("inf")), ((0.0,), 1.0)),
        doc='e to the power of the operand.',
        example='%r = ng.exp %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class Exp2Op(Op):
    """2 to the power of the operand."""

    __slots__ = ()
    name = "ng.exp2"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.1), ('f64', 1.1)),
        points=(((-float("inf"),), 0.0), ((float("inf"),), float("inf")), ((3.0,), 8.0)),
        doc='2 to the power of the operand.',
        example='%r = ng.exp2 %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class Expm1Op(Op):
    """exp(x) - 1 without cancellation near 0."""

    __slots__ = ()
    name = "ng.expm1"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.6), ('f64', 2.0)),
        points=(((-0.0,), -0.0), ((-float("inf"),), -1.0), ((float("inf"),), float("inf"))),
        doc='exp(x) - 1 without cancellation near 0.',
        example='%r = ng.expm1 %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class LogOp(Op):
    """The natural logarithm; -inf at zero, NaN below zero."""

    __slots__ = ()
    name = "ng.log"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.1, 100.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.0), ('f64', 1.2)),
        points=(((0.0,), -float("inf")), ((-0.0,), -float("inf")), ((-1.0,), float("nan")), ((1.0,), 0.0), ((float("inf"),), float("inf"))),
        doc='The natural logarithm; -inf at zero, NaN below zero.',
        example='%r = ng.log %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class Log2Op(Op):
    """The logarithm to base 2."""

    __slots__ = ()
    name = "ng.log2"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.1, 100.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.7), ('f64', 1.5)),
        points=(((0.0,), -float("inf")), ((-1.0,), float("nan")), ((8.0,), 3.0)),
        doc='The logarithm to base 2.',
        example='%r = ng.log2 %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class Log10Op(Op):
    """The logarithm to base 10."""

    __slots__ = ()
    name = "ng.log10"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.1, 100.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.9), ('f64', 1.6)),
        points=(((0.0,), -float("inf")), ((-1.0,), float("nan")), ((100.0,), 2.0)),
        doc='The logarithm to base 10.',
        example='%r = ng.log10 %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class Log1pOp(Op):
    """log(1 + x) without cancellation near 0."""

    __slots__ = ()
    name = "ng.log1p"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(-0.9, 4.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.5), ('f64', 1.8)),
        points=(((-0.0,), -0.0), ((-1.0,), -float("inf")), ((-2.0,), float("nan"))),
        doc='log(1 + x) without cancellation near 0.',
        example='%r = ng.log1p %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SinOp(Op):
    """The sine of an angle in radians; NaN at infinity."""

    __slots__ = ()
    name = "ng.sin"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.7), ('f64', 1.7)),
        points=(((float("inf"),), float("nan")), ((-0.0,), -0.0)),
        doc='The sine of an angle in radians; NaN at infinity.',
        example='%r = ng.sin %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class CosOp(Op):
    """The cosine of an angle in radians; NaN at infinity."""

    __slots__ = ()
    name = "ng.cos"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.7), ('f64', 1.7)),
        points=(((-float("inf"),), float("nan")), ((0.0,), 1.0)),
        doc='The cosine of an angle in radians; NaN at infinity.',
        example='%r = ng.cos %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class TanOp(Op):
    """The tangent of an angle in radians; NaN at infinity."""

    __slots__ = ()
    name = "ng.tan"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(-1.5, 1.5, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 3.0), ('f64', 2.0)),
        points=(((float("inf"),), float("nan")), ((-0.0,), -0.0)),
        doc='The tangent of an angle in radians; NaN at infinity.',
        example='%r = ng.tan %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AsinOp(Op):
    """The arcsine; NaN outside [-1, 1]."""

    __slots__ = ()
    name = "ng.asin"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(-1.0, 1.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.4), ('f64', 2.4)),
        points=(((1.5,), float("nan")), ((-0.0,), -0.0)),
        doc='The arcsine; NaN outside [-1, 1].',
        example='%r = ng.asin %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AcosOp(Op):
    """The arccosine; NaN outside [-1, 1]."""

    __slots__ = ()
    name = "ng.acos"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(-1.0, 1.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.3), ('f64', 1.3)),
        points=(((-1.5,), float("nan")), ((1.0,), 0.0)),
        doc='The arccosine; NaN outside [-1, 1].',
        example='%r = ng.acos %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AtanOp(Op):
    """The arctangent."""

    __slots__ = ()
    name = "ng.atan"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.7), ('f64', 1.7)),
        points=(((float("inf"),), 1.5707963267948966), ((-0.0,), -0.0)),
        doc='The arctangent.',
        example='%r = ng.atan %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SinhOp(Op):
    """The hyperbolic sine."""

    __slots__ = ()
    name = "ng.sinh"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.0), ('f64', 2.3)),
        points=(((-float("inf"),), -float("inf")), ((-0.0,), -0.0)),
        doc='The hyperbolic sine.',
        example='%r = ng.sinh %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class CoshOp(Op):
    """The hyperbolic cosine."""

    __slots__ = ()
    name = "ng.cosh"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.0), ('f64', 1.8)),
        points=(((-float("inf"),), float("inf")), ((0.0,), 1.0)),
        doc='The hyperbolic cosine.',
        example='%r = ng.cosh %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class TanhOp(Op):
    """The hyperbolic tangent."""

    __slots__ = ()
    name = "ng.tanh"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.5), ('f64', 2.6)),
        points=(((float("inf"),), 1.0), ((-float("inf"),), -1.0), ((-0.0,), -0.0)),
        doc='The hyperbolic tangent.',
        example='%r = ng.tanh %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AsinhOp(Op):
    """The inverse hyperbolic sine."""

    __slots__ = ()
    name = "ng.asinh"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 1.9), ('f64', 2.3)),
        points=(((-float("inf"),), -float("inf")), ((-0.0,), -0.0)),
        doc='The inverse hyperbolic sine.',
        example='%r = ng.asinh %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AcoshOp(Op):
    """The inverse hyperbolic cosine; NaN below 1."""

    __slots__ = ()
    name = "ng.acosh"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(1.1, 8.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.6), ('f64', 2.8)),
        points=(((0.5,), float("nan")), ((1.0,), 0.0), ((float("inf"),), float("inf"))),
        doc='The inverse hyperbolic cosine; NaN below 1.',
        example='%r = ng.acosh %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AtanhOp(Op):
    """The inverse hyperbolic tangent; NaN outside [-1, 1]."""

    __slots__ = ()
    name = "ng.atanh"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T", domain=Domain(-0.95, 0.95, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.1), ('f64', 2.3)),
        points=(((1.0,), float("inf")), ((2.0,), float("nan")), ((-0.0,), -0.0)),
        doc='The inverse hyperbolic tangent; NaN outside [-1, 1].',
        example='%r = ng.atanh %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SigmoidOp(Op):
    """The logistic function 1 / (1 + exp(-x))."""

    __slots__ = ()
    name = "ng.sigmoid"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.5), ('f64', 2.5)),
        points=(((-float("inf"),), 0.0), ((float("inf"),), 1.0), ((0.0,), 0.5)),
        doc='The logistic function 1 / (1 + exp(-x)).',
        example='%r = ng.sigmoid %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SoftplusOp(Op):
    """log(1 + exp(x)), without overflow."""

    __slots__ = ()
    name = "ng.softplus"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.0), ('f64', 2.4)),
        points=(((-float("inf"),), 0.0), ((float("inf"),), float("inf"))),
        doc='log(1 + exp(x)), without overflow.',
        example='%r = ng.softplus %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class ErfOp(Op):
    """The error function."""

    __slots__ = ()
    name = "ng.erf"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$input',),
        errors=(('f32', 2.5), ('f64', 1.9)),
        points=(((float("inf"),), 1.0), ((-float("inf"),), -1.0), ((-0.0,), -0.0)),
        doc='The error function.',
        example='%r = ng.erf %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class FloorOp(Op):
    """Rounded down to an integer, as a float."""

    __slots__ = ()
    name = "ng.floor"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$input',),
        doc='Rounded down to an integer, as a float.',
        example='%r = ng.floor %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class CeilOp(Op):
    """Rounded up to an integer, as a float."""

    __slots__ = ()
    name = "ng.ceil"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$input',),
        doc='Rounded up to an integer, as a float.',
        example='%r = ng.ceil %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class RoundOp(Op):
    """The nearest integer, ties to even, as a float."""

    __slots__ = ()
    name = "ng.round"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$input',),
        points=(((0.5,), 0.0), ((1.5,), 2.0), ((-0.5,), -0.0)),
        doc='The nearest integer, ties to even, as a float.',
        example='%r = ng.round %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class TruncOp(Op):
    """The integer part, as a float."""

    __slots__ = ()
    name = "ng.trunc"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$input',),
        doc='The integer part, as a float.',
        example='%r = ng.trunc %a : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class BitwiseNotOp(Op):
    """All bits inverted; of i1 the logical not."""

    __slots__ = ()
    name = "ng.bitwise_not"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$input',),
        doc='All bits inverted; of i1 the logical not.',
        example='%r = ng.bitwise_not %a : tensor<4xi32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class AddOp(Op):
    """The sum; integers wrap around."""

    __slots__ = ()
    name = "ng.add"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T"),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['commutative', 'elementwise', 'linear', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='The sum; integers wrap around.',
        example='%r = ng.add %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class SubtractOp(Op):
    """The difference; integers wrap around."""

    __slots__ = ()
    name = "ng.subtract"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T"),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['elementwise', 'linear', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='The difference; integers wrap around.',
        example='%r = ng.subtract %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class MultiplyOp(Op):
    """The product; integers wrap around."""

    __slots__ = ()
    name = "ng.multiply"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T"),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['bilinear', 'commutative', 'elementwise', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='The product; integers wrap around.',
        example='%r = ng.multiply %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class DivideOp(Op):
    """The quotient, correctly rounded."""

    __slots__ = ()
    name = "ng.divide"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(float)", "value", "float"), "T"),
            Operand("rhs", Constraint("value(float)", "value", "float"), "T", domain=Domain(0.5, 4.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$lhs', ',', '$rhs'),
        points=(((1.0, -0.0), -float("inf")), ((0.0, 0.0), float("nan"))),
        doc='The quotient, correctly rounded.',
        example='%r = ng.divide %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class FloorDivideOp(Op):
    """The quotient rounded towards minus infinity; an integer divided by zero is 0. Of floats floor(lhs / rhs), less 1 where that leaves a remainder of the wrong sign: exact as far as all integers are floats of the type; f16 and bf16 by way of f32."""

    __slots__ = ()
    name = "ng.floor_divide"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(-50.0, 50.0, True, False)),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(0.5, 4.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='The quotient rounded towards minus infinity; an integer divided by zero is 0. Of floats floor(lhs / rhs), less 1 where that leaves a remainder of the wrong sign: exact as far as all integers are floats of the type; f16 and bf16 by way of f32.',
        example='%r = ng.floor_divide %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class RemainderOp(Op):
    """lhs - floor(lhs / rhs) * rhs, with the sign of rhs; of an integer by zero 0. Of floats exact for every quotient, but where |lhs| < |rhs| and the signs differ: lhs + rhs, rounded once."""

    __slots__ = ()
    name = "ng.remainder"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(-50.0, 50.0, True, False)),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(0.5, 4.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$lhs', ',', '$rhs'),
        points=(((7.0, 3.0), 1.0), ((-7.0, 3.0), 2.0), ((7.0, -3.0), -2.0), ((-0.0, 3.0), 0.0), ((3.0, -float("inf")), -float("inf")), ((3.0, 0.0), float("nan")), ((float("inf"), 3.0), float("nan"))),
        doc='lhs - floor(lhs / rhs) * rhs, with the sign of rhs; of an integer by zero 0. Of floats exact for every quotient, but where |lhs| < |rhs| and the signs differ: lhs + rhs, rounded once.',
        example='%r = ng.remainder %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class PowerOp(Op):
    """lhs to the power of rhs. Floats: as pow of C. Integers wrap around; a negative power gives 0, except of 1 and -1."""

    __slots__ = ()
    name = "ng.power"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(0.1, 4.0, True, False)),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$lhs', ',', '$rhs'),
        errors=(('f32', 1.7), ('f64', 1.3)),
        points=(((float("nan"), 0.0), 1.0), ((1.0, float("nan")), 1.0), ((0.0, -1.0), float("inf")), ((-0.0, -1.0), -float("inf")), ((-8.0, 0.5), float("nan")), ((-2.0, 3.0), -8.0)),
        doc='lhs to the power of rhs. Floats: as pow of C. Integers wrap around; a negative power gives 0, except of 1 and -1.',
        example='%r = ng.power %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class MaximumOp(Op):
    """The maximum of two operands; NaN if either is NaN; +0.0 is greater than -0.0."""

    __slots__ = ()
    name = "ng.maximum"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T"),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['commutative', 'elementwise', 'pure']),
        form=('$lhs', ',', '$rhs'),
        points=(((-0.0, 0.0), 0.0), ((float("nan"), -float("inf")), float("nan")), ((float("inf"), float("nan")), float("nan"))),
        doc='The maximum of two operands; NaN if either is NaN; +0.0 is greater than -0.0.',
        example='%r = ng.maximum %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class MinimumOp(Op):
    """The minimum of two operands; NaN if either is NaN; -0.0 is less than +0.0."""

    __slots__ = ()
    name = "ng.minimum"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(numeric)", "value", "numeric"), "T"),
            Operand("rhs", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        traits=frozenset(['commutative', 'elementwise', 'pure']),
        form=('$lhs', ',', '$rhs'),
        points=(((-0.0, 0.0), -0.0), ((float("nan"), -float("inf")), float("nan")), ((float("inf"), float("nan")), float("nan"))),
        doc='The minimum of two operands; NaN if either is NaN; -0.0 is less than +0.0.',
        example='%r = ng.minimum %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class Atan2Op(Op):
    """The angle of the point (rhs, lhs), in radians: atan(lhs / rhs) in the right quadrant."""

    __slots__ = ()
    name = "ng.atan2"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(float)", "value", "float"), "T"),
            Operand("rhs", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'math', 'pure']),
        form=('$lhs', ',', '$rhs'),
        errors=(('f32', 1.8), ('f64', 1.8)),
        points=(((0.0, -1.0), 3.141592653589793), ((-0.0, -1.0), -3.141592653589793), ((0.0, 0.0), 0.0), ((-0.0, 0.0), -0.0), ((1.0, 0.0), 1.5707963267948966)),
        doc='The angle of the point (rhs, lhs), in radians: atan(lhs / rhs) in the right quadrant.',
        example='%r = ng.atan2 %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class CopysignOp(Op):
    """The magnitude of lhs with the sign of rhs."""

    __slots__ = ()
    name = "ng.copysign"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(float)", "value", "float"), "T"),
            Operand("rhs", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='The magnitude of lhs with the sign of rhs.',
        example='%r = ng.copysign %a, %b : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class BitwiseAndOp(Op):
    """Bitwise and; of i1 the logical and."""

    __slots__ = ()
    name = "ng.bitwise_and"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(bits)", "value", "bits"), "T"),
            Operand("rhs", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        traits=frozenset(['commutative', 'elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='Bitwise and; of i1 the logical and.',
        example='%r = ng.bitwise_and %a, %b : tensor<4xi32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class BitwiseOrOp(Op):
    """Bitwise or; of i1 the logical or."""

    __slots__ = ()
    name = "ng.bitwise_or"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(bits)", "value", "bits"), "T"),
            Operand("rhs", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        traits=frozenset(['commutative', 'elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='Bitwise or; of i1 the logical or.',
        example='%r = ng.bitwise_or %a, %b : tensor<4xi32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class BitwiseXorOp(Op):
    """Bitwise xor; of i1 the logical xor."""

    __slots__ = ()
    name = "ng.bitwise_xor"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(bits)", "value", "bits"), "T"),
            Operand("rhs", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bits)", "value", "bits"), "T"),
        ),
        traits=frozenset(['commutative', 'elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='Bitwise xor; of i1 the logical xor.',
        example='%r = ng.bitwise_xor %a, %b : tensor<4xi32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class ShiftLeftOp(Op):
    """Bits shifted left, filled with zeros; 0 for a shift by the width or more."""

    __slots__ = ()
    name = "ng.shift_left"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(integer)", "value", "integer"), "T"),
            Operand("rhs", Constraint("value(integer)", "value", "integer"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(integer)", "value", "integer"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='Bits shifted left, filled with zeros; 0 for a shift by the width or more.',
        example='%r = ng.shift_left %a, %b : tensor<4xi32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class ShiftRightLogicalOp(Op):
    """Bits shifted right, filled with zeros; 0 for a shift by the width or more."""

    __slots__ = ()
    name = "ng.shift_right_logical"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(integer)", "value", "integer"), "T"),
            Operand("rhs", Constraint("value(integer)", "value", "integer"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(integer)", "value", "integer"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='Bits shifted right, filled with zeros; 0 for a shift by the width or more.',
        example='%r = ng.shift_right_logical %a, %b : tensor<4xi32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class ShiftRightArithmeticOp(Op):
    """Bits shifted right, filled with the sign bit (zeros for unsigned types); all sign bits for a shift by the width or more."""

    __slots__ = ()
    name = "ng.shift_right_arithmetic"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(integer)", "value", "integer"), "T"),
            Operand("rhs", Constraint("value(integer)", "value", "integer"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(integer)", "value", "integer"), "T"),
        ),
        traits=frozenset(['elementwise', 'flat', 'pure']),
        form=('$lhs', ',', '$rhs'),
        doc='Bits shifted right, filled with the sign bit (zeros for unsigned types); all sign bits for a shift by the width or more.',
        example='%r = ng.shift_right_arithmetic %a, %b : tensor<4xi32>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class EqualOp(Op):
    """true where equal; NaN is equal to nothing."""

    __slots__ = ()
    name = "ng.equal"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(element)", "value", "element"), "T"),
            Operand("rhs", Constraint("value(element)", "value", "element"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        traits=frozenset(['commutative', 'compare', 'elementwise', 'flat', 'pure']),
        rule=ng_rules.compare,
        form=('$lhs', ',', '$rhs'),
        doc='true where equal; NaN is equal to nothing.',
        example='%r = ng.equal %a, %b : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi1, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class NotEqualOp(Op):
    """true where not equal; NaN differs from everything, also from itself."""

    __slots__ = ()
    name = "ng.not_equal"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(element)", "value", "element"), "T"),
            Operand("rhs", Constraint("value(element)", "value", "element"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        traits=frozenset(['commutative', 'compare', 'elementwise', 'flat', 'pure']),
        rule=ng_rules.compare,
        form=('$lhs', ',', '$rhs'),
        doc='true where not equal; NaN differs from everything, also from itself.',
        example='%r = ng.not_equal %a, %b : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi1, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class LessOp(Op):
    """true where lhs < rhs; false with NaN."""

    __slots__ = ()
    name = "ng.less"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(element)", "value", "element"), "T"),
            Operand("rhs", Constraint("value(element)", "value", "element"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        traits=frozenset(['compare', 'elementwise', 'flat', 'pure']),
        rule=ng_rules.compare,
        form=('$lhs', ',', '$rhs'),
        doc='true where lhs < rhs; false with NaN.',
        example='%r = ng.less %a, %b : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi1, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class LessEqualOp(Op):
    """true where lhs <= rhs; false with NaN."""

    __slots__ = ()
    name = "ng.less_equal"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(element)", "value", "element"), "T"),
            Operand("rhs", Constraint("value(element)", "value", "element"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        traits=frozenset(['compare', 'elementwise', 'flat', 'pure']),
        rule=ng_rules.compare,
        form=('$lhs', ',', '$rhs'),
        doc='true where lhs <= rhs; false with NaN.',
        example='%r = ng.less_equal %a, %b : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi1, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class GreaterOp(Op):
    """true where lhs > rhs; false with NaN."""

    __slots__ = ()
    name = "ng.greater"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(element)", "value", "element"), "T"),
            Operand("rhs", Constraint("value(element)", "value", "element"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        traits=frozenset(['compare', 'elementwise', 'flat', 'pure']),
        rule=ng_rules.compare,
        form=('$lhs', ',', '$rhs'),
        doc='true where lhs > rhs; false with NaN.',
        example='%r = ng.greater %a, %b : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi1, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class GreaterEqualOp(Op):
    """true where lhs >= rhs; false with NaN."""

    __slots__ = ()
    name = "ng.greater_equal"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(element)", "value", "element"), "T"),
            Operand("rhs", Constraint("value(element)", "value", "element"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        traits=frozenset(['compare', 'elementwise', 'flat', 'pure']),
        rule=ng_rules.compare,
        form=('$lhs', ',', '$rhs'),
        doc='true where lhs >= rhs; false with NaN.',
        example='%r = ng.greater_equal %a, %b : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi1, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]


class SelectOp(Op):
    """lhs where the condition is true, otherwise rhs."""

    __slots__ = ()
    name = "ng.select"
    definition = OpDefinition(
        name,
        operands=(
            Operand("condition", Constraint("value(bool)", "value", "bool")),
            Operand("lhs", Constraint("value(stored)", "value", "stored"), "T"),
            Operand("rhs", Constraint("value(stored)", "value", "stored"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        rule=ng_rules.select,
        form=('$condition', ',', '$lhs', ',', '$rhs'),
        doc='lhs where the condition is true, otherwise rhs.',
        example='%r = ng.select %c, %a, %b : (tensor<4x3xi1, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def condition(self) -> Value:
        return self.operands[0]

    @property
    def lhs(self) -> Value:
        return self.operands[1]

    @property
    def rhs(self) -> Value:
        return self.operands[2]


class FmaOp(Op):
    """lhs * rhs + addend, rounded once."""

    __slots__ = ()
    name = "ng.fma"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("value(float)", "value", "float"), "T"),
            Operand("rhs", Constraint("value(float)", "value", "float"), "T"),
            Operand("addend", Constraint("value(float)", "value", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float"), "T"),
        ),
        traits=frozenset(['elementwise', 'pure']),
        form=('$lhs', ',', '$rhs', ',', '$addend'),
        doc='lhs * rhs + addend, rounded once.',
        example='%r = ng.fma %a, %b, %c : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]

    @property
    def addend(self) -> Value:
        return self.operands[2]


class CastOp(Op):
    """Converts to another element type. Float to float rounds to nearest even, float to integer towards zero; integers wrap around; i1 is true for nonzero. Integers become floats of 16 bits and fewer by way of f32. A float out of the range of an integer type gives the nearest integer of the type, NaN gives 0. A value out of the range of a float type gives infinity, or NaN if the type has no infinity, or its largest value if it has neither (NaN then gives 0). f8E8M0FNU, which has only powers of two, rounds ties up, and gives NaN for values below its smallest."""

    __slots__ = ()
    name = "ng.cast"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(stored)", "value", "stored")),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        traits=frozenset(['elementwise', 'pure', 'stated']),
        rule=ng_rules.cast,
        form=('$input',),
        doc='Converts to another element type. Float to float rounds to nearest even, float to integer towards zero; integers wrap around; i1 is true for nonzero. Integers become floats of 16 bits and fewer by way of f32. A float out of the range of an integer type gives the nearest integer of the type, NaN gives 0. A value out of the range of a float type gives infinity, or NaN if the type has no infinity, or its largest value if it has neither (NaN then gives 0). f8E8M0FNU, which has only powers of two, rounds ties up, and gives NaN for values below its smallest.',
        example='%r = ng.cast %a : (tensor<4xf32>) -> tensor<4xi32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class BitcastOp(Op):
    """The same bits as another element type of the same width."""

    __slots__ = ()
    name = "ng.bitcast"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(stored)", "value", "stored"), domain=Domain(-4.0, 4.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        traits=frozenset(['elementwise', 'pure', 'stated', 'stops']),
        rule=ng_rules.bitcast,
        form=('$input',),
        doc='The same bits as another element type of the same width.',
        example='%r = ng.bitcast %a : (tensor<4xf32>) -> tensor<4xi32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class BroadcastOp(Op):
    """Repeats the operand along new dimensions; dimension i of the operand becomes dimension dimensions[i] of the result."""

    __slots__ = ()
    name = "ng.broadcast"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(stored)", "value", "stored")),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        attributes=(
            AttributeField("dimensions", "i64s", None, False),
        ),
        traits=frozenset(['linear', 'moves', 'pure', 'stated', 'view']),
        rule=ng_rules.broadcast,
        form=('$input', 'dims', '$dimensions'),
        loops_text='p -> p@dimensions n',
        doc='Repeats the operand along new dimensions; dimension i of the operand becomes dimension dimensions[i] of the result.',
        example='%r = ng.broadcast %a dims [1] : (tensor<3xf32, #ng.axes<C>>) -> tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def dimensions(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "dimensions")


class TransposeOp(Op):
    """Dimension i of the result is dimension permutation[i] of the operand."""

    __slots__ = ()
    name = "ng.transpose"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(stored)", "value", "stored")),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        attributes=(
            AttributeField("permutation", "i64s", None, False),
        ),
        traits=frozenset(['linear', 'moves', 'pure', 'view']),
        rule=ng_rules.transpose,
        form=('$input', 'perm', '$permutation'),
        loops_text='p@permutation -> p',
        doc='Dimension i of the result is dimension permutation[i] of the operand.',
        example='%r = ng.transpose %a perm [1, 0] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<3x4xf32, #ng.axes<C, N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def permutation(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "permutation")


class ReshapeOp(Op):
    """The same elements, in row-major order, in another shape."""

    __slots__ = ()
    name = "ng.reshape"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(stored)", "value", "stored")),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        traits=frozenset(['linear', 'moves', 'pure', 'stated', 'view']),
        rule=ng_rules.reshape,
        form=('$input',),
        doc='The same elements, in row-major order, in another shape.',
        example='%r = ng.reshape %a : (tensor<4x3xf32>) -> tensor<12xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class CastAxesOp(Op):
    """The same tensor with other axis names."""

    __slots__ = ()
    name = "ng.cast_axes"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        traits=frozenset(['linear', 'moves', 'pure', 'stated', 'view']),
        rule=ng_rules.cast_axes,
        form=('$input',),
        loops_text='p -> p',
        doc='The same tensor with other axis names.',
        example='%r = ng.cast_axes %a : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xf32, #ng.axes<N, K>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]


class SliceOp(Op):
    """Elements start, start + step, ... below limit of each dimension; with a negative step, above limit, which may be -1."""

    __slots__ = ()
    name = "ng.slice"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(stored)", "value", "stored")),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        attributes=(
            AttributeField("starts", "i64s", None, False),
            AttributeField("limits", "i64s", None, False),
            AttributeField("steps", "i64s", None, False),
        ),
        traits=frozenset(['linear', 'moves', 'pure']),
        rule=ng_rules.slice,
        form=('$input', 'from', '$starts', 'to', '$limits', 'step', '$steps'),
        loops_text='p -> p with p section starts=0 limits=size steps=1',
        doc='Elements start, start + step, ... below limit of each dimension; with a negative step, above limit, which may be -1.',
        example='%r = ng.slice %a from [0, 2] to [4, -1] step [2, -1] : (tensor<4x3xf32>) -> tensor<2x3xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def starts(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "starts")

    @property
    def limits(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "limits")

    @property
    def steps(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "steps")


class PadOp(Op):
    """Adds elements before and after each dimension, with the given value (default zero)."""

    __slots__ = ()
    name = "ng.pad"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("low", "i64s", None, False),
            AttributeField("high", "i64s", None, False),
            AttributeField("value", "number", None, True),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.pad,
        form=('$input', 'low', '$low', 'high', '$high'),
        loops_text='p -> p with p section low=0 high=0',
        doc='Adds elements before and after each dimension, with the given value (default zero).',
        example='%r = ng.pad %a low [1, 0] high [1, 2] : (tensor<4x3xf32>) -> tensor<6x5xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def low(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "low")

    @property
    def high(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "high")

    @property
    def value(self) -> Attribute | None:
        return fields.find_number(self, "value")


class BorderPadOp(Op):
    """Adds elements of the operand before and after each dimension: with `edge` the first and the last one again, with `reflect` those behind them in reverse order, with `symmetric` the same beginning with the last one itself, with `wrap` those of the other end. Each is there once: `reflect` adds fewer elements on each side than there are, `symmetric` and `wrap` at most as many."""

    __slots__ = ()
    name = "ng.border_pad"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("low", "i64s", None, False),
            AttributeField("high", "i64s", None, False),
            AttributeField("border", "enum(edge|reflect|symmetric|wrap)", None, False),
        ),
        traits=frozenset(['linear', 'moves', 'pure']),
        rule=ng_rules.border_pad,
        form=('$input', 'low', '$low', 'high', '$high'),
        loops_text='p -> p with p section low=0 high=0',
        doc='Adds elements of the operand before and after each dimension: with `edge` the first and the last one again, with `reflect` those behind them in reverse order, with `symmetric` the same beginning with the last one itself, with `wrap` those of the other end. Each is there once: `reflect` adds fewer elements on each side than there are, `symmetric` and `wrap` at most as many.',
        example='%r = ng.border_pad %a low [1, 0] high [2, 0] {border = "reflect"} : (tensor<4x3xf32>) -> tensor<7x3xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def low(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "low")

    @property
    def high(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "high")

    @property
    def border(self) -> Literal["edge", "reflect", "symmetric", "wrap"]:
        return fields.get_enum(self, "border")  # pyright: ignore


class ConcatenateOp(Op):
    """Concatenates tensors along one dimension."""

    __slots__ = ()
    name = "ng.concatenate"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("value(stored)", "value", "stored"), "", True),
        ),
        results=(
            Operand("result", Constraint("value(stored)", "value", "stored")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['linear', 'pure']),
        rule=ng_rules.concatenate,
        form=('$inputs', 'axis', '$axis'),
        loops_text='a@axis p... -> a@axis p with a joined',
        doc='Concatenates tensors along one dimension.',
        example='%r = ng.concatenate %a, %b axis 0 : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class StackOp(Op):
    """Stacks tensors of the same shape along a new dimension."""

    __slots__ = ()
    name = "ng.stack"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("tensor(stored)", "tensor", "stored"), "", True),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['pure', 'stated']),
        rule=ng_rules.stack,
        form=('$inputs', 'axis', '$axis'),
        loops_text='p... -> a@axis p with a joined',
        doc='Stacks tensors of the same shape along a new dimension.',
        example='%r = ng.stack %a, %b axis 0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class WindowsOp(Op):
    """Sliding windows along some dimensions. The first dimensions of the result are the positions in the window, one for each axis; the others are those of the operand, with the number of windows as length: element (t, p) along an axis is element p * step + t * dilation. Windows are inside the operand; elements after the last window are not used."""

    __slots__ = ()
    name = "ng.windows"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
            AttributeField("steps", "i64s", None, False),
            AttributeField("dilations", "i64s", None, False),
        ),
        traits=frozenset(['moves', 'pure', 'stated']),
        rule=ng_rules.windows,
        form=('$input', 'axes', '$axes', 'steps', '$steps', 'dilations', '$dilations'),
        loops_text='w@axes p -> t[axes] w@axes p with w window, t window',
        doc='Sliding windows along some dimensions. The first dimensions of the result are the positions in the window, one for each axis; the others are those of the operand, with the number of windows as length: element (t, p) along an axis is element p * step + t * dilation. Windows are inside the operand; elements after the last window are not used.',
        example='%r = ng.windows %a axes [1] steps [2] dilations [1] : (tensor<2x9x3xf32, #ng.axes<N, W, C>>) -> tensor<3x2x4x3xf32, #ng.axes<S, N, W, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")

    @property
    def steps(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "steps")

    @property
    def dilations(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "dilations")


class OverlapAddOp(Op):
    """The sum of overlapping windows, each at the place from which `windows` with the same attributes takes it; 0 where there is none. Axes are dimensions of the result. f16 and bf16 are summed in f32 and rounded once."""

    __slots__ = ()
    name = "ng.overlap_add"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric"), domain=Domain(-4.0, 4.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
            AttributeField("steps", "i64s", None, False),
            AttributeField("dilations", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'stated']),
        rule=ng_rules.overlap_add,
        form=('$input', 'axes', '$axes', 'steps', '$steps', 'dilations', '$dilations'),
        loops_text='t[axes] w@axes p -> w@axes p with w window, t window',
        doc='The sum of overlapping windows, each at the place from which `windows` with the same attributes takes it; 0 where there is none. Axes are dimensions of the result. f16 and bf16 are summed in f32 and rounded once.',
        example='%r = ng.overlap_add %a axes [1] steps [2] dilations [1] : (tensor<3x2x4x3xf32, #ng.axes<S, N, W, C>>) -> tensor<2x9x3xf32, #ng.axes<N, W, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")

    @property
    def steps(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "steps")

    @property
    def dilations(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "dilations")


class GatherOp(Op):
    """Slices of the operand by index along an axis; the dimensions of the indices replace the axis. A negative index counts from the end; indices are then clamped to the axis."""

    __slots__ = ()
    name = "ng.gather"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
            Operand("indices", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['gathers', 'pure']),
        rule=ng_rules.gather,
        form=('$input', '[', '$indices', ']', 'axis', '$axis'),
        loops_text='a@axis p, i -> i^axis p with a indexed',
        doc='Slices of the operand by index along an axis; the dimensions of the indices replace the axis. A negative index counts from the end; indices are then clamped to the axis.',
        example='%r = ng.gather %a[%i] axis 0 : (tensor<10x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class GatherElementsOp(Op):
    """One element for each index: at the index along the axis, at the same position in the other dimensions. Indices as in gather."""

    __slots__ = ()
    name = "ng.gather_elements"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
            Operand("indices", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['gathers', 'pure']),
        rule=ng_rules.gather_elements,
        form=('$input', '[', '$indices', ']', 'axis', '$axis'),
        loops_text='a@axis p, i@axis p -> i@axis p with a indexed',
        doc='One element for each index: at the index along the axis, at the same position in the other dimensions. Indices as in gather.',
        example='%r = ng.gather_elements %a[%i] axis 1 : (tensor<4x3xf32>, tensor<4x2xi32>) -> tensor<4x2xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class ScatterOp(Op):
    """The operand with slices combined with updates at indices along an axis, in row-major order of the indices (so repeated indices accumulate, or the last one wins). A negative index counts from the end; one out of range is ignored. With `ascending` the indices are known to be sorted and not negative."""

    __slots__ = ()
    name = "ng.scatter"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(element)", "tensor", "element"), "T"),
            Operand("indices", Constraint("tensor(integer)", "tensor", "integer")),
            Operand("updates", Constraint("tensor(element)", "tensor", "element")),
        ),
        results=(
            Operand("result", Constraint("tensor(element)", "tensor", "element"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("combine", "enum(set|add|max|min)", fields.default("enum(set|add|max|min)", 'set'), False),
            AttributeField("ascending", "unit", None, True),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.scatter,
        form=('$input', '[', '$indices', ']', ',', '$updates', 'axis', '$axis'),
        loops_text='a@axis p, i, i^axis p -> a@axis p with a indexed, i sequential',
        doc='The operand with slices combined with updates at indices along an axis, in row-major order of the indices (so repeated indices accumulate, or the last one wins). A negative index counts from the end; one out of range is ignored. With `ascending` the indices are known to be sorted and not negative.',
        example='%r = ng.scatter %a[%i], %u axis 0 {combine = "add"} : (tensor<10x3xf32>, tensor<4xi32>, tensor<4x3xf32>) -> tensor<10x3xf32>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> Value:
        return self.operands[1]

    @property
    def updates(self) -> Value:
        return self.operands[2]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def combine(self) -> Literal["set", "add", "max", "min"]:
        return fields.get_enum(self, "combine")  # pyright: ignore

    @property
    def ascending(self) -> bool | None:
        return fields.find_unit(self, "ascending")


class OneHotOp(Op):
    """A new axis with 1 at the index and 0 elsewhere; all 0 for an index out of range."""

    __slots__ = ()
    name = "ng.one_hot"
    definition = OpDefinition(
        name,
        operands=(
            Operand("indices", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("tensor(element)", "tensor", "element")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'stated']),
        rule=ng_rules.one_hot,
        form=('$indices', 'axis', '$axis'),
        loops_text='p -> a@axis p with a indexed',
        doc='A new axis with 1 at the index and 0 elsewhere; all 0 for an index out of range.',
        example='%r = ng.one_hot %i axis 1 : (tensor<4xi32, #ng.axes<N>>) -> tensor<4x10xf32, #ng.axes<N, Y>>',
    )

    @property
    def indices(self) -> Value:
        return self.operands[0]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class ArgsortOp(Op):
    """The positions along an axis that sort it in ascending order, or with `descending` in descending order. The order is stable; -0.0 and 0.0 are equal. NaN is greater than every number. A result that is shorter along the axis has only the first of these positions. Its type must be able to hold every position. With `runs`, each run of that many elements along the axis is known to be sorted."""

    __slots__ = ()
    name = "ng.argsort"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        results=(
            Operand("result", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("descending", "bool", fields.default("bool", 'false'), False),
            AttributeField("runs", "i64", None, True),
        ),
        traits=frozenset(['flat', 'pure', 'stated']),
        rule=ng_rules.argsort,
        form=('$input', 'axis', '$axis'),
        loops_text='s@axis p -> s@axis p with s sequential',
        doc='The positions along an axis that sort it in ascending order, or with `descending` in descending order. The order is stable; -0.0 and 0.0 are equal. NaN is greater than every number. A result that is shorter along the axis has only the first of these positions. Its type must be able to hold every position. With `runs`, each run of that many elements along the axis is known to be sorted.',
        example='%r = ng.argsort %a axis 1 : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4x3xi32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def descending(self) -> bool:
        return fields.get_bool(self, "descending")

    @property
    def runs(self) -> int | None:
        return fields.find_i64(self, "runs")


class LookupOp(Op):
    """An embedding: gather, whose gradient does not change row `pad` of the table."""

    __slots__ = ()
    name = "ng.lookup"
    definition = OpDefinition(
        name,
        operands=(
            Operand("table", Constraint("tensor(stored)", "tensor", "stored")),
            Operand("indices", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("axis", "i64", fields.default("i64", '0'), False),
            AttributeField("pad", "i64", None, True),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.gather,
        form=('$table', '[', '$indices', ']'),
        loops_text='a@axis p, i -> i^axis p with a indexed',
        doc='An embedding: gather, whose gradient does not change row `pad` of the table.',
        example='%r = ng.lookup %a[%i] : (tensor<10x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>',
    )

    @property
    def table(self) -> Value:
        return self.operands[0]

    @property
    def indices(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def pad(self) -> int | None:
        return fields.find_i64(self, "pad")


class SumOp(Op):
    """The sum over some dimensions; 0 for no elements. f16 and bf16 are summed in f32. The order is fixed, so the bits are the same on every run and thread count."""

    __slots__ = ()
    name = "ng.sum"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), domain=Domain(-4.0, 4.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['linear', 'pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='The sum over some dimensions; 0 for no elements. f16 and bf16 are summed in f32. The order is fixed, so the bits are the same on every run and thread count.',
        example='%r = ng.sum %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class ProductOp(Op):
    """The product over some dimensions; 1 for no elements."""

    __slots__ = ()
    name = "ng.product"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), domain=Domain(-2.0, 2.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='The product over some dimensions; 1 for no elements.',
        example='%r = ng.product %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class MaxOp(Op):
    """The maximum over some dimensions; NaN if any element is NaN; -inf or the smallest integer for no elements."""

    __slots__ = ()
    name = "ng.max"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric")),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='The maximum over some dimensions; NaN if any element is NaN; -inf or the smallest integer for no elements.',
        example='%r = ng.max %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class FirstMaxOp(Op):
    """The maximum, as ng.max; but its gradient goes only to the first of the elements that are the maximum (in row-major order over the axes)."""

    __slots__ = ()
    name = "ng.first_max"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        results=(
            Operand("result", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        loops_text='r@axes p -> p with r reduction',
        doc='The maximum, as ng.max; but its gradient goes only to the first of the elements that are the maximum (in row-major order over the axes).',
        example='%r = ng.first_max %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class MinOp(Op):
    """The minimum over some dimensions; NaN if any element is NaN; +inf or the largest integer for no elements."""

    __slots__ = ()
    name = "ng.min"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric")),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='The minimum over some dimensions; NaN if any element is NaN; +inf or the largest integer for no elements.',
        example='%r = ng.min %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class MeanOp(Op):
    """The mean over some dimensions: the sum divided by the number of elements. f16 and bf16 are computed in f32 and rounded once."""

    __slots__ = ()
    name = "ng.mean"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(float)", "value", "float"), domain=Domain(-4.0, 4.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("value(float)", "value", "float")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='The mean over some dimensions: the sum divided by the number of elements. f16 and bf16 are computed in f32 and rounded once.',
        example='%r = ng.mean %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class AnyOp(Op):
    """true if any element is true."""

    __slots__ = ()
    name = "ng.any"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(bool)", "value", "bool")),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='true if any element is true.',
        example='%r = ng.any %a axes [1] : (tensor<4x3xi1>) -> tensor<4xi1>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class AllOp(Op):
    """true if all elements are true."""

    __slots__ = ()
    name = "ng.all"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(bool)", "value", "bool")),
        ),
        results=(
            Operand("result", Constraint("value(bool)", "value", "bool")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'reduction']),
        rule=ng_rules.reduce,
        form=('$input', 'axes', '$axes'),
        doc='true if all elements are true.',
        example='%r = ng.all %a axes [1] : (tensor<4x3xi1>) -> tensor<4xi1>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class ArgmaxOp(Op):
    """The position of the first maximum, in row-major order over the axes; the first NaN, if there is one. The result type must be able to hold every position."""

    __slots__ = ()
    name = "ng.argmax"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        results=(
            Operand("result", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'reduction', 'stated']),
        rule=ng_rules.arg_reduce,
        form=('$input', 'axes', '$axes'),
        loops_text='s@axes p -> p with s sequential',
        doc='The position of the first maximum, in row-major order over the axes; the first NaN, if there is one. The result type must be able to hold every position.',
        example='%r = ng.argmax %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xi32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class ArgminOp(Op):
    """The position of the first minimum, in row-major order over the axes; the first NaN, if there is one. The result type must be able to hold every position."""

    __slots__ = ()
    name = "ng.argmin"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        results=(
            Operand("result", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['flat', 'pure', 'reduction', 'stated']),
        rule=ng_rules.arg_reduce,
        form=('$input', 'axes', '$axes'),
        loops_text='s@axes p -> p with s sequential',
        doc='The position of the first minimum, in row-major order over the axes; the first NaN, if there is one. The result type must be able to hold every position.',
        example='%r = ng.argmin %a axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xi32, #ng.axes<N>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class CumulativeSumOp(Op):
    """The sum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""

    __slots__ = ()
    name = "ng.cumulative_sum"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(-4.0, 4.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
            AttributeField("exclusive", "bool", fields.default("bool", 'false'), False),
        ),
        traits=frozenset(['cumulative', 'pure']),
        rule=ng_rules.cumulative,
        form=('$input', 'axis', '$axis'),
        doc='The sum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself.',
        example='%r = ng.cumulative_sum %a axis 1 : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def exclusive(self) -> bool:
        return fields.get_bool(self, "exclusive")


class CumulativeProductOp(Op):
    """The product of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""

    __slots__ = ()
    name = "ng.cumulative_product"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), "T", domain=Domain(-2.0, 2.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
            AttributeField("exclusive", "bool", fields.default("bool", 'false'), False),
        ),
        traits=frozenset(['cumulative', 'pure']),
        rule=ng_rules.cumulative,
        form=('$input', 'axis', '$axis'),
        doc='The product of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself.',
        example='%r = ng.cumulative_product %a axis 1 : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def exclusive(self) -> bool:
        return fields.get_bool(self, "exclusive")


class CumulativeMaxOp(Op):
    """The maximum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""

    __slots__ = ()
    name = "ng.cumulative_max"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
            AttributeField("exclusive", "bool", fields.default("bool", 'false'), False),
        ),
        traits=frozenset(['cumulative', 'pure']),
        rule=ng_rules.cumulative,
        form=('$input', 'axis', '$axis'),
        doc='The maximum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself.',
        example='%r = ng.cumulative_max %a axis 1 : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def exclusive(self) -> bool:
        return fields.get_bool(self, "exclusive")


class CumulativeMinOp(Op):
    """The minimum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""

    __slots__ = ()
    name = "ng.cumulative_min"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        results=(
            Operand("result", Constraint("value(numeric)", "value", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
            AttributeField("exclusive", "bool", fields.default("bool", 'false'), False),
        ),
        traits=frozenset(['cumulative', 'pure']),
        rule=ng_rules.cumulative,
        form=('$input', 'axis', '$axis'),
        doc='The minimum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself.',
        example='%r = ng.cumulative_min %a axis 1 : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def exclusive(self) -> bool:
        return fields.get_bool(self, "exclusive")


class CumulativeRunsOp(Op):
    """The cumulative op with this combination, applied to each run of that many elements along an axis (the last may be shorter), starting from the element of `before` for that run. Sums and products of f16 and bf16 are computed in f32, the element type of `before`."""

    __slots__ = ()
    name = "ng.cumulative_runs"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric"), "T", domain=Domain(-2.0, 2.0, False, False)),
            Operand("before", Constraint("tensor(numeric)", "tensor", "numeric"), domain=Domain(-2.0, 2.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("tensor(numeric)", "tensor", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("run", "i64", None, False),
            AttributeField("combine", "enum(sum|product|max|min)", fields.default("enum(sum|product|max|min)", 'sum'), False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
            AttributeField("exclusive", "bool", fields.default("bool", 'false'), False),
        ),
        traits=frozenset(['pure', 'stops']),
        rule=ng_rules.cumulative_runs,
        form=('$input', 'from', '$before', 'axis', '$axis', 'run', '$run'),
        loops_text='s@axis p, t@axis p -> s@axis p with s sequential, t sequential',
        doc='The cumulative op with this combination, applied to each run of that many elements along an axis (the last may be shorter), starting from the element of `before` for that run. Sums and products of f16 and bf16 are computed in f32, the element type of `before`.',
        example='%r = ng.cumulative_runs %a from %b axis 1 run 2 : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x2xf32, #ng.axes<N, R>>) -> tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def before(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def run(self) -> int:
        return fields.get_i64(self, "run")

    @property
    def combine(self) -> Literal["sum", "product", "max", "min"]:
        return fields.get_enum(self, "combine")  # pyright: ignore

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def exclusive(self) -> bool:
        return fields.get_bool(self, "exclusive")


class SegmentReduceOp(Op):
    """One row for each segment along an axis: segment s is the rows from offsets[s] to offsets[s + 1]. Offsets begin with 0, never fall, and end with the number of rows; of others the result is unspecified. A segment without rows gives what ng.sum, ng.product, ng.max and ng.min give for no elements; `first` and `last` give 0. Sums and products of f16 and bf16 are computed in f32."""

    __slots__ = ()
    name = "ng.segment_reduce"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric"), domain=Domain(-2.0, 2.0, False, False)),
            Operand("offsets", Constraint("tensor(integer)", "tensor", "integer"), domain=Domain(0.0, 4.0, False, True)),
        ),
        results=(
            Operand("result", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("combine", "enum(sum|product|max|min|first|last)", fields.default("enum(sum|product|max|min|first|last)", 'sum'), False),
        ),
        traits=frozenset(['pure', 'stated']),
        rule=ng_rules.segment_reduce,
        form=('$input', 'by', '$offsets', 'axis', '$axis'),
        loops_text='t@axis p, o -> s@axis p with t indexed, o indexed, s indexed',
        doc='One row for each segment along an axis: segment s is the rows from offsets[s] to offsets[s + 1]. Offsets begin with 0, never fall, and end with the number of rows; of others the result is unspecified. A segment without rows gives what ng.sum, ng.product, ng.max and ng.min give for no elements; `first` and `last` give 0. Sums and products of f16 and bf16 are computed in f32.',
        example='%r = ng.segment_reduce %a by %o axis 0 : (tensor<4x3xf32, #ng.axes<T, C>>, tensor<4xi32>) -> tensor<3x3xf32, #ng.axes<S, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def offsets(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def combine(self) -> Literal["sum", "product", "max", "min", "first", "last"]:
        return fields.get_enum(self, "combine")  # pyright: ignore


class SegmentCumulativeOp(Op):
    """The cumulative op with this combination, applied to each segment along an axis. Segments as in segment_reduce."""

    __slots__ = ()
    name = "ng.segment_cumulative"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(numeric)", "tensor", "numeric"), "T", domain=Domain(-2.0, 2.0, False, False)),
            Operand("offsets", Constraint("tensor(integer)", "tensor", "integer"), domain=Domain(0.0, 4.0, False, True)),
        ),
        results=(
            Operand("result", Constraint("tensor(numeric)", "tensor", "numeric"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
            AttributeField("combine", "enum(sum|product|max|min)", fields.default("enum(sum|product|max|min)", 'sum'), False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
            AttributeField("exclusive", "bool", fields.default("bool", 'false'), False),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.segment_cumulative,
        form=('$input', 'by', '$offsets', 'axis', '$axis'),
        loops_text='t@axis p, o -> t@axis p with t sequential, o indexed',
        doc='The cumulative op with this combination, applied to each segment along an axis. Segments as in segment_reduce.',
        example='%r = ng.segment_cumulative %a by %o axis 0 : (tensor<4x3xf32, #ng.axes<T, C>>, tensor<4xi32>) -> tensor<4x3xf32, #ng.axes<T, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def offsets(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")

    @property
    def combine(self) -> Literal["sum", "product", "max", "min"]:
        return fields.get_enum(self, "combine")  # pyright: ignore

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def exclusive(self) -> bool:
        return fields.get_bool(self, "exclusive")


class SegmentExpandOp(Op):
    """Row s along an axis for each row of segment s. Segments as in segment_reduce."""

    __slots__ = ()
    name = "ng.segment_expand"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(stored)", "tensor", "stored")),
            Operand("offsets", Constraint("tensor(integer)", "tensor", "integer"), domain=Domain(0.0, 4.0, False, True)),
        ),
        results=(
            Operand("result", Constraint("tensor(stored)", "tensor", "stored")),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['pure', 'stated']),
        rule=ng_rules.segment_expand,
        form=('$input', 'by', '$offsets', 'axis', '$axis'),
        loops_text='s@axis p, o -> t@axis p with s indexed, o indexed, t indexed',
        doc='Row s along an axis for each row of segment s. Segments as in segment_reduce.',
        example='%r = ng.segment_expand %a by %o axis 0 : (tensor<3x3xf32, #ng.axes<S, C>>, tensor<4xi32>) -> tensor<4x3xf32, #ng.axes<T, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def offsets(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class SegmentSoftmaxOp(Op):
    """Softmax along each segment of an axis, as ng.softmax. Segments as in segment_reduce."""

    __slots__ = ()
    name = "ng.segment_softmax"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(float)", "tensor", "float"), "T"),
            Operand("offsets", Constraint("tensor(integer)", "tensor", "integer"), domain=Domain(0.0, 4.0, False, True)),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        attributes=(
            AttributeField("axis", "i64", None, False),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.segment_cumulative,
        form=('$input', 'by', '$offsets', 'axis', '$axis'),
        loops_text='t@axis p, o -> t@axis p with t sequential, o indexed',
        doc='Softmax along each segment of an axis, as ng.softmax. Segments as in segment_reduce.',
        example='%r = ng.segment_softmax %a by %o axis 0 : (tensor<4x3xf32, #ng.axes<T, C>>, tensor<4xi32>) -> tensor<4x3xf32, #ng.axes<T, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def offsets(self) -> Value:
        return self.operands[1]

    @property
    def axis(self) -> int:
        return fields.get_i64(self, "axis")


class DotOp(Op):
    """Multiplies and sums over the contracted dimensions, for each position of the batch dimensions. Result: batch, rest of lhs, rest of rhs. f16 and bf16 are summed in f32. If the result has wider elements (i32 for i8, f32 for bf16), the operands are cast to it first."""

    __slots__ = ()
    name = "ng.dot"
    definition = OpDefinition(
        name,
        operands=(
            Operand("lhs", Constraint("tensor(numeric)", "tensor", "numeric"), domain=Domain(-4.0, 4.0, False, False)),
            Operand("rhs", Constraint("tensor(numeric)", "tensor", "numeric"), domain=Domain(-4.0, 4.0, False, False)),
        ),
        results=(
            Operand("result", Constraint("tensor(numeric)", "tensor", "numeric")),
        ),
        attributes=(
            AttributeField("lhs_contract", "i64s", None, False),
            AttributeField("rhs_contract", "i64s", None, False),
            AttributeField("lhs_batch", "i64s", fields.default("i64s", '[]'), False),
            AttributeField("rhs_batch", "i64s", fields.default("i64s", '[]'), False),
        ),
        traits=frozenset(['bilinear', 'pure', 'widening']),
        rule=ng_rules.dot,
        form=('$lhs', ',', '$rhs', 'contract', '$lhs_contract', 'x', '$rhs_contract'),
        loops_text='b@lhs_batch k@lhs_contract m, b@rhs_batch k@rhs_contract n -> b m n with k reduction',
        doc='Multiplies and sums over the contracted dimensions, for each position of the batch dimensions. Result: batch, rest of lhs, rest of rhs. f16 and bf16 are summed in f32. If the result has wider elements (i32 for i8, f32 for bf16), the operands are cast to it first.',
        example='%r = ng.dot %a, %b contract [1] x [0] : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<3x2xf32, #ng.axes<C, K>>) -> tensor<4x2xf32, #ng.axes<N, K>>',
    )

    @property
    def lhs(self) -> Value:
        return self.operands[0]

    @property
    def rhs(self) -> Value:
        return self.operands[1]

    @property
    def lhs_contract(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "lhs_contract")

    @property
    def rhs_contract(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "rhs_contract")

    @property
    def lhs_batch(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "lhs_batch")

    @property
    def rhs_batch(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "rhs_batch")


class RandomBitsOp(Op):
    """Philox 4x32-10 (Salmon et al. 2011): element i is word i % 4 of block i / 4. The block number fills counter words 0 (low half) and 1 (high half), the stream key[1] words 2 and 3 likewise, the seed key[0] both key words. The same key gives the same bits on every target."""

    __slots__ = ()
    name = "ng.random_bits"
    definition = OpDefinition(
        name,
        operands=(
            Operand("key", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("value(integer)", "value", "integer")),
        ),
        traits=frozenset(['pure', 'stated', 'stops']),
        rule=ng_rules.random_bits,
        form=('$key',),
        doc='Philox 4x32-10 (Salmon et al. 2011): element i is word i % 4 of block i / 4. The block number fills counter words 0 (low half) and 1 (high half), the stream key[1] words 2 and 3 likewise, the seed key[0] both key words. The same key gives the same bits on every target.',
        example='%r = ng.random_bits %k : (tensor<2xui64>) -> tensor<4x3xui32, #ng.axes<N, C>>',
    )

    @property
    def key(self) -> Value:
        return self.operands[0]


class RandomUniformOp(Op):
    """Uniform in [0, 1): the upper n bits of random_bits times 2^-n, where n is 24 for f32, 32 for f64, 11 for f16 and 8 for bf16."""

    __slots__ = ()
    name = "ng.random_uniform"
    definition = OpDefinition(
        name,
        operands=(
            Operand("key", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float")),
        ),
        traits=frozenset(['pure', 'stated', 'stops']),
        rule=ng_rules.random,
        form=('$key',),
        doc='Uniform in [0, 1): the upper n bits of random_bits times 2^-n, where n is 24 for f32, 32 for f64, 11 for f16 and 8 for bf16.',
        example='%r = ng.random_uniform %k : (tensor<2xui64>) -> tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def key(self) -> Value:
        return self.operands[0]


class RandomNormalOp(Op):
    """Normal with mean 0 and standard deviation 1, by the Box-Muller transform: sqrt(-2 log(u + 2^-n)) cos(2 pi v), where u and v are uniform numbers of n bits from words 2i and 2i + 1 of the stream. f16 and bf16 are computed in f32 and rounded once."""

    __slots__ = ()
    name = "ng.random_normal"
    definition = OpDefinition(
        name,
        operands=(
            Operand("key", Constraint("tensor(integer)", "tensor", "integer")),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float")),
        ),
        traits=frozenset(['pure', 'stated', 'stops']),
        rule=ng_rules.random,
        form=('$key',),
        doc='Normal with mean 0 and standard deviation 1, by the Box-Muller transform: sqrt(-2 log(u + 2^-n)) cos(2 pi v), where u and v are uniform numbers of n bits from words 2i and 2i + 1 of the stream. f16 and bf16 are computed in f32 and rounded once.',
        example='%r = ng.random_normal %k : (tensor<2xui64>) -> tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def key(self) -> Value:
        return self.operands[0]


class SoftmaxOp(Op):
    """Softmax along the axes: exp(x - max) divided by its sum. f16 and bf16 are computed in f32 and rounded once. NaN if the maximum is infinite."""

    __slots__ = ()
    name = "ng.softmax"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'row']),
        rule=ng_rules.along,
        form=('$input', 'axes', '$axes'),
        doc='Softmax along the axes: exp(x - max) divided by its sum. f16 and bf16 are computed in f32 and rounded once. NaN if the maximum is infinite.',
        example='%r = ng.softmax %a axes [1] : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class LogSoftmaxOp(Op):
    """x - max - log(sum(exp(x - max))) along the axes. f16 and bf16 are computed in f32 and rounded once."""

    __slots__ = ()
    name = "ng.log_softmax"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure', 'row']),
        rule=ng_rules.along,
        form=('$input', 'axes', '$axes'),
        doc='x - max - log(sum(exp(x - max))) along the axes. f16 and bf16 are computed in f32 and rounded once.',
        example='%r = ng.log_softmax %a axes [1] : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class NormalizeOp(Op):
    """(x - mean) / sqrt(variance + epsilon), with mean and variance along the axes; the variance is the mean squared difference from the mean. f16 and bf16 are computed in f32 and rounded once."""

    __slots__ = ()
    name = "ng.normalize"
    definition = OpDefinition(
        name,
        operands=(
            Operand("input", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float"), "T"),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
            AttributeField("epsilon", "number", None, False),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.normalize,
        form=('$input', 'axes', '$axes'),
        loops_text='s@axes p -> s@axes p with s sequential',
        doc='(x - mean) / sqrt(variance + epsilon), with mean and variance along the axes; the variance is the mean squared difference from the mean. f16 and bf16 are computed in f32 and rounded once.',
        example='%r = ng.normalize %a axes [1] {epsilon = 0.001 : f32} : tensor<4x3xf32, #ng.axes<N, C>>',
    )

    @property
    def input(self) -> Value:
        return self.operands[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")

    @property
    def epsilon(self) -> Attribute:
        return fields.get_number(self, "epsilon")


class CrossEntropyOp(Op):
    """-sum(targets * log_softmax(logits)) along the axes; a target of zero contributes 0, whatever its logit. f16 and bf16 are computed in f32 and rounded once."""

    __slots__ = ()
    name = "ng.cross_entropy"
    definition = OpDefinition(
        name,
        operands=(
            Operand("logits", Constraint("tensor(float)", "tensor", "float"), "T"),
            Operand("targets", Constraint("tensor(float)", "tensor", "float"), "T", domain=Domain(0.0, 1.0, True, False)),
        ),
        results=(
            Operand("result", Constraint("tensor(float)", "tensor", "float")),
        ),
        attributes=(
            AttributeField("axes", "i64s", None, False),
        ),
        traits=frozenset(['pure']),
        rule=ng_rules.cross_entropy,
        form=('$logits', ',', '$targets', 'axes', '$axes'),
        loops_text='r@axes p, r@axes p -> p with r reduction',
        doc='-sum(targets * log_softmax(logits)) along the axes; a target of zero contributes 0, whatever its logit. f16 and bf16 are computed in f32 and rounded once.',
        example='%r = ng.cross_entropy %a, %t axes [1] : (tensor<4x3xf32, #ng.axes<N, C>>, tensor<4x3xf32, #ng.axes<N, C>>) -> tensor<4xf32, #ng.axes<N>>',
    )

    @property
    def logits(self) -> Value:
        return self.operands[0]

    @property
    def targets(self) -> Value:
        return self.operands[1]

    @property
    def axes(self) -> tuple[int, ...]:
        return fields.get_i64s(self, "axes")


class IfOp(Op):
    """The results of the first region if the condition is true, otherwise those of the second; only one runs."""

    __slots__ = ()
    name = "ng.if"
    definition = OpDefinition(
        name,
        operands=(
            Operand("condition", Constraint("value(bool)", "value", "bool")),
        ),
        results=(
            Operand("results", Constraint("any", "any", ""), "", True),
        ),
        regions=('then', 'else'),
        traits=frozenset(['control', 'optional', 'stated']),
        rule=ng_rules.if_else,
        form=('$condition', 'attr-dict', '{', '->', 'type($results)', '}'),
        doc='The results of the first region if the condition is true, otherwise those of the second; only one runs.',
        given='%c: tensor<i1>, %a: tensor<4xf32>, %b: tensor<4xf32>',
        example='%r = ng.if %c -> tensor<4xf32> {\n  ng.yield %a : tensor<4xf32>\n} else {\n  ng.yield %b : tensor<4xf32>\n}',
    )

    @property
    def condition(self) -> Value:
        return self.operands[0]

    @property
    def then(self) -> Region:
        return self.regions[0]

    @property
    def else_(self) -> Region:
        return self.regions[1]


class WhileOp(Op):
    """Repeats the second region on its own results while the condition, computed from them, is true."""

    __slots__ = ()
    name = "ng.while"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inits", Constraint("any", "any", ""), "", True),
        ),
        results=(
            Operand("results", Constraint("any", "any", ""), "", True),
        ),
        regions=('condition', 'do'),
        traits=frozenset(['control', 'stated']),
        rule=ng_rules.while_loop,
        form=('{', 'iter', '(', '%carried=$inits', ')', '}', 'attr-dict', '{', '->', 'type($results)', '}'),
        doc='Repeats the second region on its own results while the condition, computed from them, is true.',
        given='%a: tensor<f32>, %b: tensor<f32>',
        example='%r = ng.while iter(%x = %a) -> tensor<f32> {\n  %c = ng.less %x, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n  ng.yield %c : tensor<i1>\n} do {\n  %y = ng.add %x, %x : tensor<f32>\n  ng.yield %y : tensor<f32>\n}',
    )

    @property
    def inits(self) -> tuple[Value, ...]:
        return self.operands[0:]

    @property
    def condition(self) -> Region:
        return self.regions[0]

    @property
    def do(self) -> Region:
        return self.regions[1]


class ScanOp(Op):
    """Runs the body once per slice along dimension 0 of `slices`; `inits` are the initial `carried` values, which each step passes to the next. Results: the last carried values, then the other results of all steps, stacked. `reverse` runs from the last slice to the first; results stay at the positions of their slices."""

    __slots__ = ()
    name = "ng.scan"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inits", Constraint("any", "any", ""), "", True, counted="carried"),
            Operand("slices", Constraint("any", "any", ""), "", True),
        ),
        results=(
            Operand("results", Constraint("any", "any", ""), "", True),
        ),
        attributes=(
            AttributeField("carried", "i64", None, False),
            AttributeField("reverse", "bool", fields.default("bool", 'false'), False),
        ),
        regions=('body',),
        traits=frozenset(['control', 'stated']),
        rule=ng_rules.scan,
        form=('{', 'iter', '(', '%carried=$inits', ')', '}', 'over', '(', '%slice:=$slices', ')', 'attr-dict', '{', '->', 'type($results)', '}'),
        doc='Runs the body once per slice along dimension 0 of `slices`; `inits` are the initial `carried` values, which each step passes to the next. Results: the last carried values, then the other results of all steps, stacked. `reverse` runs from the last slice to the first; results stay at the positions of their slices.',
        given='%a: tensor<3xf32>, %b: tensor<5x3xf32>',
        example='%s, %ys = ng.scan iter(%h = %a) over(%x: tensor<3xf32> = %b) -> (tensor<3xf32>, tensor<5x3xf32>) {\n  %n = ng.add %h, %x : tensor<3xf32>\n  ng.yield %n, %n : tensor<3xf32>, tensor<3xf32>\n}',
    )

    @property
    def inits(self) -> tuple[Value, ...]:
        return fields.group(self, "inits")

    @property
    def slices(self) -> tuple[Value, ...]:
        return fields.group(self, "slices")

    @property
    def carried(self) -> int:
        return fields.get_i64(self, "carried")

    @property
    def reverse(self) -> bool:
        return fields.get_bool(self, "reverse")

    @property
    def body(self) -> Region:
        return self.regions[0]


class YieldOp(Op):
    """Ends a region with its results."""

    __slots__ = ()
    name = "ng.yield"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("any", "any", ""), "", True),
        ),
        results=(),
        traits=frozenset(['pure', 'terminator']),
        form=('$inputs',),
        doc='Ends a region with its results.',
        example='ng.yield %a : tensor<4xf32>',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]


class FusionOp(Op):
    """Ops that become one kernel. `kind` is the kind of loop nest."""

    __slots__ = ()
    name = "ng.fusion"
    definition = OpDefinition(
        name,
        operands=(
            Operand("inputs", Constraint("any", "any", ""), "", True),
        ),
        results=(
            Operand("results", Constraint("any", "any", ""), "", True),
        ),
        attributes=(
            AttributeField("kind", "str", None, False),
        ),
        regions=('body',),
        traits=frozenset(['isolated', 'stated']),
        rule=ng_rules.fusion,
        form=('$kind', '(', '%inputs=$inputs', ')', 'attr-dict', '{', '->', 'type($results)', '}'),
        doc='Ops that become one kernel. `kind` is the kind of loop nest.',
        given='%a: tensor<4xf32>, %b: tensor<4xf32>',
        example='%r = ng.fusion map(%x = %a, %y = %b) -> tensor<4xf32> {\n  %s = ng.add %x, %y : tensor<4xf32>\n  ng.yield %s : tensor<4xf32>\n}',
    )

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.operands[0:]

    @property
    def kind(self) -> str:
        return fields.get_str(self, "kind")

    @property
    def body(self) -> Region:
        return self.regions[0]


class RecomputeOp(Op):
    """Computes nothing. What is computed on the way from `sources` to `values`, these excepted, is not kept in memory from here on; what needs it later computes it again (pass `rematerialize`)."""

    __slots__ = ()
    name = "ng.recompute"
    definition = OpDefinition(
        name,
        operands=(
            Operand("values", Constraint("tensor(stored)", "tensor", "stored"), "", True, counted="given"),
            Operand("sources", Constraint("tensor(stored)", "tensor", "stored"), "", True),
        ),
        results=(),
        attributes=(
            AttributeField("given", "i64", None, False),
        ),
        traits=frozenset([]),
        form=('$values', 'from', '(', '$sources', ')', 'attr-dict'),
        doc='Computes nothing. What is computed on the way from `sources` to `values`, these excepted, is not kept in memory from here on; what needs it later computes it again (pass `rematerialize`).',
        given='%a: tensor<4xf32>, %b: tensor<4xf32>',
        example='ng.recompute %a from(%b)',
    )

    @property
    def values(self) -> tuple[Value, ...]:
        return fields.group(self, "values")

    @property
    def sources(self) -> tuple[Value, ...]:
        return fields.group(self, "sources")

    @property
    def given(self) -> int:
        return fields.get_i64(self, "given")


#: Op name -> class.
OPS: dict[str, type[Op]] = {
    "ng.constant": ConstantOp,
    "ng.iota": IotaOp,
    "ng.extent": ExtentOp,
    "ng.negative": NegativeOp,
    "ng.absolute": AbsoluteOp,
    "ng.sign": SignOp,
    "ng.square": SquareOp,
    "ng.reciprocal": ReciprocalOp,
    "ng.sqrt": SqrtOp,
    "ng.rsqrt": RsqrtOp,
    "ng.exp": ExpOp,
    "ng.exp2": Exp2Op,
    "ng.expm1": Expm1Op,
    "ng.log": LogOp,
    "ng.log2": Log2Op,
    "ng.log10": Log10Op,
    "ng.log1p": Log1pOp,
    "ng.sin": SinOp,
    "ng.cos": CosOp,
    "ng.tan": TanOp,
    "ng.asin": AsinOp,
    "ng.acos": AcosOp,
    "ng.atan": AtanOp,
    "ng.sinh": SinhOp,
    "ng.cosh": CoshOp,
    "ng.tanh": TanhOp,
    "ng.asinh": AsinhOp,
    "ng.acosh": AcoshOp,
    "ng.atanh": AtanhOp,
    "ng.sigmoid": SigmoidOp,
    "ng.softplus": SoftplusOp,
    "ng.erf": ErfOp,
    "ng.floor": FloorOp,
    "ng.ceil": CeilOp,
    "ng.round": RoundOp,
    "ng.trunc": TruncOp,
    "ng.bitwise_not": BitwiseNotOp,
    "ng.add": AddOp,
    "ng.subtract": SubtractOp,
    "ng.multiply": MultiplyOp,
    "ng.divide": DivideOp,
    "ng.floor_divide": FloorDivideOp,
    "ng.remainder": RemainderOp,
    "ng.power": PowerOp,
    "ng.maximum": MaximumOp,
    "ng.minimum": MinimumOp,
    "ng.atan2": Atan2Op,
    "ng.copysign": CopysignOp,
    "ng.bitwise_and": BitwiseAndOp,
    "ng.bitwise_or": BitwiseOrOp,
    "ng.bitwise_xor": BitwiseXorOp,
    "ng.shift_left": ShiftLeftOp,
    "ng.shift_right_logical": ShiftRightLogicalOp,
    "ng.shift_right_arithmetic": ShiftRightArithmeticOp,
    "ng.equal": EqualOp,
    "ng.not_equal": NotEqualOp,
    "ng.less": LessOp,
    "ng.less_equal": LessEqualOp,
    "ng.greater": GreaterOp,
    "ng.greater_equal": GreaterEqualOp,
    "ng.select": SelectOp,
    "ng.fma": FmaOp,
    "ng.cast": CastOp,
    "ng.bitcast": BitcastOp,
    "ng.broadcast": BroadcastOp,
    "ng.transpose": TransposeOp,
    "ng.reshape": ReshapeOp,
    "ng.cast_axes": CastAxesOp,
    "ng.slice": SliceOp,
    "ng.pad": PadOp,
    "ng.border_pad": BorderPadOp,
    "ng.concatenate": ConcatenateOp,
    "ng.stack": StackOp,
    "ng.windows": WindowsOp,
    "ng.overlap_add": OverlapAddOp,
    "ng.gather": GatherOp,
    "ng.gather_elements": GatherElementsOp,
    "ng.scatter": ScatterOp,
    "ng.one_hot": OneHotOp,
    "ng.argsort": ArgsortOp,
    "ng.lookup": LookupOp,
    "ng.sum": SumOp,
    "ng.product": ProductOp,
    "ng.max": MaxOp,
    "ng.first_max": FirstMaxOp,
    "ng.min": MinOp,
    "ng.mean": MeanOp,
    "ng.any": AnyOp,
    "ng.all": AllOp,
    "ng.argmax": ArgmaxOp,
    "ng.argmin": ArgminOp,
    "ng.cumulative_sum": CumulativeSumOp,
    "ng.cumulative_product": CumulativeProductOp,
    "ng.cumulative_max": CumulativeMaxOp,
    "ng.cumulative_min": CumulativeMinOp,
    "ng.cumulative_runs": CumulativeRunsOp,
    "ng.segment_reduce": SegmentReduceOp,
    "ng.segment_cumulative": SegmentCumulativeOp,
    "ng.segment_expand": SegmentExpandOp,
    "ng.segment_softmax": SegmentSoftmaxOp,
    "ng.dot": DotOp,
    "ng.random_bits": RandomBitsOp,
    "ng.random_uniform": RandomUniformOp,
    "ng.random_normal": RandomNormalOp,
    "ng.softmax": SoftmaxOp,
    "ng.log_softmax": LogSoftmaxOp,
    "ng.normalize": NormalizeOp,
    "ng.cross_entropy": CrossEntropyOp,
    "ng.if": IfOp,
    "ng.while": WhileOp,
    "ng.scan": ScanOp,
    "ng.yield": YieldOp,
    "ng.fusion": FusionOp,
    "ng.recompute": RecomputeOp,
}


class NgVerbs(fields.Verbs[V], Generic[V]):
    """One method per ng op. What `V` is (an IR value, a graph node, an array) is up to `build`."""

    def constant(self, *, type: Type, value: Attribute) -> V:
        """A number or an array that is known at compile time. The bits of floats are kept, also of -0.0 and NaN."""
        return self.build(ConstantOp, [], {"value": value}, types=[type])[0]

    def iota(self, *, type: Type, dimension: int) -> V:
        """The position of each element along one dimension."""
        return self.build(IotaOp, [], {"dimension": dimension}, types=[type])[0]

    def extent(self, *, type: Type, value: int) -> V:
        """A number that follows from lengths, in every element: `[4*N + 1]` in a program that is compiled for any length N."""
        return self.build(ExtentOp, [], {"value": value}, types=[type])[0]

    def negative(self, input: V) -> V:
        """The negative; integers wrap around."""
        return self.build(NegativeOp, [input], {})[0]

    def absolute(self, input: V) -> V:
        """The absolute value; the smallest signed integer is unchanged."""
        return self.build(AbsoluteOp, [input], {})[0]

    def sign(self, input: V) -> V:
        """-1, 0 or 1; -0.0 and NaN are unchanged."""
        return self.build(SignOp, [input], {})[0]

    def square(self, input: V) -> V:
        """The square."""
        return self.build(SquareOp, [input], {})[0]

    def reciprocal(self, input: V) -> V:
        """One divided by the operand."""
        return self.build(ReciprocalOp, [input], {})[0]

    def sqrt(self, input: V) -> V:
        """The square root, correctly rounded; NaN below zero; sqrt(-0.0) = -0.0."""
        return self.build(SqrtOp, [input], {})[0]

    def rsqrt(self, input: V) -> V:
        """One divided by the square root: reciprocal(sqrt(x)), two roundings."""
        return self.build(RsqrtOp, [input], {})[0]

    def exp(self, input: V) -> V:
        """e to the power of the operand."""
        return self.build(ExpOp, [input], {})[0]

    def exp2(self, input: V) -> V:
        """2 to the power of the operand."""
        return self.build(Exp2Op, [input], {})[0]

    def expm1(self, input: V) -> V:
        """exp(x) - 1 without cancellation near 0."""
        return self.build(Expm1Op, [input], {})[0]

    def log(self, input: V) -> V:
        """The natural logarithm; -inf at zero, NaN below zero."""
        return self.build(LogOp, [input], {})[0]

    def log2(self, input: V) -> V:
        """The logarithm to base 2."""
        return self.build(Log2Op, [input], {})[0]

    def log10(self, input: V) -> V:
        """The logarithm to base 10."""
        return self.build(Log10Op, [input], {})[0]

    def log1p(self, input: V) -> V:
        """log(1 + x) without cancellation near 0."""
        return self.build(Log1pOp, [input], {})[0]

    def sin(self, input: V) -> V:
        """The sine of an angle in radians; NaN at infinity."""
        return self.build(SinOp, [input], {})[0]

    def cos(self, input: V) -> V:
        """The cosine of an angle in radians; NaN at infinity."""
        return self.build(CosOp, [input], {})[0]

    def tan(self, input: V) -> V:
        """The tangent of an angle in radians; NaN at infinity."""
        return self.build(TanOp, [input], {})[0]

    def asin(self, input: V) -> V:
        """The arcsine; NaN outside [-1, 1]."""
        return self.build(AsinOp, [input], {})[0]

    def acos(self, input: V) -> V:
        """The arccosine; NaN outside [-1, 1]."""
        return self.build(AcosOp, [input], {})[0]

    def atan(self, input: V) -> V:
        """The arctangent."""
        return self.build(AtanOp, [input], {})[0]

    def sinh(self, input: V) -> V:
        """The hyperbolic sine."""
        return self.build(SinhOp, [input], {})[0]

    def cosh(self, input: V) -> V:
        """The hyperbolic cosine."""
        return self.build(CoshOp, [input], {})[0]

    def tanh(self, input: V) -> V:
        """The hyperbolic tangent."""
        return self.build(TanhOp, [input], {})[0]

    def asinh(self, input: V) -> V:
        """The inverse hyperbolic sine."""
        return self.build(AsinhOp, [input], {})[0]

    def acosh(self, input: V) -> V:
        """The inverse hyperbolic cosine; NaN below 1."""
        return self.build(AcoshOp, [input], {})[0]

    def atanh(self, input: V) -> V:
        """The inverse hyperbolic tangent; NaN outside [-1, 1]."""
        return self.build(AtanhOp, [input], {})[0]

    def sigmoid(self, input: V) -> V:
        """The logistic function 1 / (1 + exp(-x))."""
        return self.build(SigmoidOp, [input], {})[0]

    def softplus(self, input: V) -> V:
        """log(1 + exp(x)), without overflow."""
        return self.build(SoftplusOp, [input], {})[0]

    def erf(self, input: V) -> V:
        """The error function."""
        return self.build(ErfOp, [input], {})[0]

    def floor(self, input: V) -> V:
        """Rounded down to an integer, as a float."""
        return self.build(FloorOp, [input], {})[0]

    def ceil(self, input: V) -> V:
        """Rounded up to an integer, as a float."""
        return self.build(CeilOp, [input], {})[0]

    def round(self, input: V) -> V:
        """The nearest integer, ties to even, as a float."""
        return self.build(RoundOp, [input], {})[0]

    def trunc(self, input: V) -> V:
        """The integer part, as a float."""
        return self.build(TruncOp, [input], {})[0]

    def bitwise_not(self, input: V) -> V:
        """All bits inverted; of i1 the logical not."""
        return self.build(BitwiseNotOp, [input], {})[0]

    def add(self, lhs: V, rhs: V) -> V:
        """The sum; integers wrap around."""
        return self.build(AddOp, [lhs, rhs], {})[0]

    def subtract(self, lhs: V, rhs: V) -> V:
        """The difference; integers wrap around."""
        return self.build(SubtractOp, [lhs, rhs], {})[0]

    def multiply(self, lhs: V, rhs: V) -> V:
        """The product; integers wrap around."""
        return self.build(MultiplyOp, [lhs, rhs], {})[0]

    def divide(self, lhs: V, rhs: V) -> V:
        """The quotient, correctly rounded."""
        return self.build(DivideOp, [lhs, rhs], {})[0]

    def floor_divide(self, lhs: V, rhs: V) -> V:
        """The quotient rounded towards minus infinity; an integer divided by zero is 0. Of floats floor(lhs / rhs), less 1 where that leaves a remainder of the wrong sign: exact as far as all integers are floats of the type; f16 and bf16 by way of f32."""
        return self.build(FloorDivideOp, [lhs, rhs], {})[0]

    def remainder(self, lhs: V, rhs: V) -> V:
        """lhs - floor(lhs / rhs) * rhs, with the sign of rhs; of an integer by zero 0. Of floats exact for every quotient, but where |lhs| < |rhs| and the signs differ: lhs + rhs, rounded once."""
        return self.build(RemainderOp, [lhs, rhs], {})[0]

    def power(self, lhs: V, rhs: V) -> V:
        """lhs to the power of rhs. Floats: as pow of C. Integers wrap around; a negative power gives 0, except of 1 and -1."""
        return self.build(PowerOp, [lhs, rhs], {})[0]

    def maximum(self, lhs: V, rhs: V) -> V:
        """The maximum of two operands; NaN if either is NaN; +0.0 is greater than -0.0."""
        return self.build(MaximumOp, [lhs, rhs], {})[0]

    def minimum(self, lhs: V, rhs: V) -> V:
        """The minimum of two operands; NaN if either is NaN; -0.0 is less than +0.0."""
        return self.build(MinimumOp, [lhs, rhs], {})[0]

    def atan2(self, lhs: V, rhs: V) -> V:
        """The angle of the point (rhs, lhs), in radians: atan(lhs / rhs) in the right quadrant."""
        return self.build(Atan2Op, [lhs, rhs], {})[0]

    def copysign(self, lhs: V, rhs: V) -> V:
        """The magnitude of lhs with the sign of rhs."""
        return self.build(CopysignOp, [lhs, rhs], {})[0]

    def bitwise_and(self, lhs: V, rhs: V) -> V:
        """Bitwise and; of i1 the logical and."""
        return self.build(BitwiseAndOp, [lhs, rhs], {})[0]

    def bitwise_or(self, lhs: V, rhs: V) -> V:
        """Bitwise or; of i1 the logical or."""
        return self.build(BitwiseOrOp, [lhs, rhs], {})[0]

    def bitwise_xor(self, lhs: V, rhs: V) -> V:
        """Bitwise xor; of i1 the logical xor."""
        return self.build(BitwiseXorOp, [lhs, rhs], {})[0]

    def shift_left(self, lhs: V, rhs: V) -> V:
        """Bits shifted left, filled with zeros; 0 for a shift by the width or more."""
        return self.build(ShiftLeftOp, [lhs, rhs], {})[0]

    def shift_right_logical(self, lhs: V, rhs: V) -> V:
        """Bits shifted right, filled with zeros; 0 for a shift by the width or more."""
        return self.build(ShiftRightLogicalOp, [lhs, rhs], {})[0]

    def shift_right_arithmetic(self, lhs: V, rhs: V) -> V:
        """Bits shifted right, filled with the sign bit (zeros for unsigned types); all sign bits for a shift by the width or more."""
        return self.build(ShiftRightArithmeticOp, [lhs, rhs], {})[0]

    def equal(self, lhs: V, rhs: V) -> V:
        """true where equal; NaN is equal to nothing."""
        return self.build(EqualOp, [lhs, rhs], {})[0]

    def not_equal(self, lhs: V, rhs: V) -> V:
        """true where not equal; NaN differs from everything, also from itself."""
        return self.build(NotEqualOp, [lhs, rhs], {})[0]

    def less(self, lhs: V, rhs: V) -> V:
        """true where lhs < rhs; false with NaN."""
        return self.build(LessOp, [lhs, rhs], {})[0]

    def less_equal(self, lhs: V, rhs: V) -> V:
        """true where lhs <= rhs; false with NaN."""
        return self.build(LessEqualOp, [lhs, rhs], {})[0]

    def greater(self, lhs: V, rhs: V) -> V:
        """true where lhs > rhs; false with NaN."""
        return self.build(GreaterOp, [lhs, rhs], {})[0]

    def greater_equal(self, lhs: V, rhs: V) -> V:
        """true where lhs >= rhs; false with NaN."""
        return self.build(GreaterEqualOp, [lhs, rhs], {})[0]

    def select(self, condition: V, lhs: V, rhs: V) -> V:
        """lhs where the condition is true, otherwise rhs."""
        return self.build(SelectOp, [condition, lhs, rhs], {})[0]

    def fma(self, lhs: V, rhs: V, addend: V) -> V:
        """lhs * rhs + addend, rounded once."""
        return self.build(FmaOp, [lhs, rhs, addend], {})[0]

    def cast(self, input: V, *, type: Type) -> V:
        """Converts to another element type. Float to float rounds to nearest even, float to integer towards zero; integers wrap around; i1 is true for nonzero. Integers become floats of 16 bits and fewer by way of f32. A float out of the range of an integer type gives the nearest integer of the type, NaN gives 0. A value out of the range of a float type gives infinity, or NaN if the type has no infinity, or its largest value if it has neither (NaN then gives 0). f8E8M0FNU, which has only powers of two, rounds ties up, and gives NaN for values below its smallest."""
        return self.build(CastOp, [input], {}, types=[type])[0]

    def bitcast(self, input: V, *, type: Type) -> V:
        """The same bits as another element type of the same width."""
        return self.build(BitcastOp, [input], {}, types=[type])[0]

    def broadcast(self, input: V, *, type: Type, dimensions: Sequence[int]) -> V:
        """Repeats the operand along new dimensions; dimension i of the operand becomes dimension dimensions[i] of the result."""
        return self.build(BroadcastOp, [input], {"dimensions": dimensions}, types=[type])[0]

    def transpose(self, input: V, *, permutation: Sequence[int]) -> V:
        """Dimension i of the result is dimension permutation[i] of the operand."""
        return self.build(TransposeOp, [input], {"permutation": permutation})[0]

    def reshape(self, input: V, *, type: Type) -> V:
        """The same elements, in row-major order, in another shape."""
        return self.build(ReshapeOp, [input], {}, types=[type])[0]

    def cast_axes(self, input: V, *, type: Type) -> V:
        """The same tensor with other axis names."""
        return self.build(CastAxesOp, [input], {}, types=[type])[0]

    def slice(self, input: V, *, starts: Sequence[int], limits: Sequence[int], steps: Sequence[int]) -> V:
        """Elements start, start + step, ... below limit of each dimension; with a negative step, above limit, which may be -1."""
        return self.build(SliceOp, [input], {"starts": starts, "limits": limits, "steps": steps})[0]

    def pad(self, input: V, *, low: Sequence[int], high: Sequence[int], value: Attribute | None = None) -> V:
        """Adds elements before and after each dimension, with the given value (default zero)."""
        return self.build(PadOp, [input], {"low": low, "high": high, "value": value})[0]

    def border_pad(self, input: V, *, low: Sequence[int], high: Sequence[int], border: Literal["edge", "reflect", "symmetric", "wrap"]) -> V:
        """Adds elements of the operand before and after each dimension: with `edge` the first and the last one again, with `reflect` those behind them in reverse order, with `symmetric` the same beginning with the last one itself, with `wrap` those of the other end. Each is there once: `reflect` adds fewer elements on each side than there are, `symmetric` and `wrap` at most as many."""
        return self.build(BorderPadOp, [input], {"low": low, "high": high, "border": border})[0]

    def concatenate(self, inputs: Sequence[V], *, axis: int) -> V:
        """Concatenates tensors along one dimension."""
        return self.build(ConcatenateOp, [*inputs], {"axis": axis})[0]

    def stack(self, inputs: Sequence[V], *, type: Type, axis: int) -> V:
        """Stacks tensors of the same shape along a new dimension."""
        return self.build(StackOp, [*inputs], {"axis": axis}, types=[type])[0]

    def windows(self, input: V, *, type: Type, axes: Sequence[int], steps: Sequence[int], dilations: Sequence[int]) -> V:
        """Sliding windows along some dimensions. The first dimensions of the result are the positions in the window, one for each axis; the others are those of the operand, with the number of windows as length: element (t, p) along an axis is element p * step + t * dilation. Windows are inside the operand; elements after the last window are not used."""
        return self.build(WindowsOp, [input], {"axes": axes, "steps": steps, "dilations": dilations}, types=[type])[0]

    def overlap_add(self, input: V, *, type: Type, axes: Sequence[int], steps: Sequence[int], dilations: Sequence[int]) -> V:
        """The sum of overlapping windows, each at the place from which `windows` with the same attributes takes it; 0 where there is none. Axes are dimensions of the result. f16 and bf16 are summed in f32 and rounded once."""
        return self.build(OverlapAddOp, [input], {"axes": axes, "steps": steps, "dilations": dilations}, types=[type])[0]

    def gather(self, input: V, indices: V, *, axis: int) -> V:
        """Slices of the operand by index along an axis; the dimensions of the indices replace the axis. A negative index counts from the end; indices are then clamped to the axis."""
        return self.build(GatherOp, [input, indices], {"axis": axis})[0]

    def gather_elements(self, input: V, indices: V, *, axis: int) -> V:
        """One element for each index: at the index along the axis, at the same position in the other dimensions. Indices as in gather."""
        return self.build(GatherElementsOp, [input, indices], {"axis": axis})[0]

    def scatter(self, input: V, indices: V, updates: V, *, axis: int, combine: Literal["set", "add", "max", "min"] | None = None, ascending: bool | None = None) -> V:
        """The operand with slices combined with updates at indices along an axis, in row-major order of the indices (so repeated indices accumulate, or the last one wins). A negative index counts from the end; one out of range is ignored. With `ascending` the indices are known to be sorted and not negative."""
        return self.build(ScatterOp, [input, indices, updates], {"axis": axis, "combine": combine, "ascending": ascending})[0]

    def one_hot(self, indices: V, *, type: Type, axis: int) -> V:
        """A new axis with 1 at the index and 0 elsewhere; all 0 for an index out of range."""
        return self.build(OneHotOp, [indices], {"axis": axis}, types=[type])[0]

    def argsort(self, input: V, *, type: Type, axis: int, descending: bool | None = None, runs: int | None = None) -> V:
        """The positions along an axis that sort it in ascending order, or with `descending` in descending order. The order is stable; -0.0 and 0.0 are equal. NaN is greater than every number. A result that is shorter along the axis has only the first of these positions. Its type must be able to hold every position. With `runs`, each run of that many elements along the axis is known to be sorted."""
        return self.build(ArgsortOp, [input], {"axis": axis, "descending": descending, "runs": runs}, types=[type])[0]

    def lookup(self, table: V, indices: V, *, axis: int | None = None, pad: int | None = None) -> V:
        """An embedding: gather, whose gradient does not change row `pad` of the table."""
        return self.build(LookupOp, [table, indices], {"axis": axis, "pad": pad})[0]

    def sum(self, input: V, *, axes: Sequence[int]) -> V:
        """The sum over some dimensions; 0 for no elements. f16 and bf16 are summed in f32. The order is fixed, so the bits are the same on every run and thread count."""
        return self.build(SumOp, [input], {"axes": axes})[0]

    def product(self, input: V, *, axes: Sequence[int]) -> V:
        """The product over some dimensions; 1 for no elements."""
        return self.build(ProductOp, [input], {"axes": axes})[0]

    def max(self, input: V, *, axes: Sequence[int]) -> V:
        """The maximum over some dimensions; NaN if any element is NaN; -inf or the smallest integer for no elements."""
        return self.build(MaxOp, [input], {"axes": axes})[0]

    def first_max(self, input: V, *, axes: Sequence[int]) -> V:
        """The maximum, as ng.max; but its gradient goes only to the first of the elements that are the maximum (in row-major order over the axes)."""
        return self.build(FirstMaxOp, [input], {"axes": axes})[0]

    def min(self, input: V, *, axes: Sequence[int]) -> V:
        """The minimum over some dimensions; NaN if any element is NaN; +inf or the largest integer for no elements."""
        return self.build(MinOp, [input], {"axes": axes})[0]

    def mean(self, input: V, *, axes: Sequence[int]) -> V:
        """The mean over some dimensions: the sum divided by the number of elements. f16 and bf16 are computed in f32 and rounded once."""
        return self.build(MeanOp, [input], {"axes": axes})[0]

    def any(self, input: V, *, axes: Sequence[int]) -> V:
        """true if any element is true."""
        return self.build(AnyOp, [input], {"axes": axes})[0]

    def all(self, input: V, *, axes: Sequence[int]) -> V:
        """true if all elements are true."""
        return self.build(AllOp, [input], {"axes": axes})[0]

    def argmax(self, input: V, *, type: Type, axes: Sequence[int]) -> V:
        """The position of the first maximum, in row-major order over the axes; the first NaN, if there is one. The result type must be able to hold every position."""
        return self.build(ArgmaxOp, [input], {"axes": axes}, types=[type])[0]

    def argmin(self, input: V, *, type: Type, axes: Sequence[int]) -> V:
        """The position of the first minimum, in row-major order over the axes; the first NaN, if there is one. The result type must be able to hold every position."""
        return self.build(ArgminOp, [input], {"axes": axes}, types=[type])[0]

    def cumulative_sum(self, input: V, *, axis: int, reverse: bool | None = None, exclusive: bool | None = None) -> V:
        """The sum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""
        return self.build(CumulativeSumOp, [input], {"axis": axis, "reverse": reverse, "exclusive": exclusive})[0]

    def cumulative_product(self, input: V, *, axis: int, reverse: bool | None = None, exclusive: bool | None = None) -> V:
        """The product of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""
        return self.build(CumulativeProductOp, [input], {"axis": axis, "reverse": reverse, "exclusive": exclusive})[0]

    def cumulative_max(self, input: V, *, axis: int, reverse: bool | None = None, exclusive: bool | None = None) -> V:
        """The maximum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""
        return self.build(CumulativeMaxOp, [input], {"axis": axis, "reverse": reverse, "exclusive": exclusive})[0]

    def cumulative_min(self, input: V, *, axis: int, reverse: bool | None = None, exclusive: bool | None = None) -> V:
        """The minimum of the elements up to each one along an axis; `reverse` from the end, `exclusive` without the element itself."""
        return self.build(CumulativeMinOp, [input], {"axis": axis, "reverse": reverse, "exclusive": exclusive})[0]

    def cumulative_runs(self, input: V, before: V, *, axis: int, run: int, combine: Literal["sum", "product", "max", "min"] | None = None, reverse: bool | None = None, exclusive: bool | None = None) -> V:
        """The cumulative op with this combination, applied to each run of that many elements along an axis (the last may be shorter), starting from the element of `before` for that run. Sums and products of f16 and bf16 are computed in f32, the element type of `before`."""
        return self.build(CumulativeRunsOp, [input, before], {"axis": axis, "run": run, "combine": combine, "reverse": reverse, "exclusive": exclusive})[0]

    def segment_reduce(self, input: V, offsets: V, *, type: Type, axis: int, combine: Literal["sum", "product", "max", "min", "first", "last"] | None = None) -> V:
        """One row for each segment along an axis: segment s is the rows from offsets[s] to offsets[s + 1]. Offsets begin with 0, never fall, and end with the number of rows; of others the result is unspecified. A segment without rows gives what ng.sum, ng.product, ng.max and ng.min give for no elements; `first` and `last` give 0. Sums and products of f16 and bf16 are computed in f32."""
        return self.build(SegmentReduceOp, [input, offsets], {"axis": axis, "combine": combine}, types=[type])[0]

    def segment_cumulative(self, input: V, offsets: V, *, axis: int, combine: Literal["sum", "product", "max", "min"] | None = None, reverse: bool | None = None, exclusive: bool | None = None) -> V:
        """The cumulative op with this combination, applied to each segment along an axis. Segments as in segment_reduce."""
        return self.build(SegmentCumulativeOp, [input, offsets], {"axis": axis, "combine": combine, "reverse": reverse, "exclusive": exclusive})[0]

    def segment_expand(self, input: V, offsets: V, *, type: Type, axis: int) -> V:
        """Row s along an axis for each row of segment s. Segments as in segment_reduce."""
        return self.build(SegmentExpandOp, [input, offsets], {"axis": axis}, types=[type])[0]

    def segment_softmax(self, input: V, offsets: V, *, axis: int) -> V:
        """Softmax along each segment of an axis, as ng.softmax. Segments as in segment_reduce."""
        return self.build(SegmentSoftmaxOp, [input, offsets], {"axis": axis})[0]

    def dot(self, lhs: V, rhs: V, *, lhs_contract: Sequence[int], rhs_contract: Sequence[int], lhs_batch: Sequence[int] | None = None, rhs_batch: Sequence[int] | None = None, type: Type | None = None) -> V:
        """Multiplies and sums over the contracted dimensions, for each position of the batch dimensions. Result: batch, rest of lhs, rest of rhs. f16 and bf16 are summed in f32. If the result has wider elements (i32 for i8, f32 for bf16), the operands are cast to it first."""
        return self.build(DotOp, [lhs, rhs], {"lhs_contract": lhs_contract, "rhs_contract": rhs_contract, "lhs_batch": lhs_batch, "rhs_batch": rhs_batch}, types=None if type is None else [type])[0]

    def random_bits(self, key: V, *, type: Type) -> V:
        """Philox 4x32-10 (Salmon et al. 2011): element i is word i % 4 of block i / 4. The block number fills counter words 0 (low half) and 1 (high half), the stream key[1] words 2 and 3 likewise, the seed key[0] both key words. The same key gives the same bits on every target."""
        return self.build(RandomBitsOp, [key], {}, types=[type])[0]

    def random_uniform(self, key: V, *, type: Type) -> V:
        """Uniform in [0, 1): the upper n bits of random_bits times 2^-n, where n is 24 for f32, 32 for f64, 11 for f16 and 8 for bf16."""
        return self.build(RandomUniformOp, [key], {}, types=[type])[0]

    def random_normal(self, key: V, *, type: Type) -> V:
        """Normal with mean 0 and standard deviation 1, by the Box-Muller transform: sqrt(-2 log(u + 2^-n)) cos(2 pi v), where u and v are uniform numbers of n bits from words 2i and 2i + 1 of the stream. f16 and bf16 are computed in f32 and rounded once."""
        return self.build(RandomNormalOp, [key], {}, types=[type])[0]

    def softmax(self, input: V, *, axes: Sequence[int]) -> V:
        """Softmax along the axes: exp(x - max) divided by its sum. f16 and bf16 are computed in f32 and rounded once. NaN if the maximum is infinite."""
        return self.build(SoftmaxOp, [input], {"axes": axes})[0]

    def log_softmax(self, input: V, *, axes: Sequence[int]) -> V:
        """x - max - log(sum(exp(x - max))) along the axes. f16 and bf16 are computed in f32 and rounded once."""
        return self.build(LogSoftmaxOp, [input], {"axes": axes})[0]

    def normalize(self, input: V, *, axes: Sequence[int], epsilon: Attribute) -> V:
        """(x - mean) / sqrt(variance + epsilon), with mean and variance along the axes; the variance is the mean squared difference from the mean. f16 and bf16 are computed in f32 and rounded once."""
        return self.build(NormalizeOp, [input], {"axes": axes, "epsilon": epsilon})[0]

    def cross_entropy(self, logits: V, targets: V, *, axes: Sequence[int]) -> V:
        """-sum(targets * log_softmax(logits)) along the axes; a target of zero contributes 0, whatever its logit. f16 and bf16 are computed in f32 and rounded once."""
        return self.build(CrossEntropyOp, [logits, targets], {"axes": axes})[0]

    def if_(self, condition: V, *, types: Sequence[Type], regions: Sequence[Region]) -> Sequence[V]:
        """The results of the first region if the condition is true, otherwise those of the second; only one runs."""
        return self.build(IfOp, [condition], {}, types=types, regions=regions)

    def while_(self, inits: Sequence[V], *, types: Sequence[Type], regions: Sequence[Region]) -> Sequence[V]:
        """Repeats the second region on its own results while the condition, computed from them, is true."""
        return self.build(WhileOp, [*inits], {}, types=types, regions=regions)

    def scan(self, inits: Sequence[V], slices: Sequence[V], *, types: Sequence[Type], reverse: bool | None = None, regions: Sequence[Region]) -> Sequence[V]:
        """Runs the body once per slice along dimension 0 of `slices`; `inits` are the initial `carried` values, which each step passes to the next. Results: the last carried values, then the other results of all steps, stacked. `reverse` runs from the last slice to the first; results stay at the positions of their slices."""
        return self.build(ScanOp, [*inits, *slices], {"carried": len(inits), "reverse": reverse}, types=types, regions=regions)

    def fusion(self, inputs: Sequence[V], *, types: Sequence[Type], kind: str, regions: Sequence[Region]) -> Sequence[V]:
        """Ops that become one kernel. `kind` is the kind of loop nest."""
        return self.build(FusionOp, [*inputs], {"kind": kind}, types=types, regions=regions)

    def recompute(self, values: Sequence[V], sources: Sequence[V]) -> Sequence[V]:
        """Computes nothing. What is computed on the way from `sources` to `values`, these excepted, is not kept in memory from here on; what needs it later computes it again (pass `rematerialize`)."""
        return self.build(RecomputeOp, [*values, *sources], {"given": len(values)})
