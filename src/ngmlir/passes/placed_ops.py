# SPDX-License-Identifier: Apache-2.0
"""Ops on values whose dimensions lie in another order, and what holds such values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir.attributes import Attribute, IntegerAttr, i64, integers
from ..ir.core import Op, Value
from ..ir.types import TensorType, Type, shape_of
from ..ops.builder import Builder
from ..ops.fields import get_i64, get_i64s
from ..ops.roles import SAMPLES, STEPS
from ..ops.schedules import SCHEDULE
from .sunk_transposes import permuted

#: Dimension i of what lies in an order is dimension order[i] of the value as it was.
Order = tuple[int, ...]


def stated(value: Value) -> Order:
    """The order in which a value was."""
    return tuple(range(len(shape_of(value.type)))) if isinstance(value.type, TensorType) else ()


def in_order(type: Type, order: Order) -> Type:
    return permuted(type, order) if isinstance(type, TensorType) else type


class Held:
    """What holds the values of a program now, and in which orders."""

    def __init__(self, wanted: Callable[[Type], Order | None], builder: Builder, outer: Held | None = None):
        self.wanted = wanted
        self.builder = builder
        # What is made inside a body is not seen outside.
        self.forms: dict[Value, dict[Order, Value]] = {}
        if outer is not None:
            self.forms = {value: dict(forms) for value, forms in outer.forms.items()}

    def order(self, value: Value) -> Order:
        """The order in which a value is to lie."""
        return self.wanted(value.type) or stated(value)

    def now(self, value: Value, order: Order) -> Value:
        """The value in an order."""
        forms = self.forms.setdefault(value, {stated(value): value})
        if order not in forms:
            have, held = next(iter(forms.items()))
            forms[order] = self.builder.transpose(held, permutation=[have.index(d) for d in order])
        return forms[order]

    def placed(self, value: Value) -> Value:
        return self.now(value, self.order(value))

    def stated(self, value: Value) -> Value:
        return self.now(value, stated(value))

    def hold(self, value: Value, new: Value, order: Order) -> None:
        """Notes what holds a value, and in which order."""
        new.name = new.name or value.name
        self.forms[value] = {order: new}

    def add(
        self,
        op: Op,
        operands: Sequence[Value],
        order: Order,
        changed: Mapping[str, Attribute] | None = None,
    ) -> None:
        """The op on other operands, whose result comes in an order."""
        (result,) = op.results
        new = op.rebuilt(
            operands, attributes={**op.attributes, **(changed or {})}, types=[in_order(result.type, order)]
        )
        self.builder.add_op(new)
        self.hold(result, new.result, order)


Rule = Callable[[Held, Op], bool]


def _elementwise(held: Held, op: Op) -> bool:
    order = held.order(op.result)
    held.add(op, [held.now(o, order) for o in op.operands], order)
    return True


def _transpose(held: Held, op: Op) -> bool:
    permutation = get_i64s(op, "permutation")
    order = held.order(op.result)
    held.hold(op.result, held.now(op.operands[0], tuple(permutation[d] for d in order)), order)
    return True


def _broadcast(held: Held, op: Op) -> bool:
    dimensions, order = get_i64s(op, "dimensions"), held.order(op.result)
    places = [order.index(d) for d in dimensions]
    read = tuple(sorted(range(len(places)), key=places.__getitem__))
    held.add(op, [held.now(op.operands[0], read)], order, {"dimensions": integers(sorted(places))})
    return True


def _reduction(held: Held, op: Op) -> bool:
    axes, order = get_i64s(op, "axes"), held.order(op.operands[0])
    places = [order.index(a) for a in axes]
    if op.name in ("ng.argmax", "ng.argmin") and (list(axes), places) != (sorted(axes), sorted(places)):
        return False  # positions count in the order of the axes
    kept = [d for d in range(len(order)) if d not in axes]
    after = tuple(kept.index(d) for d in order if d not in axes)
    held.add(op, [held.placed(op.operands[0])], after, {"axes": integers(sorted(places))})
    return True


def _dot(held: Held, op: Op) -> bool:
    orders = [held.order(o) for o in op.operands]
    sides = [
        (order, get_i64s(op, f"{side}_contract"), get_i64s(op, f"{side}_batch"))
        for order, side in zip(orders, ("lhs", "rhs"), strict=True)
    ]
    batch = len(sides[0][2])
    free: list[
        list[int]
    ] = []  # which dimensions of the result the free ones of each side are, as they lie now
    begin = batch
    for order, contract, batched in sides:
        own = [d for d in range(len(order)) if d not in contract and d not in batched]
        free.append([begin + own.index(d) for d in order if d in own])
        begin += len(own)
    wanted = held.order(op.result)
    straight, swapped = (tuple([*range(batch), *free[a], *free[1 - a]]) for a in (0, 1))
    # A schedule is of the rows and columns as they stand.
    first = 1 if swapped == wanted != straight and SCHEDULE not in op.attributes else 0
    attributes: dict[str, Attribute] = {}
    for name, (order, contract, batched) in zip(
        ("lhs", "rhs"), (sides[first], sides[1 - first]), strict=True
    ):
        attributes[f"{name}_contract"] = integers(order.index(d) for d in contract)
        attributes[f"{name}_batch"] = integers(order.index(d) for d in batched)
    operands = [held.placed(op.operands[first]), held.placed(op.operands[1 - first])]
    held.add(op, operands, swapped if first else straight, attributes)
    return True


def _reshape(held: Held, op: Op) -> bool:
    """Of features alone: samples and steps stand before them, and stay what they are."""
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
    held.add(op, [held.placed(source)], held.order(result))
    return True


def _along(*lists: str) -> Rule:
    """Of ops whose attributes say something for each dimension."""

    def rule(held: Held, op: Op) -> bool:
        order = held.order(op.result)
        changed = {name: integers(get_i64s(op, name)[d] for d in order) for name in lists}
        held.add(op, [held.now(o, order) for o in op.operands], order, changed)
        return True

    return rule


def _along_axis(held: Held, op: Op) -> bool:
    """Of ops that go along one dimension and leave all."""
    order = held.order(op.result)
    axis = IntegerAttr(order.index(get_i64(op, "axis")), i64)
    held.add(op, [held.now(o, order) for o in op.operands], order, {"axis": axis})
    return True


_BY_NAME: Mapping[str, Rule] = {
    "ng.cast_axes": _elementwise,
    "ng.transpose": _transpose,
    "ng.broadcast": _broadcast,
    "ng.reshape": _reshape,
    "ng.dot": _dot,
    "ng.slice": _along("starts", "limits", "steps"),
    "ng.pad": _along("low", "high"),
    "ng.concatenate": _along_axis,
    "ng.argmax": _reduction,
    "ng.argmin": _reduction,
}


def rule_of(op: Op) -> Rule | None:
    """How an op computes values that lie in another order; None where it is to have them as they were."""
    traits = op.traits
    if "elementwise" in traits:
        return _elementwise
    if "reduction" in traits:
        return _reduction
    if "cumulative" in traits:
        return _along_axis
    return _BY_NAME.get(op.name)
