# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of sliding windows along a dimension: `taps` elements `dilation` apart, at every `step`-th position where they fit."""

from __future__ import annotations


def span_of(taps: int, dilation: int) -> int:
    """Number of elements from the first tap to the last one."""
    return (taps - 1) * dilation + 1


def count_of(length: int, span: int, step: int) -> int:
    """How many windows of `span` elements fit into a dimension; below 1 if none does."""
    return (length - span) // step + 1


def covered_by(count: int, span: int, step: int) -> int:
    """How many elements `count` windows cover."""
    return (count - 1) * step + span


def same_border(length: int, span: int, step: int) -> tuple[int, int]:
    """Elements to pad before and after a dimension so that it has as many windows as elements, divided by the step and rounded up; of an
    odd number the greater half is after."""
    missing = covered_by(-(-length // step), span, step) - length
    missing = missing if span >= step else max(0, missing)
    return missing // 2, missing - missing // 2


def described(taps: int, dilation: int) -> str:
    """A window in the words of messages."""
    apart = f" ({taps} taps, {dilation} apart)" if dilation > 1 else ""
    return f"a window of {span_of(taps, dilation)} elements{apart}"
