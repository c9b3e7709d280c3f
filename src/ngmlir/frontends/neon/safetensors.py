# SPDX-License-Identifier: Apache-2.0
"""Arrays in files of the form `safetensors`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...op_graph.errors import UserError, fail
from ..common.safetensors import TYPES, Path, places

Array = np.ndarray[Any, Any]

_NAMES = {dtype: name for name, dtype in TYPES.items()}


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
    found, data = places(file, memoryview(content))
    made: dict[str, Array] = {}
    for name, place in found.items():
        dtype = TYPES[place.type]
        array = np.frombuffer(data[place.start : place.end], dtype).reshape(place.shape)
        made[name] = array.astype(dtype.newbyteorder("=")) if dtype.kind in "iuf" else array.copy()
    return made
