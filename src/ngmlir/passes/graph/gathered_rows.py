# SPDX-License-Identifier: Apache-2.0
"""Products whose rows are gathered or scattered: the rows of the other side of the product are moved instead, where they are narrower."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.attributes import StringAttr
from ...ir.core import Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import constant_elements, get_i64, get_i64s
from ...support.lengths import are_same, is_open, usual
from ..analysis.views import source, view

#: By how much narrower the rows must be, for the product of more of them.
_NARROWER = 2
#: At most so many rows are moved, as a multiple of the rows that there are.
_ROWS = 1.25


class GatheredRows:
    """Rules for the ops of a function."""

    def __init__(self, function: Op):
        self.readers: dict[Value, list[Op]] = {}
        for op in function.walk():
            for value in op.operands:
                self.readers.setdefault(value, []).append(op)
        self.origin: dict[Value, Value] = {}  # the value of the function that another one replaces

    def follow(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Notes what replaces values."""
        self.origin.update((b, self.origin.get(a, a)) for a, b in zip(old, new, strict=True))

    def read_by(self, value: Value) -> Sequence[Op]:
        """The ops that read a value."""
        return self.readers.get(self.origin.get(value, value), ())

    def __call__(self, op: Op, b: Builder) -> Value | None:
        """What replaces an op, if a rule applies."""
        if op.name == "ng.gather":
            return self.gather(op, b)
        return self.dot(op, b) if op.name == "ng.dot" else self.sum(op, b)

    def gather(self, op: Op, b: Builder) -> Value | None:
        """Rows of a product, as the product of rows."""
        table, indices = op.operands
        shape = shape_of(table.type)
        if get_i64(op, "axis") or len(shape) != 2 or not _are_as_many(indices, shape[0]):
            return None
        if not self.is_product(table, shape):
            return None
        rows = self.of_rows(table, shape, view(b, indices, [_size(indices)]), b)
        return view(b, rows, shape_of(op.result.type))

    def is_product(self, value: Value, shape: Sequence[int]) -> bool:
        """Whether a value of this shape is computed row by row from a product of narrower rows, and has no other use."""
        found = 0
        waiting = [value]
        while waiting:
            value = waiting.pop()
            owner = source(value).owner
            if not isinstance(owner, Op):
                return False
            if _is_row(owner, shape):
                continue
            if not self.is_used_once(value):
                return False
            if owner.name == "ng.dot" and _is_plain(owner) and shape_of(owner.result.type) == tuple(shape):
                found += _NARROWER * usual(shape_of(owner.operands[0].type)[1]) <= usual(shape[1])
            elif "elementwise" in owner.traits and len(owner.results) == 1:
                waiting += owner.operands
            else:
                return False
        return found == 1

    def is_used_once(self, value: Value) -> bool:
        while True:
            if len(self.read_by(value)) != 1:
                return False
            if not isinstance(value.owner, Op) or value.owner.name != "ng.reshape":
                return True
            value = value.owner.operands[0]

    def of_rows(self, value: Value, shape: Sequence[int], indices: Value, b: Builder) -> Value:
        """The rows of a value by number."""
        owner = source(value).owner
        assert isinstance(owner, Op)
        type = TensorType((_size(indices), shape[1]), element_type(owner.result.type))
        if owner.name == "ng.broadcast":
            return b.broadcast(owner.operands[0], dimensions=[1], type=type)
        if owner.name == "ng.dot":
            rows = b.gather(owner.operands[0], indices, axis=0)
            return b.add_op(owner.rebuilt([rows, owner.operands[1]], types=[type])).result
        operands = [self.of_rows(operand, shape, indices, b) for operand in owner.operands]
        return b.add_op(owner.rebuilt(operands, types=[type])).result

    def dot(self, op: Op, b: Builder) -> Value | None:
        """A product with scattered rows: over these, of rows gathered from the other side; otherwise, of the rows before they are scattered."""
        for side in (1, 0):
            scatter = self.scattered(op.operands[side])
            if scatter is None:
                continue
            zeros, indices, updates = scatter.operands
            other = op.operands[1 - side]
            rows = view(b, updates, [_size(indices), shape_of(zeros.type)[1]])
            sides = [other, rows] if side else [rows, other]
            if _is_over_rows(op):
                sides[1 - side] = b.gather(other, view(b, indices, [_size(indices)]), axis=0)
                return b.add_op(op.rebuilt(sides)).result
            wide = shape_of(op.result.type)[1]
            type = TensorType((_size(indices), wide), element_type(op.result.type))
            product = b.add_op(op.rebuilt(sides, types=[type])).result
            zero = b.number(0, op.result.type)
            updated = view(b, product, (*shape_of(indices.type), wide))
            return b.scatter(zero, indices, updated, axis=0, combine="add")
        return None

    def sum(self, op: Op, b: Builder) -> Value | None:
        """The sum of scattered rows."""
        scatter = self.scattered(op.operands[0])
        if scatter is None:
            return None
        zeros, indices, updates = scatter.operands
        rows = view(b, updates, [_size(indices), shape_of(zeros.type)[1]])
        return b.add_op(op.rebuilt([rows])).result

    def scattered(self, value: Value) -> Op | None:
        """The scatter of rows onto zeros, all of them to places that exist, which has no other uses than these rules rewrite."""
        owner = value.owner
        if not isinstance(owner, Op) or owner.name != "ng.scatter" or get_i64(owner, "axis"):
            return None
        zeros, indices, _ = owner.operands
        shape = shape_of(zeros.type)
        if (
            owner.attributes.get("combine") != StringAttr("add")
            or len(shape) != 2
            or not _is_number(zeros, 0, 0)
        ):
            return None
        if not _are_as_many(indices, shape[0]) or not _is_within(indices, shape[0]):
            return None
        value = self.origin.get(value, value)
        return owner if all(_takes_rows(op, value) for op in self.read_by(value)) else None


