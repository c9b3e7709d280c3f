# SPDX-License-Identifier: Apache-2.0
"""How numbers follow from named lengths: polynomials of them and of quotients, in one form, with bounds that hold for all lengths."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from math import floor, gcd, prod
from typing import NamedTuple, TypeAlias, TypeVar

#: The least value of a named length. Programs for lengths of 0, where arrays are empty, are compiled by themselves.
LEAST = 1
#: From here on a length differs from that of what is broadcast: what lengths are at least, unless `lengths_from` says otherwise.
SEVERAL = 2

V = TypeVar("V")
_least: ContextVar[int] = ContextVar("least", default=SEVERAL)


@contextmanager
def setting(variable: ContextVar[V], value: V) -> Generator[None]:
    """Inside, a context variable has a value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def lengths_from(least: int) -> AbstractContextManager[None]:
    """Inside, what is decided holds for all lengths from that one on."""
    return setting(_least, least)


#: How many results of each operation on expressions are kept: what a large program asks for, again and again, of few different ones.
KEPT = 1 << 14


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

    @property
    def name(self) -> str:
        """Of which length it is, where it is one; else ""."""
        match self.terms:
            case (((str() as name,), 1),):
                return name
            case _:
                return ""

    @lru_cache(KEPT)  # noqa: B019 - all expressions are values
    def __add__(self, other: Expression) -> Expression:
        return _collected((*self.terms, *other.terms))

    @lru_cache(KEPT)  # noqa: B019
    def __neg__(self) -> Expression:
        return Expression(tuple([(monomial, -factor) for monomial, factor in self.terms]))

    @lru_cache(KEPT)  # noqa: B019
    def __sub__(self, other: Expression) -> Expression:
        return self + -other

    @lru_cache(KEPT)  # noqa: B019
    def __mul__(self, other: Expression) -> Expression:
        return _collected(
            [(tuple(sorted((*m, *n), key=_atom_text)), f * g) for m, f in self.terms for n, g in other.terms]
        )

    def __floordiv__(self, other: Expression) -> Expression:
        """The quotient rounded down. NeedsLength where it is not by a number, and no polynomial for all lengths."""
        return _quotient(self, other, _least.get())

    def divisor(self) -> int:
        """The greatest number that divides all values."""
        return gcd(*(factor for _, factor in self.terms))

    @property
    def may_be_zero(self) -> bool:
        """Whether its constant is a multiple of what divides all else."""
        constant = next((f for m, f in self.terms if not m), 0)
        return constant % gcd(*(f for m, f in self.terms if m)) == 0

    def names(self) -> set[str]:
        """The lengths that it follows from."""
        found = set[str]()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else atom.of.names()
        return found

    def solutions(self) -> list[tuple[str, Expression]]:
        """Lengths, with what each is where this is 0: of those that occur in one term, alone, and whose factor divides all others."""
        found: list[tuple[str, Expression]] = []
        for term in self.terms:
            monomial, factor = term
            rest = Expression(tuple([other for other in self.terms if other is not term]))
            if len(monomial) != 1 or rest.constant is not None or rest.divisor() % factor:
                continue
            (atom,) = monomial
            if isinstance(atom, str) and atom not in rest.names():
                found.append((atom, rest // number(-factor)))
        return found

    def replaced(self, lengths: Mapping[str, Expression]) -> Expression:
        """The same with other expressions for these lengths."""
        total = number(0)
        for monomial, factor in self.terms:
            term = number(factor)
            for atom in monomial:
                if isinstance(atom, str):
                    term = term * lengths.get(atom, named(atom))
                else:
                    term = term * (atom.of.replaced(lengths) // number(atom.by))
            total = total + term
        return total

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

    def least(self, of: int | None = None) -> Fraction | None:
        """A bound from below, for all lengths from `of` on, or from those that `lengths_from` says; None where there is none."""
        return _lower_bound(self, _least.get() if of is None else of)

    @property
    def has_quotients(self) -> bool:
        """Whether it is no polynomial of lengths alone."""
        return any(isinstance(atom, Floor) for monomial, _ in self.terms for atom in monomial)

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, factor in self.terms:
            sign = ("-" if factor < 0 else "") if not parts else (" - " if factor < 0 else " + ")
            texts = [_atom_text(atom) for atom in monomial]
            if abs(factor) != 1 or not texts:
                texts.insert(0, str(abs(factor)))
            parts.append(sign + "*".join(texts))
        return "".join(parts) or "0"


@lru_cache(KEPT)
def _quotient(of: Expression, other: Expression, least: int) -> Expression:
    """`of // other`, which may depend on the `least` length."""
    by = other.constant
    if by is None:
        return _by_lengths(of, other)
    if by < 0:
        return -of // -other
    if by == 0:
        raise ZeroDivisionError
    whole = [(m, f // by) for m, f in of.terms if f % by == 0]
    rest = [(m, f) for m, f in of.terms if f % by]
    # What a constant has of whole divisors goes in front.
    whole += [(m, f // by) for m, f in rest if not m]
    rest = [(m, f if m else f % by) for m, f in rest]
    return _collected([*whole, *_floor(Expression(tuple(rest)), by).terms])


def _by_lengths(of: Expression, other: Expression) -> Expression:
    """Division of polynomials: the greatest term by the greatest of the divisor, as long as that divides it."""
    found, left = list[tuple[Monomial, int]](), list[tuple[Monomial, int]]()
    (atoms, divisor), *_ = other.terms
    rest = of
    while rest.terms:
        (monomial, factor), *others = rest.terms
        over, times = list(monomial), factor // divisor
        if times == 0 or any(atoms.count(a) > over.count(a) for a in atoms):
            left.append((monomial, factor))
            rest = Expression(tuple(others))
            continue
        for atom in atoms:
            over.remove(atom)
        found.append((tuple(over), times))
        rest = rest - Expression((found[-1],)) * other
    # What is left is of no whole divisor, whatever the lengths are.
    remainder = _collected(left)
    if not remainder.terms or (_at_least(remainder, 0) and _at_least(other - remainder, 1)):
        return _collected(found)
    raise NeedsLength(f"({of}) floordiv ({other})")


@lru_cache(KEPT)
def named(name: str) -> Expression:
    """A length."""
    return Expression((((name,), 1),))


@lru_cache(KEPT)
def number(value: int) -> Expression:
    """A constant."""
    return Expression((((), value),) if value else ())


def _at_least(expression: Expression, bound: int) -> bool:
    """Whether it is so for all lengths."""
    least = expression.least()
    return least is not None and least > bound - 1


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
def _lower_bound(expression: Expression, of: int) -> Fraction | None:
    found = [_bound(expression, of, whole) for whole in (False, True)]
    return max((bound for bound in found if bound is not None), default=None)


def _bound(expression: Expression, least: int, whole: bool) -> Fraction | None:
    """Quotients are replaced by their bounds, which follow from lengths, or, of quotients that are added (`whole`), by the least numbers
    that they are; then each length by the least, and what is subtracted must be below what is added."""
    terms: dict[Monomial, Fraction] = {}
    for monomial, factor in expression.terms:
        floors = [atom.of for atom in monomial if isinstance(atom, Floor)]
        if any(_has_products_of_quotients(of) for of in floors):
            return None
        if len(floors) > 1 or (whole and floors and factor > 0):
            # Bounds are multiplied where nothing is negative.
            lowest = [_least_quotient(atom, least) if isinstance(atom, Floor) else least for atom in monomial]
            if any(low is None or low < 0 for low in lowest):
                return None
            if factor > 0:
                terms[()] = terms.get((), Fraction(0)) + factor * prod(low or 0 for low in lowest)
                continue
        for m, f in _without_floors(monomial, Fraction(factor)):
            terms[m] = terms.get(m, Fraction(0)) + f
    # With N = least + n: a polynomial without negative factors of products of n is least at n = 0.
    shifted: dict[Monomial, Fraction] = {}
    for monomial, factor in terms.items():
        for m, f in _shifted(monomial, factor, least):
            shifted[m] = shifted.get(m, Fraction(0)) + f
    if any(f < 0 for m, f in shifted.items() if m):
        return None
    return shifted.get((), Fraction(0))


def _least_quotient(atom: Floor, of: int) -> int | None:
    """A bound from below of a quotient, which is whole."""
    least = atom.of.least(of)
    return None if least is None else floor(least / atom.by)


def _has_products_of_quotients(expression: Expression) -> bool:
    for monomial, _ in expression.terms:
        floors = [atom.of for atom in monomial if isinstance(atom, Floor)]
        if len(floors) > 1 or any(map(_has_products_of_quotients, floors)):
            return True
    return False


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


def _shifted(monomial: Monomial, factor: Fraction, least: int) -> list[tuple[Monomial, Fraction]]:
    made: list[tuple[Monomial, Fraction]] = [((), factor)]
    for atom in monomial:
        made = [part for m, f in made for part in (((*m, atom), f), (m, f * least))]
    return made
