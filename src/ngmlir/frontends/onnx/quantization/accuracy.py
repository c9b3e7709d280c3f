# SPDX-License-Identifier: Apache-2.0
"""How far a quantised model is from its f32 form: measures, and the report that holds them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, log10, nan, sqrt
from typing import Any

import numpy as np

from ..ports import Array


@dataclass
class Accuracy:
    """The error of one tensor over all samples: `signal` and `noise` are sums of squares of its f32 form and of the difference
    from it, without NaN and infinities that both have."""

    name: str
    elements: int = 0
    signal: float = 0.0
    noise: float = 0.0
    max_difference: float = 0.0
    sum_difference: float = 0.0
    quantised: float = 0.0
    product: float = 0.0
    rows: int = 0
    same_rows: int = 0

    @property
    def snr(self) -> float:
        """Signal to noise in dB; infinite where there is no difference."""
        if not self.noise:
            return inf
        return 10 * log10(self.signal / self.noise) if self.signal else -inf

    @property
    def mean_difference(self) -> float:
        return self.sum_difference / self.elements if self.elements else 0.0

    @property
    def cosine(self) -> float:
        """The cosine similarity of both as vectors; NaN where one is zero."""
        scale = sqrt(self.signal * self.quantised)
        return self.product / scale if scale else nan

    @property
    def top1(self) -> float:
        """The share of rows whose greatest element is the same; NaN for what has no rows of scores."""
        return self.same_rows / self.rows if self.rows else nan

    def add(self, wide: Any, narrow: Any) -> None:
        """Arrays of the same shape, of any numbers."""
        a, b = np.asarray(wide).astype(np.float64), np.asarray(narrow).astype(np.float64)
        if a.shape != b.shape:
            self.noise = inf
            return
        if a.ndim == 2 and a.shape[1] > 1 and np.asarray(wide).dtype.kind == "f":
            self.rows += len(a)
            self.same_rows += int((a.argmax(1) == b.argmax(1)).sum())
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        both: Array = np.isfinite(a) | ~same
        a, b = a[both], b[both]
        with np.errstate(all="ignore"):
            apart = np.abs(a - b)
            apart[np.isnan(apart)] = inf
        if not apart.size:
            return
        self.elements += a.size
        self.signal += float(np.square(a).sum())
        self.quantised += float(np.square(b).sum())
        self.product += float((a * b).sum())
        self.noise += float(np.square(apart).sum())
        self.max_difference = max(self.max_difference, float(apart.max()))
        self.sum_difference += float(apart.sum())


@dataclass(frozen=True)
class LayerReport:
    """A quantised node: its signal to noise in dB, alone with inputs in f32; None where it was not measured."""

    name: str
    op: str
    bits: int
    snr: float | None


@dataclass(frozen=True)
class OutputReport:
    """The comparison of an output of the model with f32."""

    name: str
    snr: float
    max_difference: float
    mean_difference: float
    cosine: float
    top1: float

    @staticmethod
    def of(found: Accuracy) -> OutputReport:
        return OutputReport(
            found.name, found.snr, found.max_difference, found.mean_difference, found.cosine, found.top1
        )


@dataclass
class Report:
    """What quantization did to a model. `str(report)` is a page of text, `report.json()` the same as data."""

    mode: str
    settings: str
    layers: list[LayerReport] = field(default_factory=list[LayerReport])
    outputs: list[OutputReport] = field(default_factory=list[OutputReport])
    #: Nodes with weights that stay in f32, with the reason.
    left: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    bytes_before: int = 0
    bytes_after: int = 0
    calibrated: int = 0
    compared: int = 0
    seconds_before: float | None = None
    seconds_after: float | None = None

    def json(self) -> str:
        """The report as JSON; numbers that are not finite are null."""
        return json.dumps(_finite(asdict(self)), indent=2) + "\n"

    def worst(self, count: int = 5) -> list[LayerReport]:
        """The layers that lose most, worst first."""
        measured = [layer for layer in self.layers if layer.snr is not None]
        return sorted(measured, key=lambda layer: layer.snr if layer.snr is not None else inf)[:count]

    def __str__(self) -> str:
        return "\n".join(_text(self)) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [_finite(v) for v in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def _text(report: Report) -> list[str]:
    bits = sorted({layer.bits for layer in report.layers}, reverse=True)
    kinds = " and ".join(f"{sum(layer.bits == b for layer in report.layers)} in {b} bits" for b in bits)
    lines = [f"mode {report.mode}: {report.settings}", f"layers: {kinds}"]
    lines.append(
        f"size: {_bytes(report.bytes_before)} -> {_bytes(report.bytes_after)}"
        f" ({100 * report.bytes_after / max(report.bytes_before, 1):.0f} %)"
    )
    if report.seconds_before is not None and report.seconds_after is not None:
        ratio = report.seconds_before / report.seconds_after
        lines.append(
            f"time: {report.seconds_before * 1e3:.3f} ms in f32, {report.seconds_after * 1e3:.3f} ms quantised ({ratio:.2f} times as fast)"
        )
    if report.outputs:
        used = f"calibrated with {report.calibrated} samples, " if report.calibrated else ""
        lines += ["", f"accuracy against f32 ({used}compared over {report.compared}):"]
        rows = [["output", "SNR dB", "max diff", "mean diff", "cosine", "same top-1"]]
        rows += [
            [
                o.name,
                _db(o.snr),
                f"{o.max_difference:.3g}",
                f"{o.mean_difference:.3g}",
                f"{o.cosine:.6f}",
                _share(o.top1),
            ]
            for o in report.outputs
        ]
        lines += _table(rows)
    if worst := report.worst():
        lines += ["", "layers that lose most, each alone with inputs in f32:"]
        lines += _table([["layer", "operator", "SNR dB", "to leave it in f32"]]
                        + [[w.name, w.op, _db(w.snr), f"--keep {w.name}"] for w in worst])  # fmt: skip
    if report.left:
        more = [f"... and {len(report.left) - 10} more"] * (len(report.left) > 10)
        lines += ["", "left in f32:", *(f"  {each}" for each in [*report.left[:10], *more])]
    return lines + [f"note: {note}" for note in report.notes]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return [
        "  " + "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _db(snr: float | None) -> str:
    return "-" if snr is None else "exact" if snr == inf else f"{snr:.1f}"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if isfinite(share) else "-"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.2f} kB"
