# SPDX-License-Identifier: Apache-2.0
"""Names in blocks: a block sees what it declares itself and what the blocks around it declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from ..op_graph.source import user_location
from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import did_you_mean

V = TypeVar("V")


class Names(Generic[V]):
    """The variables that a block declares, by name. `parent` is where names are looked up that it does not declare."""

    def __init__(self, index: int, parent: Names[V] | None):
        self.index = index
        self._outer = parent
        self.variables: dict[str, V] = {}

    def find(self, name: str) -> V | None:
        """The variable of a name: declared here, or in a block around this one."""
        block: Names[V] | None = self
        while block is not None:
            found = block.variables.get(name)
            if found is not None:
                return found
            block = block._outer
        return None

    def visible(self, name: str, location: Location | None = None) -> V:
        """As `find`; UserError with the nearest name where there is none."""
        found = self.variables.get(name)
        if found is None:
            found = self.find(name)
            if found is None:
                raise self.unknown(name, location)
        return found

    def unknown(self, name: str, location: Location | None = None) -> UserError:
        """What is said of a name that no visible block declares."""
        elsewhere = next((b for b in self.all_blocks() if name in b.variables), None)
        if elsewhere is not None:
            hint = f"a block sees its own variables and those of the blocks around it: declare {name} in one of them"
            message = (
                f"the variable '{name}' is of block {elsewhere.index}, which block {self.index} does not see"
            )
        else:
            names = (n for block in self._around() for n in block.variables)
            hint = did_you_mean(
                name, names, "declare it first: block.create_var(name=...), or a layer that makes it"
            )
            message = f"there is no variable '{name}' in block {self.index}, nor in those around it"
        return UserError(Diagnostic(message, location or user_location(), hint=hint))

    def all_blocks(self) -> Iterable[Names[V]]:
        """All blocks of the program."""
        raise NotImplementedError

    def _around(self) -> Iterator[Names[V]]:
        block: Names[V] | None = self
        while block is not None:
            yield block
            block = block._outer
