# SPDX-License-Identifier: Apache-2.0
"""The builder of IR: the ops of both dialects as methods on IR values, appended to a block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..ir.attributes import Attribute, StringAttr, TypeAttr, numeric_literal
from ..ir.context import CONTEXT
from ..ir.core import Block, Op, Region, Value, kind_key
from ..ir.definition import Typing
from ..ir.elements import filled
from ..ir.types import (
    DYNAMIC,
    FunctionType,
    MemRefType,
    ShapedType,
    Type,
    VectorType,
    as_memref,
    element_type,
    index,
)
from ..support.diagnostics import UNKNOWN, Diagnostic, Location, UserError
from ..support.lengths import Length, is_same
from . import func, ng, tile
from .fields import attributes_of
from .positions import folded, known

Branch = Callable[[], Sequence[Value] | None]


def yielded(region: Region) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """Types of a region's arguments and of what it yields."""
    if not region.blocks:
        return (), ()
    end = region.blocks[-1].ops[-1] if region.blocks[-1].ops else None
    return tuple(a.type for a in region.blocks[0].args), tuple(o.type for o in end.operands) if end else ()


def build_op(
    op: type[Op],
    operands: Sequence[Value],
    values: Mapping[str, Any],
    *,
    types: Sequence[Type] | None = None,
    regions: Sequence[Region] = (),
    location: Location = UNKNOWN,
    names: Sequence[str] = (),
) -> Op:
    """One op with inferred (or stated) result types; UserError at `location` where it is ill-typed."""
    definition = op.definition
    assert definition is not None
    attributes = attributes_of(op, values)
    taken = tuple([o.type for o in operands])
    # Types and attributes are uniqued and rules are functions of them, so the results of inference are cached.
    key = kind_key(op.name, taken, tuple(types or ()), attributes) if not regions else None
    kind = CONTEXT.inferred.find(key) if key is not None else None
    if kind is not None:
        return op(operands, kind.results, attributes, regions, location, names=names)
    try:
        results = definition.infer(
            Typing(taken, attributes, tuple(types or ()), tuple([yielded(r) for r in regions]))
        )
    except UserError as error:
        what = error.diagnostics[0]
        raise UserError(Diagnostic(f"{op.name}: {what.message}", location, hint=what.hint)) from None
    made = op(operands, results, attributes, regions, location, names=names)
    if key is not None:
        CONTEXT.inferred.add(key, made.kind)
    return made


