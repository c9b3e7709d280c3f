# SPDX-License-Identifier: Apache-2.0
"""The sizes of a call of code for all lengths, as steps that native code executes (see `entry`): so new lengths of the
arguments take no Python."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ..support.expressions import Expression, number
from ..support.lengths import Guard, expression_of, is_open


class Step(IntEnum):
    """Operations. Operands are indices of words, except those of DIMENSION."""

    DIMENSION = 0  # operands: the index of an argument and of its dimension
    ADD = 1
    MULTIPLY = 2
    FLOOR = 3  # quotient rounded down; the divisor is positive
    # Comparisons: the fallback is called unless they hold.
    EQUAL = 4
    NOT_EQUAL = 5
    NOT_LESS = 6
    LESS = 7


_REQUIRED = {
    "==": Step.EQUAL,
    "!=": Step.NOT_EQUAL,
    ">=": Step.NOT_LESS,
    "<": Step.LESS,
}


class Sizes:
    """A list of 64-bit words, the first of which are the values of `lengths`, and the steps that compute the words that
    are not constant: operation, index of the result, two operands."""

    def __init__(self, lengths: Sequence[str] = ()):
        self.words = [0] * len(lengths)
        self.steps: list[tuple[int, int, int, int]] = []
        self._lengths = {name: i for i, name in enumerate(lengths)}
        self._numbers: dict[int, int] = {}
        self._made: dict[tuple[Step, int, int], int] = {}

    def read(self, name: str, argument: int, dimension: int, times: int, more: int) -> None:
        """Computes a length from a dimension of an argument, which is `times * length + more`."""
        found = self._word()
        self.steps.append((Step.DIMENSION, found, argument, dimension))
        found = self._step(Step.ADD, found, self.number(-more)) if more else found
        self.steps.append((Step.FLOOR, self._lengths[name], found, self.number(times)))

    def require(self, guard: Guard) -> None:
        """The fallback is called unless the guard holds."""
        # The constant is compared with the other terms, not added to them: 2**63 has no word, but -2**63 does.
        bound = next((factor for monomial, factor in guard.expression.terms if not monomial), 0)
        value = self._value(guard.expression - number(bound))
        self.steps.append((_REQUIRED[guard.relation], 0, value, self.number(-bound)))

    @property
    def are_words(self) -> bool:
        """Whether all constants fit in 64 bits."""
        return all(-(1 << 63) <= word < 1 << 63 for word in self.words)

    def number(self, value: int) -> int:
        """The index of the word that holds a size."""
        if is_open([value]):
            return self._value(expression_of(value))
        if value not in self._numbers:
            self._numbers[value] = self._word(value)
        return self._numbers[value]

    def shape(self, sizes: Sequence[int]) -> int:
        """The index of the first of consecutive words that hold these sizes."""
        found = [self.number(size) if is_open([size]) else None for size in sizes]
        zero = self.number(0) if is_open(sizes) else 0
        first = len(self.words)
        for size, word in zip(sizes, found, strict=True):
            at = self._word(0 if word is not None else size)
            if word is not None:
                self.steps.append((Step.ADD, at, word, zero))
        return first

    def _word(self, value: int = 0) -> int:
        self.words.append(value)
        return len(self.words) - 1

    def _step(self, step: Step, first: int, second: int) -> int:
        key = (step, first, second)
        if key not in self._made:
            self._made[key] = self._word()
            self.steps.append((step, self._made[key], first, second))
        return self._made[key]

    def _value(self, of: Expression) -> int:
        total: int | None = None
        for monomial, factor in of.terms:
            words = [
                self._lengths[atom]
                if isinstance(atom, str)
                else self._step(Step.FLOOR, self._value(atom.of), self.number(atom.by))
                for atom in monomial
            ]
            if factor != 1 or not words:
                words.append(self.number(factor))
            term = words[0]
            for word in words[1:]:
                term = self._step(Step.MULTIPLY, term, word)
            total = term if total is None else self._step(Step.ADD, total, term)
        return self.number(0) if total is None else total
