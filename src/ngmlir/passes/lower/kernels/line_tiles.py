# SPDX-License-Identifier: Apache-2.0
"""Tiles of several short rows, seen as one dimension: they fill registers, and contiguous rows are loaded and stored together."""

from __future__ import annotations

from ....ir.core import Value
from ....ir.types import VectorType, element_type
from ....ops.builder import Builder
from .fusion_kernel import Tile
from .reading import read
from .tiling import Span


def line_spans(b: Builder, rows: Span, columns: int) -> list[Span]:
    """The spans of some whole rows in the last three loops of a `LoopNest.in_line`."""
    line = Span(b.multiply(rows.start, b.index(columns)), rows.size * columns)
    return [rows, Span(b.index(0), columns), line]


class LineTile(Tile):
    """A tile of all columns of some rows in a `LoopNest.in_line`."""

    def rows(self, value: Value) -> VectorType:
        """The type of a value with rows and columns as two dimensions."""
        *_, rows, columns, _ = (span.size for span in self.spans)
        return VectorType((rows, columns), element_type(value.type))

    def is_line(self, value: Value) -> bool:
        return len(self.spans) - 1 in self.kernel.nest.loops[value]

    def load(self, value: Value, buffer: Value) -> Value:
        access = self.kernel.nest.accesses.get(value)
        if access is None or not self.is_line(value):
            return super().load(value, buffer)
        tile = read(self.kernel, self.spans, access, self.rows(value), buffer)
        return self.b.reshape(tile, type=self.type(value))

    def broadcast(self, operand: Value, source: Value, value: Value) -> Value:
        # Values of one row or of one column are repeated along the other dimension.
        line, own = len(self.spans) - 1, self.kernel.nest.loops[source]
        kept = [d for d, l in enumerate((line - 2, line - 1)) if l in own]
        if not self.is_line(value) or not kept:
            return super().broadcast(operand, source, value)
        wide = self.b.broadcast(operand, type=self.rows(value), dimensions=kept)
        return self.b.reshape(wide, type=self.type(value))
