# SPDX-License-Identifier: Apache-2.0
"""Writing files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .diagnostics import UserError


def write_file(name: str, pieces: Iterable[bytes | memoryview], *, private: bool = False) -> None:
    """Writes a file, which keeps its old content until all is written: also for those who have it mapped. A `private` one
    is for this user alone to read."""
    target = Path(name)
    try:
        if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
            with target.open("wb") as stream:
                stream.writelines(pieces)
            return
        handle, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.writelines(pieces)
            if not private:
                os.chmod(made, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
            os.replace(made, target)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        raise UserError(f"cannot open output file '{name}': {error.strerror}") from None
    except ValueError as error:  # a name that no file can have
        raise UserError(f"cannot open output file {name!r}: {error}") from None


def write_temporary(text: str, suffix: str) -> Path | None:
    """A new file in the temporary folder that only this user can read; None where there is no room for it."""
    made = ""
    try:
        handle, made = tempfile.mkstemp(prefix="ngmlir-", suffix=suffix)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
    except OSError:
        if made:
            with suppress(OSError):
                os.unlink(made)
        return None
    return Path(made)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
