# SPDX-License-Identifier: Apache-2.0
"""The resource section after a program: elements of constants that the program contains as `dense_resource<name>`, as in MLIR.

    {-#
      dialect_resources: {
        builtin: {
          weights: "0x4000000000000000803F00000040"
        }
      }
    #-}

The digits of a resource are its alignment, as four bytes with the lowest first, and then its elements. Constants in files
are among the external resources (see resource_files.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import did_you_mean
from .attributes import quote
from .elements import ElementsAttr
from .lexer import unquote
from .resource_files import TOOL, ResourceFolder, ResourceWriter

#: The text of a constant whose elements were omitted.
ELIDED = "__elided__"
_ALIGNMENT = 64
_OPENING = re.compile(r"^[ \t]*\{-#", re.MULTILINE)
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?://[^\n]*[ \t\r\n]*)*
    (?:(?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+") | (?P<name>[\w$.\-]+) | (?P<close>\#-\}) | (?P<mark>\{-\#|[{}:,])
     | (?P<end>\Z))""",
    re.VERBOSE,
)
_BARE = re.compile(r"[A-Za-z_][\w$.]*\Z", re.ASCII)


def resource_name(name: str) -> str:
    """The name of a resource as text spells it."""
    return name if _BARE.match(name) else quote(name)


def section_text(
    resources: Iterable[tuple[str, ElementsAttr]],
    file: ResourceWriter | None = None,
    longest: int | None = None,
) -> list[str]:
    """The lines of a section with these constants; empty if there are none.

    With `file` it has their offsets in that file; with `longest`, those whose string is longer are omitted.
    """
    if file is not None:
        group, owner = "external_resources", TOOL
        values = [(name, quote(file.add(literal))) for name, literal in resources]
    else:
        group, owner = "dialect_resources", "builtin"
        prefix = "0x" + _ALIGNMENT.to_bytes(4, "little").hex().upper()
        values = [
            (name, f'"{prefix}{literal.data.hex().upper()}"')
            for name, literal in resources
            if longest is None or 2 + len(prefix) + 2 * len(literal.data) <= longest
        ]
    if not values:
        return []
    lines = ",\n".join([f"      {resource_name(name)}: {value}" for name, value in values])
    return ["", "{-#", f"  {group}: {{", f"    {owner}: {{", lines, "    }", "  }", "#-}"]


def section_start(text: str) -> int:
    """The offset of the section; the length of the text if it has none."""
    found = _OPENING.search(text)
    return found.start() if found else len(text)


def read_section(
    text: str, start: int, place: Callable[[int], Location], folder: ResourceFolder
) -> dict[str, memoryview]:
    """The elements of each resource of the section at `start`, those in files mapped from `folder`. UserError if it
    is not a valid section.

    Resources of other dialects and of other tools are skipped.
    """
    if start == len(text):
        return {}
    return _Section(text, start, place, folder).read()


class _Section:
    def __init__(self, text: str, start: int, place: Callable[[int], Location], folder: ResourceFolder):
        self.text, self.at, self.place, self.folder = text, start, place, folder
        self.found: dict[str, memoryview] = {}
        self.advance()

    def error(self, message: str, at: int | None = None) -> UserError:
        return UserError(Diagnostic(message, self.place(self.start if at is None else at)), source=self.text)

    def advance(self) -> str:
        """Consumes the current token and returns it."""
        before = self.token if hasattr(self, "token") else ""
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            self.start = self.at
            raise self.error("expected a name, a string or '#-}' in the resource section")
        self.kind = found.lastgroup or ""
        self.token, self.start, self.at = found[self.kind], found.start(self.kind), found.end()
        return before

    def expect(self, token: str) -> None:
        if self.token != token:
            shown = self.token[:40] if self.kind != "end" else "the end of the text"
            raise self.error(f"expected '{token}' in the resource section, found {shown!r}")
        self.advance()

    def key(self) -> str:
        if self.kind not in ("name", "string"):
            raise self.error("expected a name in the resource section")
        kind, token = self.kind, self.advance()
        return unquote(token) if kind == "string" else token

    def read(self) -> dict[str, memoryview]:
        self.expect("{-#")
        self.members("#-}", self.group)
        if self.kind == "end":
            return self.found
        raise self.error("expected the end of the text after the resource section")

    def members(self, closing: str, member: Callable[[str], None]) -> None:
        """`name: member, ...` up to the closing bracket."""
        while self.token != closing:
            name = self.key()
            self.expect(":")
            member(name)
            if self.token != ",":
                break
            self.advance()
        self.expect(closing)

    def group(self, group: str) -> None:
        def dialect(name: str) -> None:
            self.expect("{")
            member = {("dialect_resources", "builtin"): self.blob, ("external_resources", TOOL): self.in_file}
            self.members("}", member.get((group, name), self.skip))

        self.expect("{")
        self.members("}", dialect)

    def blob(self, name: str) -> None:
        at = self.start
        if self.kind != "string":
            raise self.error(f"expected the hexadecimal digits of the resource '{name}'")
        self.once(name)
        digits = self.advance()
        try:
            if not digits.startswith('"0x'):
                raise ValueError
            data = bytes.fromhex(digits[3:-1])
        except ValueError:
            raise self.error("expected hexadecimal digits after 0x", at) from None
        if len(data) < 4:
            raise self.error(f"the resource '{name}' does not begin with its alignment", at)
        self.found[name] = memoryview(data)[4:]

    def in_file(self, name: str) -> None:
        at = self.start
        if self.kind != "string":
            raise self.error(f"expected the location of the resource '{name}', as a string")
        self.once(name)
        try:
            self.found[name] = self.folder.read(unquote(self.advance()))
        except UserError as error:
            (found,) = error.diagnostics
            raise UserError(replace(found, location=self.place(at)), source=self.text) from None

    def once(self, name: str) -> None:
        if name in self.found:
            raise self.error(f"the resource '{name}' is given twice")

    def skip(self, name: str) -> None:
        """A resource of another dialect, which is skipped: a string or a word."""
        if self.kind not in ("string", "name"):
            raise self.error(f"expected the value of the resource '{name}'")
        self.advance()


def resource_of(resources: Mapping[str, memoryview], name: str) -> memoryview:
    """The elements of a resource; UserError (without a location) if the text does not have them."""
    if name in resources:
        return resources[name]
    if name == ELIDED:
        raise UserError(
            Diagnostic(
                "the elements of this constant were omitted (elided) when it was printed",
                hint="print the program again without eliding constants",
            )
        )
    raise UserError(
        Diagnostic(
            f"there is no resource '{name}'",
            hint=did_you_mean(
                name, resources, "resources are after the program, in {-# dialect_resources #-}"
            ),
        )
    )
