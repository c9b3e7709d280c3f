# SPDX-License-Identifier: Apache-2.0
"""`axes=`, `name=` and `metadata=` of every function that makes ops: one place for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from inspect import CO_VARKEYWORDS
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from ..support.diagnostics import NgmlirError
from .answers import PYTHONS, answer, locate
from .axes import Axes
from .building import metadata as op_metadata
from .errors import IncompatibleAxesError, UserError, fail
from .habits import accepting, understood
from .names import next_serial
from .node import Op
from .tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = ("axes", "name", "metadata")
_PACKAGE = __name__.partition(".")[0] + "."


class AliasOp(Tensor):
    """The value of its argument, with another name and metadata."""

    is_alias = True

    def __init__(self, x: Tensor):
        super().__init__([x], None, x.axes, x.element)


class FamilyOp(AliasOp):
    """The value of its argument, as a tensor of another family: with axes of another kind that are called the same."""

    def __init__(self, x: Tensor, axes: Axes):
        super().__init__(x)
        self.axes = axes


def in_family(x: Tensor, axes: Axes) -> Tensor:
    """The tensor with axes of the kind of `axes`; itself if it has such."""
    return x if type(x.axes) is type(axes) else FamilyOp(x, axes.like(x.axes))


def stating(function: Callable[P, R]) -> Callable[P, R]:
    """The function with the parameters `axes=`, `name=` and `metadata=`, unless it already has them.

    `axes` says which axes the result has, and in which order: it is put in that order, and other axes or lengths are
    an IncompatibleAxesError. `name` and `metadata` are given to the result (metadata to each, where there are several).
    """
    if not isinstance(function, FunctionType):
        fail(UserError, f"{function!r} is not a function", "@ng.with_op_metadata decorates a function")
    return cast("Callable[P, R]", stating_as(function, function))


def with_op_metadata(
    function: Callable[..., Any] | None = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """Decorates a function: the ops that it makes have `metadata`; those of a method also the `metadata` of its class.

    The function then takes `axes=`, `name=` and `metadata=`, which are about the op that it gives: the order of its axes, its
    name, and entries for its own metadata. Written with or without arguments.
    """
    if function is None:
        return partial(with_op_metadata, metadata=metadata)
    made = stating(function)

    @wraps(function)
    def marked(*args: Any, **named: Any) -> Any:
        of_class = getattr(args[0].__class__, "metadata", None) if args else None
        own: Mapping[str, Any] = args[0].metadata if isinstance(of_class, Mapping) else {}
        with op_metadata(**{**own, **(metadata or {})}):
            return made(*args, **named)

    return marked


def stating_as(function: Callable[..., Any], user: Callable[..., Any]) -> Callable[..., Any]:
    """`stating(function)`, where the parameters (and the name) are those of another function, which it hands them to."""
    told = accepting(user)
    code = getattr(told, "__code__", None)
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
    words = frozenset(w for w in _WORDS if w not in own)
    # What users write raises what Python raises; functions of this package say what to write instead.
    module = getattr(user, "__module__", "")
    ours = module.startswith(_PACKAGE) and code is not None and not code.co_flags & CO_VARKEYWORDS
    known = words | {*own}
    room = "ng.simple." if module.startswith(_PACKAGE + "simple") else "ng."
    called = room + user.__name__ if module.startswith(_PACKAGE) and isinstance(told, FunctionType) else ""

    @wraps(function)
    def stated(*args: Any, **named: Any) -> Any:
        if ours and named and not named.keys() <= known:
            named = understood(function, own, known, named)
        said = {w: named.pop(w) for w in words & named.keys()} if named else None
        before = next_serial() if said else 0
        try:
            made = function(*args, **named)
        except NgmlirError as error:
            locate(error)
            raise
        except PYTHONS as error:
            if called:
                answer(error, told, args, named, called)
            raise
        return _stated(made, said, before, getattr(user, "__name__", repr(user))) if said else made

    return stated


def _stated(made: Any, said: Mapping[str, Any], before: int, function: str) -> Any:
    axes, name = said.get("axes"), said.get("name")
    metadata: Any = said.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        fail(UserError, f"metadata is {metadata!r}", 'use a dictionary: metadata={"layer": 1}')
    if isinstance(made, (tuple, list)):
        several = [*cast("Iterable[Any]", made)]
        if axes is not None or name is not None:
            fail(
                UserError,
                f"{function} gives several values",
                "name each with .named, and order it with ng.axes_with_order",
            )
        given = [_stated(each, said, before, function) for each in several]
        return given if isinstance(made, list) else tuple(given)
    if not isinstance(made, Op):
        fail(UserError, f"{function} makes no op, so it does not take {', '.join(sorted(said))}")
    if axes is not None:
        made = _with_axes(made, axes, function)
    if name is None and metadata is None:
        return made
    if made.serial < before and isinstance(made, Tensor):
        made = AliasOp(made)  # what stood before keeps its own name
    if name is not None:
        made.name = name
    made.metadata.update(cast("Mapping[str, Any]", metadata or {}))
    return made


def _with_axes(made: Op, axes: Any, function: str) -> Tensor:
    if not isinstance(made, Tensor) or made.lacks_value:
        fail(UserError, f"{function} makes no tensor, so it has no axes")
    wanted = made.axes.chosen(axes)
    if not made.axes.is_equal_set(wanted):
        fail(
            IncompatibleAxesError,
            f"{function} gives the axes ({', '.join(made.axes.names)}), but ({', '.join(wanted.names)}) were stated",
            "ng.cast_axes renames axes, ng.broadcast repeats along more of them",
        )
    return made.family.broadcast(made, wanted)


def stating_all(functions: Mapping[str, Any]) -> dict[str, Any]:
    """Functions by name, each of them `stating`; what is no function stays as it is."""
    return {n: stating(f) if isinstance(f, FunctionType) else f for n, f in functions.items()}
