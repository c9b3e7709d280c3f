# SPDX-License-Identifier: Apache-2.0
"""A curve of values over steps, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10

from .svg import framed, text

_WIDTH, _HEIGHT, _LEFT, _TOP = 620.0, 180.0, 70.0, 14.0
#: More values are drawn as means of neighbours.
_POINTS = 300
#: Positive values whose greatest is so many times the least have a logarithmic scale.
_LOGARITHMIC = 30.0


def curve(values: Sequence[float], label: str) -> str:
    """A line through values over their numbers, which `label` names; NaN and infinities leave gaps.

    Of more than 300 values, means of neighbours are drawn. The scale is logarithmic where positive values span more than a
    factor of 30.
    """
    size = ceil(len(values) / _POINTS) or 1
    parts = [values[i : i + size] for i in range(0, len(values), size)]
    points = [sum(part) / len(part) for part in parts]
    known = [v for v in points if isfinite(v)] or [0.0]
    logarithmic = min(known) > 0 and max(known) > _LOGARITHMIC * min(known)
    if logarithmic:
        low, high = floor(log10(min(known))), ceil(log10(max(known)))
        ticks = [10.0**e for e in range(low, high + 1)]
    else:
        least, greatest = min(known), max(known)
        greatest = greatest if greatest > least else least + 1
        low, high = least, greatest
        ticks = [least + (greatest - least) * i / 4 for i in range(5)]

    def height(value: float) -> float:
        at = log10(value) if logarithmic else value
        return _TOP + _HEIGHT * (1 - (at - low) / (high - low))

    lines: list[str] = []
    for tick in ticks:
        y = height(tick)
        lines.append(f'<path d="M{_LEFT} {y:.1f}h{_WIDTH}" stroke="#e5e7eb"/>')
        lines.append(text(_LEFT - 6, y + 4, f"{tick:.3g}", "#6b7280", "end"))
    for i in range(5):
        x = _LEFT + _WIDTH * i / 4
        lines.append(text(x, _TOP + _HEIGHT + 16, f"{len(values) * i // 4}", "#6b7280", "middle"))
    lines.append(text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 32, label, "#6b7280", "middle"))
    path, pen = "", "M"
    for i, value in enumerate(points):
        if not isfinite(value):
            pen = "M"
            continue
        x = _LEFT + _WIDTH * i / max(1, len(points) - 1)
        path += f"{pen}{x:.1f} {height(value):.1f}"
        pen = "L"
    lines.append(f'<path d="{path}" fill="none" stroke="#2563eb" stroke-width="1.5"/>')
    return framed(_LEFT + _WIDTH + 30, _TOP + _HEIGHT + 42, lines)
