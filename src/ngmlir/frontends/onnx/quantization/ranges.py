# SPDX-License-Identifier: Apache-2.0
"""The ranges of the tensors of a model, over calibration data: it runs in f32, and gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....support.diagnostics import UserError
from ..model import CompiledModel
from ..ports import Array
from .graph import Graph
from .samples import Samples

#: Cells of a histogram.
_CELLS = 1 << 13


class Range:
    """The least and the greatest element that were seen; and, if asked for, how often which magnitudes occur."""

    def __init__(self, histogram: bool):
        self.low, self.high = np.inf, -np.inf
        self.reach = 0.0
        self.counts = np.zeros(_CELLS, np.int64) if histogram else None

    def add(self, array: Array) -> None:
        """Raises ValueError for elements that are not finite."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError("not finite")
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.counts is not None:
            self._count(array, max(abs(low), abs(high)))

    def _count(self, array: Array, greatest: float) -> None:
        assert self.counts is not None
        if not self.reach:
            if not greatest:
                return  # zeros are in every range
            self.reach = 2.0 ** np.ceil(np.log2(greatest))
        while greatest > self.reach:
            # Twice as far: each two cells become one.
            inner = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.pad(inner, _CELLS // 4)
            self.reach *= 2
        self.counts += np.histogram(array, _CELLS, (-self.reach, self.reach))[0]

    def within(self, share: float) -> tuple[float, float]:
        """A range that all but so large a share of the elements are in, split between both sides."""
        if self.counts is None or not self.reach or not share:
            return self.bounds()
        totals = np.cumsum(self.counts)
        left, right = np.searchsorted(totals, [totals[-1] * share / 2, totals[-1] * (1 - share / 2)])
        edges = np.linspace(-self.reach, self.reach, _CELLS + 1)
        low, high = self.bounds()
        return max(low, float(edges[left])), min(high, float(edges[min(right + 1, _CELLS)]))

    def bounds(self) -> tuple[float, float]:
        return (self.low, self.high) if self.low <= self.high else (0.0, 0.0)


def ranges_of(
    graph: Graph,
    names: Sequence[str],
    samples: Samples,
    *,
    histogram: bool,
    target: str,
) -> dict[str, Range]:
    """The range of each of some tensors. UserError where one of them is not finite."""
    found = {name: Range(histogram) for name in names}
    contents = graph.contents
    inputs = {name: i for i, name in enumerate(graph.model.input_names)}
    made = [name for name in names if name not in inputs]
    run = None
    if made:
        part = contents.part(list(contents.proto.graph.node), graph.model.inputs, made)
        run = CompiledModel(part, target)
    for piece in samples.pieces:
        results = list[Any]() if run is None else list(run(*piece.values))
        values = [
            *zip(made, results, strict=True),
            *((n, piece.values[inputs[n]]) for n in names if n in inputs),
        ]
        for name, value in values:
            try:
                found[name].add(np.asarray(value))
            except ValueError:
                raise UserError(
                    f"the tensor '{name}' holds NaN or infinities for {piece.named} of the calibration data",
                    hint="quantization needs finite numbers; --keep NODE leaves the nodes that read it in f32",
                ) from None
    return found
