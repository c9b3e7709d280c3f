# SPDX-License-Identifier: Apache-2.0
"""Remarks of passes on their decisions, by topics named after passes: `ngopt --remark=schedule`.

Expensive remarks are only computed if their topic is enabled (`is_enabled`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from ..ir.core import Module, Op, op_name
from ..support.diagnostics import Diagnostic, Location

#: The passes that emit remarks, and `lengths`: what passes assume about lengths.
TOPICS = ("fuse", "lengths", "liveness", "prepare", "program-cost", "program-kernels", "schedule", "sizes")
#: Topics that take time to compute and are enabled only by name: the GPU resources of finished kernels.
COUNTED = ("gpu",)


class _Listener(NamedTuple):
    topics: frozenset[str]
    tell: Callable[[Diagnostic], None]
    names: Mapping[Location, str]


_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(
    topics: Iterable[str], tell: Callable[[Diagnostic], None], written: Module | None = None
) -> Generator[None]:
    """A context in which `tell` is called with each remark on one of the topics, as a diagnostic of severity `remark`. Remarks name
    the ops of `written`, the program before the passes."""
    asked = frozenset(topics)
    token = _LISTENER.set(_Listener(asked, tell, _names_in(written) if asked and written is not None else {}))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def is_enabled(topic: str) -> bool:
    """Whether remarks on a topic are enabled."""
    listener = _LISTENER.get()
    return listener is not None and topic in listener.topics


def remark(topic: str, message: str, location: Location, notes: tuple[Diagnostic, ...] = ()) -> None:
    """Emits a remark, if its topic is enabled."""
    listener = _LISTENER.get()
    if listener is not None and topic in listener.topics:
        listener.tell(Diagnostic(message, location, severity="remark", notes=notes))


def written_name(op: Op) -> str:
    """The name of the op of the source program that an op was made from, such as `ng.gelu`, by its location. Its own name where
    several ops have this location, or none."""
    listener = _LISTENER.get()
    return (listener.names.get(op.location) if listener is not None else None) or op_name(op)


def _names_in(written: Module) -> Mapping[Location, str]:
    """The names of ops by location; '' where there are several. Constants and terminators do not count."""
    names: dict[Location, str] = {}
    for op in written.walk():
        if op.location.known and not op.traits & {"constant", "terminator"}:
            name = op_name(op)
            names[op.location] = name if names.setdefault(op.location, name) == name else ""
    return names
