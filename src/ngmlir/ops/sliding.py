# SPDX-License-Identifier: Apache-2.0
"""How windows lie along a dimension: `taps` elements `dilation` apart, from every `step`-th place that has room."""

from __future__ import annotations


def span_of(taps: int, dilation: int) -> int:
    """Elements from the first tap to the last one."""
    return (taps - 1) * dilation + 1


def count_of(length: int, span: int, step: int) -> int:
    """How many windows that span so many elements a dimension has room for; below 1 where it has none."""
    return (length - span) // step + 1


def covered_by(count: int, span: int, step: int) -> int:
    """Over how many elements so many windows reach."""
    return (count - 1) * step + span


def same_border(length: int, span: int, step: int) -> tuple[int, int]:
    """Elements around a dimension with which it has as many windows as elements, divided by the step and rounded up; of an
    odd number the greater half comes second."""
    missing = max(0, covered_by(-(-length // step), span, step) - length)
    return missing // 2, missing - missing // 2


def described(taps: int, dilation: int) -> str:
    """What messages call a window."""
    apart = f" ({taps} taps, {dilation} apart)" if dilation > 1 else ""
    return f"a window of {span_of(taps, dilation)} elements{apart}"
