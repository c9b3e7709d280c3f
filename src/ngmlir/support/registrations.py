# SPDX-License-Identifier: Apache-2.0
"""Names that are given once: what was registered under each, and where. A second registration is an error.

A definition that is executed again replaces the first: it is at the same line of the same file, or its module was imported again
(`importlib.reload`), or both were typed interactively (in a notebook, at a prompt).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import unwrap
from threading import Lock
from typing import Any

from .diagnostics import Diagnostic, Location, UserError


@dataclass(frozen=True)
class Origin:
    """Where something was defined: a place in a file, and the execution of the module that contains it."""

    location: Location
    execution: object = None

    @staticmethod
    def of(function: Callable[..., Any], location: Location) -> Origin:
        """That of a function; `location` is used for one that is not written in Python."""
        function = unwrap(function)
        code = getattr(function, "__code__", None)
        module = str(getattr(function, "__module__", None))
        if code is None:
            name = getattr(function, "__qualname__", "")
            return Origin(Location(f"{module}.{name}", 0, 0)) if name else Origin.at(location)
        return Origin(Location(code.co_filename, code.co_firstlineno, 1), _spec(sys.modules.get(module)))

    @staticmethod
    def at(location: Location) -> Origin:
        """That of a call at a place."""
        known = [m for m in [*sys.modules.values()] if getattr(m, "__file__", None) == location.file]
        return Origin(location, _spec(known[0]) if known else None)

    def replaces(self, first: Origin) -> bool:
        """Whether it is the same definition as `first`, executed again."""
        here, there = self.location, first.location
        if here.file == there.file and (here.line == there.line or self.execution is not first.execution):
            return True
        return not os.path.isfile(here.file) and not os.path.isfile(there.file)


def _spec(module: Any) -> object:
    """The object that each import of a module creates."""
    return getattr(module, "__spec__", None)


class Registrations:
    """Names of one room, and the origin of what each stands for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[Any, tuple[str, Origin]] = {}

    def add(self, key: Any, what: str, origin: Origin) -> None:
        """Registers `what` ("the op f") under a key. UserError that names the first place, where something else is."""
        with self._lock:
            known = self._known.get(key)
            if known is None or origin.replaces(known[1]):
                self._known[key] = (what, origin)
                return
        name, first = known
        raise UserError(
            Diagnostic(
                f"there is {name} already",
                origin.location,
                hint=f"it was registered at {first.location.file}:{first.location.line}; give this one another name",
            )
        )
