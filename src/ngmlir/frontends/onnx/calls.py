# SPDX-License-Identifier: Apache-2.0
"""Calls of a compiled model: its programs, and what a call gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ...ir.core import Module
from ...support.mapping import Mapping as MappedFile
from .files import Files
from .ports import Given

if TYPE_CHECKING:
    from .cut import Cut


@dataclass(frozen=True)
class Program:
    """A model for inputs of certain shapes. `fed` says which leaves of the inputs the module takes; results are those of
    the module, and those that were known already."""

    module: Module | None
    fed: tuple[int, ...]
    #: Of each output its number, an array, or a list of these; or what is looked up on the host: texts at places of a table, or
    #: dictionaries of the rows of a matrix.
    results: tuple[Any, ...]

    @property
    def can_be_kept(self) -> bool:
        """Whether all that it gives is computed."""
        return all(isinstance(_computed(result), int) for result in self.results)

    def shown(self, made: Sequence[Any]) -> list[Any]:
        """The outputs, from the results of the module."""
        return [_shown(result, made) for result in self.results]


class Decides(Exception):
    """The elements of an input (a leaf: the number of the input and of an array in it) decide a shape, or another fact in
    `decided`, that a node needs."""

    def __init__(self, leaf: tuple[int, int], node: int, decided: str):
        super().__init__()
        self.leaf, self.node, self.decided = leaf, node, decided


class Waits(Exception):
    """A node needs elements that only a run tells: the model is run in two parts."""

    def __init__(self, cut: Cut):
        super().__init__()
        self.cut = cut


class Unready(Exception):
    """What a program was called with quickly has to be looked at first."""


def in_order(names: Sequence[str], values: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """What is given of all names, in their order. Raises Unready where something else is given too, or something is missing."""
    if values or len(named) != len(names):
        raise Unready
    try:
        return [named[name] for name in names]
    except KeyError:
        raise Unready from None


def unready(*values: Any) -> Any:
    """In place of what makes arrays of values that do not fit."""
    raise Unready


class Quick(NamedTuple):
    """Runs a program on arrays that fit it, and raises `Unready` for all else; and the files that it reads from, with the bytes
    that they have to have."""

    run: Callable[..., Sequence[Any]]
    files: tuple[tuple[MappedFile, int], ...]


def quick_of(
    given: Sequence[Given], program: Program, run: Callable[..., Sequence[Any]] | None, files: Files
) -> Quick | None:
    """Runs a program for a next call with arrays of the same shapes and types; `Unready` for others. None where an input is
    more, or less, than an array."""
    arrays = [value for value in given if isinstance(value, np.ndarray)]
    if len(arrays) < len(given) or run is None:
        return None
    wanted = [(a.shape, a.dtype) for a in arrays]

    def quick(*values: Any) -> Sequence[Any]:
        if len(values) != len(wanted):
            raise Unready
        for value, (shape, dtype) in zip(values, wanted, strict=True):
            if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                raise Unready
        return program.shown(run(*[values[i] for i in program.fed]))

    return Quick(quick, files.mapped)


def _computed(result: Any) -> Any:
    """What of an output the module gives."""
    if isinstance(result, dict):
        looked_up = cast("dict[str, Any]", result)
        return looked_up["rows" if "keys" in looked_up else "places"]
    return result


def _shown(result: Any, made: Sequence[Any]) -> Any:
    if isinstance(result, dict):
        looked_up, array = cast("dict[str, Any]", result), _shown(_computed(result), made)
        if "table" in looked_up:
            return np.array(looked_up["table"], object)[array]
        return [dict(zip(looked_up["keys"], row, strict=True)) for row in array.tolist()]
    if isinstance(result, list):
        return [_shown(r, made) for r in cast(list[Any], result)]
    if isinstance(result, int):
        return made[result]
    return None if result is None else np.array(result)
