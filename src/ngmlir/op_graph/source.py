# SPDX-License-Identifier: Apache-2.0
"""Where in the user's program we are: the first frame that is a program's."""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType

import numpy as np

from ..support.diagnostics import UNKNOWN, Location

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: Tools use the package as its users do: the demo's network leads to the lines that build it.
_TOOLS = _PACKAGE + "tools" + os.sep


def is_ours(code: CodeType) -> bool:
    """Whether code belongs to this package."""
    return _is_of_package(code.co_filename)


# By the name of the file: the hash of a code object is computed from all its constants and names each time.
@lru_cache(maxsize=1 << 12)
def _is_of_package(file: str) -> bool:
    # A file of ours is named absolutely, or the way that sys.path spelled it; `with` statements of ours go through
    # the standard library.
    file = os.path.abspath(file)
    return (file.startswith(_PACKAGE) and not file.startswith(_TOOLS)) or file == contextlib.__file__


_NUMPY = os.path.dirname(np.__file__) + os.sep
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep


def is_users(code: CodeType) -> bool:
    """Whether code is a program's: not ours, NumPy's or Python's own."""
    return _is_of_user(code.co_filename)


@lru_cache(maxsize=1 << 12)
def _is_of_user(file: str) -> bool:
    if _is_of_package(file) or file.startswith((_NUMPY, "numpy/", "<frozen ")):
        return False
    return not file.startswith(_STANDARD) or f"{os.sep}site-packages{os.sep}" in file


@lru_cache(maxsize=1 << 16)
def _place(code: CodeType, instruction: int) -> Location:
    line, _, column, _ = next(islice(code.co_positions(), instruction // 2, None), (None, None, None, None))
    if line is None:
        return Location(code.co_filename, code.co_firstlineno, 1)
    return Location(code.co_filename, line, (column or 0) + 1)


class _Place(threading.local):
    """Where ops of this thread are from, while they are made for a program that knows it."""

    location: Location | None = None


_PLACE = _Place()


class located:
    """Ops that are made inside, and errors that are raised, are from this place, not from the line that is running."""

    __slots__ = ("_location", "_outer")

    def __init__(self, location: Location):
        self._location = location

    def __enter__(self) -> None:
        self._outer, _PLACE.location = _PLACE.location, self._location

    def __exit__(self, *raised: object) -> None:
        _PLACE.location = self._outer


def user_location() -> Location:
    """File, line and column of the call into ngmlir that is being carried out."""
    if _PLACE.location is not None:
        return _PLACE.location
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not _is_of_user(frame.f_code.co_filename):
        frame = frame.f_back
    return UNKNOWN if frame is None else _place(frame.f_code, frame.f_lasti)


def called_functions() -> list[str]:
    """The names of the functions of ours that are running, from the one that the user's line calls inwards."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    names: list[str] = []
    while frame is not None and is_ours(frame.f_code):
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[::-1]


def assigned_name(place: Location) -> str:
    """What the call at a place is assigned to (`w` in `w = ng.variable(...)`); '' where that cannot be seen."""
    return _assigned(place.file).get((place.line, place.column), "")


@lru_cache(maxsize=64)
def _assigned(file: str) -> dict[tuple[int, int], str]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    pairs = [pair for node in ast.walk(tree) for pair in _assignments(node)]
    return {(value.lineno, value.col_offset + 1): ast.unparse(target) for target, value in pairs}


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign():
            for target in node.targets:
                yield from _paired(target, node.value)
        case ast.AnnAssign(value=ast.expr()) | ast.NamedExpr():
            assert node.value is not None
            yield node.target, node.value
        case _:
            pass


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _paired(one, its)
    else:
        yield target, value
