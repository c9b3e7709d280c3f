# SPDX-License-Identifier: Apache-2.0
"""Packages that register operators and kernels: entry points of the group `ngmlir.operators`, loaded when they are asked for.

An entry point is called as the operator that it has something for, and its value is a module, which registers what it has when it is
imported (`relu6_fast = "package.module"`). One of another name is loaded when no operator of a type is known otherwise, or all are listed.
"""

from __future__ import annotations

import sys
from threading import RLock
from typing import TYPE_CHECKING

from ..support.diagnostics import UserError

if TYPE_CHECKING:
    from importlib import metadata

GROUP = "ngmlir.operators"


class Plugins:
    """The entry points of the packages that are installed."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._path: tuple[str, ...] = ()
        self._found: list[metadata.EntryPoint] = []
        self._begun: set[tuple[str, str]] = set()

    def load(self, name: str | None = None) -> bool:
        """Imports the entry points of that name, or all of them; whether there were any that were not loaded before.

        UserError that names the package, for one that cannot be imported.
        """
        with self._lock:
            todo = [
                each
                for each in self._entry_points()
                if name in (None, each.name) and (each.name, each.value) not in self._begun
            ]
            for each in todo:
                self._import(each)
            return bool(todo)

    def _entry_points(self) -> list[metadata.EntryPoint]:
        if self._path != tuple(sys.path):
            from importlib import metadata  # takes as long to import as to ask

            self._path = tuple(sys.path)
            self._found = list(metadata.entry_points(group=GROUP))
        return self._found

    def _import(self, each: metadata.EntryPoint) -> None:
        key = (each.name, each.value)
        self._begun.add(key)  # what it imports may ask for operators
        try:
            each.load()
        except Exception as error:
            self._begun.discard(key)
            package = each.dist.name if each.dist is not None else each.module
            hint = f"its entry point is {each.name} = {each.value} ({GROUP}): repair the package, or uninstall it"
            message = f"the package {package}, which has operators for ngmlir, cannot be loaded: {type(error).__name__}: {error}"
            raise UserError(message, hint=hint) from error


PLUGINS = Plugins()
