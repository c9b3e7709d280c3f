# SPDX-License-Identifier: Apache-2.0
"""Moves transposes after the ops that use them, to the next product or reduction: that reads any order, so no data moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.attributes import Attribute
from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import TensorType, Type, as_tensor, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.loops import loops_of
from ...ops.rules import names_of, reshaped
from ..analysis.group import splat
from ..analysis.reduction import POSITIONS
from ..analysis.space import IterationSpace

#: Ops of one tensor, besides reductions, that can be applied before a transpose instead of after it.
_FOLLOWERS = frozenset({"ng.pad", "ng.slice", "ng.windows", "ng.reshape", "ng.cast_axes"})

#: Returns a value in another order if that moves no data, else None.
Free = Callable[[Value, Sequence[int], Builder], Value | None]


def permuted(type: Type, order: Sequence[int]) -> TensorType:
    """The type whose dimension i is dimension order[i] of another one, of a tensor."""
    names, shape = names_of(type), shape_of(type)
    return as_tensor(reshaped(type, [shape[d] for d in order], names and [names[d] for d in order]))


def in_place(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a transpose leaves the elements in their order in memory: only dimensions of size 1 move."""
    long = [d for d in order if shape[d] != 1]
    return long == sorted(long)


def order_of(value: Value) -> tuple[int, ...] | None:
    """The permutation of the transpose that made a value, or None."""
    owner = value.owner
    if isinstance(owner, Op) and owner.name == "ng.transpose":
        return get_i64s(owner, "permutation")
    return None


def source_of(value: Value) -> Value:
    assert isinstance(value.owner, Op)
    return value.owner.operands[0]


def inverse(order: Sequence[int]) -> list[int]:
    """The inverse permutation."""
    return [list(order).index(d) for d in range(len(order))]


def absorbed(ops: Sequence[Op]) -> set[Value]:
    """The transposes, and values computed only from them and from values that can have any order, that reach an op which reads
    any order: there the transposes disappear. So those that reach a cast to fewer bytes: after it they move fewer."""
    turned: set[Value] = set()
    free: set[Value] = set()
    for op in ops:
        into = free if _is_free(op, free) else turned if _transposes(op, turned, free) else None
        if into is not None:
            into.update(op.results)
    taken: set[Value] = set()
    for op in reversed(ops):
        # Products, reductions and transposes read any order of their operands.
        reads = "reduction" in op.traits or op.name in ("ng.dot", "ng.transpose") or is_shortening(op)
        if reads or any(result in taken and result in turned for result in op.results):
            taken.update(v for v in op.operands if v in turned)
    return taken


def is_shortening(op: Op) -> bool:
    """Whether an op is a cast to fewer bytes."""
    if op.name != "ng.cast":
        return False
    return item_bytes(element_type(op.result.type)) < item_bytes(element_type(op.operands[0].type))


def _is_free(op: Op, free: set[Value]) -> bool:
    if op.name == "ng.constant":
        return splat(op)
    if op.name in ("ng.iota", "ng.extent", "ng.broadcast"):
        return True
    return "elementwise" in op.traits and all(v in free for v in op.operands)


def _transposes(op: Op, turned: set[Value], free: set[Value]) -> bool:
    if op.name == "ng.transpose":
        return True
    if "reduction" in op.traits or op.name in _FOLLOWERS:
        return op.operands[0] in turned and (op.name != "ng.reshape" or parts_of(op) is not None)
    if op.name != "ng.concatenate" and "elementwise" not in op.traits:
        return False
    return any(v in turned for v in op.operands) and all(v in turned or v in free for v in op.operands)


def sunk(op: Op, free: Free, b: Builder) -> Value | None:
    """The result of a reduction, a gather, or an op among those `absorbed`, computed on the operands of the transposes and then
    transposed; None if no operand is a transpose, or their orders differ. The indices of a gather stay as they are."""
    moved = op.operands[:1] if "gathers" in op.traits else op.operands
    order = next((order for v in moved if (order := order_of(v)) is not None), None)
    if order is None or (op.name in POSITIONS and len(get_i64s(op, "axes")) > 1):
        return None  # argmax and argmin over several axes count elements in the order of the axes
    back = inverse(order)
    operands: list[Value] = []
    for value in moved:
        own = source_of(value) if order_of(value) == tuple(order) else free(value, back, b)
        if own is None:
            return None
        operands.append(own)
    if op.name == "ng.reshape":
        return _reshape(op, operands[0], order, b)
    loops = loops_of(op)
    assert loops is not None
    count = len(moved)
    lying = [*([own[d] for d in back] for own in loops.operands[:count]), *map(list, loops.operands[count:])]
    result = loops.following(lying)
    changed = None if result is None else loops.reordered(lying, result)
    if result is None or changed is None:
        return None
    operands += op.operands[count:]
    return _same(op, operands, changed, [result.index(loop) for loop in loops.results[0]], b)


def _same(
    op: Op, operands: Sequence[Value], changed: Mapping[str, Attribute], order: Sequence[int], b: Builder
) -> Value:
    """A copy of an op on other operands, whose result is transposed by `order` to the original one."""
    type = permuted(op.results[0].type, inverse(order))
    new = op.rebuilt(operands, types=[type], attributes={**op.attributes, **changed})
    b.add_op(new)
    if list(order) == sorted(order):
        return new.results[0]
    return b.transpose(new.results[0], permutation=list(order))


def parts_of(op: Op) -> list[int | None] | None:
    """For each dimension of a reshape's result that of the operand which it is a part of, None for size 1; None where a dimension
    joins several."""
    space, source = IterationSpace(), shape_of(op.operands[0].type)
    lying, made = (
        [space.atoms([size]) for size in shape] for shape in (source, shape_of(op.results[0].type))
    )
    if not space.unify(*(tuple(a for own in dims for a in own) for dims in (lying, made))):
        return None
    homes = {atom: d for d, own in enumerate(lying) for atom in space.resolve(own)}
    found = [[*dict.fromkeys(homes[a] for a in space.resolve(own))] for own in made]
    return None if any(len(own) > 1 for own in found) else [own[0] if own else None for own in found]


def _reshape(op: Op, source: Value, order: Sequence[int], b: Builder) -> Value:
    """A reshape that splits dimensions on the operand of a transpose: the parts of each are placed as it is in the source, dimensions
    of size 1 next to the dimension before them."""
    homes = parts_of(op)
    assert homes is not None
    places: list[tuple[int, int]] = []
    for number, home in enumerate(homes):
        before = places[-1][0] if places else -1
        places.append((before if home is None else order[home], number))
    moved = [sorted(places).index(place) for place in places]
    return _same(op, [source], {}, moved, b)
