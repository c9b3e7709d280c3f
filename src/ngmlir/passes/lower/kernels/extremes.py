# SPDX-License-Identifier: Apache-2.0
"""Kernels for argmax and argmin: the best value so far and where it was, lane by lane; of long rows on a CPU the best
block first, and then where in it."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import FloatType, VectorType, element_type, i32, i64, index, shape_of, with_element
from ....ops.fields import get_i64s
from ....support.lengths import is_open, power_of_two
from ....support.target import Target
from ...analysis.reduction import Accumulation, extreme, merged
from ...schedule.programs import a_row_each, stages_for, tile_width
from .frame import Span, positions
from .single import Single, SingleFrame, vector

#: Registers of a band, and how many bands a row has at least to be worth the larger one: it ends with searching one.
BANDS = ((8, 8), (4, 3), (2, 2))
#: The same for elements narrower than positions, of which a register would need several.
NARROW_BANDS = ((32, 8), *BANDS)
#: Registers that are searched at once.
SEARCHED = 8
#: Elements that a block of threads searches at once.
BAND_ELEMENTS = 2048


def arg_kernel(op: Op, target: Target) -> Single:
    """A thread searches lane by lane. The reduced axes stand together (the shape pass sees to it)."""
    return _Search(op, target).for_vectors()


def arg_by_blocks(op: Op, target: Target) -> Single:
    """Blocks of threads search some short rows, a long one, or neighbouring columns."""
    return _Search(op, target).for_blocks()


class _Search:
    def __init__(self, op: Op, target: Target):
        self.op, self.target = op, target
        axes = get_i64s(op, "axes")
        self.before, self.size, self.after = merged(shape_of(op.operands[0].type), min(axes), len(axes))
        self.greatest = op.name == "ng.argmax"
        self.element = element_type(op.operands[0].type)
        self.result = element_type(op.results[0].type)
        #: Positions while searching; `nowhere` is greater than all of them.
        self.lanes = target.lanes(item_bytes(self.element))
        wide = not target.shares_tiles and item_bytes(self.element) == 8  # then masks of both are the same
        self.count = i32 if self.size < 1 << 31 and not wide else i64
        self.nowhere = (1 << (self.count.width - 1)) - 1

    def for_blocks(self) -> Single:
        before, size, after = self.before, self.size, self.after
        together = self.together() if after == 1 else 0
        if together:
            frame = self.framed((-(-before // together), 1), (before, size), (before,))
            frame.each_row(lambda number: self.short_rows(number, together))
        elif after == 1:
            self.framed((before, 1), (before, size, 1), (before, 1)).each_row(self.row)
        else:
            width = min(self.target.threads, power_of_two(after))
            frame = self.framed((before, after), (before, size, after), (before, after), width)
            frame.visit((before, after), width, lambda spans: self.bands(*spans))
        return self.frame.done()

    def for_vectors(self) -> Single:
        before, size, after = self.before, self.size, self.after
        beside = 0 if after == 1 else self.beside()
        operand = (before, size * after) if beside else (before, size, after)
        # The space is what one step of the outermost loop costs.
        frame = self.framed((before, size * after), operand, (before, after))
        if beside:
            frame.each_row(lambda row: self.narrow(row, beside))
        elif after == 1:
            band = self.band()
            frame.each_row(lambda row: self.row_of_bands(row, band) if band else self.row(row))
        else:
            frame.each_row(self.columns)
        return frame.done()

    def framed(
        self, space: Sequence[int], operand: Sequence[int], result: Sequence[int], width: int | None = None
    ) -> SingleFrame:
        """A kernel for a space, which takes the operand and gives the result in these shapes."""
        self.frame = SingleFrame(self.op, self.target, space, [operand], [result], width=width)
        self.b = self.frame.b
        return self.frame

    def better(self, new: Value, old: Value, greatest: bool) -> Value:
        """Whether `new` takes the place of an earlier `old`: it is beyond it, or the first NaN."""
        b = self.b
        if not isinstance(self.element, FloatType):
            return b.greater(new, old) if greatest else b.less(new, old)
        behind = b.less_equal(new, old) if greatest else b.greater_equal(new, old)
        return b.bitwise_and(b.bitwise_not(behind), b.equal(old, old))

    def columns(self, row: Span) -> None:
        """All results that stand side by side."""
        self.frame.tiles(self.after, self.frame.width, (), lambda span, _: self.column(row, span) or ())

    def column(self, row: Span, span: Span) -> None:
        """Neighbouring results side by side."""
        b = self.b
        type = vector(span.size, self.element)
        counts = with_element(type, self.count)

        def load(k: Value) -> Value:
            return b.load(self.frame.sources[0], [row.start, k, span.start], type=type, masked=span.masked)

        def step(k: Value, carried: Sequence[Value]) -> list[Value]:
            new = load(k)
            taken = self.better(new, carried[0], self.greatest)
            position = b.broadcast(b.cast(k, type=self.count), type=counts, dimensions=())
            return [b.select(taken, new, carried[0]), b.select(taken, position, carried[1])]

        start = [load(b.index(0)), b.number(0, counts)]
        _, where = b.loop(1, self.size, 1, start, step)
        self.store(where, [row.start, span.start], span.masked)

    def beside(self) -> int:
        """How many neighbours along the axis lie side by side in some whole registers; 0: too few are worth it."""
        if is_open((self.size, self.after)):
            return 0
        lanes = self.target.lanes(max(item_bytes(self.element), item_bytes(self.count)))
        room = self.target.vector_registers // 3 * lanes // self.after
        beside = min(lanes // gcd(lanes, self.after), room)
        return beside if beside > 1 and self.size >= 2 * beside else 0

    def narrow(self, row: Span, beside: int) -> None:
        """Few results that stand side by side: the elements for several steps of the axis fill the registers, as they lie.
        The last ones reach back, so that nothing is left over."""
        b = self.b
        type = VectorType((beside * self.after,), self.element)
        counts = VectorType((beside, self.after), self.count)

        def load(start: Value) -> Value:
            at = b.multiply(start, b.index(self.after))
            return b.load(self.frame.sources[0], [row.start, at], type=type)

        def join(start: Value, carried: Sequence[Value]) -> list[Value]:
            new = load(start)
            taken = self.better(new, carried[0], self.greatest)
            here = b.broadcast(b.cast(start, type=self.count), type=carried[1].type, dimensions=())
            return [b.select(taken, new, carried[0]), b.select(taken, here, carried[1])]

        carried: Sequence[Value] = [load(b.index(0)), b.number(0, with_element(type, self.count))]
        carried = b.loop(beside, self.size // beside * beside, beside, carried, join)
        if self.size % beside:
            carried = join(b.index(self.size - beside), carried)
        values = b.reshape(carried[0], type=with_element(counts, self.element))
        where = b.add(b.reshape(carried[1], type=counts), b.iota(type=counts, dimension=0))
        self.store(self.first(values, where, 0), [row.start, b.index(0)], False)

    def first(self, values: Value, places: Value, axis: int) -> Value:
        """Of each line along an axis of a matrix, the first place of the best."""
        b = self.b
        top = (b.max if self.greatest else b.min)(values, axes=[axis])
        best = b.broadcast(top, type=values.type, dimensions=[1 - axis])
        return b.min(
            b.select(self.same(values, best), places, b.number(self.nowhere, places.type)), axes=[axis]
        )

    # -- by a block of threads -----------------------------------------------------------------------------

    def bands(self, row: Span, span: Span) -> None:
        """Neighbouring results side by side, for as many steps of the axis at once as threads have registers for."""
        b = self.b
        steps = min(BAND_ELEMENTS // span.size, power_of_two(self.size))
        type, worst = VectorType((steps, span.size), self.element), extreme(self.element, self.greatest)
        counts = with_element(type, self.count)

        def body(here: Span, carried: Sequence[Value]) -> list[Value]:
            at, masked = [row.start, here.start, span.start], here.masked or span.masked
            new = b.load(self.frame.sources[0], at, type=type, masked=masked, pad=worst if masked else None)
            taken = self.better(new, carried[0], self.greatest)
            start = b.broadcast(b.cast(here.start, type=self.count), type=counts, dimensions=())
            return [b.select(taken, new, carried[0]), b.select(taken, start, carried[1])]

        stages = stages_for(self.target, type.size * item_bytes(self.element), prod(self.frame.grid))
        starts = [b.number(worst, type), b.number(0, counts)]
        values, where = self.frame.tiles(self.size, steps, starts, body, stages=stages, alike=True)
        where = b.add(where, b.iota(type=counts, dimension=0))
        self.store(self.first(values, where, 0), [row.start, span.start], span.masked)

    def together(self) -> int:
        """How many short rows a block searches; 0: they are long."""
        item = item_bytes(self.element)
        if self.size > tile_width(self.target, item):
            return 0
        if a_row_each(self.target, self.size, [self.size * item], self.before, self.before):
            return self.target.threads
        return max(1, min(BAND_ELEMENTS // power_of_two(self.size), power_of_two(self.before)))

    def short_rows(self, number: Span, together: int) -> None:
        """Some rows in one tile."""
        b = self.b
        start, width = b.multiply(number.start, b.index(together)), power_of_two(self.size)
        masked = (self.before % together != 0, width != self.size)
        type = VectorType((together, width), self.element)
        pad = extreme(self.element, self.greatest) if any(masked) else None
        values = b.load(self.frame.sources[0], [start, b.index(0)], type=type, masked=any(masked), pad=pad)
        places = b.iota(type=with_element(type, self.count), dimension=1)
        self.store(self.first(values, places, 1), [start], masked[0])

    def store(self, where: Value, at: Sequence[Value], masked: bool) -> None:
        b = self.b
        found = (
            where if self.result is self.count else b.cast(where, type=with_element(where.type, self.result))
        )
        b.store(found, self.frame.results[0], at, masked=masked)

    # -- along long rows on a CPU --------------------------------------------------------------------------

    def band(self) -> int:
        """Registers of a band; 0: the row is shorter than any, or may be."""
        if is_open((self.size,)):
            return 0
        narrow = item_bytes(self.element) < item_bytes(self.count)
        bands = NARROW_BANDS if narrow else BANDS
        return next((band for band, least in bands if self.size >= least * band * self.lanes), 0)

    def row_of_bands(self, row: Span, registers: int) -> None:
        """What is best needs less than where it is, so each lane (of a long band the whole of it) asks only of the best of
        a band of registers whether it is better than what it had; in the end the first of the best bands is searched. The
        last band reaches back into the one before it."""
        b = self.b
        gathered = Accumulation("max" if self.greatest else "min", self.element, self.target)
        greatest = gathered.kind == "max"
        size = registers * self.lanes
        lanes, whole = VectorType((self.lanes,), self.element), registers > SEARCHED
        kept = self.element if whole else lanes
        counts = with_element(kept, self.count)

        def join(start: Value, carried: Sequence[Value]) -> list[Value]:
            starts = [b.add(start, b.index(k)) for k in range(0, size, self.lanes)]
            found = [gathered.enter(b, self.piece(row, at, self.lanes)) for at in starts]
            while len(found) > 1:
                found = [gathered.combine(b, *pair) for pair in zip(found[::2], found[1::2], strict=True)]
            (best,) = [gathered.across(b, found[0], [0])] if whole else found
            taken = self.better(best, carried[0], greatest)
            here = b.cast(start, type=self.count)
            here = here if whole else b.broadcast(here, type=counts, dimensions=())
            return [b.select(taken, best, carried[0]), b.select(taken, here, carried[1])]

        carried: Sequence[Value] = [b.number(gathered.start, kept), b.number(0, counts)]
        carried = b.loop(0, self.size // size * size, size, carried, join)
        if self.size % size:
            carried = join(b.index(self.size - size), carried)
        top, start = carried
        if not whole:
            top = gathered.across(b, carried[0], [0])
            best = b.broadcast(top, type=lanes, dimensions=())
            where = b.select(self.same(carried[0], best), carried[1], b.number(self.nowhere, counts))
            start = b.min(where, axes=[0])
        self.search(row, b.cast(start, type=index), size, gathered.leave(b, top))

    def piece(self, row: Span, start: Value, size: int) -> Value:
        """Some elements of a row, as they follow each other."""
        b = self.b
        type = VectorType((size,), self.element)
        return b.load(self.frame.sources[0], [row.start, start, b.index(0)], type=type, dims=[1])

    def search(self, row: Span, start: Value, size: int, value: Value) -> None:
        """Stores where in a row a value stands first among some elements, where it is."""
        b = self.b
        step = min(size, SEARCHED * self.lanes)
        type = VectorType((step,), self.element)
        best = b.broadcast(value, type=type, dimensions=())
        nowhere = b.number(self.nowhere, with_element(type, self.count))

        def places(at: Value) -> Value:
            found = self.same(self.piece(row, at, step), best)
            return b.select(found, self.places(b.cast(at, type=self.count), step), nowhere)

        def earlier(offset: Value, carried: Sequence[Value]) -> list[Value]:
            return [b.minimum(carried[0], places(b.add(start, offset)))]

        found = places(start) if step == size else b.loop(0, size, step, [nowhere], earlier)[0]
        self.store(b.min(found, axes=[0]), [row.start, b.index(0)], False)

    # -- along rows, lane by lane --------------------------------------------------------------------------

    def row(self, row: Span) -> None:
        """Lanes search on their own; then the first position of the best lane value wins."""
        b, frame = self.b, self.frame
        stages = 1
        if frame.masks:
            item = item_bytes(self.element)
            width = min(tile_width(self.target, item), power_of_two(self.size))
            stages = stages_for(self.target, width * item, self.before)
        else:
            # The best values and their positions stay in half of the registers; the others are for what is compared.
            item = max(item_bytes(self.element), item_bytes(self.count))
            width = self.target.lanes(item) * (self.target.vector_registers // 4)
            width = width if is_open((self.size,)) else min(width, self.size)
        lanes = VectorType((width,), self.element)
        worst = extreme(self.element, self.greatest)
        # A lane that never finds better stays at the start of the row, where its first element is as bad.
        lane_starts = [b.number(worst, lanes), b.number(0, with_element(lanes, self.count))]
        scalars = [b.number(worst, self.element), b.number(self.nowhere, self.count)]

        def body(span: Span, carried: Sequence[Value]) -> Sequence[Value]:
            type = VectorType((span.size,), self.element)
            new = b.load(
                frame.sources[0], [row.start, span.start, b.index(0)], type=type, dims=[1], masked=span.masked
            )
            start = b.cast(span.start, type=self.count)
            if span.masked:
                inside = b.less(
                    self.places(start, span.size), b.number(self.size, with_element(type, self.count))
                )
                new = b.select(inside, new, b.number(worst, type))
            if type is not lanes:
                return [*carried[:2], *self.best(new, self.places(start, span.size), *carried[2:])]
            value, where = carried[:2]
            taken = self.better(new, value, self.greatest)
            start = b.broadcast(start, type=where.type, dimensions=())
            return [b.select(taken, new, value), b.select(taken, start, where), *carried[2:]]

        carried = [*lane_starts, *scalars]
        value, where, *rest = frame.tiles(self.size, width, carried, body, stages=stages)
        where = b.add(where, b.iota(type=where.type, dimension=0))
        _, where = self.best(value, where, *rest)
        self.store(where, [row.start, b.index(0)], False)

    def places(self, start: Value, size: int) -> Value:
        """Positions in the row."""
        return positions(self.b, start, VectorType((size,), self.count))

    def best(self, values: Value, places: Value, value: Value, position: Value) -> tuple[Value, Value]:
        """The first position of the best of a tile and of one more candidate."""
        b = self.b
        reduce = b.max if self.greatest else b.min
        join = b.maximum if self.greatest else b.minimum
        top = join(reduce(values, axes=[0]), value)
        wide = b.broadcast(top, type=values.type, dimensions=())
        first = b.min(
            b.select(self.same(values, wide), places, b.number(self.nowhere, places.type)), axes=[0]
        )
        alone = b.select(self.same(value, top), position, b.number(self.nowhere, self.count))
        return top, b.minimum(first, alone)

    def same(self, x: Value, y: Value) -> Value:
        """Equal, or both NaN."""
        b = self.b
        equal = b.equal(x, y)
        if not isinstance(self.element, FloatType):
            return equal
        return b.bitwise_or(equal, b.bitwise_and(b.not_equal(x, x), b.not_equal(y, y)))
