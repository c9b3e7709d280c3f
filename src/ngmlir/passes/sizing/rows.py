# SPDX-License-Identifier: Apache-2.0
"""Which rows of its operands each row of an op's result is computed from: the rules that decide whether rows stay apart.

A value has rows where one of its dimensions counts the samples of an open length, alone or in front of others that were
flattened with it. A rule says, for an op of which some operands have rows, along which dimensions all of its operands must
have them so that each row of the results follows from that row alone; or why there is no such way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ...ir.attributes import Attribute, integers
from ...ir.core import Op
from ...ir.types import TensorType, Type, shape_of
from ...ops.fields import get_i64, get_i64s
from ...support.rows import Rows


class MixesRows(Exception):
    """An op computes one row from others, or not from the rows at all."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Reading:
    """How an op goes row by row: what its operands and its results have, and attributes that name whole lengths."""

    operands: tuple[Rows | None, ...]
    results: tuple[Rows | None, ...]
    #: Attribute -> the place in it that says how long the dimension with rows is.
    lengths: Mapping[str, int] = field(default_factory=dict[str, int])


Given = Sequence[Rows | None]
Rule = Callable[[Op, Given], Reading]


def reading(op: Op, given: Given) -> Reading:
    """How an op, of which at least one operand has rows, computes them. Raises MixesRows where it does not row by row."""
    family = next((_BY_TRAIT[trait] for trait in op.traits if trait in _BY_TRAIT), None)
    rule = family or _BY_NAME.get(op.name)
    if rule is None:
        raise MixesRows("is not known to compute rows independently")
    return rule(op, given)


def resized(type: Type, rows: Rows, length: int) -> TensorType:
    """The type with so many rows."""
    assert isinstance(type, TensorType)
    shape = list(type.shape)
    shape[rows.dimension] = length * rows.inner
    return TensorType(tuple(shape), type.element, type.encoding)


