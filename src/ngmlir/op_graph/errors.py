# SPDX-License-Identifier: Apache-2.0
"""The named exceptions of the op graph. All are UserError (and so ValueError), and know the user's line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ..support.diagnostics import Diagnostic, Limit, Location, UserError
from ..support.spelling import did_you_mean
from .source import user_location


class IncompatibleAxesError(UserError):
    """The axes of two tensors do not match."""


class UnmatchedAxesError(IncompatibleAxesError):
    """An axis that must be in both operands is in one only."""


class DuplicateAxisNames(IncompatibleAxesError):
    """Two axes of one tensor have, or would have, the same name. `duplicate_axis_names` says which: {name: the set of names that
    the axes have before}."""

    def __init__(
        self, *arguments: Any, duplicate_axis_names: Mapping[str, set[str]] | None = None, **named: Any
    ):
        super().__init__(*arguments, **named)
        self.duplicate_axis_names = dict(duplicate_axis_names or {})


class AxisLengthError(UserError):
    """A length is negative, not set, or does not match."""


class AxisNotFound(UserError):
    """A tensor has no such axis."""


class NotAssignable(UserError):
    """The target of an assignment is not a variable, placeholder or persistent tensor, nor a view of one."""


class NotDifferentiable(UserError):
    """A derivative that does not exist, or is not a single tensor."""


class CycleError(UserError):
    """Ops that depend on each other."""


class OutsideRegion(UserError):
    """A value of the body of a loop or a branch is used outside that body."""


class InvalidOp(UserError):
    """The value of an op that a pass has removed from the graph."""


class MissingPlaceholder(UserError):
    """A computation uses a placeholder that is not among its parameters."""


class MissingValue(MissingPlaceholder, KeyError):
    """A `feed_dict` without a parameter; a KeyError too, since a look-up in a dictionary failed."""

    __str__ = UserError.__str__  # KeyError's would quote the message


class WrongCall(UserError, TypeError):
    """A function called with arguments that it does not have; a TypeError too, as for any function of Python."""


class NoAttribute(UserError, AttributeError):
    """Something asked for what it does not have; an AttributeError too."""


def no_attribute(module: str, name: str, known: Iterable[str], hint: str = "") -> NoReturn:
    """Raises NoAttribute for a name that a module does not have; without a hint the most similar of the known ones is given."""
    hint = hint or did_you_mean(name, known)
    fail(NoAttribute, f"module {module!r} has no attribute {name!r}", hint)


class UnsupportedTransformerException(UserError):
    """There is no transformer of that name."""


def fail(
    kind: type[UserError], message: str, hint: str = "", location: Location | None = None, **facts: Any
) -> NoReturn:
    """Raises `kind` at `location`, or else at the user's line; `facts` are what it takes besides."""
    raise kind(Diagnostic(message, user_location() if location is None else location, hint=hint), **facts)


def limit(message: str, hint: str = "", location: Location | None = None) -> NoReturn:
    """Raises Limit: right, but not possible in this version."""
    raise Limit(Diagnostic(message, user_location() if location is None else location, hint=hint))
