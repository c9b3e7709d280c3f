# SPDX-License-Identifier: Apache-2.0
"""Scatters: `ng.scatter`. Every program owns some rows of the result. It copies them from the operand, then goes through all indices in
order and applies the updates to its own rows, so that repeated indices need no atomics and keep their order.

The kernels of GPUs are in `scatter_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import Type, element_type, i64, index, shape_of
from ....ops.fields import get_i64, get_str
from ....support.lengths import is_open, usual
from ....support.target import Target
from ...analysis.indices import position
from ...analysis.reduction import merged
from ...schedule.programs import tile_width
from .finished import Finished
from .single import OpKernelBuilder, vector
from .tiling import Span, peel_last, share

#: Runs a function on the tiles of an update.
_EachTile = Callable[[Callable[[Span], None]], Sequence[Value] | None]
_COMBINE = {"add": "add", "max": "maximum", "min": "minimum"}
#: Elements of operand and updates per owner, at least: every owner reads all indices.
_OWNED_ELEMENTS = 1 << 16
#: The most owners of one scatter on a CPU.
_MOST_OWNERS = 16
#: Bytes of an update that take four times as long as reading the index of another owner's update (the branch that skips it is
#: mispredicted where the owner changes).
_LOOK_BYTES = 512


def scatter_kernel(op: Op, target: Target) -> Finished:
    """The kernel of a scatter on a CPU."""
    return _Scatter(op, target).build()


class Updates:
    """The shapes of a scatter, with the dimensions before and after the axis merged, and how its updates are applied."""

    #: Its builder, and the buffers of its operands and its result.
    builder: OpKernelBuilder
    #: The rows [first, stop) that this program owns, as i64.
    first: Value
    stop: Value

    def __init__(self, op: Op, target: Target):
        self.op, self.combine = op, get_str(op, "combine")
        indices = shape_of(op.operands[1].type)
        self.before, self.size, self.after = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
        self.count = prod(indices)
        self.element = element_type(op.results[0].type)
        self.width = tile_width(target, item_bytes(self.element))

    def begin(self, target: Target, space: tuple[int, ...]) -> None:
        """Begins the kernel, whose programs share a `space`."""
        shape = (self.before, self.size, self.after)
        operands = [shape, (self.count,), (self.before, self.count, self.after)]
        self.builder = OpKernelBuilder(self.op, target, space, operands, [shape], width=self.width)
        self.b = self.builder.b
        self.source, self.indices, self.updates = self.builder.sources
        (self.result,) = self.builder.results

    def own(self, first: Value, stop: Value) -> None:
        """Sets the rows that this program owns."""
        self.first, self.stop = (self.b.cast(place, type=i64) for place in (first, stop))

    def owned(self, place: Value) -> Value:
        """Whether each of some positions along the axis is in the rows of this program."""
        b = self.b
        first, stop = (b.splat(v, place.type) for v in (self.first, self.stop))
        return b.bitwise_and(b.greater_equal(place, first), b.less(place, stop))

    def apply(self, start: Value, stop: Value, each: _EachTile, row: Span) -> None:
        """Applies the owned ones of the updates [start, stop), one by one."""
        b = self.b

        def one(number: Value, _: object) -> None:
            place = position(b, self.builder.scalar(self.indices, [number]), self.size)
            at = b.cast(place, type=index)

            def tile(span: Span) -> None:
                type: Type = vector(span.size, self.element) if self.after > 1 else self.element
                new = b.load(self.updates, [row.start, number, span.start], type=type, masked=span.masked)
                if self.combine != "set":
                    old = b.load(self.result, [row.start, at, span.start], type=type, masked=span.masked)
                    new = getattr(b, _COMBINE[self.combine])(old, new)
                b.store(new, self.result, [row.start, at, span.start], masked=span.masked)

            b.branch(self.owned(place), lambda: each(tile))

        b.loop(start, stop, 1, (), one)


class _Scatter(Updates):
    """On a CPU: owners are tasks, and have whole rows."""

    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        self.rows = -(-self.size // self.most_owners())
        self.owners = -(-self.size // self.rows)
        self.begin(target, (self.owners * self.before, (self.rows + self.count) * self.after))
        # The result may share the operand's buffer: then the copy does nothing, and only the updates are written.
        self.builder.pairs = [0, 3]

    def most_owners(self) -> int:
        """How many programs to share the rows among. One for an open size: later owners might have no rows."""
        if is_open([self.size]):
            return 1
        before, size, count, after = usual((self.before, self.size, self.count, self.after))
        looks = after * item_bytes(self.element) // _LOOK_BYTES
        return max(
            1, min(_MOST_OWNERS // max(1, before), (size + count) * after // _OWNED_ELEMENTS, size, looks)
        )

    def build(self) -> Finished:
        builder = self.builder
        builder.each_row(
            lambda span: self.program(*builder.delinearize(span.start, (self.owners, self.before)))
        )
        return builder.done()

    def program(self, owner: Span, row: Span) -> None:
        """Copies the rows of one owner and applies its updates."""
        b, builder = self.b, self.builder
        first, stop = share(b, owner.start, self.rows, self.size)
        peel_last(
            b,
            b.floor_divide(first, b.index(self.rows)),
            self.owners,
            lambda: self.copy(row, first, self.rows),
            lambda: self.copy(row, first, self.size - (self.owners - 1) * self.rows),
        )
        self.own(first, stop)
        self.apply(
            b.index(0),
            b.index(self.count),
            lambda tile: builder.tiles(self.after, builder.width, (), lambda span, _: tile(span)),
            row,
        )

    def copy(self, row: Span, first: Value, count: int) -> None:
        """Copies `count` rows from the operand, which are contiguous; nothing, where the result shares the operand's buffer."""
        b = self.b
        at = [row.start, first, b.index(0)]
        source, result = (b.window(each, at, (count, self.after)) for each in (self.source, self.result))
        b.copy(source, result)
