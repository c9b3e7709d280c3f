# SPDX-License-Identifier: Apache-2.0
"""Tiles of loops: the ways to iterate over them, positions in nests of loops, and the parts of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ....ir.core import Value
from ....ir.types import VectorType, i64, shape_of
from ....ops.builder import Branch, Builder
from ....support.lengths import is_open, is_same, may_be_several, power_of_two


class Span(NamedTuple):
    """The part of one loop that a tile covers: `size` iterations from `start` on; size 0 is the single iteration `start`.

    `masked`: the tile may extend beyond the end of the loop, so that loads and stores need a mask. `section`: the tile is between these two
    positions of the loop.
    """

    start: Value
    size: int = 0
    masked: bool = False
    section: tuple[int, int] | None = None


def exact_tiles(
    b: Builder,
    size: int,
    step: int,
    carried: Sequence[Value],
    body: Callable[[Span, Sequence[Value]], Sequence[Value] | None],
    name: str = "i",
    stages: int = 1,
    masked: bool = False,
    alike: bool = False,
    least: int = 1,
    back: bool = False,
) -> Sequence[Value]:
    """Runs `body` on the tiles of a loop of `size` iterations, whose index is called `name`.

    The last tile may be shorter. With `masked` it is a masked tile, of the next power of two or, with `alike`, of `step`; with `back` it
    begins earlier and overlaps the tile before it. The remainder of an open size is run in tiles of `least` elements and a masked one;
    without `masked`, in tiles whose lengths are halved down to 1."""
    if is_open((size,)):
        full = 0
        for width in tile_lengths(step, least, masked):
            start, full = full, full + (size - full) // width * width
            if is_same(start, full):
                continue
            carried = b.loop(
                start,
                full,
                width,
                carried,
                lambda i, values, width=width: body(Span(i, width), values),
                name=name,
                stages=stages,
            )
        if is_same(full, size):
            return carried
        return b.branch(
            b.less(b.index(full), b.index(size)),
            lambda: body(Span(b.index(full), least, True), carried),
            lambda: carried,
        )
    full = size // step * step
    if full == step:
        carried = body(Span(b.index(0), step), carried) or ()
    elif full:
        carried = b.loop(
            0, full, step, carried, lambda i, values: body(Span(i, step), values), name=name, stages=stages
        )
    if (rest := size - full) and back and full and not masked:
        carried = body(Span(b.index(size - step), step), carried) or ()
    elif rest:
        last = rest if not masked else step if alike else power_of_two(rest)
        carried = body(Span(b.index(full), last, last != rest), carried) or ()
    return carried


def masked_tile(b: Builder, span: Span, count: Value, unit: int, body: Callable[[Span], None]) -> None:
    """A masked tile of as few `unit`s, which divide its size, as the `count` iterations that are left need."""

    def of(size: int) -> None:
        if size == span.size:
            body(span)
            return
        fits = b.less_equal(count, b.index(size))
        b.branch(fits, lambda: body(span._replace(size=size)), lambda: of(size + unit))

    of(unit)


def tile_lengths(step: int, least: int, masked: bool) -> list[int]:
    """The tile lengths that are used in turn to cover a loop of open size."""
    return [*dict.fromkeys([step, least])] if masked else halves(step)


def halves(size: int) -> list[int]:
    """A size, half of it rounded up, and so on to one: after tiles of the first, what is left takes at most one of each other."""
    return [size] if size == 1 else [size, *halves(-(-size // 2))]


def several(sizes: Sequence[int]) -> list[int]:
    """Those of some loops that may have more than one iteration."""
    return [size for size in sizes if may_be_several(size)]


def delinearize(b: Builder, number: Value, sizes: Sequence[int]) -> list[Span]:
    """The positions in a nest of loops for a linear index, the last loop fastest."""
    if len(sizes) == 1:
        return [Span(number)]
    spans: list[Span] = []
    for size in reversed(sizes):
        spans.insert(0, Span(b.remainder(number, b.index(size))))
        number = b.floor_divide(number, b.index(size))
    return spans


def tile_at(b: Builder, number: Value, step: int, size: int) -> Span:
    """The tile of this number of a loop of `size` iterations in tiles of `step`, the last of which is masked."""
    if step == 1:
        return Span(number)
    return Span(b.multiply(number, b.index(step)), step, size % step != 0)


def dims_in(rank: int, dims: Sequence[int]) -> Sequence[int] | None:
    """The dimensions of a buffer that those of a tile run along, as ops state them: None for the last ones in order."""
    return None if [*dims] == [*range(rank - len(dims), rank)] else dims


def linear(b: Builder, spans: Sequence[Span], sizes: Sequence[int]) -> Value:
    """The linear index for positions in a nest of loops, the last loop fastest."""
    number = spans[0].start
    for span, size in zip(spans[1:], sizes[1:], strict=True):
        number = b.add(b.multiply(number, b.index(size)), span.start)
    return number


def following(b: Builder, places: Sequence[Value], sizes: Sequence[int]) -> list[Value]:
    """The positions that follow some positions in a nest of loops, without the divisions of `delinearize`."""
    found: list[Value] = []
    step = b.index(1)
    for place, size in zip(reversed(places), reversed(sizes), strict=True):
        found.insert(0, b.add(place, step))
        if len(found) < len(sizes):
            ends = b.equal(found[0], b.index(size))
            step, found[0] = (b.select(ends, b.index(x), y) for x, y in ((1, b.index(0)), (0, found[0])))
    return found


def each_position(
    b: Builder, start: Value, stop: Value, sizes: Sequence[int], body: Callable[[list[Span]], None]
) -> None:
    """Runs `body` on the positions in a nest of loops for the linear indices from `start` to `stop`. The innermost loop has no divisions."""
    *outer, size = sizes

    def along(number: Value, _: object) -> None:
        before = b.multiply(number, b.index(size))
        places = delinearize(b, number, outer) if outer else []
        low, high = b.subtract(start, before), b.subtract(stop, before)
        low, high = b.maximum(low, b.index(0)), b.minimum(high, b.index(size))
        b.loop(low, high, 1, (), lambda i, _: body([*places, Span(i)]))

    if outer:
        end = b.floor_divide(b.add(stop, b.index(size - 1)), b.index(size))
        b.loop(b.floor_divide(start, b.index(size)), end, 1, (), along)
    else:
        b.loop(start, stop, 1, (), lambda i, _: body([Span(i)]))


def share(b: Builder, number: Value, steps: int, size: int) -> tuple[Value, Value]:
    """The iterations [start, stop) of block `number`, where a loop of `size` iterations is split into blocks of `steps`."""
    start = b.multiply(number, b.index(steps))
    return start, b.minimum(b.add(start, b.index(steps)), b.index(size))


def round_up(b: Builder, number: Value, unit: int) -> Value:
    """The next multiple of a unit if that is a power of two; otherwise the number plus unit - 1, which is no less."""
    number = b.add(number, b.index(unit - 1))
    return b.bitwise_and(number, b.index(-unit)) if unit & (unit - 1) == 0 else number


def peel_last(b: Builder, number: Value, count: int, each: Branch, last: Branch) -> None:
    """Emits `last` for the last of `count` iterations, and `each` for the others. Of a single iteration only `last` is emitted."""
    if is_same(count, 1):
        last()
    else:
        b.branch(b.less(number, b.index(count - 1)), each, last)


def positions(b: Builder, start: Value, type: VectorType, dimension: int = 0) -> Value:
    """A tile of consecutive positions from `start` on, which increase along one of its dimensions."""
    if start.type is not type.element:
        start = b.cast(start, type=type.element)
    return b.add(b.iota(type=type, dimension=dimension), b.splat(start, type))


def within(b: Builder, tile: Value, start: Value, size: int, fill: Value, dimension: int = 0) -> Value:
    """A tile with `fill` for the elements beyond the end of a loop of `size` iterations, which `dimension` covers from `start` on."""
    whole = VectorType(shape_of(tile.type), i64)
    places = positions(b, start, whole, dimension)
    return b.select(b.less(places, b.number(size, whole)), tile, fill)


def sections(size: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """The ranges that a loop is divided into by `cuts`."""
    return [*pairwise([0, *cuts, size])]
