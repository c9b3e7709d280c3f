# SPDX-License-Identifier: Apache-2.0
"""Sparse updates of a table by the gradient of some of its rows: only these rows are read, computed and written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isfinite, prod

from ...ir.core import Block, Module, Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import TensorType, as_tensor, element_type, i32, shape_of
from ...ops.builder import Builder
from ...ops.fields import constant_elements, get_i64, get_i64s, get_str
from ...ops.merging import merged
from ...rewrite.contracts import contract
from ...support.lengths import is_open, usual
from ...support.target import Target
from ..analysis.indices import position
from .dead_code import without_dead

#: Least number of elements of a table, and of its rows for each updated row, at which the pass applies.
_LEAST, _ROWS = 1 << 12, 8
#: Ops whose result at 0 is 0.
_ODD = frozenset({"ng.negative", "ng.absolute", "ng.square", "ng.sqrt", "ng.sign", "ng.cast", "ng.cast_axes"})


@contract(needs=("named", "plain"), anchor="function", only="cpu")
def update_rows(module: Module, target: Target) -> Module:
    """On CPUs, computes an updated table only at the rows that a sparse gradient has. It applies to elementwise expressions of a
    table and of scatters that add to zeros, which equal the table wherever the scatters are 0.

    Updates with equal indices are added in their order, so the bits of the result are the same. All other rows are left unchanged:
    this assumes that factors are finite, and divisors not 0, at rows whose gradient is 0.

    Before:
        func.func @main(%t: tensor<1000x8xf32>, %i: tensor<1xi64>, %u: tensor<1x8xf32>, %c: tensor<1000x8xf32>) -> tensor<1000x8xf32> {
          %0 = ng.constant dense<0.0> : tensor<1000x8xf32>
          %1 = ng.scatter %0[%i], %u axis 0 {combine = "add"} : (tensor<1000x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<1000x8xf32>
          %2 = ng.multiply %c, %1 : tensor<1000x8xf32>
          %3 = ng.subtract %t, %2 : tensor<1000x8xf32>
          return %3 : tensor<1000x8xf32>
        }
    After:
        func.func @main(%t: tensor<1000x8xf32>, %i: tensor<1xi64>, %u: tensor<1x8xf32>, %c: tensor<1000x8xf32>) -> tensor<1000x8xf32> {
          ...
          %12 = ng.constant dense<0> : tensor<1xi32>
          %13 = ng.gather %t[%11] axis 0 : (tensor<1000x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
          %14 = ng.gather %c[%11] axis 0 : (tensor<1000x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
          %15 = ng.constant dense<0.0> : tensor<1x8xf32>
          %16 = ng.reshape %u : tensor<1x8xf32>
          %17 = ng.scatter %15[%12], %16 axis 0 {combine = "add"} : (tensor<1x8xf32>, tensor<1xi32>, tensor<1x8xf32>) -> tensor<1x8xf32>
          %18 = ng.multiply %14, %17 : tensor<1x8xf32>
          %19 = ng.subtract %13, %18 : tensor<1x8xf32>
          %20 = ng.scatter %t[%11], %19 axis 0 : (tensor<1000x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<1000x8xf32>
          func.return %20 : tensor<1000x8xf32>
        }
    """
    return module.with_ops([_function(op) if op.name == "func.func" else op for op in module.ops])


def _function(function: Op) -> Op:
    made = function.with_blocks(_block)
    return function if made is function else without_dead(made)


def _block(block: Block) -> Block:
    updates = _updates(block)
    if not updates:
        return block
    out = block.emptied()
    b, mapping = Builder(out), dict[Value, Value]()
    for old in block.ops:
        changed = any(v in mapping for v in old.operands)
        op = old.rebuilt([mapping.get(v, v) for v in old.operands]) if changed else old
        if old in updates:
            b.location = op.location
            made = [_Rows(b, op.results[0]).written_to(mapping.get(updates[old], updates[old]))]
        else:
            out.ops.append(op)
            made = op.results
        if made is not old.results:
            mapping.update(zip(old.results, made, strict=True))
    return out


def _is_leaf(value: Value) -> bool:
    """Whether a value is a large tensor with few nonzero rows: a scatter that adds to zeros."""
    op = value.owner
    if not isinstance(op, Op) or op.name != "ng.scatter" or not all(map(_is_static, op.operands)):
        return False
    whole, ids, _ = op.operands
    zeros, shape = constant_elements(whole), shape_of(whole.type)
    if get_str(op, "combine") != "add" or get_i64(op, "axis") != 0 or zeros is None:
        return False
    count = prod(shape_of(ids.type))
    # The bits are the same either way.
    few = usual(prod(shape)) >= _LEAST and usual(count) * _ROWS <= usual(shape[0])
    return zeros.splat and not zeros.bits and few and count > 0


def _is_static(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.static


def _updates(block: Block) -> dict[Op, Value]:
    """The ops that compute updated tables that other ops or the caller use, each with its old table."""
    zeros: dict[
        Value, Value | None
    ] = {}  # value computed from leaves -> the value that it equals where these are 0; None: 0
    users: dict[Value, list[Op]] = {}
    for op in block.ops:
        for value in op.operands:
            users.setdefault(value, []).append(op)
        if len(op.results) != 1:
            continue
        (result,) = op.results
        if _is_leaf(result):
            zeros[result] = None
        elif "elementwise" in op.traits and any(v in zeros for v in op.operands):
            found = _at_zero(op, zeros)
            if not isinstance(found, Op):
                zeros[result] = found
    made: dict[Op, Value] = {}
    for value, table in zeros.items():
        is_used = any(not (op.results and op.results[0] in zeros) for op in users.get(value, ()))
        if table is not None and is_used and table.type is value.type and isinstance(value.owner, Op):
            made[value.owner] = table
    return made


def _at_zero(op: Op, zeros: dict[Value, Value | None]) -> Value | Op | None:
    """What the result of an op is where the leaves are 0: a value, or None for 0; the op itself where that is unknown."""
    found = [zeros.get(v, v) for v in op.operands]
    if op.name == "ng.multiply" and None in found:
        other = next((v for v in found if v is not None), None)
        literal = None if other is None else constant_elements(other)
        is_finite = literal is None or (literal.splat and isfinite(float(literal.array().flat[0])))
        return None if is_finite else op
    if op.name == "ng.add" and None in found:
        return found[1] if found[0] is None else found[0]
    if op.name == "ng.subtract" and found[1] is None:
        return found[0]
    if found[0] is None and (op.name in _ODD or (op.name == "ng.divide" and found[1] is not None)):
        return None
    return op


class _Rows:
    """Computes the rows of an updated table that differ from the old one, from the same rows of its operands."""

    def __init__(self, b: Builder, value: Value):
        self.b, self.value = b, value
        self.leaves: dict[Value, None] = {}
        self.seen: set[Value] = set()
        self.known: dict[Value, Value] = {}
        self._look(value)
        self.height, *self.width = shape_of(value.type)
        parts = {leaf: self._places(leaf) for leaf in self.leaves}
        places = list(dict.fromkeys(parts.values()))
        self.count = sum(shape_of(v.type)[0] for v in places)
        self.ids, numbers = self._merged(places)
        self.numbers = {leaf: numbers[places.index(place)] for leaf, place in parts.items()}

    def written_to(self, table: Value) -> Value:
        """The table with these rows scattered into it."""
        return self.b.scatter(table, self.ids, self.rows(self.value), axis=0)

    def _look(self, value: Value) -> None:
        """Collects the leaves that a value is computed from."""
        op = value.owner
        if value in self.seen or not isinstance(op, Op):
            return
        self.seen.add(value)
        if _is_leaf(value):
            self.leaves[value] = None
        elif "elementwise" in op.traits:
            for operand in op.operands:
                self._look(operand)

    def _type(self, value: Value) -> TensorType:
        return TensorType((self.count, *self.width), element_type(value.type))

    # ---- indices of rows

    def _places(self, leaf: Value) -> Value:
        """The row indices of a leaf, as a 1-D tensor; an index out of range is the number of rows."""
        assert isinstance(leaf.owner, Op)
        b, ids = self.b, leaf.owner.operands[1]
        flat = b.reshape(ids, type=TensorType((prod(shape_of(ids.type)),), element_type(ids.type)))
        place = position(b, flat, self.height)
        end = b.number(self.height, place.type)
        inside = b.bitwise_and(b.greater_equal(place, b.number(0, place.type)), b.less(place, end))
        return b.select(inside, place, end)

    def _merged(self, parts: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The distinct row indices, followed by ones out of range; and for each part where its rows are among them."""
        b, n = self.b, self.count
        places = parts[0] if len(parts) == 1 else b.concatenate(parts, axis=0)
        line = TensorType((n,), i32)
        if n == 1:
            return places, [b.number(0, line)]
        ids, number = merged(b, places, as_tensor(places.type), self.height, self._filled)
        ends = [*accumulate([shape_of(part.type)[0] for part in parts])]
        if len(parts) == 1:
            return ids, [number]
        starts = [0, *ends]
        cuts = zip(starts, ends, strict=False)
        return ids, [b.slice(number, starts=(s,), limits=(e,), steps=(1,)) for s, e in cuts]

    # ---- rows

    def _filled(self, value: float, type: TensorType) -> Value:
        """A tensor filled with a number; for an open length a broadcast, since a constant would have to be stored."""
        if not is_open(type.shape):
            return self.b.number(value, type)
        scalar = self.b.number(value, TensorType((), type.element))
        return self.b.broadcast(scalar, type=type, dimensions=())

    def rows(self, value: Value) -> Value:
        """The updated rows of a value."""
        if value not in self.known:
            self.known[value] = self._rows(value)
        return self.known[value]

    def _rows(self, value: Value) -> Value:
        b, op, type = self.b, value.owner, self._type(value)
        literal = constant_elements(value)
        if literal is not None and literal.splat:
            return b.constant(type=type, value=ElementsAttr(literal.data, type))
        if value in self.leaves:
            assert isinstance(op, Op)
            number, updates = self.numbers[value], op.operands[2]
            lines = TensorType((*shape_of(number.type), *self.width), element_type(value.type))
            return b.scatter(
                self._filled(0, type), number, b.reshape(updates, type=lines), axis=0, combine="add"
            )
        if isinstance(op, Op) and "elementwise" in op.traits:
            return b.add_op(op.rebuilt([self.rows(v) for v in op.operands], types=[type])).results[0]
        if isinstance(op, Op) and op.name == "ng.broadcast" and 0 not in (dims := get_i64s(op, "dimensions")):
            return b.broadcast(op.operands[0], type=type, dimensions=dims)
        plain = TensorType(shape_of(value.type), element_type(value.type))
        return b.gather(value if value.type is plain else b.reshape(value, type=plain), self.ids, axis=0)
