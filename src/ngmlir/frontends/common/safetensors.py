# SPDX-License-Identifier: Apache-2.0
"""The file form `safetensors`: the length of a header, the header (JSON: types, shapes and places by name), the bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

from ...op_graph.errors import UserError, fail
from ...support.spelling import counted
from .given import is_named

Path = str | os.PathLike[str]

TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("bool"),
    **{
        f"{u}{8 * n}": np.dtype(f"<{u.lower()}{n}") for u in "UIF" for n in (1, 2, 4, 8) if (u, n) != ("F", 1)
    },
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
#: A header is no longer than this.
_LONGEST_HEADER = 100_000_000


class Place(NamedTuple):
    """A tensor: the name of its type, its shape, and where its bytes begin and end, counted from the end of the header."""

    type: str
    shape: tuple[int, ...]
    start: int
    end: int


def places(file: Path, content: memoryview) -> tuple[dict[str, Place], memoryview]:
    """The tensors of a file by name, with their byte ranges. UserError for a damaged file, with the reason."""
    if len(content) < 8:
        damaged(file, f"it has {counted(len(content), 'byte')}, fewer than the length of its header")
    length = int.from_bytes(content[:8], "little")
    if length > min(_LONGEST_HEADER, len(content) - 8):
        damaged(file, f"its header would have {length} bytes, the file has {len(content)}")
    try:
        header = json.loads(bytes(content[8 : 8 + length]), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        damaged(file, f"its header is no JSON: {error}")
    if not is_named(header):
        damaged(file, "its header is no dictionary")
    entries: Mapping[str, Any] = header
    data = content[8 + length :]
    made = {n: _entry(file, n, entry) for n, entry in entries.items() if n != "__metadata__"}
    at = 0
    for name, place in sorted(made.items(), key=lambda each: each[1][2:]):
        if place.end > len(data):
            damaged(file, f"{name} ends at byte {place.end} of {len(data)}")
        if place.start != at:
            damaged(file, f"its tensors overlap or leave a hole at byte {min(place.start, at)}")
        at = place.end
    if at != len(data):
        damaged(file, f"its tensors end at byte {at} of {len(data)}")
    return made, data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice")
    return made


def _entry(file: Path, name: str, entry: Any) -> Place:
    try:
        kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, end]
    except (KeyError, TypeError, ValueError):
        damaged(file, f"{name} lacks its dtype, shape or data_offsets")
    if not isinstance(kind, str) or kind not in TYPES:
        damaged(file, f"{name} has elements of {kind!r}, which are not known here")
    if any(type(n) is not int or n < 0 for n in numbers):
        damaged(file, f"{name} has a shape or place that is no number: {numbers}")
    dtype = TYPES[kind]
    if end - start != prod(shape) * dtype.itemsize:
        damaged(
            file,
            f"{name} has {end - start} bytes, its shape {shape} of {kind} needs {prod(shape) * dtype.itemsize}",
        )
    return Place(kind, tuple(shape), start, end)


def damaged(file: Path, why: str) -> NoReturn:
    fail(UserError, f"{os.fspath(file)} is no safetensors file, or is damaged: {why}")
