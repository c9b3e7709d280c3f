# SPDX-License-Identifier: Apache-2.0
"""How functions answer to arguments that they cannot take: as UserErrors at the user's line, whatever failed inside.

Nothing is checked where nothing fails. What Python or NumPy raise below a function of ours, with no code of the user's in
between, is about what that function was called with.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from ..support.diagnostics import NgmlirError
from ..support.undo import undone_where_it_fails
from .errors import WrongCall, fail
from .habits import about_memory, accepting, meant_by
from .node import Op
from .source import is_ours, is_users, user_location

F = TypeVar("F", bound=Callable[..., Any])

#: What Python and NumPy raise about values that they cannot use. A division by zero is about a computation, not about a value.
PYTHONS = (TypeError, AttributeError, ValueError, LookupError, OverflowError)

#: What the functions that call `answer` are called.
_ANSWERING = ("answering", "stated")


def answered(function: F, called: str = "", *, undone: bool = False) -> F:
    """The function (or the class, of which it is the constructor), which answers to what it cannot take with a WrongCall:
    what it was called with, why that cannot be, and how it is called. `called` is the path that users know it by. With `undone` what
    it changed by then is taken back."""
    if isinstance(function, type):
        own = getattr(function, "__init__", None)
        if isinstance(own, FunctionType) and is_ours(own.__code__) and own.__code__.co_name not in _ANSWERING:
            function.__init__ = answered(own, called, undone=undone)
        return cast(F, function)
    call = undone_where_it_fails(function) if undone else function

    @wraps(function)
    def answering(*args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except NgmlirError as error:
            locate(error)
            raise
        except PYTHONS as error:
            answer(error, accepting(function), args, named, called)
            raise

    return cast(F, answering)


def answer_all(
    module: MutableMapping[str, Any],
    names: Iterable[str],
    called: str,
    *,
    methods: bool = False,
    undone: bool = False,
) -> None:
    """Makes the functions and classes of these names in a module `answered`, with `methods` also the public methods of the classes."""
    for name in names:
        value = module.get(name)
        if isinstance(value, (FunctionType, type)) and not (
            isinstance(value, type) and issubclass(value, BaseException)
        ):
            module[name] = answered(cast("Callable[..., Any]", value), f"{called}.{name}", undone=undone)
            if methods and isinstance(value, type):
                answer_methods(*value.__mro__[:-1], called=called, undone=undone)


def answer_methods(*owners: type, called: str, undone: bool = False) -> None:
    """Makes the public methods of classes, and calls of their objects, `answered`."""
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if not isinstance(value, FunctionType) or value.__code__.co_name in _ANSWERING:
                continue
            if (name == "__call__" or not name.startswith("_")) and is_ours(value.__code__):
                setattr(owner, name, answered(value, f"{called}.{owner.__name__}.{name}", undone=undone))


def answer(
    error: Exception, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], called: str
) -> None:
    """To be called where `error` was caught around a call: WrongCall, where the call is a user's and no code of the user's
    raised it. The outermost of our functions answers."""
    caller: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while caller is not None and is_ours(caller.f_code):
        if caller.f_code.co_name in _ANSWERING:
            return
        caller = caller.f_back
    trace = error.__traceback__
    if trace is None or not _has_users(trace.tb_next):
        refuse_call(function, args, named, called, error)


def locate(error: NgmlirError) -> None:
    """Gives an error that knows no place the user's line."""
    first, *rest = error.diagnostics
    if not first.location.known:
        error.diagnostics = (replace(first, location=user_location()), *rest)


@contextmanager
def locating() -> Generator[None]:
    """Gives errors of what is done inside that know no place the user's line."""
    try:
        yield
    except NgmlirError as error:
        locate(error)
        raise


def _has_users(trace: TracebackType | None) -> bool:
    while trace is not None:
        if is_users(trace.tb_frame.f_code):
            return True
        trace = trace.tb_next
    return False


def refuse_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
    called: str = "",
    error: Exception | None = None,
) -> None:
    """WrongCall where a function cannot be called with these arguments, or, where `error` is given, could not be."""
    signature = inspect.signature(function, follow_wrapped=False)
    owner: type | None = args[0].__class__ if function.__name__ == "__init__" and args else None
    parameters = _parameters(signature, owner)
    name = called.rpartition(".")[2] or function.__name__
    if owner is not None and name == "__init__":
        name = owner.__name__
    hint = f"{called or f'ng.{name}'}({', '.join(map(_written, parameters.values()))})"
    if owner is not None and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for word in [each for each in named if each not in parameters]:
            here = meant_by(word, parameters)
            fail(
                WrongCall,
                f"{name} has no argument {word!r}",
                f"did you mean {here}? {hint}" if here else hint,
            )
    try:
        bound = signature.bind(*args, **named).arguments
    except TypeError as mismatch:
        fail(WrongCall, f"{name}: {mismatch}", about_memory(w for w in named if w not in parameters) + hint)
    if error is not None:
        given = {key: value for key, value in bound.items() if key != "self"}
        told = ", ".join(f"{key} = {_shown(value)}" for key, value in given.items())
        _refuse(f"{name} cannot take {told or 'no arguments'}: {_why(error)}", hint, error)


def _parameters(signature: inspect.Signature, owner: type | None) -> dict[str, inspect.Parameter]:
    """The parameters of a call by name; of a class whose constructor hands others on, those of its bases too."""
    bases = [] if owner is None else [vars(base).get("__init__") for base in owner.__mro__]
    inits = [each for each in bases if isinstance(each, FunctionType)]
    found: dict[str, inspect.Parameter] = {}
    for each in [inspect.signature(accepting(init)) for init in inits] or [signature]:
        parameters = [p for p in each.parameters.values() if p.name != "self"]
        # What a base needs, or takes by keyword alone, is what its classes hand to it.
        handed = {p.name for p in parameters if found and (p.default is p.empty or p.kind is p.KEYWORD_ONLY)}
        found = {**found, **{p.name: p for p in parameters if p.name not in {*handed, *found}}}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return {name: p for name, p in found.items() if p.kind is not p.VAR_KEYWORD}
    return found


def _refuse(message: str, hint: str, error: Exception) -> NoReturn:
    try:
        fail(WrongCall, message, hint)
    except WrongCall as refusal:
        raise refusal from error


def _written(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return stars + parameter.name
    return f"{parameter.name}={_shown(parameter.default)}"


def _why(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return f"no {text}" if isinstance(error, KeyError) else text or type(error).__name__


def _shown(value: Any) -> str:
    """A value in one short piece."""
    if isinstance(value, Op):
        return value.called
    if isinstance(value, np.ndarray):
        return f"an array of shape {cast('np.ndarray[Any, Any]', value).shape}"
    try:
        text = getattr(value, "__qualname__", None) or repr(value)
    except Exception:
        text = "?"
    text = text if len(text) <= 40 and "\n" not in text and " at 0x" not in text else ""
    return text or f"an object of {type(value).__name__}"