def reshaped_rows(source: Sequence[int], rows: Rows, target: Sequence[int]) -> Rows | None:
    """The rows of a value that is seen in another shape; None where they are torn apart."""
    length = source[rows.dimension] // rows.inner
    before = prod(source[: rows.dimension])
    places = [
        d for d, size in enumerate(target) if length and size % length == 0 and prod(target[:d]) == before
    ]
    if not places:
        return None
    # Of one row there may be several dimensions of one element: the one at the same place is what more rows would have.
    place = rows.dimension if rows.dimension in places else places[0]
    return Rows(place, target[place] // length)


def _first(given: Given) -> Rows:
    return next(rows for rows in given if rows is not None)


def _alike(op: Op, given: Given) -> Reading:
    """Each element from those at its place."""
    rows = _first(given)
    return Reading((rows,) * len(op.operands), (rows,) * len(op.results))


def _apart(rows: Rows, axes: Sequence[int], what: str) -> None:
    if rows.dimension in axes:
        raise MixesRows(what)


def _along(op: Op, given: Given) -> Reading:
    """Along some dimensions, all of which stay."""
    axes = get_i64s(op, "axes") if "axes" in op.attributes else (get_i64(op, "axis"),)
    _apart(_first(given), axes, "computes along it")
    return _alike(op, given)


def _reduction(op: Op, given: Given) -> Reading:
    rows, axes = _first(given), get_i64s(op, "axes")
    _apart(rows, axes, "reduces it")
    left = rows.at(rows.dimension - sum(a < rows.dimension for a in axes))
    return Reading((rows,) * len(op.operands), (left,))


def _broadcast(op: Op, given: Given) -> Reading:
    rows = _first(given)
    return Reading((rows,), (rows.at(get_i64s(op, "dimensions")[rows.dimension]),))


def _transpose(op: Op, given: Given) -> Reading:
    rows = _first(given)
    return Reading((rows,), (rows.at(get_i64s(op, "permutation").index(rows.dimension)),))


def _reshape(op: Op, given: Given) -> Reading:
    rows = _first(given)
    made = reshaped_rows(shape_of(op.operands[0].type), rows, shape_of(op.result.type))
    if made is None:
        raise MixesRows("does not keep rows together")
    return Reading((rows,), (made,))


def _slice(op: Op, given: Given) -> Reading:
    rows = _first(given)
    d = rows.dimension
    size = shape_of(op.operands[0].type)[d]
    part = tuple(get_i64s(op, name)[d] for name in ("starts", "limits", "steps"))
    if part != (0, size, 1):
        raise MixesRows("takes a slice of it")
    return Reading((rows,), (rows,), {"limits": d})


def _pad(op: Op, given: Given) -> Reading:
    rows = _first(given)
    if get_i64s(op, "low")[rows.dimension] or get_i64s(op, "high")[rows.dimension]:
        raise MixesRows("pads it")
    return _alike(op, given)


def _concatenate(op: Op, given: Given) -> Reading:
    _apart(_first(given), [get_i64(op, "axis")], "concatenates along it")
    return _alike(op, given)


def _stack(op: Op, given: Given) -> Reading:
    rows, axis = _first(given), get_i64(op, "axis")
    return Reading((rows,) * len(op.operands), (rows.at(rows.dimension + (axis <= rows.dimension)),))


def _one_hot(op: Op, given: Given) -> Reading:
    return _stack(op, given)


def _windows(op: Op, given: Given) -> Reading:
    rows, axes = _first(given), get_i64s(op, "axes")
    _apart(rows, axes, "has windows along it")
    return Reading((rows,), (rows.at(rows.dimension + len(axes)),))


def _overlap_add(op: Op, given: Given) -> Reading:
    rows, axes = _first(given), get_i64s(op, "axes")
    result = rows.at(rows.dimension - len(axes))
    if result.dimension < 0 or result.dimension in axes:
        raise MixesRows("adds overlapping windows along it")
    return Reading((rows,), (result,))


def _gather(op: Op, given: Given) -> Reading:
    table, indices = given
    axis, rank = get_i64(op, "axis"), len(shape_of(op.operands[1].type))
    if indices is not None:
        if table is not None:
            raise MixesRows("looks up rows by rows")
        return Reading((None, indices), (indices.at(axis + indices.dimension),))
    assert table is not None
    _apart(table, [axis], "looks up rows by their position")
    d = table.dimension
    return Reading((table, None), (table.at(d if d < axis else d - 1 + rank),))


def _gather_elements(op: Op, given: Given) -> Reading:
    table, indices = given
    axis = get_i64(op, "axis")
    if table is None and indices is not None and indices.dimension == axis:
        return Reading((None, indices), (indices,))
    rows = _first(given)
    _apart(rows, [axis], "looks up rows by their position")
    return Reading((rows, rows), (rows,))


def _scatter(op: Op, given: Given) -> Reading:
    table, indices, updates = given
    axis, rank = get_i64(op, "axis"), len(shape_of(op.operands[1].type))
    if indices is not None or (table is None and updates is None):
        raise MixesRows("writes at positions that depend on rows")
    if table is None:
        assert updates is not None
        d = updates.dimension
        if axis <= d < axis + rank:
            raise MixesRows("writes several rows to one place")
        table = updates.at(d if d < axis else d + 1 - rank)
    _apart(table, [axis], "writes rows by their position")
    d = table.dimension
    return Reading((table, None, table.at(d if d < axis else d - 1 + rank)), (table,))


def _dot(op: Op, given: Given) -> Reading:
    side = 0 if given[0] is not None else 1
    rows, other = _first(given), 1 - side
    names = ("lhs", "rhs")
    contract, batch = (get_i64s(op, f"{names[side]}_{what}") for what in ("contract", "batch"))
    d = rows.dimension
    _apart(rows, contract, "sums over it")
    if d in batch:
        place = list(batch).index(d)
        pair = rows.at(get_i64s(op, f"{names[other]}_batch")[place])
        both = (rows, pair) if side == 0 else (pair, rows)
        return Reading(both, (rows.at(place),))
    if given[other] is not None:
        raise MixesRows("multiplies rows by rows")
    free = [
        (s, i)
        for s in (0, 1)
        for i in range(len(shape_of(op.operands[s].type)))
        if i not in get_i64s(op, f"{names[s]}_contract") and i not in get_i64s(op, f"{names[s]}_batch")
    ]
    result = rows.at(len(batch) + free.index((side, d)))
    return Reading((rows, None) if side == 0 else (None, rows), (result,))


def with_length(op: Op, names: Mapping[str, int], size: int) -> Mapping[str, Attribute]:
    """The attributes of an op with another length where `names` say so."""
    changed = dict(op.attributes)
    for name, place in names.items():
        values = list(get_i64s(op, name))
        values[place] = size
        changed[name] = integers(values)
    return changed


_BY_TRAIT: Mapping[str, Rule] = {
    "elementwise": _alike,
    "reduction": _reduction,
    "cumulative": _along,
    "row": _along,
}
#: The ops that belong to no family.
_BY_NAME: Mapping[str, Rule] = {
    "ng.cast_axes": _alike,
    "ng.broadcast": _broadcast,
    "ng.transpose": _transpose,
    "ng.reshape": _reshape,
    "ng.slice": _slice,
    "ng.pad": _pad,
    "ng.concatenate": _concatenate,
    "ng.stack": _stack,
    "ng.windows": _windows,
    "ng.overlap_add": _overlap_add,
    "ng.gather": _gather,
    "ng.lookup": _gather,
    "ng.gather_elements": _gather_elements,
    "ng.scatter": _scatter,
    "ng.one_hot": _one_hot,
    "ng.argsort": _along,
    "ng.first_max": _reduction,
    "ng.argmax": _reduction,
    "ng.argmin": _reduction,
    "ng.normalize": _along,
    "ng.cross_entropy": _reduction,
    "ng.dot": _dot,
}
