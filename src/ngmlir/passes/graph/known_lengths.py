# SPDX-License-Identifier: Apache-2.0
"""Functions with open lengths, for known lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...ir.core import Block, Module, Op, Region, Value, module
from ...ir.definition import Typing
from ...ir.lengths import attribute_at, type_at
from ...ir.types import DYNAMIC, TensorType, Type, as_tensor, shape_of
from ...ir.verifier import check
from ...ops import ng
from ...ops.builder import Builder, function
from ...ops.fields import get_i64
from ...ops.open_lengths import open_lengths
from ...ops.rows import MixesRows, Rows, reading
from ...ops.rules import names_of, reshaped
from ...support.diagnostics import Diagnostic, Limit, UserError
from ...support.length_places import LengthPlace
from ...support.length_text import identifier
from ...support.lengths import is_open
from .inline import inlined


class Opened:
    """The function `symbol` of a module, for any of its open lengths. Raises UserError where no argument has one of them, Limit
    after the pass fuse."""

    def __init__(self, of: Module, symbol: str):
        main = inlined(of).lookup(symbol)
        assert main is not None
        if "ng.arguments" in main.attributes or any(op.name == "ng.fusion" for op in main.walk()):
            message = f"@{symbol} has open lengths, and is lowered for these"
            hint = "compile the program as it was before fuse"
            raise Limit(Diagnostic(message, main.location, hint=hint))
        self.main: Op = main
        self.lengths = open_lengths(main)
        self.names = [length.name for length in self.lengths]

    def module(self, lengths: Mapping[str, int]) -> Module:
        """The function for these lengths, by name. Raises UserError where there is none, Limit where the length of a value in the
        body does not follow from them."""
        return self.at({place: lengths[each.name] for each in self.lengths for place in each.places})

    def at(self, known: Mapping[LengthPlace, int]) -> Module:
        """The same for lengths given by where they are read."""
        made = module([with_lengths(self.main, known)])
        check(made)
        return made


def with_lengths(main: Op, known: Mapping[LengthPlace, int]) -> Op:
    """The function for lengths, which are given by where they are read. Raises UserError where they contradict each other, and Limit
    where the length of a value in the body does not follow from them."""
    return _Writer(main, known).function(main)


class _Writer:
    def __init__(self, main: Op, known: Mapping[LengthPlace, int]):
        self.known = known
        lengths = {length.name: known[length.places[0]] for length in open_lengths(main)}
        self.named = lengths
        #: The length of a `?` that follows from no operand, if all open lengths are equal.
        self.only = next(iter(lengths.values())) if len(set(lengths.values())) == 1 else None
        self.new: dict[Value, Value] = {}

    def function(self, main: Op) -> Op:
        types: list[Type] = []
        for i, value in enumerate(main.block.args):
            sizes = {
                d: self.known[LengthPlace(i, d)] for d, s in enumerate(shape_of(value.type)) if s == DYNAMIC
            }
            types.append(_sized(type_at(value.type, self.named), sizes))
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
        types = [type_at(r.type, self.named) for r in op.results]
        attributes = {name: attribute_at(each, self.named) for name, each in op.attributes.items()}
        if definition is not None and "stated" not in op.traits:
            try:
                types = list(definition.infer(Typing(tuple(o.type for o in operands), attributes)))
            except UserError as error:
                what = error.diagnostics[0]
                raise UserError(
                    Diagnostic(f"{op.name}: {what.message}", op.location, hint=what.hint)
                ) from None
        elif any(DYNAMIC in shape_of(t) for t in types):
            types = [self.stated(op, operands, t) for t in types]
        made = op.rebuilt(operands, attributes=attributes, types=types)
        return _constant(made) if isinstance(made, ng.ExtentOp) and not is_open([made.value]) else made

    def stated(self, op: Op, operands: Sequence[Value], type: Type) -> Type:
        """The type of a result that is not inferred from operands, with lengths in place of `?`."""
        shape = shape_of(type)
        open_ = [d for d, size in enumerate(shape) if size == DYNAMIC]
        if op.name == "ng.reshape" and len(open_) == 1:
            rest = prod(size for size in shape if size != DYNAMIC)
            whole = prod(shape_of(operands[0].type))
            return _sized(type, {open_[0]: whole // rest if rest else 0})
        sizes: dict[int, int] = {}
        for i, value in enumerate(operands):
            for d, size in enumerate(shape_of(value.type)):
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
        name = identifier(axes[dimension]) if axes is not None else None
        if name in self.named:
            return self.named[name]
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
            stacked = shape_of(taken[count])[0]
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
                _sized(r.type, dict(enumerate((stacked, *shape_of(t)))))
                for r, t in zip(op.results[count:], given[count:], strict=True)
            ]
        return op.rebuilt(operands, regions, types=given)


def _sized(type: Type, sizes: Mapping[int, int]) -> Type:
    """The type with other sizes of some dimensions."""
    if not sizes:
        return type
    whole = as_tensor(type)
    shape = tuple(sizes.get(d, size) for d, size in enumerate(whole.shape))
    return TensorType(shape, whole.element, whole.encoding)


def _constant(of: ng.ExtentOp) -> Op:
    """What a number is that follows from no length any more."""
    b = Builder(Block(), of.location)
    made = b.number(int(of.value), of.result.type).owner
    assert isinstance(made, Op)
    made.result.name = of.result.name
    return made


def _without_first(type: Type) -> Type:
    names = names_of(type)
    return reshaped(type, shape_of(type)[1:], names and names[1:])
