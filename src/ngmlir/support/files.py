# SPDX-License-Identifier: Apache-2.0
"""Writing files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .diagnostics import UserError


def write_file(name: str, pieces: Iterable[bytes | memoryview], *, private: bool = False) -> None:
    """Writes a file, which keeps its old content until all is written: also for those who have it mapped. A `private` one
    is for this user alone to read."""
    write_files({name: pieces}, private=private)


def write_files(files: Mapping[str, Iterable[bytes | memoryview]], *, private: bool = False) -> None:
    """As `write_file`, for files that belong together: all keep their old content until the last is written."""
    made: list[tuple[str, str]] = []
    try:
        for name, pieces in files.items():
            with _named(name):
                new = _temporary_for(name, pieces, private)
                if new is not None:
                    made.append((name, new))
        while made:
            name, new = made[0]
            with _named(name):
                os.replace(new, name)
            made.pop(0)
    finally:
        for _, new in made:
            os.unlink(new)


def _temporary_for(name: str, pieces: Iterable[bytes | memoryview], private: bool) -> str | None:
    """A new file that is to become `name`; None where that is a device or a pipe, which is written at once."""
    target = Path(name)
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            stream.writelines(pieces)
        return None
    handle, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(pieces)
        if not private:
            os.chmod(made, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
    except BaseException:
        os.unlink(made)
        raise
    return made


@contextmanager
def _named(name: str) -> Generator[None]:
    """Errors of the system become those of an output file."""
    try:
        yield
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
