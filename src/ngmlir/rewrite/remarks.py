# SPDX-License-Identifier: Apache-2.0
"""What passes tell of their choices to those who ask, by the name of the pass: `ngopt --remark=schedule`.

Nothing is put into words that nobody listens to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from ..ir.core import Module, Op, op_name
from ..support.diagnostics import Diagnostic, Location

#: The passes that have something to tell, and what all of them assume of lengths.
TOPICS = ("fuse", "lengths", "liveness", "prepare", "program-cost", "program-kernels", "schedule", "sizes")
#: What takes time to find out, and is told only where it is asked for by name: of finished kernels, what they ask of a GPU.
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
    """Inside, `tell` is given each remark on one of the topics, as a diagnostic of severity `remark`. Remarks speak of the ops
    of `written`, from which passes made those that they see."""
    asked = frozenset(topics)
    token = _LISTENER.set(_Listener(asked, tell, _names_in(written) if asked and written is not None else {}))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def wanted(topic: str) -> bool:
    """Whether anybody listens to remarks on a topic."""
    listener = _LISTENER.get()
    return listener is not None and topic in listener.topics


def remark(topic: str, message: str, location: Location, notes: tuple[Diagnostic, ...] = ()) -> None:
    """Tells those who listen."""
    listener = _LISTENER.get()
    if listener is not None and topic in listener.topics:
        listener.tell(Diagnostic(message, location, severity="remark", notes=notes))


def written_name(op: Op) -> str:
    """What an op was called in the program that was written: of one that was made of `ng.gelu`, that. Its own name where
    several ops stand at its place, or none."""
    listener = _LISTENER.get()
    return (listener.names.get(op.location) if listener is not None else None) or op_name(op)


def _names_in(written: Module) -> Mapping[Location, str]:
    """The names of ops by their places; '' where there are several. Constants and ends of blocks name nothing."""
    names: dict[Location, str] = {}
    for op in written.walk():
        if op.location.known and not op.traits & {"constant", "terminator"}:
            name = op_name(op)
            names[op.location] = name if names.setdefault(op.location, name) == name else ""
    return names