class Builder(ng.NgVerbs[Value], tile.TileVerbs[Value]):
    """Appends to `block`. New ops have `location` (that of the op being replaced, or of the user's call)."""

    def __init__(self, block: Block, location: Location = UNKNOWN):
        self.block = block
        self.location = location
        #: The constant indices that may be used in a block: those defined in it or around it.
        self.numbers: dict[Block, dict[int, Value]] = {}

    def build(
        self,
        op: type[Op],
        operands: Sequence[Value],
        attributes: Mapping[str, Any],
        *,
        types: Sequence[Type] | None = None,
        regions: Sequence[Region] = (),
    ) -> Sequence[Value]:
        known = folded(op, operands)
        if known is not None:
            return [self.index(known) if isinstance(known, int) else known]
        made = build_op(op, operands, attributes, types=types, regions=regions, location=self.location)
        self.block.ops.append(made)
        return made.results

    def add_op(self, op: Op) -> Op:
        """Appends an existing op."""
        self.block.ops.append(op)
        return op

    # Where both dialects have an op of the same name, the plain method is ng's.

    def dot_tile(
        self, lhs: Value, rhs: Value, accumulator: Value, words: str = "", tf32: bool = False
    ) -> Value:
        """`tile.dot`."""
        given: Any = words or None
        return tile.TileVerbs.dot(self, lhs, rhs, accumulator, words=given, tf32=tf32)

    def gather_tile(self, buffer: Value, indices: Sequence[Value], *, type: Type) -> Value:
        """`tile.gather`."""
        return tile.TileVerbs.gather(self, buffer, indices, type=type)

    def scatter_tile(
        self, value: Value, mask: Value, buffer: Value, indices: Sequence[Value], *, combine: str = "set"
    ) -> None:
        """`tile.scatter`."""
        self.build(tile.ScatterOp, [value, mask, buffer, *indices], {"combine": combine})

    def number(self, value: float | int | bool | Attribute, type: Type) -> Value:
        """A constant of `type`, the same in every element."""
        if isinstance(value, Length) and isinstance(type, ShapedType):
            return self.extent(value=value, type=type)
        literal = value if isinstance(value, Attribute) else numeric_literal(value, element_type(type))
        return self.constant(type=type, value=filled(literal, type))

    def progression(self, first: int, steps: Sequence[int], type: Type) -> Value:
        """`first`, and by so much more along each dimension, where a constant cannot represent them: they may depend on open lengths."""
        made: Value | None = None
        for dimension, step in enumerate(steps):
            if not is_same(step, 0):
                line = self.iota(type=type, dimension=dimension)
                line = line if is_same(step, 1) else self.multiply(line, self.number(step, type))
                made = line if made is None else self.add(made, line)
        if made is None:
            return self.number(first, type)
        return made if is_same(first, 0) else self.add(made, self.number(first, type))

    def index(self, value: int) -> Value:
        """A constant index: an existing one, if there is one."""
        numbers = self.numbers.setdefault(self.block, {})
        if value not in numbers:
            numbers[value] = self.number(value, index)
        return numbers[value]

    def splat(self, scalar: Value, type: Type) -> Value:
        """A scalar in every element of a tile; the scalar itself for a scalar type."""
        return self.broadcast(scalar, type=type, dimensions=()) if isinstance(type, VectorType) else scalar

    def window(
        self, buffer: Value, indices: Sequence[Value], shape: Sequence[int], masked: bool = False
    ) -> Value:
        """`tile.subview` of so many elements along the last dimensions of a buffer. `masked`: it may extend beyond the buffer."""
        whole = as_memref(buffer.type)
        strides = whole.row_strides[whole.rank - len(shape) :]
        type = MemRefType(tuple(shape), whole.element, strides, DYNAMIC, whole.space)
        return self.subview(buffer, indices, type=type, masked=masked or None)

    def end(self, op: type[Op], *values: Value) -> None:
        """Ends the block with a terminator: `ng.YieldOp`, `func.ReturnOp`, `tile.ReturnOp`."""
        self.block.ops.append(op(values, (), {}, (), self.location))

    @contextmanager
    def region(self, *types: Type, names: Sequence[str] = ()) -> Generator[tuple[Region, tuple[Value, ...]]]:
        """A new region of one block; ops built inside the `with` go there."""
        block = Block(types, names)
        outer, self.block = self.block, block
        self.numbers[block] = dict(self.numbers.get(outer, {}))
        try:
            yield Region(block), block.args
        finally:
            self.block = outer

    def loop(
        self,
        lower: int | Value,
        upper: int | Value,
        step: int | Value,
        carried: Sequence[Value],
        body: Callable[[Value, Sequence[Value]], Sequence[Value] | None],
        *,
        name: str = "i",
        stages: int = 1,
    ) -> Sequence[Value]:
        """`tile.for`; `body(index, carried values)` builds the body and returns the next carried values. `name` is that of the index,
        `stages` how many iterations are in flight at once. A body returns nothing if nothing is carried."""
        names, location = [name, *[c.name for c in carried]], self.location
        with self.region(index, *[c.type for c in carried], names=names) as (region, (position, *values)):
            self.end(ng.YieldOp, *(body(position, values) or ()))
        self.location = location  # the loop's, whatever the location of the last op of its body
        low, high, stride = (_number_or_value(b) for b in (lower, upper, step))
        return self.for_(
            low,
            high,
            stride,
            carried,
            types=[c.type for c in carried],
            stages=stages if stages > 1 else None,
            regions=[region],
        )

    def branch(self, condition: Value, then: Branch, otherwise: Branch = lambda: ()) -> Sequence[Value]:
        """`ng.if`; each function builds a branch and returns what it yields, if anything."""
        with self.region() as (first, _):
            values = then() or ()
            self.end(ng.YieldOp, *values)
        with self.region() as (second, _):
            self.end(ng.YieldOp, *(otherwise() or ()))
        return self.if_(condition, types=[v.type for v in values], regions=[first, second])


def _number_or_value(bound: int | Value) -> int | Value:
    number = known(bound) if isinstance(bound, Value) else bound
    return bound if number is None else number


def function(
    name: str,
    block: Block,
    attributes: Mapping[str, Attribute] | None = None,
    *,
    kind: type[Op] = func.FuncOp,
    location: Location = UNKNOWN,
) -> Op:
    """A function or kernel around a finished block; its type follows from the arguments and the terminator."""
    end = block.ops[-1]
    type = FunctionType(tuple(a.type for a in block.args), tuple(o.type for o in end.operands))
    named = {"sym_name": StringAttr(name), "function_type": TypeAttr(type)}
    given = {**attributes_of(kind, named), **(attributes or {})}
    return kind((), (), given, (Region(block),), location)
