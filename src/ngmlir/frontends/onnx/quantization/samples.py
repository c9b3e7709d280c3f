# SPDX-License-Identifier: Apache-2.0
"""Calibration data: inputs of the model, from arrays or files, in pieces of a few samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from ....ir.literals import dtype_of
from ....support.array_files import read_arrays
from ....support.diagnostics import UserError
from ....support.spelling import did_you_mean
from ..model import Model
from ..ports import Array, Given, Port, given_of

#: The inputs of one call, by name.
Named: TypeAlias = "dict[str, Array]"
#: Samples that are run together.
_TOGETHER = 8
#: Random inputs have so many rows where the model leaves it open.
_OPEN = 1
_ENDINGS = (".npz", ".npy")


@dataclass(frozen=True)
class Piece:
    """The values of all inputs for one call, and how many samples these are."""

    values: list[Given]
    count: int = 1
    first: int = 0

    @property
    def named(self) -> str:
        """What messages call its samples."""
        last = self.first + self.count - 1
        return f"sample {last}" if self.count == 1 else f"one of the samples {self.first} to {last}"


class Samples:
    """What the model is called with, call by call."""

    def __init__(self, pieces: Sequence[Piece]):
        self.pieces = list(pieces)

    @property
    def count(self) -> int:
        return sum(piece.count for piece in self.pieces)

    def parted(self) -> tuple[Samples, Samples | None]:
        """Samples to calibrate with, and a fifth of all (one at least) to compare with; None where there is but one."""
        if len(self.pieces) < 2:
            return self, None
        held = max(1, len(self.pieces) // 5)
        step = len(self.pieces) / held
        chosen = {int((k + 1) * step) - 1 for k in range(held)}
        rest = [p for i, p in enumerate(self.pieces) if i not in chosen]
        return Samples(rest), Samples([self.pieces[i] for i in sorted(chosen)])


def samples_of(model: Model, data: Any) -> Samples:
    """Calibration data: a mapping from the names of the inputs to arrays, an array where there is one input, a path (a `.npz`,
    a `.npy`, `name=x.npy`, or a folder of such), or a sequence of these.

    UserError for what does not fit the inputs, for NaN and infinities, and where there is nothing.
    """
    ports = model.inputs
    if not ports:
        raise UserError("the model takes no inputs: there is nothing to calibrate")
    for port in ports:
        if port.kind != "tensor":
            raise UserError(
                f"the input '{port.name}' is a {port.kind}", hint="inputs that are tensors can be calibrated"
            )
    pieces: list[Piece] = []
    for where, named in _joined(list(_batches(data, ports)), ports):
        for piece in _pieces(where, _checked(where, named, ports), ports):
            first = pieces[-1].first + pieces[-1].count if pieces else 0
            pieces.append(replace(piece, first=first))
    if not pieces:
        raise UserError(
            "the calibration data holds no samples", hint="give some inputs of the model as they occur in use"
        )
    return Samples(pieces)


def random_samples(model: Model, count: int, seed: int = 0) -> Samples:
    """Made-up inputs: floats around 0, integers 0 and 1. Lengths that the model leaves open are 1."""
    draw = np.random.default_rng(seed)
    pieces: list[Piece] = []
    for i in range(count):
        values: list[Given] = []
        for port in model.inputs:
            if port.shape is None or port.kind != "tensor":
                raise UserError(f"the model has no shape for '{port.name}'", hint="give calibration data")
            shape = [d if isinstance(d, int) else _OPEN for d in port.shape]
            dtype = dtype_of(port.element)
            numbers = draw.integers(0, 2, shape) if dtype.kind in "biu" else draw.standard_normal(shape)
            values.append(np.asarray(numbers).astype(dtype))
        pieces.append(Piece(values, first=i))
    return Samples(pieces)


def _batches(data: Any, ports: Sequence[Port]) -> Iterable[tuple[str, Named]]:
    """Named arrays, and where they come from."""
    if isinstance(data, (str, os.PathLike)):
        yield from _from_path(os.fspath(cast("str | os.PathLike[str]", data)), ports)
    elif isinstance(data, np.ndarray):
        yield "the calibration data", {_only(ports, "the calibration data"): data}
    elif isinstance(data, Mapping):
        yield (
            "the calibration data",
            {str(k): np.asarray(v) for k, v in cast("Mapping[Any, Any]", data).items()},
        )
    elif isinstance(data, Iterable):
        for i, each in enumerate(cast("Iterable[Any]", data)):
            for where, named in _batches(each, ports):
                yield (
                    (where if isinstance(each, (str, os.PathLike)) else f"batch {i} of the calibration data"),
                    named,
                )
    else:
        raise UserError(
            f"calibration data is no {type(data).__name__}",
            hint="arrays by the names of the inputs, or paths of .npz files",
        )


def _from_path(text: str, ports: Sequence[Port]) -> Iterable[tuple[str, Named]]:
    name, sign, rest = text.partition("=")
    if sign and any(name == port.name for port in ports):
        yield f"'{rest}'", {name: _array(rest)}
        return
    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in _ENDINGS)
        if not files:
            raise UserError(f"the folder '{text}' holds no .npz and no .npy files")
        for file in files:
            yield from _from_file(str(file), ports)
    else:
        yield from _from_file(text, ports)


def _from_file(path: str, ports: Sequence[Port]) -> Iterable[tuple[str, Named]]:
    loaded = read_arrays(path)
    if isinstance(loaded, np.ndarray):
        stem = Path(path).stem
        named = stem if any(port.name == stem for port in ports) else _only(ports, f"'{path}'")
        yield f"'{path}'", {named: loaded}
    else:
        yield f"'{path}'", loaded


def _array(path: str) -> Array:
    loaded = read_arrays(path)
    if isinstance(loaded, dict):
        raise UserError(f"'{path}' holds several arrays by name", hint="give it without the name of an input")
    return loaded


def _only(ports: Sequence[Port], where: str) -> str:
    if len(ports) != 1:
        names = ", ".join(port.name for port in ports)
        raise UserError(
            f"{where} is one array, but the model takes {len(ports)} inputs", hint=f"name them: {names}"
        )
    return ports[0].name


def _joined(batches: list[tuple[str, Named]], ports: Sequence[Port]) -> list[tuple[str, Named]]:
    """Batches of which each has all inputs: parts that follow each other and have different inputs belong together."""
    found: list[tuple[str, Named]] = []
    for where, named in batches:
        if found and not set(named) & set(found[-1][1]) and len(found[-1][1]) < len(ports):
            found[-1] = (f"{found[-1][0]} and {where}", {**found[-1][1], **named})
        else:
            found.append((where, dict(named)))
    return found


def _checked(where: str, named: Named, ports: Sequence[Port]) -> list[Array]:
    """The arrays in the order of the inputs; their elements are numbers that the inputs take."""
    names = [port.name for port in ports]
    extra, missing = [n for n in named if n not in names], [n for n in names if n not in named]
    if extra:
        hint = did_you_mean(extra[0], names, f"the inputs are {', '.join(names)}")
        raise UserError(f"{where}: there is no input '{extra[0]}'", hint=hint)
    if missing:
        raise UserError(
            f"{where}: no values for the input '{missing[0]}'", hint=f"the inputs are {', '.join(names)}"
        )
    for name, array in named.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(f"{where}: the values for '{name}' hold NaN or infinities")
    return [named[name] for name in names]


def _pieces(where: str, arrays: list[Array], ports: Sequence[Port]) -> list[Piece]:
    """The arrays in pieces along the first dimension: of the length that the model states, or of a few rows where it leaves it
    open for all inputs; else all at once."""
    shapes = [port.shape for port in ports]
    firsts = {array.shape[0] if array.ndim else 0 for array in arrays}
    stated = {shape[0] if shape else 0 for shape in shapes}
    count = 0
    if (
        len(firsts) == 1
        and all(shapes)
        and all(a.ndim == len(s or ()) for a, s in zip(arrays, shapes, strict=True))
    ):
        (rows,) = firsts
        if all(not isinstance(d, int) for d in stated):
            count = max(1, min(_TOGETHER, rows // 5))
        elif (
            len(stated) == 1 and isinstance(fixed := next(iter(stated)), int) and fixed and rows % fixed == 0
        ):
            count = fixed
        if not rows:
            return []
    step = count or max(firsts, default=1) or 1
    starts = range(0, max(firsts), step) if count else [0]
    pieces: list[Piece] = []
    try:
        for at in starts:
            values = given_of(ports, [a[at : at + step] if count else a for a in arrays], {})
            pieces.append(Piece(values, min(step, max(firsts) - at) if count else 1))
        return pieces
    except UserError as error:
        first = error.diagnostics[0]
        raise UserError(f"{where}: {first.message}", hint=first.hint or _expected(ports)) from None


def _expected(ports: Sequence[Port]) -> str:
    def text(port: Port) -> str:
        lengths = ", ".join("?" if d is None else str(d) for d in port.shape or ())
        return f"{port.name} ({dtype_of(port.element)} [{lengths}])"

    return f"the model takes {', '.join(map(text, ports))}"
