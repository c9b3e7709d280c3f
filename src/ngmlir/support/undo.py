# SPDX-License-Identifier: Apache-2.0
"""Changes that are taken back where the call that made them fails: all of a call is done, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

#: What takes one change back.
Undo: TypeAlias = Callable[[], object]


class _Made(threading.local):
    """The changes of a thread, in order; None outside of `undone_on_failure`."""

    changes: list[Undo] | None = None


_made = _Made()


class _OfUser(list[Undo]):
    """The changes of a context that a user's own calls are in."""


def changed(undo: Undo) -> None:
    """To be called for each change, with what takes it back when the changes after it have been."""
    if _made.changes is not None:
        _made.changes.append(undo)


def changing(object: object) -> None:
    """To be called before attributes of an object change, lists and dictionaries that they hold included."""
    if _made.changes is not None:
        now = vars(object)
        before = {name: _copied(value) for name, value in now.items()}
        _made.changes.append(lambda: now.update(before))


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(each) for key, each in cast("dict[Any, Any]", value).items()}
    return [_copied(each) for each in cast("list[Any]", value)] if type(value) is list else value


class undone_on_failure:
    """A context: what is changed inside is taken back where an exception leaves it. Contexts may be nested; `of_user` is for one that
    a user's calls are in, each of which is done, or nothing of it."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, of_user: bool = False):
        self._inner: list[Undo] = _OfUser() if of_user else []

    def __enter__(self) -> None:
        self._outer = _made.changes
        _made.changes = self._inner

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _made.changes = None  # to take a change back is none
        if kind is not None:
            for undo in reversed(self._inner):
                undo()
        elif self._outer is not None:
            self._outer += self._inner
        _made.changes = self._outer


def undone_where_it_fails(function: Callable[P, R]) -> Callable[P, R]:
    """The function, in such a context, unless it is called by one that is."""

    @wraps(function)
    def undone(*args: P.args, **named: P.kwargs) -> R:
        if type(_made.changes) is list:
            return function(*args, **named)
        with undone_on_failure():
            return function(*args, **named)

    return undone
