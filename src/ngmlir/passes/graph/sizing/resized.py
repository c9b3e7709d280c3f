# SPDX-License-Identifier: Apache-2.0
"""Rewrites a function for another number of rows, op by op, or finds that it has none.

Values computed from the rows must have a dimension that counts them. Values that are not, but are operands next to them (a bias
broadcast to every row, a constant), are rebuilt for the other number if they are the same for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....ir.attributes import Attribute, AxesAttr
from ....ir.core import Block, Op, Region, Value
from ....ir.elements import ElementsAttr, elements
from ....ir.types import TensorType, Type, shape_of
from ....ops.builder import Builder, function
from ....ops.fields import get_i64, get_i64s
from ....ops.memory_limit import LIMIT
from ....ops.rows import MixesRows, reading, reshaped_rows, resized, with_length
from ....ops.sampled import of_its_lengths
from ....support.diagnostics import Diagnostic, Location
from ....support.rows import Length, Rows
from ..inline import copied
from ..place_samples import captured


class Refused(Exception):
    """A function cannot be rewritten for other numbers of rows; the diagnostic names the op that prevents it."""

    def __init__(self, message: str, location: Location):
        super().__init__(message)
        self.diagnostic = Diagnostic(message, location, severity="remark")


class Resizing:
    """Rewrites functions of `length` rows for `wanted` rows."""

    def __init__(self, length: int, wanted: int):
        self.length, self.wanted = length, wanted
        self.rows: dict[Value, Rows] = {}
        self.new: dict[Value, Value] = {}
        #: Values that do not come from the rows, rebuilt with `wanted` rows.
        self.repeats: dict[tuple[Value, Rows], Value] = {}

    def function(self, main: Op, open_: Mapping[int, Rows], name: str) -> tuple[Op, tuple[Rows | None, ...]]:
        """The rewritten function, called `name`, and the rows of its results (None: it has none). Raises Refused."""
        for i, rows in open_.items():
            self.rows[main.block.args[i]] = rows
        block = self.block(main.block)
        end = main.block.ops[-1]
        b = Builder(block, end.location)
        b.end(type(end), *[self.new[v] for v in end.operands])
        kept = of_its_lengths(main).attributes
        labels = {key: kept[key] for key in ("arg_attrs", LIMIT) if key in kept}
        made = function(name, block, labels, location=main.location)
        return made, tuple([self.rows.get(v) for v in end.operands])

    def block(self, block: Block) -> Block:
        """A block without its terminator, on arguments with `wanted` rows."""
        types = [self.type(value) for value in block.args]
        made = Block(types, [value.name for value in block.args])
        made.label = block.label
        self.new.update(zip(block.args, made.args, strict=True))
        b = Builder(made)
        for op in block.ops[:-1]:
            b.location = op.location
            self.op(op, b)
        return made

    def type(self, value: Value) -> Type:
        rows = self.rows.get(value)
        return value.type if rows is None else resized(value.type, rows, self.wanted)

    def op(self, op: Op, b: Builder) -> None:
        if op.name == "ng.recompute":
            return  # blocks of rows need little memory
        given = [self.rows.get(v) for v in op.operands]
        around = captured(op) if op.regions else ()
        if not any(given) and not any(v in self.rows for v in around):
            b.add_op(copied(op, self.new))
            return
        control = {"ng.if": self.choice, "ng.while": self.loop, "ng.scan": self.loop}.get(op.name)
        if control is not None:
            control(op, b)
            return
        try:
            how = reading(op, given)
        except MixesRows as found:
            raise Refused(f"{op.name} {found.reason}", op.location) from None
        operands = [self.operand(v, rows, op, b) for v, rows in zip(op.operands, how.operands, strict=True)]
        self.note(op.results, how.results)
        length = next((r.inner * self.wanted for r in how.operands if r is not None), 0)
        attributes = with_length(op, how.lengths, length) if how.lengths else op.attributes
        new = op.rebuilt(operands, attributes=attributes, types=[self.type(r) for r in op.results])
        b.add_op(new)
        self.new.update(zip(op.results, new.results, strict=True))

    def note(self, values: Sequence[Value], rows: Sequence[Rows | None]) -> None:
        for value, each in zip(values, rows, strict=True):
            if each is not None:
                self.rows[value] = each

    def operand(self, value: Value, rows: Rows | None, op: Op, b: Builder) -> Value:
        """The new value of an operand that must have these rows. Raises Refused where it cannot."""
        have = self.rows.get(value)
        if have == rows:
            return self.new[value]
        if have is not None:
            raise Refused(f"{op.name} computes rows with different layouts", op.location)
        assert rows is not None
        made = self.repeated(value, rows, b)
        if made is None:
            what = f"%{value.name}" if value.name else getattr(value.owner, "name", "what it is given")
            message = f"{op.name} takes of {what} another element for each row"
            raise Refused(message, op.location)
        return made

    # ---- values that do not come from the rows

    def repeated(self, value: Value, rows: Rows, b: Builder) -> Value | None:
        """A value that does not come from the rows, rebuilt with `wanted` rows; None where it differs from row to row."""
        if (value, rows) not in self.repeats:
            made = self.made_anew(value, rows, b)
            if made is None:
                return None
            self.repeats[value, rows] = made
        return self.repeats[value, rows]

    def made_anew(self, value: Value, rows: Rows, b: Builder) -> Value | None:
        op, shape = value.owner, shape_of(value.type)
        d = rows.dimension
        if shape[d] != self.length * rows.inner:
            return None
        below: Sequence[Rows] | None = None  # the rows that the operands must have
        attributes: Mapping[str, Attribute] | None = None
        type = resized(value.type, rows, self.wanted)
        if isinstance(op, Op):
            if op.name == "ng.constant":
                literal = op.attributes["value"]
                if not isinstance(literal, ElementsAttr) or not literal.splat:
                    return self.constant(op, rows, b)
                below, attributes = (), {**op.attributes, "value": ElementsAttr(literal.data, type)}
            elif op.name == "ng.iota" and get_i64(op, "dimension") != d:
                below = ()
            elif op.name == "ng.broadcast":
                places = get_i64s(op, "dimensions")
                if d not in places:
                    new = op.rebuilt([self.new[op.operands[0]]], types=[type])
                    b.add_op(new)
                    return new.result
                below = [rows.at(places.index(d))]
            elif op.name == "ng.transpose":
                below = [rows.at(get_i64s(op, "permutation")[d])]
            elif op.name == "ng.reshape":
                source = reshaped_rows(shape, rows, shape_of(op.operands[0].type))
                below = None if source is None else [source]
            elif "elementwise" in op.traits or op.name == "ng.cast_axes":
                below = [rows] * len(op.operands)
        if below is None:
            return self.one_row(value, rows, b)
        assert isinstance(op, Op)
        operands = [self.repeated(v, r, b) for v, r in zip(op.operands, below, strict=True)]
        if any(v is None for v in operands):
            return self.one_row(value, rows, b)
        new = op.rebuilt([v for v in operands if v is not None], attributes=attributes, types=[type])
        b.add_op(new)
        return new.result

    def constant(self, op: Op, rows: Rows, b: Builder) -> Value | None:
        """A constant with `wanted` rows; None where its rows differ."""
        literal = op.attributes["value"]
        assert isinstance(literal, ElementsAttr)
        array = literal.array()
        bits = array.view(f"u{array.itemsize}")  # compares NaN as equal
        first = (slice(None),) * rows.dimension + (slice(rows.inner),)
        each = (*array.shape[: rows.dimension], self.length, rows.inner, *array.shape[rows.dimension + 1 :])
        if not (bits.reshape(each) == np.expand_dims(bits[first], rows.dimension)).all():
            return None
        if rows.inner == 1:
            type = _without(op.result.type, rows.dimension)
            row = b.constant(type=type, value=elements(array[first].reshape(type.shape), type))
            return self.broadcast(row, op.result.type, rows, b)
        type = resized(op.result.type, rows, self.wanted)
        whole = np.concatenate([array[first]] * self.wanted, axis=rows.dimension)
        return b.constant(type=type, value=elements(whole, type))

    def one_row(self, value: Value, rows: Rows, b: Builder) -> Value | None:
        """A value of a function of one row, broadcast to all rows; None for more rows."""
        if self.length != 1 or rows.inner != 1:
            return None
        row = b.reshape(self.new[value], type=_without(value.type, rows.dimension))
        return self.broadcast(row, value.type, rows, b)

    def broadcast(self, row: Value, type: Type, rows: Rows, b: Builder) -> Value:
        """One row, broadcast to all rows."""
        wide = resized(type, rows, self.wanted)
        left = [i for i in range(len(wide.shape)) if i != rows.dimension]
        return b.broadcast(row, type=wide, dimensions=left)

    # ---- control flow

    def choice(self, op: Op, b: Builder) -> None:
        ends = [region.block.ops[-1] for region in op.regions]
        blocks = [self.inner(region.block) for region in op.regions]
        wanted = self.merged(op, [[self.rows.get(v) for v in end.operands] for end in ends])
        self.note(op.results, wanted)
        regions = [self.ended(block, end, wanted) for block, end in zip(blocks, ends, strict=True)]
        self.add(op, [self.new[op.operands[0]]], regions, b)

    def loop(self, op: Op, b: Builder) -> None:
        """`ng.while` and `ng.scan`: a carried value has rows if its initial value has, or the body yields some."""
        scan = op.name == "ng.scan"
        count = get_i64(op, "carried") if scan else len(op.operands)
        body = op.regions[-1].block
        slices: list[Rows | None] = []
        for value in op.operands[count:]:
            rows = self.rows.get(value)
            if rows is not None and rows.dimension == 0:
                raise Refused(f"{op.name} steps along it", op.location)
            slices.append(None if rows is None else rows.at(rows.dimension - 1))
        begun = [self.rows.get(v) for v in op.operands[:count]]
        try:
            carried, block = self.body(op, begun, slices)
        except Refused:
            # An initial value that is the same for each row (zeros, say) may be combined with rows before the body yields some.
            carried, block = self.body(
                op, [r or self.counted(v) for v, r in zip(op.operands, begun, strict=False)], slices
            )
        end = body.ops[-1]
        given = [self.rows.get(v) for v in end.operands]
        regions: list[Region] = []
        if not scan:
            asked = op.regions[0].block
            self.note(asked.args, carried)
            condition = asked.ops[-1]
            regions.append(self.ended(self.inner(asked), condition, [None] * len(condition.operands)))
        regions.append(self.ended(block, end, [*carried, *given[count:]]))
        stacked = [None if r is None else r.at(r.dimension + 1) for r in given[count:]]
        self.note(op.results, [*carried, *stacked])
        operands = [self.operand(v, r, op, b) for v, r in zip(op.operands, carried, strict=False)]
        self.add(op, [*operands, *(self.new[v] for v in op.operands[count:])], regions, b)

    def body(
        self, op: Op, carried: list[Rows | None], slices: Sequence[Rows | None]
    ) -> tuple[list[Rows | None], Block]:
        """The rows of the carried values of a loop, found by iteration to a fixpoint, and its body."""
        body = op.regions[-1].block
        while True:
            for value in body.args:
                self.rows.pop(value, None)
            self.note(body.args, [*carried, *slices])
            block = self.inner(body)
            given = [self.rows.get(v) for v in body.ops[-1].operands[: len(carried)]]
            merged = self.merged(op, [carried, given])
            if merged == carried:
                return carried, block
            carried = merged

    def counted(self, value: Value) -> Rows | None:
        """The rows that a value would have judging by its shape: the first dimension of size `length`."""
        places = [d for d, size in enumerate(shape_of(value.type)) if size == self.length]
        return Rows(places[0]) if places else None

    def merged(self, op: Op, several: Sequence[Sequence[Rows | None]]) -> list[Rows | None]:
        """The rows of values that may come from several blocks. Raises Refused where they differ."""
        merged: list[Rows | None] = []
        for each in zip(*several, strict=True):
            found = {rows for rows in each if rows is not None}
            if len(found) > 1:
                raise Refused(f"{op.name} returns rows with different layouts", op.location)
            merged.append(next(iter(found), None))
        return merged

    def inner(self, block: Block) -> Block:
        """A block of a region; values rebuilt in it are not visible outside."""
        outer, self.repeats = self.repeats, dict(self.repeats)
        made = self.block(block)
        self.repeats = outer
        return made

    def ended(self, block: Block, end: Op, wanted: Sequence[Rows | None]) -> Region:
        b = Builder(block, end.location)
        outer, self.repeats = self.repeats, {}
        values = [self.operand(v, r, end, b) for v, r in zip(end.operands, wanted, strict=True)]
        self.repeats = outer
        b.end(type(end), *values)
        return Region(block)

    def add(self, op: Op, operands: Sequence[Value], regions: Sequence[Region], b: Builder) -> None:
        new = op.rebuilt(operands, regions, types=[self.type(r) for r in op.results])
        b.add_op(new)
        self.new.update(zip(op.results, new.results, strict=True))


def with_rows(main: Op, length: Length, wanted: int) -> Op:
    """A function with a length that is only an example, for another number of rows. Raises Refused where rows depend on each
    other."""
    if "ng.tied" in main.attributes:
        raise Refused(f"@{main.symbol} changes what it is called with", main.location)
    rows = {i: Rows(d) for i, d in length.places}
    stated = {shape_of(main.block.args[i].type)[d] for i, d in length.places}
    if len(stated) != 1 or len(rows) < len(length.places):
        raise Refused(f"the arguments of @{main.symbol} have {sorted(stated)} rows", main.location)
    return Resizing(stated.pop(), wanted).function(main, rows, main.symbol)[0]


def _without(type: Type, dimension: int) -> TensorType:
    """The type without one dimension."""
    assert isinstance(type, TensorType)
    left = [i for i in range(len(type.shape)) if i != dimension]
    encoding = AxesAttr(*[type.axes[i] for i in left]) if type.axes is not None else None
    return TensorType(tuple([type.shape[i] for i in left]), type.element, encoding)
