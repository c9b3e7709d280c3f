# SPDX-License-Identifier: Apache-2.0
"""The arrays that `ngmlir run` feeds: from files, or random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..support.array_files import read_arrays
from ..support.diagnostics import UserError
from ..support.lengths import Length, value_at
from ..support.spelling import did_you_mean
from .models import Array, Input

#: How a length is said that a model leaves open.
SIZES_HINT = "--size NAME=N sets it, --shape INPUT=2x3 the whole shape of an input"


def sizes_of(given: Sequence[str], inputs: Sequence[Input]) -> dict[str, int]:
    """`--size NAME=N` of a command line."""
    stated = [d for each in inputs for d in each.shape or ()]
    named = {d for d in stated if isinstance(d, str)}
    named |= {name for d in stated if isinstance(d, Length) for name in d.expression.names()}
    found: dict[str, int] = {}
    for text in given:
        name, _, length = text.rpartition("=")
        if not name or not length.isdigit():
            raise UserError(f"--size={text} is not a length", hint="--size batch=8")
        if name not in named:
            hint = did_you_mean(name, named, f"there are: {', '.join(sorted(named)) or 'none'}")
            raise UserError(f"no input has a length called '{name}'", hint=hint)
        found[name] = int(length)
    return found


def shapes_of(given: Sequence[str], inputs: Sequence[Input]) -> dict[str, tuple[int, ...]]:
    """`--shape INPUT=2x3` of a command line; `INPUT=` alone is a scalar."""
    found: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, sign, shape = text.rpartition("=")
        lengths = shape.replace(",", "x").split("x") if shape else []
        if not sign or not all(length.isdigit() for length in lengths):
            raise UserError(f"--shape={text} is not a shape", hint="--shape x=2x3")
        _known(name, inputs)
        found[name] = tuple(map(int, lengths))
    return found


def whole_shapes(
    inputs: Sequence[Input],
    sizes: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    note: Callable[[str], None],
) -> list[tuple[int, ...]]:
    """The shape of each input. Lengths that are not given are 1; `note` is called for each."""
    chosen: dict[str, int] = dict(sizes)

    def anything(what: str) -> int:
        note(f"note: {what} is set to 1; {SIZES_HINT}")
        return 1

    def length_of(name: str) -> int:
        if name not in chosen:
            chosen[name] = anything(f"'{name}'")
        return chosen[name]

    found: list[tuple[int, ...]] = []
    for each in inputs:
        if each.name in shapes:
            found.append(shapes[each.name])
            for stated, length in zip(each.shape or (), shapes[each.name], strict=False):
                if isinstance(stated, str):
                    chosen.setdefault(stated, length)
            continue
        if each.shape is None:
            raise UserError(f"the model has no shape for '{each.name}'", hint=SIZES_HINT)
        lengths: list[int] = []
        for at, stated in enumerate(each.shape):
            if isinstance(stated, Length):
                names = sorted(stated.expression.names())
                lengths.append(value_at(stated, {name: length_of(name) for name in names}))
            elif isinstance(stated, str):
                lengths.append(length_of(stated))
            else:
                lengths.append(anything(f"dimension {at} of '{each.name}'") if stated is None else stated)
        found.append(tuple(lengths))
    return found


def random_array(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Floats around 0; integers 0 and 1, which are indices of almost anything."""
    if dtype.kind in "biu":
        return random.integers(0, 2, shape).astype(dtype)
    return np.asarray(random.standard_normal(shape)).astype(dtype)


def from_files(
    given: Sequence[str], inputs: Sequence[Input], with_value: Callable[[], Sequence[Input]] = tuple
) -> dict[str, Array]:
    """The arrays of `--input`: `x.npy` for the next input, `name=x.npy` for that one, `all.npz` for those named in it; also for
    those `with_value`, which come behind the inputs, and are asked for only if something is given that is for none of these."""
    found: dict[str, Array] = {}
    known = [*inputs]

    def has(name: str) -> bool:
        if len(known) == len(inputs) and all(name != each.name for each in known):
            known.extend(with_value())
        return any(name == each.name for each in known)

    def free() -> str | None:
        return next((each.name for each in known if each.name not in found), None)

    def add(name: str, array: Array, text: str) -> None:
        if not has(name):
            _known(name, known)
        if name in found:
            raise UserError(f"--input={text}: the input '{name}' is given twice")
        found[name] = array

    for text in given:
        name, sign, path = text.partition("=")
        named = bool(sign) and has(name)
        if sign and not named and not Path(text).exists():
            _known(name, known)
        loaded = read_arrays(path if named else text)
        if isinstance(loaded, dict):
            for key, array in loaded.items():
                add(key, array, text)
        elif named:
            add(name, loaded, text)
        else:
            position = free()
            if position is None:
                has(text)
                position = free()
            if position is None:
                raise UserError(f"--input={text}: there are {len(known)} inputs only{_listed(known)}")
            add(position, loaded, text)
    return found


def lacking(inputs: Sequence[Input], names: Sequence[str]) -> UserError:
    """What is said of inputs that nothing is given for."""
    wanted = ", ".join(f"'{name}'" for name in names)
    return UserError(
        f"no value for the input{'s' if len(names) > 1 else ''} {wanted}{_listed(inputs)}",
        hint="--input x.npy or --input name=x.npy; --random SEED draws the others",
    )


def _listed(inputs: Sequence[Input]) -> str:
    return f"; it takes {', '.join(map(str, inputs))}" if inputs else "; it takes none"


def _known(name: str, inputs: Sequence[Input]) -> None:
    names = [each.name for each in inputs]
    if name not in names:
        hint = did_you_mean(name, names, f"the inputs are {', '.join(names) or 'none'}")
        raise UserError(f"there is no input '{name}'", hint=hint)
