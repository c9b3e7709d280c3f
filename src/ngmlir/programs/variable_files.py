# SPDX-License-Identifier: Apache-2.0
"""Files of variables: arrays by name, with ragged offsets where they have some, and a checksum of all bytes.

A file is one line, `ngmlir variables 1 SHA256`, and the bytes that this is the checksum of: an archive of NumPy's (`.npz`, not
compressed). An array of a type that NumPy does not have is kept as integers, under `name|type`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import FloatType
from ..support.diagnostics import UserError
from ..support.files import write_files

Array = np.ndarray[Any, Any]

_KIND, _VERSION = b"ngmlir variables ", b"1"
_MAGIC = _KIND + _VERSION + b" "
_OFFSETS = "@OFFSETS@"


@dataclass(frozen=True)
class Stored:
    """The value of a variable: an array, and the offsets of its ragged levels."""

    array: Array
    offsets: list[list[int]] = field(default_factory=list[list[int]])


def write_variables(files: Mapping[Path, Mapping[str, Stored]]) -> None:
    """Writes files of variables; all keep their old content until the last is written. Raises UserError where one cannot be
    written."""
    write_into_folders({path: variable_bytes(values) for path, values in files.items()})


def write_into_folders(files: Mapping[Path, bytes]) -> None:
    """Writes files that belong together, and creates their folders."""
    for folder in {path.parent for path in files}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder '{folder}': {error.strerror}") from None
    write_files({str(path): [data] for path, data in files.items()})


def file_name(variable: str) -> str:
    """The file of a variable: its name, with what no file can be called written as in URLs."""
    return "".join(c if c.isalnum() or c in "._@-" else f"%{ord(c):02X}" for c in variable)


def variable_bytes(values: Mapping[str, Stored]) -> bytes:
    """What a file of variables holds."""
    arrays: dict[str, Array] = {}
    for name, stored in values.items():
        element = type_of_dtype(stored.array.dtype)
        is_known = not isinstance(element, FloatType) or element.text in ("f16", "f32", "f64")
        # A name that has a | itself is followed by one.
        key = f"{name}|{'' if is_known else element.text}" if not is_known or "|" in name else name
        arrays[key] = stored.array if is_known else stored.array.view(f"u{stored.array.dtype.itemsize}")
        for level, offsets in enumerate(stored.offsets):
            arrays[f"{name}{_OFFSETS}{level}"] = np.asarray(offsets, np.int64)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(
                part, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False
            )
            # A time of writing would make the bytes differ from run to run.
            archive.writestr(zipfile.ZipInfo(key + ".npy"), part.getvalue())
    body = stream.getvalue()
    return _MAGIC + sha256(body).hexdigest().encode() + b"\n" + body


def checksum_of(data: bytes) -> str:
    """The checksum that a file of variables carries."""
    return data[len(_MAGIC) : data.index(b"\n")].decode()


def read_variables(path: str | Path) -> dict[str, Stored]:
    """The variables in a file; UserError where there is none, or where it is cut short or altered."""
    return parse_variables(read_file(path), path)


def read_file(path: str | Path) -> bytes:
    """The bytes of a file; UserError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None


def parse_variables(data: bytes, path: str | Path) -> dict[str, Stored]:
    """The variables that bytes of a file hold; UserError where they were cut short or altered."""
    head, _, body = data.partition(b"\n")
    if not head.startswith(_KIND):
        raise UserError(f"'{path}' is no file of variables of ngmlir")
    if not head.startswith(_MAGIC):
        version = head[len(_KIND) :].partition(b" ")[0].decode(errors="replace")
        raise UserError(f"'{path}' is of version {version}; this release reads version {_VERSION.decode()}")
    if sha256(body).hexdigest().encode() != head[len(_MAGIC) :]:
        raise UserError(f"'{path}' was cut short or altered: its checksum is another")
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            arrays: dict[str, Array] = {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"'{path}' holds no arrays: {error}") from None
    return dict(_values(arrays))


def _values(arrays: Mapping[str, Array]) -> Iterable[tuple[str, Stored]]:
    for key, array in arrays.items():
        if _OFFSETS in key:
            continue
        name, _, element = key.rpartition("|") if "|" in key else (key, "", "")
        offsets: list[list[int]] = []
        while (held := arrays.get(f"{name}{_OFFSETS}{len(offsets)}")) is not None:
            offsets.append(held.tolist())
        yield name, Stored(array.view(dtype_of(FloatType(element))) if element else array, offsets)
