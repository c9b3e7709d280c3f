# SPDX-License-Identifier: Apache-2.0
"""The options of passes: their keyword-only parameters, whose annotations say which values are allowed.

bool, int and float (nonnegative) and str; `Literal["a", "b"]`: one of these words; `frozenset[Literal["a", "b"]]`: any of them,
joined by `+`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from ..support.diagnostics import UserError
from ..support.spelling import did_you_mean


class Option(NamedTuple):
    """One option: its spelling in text, its parameter, its type and its default."""

    name: str
    parameter: str
    type: Any
    default: Any

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it takes, for an option with a `Literal` type; else ()."""
        inner = get_args(self.type)[0] if get_origin(self.type) is frozenset else self.type
        return tuple(map(str, get_args(inner))) if get_origin(inner) is Literal else ()

    @property
    def several(self) -> bool:
        return get_origin(self.type) is frozenset

    @property
    def assignment(self) -> str:
        """`name=default`."""
        default = "+".join(sorted(self.default)) if self.several else self.default
        return f"{self.name}={str(default).lower() if isinstance(default, bool) else default}"

    @property
    def help(self) -> str:
        """A description of the choices; '' where there are none."""
        if not self.choices:
            return ""
        return f"{'any, joined by +, of' if self.several else 'one of'} {', '.join(self.choices)}"

    def value(self, step: str, text: str) -> Any:
        """The value of `text`. Raises UserError with the choices where it is not allowed."""
        of = f"option '{self.name}' of '{step}'"
        if self.choices:
            words = [word for word in text.split("+") if word] if self.several else [text]
            for word in words:
                if word not in self.choices:
                    choices = ", ".join(self.choices)
                    hint = did_you_mean(word, self.choices)
                    raise UserError(f"{of} cannot be '{word}': it must be one of {choices}", hint=hint)
            return frozenset(words) if self.several else text
        if self.type is bool:
            if text not in ("true", "false", "0", "1"):
                raise UserError(f"{of} must be true or false, not '{text}'")
            return text in ("true", "1")
        if self.type in (int, float):
            try:
                number = self.type(text)
            except ValueError:
                raise UserError(f"{of} must be a number, not '{text}'") from None
            if not 0 <= number < float("inf"):
                raise UserError(f"{of} must be a number from 0 on, not '{text}'")
            return number
        return text


def declared_options(function: Callable[..., Any]) -> dict[str, Option]:
    """The options of a pass, by their names in text."""
    parameters = inspect.signature(function).parameters.values()
    keywords = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    hints = get_type_hints(function) if keywords else {}
    options = [Option(p.name.replace("_", "-"), p.name, hints.get(p.name, str), p.default) for p in keywords]
    return {option.name: option for option in options}


def option_values(
    function: Callable[..., Any], step: str, given: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """The options of a step as keyword arguments. Raises UserError for an unknown name or a value that is not allowed."""
    known = declared_options(function)
    out: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            hint = did_you_mean(name, known, f"its options: {', '.join(known) or 'none'}")
            raise UserError(f"pass '{step}' has no option '{name}'", hint=hint)
        if known[name].parameter in out:
            raise UserError(f"option '{name}' of '{step}' is given twice")
        out[known[name].parameter] = known[name].value(step, text)
    return out
