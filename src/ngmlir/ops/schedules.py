# SPDX-License-Identifier: Apache-2.0
"""Schedules: how the kernel of a fusion is tiled, as the attribute `ng.schedule`.

    %0 = ng.fusion dot(%x, %w) {ng.schedule = {by = "panels", tile = [6, 16], depth = 256 : i64}} -> ...

Each family of kernels declares its knobs here, and which of their values cannot be built: the verifier, the
cost model and the tuner all read these declarations. `by` names the family. Settings that an op states are
obeyed; the pass `schedule` chooses the others. On an op that is not fused yet a schedule is passed on to its fusion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

from .settings import Given, Knob, Schedule, Setting, knob_field, stages_knob, threads_knob

#: The attribute that holds a schedule.
SCHEDULE = "ng.schedule"


def _uneven(what: str, columns: int, units: str, unit: int) -> Iterator[str]:
    if columns % unit:
        yield f"a {what} of {columns} columns is not a multiple of the {units} of {unit}"


@dataclass(frozen=True, kw_only=True)
class Tiles(Schedule):
    """Elementwise: tiles along the innermost loop."""

    by = "tiles"
    kind = "map"
    tile: int = knob_field("elements of a tile along the innermost loop")
    part: int = knob_field(
        "iterations of the outermost loop in one program, or tiles if there is one loop only (0: each tile is a program)",
        least=0,
    )
    rows: int = knob_field(
        "iterations of the outer loops that a tile spans; of tiles that threads share, for those that are programs (part = 0)",
        1,
    )
    threads: int = threads_knob()

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if self.rows > 1 and self.part and self.threads > 1:
            yield f"rows = {self.rows} of tiles that threads share needs part = 0, so that each tile is a program"

    def tile_shape(self) -> tuple[int, ...]:
        return self.rows, self.tile


@dataclass(frozen=True, kw_only=True)
class Boxes(Schedule):
    """Elementwise, where an operand is contiguous along another loop than the innermost one, as in a transpose: tiles that extend along both."""

    by = "boxes"
    kind = "map"
    tile: int = knob_field("elements of a tile; of one in registers as many rows as columns")
    runs: tuple[int, int] = knob_field(
        "elements that are moved one after the other at least, along the rows of what is read and of what is written",
        count=2,
    )
    part: int = knob_field("stripes of rows in one program (0: each tile is a program)", least=0)
    threads: int = threads_knob()

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if self.threads == 1 and isqrt(self.tile) ** 2 != self.tile:
            yield f"a tile in registers has as many rows as columns, not {self.tile} elements"
        if (self.threads == 1) == (self.part == 0):
            yield "tiles that threads share are programs (part = 0), others are not"


@dataclass(frozen=True, kw_only=True)
class Flat(Schedule):
    """Elementwise, all loops collapsed into one: each element of a tile computes its own indices. For short rows, of which a tile that threads share has many."""

    by = "flat"
    kind = "map"
    tile: int = knob_field("elements of a tile")
    threads: int = knob_field("threads of a block that share a tile")


@dataclass(frozen=True, kw_only=True)
class Rows(Schedule):
    """Reductions over the innermost loops. A row that fits into one tile is read once; a longer one in several passes."""

    by = "rows"
    kind = "rows"
    tile: int = knob_field("elements of a row that are computed at once")
    partial: int = knob_field(
        "tiles that are added to a partial sum, which reduces rounding errors (0: one sum)", least=0
    )
    rows: int = knob_field("rows in one program")
    keep: bool = knob_field("whether costly values are kept in temporary memory between passes", yes=True)
    threads: int = threads_knob()
    stages: int = stages_knob()
    unroll: int = knob_field("rows that are reduced at once, where a tile in registers holds a row", 1)

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if self.rows % self.unroll:
            yield f"rows = {self.rows} must be a multiple of unroll = {self.unroll}"
        if self.unroll > 1 and self.threads > 1:
            yield f"unroll = {self.unroll} needs tiles in registers; of those that threads share, rows says how many they hold"


@dataclass(frozen=True, kw_only=True)
class Columns(Schedule):
    """Reductions over outer loops: a tile holds adjacent results."""

    by = "columns"
    kind = "columns"
    tile: int = knob_field(
        "results that are computed at once; in registers also the elements of several rows of narrow columns"
    )
    band: int = knob_field(
        "rows that are added before the sums are stored to temporary memory (0: all rows); for tiles that threads share, rows of a tile",
        least=0,
    )
    stripe: int = knob_field("columns in one program")
    rows: int = knob_field(
        "rows of results in one program; for tiles that threads share and have no band, rows of a tile"
    )
    threads: int = threads_knob()
    unroll: int = knob_field(
        "rows of results that are computed at once, with what they share in registers", 1
    )
    stage: int = knob_field(
        "rows of results for which what they read across a border is copied to temporary memory (0: it is read where it lies)",
        0,
        least=0,
    )

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        yield from _uneven("stripe", self.stripe, "tiles", self.tile)
        if self.unroll > 1 and not self.stage:
            yield f"unroll = {self.unroll} needs stage, which says how many rows are near each other"
        if self.stage and (self.band or self.threads > 1):
            yield "rows with a stage have neither band nor threads"
        if self.stage % self.unroll or (self.stage and self.rows % self.stage):
            yield f"rows = {self.rows} must be a multiple of stage = {self.stage}, and that of unroll = {self.unroll}"
        if self.threads > 1:
            for size in (self.band, self.rows):
                if size & (size - 1):
                    yield f"the rows of a tile that threads share must be a power of two, not {size}"
            if self.band > 1 and self.rows > 1:
                yield "a tile that threads share cannot have both band and rows above 1"


@dataclass(frozen=True, kw_only=True)
class Panels(Schedule):
    """A matrix product on a CPU, with packed operands: register tiles of the result, cache blocks."""

    by = "panels"
    kind = "dot"
    tile: tuple[int, int] = knob_field("rows and columns of the result that stay in registers", count=2)
    block: tuple[int, int] = knob_field("rows and columns of the result in one program", count=2)
    depth: int = knob_field(
        "steps of the contracted dimension before the next tile; neighbours that a dot instruction multiplies at once count as one step"
    )
    unroll: int = knob_field("steps of the contracted dimension that are unrolled")
    pack: tuple[str, ...] = knob_field(
        "operands that are packed by kernels of their own", words=("left", "right")
    )
    part: int = knob_field("columns of the right operand that a program packs at a time (0: none)", least=0)
    batch: int = knob_field("products of a batch in one program")

    @property
    def packed(self) -> set[str]:
        """The sides that are read from packed copies, whichever kernel makes these."""
        return {*self.pack, *(["right"] if self.part else [])}

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if self.part and "right" in self.pack:
            yield "the right operand is packed either by a kernel of its own (pack) or part by part (part)"
        yield from _uneven("part", self.part, "tiles", self.tile[1])
        yield from _uneven(
            "block", self.block[1], *(("parts", self.part) if self.part else ("tiles", self.tile[1]))
        )
        if self.depth % self.unroll:
            yield f"a depth of {self.depth} is not a multiple of unroll = {self.unroll}"


@dataclass(frozen=True, kw_only=True)
class Along(Schedule):
    """A product of few rows whose operands are both contiguous along the contracted dimension: partial sums in vector lanes, added at the end."""

    by = "along"
    kind = "dot"
    tile: tuple[int, int] = knob_field(
        "columns, and elements of the contracted dimension, that are multiplied at once", count=2
    )
    block: int = knob_field("columns in one program")
    batch: int = knob_field("products of a batch in one program")

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        yield from _uneven("block", self.block, "tiles", self.tile[0])


@dataclass(frozen=True, kw_only=True)
class Decode(Schedule):
    """A product of few rows whose right operand is decoded in registers: partial sums in vector lanes, added at the end."""

    by = "decode"
    kind = "decoded"
    tile: int = knob_field("columns that are multiplied at once")
    block: int = knob_field("columns in one program")

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        yield from _uneven("block", self.block, "tiles", self.tile)


@dataclass(frozen=True, kw_only=True)
class Digits(Schedule):
    """A product of rows in digits and a weight in panels of codes: dot instructions for a block of the depth, then f32."""

    by = "digits"
    kind = "decoded"
    tile: tuple[int, int] = knob_field("rows and columns of the result that stay in registers", count=2)
    block: int = knob_field("columns in one program")

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        yield from _uneven("block", self.block, "tiles", self.tile[1])


@dataclass(frozen=True, kw_only=True)
class DecodePanels(Panels):
    """A product whose right operand each program decodes and packs part by part, as it is multiplied."""

    by = "decode-panels"
    kind = "decoded"
    depth: int = knob_field("steps of the contracted dimension before the next tile", unit=128)

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if self.pack or not self.part:
            yield "what is decoded is packed part by part (part above 0, and no pack)"


@dataclass(frozen=True, kw_only=True)
class Blocks(Schedule):
    """A matrix product on a GPU: each block of threads computes a tile of the result."""

    by = "blocks"
    kind = "dot"
    largest = 1 << 15
    tile: tuple[int, int] = knob_field(
        "rows and columns of the result that a block of threads computes", count=2
    )
    step: int = knob_field("elements of the contracted dimension that are read at once", unit=16)
    threads: int = threads_knob()
    stages: int = stages_knob()

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if any(size < 16 for size in self.tile):
            yield f"a tile of a product has at least 16 rows and columns, not {self.tile[0]} x {self.tile[1]}"


@dataclass(frozen=True, kw_only=True)
class Strips(Schedule):
    """Several kernels in one, a few rows at a time: intermediate results of these rows stay in temporary memory."""

    by = "strips"
    kind = "chain"
    rows: int = knob_field("rows in one program, for each of the kernels")

    def tile_shape(self) -> tuple[int, ...]:
        return ()  # each kernel has its own


@dataclass(frozen=True, kw_only=True)
class Stream(Schedule):
    """Attention: a tile of queries is multiplied by one block of keys and values after the other, while its results are rescaled to the largest score so far."""

    by = "stream"
    kind = "attention"
    tile: tuple[int, int] = knob_field("keys and queries whose scores stay in registers", count=2)
    keys: int = knob_field("keys of a block")
    queries: int = knob_field("queries in one program")

    def conflicts(self) -> Iterator[str]:
        yield from super().conflicts()
        if self.queries % self.tile[1]:
            yield f"a program of {self.queries} queries is not a multiple of the tiles of {self.tile[1]}"


#: All families by name.
FAMILIES: dict[str, type[Schedule]] = {
    f.by: f
    for f in (
        Tiles,
        Boxes,
        Flat,
        Rows,
        Columns,
        Panels,
        Along,
        Decode,
        Digits,
        DecodePanels,
        Blocks,
        Strips,
        Stream,
    )
}


def stated(given: Given) -> dict[str, Setting]:
    """The knobs among the given settings: all but `by`."""
    return {name: setting for name, setting in given.items() if name != "by"}


def families(kind: str | None, given: Given) -> list[type[Schedule]]:
    """The families that make kernels of fusions of a kind (None: of any) and accept all given settings."""
    named = given.get("by")
    return [
        family
        for family in FAMILIES.values()
        if (kind is None or family.kind == kind)
        and (named is None or family.by == named)
        and all(
            name in family.knobs() and family.knobs()[name].accepts(setting)
            for name, setting in stated(given).items()
        )
    ]


def neighbours(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules in which one knob is changed by one step: a number doubled or halved, a word or `true` toggled."""
    for name, knob in schedule.knobs().items():
        setting = getattr(schedule, name)
        for turned in _turned(knob, setting):
            if turned != setting and knob.accepts(turned):
                made = dataclasses.replace(schedule, **{name: turned})
                if not any(True for _ in made.conflicts()):
                    yield made


def _turned(knob: Knob, setting: Setting) -> Iterator[Setting]:
    if isinstance(setting, bool):
        yield not setting
    elif isinstance(setting, int):
        yield from (setting * 2, setting // 2)
    elif knob.words and isinstance(setting, tuple):
        for word in knob.words:
            yield tuple([w for w in knob.words if (w in setting) != (w == word)])
    elif isinstance(setting, tuple):
        numbers = [n for n in setting if isinstance(n, int)]
        for at, number in enumerate(numbers):
            for other in (number * 2, number // 2, number + 1, number - 1):
                yield tuple([*numbers[:at], other, *numbers[at + 1 :]])
