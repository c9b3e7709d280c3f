# SPDX-License-Identifier: Apache-2.0
"""Sizes that are known only when a program is called: integers that know how they follow from named lengths.

A `Length` is an `int`: the value it has for the lengths that a program is compiled with. Sums, products and quotients with it are
`Length`s again, so that shapes, strides, offsets and bounds of loops keep how they follow from the lengths of a call:

    n = Length.named("N", 1009)
    str((n + 15) // 16 * 4)        # "[4*((N + 15) floordiv 16)]"

What is decided by comparing a `Length` holds either for all lengths, from 2 on or from what `lengths_from` says, or it becomes a `Guard`: the
program is for those lengths for which it is decided in the same way. `usual(n)` is a plain number, for choices that change how fast a program is and
nothing else. There are no floats of a `Length`: `ng.extent` computes them when the program is called. The way of PyTorch's `SymInt`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple, TypeVar, cast, overload

from .expressions import KEPT, Expression, named, number, setting
from .expressions import LEAST as LEAST
from .expressions import SEVERAL as SEVERAL
from .expressions import NeedsLength as NeedsLength
from .expressions import lengths_from as lengths_from

#: What the lengths are called that say where parts of an arena begin, and where it ends.
ARENA, ARENA_PART = "arena", "arena."


def is_of_call(name: str) -> bool:
    """Whether a length is that of arguments, not of an arena."""
    return name != ARENA and not name.startswith(ARENA_PART)


# Guards


class Guard(NamedTuple):
    """`expression` compared with 0: what a program assumes of the lengths it is called with."""

    expression: Expression
    relation: str  # "==", "!=", ">=" or "<"

    def holds(self, lengths: Mapping[str, int]) -> bool:
        """Whether it is so for these lengths."""
        value = self.expression.value(lengths)
        match self.relation:
            case "==":
                return value == 0
            case "!=":
                return value != 0
            case ">=":
                return value >= 0
            case _:
                return value < 0

    @property
    def is_certain(self) -> bool:
        """Whether it is so for all lengths."""
        match self.relation:
            case "!=":
                return _positive(self.expression) or _positive(-self.expression)
            case ">=":
                return _never_negative(self.expression) is True
            case "<":
                return _never_negative(self.expression) is False
            case _:
                return False

    def __str__(self) -> str:
        expression, relation = self.expression, self.relation
        if expression.terms and expression.terms[0][1] < 0:
            expression, relation = -expression, {">=": "<=", "<": ">"}.get(relation, relation)
        constant = next((f for m, f in expression.terms if not m), 0)
        return f"{expression - number(constant)} {relation} {-constant}"


_guards: ContextVar[dict[Guard, None] | None] = ContextVar("guards", default=None)


@contextmanager
def guarding(*, for_later: bool = False) -> Generator[dict[Guard, None]]:
    """Collects what is assumed of lengths inside; who collects around it gets that too, unless it is kept `for_later`: for `assume`."""
    found: dict[Guard, None] = {}
    outer = _guards.get()
    token = _guards.set(found)
    try:
        yield found
    finally:
        _guards.reset(token)
        if outer is not None and not for_later:
            outer.update(found)


def by_value() -> AbstractContextManager[None]:
    """Inside, `is_same` assumes of numbers what holds for the present lengths, as `==` does: what has to be equal is found so."""
    return setting(_by_value, True)


_by_value: ContextVar[bool] = ContextVar("by_value", default=False)


def unlike_one() -> AbstractContextManager[None]:
    """Inside, what equals a number only where a length is 1 does not equal it, and nothing is assumed. So where the types of a program say
    what is broadcast, and code for any length is right for 1."""
    return setting(_unlike_one, True)


_unlike_one: ContextVar[bool] = ContextVar("unlike_one", default=False)


def _assume(expression: Expression, relation: str) -> None:
    if relation in ("==", "!=") and expression.terms[0][1] < 0:
        expression = -expression
    found = _guards.get()
    if found is None:
        raise NeedsLength(f"whether {Guard(expression, relation)}")
    found[Guard(expression, relation)] = None


def assume(guards: Iterable[Guard]) -> None:
    """Assumes what was assumed where something was computed that is used again. NeedsLength where that is not collected."""
    for guard in guards:
        if not guard.is_certain:
            _assume(guard.expression, guard.relation)


# Integers


class Length(int):
    """An integer that follows from named lengths. Apart from its value it has a `usual` one, for which schedules are chosen: a program is
    made for two values with the same usual one, to find what depends on a value."""

    expression: Expression
    usual: int

    def __new__(cls, expression: Expression, value: int, usual: int | None = None) -> Length:
        made = super().__new__(cls, value)
        made.expression = expression
        made.usual = value if usual is None else usual
        return made

    @staticmethod
    def named(name: str, value: int, usual: int | None = None) -> Length:
        """A length that calls say."""
        return Length(named(name), value, usual)

    def __add__(self, other: int) -> int:
        return _made(self, other, operator.add)

    def __radd__(self, other: int) -> int:
        return self + other

    def __sub__(self, other: int) -> int:
        return _made(self, other, operator.sub)

    def __rsub__(self, other: int) -> int:
        return -self + other

    def __mul__(self, other: int) -> int:
        return _made(self, other, operator.mul)

    def __rmul__(self, other: int) -> int:
        return self * other

    def __neg__(self) -> int:
        return Length(-self.expression, -int(self), -self.usual)

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    def __floordiv__(self, other: int) -> int:
        return _made(self, other, _floordiv)

    def __truediv__(self, other: float) -> float:
        raise NeedsLength(f"{self.expression} as a float")

    def __rtruediv__(self, other: float) -> float:
        raise NeedsLength(f"{self.expression} as a float")

    def __float__(self) -> float:
        raise NeedsLength(f"{self.expression} as a float")

    def __rfloordiv__(self, other: int) -> int:
        # Of a number: 0 where it is less than the length.
        if 0 <= other < self:
            return 0
        raise NeedsLength(f"{other} floordiv ({self.expression})")

    def __mod__(self, other: int) -> int:
        return self - self // other * other

    def __rmod__(self, other: int) -> int:
        return other - other // self * self

    def __divmod__(self, other: int) -> tuple[int, int]:
        quotient = self // other
        return quotient, self - quotient * other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        quotient = other // self
        return quotient, other - quotient * self

    def __lshift__(self, other: int) -> int:
        return self * (1 << other)

    def __rshift__(self, other: int) -> int:
        return self // (1 << other)

    def __pow__(self, other: int, modulus: None = None) -> Any:  # type: ignore[override]
        result: int = 1
        for _ in range(other):
            result = result * self
        return result

    def bit_length(self) -> int:
        raise NeedsLength(f"the bits of {self.expression}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        if isinstance(other, Length) and other.expression == self.expression and int(other) == int(self):
            return True
        return _is_zero(expression_of(self) - expression_of(other), int(self) - int(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: int) -> bool:
        return not self >= other

    def __ge__(self, other: int) -> bool:
        return _is_not_negative(expression_of(self) - expression_of(other), int(self) - int(other))

    def __gt__(self, other: int) -> bool:
        return not self <= other

    def __le__(self, other: int) -> bool:
        return _is_not_negative(expression_of(other) - expression_of(self), int(other) - int(self))

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        # Unlike that of its value: tables that find things by sizes tell it from a number.
        return hash((self.expression, int(self), self.usual))

    def __str__(self) -> str:
        return f"[{self.expression}]"

    def __repr__(self) -> str:
        return str(self)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> Any:
        return Length, (self.expression, int(self), self.usual)


def _floordiv(a: Any, b: Any) -> Any:
    return a // b


def _made(a: Length, b: Any, of: Callable[[Any, Any], Any]) -> Any:
    if not isinstance(b, int):
        if isinstance(b, float):
            raise NeedsLength(f"{a.expression} as a float")
        return NotImplemented
    expression = of(a.expression, expression_of(b))
    value = of(int(a), int(b))
    return value if expression.constant is not None else Length(expression, value, of(a.usual, usual(b)))


def _is_zero(difference: Expression, value: int) -> bool:
    if difference.constant is not None:
        return difference.constant == 0
    if _positive(difference) or _positive(-difference) or not difference.may_be_zero:
        return False
    if _unlike_one.get() and _differs_for_several(difference):
        return False
    _assume(difference, "==" if value == 0 else "!=")
    return value == 0


@lru_cache(KEPT)
def _differs_for_several(difference: Expression) -> bool:
    """Whether no lengths of 2 or more make it 0. Quotients may be 0 for lengths of 1 alone, so nothing is said of these."""
    if difference.has_quotients:
        return False
    return any((least := each.least(SEVERAL)) is not None and least > 0 for each in (difference, -difference))


def _is_not_negative(difference: Expression, value: int) -> bool:
    decided = _never_negative(difference)
    if decided is None:
        _assume(difference, ">=" if value >= 0 else "<")
        return value >= 0
    return decided


def _never_negative(expression: Expression) -> bool | None:
    """Whether it is at least 0 for all lengths (True) or for none (False); None where that depends on them."""
    least = expression.least()
    if least is not None and least > -1:
        return True
    return False if _positive(-expression) else None


def _positive(expression: Expression) -> bool:
    least = expression.least()
    return least is not None and least > 0


def expression_of(value: int) -> Expression:
    """How an integer follows from lengths; a constant where it does not."""
    return value.expression if isinstance(value, Length) else number(int(value))


N = TypeVar("N", int, float)


@overload
def usual(value: N) -> N: ...
@overload
def usual(value: tuple[int, ...]) -> tuple[int, ...]: ...
def usual(value: Any) -> Any:
    """A size, or those of a shape, as numbers for the usual lengths: for choices between ways that are right for all lengths."""
    if isinstance(value, tuple):
        return tuple([v.usual if isinstance(v, Length) else v for v in cast("tuple[int, ...]", value)])
    return value.usual if isinstance(value, Length) else value


def value_at(number: int, lengths: Mapping[str, int]) -> int:
    """The number for these lengths, which may follow from others."""
    return number.expression.value(lengths) if isinstance(number, Length) else number


def linear(number: int) -> tuple[str, int, int] | None:
    """The name of a length, and what it is multiplied by and what is added to give the number; None where it is no such number."""
    terms = dict(number.expression.terms) if isinstance(number, Length) else {}
    more = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((atoms, times),) = terms.items()
    return (atoms[0], times, more) if len(atoms) == 1 and isinstance(atoms[0], str) else None


def name_of(number: int) -> str | None:
    """The name of the length that a number is; None where it is none, or follows from one."""
    found = linear(number)
    return found[0] if found is not None and found[1:] == (1, 0) else None


def is_open(values: Iterable[int]) -> bool:
    """Whether some of the numbers follow from lengths."""
    return any(isinstance(value, Length) for value in values)


def at_least(a: int, b: int) -> bool | None:
    """Whether `a >= b` for all lengths (True) or for none (False); None where that depends on them. Nothing is assumed."""
    if not isinstance(a, Length) and not isinstance(b, Length):
        return a >= b
    return _never_negative(expression_of(a) - expression_of(b))


def below(a: int, b: int) -> bool | None:
    """Whether `a < b`, in the same way."""
    return at_least(b - 1, a)


def greatest(values: Sequence[int]) -> int:
    """The greatest of some sizes. Of those of which that depends on lengths, their sum, which is enough for each."""
    found = values[0]
    for value in values[1:]:
        first = at_least(found, value)
        found = found + value if first is None else found if first else value
    return found


def is_same(a: int, b: int) -> bool:
    """Whether two numbers are equal for all lengths."""
    if isinstance(a, Length) or isinstance(b, Length):
        return expression_of(a) == expression_of(b) or (_by_value.get() and int(a) == int(b) and a == b)
    return a == b


def are_same(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are equal for all lengths."""
    return len(a) == len(b) and all(map(is_same, a, b))