def _size(value: Value) -> int:
    return prod(shape_of(value.type))


def _are_as_many(indices: Value, rows: int) -> bool:
    """Whether about as many rows are moved as there are, or fewer."""
    return usual(_size(indices)) <= _ROWS * usual(rows)


def _is_plain(op: Op) -> bool:
    """Whether an op is a product of two matrices, of the rows of one with the columns of the other."""
    return _contracts(op, 1, 0)


def _is_over_rows(op: Op) -> bool:
    """Whether a product sums over the rows of both sides."""
    return _contracts(op, 0, 0)


def _contracts(op: Op, lhs: int, rhs: int) -> bool:
    matrices = all(len(shape_of(v.type)) == 2 for v in op.operands)
    return (
        matrices
        and not get_i64s(op, "lhs_batch")
        and get_i64s(op, "lhs_contract") == (lhs,)
        and get_i64s(op, "rhs_contract") == (rhs,)
    )


def _takes_rows(op: Op, scattered: Value) -> bool:
    """Whether an op that reads scattered rows can read the rows themselves."""
    if op.name == "ng.sum":
        return get_i64s(op, "axes") == (0,)
    if op.name != "ng.dot" or [*op.operands].count(scattered) != 1:
        return False
    width = usual(shape_of(scattered.type)[1])
    side = [*op.operands].index(scattered)
    other = shape_of(op.operands[1 - side].type)
    if _is_over_rows(op):
        return _NARROWER * usual(other[1]) <= width
    return side == 0 and _contracts(op, 1, get_i64s(op, "rhs_contract")[0]) and len(other) == 2


def _is_row(op: Op, shape: Sequence[int]) -> bool:
    """Whether an op repeats one row."""
    whole = are_same(shape, shape_of(op.results[0].type)) if op.results else False
    return whole and op.name == "ng.broadcast" and get_i64s(op, "dimensions") == (1,)


def _is_within(indices: Value, rows: int) -> bool:
    """Whether all indices are known to be rows: they are between two numbers."""
    below = _bounded(indices, "ng.minimum", 0, rows - 1)
    return below is not None and _bounded(below, "ng.maximum", 0, rows - 1) is not None


def _bounded(value: Value, name: str, least: int, most: int) -> Value | None:
    """What is bounded by a number in a range."""
    owner = source(value).owner
    if not isinstance(owner, Op) or owner.name != name or is_open([most]):
        return None
    value, bound = owner.operands
    return value if _is_number(bound, least, most) else None


def _is_number(value: Value, least: int, most: int) -> bool:
    """Whether all elements of a value are one number in a range."""
    literal = constant_elements(source(value))
    return literal is not None and literal.splat and least <= literal.bits <= most
