# SPDX-License-Identifier: Apache-2.0
"""Sizes that are known only when a program is called: integers that know how they follow from named lengths.

A `Length` is an `int`: the value it has for the lengths that a program is compiled with. Sums, products and quotients with it are
`Length`s again, so that shapes, strides, offsets and bounds of loops keep how they follow from the lengths of a call:

    n = Length.named("N", 1009)
    str((n + 15) // 16 * 4)        # "[4*((N + 15) floordiv 16)]"

What is decided by comparing a `Length` holds either for all lengths from `LEAST` on, or it becomes a `Guard`: the program is for
those lengths for which it is decided in the same way. `usual(n)` is a plain number, for choices that change how fast a program is and
nothing else. There are no floats of a `Length`: `ng.extent` computes them when the program is called. The way of PyTorch's `SymInt`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import gcd
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, overload

#: The least value of a named length. Programs for lengths of 0 and 1, where arrays are empty or are broadcast, are compiled by themselves.
LEAST = 2
#: What the lengths are called that say where parts of an arena begin, and where it ends.
ARENA, ARENA_PART = "arena", "arena."


class NeedsLength(Exception):
    """A number must be known to compile, and depends on a length."""


class Floor(NamedTuple):
    """`of floordiv by`; `by` is positive."""

    of: Expression
    by: int


Atom: TypeAlias = "str | Floor"
#: A product of atoms, in order of their texts.
Monomial: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True)
class Expression:
    """A polynomial of named lengths and quotients, with its terms in one order: equal polynomials are equal objects."""

    terms: tuple[tuple[Monomial, int], ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    @property
    def constant(self) -> int | None:
        """Its value, where no length is in it."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Expression) -> Expression:
        return _collected((*self.terms, *other.terms))

    def __neg__(self) -> Expression:
        return Expression(tuple([(monomial, -factor) for monomial, factor in self.terms]))

    def __sub__(self, other: Expression) -> Expression:
        return self + -other

    def __mul__(self, other: Expression) -> Expression:
        return _collected(
            [(tuple(sorted((*m, *n), key=_atom_text)), f * g) for m, f in self.terms for n, g in other.terms]
        )

    def __floordiv__(self, other: Expression) -> Expression:
        """The quotient rounded down. NeedsLength where it is neither exact nor by a number."""
        by = other.constant
        if by is None:
            return self._exactly_by(other)
        if by < 0:
            return -self // -other
        if by == 0:
            raise ZeroDivisionError
        whole = [(m, f // by) for m, f in self.terms if f % by == 0]
        rest = [(m, f) for m, f in self.terms if f % by]
        # What a constant has of whole divisors goes in front.
        whole += [(m, f // by) for m, f in rest if not m]
        rest = [(m, f if m else f % by) for m, f in rest]
        return _collected([*whole, *_floor(Expression(tuple(rest)), by).terms])

    def _exactly_by(self, other: Expression) -> Expression:
        if len(other.terms) == 1:
            (atoms, divisor), found = other.terms[0], list[tuple[Monomial, int]]()
            for monomial, factor in self.terms:
                left = list(monomial)
                if factor % divisor or any(atoms.count(a) > left.count(a) for a in atoms):
                    break
                for atom in atoms:
                    left.remove(atom)
                found.append((tuple(left), factor // divisor))
            else:
                return _collected(found)
        if self == other:
            return number(1)
        raise NeedsLength(f"({self}) floordiv ({other})")

    def divisor(self) -> int:
        """The greatest number that divides all values."""
        return gcd(*(factor for _, factor in self.terms))

    def names(self) -> set[str]:
        """The lengths that it follows from."""
        found = set[str]()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else atom.of.names()
        return found

    def value(self, lengths: Mapping[str, int]) -> int:
        """What it is for these lengths."""
        total = 0
        for monomial, factor in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    factor *= lengths[atom]
                else:
                    factor *= atom.of.value(lengths) // atom.by
            total += factor
        return total

    def least(self) -> Fraction | None:
        """A bound from below, for all lengths from LEAST on; None where there is none."""
        return _lower_bound(self)

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, factor in self.terms:
            sign = ("-" if factor < 0 else "") if not parts else (" - " if factor < 0 else " + ")
            texts = [_atom_text(atom) for atom in monomial]
            if abs(factor) != 1 or not texts:
                texts.insert(0, str(abs(factor)))
            parts.append(sign + "*".join(texts))
        return "".join(parts) or "0"


def number(value: int) -> Expression:
    """A constant."""
    return Expression((((), value),) if value else ())


@cache
def _atom_text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    plain = len(atom.of.terms) == 1 and atom.of.terms[0][1] == 1 and len(atom.of.terms[0][0]) == 1
    of = _atom_text(atom.of.terms[0][0][0]) if plain else f"({atom.of})"
    return f"({of} floordiv {atom.by})"


def _collected(terms: Iterable[tuple[Monomial, int]]) -> Expression:
    sums: dict[Monomial, int] = {}
    for monomial, factor in terms:
        sums[monomial] = sums.get(monomial, 0) + factor
    kept = [(m, f) for m, f in sums.items() if f]
    # Constants last, products of more lengths first.
    kept.sort(key=lambda term: (-len(term[0]), [_atom_text(a) for a in term[0]]))
    return Expression(tuple(kept))


def _floor(of: Expression, by: int) -> Expression:
    """`of floordiv by` as a term, where nothing of it is whole."""
    if of.constant is not None:
        return number(of.constant // by)
    if of.terms[0][1] < 0:
        # One form for both signs: the quotient rounded down is less the other rounded up.
        return -((-of + number(by - 1)) // number(by))
    divisor = gcd(by, *(f for m, f in of.terms if m))
    if divisor > 1:
        of = _collected([(m, f // divisor) for m, f in of.terms])
        return of // number(by // divisor)
    if len(of.terms) == 1 and len(of.terms[0][0]) == 1 and of.terms[0][1] == 1:
        (atom,) = of.terms[0][0]
        if isinstance(atom, Floor):
            return _floor(atom.of, atom.by * by)
    return Expression((((Floor(of, by),), 1),))


@cache
def _lower_bound(expression: Expression) -> Fraction | None:
    """Quotients are replaced by their bounds; then each length by the least, and what is subtracted must be below what is added."""
    terms: dict[Monomial, Fraction] = {}
    for monomial, factor in expression.terms:
        for m, f in _without_floors(monomial, Fraction(factor)):
            terms[m] = terms.get(m, Fraction(0)) + f
    # With N = LEAST + n: a polynomial without negative factors of products of n is least at n = 0.
    shifted: dict[Monomial, Fraction] = {}
    for monomial, factor in terms.items():
        for m, f in _shifted(monomial, factor):
            shifted[m] = shifted.get(m, Fraction(0)) + f
    if any(f < 0 for m, f in shifted.items() if m):
        return None
    return shifted.get((), Fraction(0))


def _without_floors(monomial: Monomial, factor: Fraction) -> list[tuple[Monomial, Fraction]]:
    made: list[tuple[Monomial, Fraction]] = [((), factor)]
    for atom in monomial:
        if isinstance(atom, str):
            made = [((*m, atom), f) for m, f in made]
            continue
        of = atom.of if factor < 0 else atom.of - number(atom.by - 1)
        parts = [
            part
            for m, f in of.terms
            for part in _without_floors(m, Fraction(f, atom.by) * (1 if factor > 0 else -1))
        ]
        # The bound of what was multiplied by a negative factor is that of its opposite.
        parts = [(m, f if factor > 0 else -f) for m, f in parts]
        made = [((*m, *n), f * g) for m, f in made for n, g in parts]
    return [(tuple(sorted(m, key=_atom_text)), f) for m, f in made]


def _shifted(monomial: Monomial, factor: Fraction) -> list[tuple[Monomial, Fraction]]:
    made: list[tuple[Monomial, Fraction]] = [((), factor)]
    for atom in monomial:
        made = [part for m, f in made for part in (((*m, atom), f), (m, f * LEAST))]
    return made


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

    def __str__(self) -> str:
        expression, relation = self.expression, self.relation
        if expression.terms and expression.terms[0][1] < 0:
            expression, relation = -expression, {">=": "<=", "<": ">"}.get(relation, relation)
        constant = next((f for m, f in expression.terms if not m), 0)
        return f"{expression - number(constant)} {relation} {-constant}"


_guards: ContextVar[dict[Guard, None] | None] = ContextVar("guards", default=None)


@contextmanager
def guarding() -> Generator[dict[Guard, None]]:
    """Collects what is assumed of lengths inside; who collects around it gets that too."""
    found: dict[Guard, None] = {}
    outer = _guards.get()
    token = _guards.set(found)
    try:
        yield found
    finally:
        _guards.reset(token)
        if outer is not None:
            outer.update(found)


def _assume(expression: Expression, relation: str) -> None:
    if relation in ("==", "!=") and expression.terms[0][1] < 0:
        expression = -expression
    found = _guards.get()
    if found is None:
        raise NeedsLength(f"whether {Guard(expression, relation)}")
    found[Guard(expression, relation)] = None


# Integers


class Length(int):
    """An integer that follows from named lengths. Beside its value it has the `usual` one, for which schedules are chosen: a program is
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
        return Length(Expression((((name,), 1),)), value, usual)

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
    if _positive(difference) or _positive(-difference):
        return False
    _assume(difference, "==" if value == 0 else "!=")
    return value == 0


def _is_not_negative(difference: Expression, value: int) -> bool:
    if difference.constant is not None:
        return difference.constant >= 0
    least = difference.least()
    if least is not None and least > -1:
        return True
    if _positive(-difference):
        return False
    _assume(difference, ">=" if value >= 0 else "<")
    return value >= 0


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


def is_open(values: Iterable[int]) -> bool:
    """Whether some of the numbers follow from lengths."""
    return any(isinstance(value, Length) for value in values)


def at_least(a: int, b: int) -> bool | None:
    """Whether `a >= b` for all lengths (True) or for none (False); None where that depends on them. Nothing is assumed."""
    if not isinstance(a, Length) and not isinstance(b, Length):
        return a >= b
    difference = expression_of(a) - expression_of(b)
    least = difference.least()
    if least is not None and least > -1:
        return True
    return False if _positive(-difference) else None


def below(a: int, b: int) -> bool | None:
    """Whether `a < b`, in the same way."""
    return at_least(b - 1, a) if isinstance(a, Length) or isinstance(b, Length) else a < b


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
        return expression_of(a) == expression_of(b)
    return a == b


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


# Text


class UsualLengths(dict[str, int]):
    """What lengths are compiled with of which only the names are known: numbers that no other size has by chance."""

    PRIMES = (1009, 499, 751, 347, 881, 269, 619, 199)

    def __missing__(self, name: str) -> int:
        number, more = len(self) % len(self.PRIMES), len(self) // len(self.PRIMES)
        self[name] = self.PRIMES[number] + 1024 * more
        return self[name]


_TOKEN = re.compile(r"\s*(floordiv\b|[A-Za-z_][\w.]*|[0-9]+|[()+*-])")


def parse(text: str, lengths: Mapping[str, int]) -> int:
    """The integer that `[text]` spells, for lengths of these values. ValueError where it is none; KeyError for a length without a value."""
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(text)
        tokens.append(found[1])
        at = found.end()
    reader = _Reader(tokens, lengths)
    value = reader.sum()
    if reader.at != len(tokens):
        raise ValueError(text)
    return value


class _Reader:
    def __init__(self, tokens: list[str], lengths: Mapping[str, int]):
        self.tokens, self.lengths, self.at = tokens, lengths, 0

    def accept(self, *wanted: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at] in wanted:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def sum(self) -> int:
        total = -self.product() if self.accept("-") else self.product()
        while sign := self.accept("+", "-"):
            total = total + self.product() if sign == "+" else total - self.product()
        return total

    def product(self) -> int:
        value = self.atom()
        while word := self.accept("*", "floordiv"):
            value = value * self.atom() if word == "*" else value // self.atom()
        return value

    def atom(self) -> int:
        if self.accept("("):
            value = self.sum()
            if not self.accept(")"):
                raise ValueError("expected ')'")
            return value
        if self.at == len(self.tokens):
            raise ValueError("expected a length or a number")
        token = self.tokens[self.at]
        self.at += 1
        if token.isdigit():
            return int(token)
        if not token[0].isalpha() and token[0] != "_":
            raise ValueError(f"expected a length or a number, not {token!r}")
        known = self.lengths[token]
        return known if isinstance(known, Length) else Length.named(token, known)


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


def identifier(name: str) -> str:
    """What a length is called in text, of an axis or a dimension of a name."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"n{plain}"


# Lengths to compile with


def unlike_sizes(lengths: Mapping[str, int]) -> dict[str, int]:
    """About these lengths, as numbers that no other size has by chance: primes from 17 on, a different one for each."""
    found: dict[str, int] = {}
    for name, length in lengths.items():
        found[name] = next(n for n in _primes_from(max(17, length)) if n not in found.values())
    return found


def other_lengths(lengths: Mapping[str, int], guards: Sequence[Guard]) -> dict[str, int]:
    """Other such numbers for which the guards hold too, as far from these as they allow. NeedsLength where there are none."""
    for factor in (3.0, 1.7, 1.2, 0.5, 0.3, 0.8):
        wanted = {name: max(LEAST, int(length * factor)) for name, length in lengths.items()}
        found: dict[str, int] = {}
        for name, length in wanted.items():
            taken = {*found.values(), *lengths.values()}
            found[name] = next(n for n in _primes_from(length) if n not in taken)
        if all(guard.holds(found) for guard in guards):
            return found
    raise NeedsLength(f"whether {' and '.join(map(str, guards))}")


def _primes_from(least: int) -> Iterator[int]:
    n = max(2, least)
    while True:
        if all(n % d for d in range(2, int(n**0.5) + 1)):
            yield n
        n += 1
