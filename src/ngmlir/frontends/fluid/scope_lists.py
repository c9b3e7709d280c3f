# SPDX-License-Identifier: Apache-2.0
"""Lists of a scope that operators `feed` and `fetch` of a program itself take from and give to.

What `executor.run(feed=..., fetch_list=...)` names needs no such operators; a program may have them all the same, as a saved one has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ...programs import names
from ...programs.descriptions import Operator, Program
from ...programs.names import LEVEL
from ...support.diagnostics import Diagnostic, Location, UserError
from .scope import LoDTensor, Scope

Array = np.ndarray[Any, Any]


def set_feed_variable(scope: Scope, tensor: LoDTensor, name: str | bytes, column: int) -> None:
    """Puts a tensor at a place of the list of that name, from which operators `feed` take."""
    held = _list(scope, names.text(name))
    held.extend(LoDTensor() for _ in range(column + 1 - len(held)))
    held[column] = tensor


def get_fetch_variable(scope: Scope, name: str | bytes, column: int) -> LoDTensor:
    """What an operator `fetch` gave to that place of the list of that name. UserError where there is nothing."""
    held = _found(scope, names.text(name))
    if not 0 <= column < len(held):
        raise UserError(
            f"the list '{names.text(name)}' of this scope has {len(held)} values, and none at {column}",
            hint="run a program with an operator fetch first",
        )
    return held[column]


def _list(scope: Scope, name: str) -> list[LoDTensor]:
    variable = scope.find_var(name) or scope.var(name)
    if not isinstance(variable.value, list):
        variable.value = []
    return _found(scope, name)


def _found(scope: Scope, name: str) -> list[LoDTensor]:
    """The list of that name; an empty one where there is none."""
    variable = scope.find_var(name)
    value: Any = None if variable is None else variable.value
    return cast("list[LoDTensor]", value) if isinstance(value, list) else []


class Entry(NamedTuple):
    """A variable of a program, and the place in a list of the scope where it comes from or goes to."""

    name: str
    held: str
    column: int
    location: Location


@dataclass(frozen=True)
class InLists:
    """What operators of a program take from lists of the scope, and give to them."""

    feeds: Sequence[Entry]
    fetches: Sequence[Entry]

    @staticmethod
    def of(program: Program) -> InLists:
        """Those of a program."""
        operators = program.top.operators
        return InLists(
            [_entry(o, o.writes[0], o.reads[0]) for o in operators if o.type == "feed"],
            [_entry(o, o.reads[0], o.writes[0]) for o in operators if o.type == "fetch"],
        )

    def taken(self, scope: Scope, given: Collection[str]) -> dict[str, Array]:
        """The arrays of what is not `given` otherwise. UserError where a list has none."""
        return {
            each.name: _array(scope, each)
            for each in self.feeds
            if each.name not in given and LEVEL not in each.name
        }

    def give(self, scope: Scope, values: Sequence[Array]) -> None:
        """Puts what was fetched into the lists."""
        for each, value in zip(self.fetches, values, strict=True):
            set_feed_variable(scope, LoDTensor(value), each.held, each.column)


def _entry(operator: Operator, name: str, held: str) -> Entry:
    return Entry(name, held, operator.attribute("col"), operator.location)


def _array(scope: Scope, entry: Entry) -> Array:
    held = _found(scope, entry.held)
    if entry.column >= len(held) or not held[entry.column].is_initialized:
        message = f"'{entry.name}' is fed from place {entry.column} of the list '{entry.held}', and the scope has nothing there"
        hint = f'feed={{"{entry.name}": array}}, or core.set_feed_variable(scope, tensor, "{entry.held}", {entry.column})'
        raise UserError(Diagnostic(message, entry.location, hint=hint))
    return held[entry.column].host
