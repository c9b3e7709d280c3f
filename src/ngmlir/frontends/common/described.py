# SPDX-License-Identifier: Apache-2.0
"""Objects that are shown as the call that made them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Self, cast

from ...op_graph.node import Op


class _OfInit:
    """The signature of a class is that of its `__init__`: before Python 3.11.4 `inspect.signature` takes that of `__new__`. An object
    that can be called has its own."""

    def __get__(self, made: object, kind: type[object]) -> inspect.Signature:
        if made is not None:
            raise AttributeError("__signature__")
        whole = inspect.signature(kind.__init__)
        return whole.replace(parameters=[*whole.parameters.values()][1:])


class Described:
    """Something whose repr is the call that made it: `Affine(weight_init=GaussianInit(std=0.1), nout=10)`."""

    __signature__ = _OfInit()
    _made_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def __new__(cls, *args: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        made.__dict__["_made_with"] = args, named
        return made

    def _call(self) -> dict[str, Any]:
        """The arguments of the call by name; those without a named parameter by position."""
        args, named = self._made_with
        try:
            bound = inspect.signature(type(self)).bind(*args, **named)
        except (TypeError, ValueError):
            return {**{str(place): value for place, value in enumerate(args)}, **named}
        found: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                found.update(value)
            elif value is not bound.signature.parameters[name].default:
                found[name] = value
        return found

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={shown(value)}" for name, value in self._call().items())
        return f"{type(self).__name__}({given})"


def shown(value: Any) -> str:
    """An argument in one short piece."""
    if isinstance(value, Op):
        return value.called
    if callable(value) and not isinstance(value, Described):
        return getattr(value, "__qualname__", None) or type(value).__name__
    if isinstance(value, (list, tuple)):
        items = [shown(item) for item in cast("Sequence[Any]", value)]
        text = ", ".join(items)
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(items) == 1 else ''})"
    text = repr(value)
    return text if len(text) <= 200 and "\n" not in text else f"<{type(value).__name__}>"
