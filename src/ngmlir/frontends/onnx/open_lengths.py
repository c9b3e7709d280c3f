# SPDX-License-Identifier: Apache-2.0
"""The lengths that inputs of a model leave open: their names, and those for which a program is known to be right."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...support.length_text import identifier
from ...support.lengths import SEVERAL, Guard, Length, expression_of
from .calls import Program
from .ports import Port

#: A place of an array among the inputs, and the array.
Leaf: TypeAlias = tuple[tuple[int, int], np.ndarray[Any, Any]]


def open_places(
    inputs: Sequence[Port],
    leaves: Sequence[Leaf],
    begins: Sequence[int],
    deciding: Collection[tuple[int, int]],
) -> dict[int, str]:
    """The names of lengths that the inputs leave open and whose elements decide nothing, by their places in keys, in which the
    inputs begin so."""
    return {
        begin + 1 + d: identifier(size or f"input{number}_{d}")
        for number, (port, (place, array), begin) in enumerate(zip(inputs, leaves, begins, strict=False))
        if (port.shape is None or len(port.shape) == array.ndim) and place not in deciding
        for d, size in enumerate([None] * array.ndim if port.shape is None else port.shape)
        if not isinstance(size, int)
    }


def tied(keys: Sequence[tuple[Any, ...]], at: Mapping[int, str]) -> dict[int, str]:
    """The names of lengths at places of keys, with one name for those that are equal in all of them: models may name them
    differently, and accept only such."""
    names: dict[tuple[int, ...], str] = {}
    return {i: names.setdefault(tuple([key[i] for key in keys]), name) for i, name in at.items()}


def changing(key: tuple[Any, ...], keys: Sequence[tuple[Any, ...]], at: Mapping[int, str]) -> dict[int, str]:
    """Of the lengths at places of keys those that differ from call to call, with one name for those that are always equal;
    calls that differ in more than lengths are of other programs."""
    like = [
        k for k in keys if len(k) == len(key) and all(k[i] == key[i] for i in range(len(k)) if i not in at)
    ]
    return tied([key, *like], {i: name for i, name in at.items() if any(k[i] != key[i] for k in like)})


def both(one: range, other: range) -> range:
    """What two ranges of multiples of their steps, which are powers of two, have in common."""
    step, start = max(one.step, other.step), max(one.start, other.start)
    return range(-(-start // step) * step, min(one.stop, other.stop), step)


class _HasProgram(Protocol):
    @property
    def program(self) -> Program: ...


def limits(
    seen: Mapping[str, range],
    programs: Sequence[tuple[tuple[Any, ...], _HasProgram]],
    at: Mapping[int, str],
    steps: Mapping[str, int],
    program: Program,
    like: Sequence[Any],
) -> tuple[Guard, ...]:
    """Guards for calls of a program for all lengths that are `steps` times those of its code, by name: its code is known to be right for
    the lengths that were `seen`, and no other of the `programs`, by keys that have lengths in the places `at`, is for exactly the lengths
    of the call, which has those without a step in common with the key `like`."""
    lengths = {name: step * Length.named(name, SEVERAL) for name, step in steps.items()}
    found: list[Guard] = []
    for name, each in seen.items():
        if name in lengths:
            offset, last = lengths[name] - each.start, lengths[name] - each.stop
            found += [Guard(expression_of(offset), ">="), Guard(expression_of(last), "<")]
            found += [Guard(expression_of(offset % each.step), "==")] if each.step > 1 else []
    for key, made in programs:
        if made.program is program or max(at) >= len(key):
            continue
        if any(key[i] != like[i] for i, n in at.items() if n not in lengths):
            continue
        own = {lengths[n]: key[i] for i, n in at.items() if n in lengths and isinstance(key[i], int)}
        if min(own.values(), default=0) >= SEVERAL:
            found.append(Guard(expression_of(sum((n - size) ** 2 for n, size in own.items())), "!="))
    return tuple(found)
