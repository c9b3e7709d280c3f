# SPDX-License-Identifier: Apache-2.0
"""Debug info of LLVM: source lines, and loops by name.

A loop is described as a function that is inlined at its line: `dot_add.k_loop` in `dot_add.m_loop` in
`dot_add.program`. Profilers and debuggers have names, frames and costs for inlined functions, but none for loops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ..support.diagnostics import Location
from .instructions import Instructions


class DebugInfo:
    """The debug info of one module as metadata: `node` adds a node and returns its number, and `named` has the named
    metadata. `only_lines`: only line directives, without DWARF tables, which PTX does not use."""

    def __init__(self, node: Callable[[str], str], named: dict[str, list[str]], *, only_lines: bool):
        self._node = node
        self._named = named
        self._kind = "DebugDirectivesOnly" if only_lines else "LineTablesOnly"
        self._unit = ""

    def file(self, name: str) -> str:
        """A source file; its name is relative to the current folder, as in ngmlir's messages."""
        return self._node(
            f"!DIFile(filename: {_quoted(name or '<unknown>')}, directory: {_quoted(os.getcwd())})"
        )

    def routine(self, name: str, symbol: str, location: Location) -> str:
        """A function, or a loop described as one; tools show it as `name`."""
        file, signature = self.file(location.file), self._node("!DISubroutineType(types: null)")
        return self._node(
            f"distinct !DISubprogram(name: {_quoted(name)}, linkageName: {_quoted(symbol)}, scope: {file}, file: {file}, "
            f"line: {location.line}, scopeLine: {location.line}, type: {signature}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit or self._begin(location.file)})"
        )

    def place(self, location: Location, scope: str, caller: str) -> str:
        """A line and column in a routine, which is inlined at `caller` unless that is empty."""
        column, inlined = min(location.column, 0xFFFF), f", inlinedAt: {caller}" if caller else ""
        return self._node(f"!DILocation(line: {location.line}, column: {column}, scope: {scope}{inlined})")

    def elsewhere(self, routine: str, file: str) -> str:
        """The part of a routine whose source is in another file."""
        return self._node(f"!DILexicalBlockFile(scope: {routine}, file: {self.file(file)}, discriminator: 0)")

    def _begin(self, file: str) -> str:
        # DWARF has no language for tensors; for C, tools show plain names and lines.
        self._unit = self._node(
            f'distinct !DICompileUnit(language: DW_LANG_C11, file: {self.file(file)}, producer: "ngmlir", '
            f"isOptimized: true, runtimeVersion: 0, emissionKind: {self._kind})"
        )
        self._named["llvm.dbg.cu"] = [self._unit]
        self._named["llvm.module.flags"] = [
            self._node('!{i32 2, !"Debug Info Version", i32 3}'),
            self._node('!{i32 7, !"Dwarf Version", i32 4}'),
        ]
        return self._unit


class Trace:
    """Attaches to the instructions of one function the locations of the ops that they were emitted for."""

    def __init__(self, info: DebugInfo, b: Instructions, name: str, symbol: str, location: Location):
        self._info = info
        self._b = b
        self._stem = name.partition(".")[0]
        self._location = location
        self.routine = self._inner = info.routine(name, symbol, location)
        self._file = location.file  # of the innermost routine
        self._caller = ""

    @contextmanager
    def at(self, location: Location, loop: str = "") -> Generator[None]:
        """Instructions emitted inside come from `location`; if `loop` is given, they are the loop of that name."""
        start, outer = len(self._b.lines), (self._inner, self._file, self._caller)
        if loop:
            self._caller = self._place(location)
            name = f"{self._stem}.{loop}"
            self._inner, self._file = self._info.routine(name, name, location), location.file
        yield
        self._mark(start, location)
        self._inner, self._file, self._caller = outer

    def finish(self) -> None:
        """Attaches the location of the function to all instructions that belong to no op."""
        self._mark(0, self._location)

    def _place(self, location: Location) -> str:
        scope = self._inner
        if location.known and location.file != self._file:
            scope = self._info.elsewhere(scope, location.file)
        return self._info.place(location, scope, self._caller)

    def _mark(self, start: int, location: Location) -> None:
        end = f", !dbg {self._place(location)}"
        lines = self._b.lines
        for i in range(start, len(lines)):
            line = lines[i]
            # Phis are completed later, and are not machine instructions.
            if (
                line.startswith("  ")
                and not line.startswith("  ;")
                and "!dbg" not in line
                and " = phi " not in line
            ):
                lines[i] = line + end


def _quoted(text: str) -> str:
    """A string of metadata."""
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(c: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in c.encode("utf-8", "surrogateescape"))
