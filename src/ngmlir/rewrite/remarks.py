# SPDX-License-Identifier: Apache-2.0
"""What passes tell of their choices to those who ask, by the name of the pass: `ngopt --remark=schedule`.

Nothing is put into words that nobody listens to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from ..support.diagnostics import Diagnostic, Location

#: The passes that have something to tell.
TOPICS = ("fuse", "prepare", "schedule", "sizes")
#: What takes time to find out, and is told only where it is asked for by name: of finished kernels, what they ask of a GPU.
COUNTED = ("gpu",)


class _Listener(NamedTuple):
    topics: frozenset[str]
    tell: Callable[[Diagnostic], None]


_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(topics: Iterable[str], tell: Callable[[Diagnostic], None]) -> Generator[None]:
    """Inside, `tell` is given each remark on one of the topics, as a diagnostic of severity `remark`."""
    token = _LISTENER.set(_Listener(frozenset(topics), tell))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def wanted(topic: str) -> bool:
    """Whether anybody listens to remarks on a topic."""
    listener = _LISTENER.get()
    return listener is not None and topic in listener.topics


def remark(topic: str, message: str, location: Location) -> None:
    """Tells those who listen."""
    listener = _LISTENER.get()
    if listener is not None and topic in listener.topics:
        listener.tell(Diagnostic(message, location, severity="remark"))
