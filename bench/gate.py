# SPDX-License-Identifier: Apache-2.0
"""What is asked of the rows of bench/ops.py, and whether they give it."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple


class Row(NamedTuple):
    """What one case came to; times in seconds per call."""

    family: str
    name: str
    elements: int
    ours: float
    numpy: float
    ratio: float
    rate: float  # 1e9 operations, or bytes, per second
    unit: str
    compile_ms: float


class Bar(NamedTuple):
    """The least ratio of every row of some families, and the least geometric mean of them all."""

    name: str
    families: tuple[str, ...]
    least: float
    mean: float | None = None  # None: none is asked for


BARS = (
    Bar("products", ("product",), 0.95, 1.05),
    Bar("convolutions beside products", ("convolution",), 0.85, 1.0),
    Bar("depthwise, pooling", ("depthwise", "pooling"), 1.0, 2.0),
    Bar("chains, softmax, layer norm", ("chain", "softmax", "layer norm"), 1.0, 1.6),
    Bar(
        "reductions and moves",
        ("reduce", "argmax", "transpose", "pad", "gather", "scatter", "concatenate"),
        0.95,
        1.3,
    ),
    Bar("f16 and bf16 beside our f32", ("narrow product",), 0.8),
)


class Verdict(NamedTuple):
    """How the rows of one bar stand to it."""

    bar: Bar
    count: int
    worst: float
    mean: float
    under: tuple[Row, ...]  # the rows below the least ratio, the slowest first

    @property
    def passed(self) -> bool:
        return not self.under and (self.bar.mean is None or self.mean >= self.bar.mean)


def geomean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def judge(rows: Sequence[Row], bars: Sequence[Bar] = BARS) -> list[Verdict]:
    """The verdict on each bar of which there is a row."""
    found: list[Verdict] = []
    for bar in bars:
        part = sorted((r for r in rows if r.family in bar.families), key=lambda r: r.ratio)
        if part:
            under = tuple(r for r in part if r.ratio < bar.least)
            found.append(Verdict(bar, len(part), part[0].ratio, geomean([r.ratio for r in part]), under))
    return found


def told(verdicts: Sequence[Verdict]) -> str:
    """A table of the bars, and the rows below theirs."""
    lines = [f"{'gate':32}{'cases':>6}{'least':>8}{'bar':>6}{'geomean':>9}{'bar':>6}"]
    for v in verdicts:
        mean = "" if v.bar.mean is None else f"{v.bar.mean:.2f}"
        lines.append(
            f"{v.bar.name:32}{v.count:6}{v.worst:8.2f}{v.bar.least:6.2f}{v.mean:9.2f}{mean:>6}"
            f"  {'passed' if v.passed else 'FAILED'}"
        )
    under = [(v.bar, row) for v in verdicts for row in v.under]
    lines += [
        f"  {row.name:40}{row.elements:9} elements{row.ratio:7.2f}, asked {bar.least:.2f}"
        for bar, row in under
    ]
    return "\n".join(lines)
