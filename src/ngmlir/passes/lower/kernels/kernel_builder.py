# SPDX-License-Identifier: Apache-2.0
"""The builder of kernels: the buffers and program indices of a kernel, and the ways to iterate over loops in tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.attributes import Attribute, IntegerAttr, integers
from ....ir.core import Block, Op, Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, Type, i64, index
from ....ops import tile
from ....ops.builder import Builder, function
from ....support.diagnostics import Location
from ....support.lengths import is_open, is_same, may_be_several, power_of_two
from ....support.target import Target
from ...schedule.programs import steps_of, tile_steps
from .tiling import (
    Span,
    delinearize,
    exact_tiles,
    sections,
    share,
    tile_lengths,
)


class KernelBuilder:
    """A kernel being built: its buffers and program indices, and the ways to iterate over loops in tiles."""

    def __init__(
        self,
        target: Target,
        grid: Sequence[int],
        inputs: Sequence[MemRefType],
        outputs: Sequence[MemRefType],
        location: Location,
        part: int = 0,
    ):
        self.target = target
        self.has_thread_blocks = target.has_thread_blocks
        #: Bytes of the largest element type.
        self.item = max((item_bytes(type.element) for type in (*inputs, *outputs)), default=1)
        self.part = part  # see `grid_for`
        self.grid = tuple(grid)
        types: list[Type] = [*inputs, *outputs, *[index] * len(self.grid)]
        names = [*_numbered("in", len(inputs)), *_numbered("out", len(outputs))]
        self.block = Block(types, [*names, *("i", "j", "k")[: len(self.grid)]])
        self.b = Builder(self.block, location)
        self.location = location
        self.pairs: list[int] = []
        self.sources = self.block.args[: len(inputs)]
        self.results = self.block.args[len(inputs) : len(inputs) + len(outputs)]
        self.programs = self.block.args[len(inputs) + len(outputs) :]

    def finish(self, threads: int | None = None) -> Op:
        """The finished kernel. Whoever adds it to a module renames it."""
        self.b.location = self.location
        self.b.end(tile.ReturnOp)
        attributes: dict[str, Attribute] = {
            "grid": integers(self.grid),
            "outputs": IntegerAttr(len(self.results), i64),
        }
        pairs = self.in_place()
        if pairs:
            attributes["in_place"] = integers(pairs)
        if self.has_thread_blocks:
            attributes["threads"] = IntegerAttr(threads or self.target.threads, i64)
        return function("k", self.block, attributes, kind=tile.KernelOp, location=self.location)

    def in_place(self) -> list[int]:
        """Pairs (input, output) of parameters that may share a buffer, as a flat list."""
        return self.pairs

    def program_indices(self, sizes: Sequence[int]) -> list[Value]:
        """The index of this program in each of some loops; those with `several` iterations are the grid."""
        programs = iter(self.programs)
        return [next(programs) if may_be_several(size) else self.b.index(0) for size in sizes]

    def tiles(
        self,
        size: int,
        step: int,
        carried: Sequence[Value],
        body: Callable[[Span, Sequence[Value]], Sequence[Value] | None],
        name: str = "i",
        stages: int = 1,
        alike: bool = False,
        masks: bool = True,
        back: bool = False,
    ) -> Sequence[Value]:
        """Runs `body` on the tiles of a loop of `size` iterations: full tiles, with `stages` iterations in flight, then the remainder.

        The remainder is a shorter tile, which is masked on a GPU; with `alike`, where threads carry tiles, it has the shape of the others.
        The remainder of an open size is run in tiles of one register (of the same shape where values are carried) and a masked one;
        without `masks`, in tiles whose lengths are halved down to 1.
        """
        if self.has_thread_blocks:
            step = min(step, power_of_two(size))
        masked = self.has_thread_blocks or (masks and is_open((size,)))
        least = step if carried else self.masked_length(step)
        return exact_tiles(self.b, size, step, carried, body, name, stages, masked, alike, least, back)

    def each_of_block(self, number: Value, block: int, size: int, body: Callable[[Value], None]) -> None:
        """Runs `body` on the iterations of block `number`, of `block` iterations of a loop of `size`."""
        self.b.loop(*share(self.b, number, block, size), 1, (), lambda i, _: body(i))

    def each_product(
        self, number: Value, block: int, batch: int, body: Callable[[list[Value]], None]
    ) -> None:
        """Runs `body` on the products of block `number` of a batch, with their indices; without a batch, on the only product."""
        if batch:
            self.each_of_block(number, block, batch, lambda i: body([i]))
        else:
            body([])

    def masked_length(self, step: int) -> int:
        """The length of the masked tile of a loop of open size that is run in tiles of `step`: at most one register."""
        return min(step, self.target.lanes(self.item))

    def tiles_between(
        self,
        start: Value,
        stop: Value,
        size: int,
        step: int,
        body: Callable[[Span], None],
        cuts: Sequence[int] = (),
    ) -> None:
        """Runs `body` on the tiles of the part [start, stop) of a loop of `size` >= `step`; `start` is a multiple of `step`. A tile across one
        of the `cuts` has no section. An open size has no cuts."""
        b = self.b
        if is_open((size,)):
            begin, full, least = start, 0, self.masked_length(step)
            for width in tile_lengths(step, least, True):
                before, full = full, full + (size - full) // width * width
                if not is_same(before, full):
                    end = b.minimum(stop, b.index(full))
                    b.loop(begin, end, width, (), lambda i, _, width=width: body(Span(i, width)))
                    begin = b.maximum(start, b.index(full))
            if not is_same(full, size):
                b.loop(begin, stop, least, (), lambda i, _: body(Span(i, least, True)))
            return
        full = size // step * step
        # The ranges of full tiles between two cuts, and the single tiles that contain a cut.
        parts: list[tuple[int, int, tuple[int, int] | None]] = []
        for low, high in sections(size, cuts):
            first, last = -(-low // step) * step, min(high, full) // step * step
            if first < last:
                parts.append((first, last, (low, high)))
            if last < high < full and (not parts or parts[-1][1] <= last):
                parts.append((last, last + step, None))

        for first, last, section in parts:
            here = b.maximum(start, b.index(first)) if first else start
            b.loop(
                here,
                b.minimum(stop, b.index(last)),
                step,
                (),
                lambda i, _, section=section: body(Span(i, step, section=section)),
            )
        if size > full:
            # The remainder: this range is empty for all programs but the last.
            rest = size - full
            behind = next((s for s in sections(size, cuts) if s[0] <= full and s[1] == size), None)
            b.loop(
                b.maximum(start, b.index(full)),
                stop,
                rest,
                (),
                lambda i, _: body(Span(i, rest, section=behind)),
            )

    def emit_loops(
        self, sizes: Sequence[int], body: Callable[[list[Span]], object], cuts: Sequence[Sequence[int]] = ()
    ) -> None:
        """Nested loops over single iterations. A loop is split at each of its `cuts`, and `body` is emitted for each part."""

        def level(spans: list[Span]) -> None:
            loop = len(spans)
            if loop == len(sizes):
                body(spans)
            elif sizes[loop] == 1:
                level([*spans, Span(self.b.index(0))])
            else:
                for section in sections(sizes[loop], cuts[loop] if cuts else ()):
                    self.b.loop(
                        *section,
                        1,
                        (),
                        lambda i, _, section=section: level([*spans, Span(i, section=section)]),
                    )

        level([])

    def delinearize(self, number: Value, sizes: Sequence[int]) -> list[Span]:
        """The positions in a nest of loops for a linear index, the last loop fastest."""
        return delinearize(self.b, number, sizes)

    def by_section(
        self,
        spans: Sequence[Span],
        sizes: Sequence[int],
        cuts: Sequence[Sequence[int]],
        body: Callable[[list[Span]], object],
    ) -> None:
        """Runs `body` on a position in a nest of loops. It is emitted once for each combination of ranges between the `cuts`."""
        b = self.b

        def place(done: list[Span], rest: Sequence[Sequence[tuple[int, int]]]) -> None:
            if not rest:
                body(done)
                return
            (section, *others), span = rest[0], spans[len(done)]

            def here() -> None:
                place([*done, span._replace(section=section)], rest[1:])

            if others:
                before = b.less(span.start, b.index(section[1]))
                b.branch(before, here, lambda: place(done, [others, *rest[1:]]))
            else:
                here()

        place([], [sections(size, own) for size, own in zip(sizes, cuts, strict=True)])

    def visit(
        self,
        sizes: Sequence[int],
        width: int,
        body: Callable[[list[Span]], None],
        rows: int = 1,
        cuts: Sequence[Sequence[int]] = (),
    ) -> None:
        """Runs `body` on every tile of this program's part of an iteration space (`grid_for` gives the number of programs).

        `cuts` are positions in each loop. On a CPU the code for the tiles on either side of a cut is separate, and no tile of a row contains one.
        """
        if not sizes:
            body([])
        elif self.part == 0:
            self._visit_tile(sizes, width, rows, body)
        else:
            self._visit_part(sizes, width, body, cuts)

    def _visit_tile(
        self, sizes: Sequence[int], width: int, rows: int, body: Callable[[list[Span]], None]
    ) -> None:
        steps = tile_steps(sizes, width, rows)
        counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
        *outer, last = (
            Span(self.b.multiply(at.start, self.b.index(step)), step, size % step != 0)
            for at, size, step in zip(self.delinearize(self.programs[0], counts), sizes, steps, strict=True)
        )
        body([*(span if span.size > 1 else Span(span.start) for span in outer), last])

    def _visit_part(
        self,
        sizes: Sequence[int],
        width: int,
        body: Callable[[list[Span]], None],
        cuts: Sequence[Sequence[int]],
    ) -> None:
        b = self.b
        cuts = cuts or [()] * len(sizes)

        def row(outer: list[Span]) -> None:
            for section in sections(sizes[-1], cuts[-1]):

                def tile(span: Span, _: object, section: tuple[int, int] = section) -> None:
                    at = b.add(span.start, b.index(section[0])) if section[0] else span.start
                    body([*outer, span._replace(start=at, section=section)])

                # A masked tile reaches into the next section, which is written after it.
                self.tiles(section[1] - section[0], width, (), tile)

        if not self.programs:
            self.emit_loops(sizes[:-1], row, cuts[:-1])
            return
        start, stop = share(b, self.programs[0], steps_of(self.part, sizes, width), sizes[0])
        if len(sizes) == 1:
            self.tiles_between(start, stop, sizes[0], width, lambda span: body([span]), cuts[0])
            return
        for section in sections(sizes[0], cuts[0]):

            def step(i: Value, _: object, section: tuple[int, int] = section) -> None:
                first = Span(i, section=section)
                self.emit_loops(sizes[1:-1], lambda middle: row([first, *middle]), cuts[1:-1])

            low, high = section
            b.loop(
                b.maximum(start, b.index(low)) if low else start,
                b.minimum(stop, b.index(high)) if high < sizes[0] else stop,
                1,
                (),
                step,
            )


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}{i}" for i in range(count)]
