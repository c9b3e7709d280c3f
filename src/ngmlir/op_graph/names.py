# SPDX-License-Identifier: Apache-2.0
"""Names: given ones, prefixed by those of their scopes, and generated ones."""

from __future__ import annotations

import itertools
import re
from typing import TypeVar

from .building import BUILDING
from .building import NameScope as NameScope
from .building import name_scope as name_scope
from .errors import UserError, fail

V = TypeVar("V", bound="NameableValue")

_SERIAL = itertools.count()


def next_serial() -> int:
    """A number that is greater than all given out before."""
    return next(_SERIAL)


class NameableValue:
    """An object with a name: a given one, or a generated one (its kind and a unique number)."""

    def __init__(self, name: str | None = None):
        self.serial = next_serial()
        self.scope: str = BUILDING.names
        self.given_name = ""
        if name is not None:
            self.name = name

    @property
    def name(self) -> str:
        """The given name, prefixed by those of its scopes (`encoder/w1`), or the generated name."""
        return self.given_name or f"{type(self).__name__}_{self.serial}"

    @name.setter
    def name(self, name: str) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"the name of an op must be a string, not {name!r}")
        self.given_name = f"{self.scope}/{name}" if self.scope and name else name

    @property
    def short_name(self) -> str:
        """The name without those of its scopes."""
        return self.name.rpartition("/")[2]

    unscoped_name = short_name

    @property
    def safe_name(self) -> str:
        """The name with `_` in the place of what no identifier holds."""
        return re.sub(r"\W", "_", self.name)

    @property
    def called(self) -> str:
        """What messages call it."""
        return self.name

    def named(self: V, name: str) -> V:
        """This value, after naming it."""
        self.name = name
        return self
