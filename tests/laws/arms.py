# SPDX-License-Identifier: Apache-2.0
"""Which arms of the code in some files run: the parts of `if`, `match`, `for`, `while` and `except`, and the way past an
`if` that has no `else`.

An arm is named by its function and the text of its head, so the names outlive changes elsewhere in a file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


@dataclass(frozen=True)
class Arm:
    """Taken when line `first` runs; or, where there is no such line, when after the lines of `head` another one runs
    that is not in `inside`, or none."""

    name: str
    head: range
    first: int
    inside: range
    raises: str = ""  # the class of the error that it is there to raise

    def __str__(self) -> str:
        return self.name


def _span(nodes: list[ast.stmt]) -> range:
    return range(nodes[0].lineno, (nodes[-1].end_lineno or nodes[-1].lineno) + 1)


def _raised(body: list[ast.stmt]) -> str:
    match body[-1]:
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if len(body) <= 3:
            return name
        case _:
            return ""


def arms_of(path: Path, root: Path) -> list[Arm]:
    """All arms of a file."""
    text = path.read_text(encoding="utf-8")
    found: list[Arm] = []
    place = path.relative_to(root).as_posix().removesuffix(".py")

    def head_of(node: ast.AST) -> str:
        return " ".join((ast.get_source_segment(text, node) or "").split())

    def add(function: str, head: str, test: range, body: list[ast.stmt]) -> None:
        found.append(Arm(f"{place}:{function}: {head}", test, body[0].lineno, _span(body), _raised(body)))

    def visit(node: ast.AST, function: str) -> None:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                function = f"{function}.{node.name}" if function else node.name
            case ast.If():
                test = range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
                condition = head_of(node.test)
                add(function, f"if {condition}", test, node.body)
                if node.orelse:
                    if not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
                        add(function, f"else of {condition}", test, node.orelse)
                elif not isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
                    found.append(Arm(f"{place}:{function}: past {condition}", test, 0, _span(node.body)))
                else:
                    found.append(Arm(f"{place}:{function}: not {condition}", test, 0, _span(node.body)))
            case ast.For():
                add(function, f"for {head_of(node.target)} in {head_of(node.iter)}", range(0), node.body)
            case ast.While():
                add(function, f"while {head_of(node.test)}", range(0), node.body)
            case ast.ExceptHandler():
                add(function, f"except {head_of(node.type) if node.type else ''}", range(0), node.body)
            case ast.Match():
                for case in node.cases:
                    guard = f" if {head_of(case.guard)}" if case.guard else ""
                    add(function, f"case {head_of(case.pattern)}{guard}", range(0), case.body)
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(text), "")
    return found


class Watch:
    """Counts arms while it is entered; a function of which all are known is not looked at any more."""

    def __init__(self, files: Iterable[Path], root: Path):
        self.arms: dict[str, list[Arm]] = {str(p): arms_of(p, root) for p in files}
        self.taken: set[Arm] = set()
        self._open: dict[CodeType, list[Arm]] = {}

    @property
    def missing(self) -> list[Arm]:
        return [arm for arm in self if arm not in self.taken]

    def __iter__(self) -> Iterator[Arm]:
        for arms in self.arms.values():
            yield from arms

    def __enter__(self) -> Watch:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        arms = self._open.get(code)
        if arms is None:
            arms = self._of(code)
            self._open[code] = arms
        if not arms:
            return None
        before, failed = code.co_firstlineno, False

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before, failed
            if event == "exception":
                failed = True
                return line
            if event == "return":
                now = 0
                if failed and argument is None:
                    return line
            else:
                now, failed = frame.f_lineno, False
            for arm in tuple(arms):
                if (
                    now == arm.first
                    if arm.first
                    else before in arm.head and now not in arm.head and now not in arm.inside
                ):
                    self.taken.add(arm)
                    arms.remove(arm)
            before = now
            return line

        return line

    def _of(self, code: CodeType) -> list[Arm]:
        arms = self.arms.get(code.co_filename)
        if not arms:
            return []
        lines = {number for _, _, number in code.co_lines() if number}
        return [
            arm
            for arm in arms
            if arm not in self.taken
            and (arm.first in lines or (not arm.first and lines.intersection(arm.head)))
        ]
