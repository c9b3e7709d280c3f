# SPDX-License-Identifier: Apache-2.0
"""Error recovery: a text is parsed to its end, so that all of its errors are reported at once.

If the op can be understood in spite of the error (an undefined value, a type that does not agree), the error is recorded
and parsing continues there. Other errors end their op: the text up to the next op of the same block is skipped, and no
further errors are reported about the names in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from ..support.diagnostics import Diagnostic, Location, UserError
from .attribute_parser import AttributeParser
from .core import Value
from .resource_files import ResourceFolder
from .scopes import Scopes
from .types import Type

#: Ops whose short names have no dot.
SHORT_NAMES = {"module": "builtin.module", "return": "func.return", "call": "func.call"}


class RecoveringParser(AttributeParser):
    """An attribute parser that collects errors; `names` are the definitions so far."""

    def __init__(self, text: str, file: str, first_line: int, unregistered: bool, resources: ResourceFolder):
        self.first_line = first_line
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        super().__init__(text, file, unregistered, resources)
        self.errors: list[Diagnostic] = []
        self.names = Scopes(self.complain, self.hints)
        self.ended = False  # an error at the end of the text was recorded: later ones follow from it

    def place(self, offset: int) -> Location:
        line = bisect_right(self.newlines, offset - 1)
        return Location(self.file, line + self.first_line, offset - (self.newlines[line - 1] if line else -1))

    def complain(self, message: str, start: int, hint: str = "", note: tuple[str, int] | None = None) -> None:
        """Records an error; `note` is a message for another place of the text."""
        notes = () if note is None else (Diagnostic(note[0], self.place(note[1]), "note"),)
        self.errors.append(Diagnostic(message, self.place(start), hint=hint, notes=notes))

    def finish(self) -> None:
        """UserError with all recorded errors, in source order."""
        if self.errors:
            raise UserError(sorted(self.errors, key=lambda d: d.location), source=self.text)

    def recover(self, error: UserError, start: int, depth: int, scopes: int) -> None:
        """Records the error of the op whose first token has number `start`, and moves to the next op of its block."""
        self.depth = depth
        self.names.unwind(scopes)
        if not (self.ended and self.kind == "end"):
            self.errors += error.diagnostics
        self.ended = self.ended or self.kind == "end"
        tokens = self.tokens
        open_braces = 0
        for token in tokens[start : self.at]:
            open_braces += (token.kind == "{") - (token.kind == "}")
        self.at = max(self.at, start + 1) if tokens[start].kind != "end" else start
        while True:
            kind = tokens[self.at].kind
            if kind == "end" or (
                open_braces <= 0 and (kind == "}" or (kind == "label" and self.begins_line()))
            ):
                break
            if open_braces <= 0 and kind in _BEGINNINGS and self.begins_op():
                break
            open_braces += (kind == "{") - (kind == "}")
            self.at += 1
        self.sync()
        self.names.lose(t.text.partition("#")[0] for t in tokens[start : self.at] if t.kind in _NAMES)

    def resolve(self, names: list[tuple[str, int]], types: Sequence[Type], start: int) -> list[Value]:
        if len(names) != len(types):
            raise self.error_at(f"{len(names)} operands, but {len(types)} operand types", start)
        return self.names.use(names, types)

    def misfit(self) -> int | None:
        """The first `{` whose `}` begins a line with another indentation than the line of the `{`; None if there is none."""
        line = indent = -1
        pairs: list[tuple[int, int]] = []
        for token in self.tokens:
            here = bisect_right(self.newlines, token.start)
            begins = here != line
            if begins:
                line, indent = here, token.start - (self.newlines[here - 1] if here else -1)
            if token.kind == "{":
                pairs.append((token.start, indent))
            elif token.kind == "}" and pairs:
                start, wanted = pairs.pop()
                if begins and indent != wanted:
                    return start
        return None

    def begins_op(self) -> bool:
        """Whether this token is the first of its line and looks like the beginning of an op."""
        token, after = self.tokens[self.at], self.tokens[self.at + 1]
        if token.kind == "value":
            looks = after.kind in ("=", ":")
        elif token.kind == "alias":
            looks = after.kind == "="
        elif token.kind == "bare":
            looks = "." in token.text or token.text in SHORT_NAMES
        else:
            looks = token.kind == "string" and after.kind == "("
        return looks and self.begins_line()

    def begins_line(self) -> bool:
        """Whether the token here is the first of its line: labels that end a line are where a branch goes to."""
        return self.place(self.tokens[self.at - 1].start).line < self.place(self.tokens[self.at].start).line


_NAMES = frozenset({"value", "label"})
_BEGINNINGS = frozenset({"value", "bare", "string", "alias"})
