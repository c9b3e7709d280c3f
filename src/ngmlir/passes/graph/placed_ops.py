# SPDX-License-Identifier: Apache-2.0
"""Rewrites ops for values with permuted dimensions, and records in which orders each value exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.attributes import Attribute
from ...ir.core import Op, Value
from ...ir.types import TensorType, Type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.loops import Loop, loops_of
from ...ops.roles import SAMPLES, STEPS
from ...ops.schedules import SCHEDULE
from .sunk_transposes import permuted

#: A permutation: dimension i of the permuted value is dimension order[i] of the original one.
Order = tuple[int, ...]


def stated(value: Value) -> Order:
    """The identity order of a value; () if it is no tensor."""
    return tuple(range(len(shape_of(value.type)))) if isinstance(value.type, TensorType) else ()


def in_order(type: Type, order: Order) -> Type:
    return permuted(type, order) if isinstance(type, TensorType) else type


class ValueLayouts:
    """Maps each original value to new values, one for each order in which it exists."""

    def __init__(
        self, wanted: Callable[[Type], Order | None], builder: Builder, outer: ValueLayouts | None = None
    ):
        self.wanted = wanted
        self.builder = builder
        # A copy: values added in a body are not visible outside.
        self.forms: dict[Value, dict[Order, Value]] = {}
        if outer is not None:
            self.forms = {value: dict(forms) for value, forms in outer.forms.items()}

    def order(self, value: Value) -> Order:
        """The wanted order of a value."""
        return self.wanted(value.type) or stated(value)

    def in_order(self, value: Value, order: Order) -> Value:
        """The value in an order; adds a transpose if it does not exist in it yet."""
        forms = self.forms.setdefault(value, {stated(value): value})
        if order not in forms:
            have, held = next(iter(forms.items()))
            forms[order] = self.builder.transpose(held, permutation=[have.index(d) for d in order])
        return forms[order]

    def in_wanted_order(self, value: Value) -> Value:
        return self.in_order(value, self.order(value))

    def stated(self, value: Value) -> Value:
        return self.in_order(value, stated(value))

    def record(self, value: Value, new: Value, order: Order) -> None:
        """Records the new value of a value, and its order."""
        new.name = new.name or value.name
        self.forms[value] = {order: new}

    def add(
        self,
        op: Op,
        operands: Sequence[Value],
        order: Order,
        changed: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Adds the op on other operands, with its result in an order."""
        (result,) = op.results
        new = op.rebuilt(
            operands, attributes={**op.attributes, **(changed or {})}, types=[in_order(result.type, order)]
        )
        self.builder.add_op(new)
        self.record(result, new.result, order)


def place(held: ValueLayouts, op: Op) -> bool:
    """Adds the op with operands and result in the wanted orders; False where it needs the original ones."""
    if op.name == "ng.reshape":
        return _reshape(held, op)
    if op.name == "ng.transpose":
        permutation, order = get_i64s(op, "permutation"), held.order(op.result)
        held.record(op.result, held.in_order(op.operands[0], tuple(permutation[d] for d in order)), order)
        return True
    loops = loops_of(op)
    if loops is None:
        return False
    (own,) = loops.results
    wanted = [own[d] for d in held.order(op.result)]
    operands, result = loops.leading(wanted), wanted
    changed = None if operands is None else loops.reordered(operands, wanted)
    if operands is None or changed is None:
        # The operands have loops that the result lacks: the order of the result follows from theirs.
        both = zip(op.operands, loops.operands, strict=True)
        operands = [[dims[d] for d in held.order(value)] for value, dims in both]
        result = loops.following(operands)
        changed = None if result is None else loops.reordered(operands, result)
        if result is None or changed is None:
            return False
    orders = zip(op.operands, loops.operands, operands, strict=True)
    given = [held.in_order(v, tuple([was.index(loop) for loop in now])) for v, was, now in orders]
    # A schedule refers to rows and columns of the product, so they are not exchanged under it.
    if op.name == "ng.dot" and result != wanted == _exchanged(result) and SCHEDULE not in op.attributes:
        given, result, changed = given[::-1], wanted, {_OTHER[name]: a for name, a in changed.items()}
    held.add(op, given, tuple([own.index(loop) for loop in result]), changed)
    return True


#: The attribute of a product for the other side.
_OTHER = {
    f"{a}_{what}": f"{b}_{what}"
    for a, b in (("lhs", "rhs"), ("rhs", "lhs"))
    for what in ("contract", "batch")
}


def _exchanged(result: Sequence[Loop]) -> list[Loop]:
    """The loops of a product's result after its sides are exchanged."""
    return [loop for group in "bnm" for loop in result if loop[0] == group]


def _reshape(held: ValueLayouts, op: Op) -> bool:
    """Adds a reshape of feature dimensions; False unless batch and time axes precede them in both shapes, are equal, and keep
    their places among the features in the wanted orders."""
    source, result = op.operands[0], op.result
    parts: list[tuple[list[str], list[str]]] = []
    for value in (source, result):
        names = (value.type.axes if isinstance(value.type, TensorType) else None) or ()
        roles = [n for n in names if n in (SAMPLES, STEPS)]
        if list(names[: len(roles)]) != roles:
            return False
        features = ["*"] * (len(names) > len(roles))
        parts.append(
            (roles, [names[d] if d < len(roles) else "*" for d in held.order(value)] if features else [])
        )
    (roles, skeleton), (others, after) = parts
    if roles != others or shape_of(source.type)[: len(roles)] != shape_of(result.type)[: len(roles)]:
        return False
    if skeleton and after and list(dict.fromkeys(skeleton)) != list(dict.fromkeys(after)):
        return False
    held.add(op, [held.in_wanted_order(source)], held.order(result))
    return True
