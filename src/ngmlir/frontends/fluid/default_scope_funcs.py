# SPDX-License-Identifier: Apache-2.0
"""A stack of scopes for each thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ...support.diagnostics import UserError
from .scope import RuntimeVariable, Scope

__all__ = ["enter_local_scope", "find_var", "get_cur_scope", "leave_local_scope", "scoped_function", "var"]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes = [Scope()]


_STACK = _Stack()


def get_cur_scope() -> Scope:
    """The scope on top."""
    return _STACK.scopes[-1]


def enter_local_scope() -> None:
    """Puts a new scope, below the one on top, on top."""
    _STACK.scopes.append(get_cur_scope().new_scope())


def leave_local_scope() -> None:
    """Drops the scope on top."""
    if len(_STACK.scopes) == 1:
        raise UserError(
            "the last scope cannot be left", hint="leave_local_scope goes with an enter_local_scope"
        )
    _STACK.scopes.pop()
    get_cur_scope().drop_kids()


def var(name: str) -> RuntimeVariable:
    """The variable of that name in the scope on top; made now if there is none."""
    return get_cur_scope().var(name)


def find_var(name: str) -> RuntimeVariable | None:
    """The variable of that name in the scope on top, or in one around it; None where there is none."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], Any]) -> Any:
    """Calls a function with a new scope on top."""
    enter_local_scope()
    try:
        return func()
    finally:
        leave_local_scope()
