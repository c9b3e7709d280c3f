# SPDX-License-Identifier: Apache-2.0
"""Reductions over outer loops with few columns, on a CPU: a tile covers several contiguous rows, which are combined at the end."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.core import Value
from ....ir.types import VectorType, element_type
from ....ops.schedules import Columns
from ....support.target import Target
from ...analysis.loop_nest import LoopNest
from ...analysis.reduction import Reduction, flat, in_parts, reductions
from .finished import Finished
from .fusion_kernel import Kernel, Tile
from .line_tiles import LineTile, line_spans
from .tiling import Span, each_position, exact_tiles, linear, several, share


def collapsed_columns_kernel(
    lines: LoopNest, schedule: Columns, target: Target, outer: Sequence[int], reduced: Sequence[int]
) -> Finished:
    """The kernel of a nest that `LoopNest.in_line` returns. Programs share the rows of results."""
    sizes = [lines.sizes[l] for l in outer]
    rows, group = prod(sizes), schedule.rows
    programs = -(-rows // group)
    kernel = Kernel(lines, target, several([programs]))
    b = kernel.b

    def row(places: Sequence[Span]) -> None:
        _Lines(kernel, dict(zip(outer, places, strict=True)), reduced, schedule.tile).build()

    if rows == 1:
        row([Span(b.index(0))] * len(outer))
    else:
        (first,) = kernel.program_indices([programs])
        each_position(b, *share(b, first, group, rows), sizes, row)
    return kernel.done()


class _Lines:
    """One row of results."""

    def __init__(self, kernel: Kernel, outer: dict[int, Span], reduced: Sequence[int], width: int):
        self.kernel, self.b, self.nest = kernel, kernel.b, kernel.nest
        self.outer, self.reduced = outer, reduced
        *_, self.steps, self.columns, _ = self.nest.sizes
        self.line = len(self.nest.sizes) - 1
        self.rows = min(width // self.columns, self.steps)
        self.found = reductions(self.nest.ops, kernel.target)
        self.outputs = list(zip(self.nest.outputs, kernel.results, strict=True))
        self.whole = [(v, buffer) for v, buffer in self.outputs if self.line in self.nest.loops[v]]
        # The last tile may overlap the one before it, if all reductions are idempotent.
        self.back = all(r.idempotent for r in self.found) and not self.whole
        rest = self.steps % self.rows and not self.back
        #: The accumulators of full tiles, then those of the shorter last tile.
        self.parts: list[Reduction] = [*self.found, *(self.found if rest else [])]

    def build(self) -> None:
        b, count = self.b, len(self.found)
        starts = [r.starts(b, (self.rows * self.columns,)) for r in self.found]
        starts += [r.starts(b, (self.columns,), none=True) for r in self.parts[count:]]
        parts = in_parts(self.level({}, flat(starts)), self.parts)
        known: dict[Value, Value] = {}
        for i, r in enumerate(self.found):
            total = r.reduced(b, [self.side_by_side(value, self.rows) for value in parts[i]], 0)
            if parts[count:]:
                total = r.joined(b, total, parts[count + i])
            known[r.result] = r.result_of(b, total)
        self.at({}, Span(b.index(0)), known).store([o for o in self.outputs if o not in self.whole])

    def level(self, inner: dict[int, Span], values: Sequence[Value]) -> Sequence[Value]:
        """The reduced loops. The innermost one is run in tiles."""
        b = self.b
        if len(inner) < len(self.reduced) - 1:
            l = self.reduced[len(inner)]
            return b.loop(0, self.nest.sizes[l], 1, values, lambda i, v: self.level({**inner, l: Span(i)}, v))

        def tile(span: Span, v: Sequence[Value]) -> Sequence[Value]:
            return self.joined(inner, span, v)

        return exact_tiles(b, self.steps, self.rows, values, tile, back=self.back)

    def joined(self, inner: dict[int, Span], span: Span, values: Sequence[Value]) -> list[Value]:
        """The accumulators after some more rows."""
        b, here = self.b, self.at(inner, span)
        parts, place = in_parts(values, self.parts), {**inner, self.reduced[-1]: span}
        at = linear(b, [place[l] for l in self.reduced], [self.nest.sizes[l] for l in self.reduced])
        for i, r in enumerate(self.found):
            source = here.neutral(r, self.line)
            if span.size == self.rows:
                parts[i] = r.gather(b, parts[i], source, at)
            else:
                own = r.of_tile(b, self.side_by_side(source, span.size), 0, at)
                parts[len(self.found) + i] = r.joined(b, parts[len(self.found) + i], own)
        here.store(self.whole)
        return flat(parts)

    def side_by_side(self, value: Value, rows: int) -> Value:
        """The one-dimensional tile as a tile of rows."""
        return self.b.reshape(value, type=VectorType((rows, self.columns), element_type(value.type)))

    def at(self, inner: dict[int, Span], span: Span, known: dict[Value, Value] | None = None) -> Tile:
        b = self.b
        own = zip(range(self.line - 2, self.line + 1), line_spans(b, span, self.columns), strict=True)
        spans = {**self.outer, **inner, **dict(own)}
        return LineTile(self.kernel, [spans.get(l, Span(b.index(0))) for l in range(self.line + 1)], known)
