# SPDX-License-Identifier: Apache-2.0
"""External data files of a model: in its folder, not through links, mapped."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from ...support.diagnostics import UserError
from ...support.mapping import mapped


def beside(folder: Path | None, location: str, offset: int, size: int, what: str) -> memoryview:
    """Bytes of an external data file. `folder` is the model's; None: it has none. UserError for a file outside of the
    folder, and for one that is too short."""
    if folder is None:
        raise UserError(
            f"{what} lies in the file '{location}', but the model was not read from a file",
            hint="load the model by its path, which says where the file is",
        )
    with _opened(_inside(folder, location, what), what) as stream:
        held = os.fstat(stream.fileno()).st_size
        if offset + size > held:
            raise UserError(
                f"{what} ends at byte {offset + size} of '{location}', which has {held}",
                hint="the file was cut off, or belongs to another model",
            )
        return mapped(stream.fileno())[offset : offset + size]


def _inside(folder: Path, location: str, what: str) -> Path:
    """The file that a model names: below the model's folder, reached by no link."""
    parts = Path(location).parts
    bad = not parts or "\0" in location or "\\" in location or Path(location).is_absolute() or ".." in parts
    if bad:
        raise UserError(f"{what} names the file '{location}', which is not inside the model's folder")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise UserError(f"{what} names the file '{location}', which is reached by a link")
    return path


def _opened(path: Path, what: str) -> Any:
    """The file, if it is an ordinary one with one name; it is neither waited for nor followed."""
    try:
        flags = (
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0)
        )
        stream = os.fdopen(os.open(path, flags), "rb")
    except OSError as error:
        raise UserError(
            f"{what} names the file '{path.name}': {error.strerror}",
            hint=f"weights of the model are kept in a file of their own, which has to be in '{path.parent}'",
        ) from None
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        stream.close()
        raise UserError(f"{what} names '{path.name}', which is no ordinary file of its own")
    return stream
