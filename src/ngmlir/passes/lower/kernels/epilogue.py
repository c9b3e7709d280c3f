# SPDX-License-Identifier: Apache-2.0
"""The ops of a fusion that follow its matrix product, applied to a tile of it."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.core import Op, Value
from ....ir.types import shape_of, tile_type, with_element
from ....support.lengths import is_same
from ...analysis.product import Product
from .fusion_kernel import Kernel, Tile
from .tiling import Span


def store_epilogue(
    kernel: Kernel, dot: Op, product: Product, batch: Sequence[Value], place: tuple[Span, Span], total: Value
) -> None:
    """Computes the rest of the fusion on a tile of the product, some rows and columns, and stores the outputs."""
    b = kernel.b
    if product.accumulator is not product.result:
        total = b.cast(total, type=with_element(total.type, product.result))
    if product.turned:
        total = b.transpose(total, permutation=[1, 0])
    loops = kernel.nest.loops[dot.results[0]]
    spans: list[Span] = [Span(b.index(0)) for _ in kernel.nest.sizes]
    dims = [(Span(v), product.batch) for v in batch]
    sides = [*zip(place, (product.rows, product.columns), strict=True)]
    dims += sides[::-1] if product.turned else sides
    # A dimension of one element is no loop.
    kept = [(span, size) for span, size in dims if not is_same(size, 1)]
    placed = [span for span, _ in kept]
    if len(loops) > len(kept):
        # In the written result the batch may be split into several loops.
        count = len(loops) - len(kept) + 1
        placed[:1] = kernel.delinearize(placed[0].start, [kernel.nest.sizes[l] for l in loops[:count]])
    for l, span in zip(loops, placed, strict=True):
        spans[l] = span
    shape = tuple(span.size for span, _ in kept if span.size)
    if shape != shape_of(total.type):
        total = b.reshape(total, type=tile_type(shape, product.result))
    tile = Tile(kernel, spans, {dot.results[0]: total})
    tile.store(list(zip(kernel.nest.outputs, kernel.results, strict=True)))
