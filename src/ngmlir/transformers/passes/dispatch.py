# SPDX-License-Identifier: Apache-2.0
"""Methods that dispatch on the class of their argument: `@visit.on_type(ng.Add)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast, get_args

Method = Callable[[Any, Any], Any]


class GenericMethod:
    """A method of one argument with variants for classes; the variant for the nearest base class is called.

    `on_type` returns a method with one more variant and does not change this one, so a class can extend the method of
    its base.
    """

    def __init__(self, default: Method, variants: Mapping[type, Method] | None = None):
        self.default = default
        self.variants = dict(variants or {})
        self.__doc__ = default.__doc__

    def on_type(self, kind: Any) -> Callable[[Method], GenericMethod]:
        """A decorator: the method with this variant for a class, or for each of a union or tuple of classes."""
        given = cast("tuple[Any, ...]", kind) if isinstance(kind, tuple) else get_args(kind) or (kind,)
        kinds = [each for k in given for each in getattr(k, "classes", (k,))]
        return lambda variant: GenericMethod(self.default, {**self.variants, **dict.fromkeys(kinds, variant)})

    def variant(self, kind: type) -> Method:
        """The function that is called for instances of a class."""
        return next((self.variants[base] for base in kind.__mro__ if base in self.variants), self.default)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return partial(self._call, instance)

    def _call(self, instance: Any, argument: Any) -> Any:
        return self.variant(argument.__class__)(instance, argument)


def generic_method(dispatch_base_type: type = object) -> Callable[[Method], GenericMethod]:
    """A decorator that makes a method generic; the decorated function is the default if no variant applies."""
    return GenericMethod
