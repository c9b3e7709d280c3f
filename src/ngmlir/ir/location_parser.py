# SPDX-License-Identifier: Apache-2.0
"""Parser of locations. Of composite ones only the first that names a file is kept.

MLIR prints the aliases of locations after the module that uses them: at the first undefined alias, all definitions in the
rest of the text are read.
"""

from __future__ import annotations

from ..support.diagnostics import UNKNOWN, Location, UserError
from .lexer import Token, unquote
from .type_parser import TypeParser


class LocationParser(TypeParser):
    """A cursor that also reads locations."""

    def location_alias(self, token: Token) -> None:
        """Parses `#name = loc(...)`, from after the `=`."""
        self.expect_text("loc")
        self.expect("(")
        start, first = self.token.start, self.at
        before = self.expanded
        self.aliases[token.text] = self.location_body()
        self.location_texts[token.text] = self.spelled(first, self.at)
        self.alias_weights[token.text] = self.token.start - start + self.expanded - before
        self.expect(")")

    def read_ahead(self) -> None:
        """Parses the aliases of locations that are defined later, once. Errors in one are reported at its definition."""
        if self.has_read_ahead:
            return
        self.has_read_ahead = True
        here = self.at
        for at in range(here, len(self.tokens) - 2):
            name, sign, word = self.tokens[at : at + 3]
            if (
                word.text == "loc"
                and sign.kind == "="
                and name.kind == "alias"
                and name.text not in self.aliases
            ):
                self.at = at + 2
                self.sync()
                try:
                    self.location_alias(name)
                except UserError:
                    self.lost_aliases.add(name.text)
        self.at = here
        self.sync()

    def location(self) -> Location:
        """`loc(...)`: of composite locations, the first that names a file."""
        self.expect_text("loc")
        self.expect("(")
        found = self.location_body()
        self.expect(")")
        return found

    def location_body(self) -> Location:
        self.deeper()
        found = self.location_here()
        self.depth -= 1
        return found

    def location_here(self) -> Location:
        token = self.advance()
        if token.kind == "string":
            if self.accept(":"):
                line = self.integer()
                self.expect(":")
                column = self.integer()
                if self.accept_word("to"):  # a range, which is kept by its beginning
                    if self.kind == "integer":
                        self.advance()
                    self.expect(":")
                    self.integer()
                return Location(unquote(token.text), line, column)
            if self.accept("("):
                inner = self.location_body()
                self.expect(")")
                return inner
            return UNKNOWN
        if token.kind == "alias":
            if token.text not in self.aliases:
                self.read_ahead()
            alias = self.aliases.get(token.text)
            if isinstance(alias, Location):
                return alias
            if token.text in self.lost_aliases:
                raise UserError(())  # the error was reported at its definition
            defined = (name for name, found in self.aliases.items() if isinstance(found, Location))
            near = self.hints.did_you_mean(token.text, defined)
            raise self.error_at(f"the location {token.text} is not defined", token.start, near)
        if token.text == "callsite":
            self.expect("(")
            callee = self.location_body()
            self.expect_text("at")
            caller = self.location_body()
            self.expect(")")
            return callee if callee.known else caller
        if token.text == "fused":
            if self.kind == "<":
                self.skip_angles()
            self.expect("[")
            parts = [self.location_body()]
            while self.accept(","):
                parts.append(self.location_body())
            self.expect("]")
            return next((p for p in parts if p.known), UNKNOWN)
        if token.text == "unknown":
            return UNKNOWN
        raise self.error_at("expected a location", token.start)
