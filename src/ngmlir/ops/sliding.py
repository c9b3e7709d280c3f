# SPDX-License-Identifier: Apache-2.0
"""How windows lie along a dimension: `taps` elements `dilation` apart, from every `step`-th place that has room."""

from __future__ import annotations


def span_of(taps: int, dilation: int) -> int:
    """Elements from the first tap to the last one."""
    return (taps - 1) * dilation + 1


def count_of(length: int, span: int, step: int) -> int:
    """How many windows that span so many elements a dimension has room for; it has room for one."""
    return (length - span) // step + 1


def described(taps: int, dilation: int) -> str:
    """What messages call a window."""
    apart = f" ({taps} taps, {dilation} apart)" if dilation > 1 else ""
    return f"a window of {span_of(taps, dilation)} elements{apart}"
