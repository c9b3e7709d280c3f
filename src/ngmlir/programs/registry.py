# SPDX-License-Identifier: Apache-2.0
"""All operators by type: those of `dialects/program.operators`, and those that users register.

@operator
def mul(x, y, *, x_num_col_dims, y_num_col_dims): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..decl.operator_text import OperatorEntry, read_operators
from ..support.diagnostics import UserError
from ..support.home import folder
from ..support.registrations import Origin, Registrations
from ..support.spelling import did_you_mean
from .definition import Definition, GradientDefinition, GradientMaker, gradient_entry
from .plugins import PLUGINS

F = TypeVar("F", bound=Callable[..., Any])


class Registry:
    """Operators by type; each is registered once."""

    def __init__(self) -> None:
        self._entries: dict[str, OperatorEntry] | None = None
        self.definitions: dict[str, Definition] = {}
        self._names = Registrations()
        #: Called where an operator took the place of another: what follows from operators is no longer what it was.
        self.changed: list[Callable[[], None]] = []

    @property
    def entries(self) -> Mapping[str, OperatorEntry]:
        """What `dialects/program.operators` declares."""
        if self._entries is None:
            path = folder("dialects") / "program.operators"
            self._entries = {entry.type: entry for entry in read_operators(path)}
        return self._entries

    def set_maker(self, definition: Definition, maker: GradientMaker) -> None:
        """UserError where the operator has a gradient maker already."""
        place = Origin.of(maker, definition.entry.location)
        self._names.add((definition.type, "maker"), f"a gradient maker of operator {definition.type}", place)
        definition.maker = maker

    def listed(self) -> Mapping[str, Definition]:
        """All operators by type, those of packages that are installed too."""
        PLUGINS.load()
        return self.definitions

    def add(self, definition: Definition) -> None:
        """UserError where there is an operator of that type already, which is not the same one, executed again."""
        type, entry = definition.type, definition.entry
        place = (
            Origin.at(entry.location)
            if definition.build is None
            else Origin.of(definition.build, entry.location)
        )
        self._names.add(type, f"an operator {type}", place)
        again = type in self.definitions
        self.definitions[type] = definition
        if again:
            # Its gradient follows from it, unless it was registered by itself.
            gradient = self.definitions.get(f"{type}_grad")
            if isinstance(gradient, GradientDefinition) and gradient.build is None:
                del self.definitions[gradient.type]
            for tell in self.changed:
                tell()

    def find(self, type: str) -> Definition | None:
        """The operator of a type; of `<type>_grad` the gradient of that operator. None where there is none. Where it is not known,
        packages that are installed may have it."""
        found = self._known(type)
        if found is None and PLUGINS.load(type):
            found = self._known(type)
        if found is None and PLUGINS.load():
            found = self._known(type)
        return found

    def _known(self, type: str) -> Definition | None:
        found = self.definitions.get(type)
        if found is None and type.endswith("_grad"):
            forward = self._known(type.removesuffix("_grad"))
            if forward is not None and forward.has_gradient and forward.maker is None:
                entry = gradient_entry(forward.entry)
                found = self.definitions[type] = GradientDefinition(entry, None, forward=forward)
        return found

    def says(self, type: str, trait: str) -> bool:
        """Whether an operator of a type is known, and has that trait."""
        found = self.find(type)
        return found is not None and trait in found.entry.traits

    def get(self, type: str) -> Definition:
        """As `find`; UserError with the nearest name where there is none."""
        found = self.find(type)
        if found is None:
            hint = did_you_mean(type, self.definitions, "ngopt --doc-ops=md lists the operators")
            raise UserError(f"there is no operator '{type}'", hint=hint)
        return found


REGISTRY = Registry()


def operator(function: F) -> F:
    """Registers the function that builds the operator which is called like it (a `_` at the end does not count)."""
    return operators(function.__name__.removesuffix("_"))(function)


def operators(*types: str) -> Callable[[F], F]:
    """Registers the function that builds several operators, for tensors of any rank."""

    def register(function: F) -> F:
        for type in types:
            REGISTRY.add(Definition(REGISTRY.entries[type], function))
        return function

    return register


def on_rows(type: str) -> Callable[[F], F]:
    """Registers the function that builds an operator where some of its inputs are sparse rows (`sparse_rows.SparseRows`), which it
    uses directly. It may return NotImplemented: then the operator is built from dense matrices, as every other is."""

    def register(function: F) -> F:
        REGISTRY.get(type).on_rows = function
        return function

    return register


def gradient_of(type: str) -> Callable[[F], F]:
    """Registers the function that builds `<type>_grad` where the derivative of the forward function is not it; see
    `GradientDefinition`."""

    def register(function: F) -> F:
        forward = REGISTRY.get(type)
        REGISTRY.add(GradientDefinition(gradient_entry(forward.entry), function, forward=forward))
        return function

    return register


def gradient_maker(*types: str) -> Callable[[GradientMaker], GradientMaker]:
    """Registers what makes the gradients of operators of other operators."""

    def register(maker: GradientMaker) -> GradientMaker:
        for type in types:
            REGISTRY.set_maker(REGISTRY.get(type), maker)
        return maker

    return register


def without_value(*types: str) -> None:
    """Registers operators that only what runs a program carries out: they have no function."""
    for type in types:
        REGISTRY.add(Definition(REGISTRY.entries[type], None))
