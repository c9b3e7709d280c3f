# SPDX-License-Identifier: Apache-2.0
"""Constants in a binary file next to the text: written at once, mapped when the text is parsed.

    {-#
      external_resources: {
        ngmlir: {
          constant_0: "weights.bin@64+4000000 crc32:0A1B2C3D"
        }
      }
    #-}

Such an entry has the name of a file (relative to the folder of the text, separated by `/`), the offset and the number of
the bytes of the elements, and optionally a checksum of a sample of them. A text may come from anyone, so files outside its
folder are rejected.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from ..support.diagnostics import Diagnostic, UserError
from ..support.mapping import mapped
from .elements import ElementsAttr, sample

#: The key of the entries of these files among the external resources.
TOOL = "ngmlir"
#: Alignment of constants, so that programs use them in the mapped file.
_ALIGNMENT = 64
_ENTRY = re.compile(r"(?P<file>.+)@(?P<at>\d{1,19})\+(?P<count>\d{1,19})(?: crc32:(?P<check>[0-9A-F]{8}))?\Z")


class ResourceWriter:
    """A file for constants. `name` is its name in the text: a path from the text's own folder.

    Constants are not copied before `write`; equal ones are written once.
    """

    def __init__(self, name: str):
        self.name = name
        self.size = 0
        self.parts: dict[ElementsAttr, int] = {}
        if reason := _unfit(name):
            raise UserError(f"'{name}' cannot be the name of a file with constants: {reason}")

    def add(self, literal: ElementsAttr) -> str:
        """The entry of a constant; its offset in the file is then fixed."""
        at = self.parts.get(literal)
        if at is None:
            at = self.parts[literal] = -(-self.size // _ALIGNMENT) * _ALIGNMENT
            self.size = at + len(literal.data)
        check = zlib.crc32(sample(literal.data))
        return f"{self.name}@{at}+{len(literal.data)} crc32:{check:08X}"

    def pieces(self) -> Iterable[bytes | memoryview]:
        """The bytes of the file, in order."""
        end = 0
        for literal, at in self.parts.items():
            yield bytes(at - end)
            yield literal.data
            end = at + len(literal.data)


class ResourceFolder:
    """The folder of the files that a text may name. Without a folder it may name none."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder
        self.mapped: dict[str, memoryview] = {}

    def read(self, entry: str) -> memoryview:
        """The bytes that an entry names, mapped; UserError (without a location) if they do not exist."""
        found = _ENTRY.match(entry)
        if found is None:
            raise _error('expected "file@first byte+bytes"', 'such as "weights.bin@0+4096"')
        name, at, count = found["file"], int(found["at"]), int(found["count"])
        whole = self.file(name)
        if at + count > len(whole):
            raise _error(
                f"'{name}' ends at byte {len(whole)}, but the constant at byte {at + count}",
                "the file is not the one that was written together with this text",
            )
        data = whole[at : at + count]
        if found["check"] and zlib.crc32(sample(data)) != int(found["check"], 16):
            raise _error(
                f"'{name}' does not match this text: wrong checksum",
                "without 'crc32:...' the contents are not checked",
            )
        return data

    def file(self, name: str) -> memoryview:
        """A whole file, mapped for reading."""
        if name in self.mapped:
            return self.mapped[name]
        if reason := _unfit(name):
            raise _error(
                f"'{name}' is not allowed: {reason}", "a text may only refer to files below its own folder"
            )
        if self.folder is None:
            raise _error(
                f"the text has no folder to look for '{name}' in",
                "use use from_text(..., resources=folder), or ngopt --resource-folder=DIR",
            )
        try:
            path = self.folder.joinpath(*PurePosixPath(name).parts).resolve()
            if not path.is_relative_to(self.folder.resolve()):
                raise _error(
                    f"'{name}' is a link that leads outside {self.folder}", "copy the file into the folder"
                )
            self.mapped[name] = _mapped(path, name)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise _error(f"cannot read '{name}' in {self.folder}: {reason}") from None
        return self.mapped[name]


def _mapped(path: Path, name: str) -> memoryview:
    # Not blocking: the file may be a pipe without a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _error(f"'{name}' is not a file")
        return mapped(handle)
    finally:
        os.close(handle)


def _unfit(name: str) -> str:
    """Why a name must not be opened, on any system; '' if it may."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root:
        return "it is not a path from the text's folder"
    if ".." in windows.parts:
        return "it leads outside the folder"
    if not posix.parts or "\0" in name or "\\" in name:
        return "it is not the name of a file"
    return ""


def _error(message: str, hint: str = "") -> UserError:
    return UserError(Diagnostic(message, hint=hint))
