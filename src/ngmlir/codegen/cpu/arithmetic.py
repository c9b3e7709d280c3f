# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops, register by register. `codegen/elementwise.py` has the LLVM instructions of each op."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op
from ...ir.types import FloatType, IndexType, Type, element_type, f32, f64
from ...llvm.types import Value, is_number
from ...ops.library import in_library
from ...rewrite.advice import pass_for
from ...support.diagnostics import Limit
from ...support.lengths import at_least
from ..ranges import RULES, UNKNOWN, either
from . import formats, rules
from .bounds import bound_of, codes_of, is_within
from .emitter import Emitter

#: Ops that work on the bits of f16 and bf16 directly: op -> integer instruction and mask.
_SIGN_BIT = {"ng.negative": ("xor", -0x8000), "ng.absolute": ("and_", 0x7FFF)}

#: Ops that are computed as two ops, each of which rounds.
_STEPS = {"ng.rsqrt": ("sqrt", "reciprocal")}

_DIVISIONS = frozenset({"ng.floor_divide", "ng.remainder"})


def elementwise(e: Emitter, op: Op) -> None:
    """Lowers an elementwise op whose operands and result share one element type."""
    element = element_type(op.operands[0].type)
    if in_library(op):
        raise Limit(f"{op.name} of floats has no code generator", op.location, hint=pass_for(op))
    known = UNKNOWN
    if isinstance(op.result.type, IndexType) and op.name in RULES:
        known = RULES[op.name](*map(e.range_of, op.operands))
        if known.constant:
            e.index_constant(op.result, known.low)
            return
        x_low, y_low = (e.range_of(operand).low for operand in op.operands)
        if op.name in _DIVISIONS and at_least(x_low, 0) and at_least(y_low, 1):
            x, y = map(e.scalar, op.operands)
            divide = e.b.udiv if op.name == "ng.floor_divide" else e.b.urem
            e.define_index(op.result, divide(x, y), known)
            return
    operands = [e.registers(operand) for operand in op.operands]
    if formats.narrow(element) and op.name in _SIGN_BIT:
        method, mask = _SIGN_BIT[op.name]
        e.define(op.result, [getattr(e.b, method)(x, mask) for (x,) in zip(*operands, strict=True)])
        return
    if op.name in _DIVISIONS and not isinstance(element, FloatType):
        # Lanes beyond the tile may hold poison; division by poison is undefined behaviour.
        operands = [[x if _literal(x) else e.b.freeze(x) for x in registers] for registers in operands]
    if e.machine.minps and element in (f32, f64) and (limit := bound_of(op)) is not None:
        x, bound = map(e.registers, (limit.x, limit.bound))
        e.define(
            op.result, [rules.limited(e.b, op.name, *each, limit) for each in zip(x, bound, strict=True)]
        )
        return
    result = []
    for step in _STEPS.get(op.name, (op.name.partition(".")[2],)):
        result = [_rounded(e, step, op, element, group) for group in zip(*operands, strict=True)]
        operands = [result]
    e.define(op.result, result)
    if isinstance(op.result.type, IndexType):
        e.define_index(op.result, result[0], known)
        _remember_sum(e, op, result[0])


def _remember_sum(e: Emitter, op: Op, result: Value) -> None:
    """Notes the sum of an index and a constant."""
    if op.name not in ("ng.add", "ng.subtract"):
        return
    x, y = map(e.scalar, op.operands)
    if op.name == "ng.add" and is_number(x):
        x, y = y, x
    if is_number(y):
        e.define_sum(result, x, int(y.name) if op.name == "ng.add" else -int(y.name))


def _rounded(e: Emitter, name: str, op: Op, element: Type, group: Sequence[Value]) -> Value:
    unpacked = [formats.unpack(e.b, e.machine, element, x) for x in group]
    found = rules.apply(e.b, e.machine, name, formats.computing(element), *unpacked)
    return found if "compare" in op.traits else formats.pack(e.b, e.machine, element, found)


def select(e: Emitter, op: Op) -> None:
    """ng.select"""
    operands = [e.registers(operand) for operand in op.operands]
    found = [e.b.select(*group) for group in zip(*operands, strict=True)]
    e.define(op.result, found)
    if isinstance(op.result.type, IndexType):
        e.define_index(op.result, found[0], either(*map(e.range_of, op.operands[1:])))


def cast(e: Emitter, op: Op) -> None:
    """ng.cast"""
    source, target = element_type(op.operands[0].type), element_type(op.result.type)
    if e.machine.nearest and (codes := codes_of(op)) is not None:
        found = [rules.nearest(e.b, x, codes) for x in e.registers(codes.x)]
    elif source is f32 and is_within(op.operands[0], target):
        found = [rules.whole(e.b, x) for x in e.registers(op.operands[0])]
    else:
        found = [formats.cast(e.b, e.machine, x, source, target) for x in e.registers(op.operands[0])]
    e.define(op.result, found)
    if isinstance(op.result.type, IndexType):
        e.define_index(op.result, found[0], e.range_of(op.operands[0]))


def bitcast(e: Emitter, op: Op) -> None:
    """ng.bitcast"""
    kind = formats.storage(element_type(op.result.type))
    e.define(
        op.result, [e.b.bitcast(x, formats.with_element(x.type, kind)) for x in e.registers(op.operands[0])]
    )


def _literal(x: Value) -> bool:
    return not x.name.startswith("%")
