# SPDX-License-Identifier: Apache-2.0
"""The file form `safetensors`: the length of a header, the header (JSON: types, shapes and places by name), the bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from ...op_graph.errors import UserError, fail
from ...support.spelling import counted
from ..common.given import is_named

Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]

_TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("bool"),
    **{
        f"{u}{8 * n}": np.dtype(f"<{u.lower()}{n}") for u in "UIF" for n in (1, 2, 4, 8) if (u, n) != ("F", 1)
    },
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
#: A header is no longer than this.
_LONGEST_HEADER = 100_000_000


def write(file: Path, tensors: Mapping[str, Array]) -> None:
    """Writes arrays by name, in place of a file that is there. UserError for elements that the form does not know."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, array in tensors.items():
        dtype = array.dtype.newbyteorder("<") if array.dtype.kind in "iuf" else array.dtype
        if dtype not in _NAMES or name == "__metadata__":
            fail(UserError, f"{name}: an array of {array.dtype} has no place in a safetensors file")
        data = np.ascontiguousarray(array, dtype).tobytes()
        header[name] = {"dtype": _NAMES[dtype], "shape": array.shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.writelines(parts)


def read(file: Path) -> dict[str, Array]:
    """The arrays by name. UserError for a file that cannot be read or is damaged: it says how."""
    try:
        with open(file, "rb") as stream:
            content = stream.read()
    except OSError as error:
        fail(UserError, f"{os.fspath(file)} cannot be read: {error.strerror}")
    if len(content) < 8:
        _damaged(file, f"it has {counted(len(content), 'byte')}, fewer than the length of its header")
    length = int.from_bytes(content[:8], "little")
    if length > min(_LONGEST_HEADER, len(content) - 8):
        _damaged(file, f"its header would have {length} bytes, the file has {len(content)}")
    try:
        header = json.loads(content[8 : 8 + length], object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        _damaged(file, f"its header is no JSON: {error}")
    if not is_named(header):
        _damaged(file, "its header is no dictionary")
    entries: dict[str, Any] = header
    data = memoryview(content)[8 + length :]
    made: dict[str, Array] = {}
    places: list[tuple[int, int]] = []
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        dtype, shape, start, end = _entry(file, name, entry)
        if end > len(data):
            _damaged(file, f"{name} ends at byte {end} of {len(data)}")
        places.append((start, end))
        array = np.frombuffer(data[start:end], dtype).reshape(shape)
        made[name] = array.astype(dtype.newbyteorder("=")) if dtype.kind in "iuf" else array.copy()
    at = 0
    for start, end in sorted(places):
        if start != at:
            _damaged(file, f"its tensors overlap or leave a hole at byte {min(start, at)}")
        at = end
    if at != len(data):
        _damaged(file, f"its tensors end at byte {at} of {len(data)}")
    return made


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice")
    return made


def _entry(file: Path, name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """(type, shape, start, end) of a tensor."""
    try:
        kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, end]
    except (KeyError, TypeError, ValueError):
        _damaged(file, f"{name} lacks its dtype, shape or data_offsets")
    if not isinstance(kind, str) or kind not in _TYPES:
        _damaged(file, f"{name} has elements of {kind!r}, which are not known here")
    if any(type(n) is not int or n < 0 for n in numbers):
        _damaged(file, f"{name} has a shape or place that is no number: {numbers}")
    dtype = _TYPES[kind]
    if end - start != prod(shape) * dtype.itemsize:
        _damaged(
            file,
            f"{name} has {end - start} bytes, its shape {shape} of {kind} needs {prod(shape) * dtype.itemsize}",
        )
    return dtype, tuple(shape), start, end


def _damaged(file: Path, why: str) -> NoReturn:
    fail(UserError, f"{os.fspath(file)} is no safetensors file, or is damaged: {why}")
