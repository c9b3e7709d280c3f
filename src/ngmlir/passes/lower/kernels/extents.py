# SPDX-License-Identifier: Apache-2.0
"""The length of a loop in one program, where the last program may have fewer iterations. The loop body is emitted once for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.core import Value
from ....ops.builder import Builder
from ....support.lengths import is_open, is_same
from ...analysis.product import split
from .tiling import Span, exact_tiles, halves, masked_tile

#: Tiles of a number of iterations that is known at run time have code for each size if they have at most so many iterations.
EACH_SIZE = 8


@dataclass(frozen=True)
class Extent:
    """`most` iterations; `last` iterations where `whole` is given and is false."""

    b: Builder
    most: int
    last: int = 0
    whole: Value | None = None

    def pick(self, most: int, last: int) -> Value:
        """A position that depends on which of the two lengths this program has."""
        if self.whole is None or is_same(most, last):
            return self.b.index(most)
        return self.b.select(self.whole, self.b.index(most), self.b.index(last))

    @property
    def end(self) -> Value:
        """The number of iterations."""
        return self.pick(self.most, self.last)

    def tiles(self, step: int, body: Callable[[Span], None], name: str = "i", unit: int = 0) -> None:
        """Runs over tiles of `step` and a shorter one at the end. `step` divides `most` where there is a `last`. A remainder whose length is
        known at run time only is a masked tile of `step`, or of as many `unit`s, which divides `step`, as it needs."""
        b = self.b

        if self.whole is None:
            exact_tiles(b, self.most, step, (), lambda span, _: body(span), name)
            return
        last = self.last // step * step
        b.loop(0, self.pick(self.most, last), step, (), lambda i, _: body(Span(i, step)), name=name)
        rest = self.last - last
        if is_open((rest,)):
            # Masked: the length of the remainder is known at run time only and may be 0.
            end = b.select(self.whole, b.index(last), b.index(self.last))
            left = b.subtract(end, b.index(last))
            b.branch(
                b.less(b.index(last), end),
                lambda: masked_tile(b, Span(b.index(last), step, True), left, unit or step, body),
            )
        elif rest:
            b.branch(self.whole, lambda: (), lambda: body(Span(b.index(last), rest)))

    def parts(self, step: int, body: Callable[[Value, Extent], None]) -> None:
        """Runs over parts of `step`; the last part of the last program may be shorter. One loop, if only the last length differs."""
        b, rest = self.b, self.most % step
        if is_open((self.last,)):
            rest = self.last % step
        elif self.whole is not None and rest == 0:
            rest = self.last % step
        elif self.whole is not None or self.most < step:
            rest = 0
        if not is_open((rest,)) and rest == 0:
            self.tiles(step, lambda part: body(part.start, Extent(b, part.size)))
            return
        full = self.pick(self.most - self.most % step, self.last - self.last % step)

        b.loop(0, self.end, step, (), lambda i, _: body(i, Extent(b, step, rest, b.less(i, full))))

    def even_tiles(self, most: int, body: Callable[[Value, int], None], name: str = "i") -> None:
        """Runs over the fewest tiles of at most `most`, whose sizes differ little: `body(position, size)`. The last program uses tiles of the
        same sizes where possible."""
        if is_open((self.most, self.last)):
            self.any_tiles(most, body, name)
            return
        b, whole = self.b, split(self.most, most)
        ours = _places(whole)
        others = _places(_alike(self.last, most, whole[0][1])) if self.whole else ours
        for size in sorted({*ours, *others}, reverse=True):
            start, stop = ours.get(size) or (others[size][0], others[size][0])
            other_start, other_stop = others.get(size) or (start, start)
            if (start, stop) == (other_start, other_stop) and stop - start == size:
                body(b.index(start), size)
                continue
            self.each_tile(size, (start, other_start), (stop, other_stop), body, name)

    def any_tiles(self, most: int, body: Callable[[Value, int], None], name: str) -> None:
        """The same for a number of iterations that is known at run time. Beyond `EACH_SIZE` their sizes differ more, for less code: tiles of
        `most`, then of half of it rounded up, and so on down to 1."""
        if len(halves(most)) < most <= EACH_SIZE:
            self.each_size(most, body, name)
            return
        start = last = 0
        for size in halves(most):
            stop = start + (self.most - start) // size * size
            end = last + (self.last - last) // size * size
            self.each_tile(size, (start, last), (stop, end), body, name)
            start, last = stop, end

    def each_tile(
        self,
        size: int,
        starts: tuple[int, int],
        stops: tuple[int, int],
        body: Callable[[Value, int], None],
        name: str,
    ) -> None:
        """Runs over tiles of `size` between two positions, each of which depends on the length of this program."""
        b = self.b
        b.loop(self.pick(*starts), self.pick(*stops), size, (), lambda i, _: body(i, size), name=name)

    def each_size(self, most: int, body: Callable[[Value, int], None], name: str) -> None:
        """The same with code for each size: as `split` does, the first tiles have one iteration more than the others."""
        b, total, none = self.b, self.end, self.b.index(0)
        tiles = b.floor_divide(b.add(total, b.index(most - 1)), b.index(most))
        tiles = b.maximum(tiles, b.index(1))
        small, larger = b.floor_divide(total, tiles), b.remainder(total, tiles)
        middle = b.multiply(larger, b.add(small, b.index(1)))
        for size in range(most, 0, -1):
            first, second = (b.equal(small, b.index(n)) for n in (size - 1, size))
            start = b.select(second, middle, none)
            stop = b.select(second, total, b.select(first, middle, none))
            b.loop(start, stop, size, (), lambda i, _, size=size: body(i, size), name=name)


def _alike(total: int, most: int, wanted: int) -> list[tuple[int, int]]:
    """Tiles as `split` makes them, and as many: of `wanted` iterations and of one other size, if that is not much smaller."""
    even = split(total, most)
    parts = sum(count for count, _ in even)
    for count in range(parts):
        size, rest = divmod(total - count * wanted, parts - count)
        if rest == 0 and wanted <= 2 * size <= 2 * most:
            return [(count, wanted), (parts - count, size)] if count else [(parts, size)]
    return even


def _places(tiles: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The ranges that the tiles of each size cover."""
    found: dict[int, tuple[int, int]] = {}
    done = 0
    for count, size in tiles:
        found[size] = (min(done, found.get(size, (done, 0))[0]), done + count * size)
        done += count * size
    return found
