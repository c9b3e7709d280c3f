# SPDX-License-Identifier: Apache-2.0
"""Parser of loop nests: `#ng.nest<...>` (ir/nest.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .location_parser import LocationParser
from .nest import GATHERED, KINDS, AffineExpr, Loop, Map, NestAttr

T = TypeVar("T")


class NestParser(LocationParser):
    """A cursor that also reads loop nests."""

    def nest(self) -> NestAttr:
        """The text between `#ng.nest<` and `>`, with the latter."""
        self.expect("<")
        loops: list[Loop] = []
        while self.kind == "bare" and self.token.text not in ("read", "write"):
            if self.token.text != f"d{len(loops)}":
                raise self.error(f"expected the next loop, d{len(loops)}")
            self.advance()
            self.expect("=")
            size = self.integer_or_length()
            kind = self.advance().text if self.kind == "bare" and self.token.text in KINDS else KINDS[0]
            loops.append(Loop(size, kind))
            if not self.accept(","):
                break
        reads: list[Map] = []
        writes: list[Map] = []
        while self.kind != ">":
            word = self.token.text
            if word not in ("read", "write") or (word == "read" and writes):
                raise self.error("expected 'read' and the map of an operand, or 'write' and that of a result")
            self.advance()
            (reads if word == "read" else writes).append(self.map(len(loops)))
        self.expect(">")
        return NestAttr(tuple(loops), tuple(reads), tuple(writes))

    def map(self, loops: int) -> Map:
        """The map of an operand or result of a fusion with this many loops."""
        matrix = self.advance().text if self.token.text in ("matrix", "windows") else ""
        groups: tuple[tuple[int, ...], ...] = ()
        over: tuple[int, ...] = ()
        if matrix:
            self.expect("[")
            over = self.listed(lambda: self.loop("d", loops))
            if not self.accept("="):
                return Map(over, matrix=matrix)
            self.expect("[")
            groups = self.listed(self.sizes)
            self.expect_text("at")
        self.expect("[")
        letter, count = ("c", sum(map(len, groups))) if matrix else ("d", loops)
        gathered = list[bool]()

        def place() -> AffineExpr:
            gathered.append(not matrix and True not in gathered and self.accept(GATHERED))
            return AffineExpr(0, {}) if gathered[-1] else self.affine(letter, count)

        places = self.listed(place)
        dimension = gathered.index(True) if True in gathered else None
        if not self.accept_word("of"):
            alone = [next(iter(place.terms), -1) for place in places]
            if matrix or any(p != AffineExpr(0, {l: 1}) for p, l in zip(places, alone, strict=True)):
                raise self.error("expected 'of' and the shape that these expressions are places in")
            return Map(tuple(alone))
        shape = self.sizes()
        fill = self.attribute() if self.accept_word("fill") else None
        return Map(over, places, shape, fill, matrix, groups, dimension)

    def sizes(self) -> tuple[int, ...]:
        self.expect("[")
        return self.listed(self.integer_or_length)

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        """The items up to a `]`, which is consumed."""
        found: list[T] = []
        while self.kind != "]":
            found.append(item())
            if not self.accept(","):
                break
        self.expect("]")
        return tuple(found)

    def affine(self, letter: str, count: int) -> AffineExpr:
        """`d0 * 2 + d1 - 1`, over `count` loops."""
        offset, terms = 0, dict[int, int]()
        sign = 1
        while True:
            if self.kind == "bare":
                loop = self.loop(letter, count)
                stride = self.integer_or_length() if self.accept("*") else 1
                terms[loop] = terms.get(loop, 0) + sign * stride
            else:
                offset += sign * self.integer_or_length()
            if self.kind == "integer" and self.token.text.startswith("-"):
                continue
            if self.kind not in ("+", "-"):
                return AffineExpr(offset, terms)
            sign = 1 if self.advance().kind == "+" else -1

    def loop(self, letter: str, count: int) -> int:
        """The number of one of `count` loops, `d0`."""
        number = next((n for n in range(count) if self.token.text == f"{letter}{n}"), None)
        if number is None:
            there = f"{letter}0" + (f" to {letter}{count - 1}" if count > 1 else "")
            raise self.error(f"expected a loop, {there}" if count else "there are no loops")
        self.advance()
        return number
