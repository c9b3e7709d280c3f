# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of programs of ranks, which do not depend on how many there are.

Each rank writes a file of what it alone has, under a name that no earlier save has; then one file, `checkpoint`, takes the place of the one
before, and says which files belong together, with their checksums, and which part of which variable is where. Until then the
checkpoint before is whole; files that none names are removed by the next save.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..support.diagnostics import UserError
from ..support.files import write_file
from .distribute import Piece
from .variable_files import (
    Stored,
    checksum_of,
    parse_variables,
    read_file,
    variable_bytes,
    write_into_folders,
)

Array = np.ndarray[Any, Any]
#: The file that says what a checkpoint is.
INDEX = "checkpoint"
_VERSION = 1
#: Where a piece that is all of a variable ends.
WHOLE = -1
_OWN = re.compile(r"\.?(\d+)\.(rank|server)\d+(\.\w+)?\Z")


@dataclass(frozen=True)
class Saved:
    """What a rank has of a variable of the whole program."""

    piece: Piece
    array: Array


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: whole variables by name, the states of random numbers, and the step that it is of."""

    values: Mapping[str, Array]
    random: Sequence[Array]
    step: int


def write_checkpoint(
    folder: Path, parts: Mapping[str, Sequence[Saved]], random: Sequence[Array], step: int
) -> None:
    """Writes what ranks have, `parts`, by the names of their files (`rank0`). What several have is written once.

    Raises UserError where a file cannot be written; the checkpoint before is whole then.
    """
    earlier = [int(m[1]) for m in map(_OWN.match, _names(folder)) if m]
    number = max(earlier, default=0) + 1
    seen: set[Piece] = set()
    files: dict[str, str] = {}
    pieces: list[dict[str, Any]] = []
    for who, held in parts.items():
        own = [each for each in held if each.piece not in seen]
        seen.update(each.piece for each in own)
        name = f"{number}.{who}"
        stored = {f"{i}": Stored(each.array, []) for i, each in enumerate(own)}
        if not files:
            stored |= {f"random{i}": Stored(state, []) for i, state in enumerate(random)}
        if not stored:
            continue
        data = variable_bytes(stored)
        write_into_folders({folder / name: data})
        files[name] = checksum_of(data)
        pieces += [
            {
                "of": each.piece.source, "file": name, "at": f"{i}", "dimension": each.piece.dimension,
                "start": each.piece.start, "stop": each.piece.stop,
            }
            for i, each in enumerate(own)
        ]  # fmt: skip
    index = {"version": _VERSION, "step": step, "files": files, "pieces": pieces, "random": len(random)}
    write_file(str(folder / INDEX), [json.dumps(index, indent=1).encode()])
    for name in _names(folder):
        if _OWN.match(name) and name not in files:
            with suppress(OSError):
                (folder / name).unlink()


def _names(folder: Path) -> Iterable[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def read_checkpoint(folder: Path) -> Checkpoint:
    """The last checkpoint that was written to a folder as a whole. Raises UserError where there is none, and where a file was altered."""
    data = read_file(folder / INDEX)
    try:
        index = cast("dict[str, Any]", json.loads(data))
        version, files, pieces = index["version"], index["files"], index["pieces"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"'{folder / INDEX}' says nothing of a checkpoint") from None
    if version != _VERSION:
        raise UserError(f"'{folder / INDEX}' is of version {version}; this release reads version {_VERSION}")
    held: dict[str, Mapping[str, Stored]] = {}
    for name, checksum in files.items():
        data = read_file(folder / name)
        held[name] = parse_variables(data, folder / name)
        if checksum_of(data) != checksum:
            raise UserError(f"'{folder / name}' is of another checkpoint than '{folder / INDEX}'")
    parts: dict[str, list[tuple[Piece, Array]]] = {}
    for each in pieces:
        piece = Piece(each["of"], each["start"], each["stop"], each["dimension"])
        parts.setdefault(piece.source, []).append((piece, held[each["file"]][each["at"]].array))
    first = next(iter(held.values()), {})
    random = [first[f"random{i}"].array for i in range(index["random"])]
    return Checkpoint(
        {name: _joined(name, own, folder) for name, own in parts.items()}, random, index["step"]
    )


def _joined(name: str, parts: Sequence[tuple[Piece, Array]], folder: Path) -> Array:
    """A variable of its parts: one that is all of it, or several one behind the other."""
    for piece, array in parts:
        if piece.stop == WHOLE:
            return array
    end, arrays, dimension = 0, list[Array](), parts[0][0].dimension
    for piece, array in sorted(parts, key=lambda part: part[0].start):
        if piece.start == end:
            arrays.append(array)
            end = piece.stop
    if len(arrays) < len({piece.start for piece, _ in parts}):
        raise UserError(f"the checkpoint in '{folder}' has not all of '{name}'")
    return np.concatenate(arrays, dimension)


def whole(name: str) -> Piece:
    """The piece that is all of a variable."""
    return Piece(name, 0, WHOLE)