def may_be_several(count: int) -> bool:
    """Whether a number is more than one, or may be for some lengths."""
    return isinstance(count, Length) or count > 1


def is_multiple(value: int, by: int) -> bool:
    """Whether `by` divides the value for all lengths."""
    if not isinstance(value, Length):
        return value % by == 0
    return value.expression.divisor() % by == 0


def quotient(a: int, b: int) -> int | None:
    """`a / b` where `b` divides `a` for all lengths, else None."""
    if not isinstance(a, Length) and not isinstance(b, Length):
        return a // b if b and a % b == 0 else None
    if not isinstance(a, Length):
        return 0 if a == 0 else None
    if isinstance(b, Length):
        try:
            return a // b if is_same(a // b * b, a) else None
        except NeedsLength:
            return None
    return a // b if b and is_multiple(a, b) else None


def greatest_divisor(*values: int) -> int:
    """The greatest number that divides all values for all lengths: math.gcd, of lengths too."""
    return gcd(*[v.expression.divisor() if isinstance(v, Length) else v for v in values])


def exact(value: Any) -> int:
    """`int(value)` that keeps how it follows from lengths."""
    return value if isinstance(value, Length) else int(value)


def as_index(value: Any) -> int:
    """`operator.index(value)` that keeps how it follows from lengths. TypeError for what is no integer."""
    return value if isinstance(value, Length) else operator.index(value)


