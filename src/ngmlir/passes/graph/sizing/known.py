# SPDX-License-Identifier: Apache-2.0
"""Specializes a function to known lengths: every `?` in it becomes a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ....ir.attributes import ArrayAttr, AxesAttr, DictAttr, IntegerAttr
from ....ir.core import Block, Op, Region, Value
from ....ir.definition import Typing
from ....ir.types import DYNAMIC, TensorType, Type, shape_of
from ....ops.builder import Builder, function
from ....ops.fields import get_i64
from ....ops.rows import MixesRows, reading
from ....ops.sampled import OPEN
from ....support.diagnostics import Diagnostic, Limit, UserError
from ....support.rows import Length, Rows


def open_lengths(main: Op) -> list[Length]:
    """The open lengths (`?`) of the arguments of a function. Dimensions with the same axis name have one length, and so have
    unnamed dimensions with the same index."""
    found: dict[str, list[tuple[int, int]]] = {}
    for i, value in enumerate(main.block.args):
        type = value.type
        if not isinstance(type, TensorType):
            continue
        for d, size in enumerate(type.shape):
            if size == DYNAMIC:
                found.setdefault(name_of(type, d), []).append((i, d))
    return [Length(name, tuple(places)) for name, places in found.items()]


def sampled_lengths(main: Op) -> list[Length]:
    """The lengths of a function that are only an example, declared by `{ng.open = 0 : i64}` on arguments. Raises UserError where
    an argument has no such dimension."""
    labels = main.attributes.get("arg_attrs")
    found: dict[str, list[tuple[int, int]]] = {}
    for i, label in enumerate(labels.items if isinstance(labels, ArrayAttr) else ()):
        place = dict(label.items).get(OPEN) if isinstance(label, DictAttr) else None
        if isinstance(place, IntegerAttr):
            rank = len(shape_of(main.block.args[i].type))
            if not 0 <= place.value < rank:
                raise UserError(
                    f"ng.open is {place.value} for argument {i} of @{main.symbol}, which has {rank} dimensions",
                    main.location,
                    hint="it must be the index of a dimension",
                )
            found.setdefault(name_of(main.block.args[i].type, place.value), []).append((i, place.value))
    return [Length(name, tuple(places)) for name, places in found.items()]


def name_of(type: Type, dimension: int) -> str:
    """The name of the length of a dimension: that of its axis, or one made of its index."""
    axes = type.axes if isinstance(type, TensorType) else None
    return axes[dimension] if axes is not None else f"dimension {dimension}"


def with_lengths(main: Op, known: Mapping[tuple[int, int], int]) -> Op:
    """The function for these lengths of its arguments' dimensions. Raises UserError where they contradict each other, and
    Limit where the length of a value in the body does not follow from them."""
    return _Writer(main, known).function(main)


class _Writer:
    def __init__(self, main: Op, known: Mapping[tuple[int, int], int]):
        self.known = known
        lengths = {length.name: known[length.places[0]] for length in open_lengths(main)}
        self.named = lengths
        #: The length of a `?` that follows from no operand, if all open lengths are equal.
        self.only = next(iter(lengths.values())) if len(set(lengths.values())) == 1 else None
        self.new: dict[Value, Value] = {}

    def function(self, main: Op) -> Op:
        types: list[Type] = []
        for i, value in enumerate(main.block.args):
            sizes = {d: self.known[i, d] for d, s in enumerate(_shape(value.type)) if s == DYNAMIC}
            types.append(_sized(value.type, sizes))
        block = self.block(main.block, types)
        end = main.block.ops[-1]
        Builder(block, end.location).end(type(end), *[self.new[v] for v in end.operands])
        kept = {n: a for n, a in main.attributes.items() if n not in ("sym_name", "function_type")}
        return function(main.symbol, block, kept, location=main.location)

    def block(self, block: Block, types: Sequence[Type]) -> Block:
        """A block without its terminator."""
        made = Block(types, [value.name for value in block.args])
        made.label = block.label
        self.new.update(zip(block.args, made.args, strict=True))
        for op in block.ops[:-1]:
            new = self.op(op)
            made.ops.append(new)
            self.new.update(zip(op.results, new.results, strict=True))
        return made

    def op(self, op: Op) -> Op:
        operands = [self.new[v] for v in op.operands]
        if op.regions:
            return self.control(op, operands)
        definition = op.definition
        types = [r.type for r in op.results]
        if definition is not None and "stated" not in op.traits:
            try:
                types = list(definition.infer(Typing(tuple(o.type for o in operands), op.attributes)))
            except UserError as error:
                what = error.diagnostics[0]
                raise UserError(
                    Diagnostic(f"{op.name}: {what.message}", op.location, hint=what.hint)
                ) from None
        elif any(DYNAMIC in _shape(t) for t in types):
            types = [self.stated(op, operands, t) for t in types]
        return op.rebuilt(operands, types=types)

    def stated(self, op: Op, operands: Sequence[Value], type: Type) -> Type:
        """The type of a result that is not inferred from operands, with lengths in place of `?`."""
        shape = _shape(type)
        open_ = [d for d, size in enumerate(shape) if size == DYNAMIC]
        if op.name == "ng.reshape" and len(open_) == 1:
            rest = prod(size for size in shape if size != DYNAMIC)
            whole = prod(_shape(operands[0].type))
            return _sized(type, {open_[0]: whole // rest if rest else 0})
        sizes: dict[int, int] = {}
        for i, value in enumerate(operands):
            for d, size in enumerate(_shape(value.type)):
                for at in self.reached(op, i, d):
                    sizes.setdefault(at, size)
        for d in open_:
            if d not in sizes:
                sizes[d] = self.guessed(op, type, d)
        return _sized(type, {d: sizes[d] for d in open_})

    @staticmethod
    def reached(op: Op, operand: int, dimension: int) -> Iterator[int]:
        """The dimensions of the result that have the length of a dimension of an operand."""
        given = [Rows(dimension) if i == operand else None for i in range(len(op.operands))]
        try:
            how = reading(op, given)
        except MixesRows:
            return
        yield from (rows.dimension for rows in how.results if rows is not None)

    def guessed(self, op: Op, type: Type, dimension: int) -> int:
        axes = type.axes if isinstance(type, TensorType) else None
        if axes is not None and axes[dimension] in self.named:
            return self.named[axes[dimension]]
        if self.only is None:
            raise Limit(
                Diagnostic(
                    f"the length of dimension {dimension} of {type} does not follow from the operands of {op.name}",
                    op.location,
                    hint="name the axes of arguments and of this value: tensor<?x4xf32, #ng.axes<N, C>>",
                )
            )
        return self.only

    def control(self, op: Op, operands: Sequence[Value]) -> Op:
        """Conditionals and loops: block arguments get their types from the operands, results from the terminators."""
        taken = [o.type for o in operands]
        stacked, inner = 0, taken
        if op.name == "ng.scan":
            count = get_i64(op, "carried")
            stacked = _shape(taken[count])[0]
            inner = [*taken[:count], *(_without_first(t) for t in taken[count:])]
        elif op.name == "ng.if":
            inner = []
        regions: list[Region] = []
        for region in op.regions:
            block = self.block(region.block, inner)
            end = region.block.ops[-1]
            Builder(block, end.location).end(type(end), *[self.new[v] for v in end.operands])
            regions.append(Region(block))
        given = [v.type for v in regions[-1].block.ops[-1].operands]
        if op.name == "ng.scan":
            count = get_i64(op, "carried")
            given[count:] = [
                _sized(r.type, dict(enumerate((stacked, *_shape(t)))))
                for r, t in zip(op.results[count:], given[count:], strict=True)
            ]
        return op.rebuilt(operands, regions, types=given)


def _shape(type: Type) -> Sequence[int]:
    return shape_of(type) if isinstance(type, TensorType) else ()


def _sized(type: Type, sizes: Mapping[int, int]) -> Type:
    """The type with other sizes of some dimensions."""
    if not sizes:
        return type
    assert isinstance(type, TensorType)
    shape = tuple(sizes.get(d, size) for d, size in enumerate(type.shape))
    return TensorType(shape, type.element, type.encoding)


def _without_first(type: Type) -> Type:
    assert isinstance(type, TensorType)
    names = type.axes
    encoding = AxesAttr(*names[1:]) if names is not None else None
    return TensorType(type.shape[1:], type.element, encoding)
