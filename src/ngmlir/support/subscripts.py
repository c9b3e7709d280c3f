# SPDX-License-Identifier: Apache-2.0
"""The subscripts of einsum, as NumPy and ONNX write them: `ij,jk->ik`, `...ij,...jk`."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from .diagnostics import UserError

#: The label of each dimension: a letter, or `.1`, `.2` ... for those of `...`, counted from the last.
Labels = list[str]


def read_subscripts(text: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of operands with so many dimensions, and of the result: where the text names none, those of `...` and
    the letters that occur once, sorted. UserError where it is not for such operands."""
    left, arrow, right = text.replace(" ", "").partition("->")
    sides = left.split(",")
    if len(sides) != len(ranks):
        raise UserError(f"einsum of {text!r} takes {len(sides)} operands, not {len(ranks)}")
    terms = [_labels(text, side, rank) for side, rank in zip(sides, ranks, strict=True)]
    every = [label for term in terms for label in term]
    dots = sorted({label for label in every if label.startswith(".")}, key=lambda d: -int(d[1:]))
    if not arrow:
        return terms, [*dots, *sorted(c for c in set(every) - set(dots) if every.count(c) == 1)]
    before, mark, after = right.partition("...")
    result = [*before, *(dots if mark else []), *after]
    if not set(result) <= set(every) or len(set(result)) != len(result):
        raise UserError(
            f"einsum of {text!r}: the result {right!r} repeats a letter, or has one of no operand"
        )
    return terms, result


def _labels(text: str, side: str, rank: int) -> Labels:
    before, mark, after = side.partition("...")
    letters, more = [*before, *after], rank - len(before) - len(after)
    if more < 0 or (more and not mark) or not set(letters) <= set(ascii_letters):
        raise UserError(f"einsum of {text!r}: the term {side!r} is not for an operand with {rank} axes")
    return [*before, *(f".{more - i}" for i in range(more)), *after]
