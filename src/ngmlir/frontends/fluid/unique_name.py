# SPDX-License-Identifier: Apache-2.0
"""Names that no other variable has: `generate("fc")` gives fc_0, fc_1 ..."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ...support.undo import changed


class UniqueNameGenerator:
    """Counts the names of each key; all begin with `prefix`."""

    def __init__(self, prefix: str | bytes | None = None):
        self.prefix = prefix.decode() if isinstance(prefix, bytes) else prefix or ""
        self.ids: dict[str, int] = {}

    def __call__(self, key: str) -> str:
        number = self.ids.get(key, 0)
        self.ids[key] = number + 1
        changed(lambda: self.ids.__setitem__(key, number))
        return f"{self.prefix}{key}_{number}"


generator = UniqueNameGenerator()


def generate(key: str) -> str:
    """The next name of a key."""
    return generator(key)


def switch(new_generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Counts with another generator (by default a new one) from now on; gives the one before."""
    global generator
    old, generator = generator, new_generator if new_generator is not None else UniqueNameGenerator()
    return old


@contextmanager
def guard(new_generator: UniqueNameGenerator | str | bytes | None = None) -> Generator[None]:
    """Restarts the numbering inside the context: with a generator, or with a prefix for names."""
    given = new_generator
    if not isinstance(given, UniqueNameGenerator):
        given = UniqueNameGenerator(given)
    old = switch(given)
    try:
        yield
    finally:
        switch(old)