# Shapes


def slice_indices(part: slice, length: int) -> tuple[int, int, int]:
    """`part.indices(length)`, also of a length that follows from others."""
    if not isinstance(length, Length):
        return part.indices(length)
    step = 1 if part.step is None else operator.index(part.step)
    low, high = (0, length) if step > 0 else (-1, length - 1)

    def place(given: Any, default: int) -> int:
        if given is None:
            return default
        at = exact(given)
        at = at + length if at < 0 else at
        return low if at < low else high if at > high else at

    first, last = (low, high) if step > 0 else (high, low)
    return place(part.start, first), place(part.stop, last), step


def range_size(start: int, stop: int, step: int) -> int:
    """`len(range(start, stop, step))`, also of numbers that follow from lengths."""
    return max(0, -(-(stop - start) // step))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together, as NumPy's function of that name gives it, also of sizes that follow from
    lengths. ValueError where there is none."""
    rank = max(map(len, shapes), default=0)
    found = [1] * rank
    for shape in shapes:
        for d, size in enumerate(shape, rank - len(shape)):
            if is_same(size, 1) or is_same(size, found[d]):
                continue
            if not is_same(found[d], 1):
                raise ValueError(f"sizes {found[d]} and {size}")
            found[d] = size
    return tuple(found)


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()
