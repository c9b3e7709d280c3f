# SPDX-License-Identifier: Apache-2.0
"""Row kernels: reductions over the innermost loops, with everything before and after them.

A short row is held in one tile and every value is computed once. A long row is computed in phases: each phase
computes the reductions whose inputs are known by then, the last one the outputs. Elements are computed again
in each phase that needs them, except costly ones, which are kept: in an output that is not needed before the end, so
that its memory accesses overlap with the computation of these, or in scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import NamedTuple

from ....ir.attributes import Attribute
from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import FloatType, MemRefType, VectorType, element_type, index
from ....ops.schedules import Rows
from ....support.lengths import is_open, may_be_several, power_of_two, usual
from ....support.target import Target
from ...analysis.loop_nest import LoopNest, chunk_width, loop_nest
from ...analysis.reduction import Parts, Position, Reduction, flat, in_parts, reductions
from .finished import Finished
from .fusion_kernel import Kernel, Tile
from .tiling import Span, each_position, linear, peel_last, positions, several, share

#: Scratch for the costly values of one row, in bytes.
SCRATCH_BYTES = 1 << 18


class StoredValue(NamedTuple):
    """Where a costly value is stored until the last phase."""

    buffer: Value
    output: Value | None  # the output that has this buffer; None: scratch


#: Combines two sets of carried values.
Join = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


def rows_kernel(fusion: Op, target: Target, schedule: Rows) -> Finished:
    """The kernel of a `rows` fusion."""
    nest = loop_nest(fusion)
    first = reductions(nest.ops, target)[0]
    kept = len(nest.loops[first.result])
    outer, inner = nest.sizes[:kept], nest.sizes[kept:]
    if several_rows(nest, inner, schedule, target):
        return _several(nest, target, schedule, outer, inner[0])
    short = len(inner) == 1 and not is_open(inner) and inner[0] <= schedule.tile
    if schedule.unroll > 1 and short and outer and nest.has_tiles(-2):
        return _unrolled(nest, target, schedule, outer, inner)
    rows, block = prod(outer), schedule.rows
    programs = -(-rows // block)
    shared = may_be_several(programs) or target.has_thread_blocks
    kernel = Kernel(nest, target, (programs,) if shared else ())
    cuts = nest.cuts(target)[: len(outer)]

    def row(spans: list[Span]) -> None:
        _Row(kernel, schedule, spans, inner).build()

    def numbered(number: Value) -> None:
        kernel.by_section(kernel.delinearize(number, outer), outer, cuts, row)

    if not shared:
        kernel.emit_loops(outer, row, cuts)
    elif block == 1:
        numbered(kernel.programs[0])
    else:
        kernel.each_of_block(kernel.programs[0], block, rows, numbered)
    return kernel.done(schedule.threads)


def several_rows(nest: LoopNest, inner: Sequence[int], schedule: Rows, target: Target) -> bool:
    """Whether one tile, which threads share, holds all rows of a program."""
    if not target.has_thread_blocks:
        return False
    whole = len(inner) == 1 and inner[0] <= schedule.tile and len(nest.sizes) > 1
    return schedule.rows > 1 and whole and nest.has_tiles(-2)


def _fits_columns(width: int, target: Target) -> bool:
    """Whether several rows of so many elements are searched column by column on a CPU, each of which has a register: a search of lanes
    combines them twice. Rows of 2 to 5 f32 take 0.25 to 0.4 times the time, of 16 (AVX2) and 24 (AVX-512) the same (Zen 4)."""
    return not target.has_thread_blocks and 4 * width <= 3 * target.vector_registers


def _several(nest: LoopNest, target: Target, schedule: Rows, outer: Sequence[int], width: int) -> Finished:
    """Each program computes one tile of several adjacent rows."""
    *far, near = outer
    kernel = Kernel(nest, target, (prod(far), -(-near // schedule.rows)))
    start = kernel.b.multiply(kernel.programs[1], kernel.b.index(schedule.rows))
    places = kernel.delinearize(kernel.programs[0], far) if far else []
    rows = Span(start, schedule.rows, near % schedule.rows != 0)
    _Row(kernel, schedule, [*places, rows], [width]).in_one_tile(width)
    return kernel.done(schedule.threads)


def _unrolled(
    nest: LoopNest, target: Target, schedule: Rows, outer: Sequence[int], inner: Sequence[int]
) -> Finished:
    """Several adjacent rows at a time, each in separate registers: these are combined across rows, and what follows from each row
    is computed for all of them at once."""
    *far, near = outer
    size = schedule.unroll
    groups, share_of_groups = [*far, -(-near // size)], schedule.rows // size
    programs = -(-prod(groups) // share_of_groups)
    kernel = Kernel(nest, target, several([programs]))
    b = kernel.b

    def group(places: Sequence[Span]) -> None:
        *before, number = places
        start = b.multiply(number.start, b.index(size))

        def rows(first: Value, count: int) -> None:
            _Row(kernel, schedule, [*before, Span(first, count)], inner).build()

        def whole() -> None:
            rows(start, size)

        if is_open((near,)):
            inside = b.less_equal(b.add(start, b.index(size)), b.index(near))
            b.branch(inside, whole, lambda: b.loop(start, near, 1, (), lambda i, _: rows(i, 0)))
        elif near % size:
            peel_last(b, number.start, groups[-1], whole, lambda: rows(start, near % size))
        else:
            whole()

    (first,) = kernel.program_indices([programs])
    each_position(b, *share(b, first, share_of_groups, prod(groups)), groups, group)
    return kernel.done()


def rows_strip(kernel: Kernel, schedule: Rows, first: Value, rows: int) -> None:
    """As part of another kernel: `rows` rows from the `first` on, counted over all outer loops."""
    b = kernel.b
    kept = len(kernel.nest.loops[reductions(kernel.nest.ops, kernel.target)[0].result])
    outer, inner = kernel.nest.sizes[:kept], kernel.nest.sizes[kept:]

    def row(i: Value) -> None:
        kernel.row = i
        _Row(kernel, schedule, kernel.delinearize(b.add(first, i), outer), inner).build()

    b.loop(0, rows, 1, (), lambda i, _: row(i), name="row")


class _Row:
    """One row of the kernel."""

    def __init__(self, kernel: Kernel, schedule: Rows, outer: Sequence[Span], inner: Sequence[int]):
        self.kernel, self.schedule = kernel, schedule
        self.b = kernel.b
        self.nest = kernel.nest
        self.outer = list(outer)
        self.inner = tuple(inner)
        self.row_values: dict[Value, Value] = {}  # results of reductions and what follows from them alone
        self.kept: dict[Value, StoredValue] = {}
        self.filled: set[Value] = set()  # the kept values that an earlier phase stored

    def full(self, value: Value) -> bool:
        """Whether a value runs over the reduced loops."""
        return any(l >= len(self.outer) for l in self.nest.loops[value])

    def build(self) -> None:
        known = len(self.inner) == 1 and not is_open(self.inner)
        if known and self.inner[0] <= self.schedule.tile:
            self.in_one_tile(self.inner[0])
        else:
            self.in_phases()

    def in_one_tile(self, width: int) -> None:
        size = power_of_two(width) if self.kernel.has_thread_blocks else width
        found = reductions(self.nest.ops, self.kernel.target)
        span = Span(self.b.index(0), size, size != width)
        tile = Tile(self.kernel, [*self.outer, span], beyond=found[0].beyond)
        tiled = sum(bool(span.size) for span in self.outer)
        for reduction in found:
            source, axis = tile.neutral(reduction, len(self.outer)), tiled
            if tiled and isinstance(reduction, Position) and _fits_columns(width, self.kernel.target):
                source, axis = self.b.transpose(source, permutation=[1, 0]), 0
            total = reduction.of_tile(self.b, source, axis)
            tile.known[reduction.result] = reduction.result_of(self.b, total)
        tile.store(list(zip(self.nest.outputs, self.kernel.results, strict=True)))

    # -- long rows ---------------------------------------------------------------------------------------

    def in_phases(self) -> None:
        phases = self.phases()
        self.keep_costly(phases)
        for phase in phases:
            self.reduce(phase)
        outputs = list(zip(self.nest.outputs, self.kernel.results, strict=True))
        row_tile = Tile(
            self.kernel, [*self.outer, *(Span(self.b.index(0)) for _ in self.inner)], self.row_values
        )
        row_tile.store([(v, buffer) for v, buffer in outputs if not self.full(v)])
        written = [(v, buffer) for v, buffer in outputs if self.full(v)]
        if written:
            self.walk((), lambda tile, _: tile.store(written))

    def phases(self) -> list[list[Reduction]]:
        """Reductions, grouped by how many others must be known before them."""
        depth: dict[Value, int] = {}
        phases: list[list[Reduction]] = []
        found = {r.op: r for r in reductions(self.nest.ops, self.kernel.target)}
        for op in self.nest.ops:
            level = max((depth.get(o, 0) for o in op.operands), default=0)
            if op in found:
                while len(phases) <= level:
                    phases.append([])
                phases[level].append(found[op])
                level += 1
            depth[op.results[0]] = level
        return phases

    def keep_costly(self, phases: Sequence[Sequence[Reduction]]) -> None:
        """Assigns buffers to full values that are slow to compute and needed in more than one phase."""
        if not self.schedule.keep:
            return
        wanted: dict[Value, set[int]] = {}
        roots = [[r.source for r in phase] for phase in phases]
        roots.append([v for v in self.nest.outputs if self.full(v)])
        for number, values in enumerate(roots):
            stack = list(values)
            seen: set[Value] = set()
            while stack:
                value = stack.pop()
                if value in seen or not self.full(value):
                    continue
                seen.add(value)
                if isinstance(value.owner, Op):
                    if "math" in value.owner.traits:
                        wanted.setdefault(value, set()).add(number)
                    stack += value.owner.operands
        fits = not is_open(self.inner)
        if prod(usual(self.inner)) * 8 > SCRATCH_BYTES:
            return
        first = {value: min(numbers) for value, numbers in wanted.items() if len(numbers) > 1}
        for value, start in first.items():
            later = [v for values in roots[start:] for v in values]
            there = {v for v, number in first.items() if number < start or v is value}
            output = self.output_for(value, self.needed(later, there))
            if output is None and not fits:
                continue  # scratch needs a known size
            buffer = (
                self.b.alloc(type=MemRefType(self.inner, element_type(value.type), None, 0, 3))
                if output is None
                else self.kernel.results[self.nest.outputs.index(output)]
            )
            self.kept[value] = StoredValue(buffer, output)

    def output_for(self, value: Value, read: Collection[Value]) -> Value | None:
        """An output that can store a value until its own elements are computed: none that may share memory with what is
        `read` meanwhile, and that stores no other value."""
        nest, kernel = self.nest, self.kernel
        taken = {kept.output for kept in self.kept.values()}
        for output in nest.outputs:
            same = nest.loops[output] == nest.loops[value]
            same = same and element_type(output.type) is element_type(value.type)
            free = output not in nest.written and output not in kernel.strips and output not in taken
            if same and free and not any(kernel.may_share(v, output) for v in kernel.buffers if v in read):
                return output
        return None

    def walk(
        self,
        carried: Sequence[Value],
        body: Callable[[Tile, Sequence[Value]], Sequence[Value] | None],
        join: Join | None = None,
        beyond: Attribute | None = None,
        back: bool = False,
    ) -> Sequence[Value]:
        """Runs over the tiles of the row, with elements `beyond` its end; outer reduced loops one by one. `back`: visiting an element
        twice changes nothing, so the last tile may overlap the one before.

        With `join`, long rows are computed in blocks that each start from `carried` and are joined: sums of few
        parts each, whose errors grow far slower than those of one long sum.
        """
        b, step, size = self.b, self.schedule.tile, self.inner[-1]
        block = self.schedule.partial * step
        blocks = size // block if join is not None and block else 0
        few = not is_open((blocks,)) and blocks < 2

        def level(spans: list[Span], values: Sequence[Value]) -> Sequence[Value]:
            if len(spans) < len(self.inner) - 1:
                return b.loop(0, self.inner[len(spans)], 1, values, lambda i, v: level([*spans, Span(i)], v))

            def tile(span: Span, v: Sequence[Value]) -> Sequence[Value]:
                return body(self.tile([*spans, span], beyond), v) or ()

            if few or join is None:
                return self.kernel.tiles(size, step, values, tile, stages=self.schedule.stages, back=back)

            def one(start: Value, v: Sequence[Value], join: Join = join) -> Sequence[Value]:
                stop = b.add(start, b.index(block))
                return join(
                    v, b.loop(start, stop, step, carried, lambda i, inner: tile(Span(i, step), inner))
                )

            done = blocks * block
            values = b.loop(0, done, block, values, one)
            return self.kernel.tiles(
                size - done,
                step,
                values,
                lambda span, v: tile(span._replace(start=b.add(span.start, b.index(done))), v),
            )

        return level([], carried)

    def tile(self, spans: Sequence[Span], beyond: Attribute | None) -> Tile:
        tile = _RowTile(self.kernel, [*self.outer, *spans], self.row_values, beyond=beyond)
        tile.row = self
        return tile

    def reduce(self, phase: Sequence[Reduction]) -> None:
        """Accumulates in lanes over full tiles; each reduction ends as one value of the row."""
        b = self.b
        step = self.schedule.tile
        row = self.inner[-1]
        width = min(
            step, power_of_two(row) if self.kernel.has_thread_blocks else step if is_open((row,)) else row
        )
        gathered = [self.gathered(r, width) for r in phase]
        starts = [r.starts(b, (size,)) for r, size in zip(phase, gathered, strict=True)]
        starts += [r.starts(b, (), none=True) for r in phase]  # the results of shorter tiles
        twice = [*phase, *phase]

        def body(tile: Tile, values: Sequence[Value]) -> list[Value]:
            parts = in_parts(values, twice)
            lanes, rest = parts[: len(phase)], parts[len(phase) :]
            size = tile.spans[-1].size
            for i, r in enumerate(phase):
                source = tile.neutral(r, len(tile.spans) - 1)
                at = None
                if isinstance(r, Position):
                    at = linear(b, tile.spans[len(self.outer) :], self.inner)
                if size == width:
                    lanes[i] = r.gather(b, lanes[i], source, at)
                else:
                    rest[i] = r.joined(b, rest[i], r.of_tile(b, source, 0, at))
            return flat([*lanes, *rest])

        def join(x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
            pairs = zip(in_parts(x, twice), in_parts(y, twice), strict=True)
            return flat([r.joined(b, *pair) for r, pair in zip(twice, pairs, strict=True)])

        rounds = any(r.op.name == "ng.sum" and isinstance(r.accumulator, FloatType) for r in phase)
        back = all(r.idempotent for r in phase)
        done = self.walk(flat(starts), body, join if rounds else None, phase[0].beyond, back)
        self.filled |= set(self.kept) & self.needed([r.source for r in phase], ())
        parts = in_parts(done, twice)
        for i, r in enumerate(phase):
            if isinstance(r, Position) and gathered[i] < width:
                one = self.searched(r, parts[i], width)
            else:
                one = r.reduced(b, parts[i], 0)
            self.row_values[r.result] = r.result_of(b, r.joined(b, one, parts[len(phase) + i]))
        self.follow_up()

    def gathered(self, reduction: Reduction, width: int) -> int:
        """In how many lanes a reduction accumulates tiles of a width. The best value needs fewer than its position: on a CPU each lane
        compares only the best of several registers with its own best, and the first tile with that is searched at the end."""
        target, position = self.kernel.target, isinstance(reduction, Position)
        if self.kernel.has_thread_blocks:
            return width if position else min(width, chunk_width(self.nest, self.schedule.threads))
        lanes = target.lanes(item_bytes(reduction.element))
        whole = len(self.inner) == 1 and not is_open(self.inner) and width % lanes == 0
        return lanes if position and whole else width

    def searched(self, reduction: Position, parts: Parts, width: int) -> Parts:
        """The position of the best element, within the tile that begins at its first position."""
        b, (best, starts) = self.b, parts
        top = reduction.across(b, best, [0])
        start = reduction.first(b, best, starts, top, 0)
        tile = self.tile([Span(b.cast(start, type=index), width)], None)
        source = reduction.enter(b, tile.at(reduction.source))
        places = positions(b, start, VectorType((width,), reduction.count))
        return [top, reduction.first(b, source, places, top, 0)]

    def follow_up(self) -> None:
        """Computes the values of the whole row that follow from the reductions known by now, and from constants, outside the loops."""
        tile = Tile(self.kernel, [*self.outer, *(Span(self.b.index(0)) for _ in self.inner)], self.row_values)
        ready = set(self.row_values)
        for op in self.nest.ops:
            result = op.results[0]
            inputs = [o for o in op.operands if isinstance(o.owner, Op)]
            if self.full(result) or result in ready or any(o not in ready for o in inputs):
                continue
            ready.add(result)
            if inputs:
                self.row_values[result] = tile.at(result)

    def needed(self, values: Sequence[Value], known: Collection[Value]) -> set[Value]:
        """Values, and all that they are computed from, except those that are `known`."""
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in seen or value in known:
                continue
            seen.add(value)
            if isinstance(value.owner, Op):
                stack += value.owner.operands
        return seen


class _RowTile(Tile):
    """A tile whose costly values are kept: stored by the first phase, loaded by the later ones."""

    row: _Row

    def compute(self, value: Value) -> Value:
        kept = self.row.kept.get(value)
        if kept is None:
            return super().compute(value)
        if kept.output is None:
            at, dims, masked = [s.start for s in self.spans[len(self.row.outer) :]], None, False
        else:
            at, dims, masked = self.location(kept.output)
        if value in self.row.filled:
            return self.b.load(kept.buffer, at, type=self.type(value), dims=dims, masked=masked)
        made = super().compute(value)
        self.b.store(made, kept.buffer, at, dims=dims, masked=masked)
        return made
