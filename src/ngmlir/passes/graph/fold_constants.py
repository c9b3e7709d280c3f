# SPDX-License-Identifier: Apache-2.0
"""Constant folding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.core import Module, Op, Value
from ...ir.elements import KNOWN, ElementsAttr, elements
from ...ir.literals import item_bytes
from ...ir.types import ShapedType, TensorType
from ...ops.builder import Builder
from ...ops.fields import constant_elements
from ...ops.interpreter import evaluate
from ...ops.meaning import MEANING
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.lengths import is_open
from ...support.target import Target


@contract(anchor="function")
def fold_constants(module: Module, target: Target) -> Module:
    """Computes ops whose operands are constants, with the reference implementation of the op.

    Transcendental functions are left to the target, whose math library decides their last bit.

    Before:
        func.func @main() -> tensor<4xf32> {
          %0 = ng.constant dense<1.0> : tensor<4xf32>
          %1 = ng.constant dense<4.0> : tensor<4xf32>
          %2 = ng.divide %0, %1 : tensor<4xf32>
          return %2 : tensor<4xf32>
        }
    After:
        func.func @main() -> tensor<4xf32> {
          %0 = ng.constant dense<1.0> : tensor<4xf32>
          %1 = ng.constant dense<4.0> : tensor<4xf32>
          %2 = ng.constant dense<0.25> : tensor<4xf32>
          func.return %2 : tensor<4xf32>
        }
    """
    return sweep(module, _fold)


def _fold(op: Op, builder: Builder) -> Sequence[Value] | None:
    traits = op.traits
    # Only ops with a reference implementation: a call of a kernel has none.
    known = op.name in MEANING and "pure" in traits and "math" not in traits
    if not known or not op.operands or len(op.results) != 1 or op.regions:
        return None
    type = op.results[0].type
    if not isinstance(type, TensorType) or not type.static or is_open(type.shape) or type.size == 0:
        return None
    literals = [constant_elements(o) for o in op.operands]
    table = literals[0]
    if "gathers" in traits and table is not None and table.splat and table.type.size:
        return [builder.constant(type=type, value=ElementsAttr(table.data, type))]
    if any(literal is None for literal in literals):
        return None
    if all(literal is not None and _one(literal) for literal in literals):
        if "elementwise" in traits:
            return [builder.constant(type=type, value=_splat(op, literals, type))]
        if "view" in traits:
            literal = literals[0]
            assert literal is not None
            return [builder.constant(type=type, value=literal.of_type(type))]
    # Constants that are not splats are folded up to this size: no pass reads the values of larger ones.
    if type.size > KNOWN or any(literal is None or literal.type.size > KNOWN for literal in literals):
        return None
    (result,) = evaluate(op, [literal.array() for literal in literals if literal is not None])
    return [builder.constant(type=type, value=elements(result, type))]


def _one(literal: ElementsAttr) -> bool:
    """Whether all elements are known to be equal: a splat or a single element."""
    return literal.splat or literal.type.size == 1


def _splat(op: Op, literals: Sequence[ElementsAttr | None], type: ShapedType) -> ElementsAttr:
    """The splat result of an elementwise op on splats, computed on one element of each operand."""
    single = TensorType((), type.element)
    given = [x for x in literals if x is not None]
    values = [Value(TensorType((), x.type.element)) for x in given]
    arrays = [np.frombuffer(x.data, x.array().dtype).reshape(()) for x in given]
    (result,) = evaluate(op.rebuilt(values, types=[single]), arrays)
    data = np.ascontiguousarray(result).tobytes()
    assert len(data) == item_bytes(type.element)
    return ElementsAttr(data, type)
