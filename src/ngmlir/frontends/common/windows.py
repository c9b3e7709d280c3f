# SPDX-License-Identifier: Apache-2.0
"""Settings of windows as users give them: a number, one for each dimension, a name; and the positions of windows that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ...op_graph.axes import Axis
from ...op_graph.errors import UserError, fail
from ...op_graph.functions.sliding import RULES, Slide
from ...support.spelling import counted
from .given import is_named, is_several

__all__ = ["Setting", "Window", "border_of", "per_dimension", "shape_of", "windows"]

#: A setting for all dimensions, one for each, or {dimension: setting}.
Setting = Any


def per_dimension(given: Setting, names: str, default: Any, what: str) -> dict[str, Any]:
    """A setting for each of some dimensions; the default for those that a mapping does not name."""
    if is_named(given):
        unknown = [name for name in given if name not in [*names]]
        if unknown:
            fail(UserError, f"{what} for {unknown[0]!r}, which is none of {', '.join(names)}")
        return {name: given.get(name, default) for name in names}
    if is_several(given):
        if len(given) != len(names):
            fail(
                UserError,
                f"{counted(len(given), 'number')} as {what} of {len(names)} dimensions ({', '.join(names)})",
            )
        return dict(zip(names, given, strict=True))
    return dict.fromkeys(names, given)


@dataclass(frozen=True)
class Window:
    """The settings of a window along one dimension (C, D, H or W)."""

    taps: int
    stride: Any
    padding: Any
    dilation: Any

    def border(self, axis: Axis) -> tuple[int, int]:
        """Elements before and after an axis."""
        return border_of(self.padding, axis, self.taps, self.stride, self.dilation)


def border_of(padding: Any, axis: Axis, taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """How many elements a padding adds before and after an axis: a number, a pair, or `same valid full causal`.

    Raises UserError for another name.
    """
    if not isinstance(padding, str):
        before, after = padding if is_several(padding) else (padding, padding)
        return before, after
    if padding not in RULES:
        fail(UserError, f"padding must be one of {', '.join(RULES)}, or numbers, not {padding!r}")
    return Slide(axis, Axis(taps), stride, dilation).border(padding)


def windows(
    shape: Mapping[str, int], strides: Setting, padding: Setting, dilation: Setting
) -> dict[str, Window]:
    """The windows along the dimensions of a shape. A pair of numbers as padding is that before and after each dimension."""
    names = "".join(shape)
    if is_several(padding) and len(padding) == 2 and all(isinstance(n, Integral) for n in padding):
        padding = dict.fromkeys(names, padding)
    settings = [
        per_dimension(given, names, default, what)
        for given, default, what in (
            (strides, 1, "strides"),
            (padding, 0, "padding"),
            (dilation, 1, "dilation"),
        )
    ]
    return {name: Window(shape[name], *(s[name] for s in settings)) for name in names}


def shape_of(given: Any, endings: tuple[str, ...], what: str) -> dict[str, int]:
    """A shape by dimension: a mapping, or a number for each of the last dimensions."""
    if is_named(given):
        known = endings[-1]
        unknown = [name for name in given if name not in [*known]]
        if unknown:
            fail(UserError, f"{what} has {unknown[0]!r}, which is none of {', '.join(known)}")
        return {name: given[name] for name in known if name in given}
    numbers: tuple[Any, ...] = (given,) if isinstance(given, int) else tuple(given)
    names = next((e for e in endings if len(e) == len(numbers)), None)
    if names is None:
        forms = ", ".join(f"({', '.join(e)})" for e in endings)
        fail(UserError, f"{what} is one of {forms}, or a dictionary, not {given!r}")
    return dict(zip(names, numbers, strict=True))
