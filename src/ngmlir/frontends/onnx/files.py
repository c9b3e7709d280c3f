# SPDX-License-Identifier: Apache-2.0
"""The files that hold tensors of a model, and the bytes of a model that are read from one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...support.diagnostics import UserError
from ...support.mapping import Mapping, mapped, mapping_of

#: What a protocol buffer may hold.
_LARGEST = (1 << 31) - 1
#: Files of so many bytes are mapped.
_MAPPED = 1 << 16


class Files:
    """The files of the tensors that were read so far."""

    def __init__(self) -> None:
        self._mappings: set[Mapping] = set()
        #: The files and the bytes that they have to have, for calls that have no time for more.
        self.mapped: tuple[tuple[Mapping, int], ...] = ()

    def add(self, data: Iterable[Any]) -> None:
        """Adds buffers or arrays, which may be mapped files."""
        self._mappings |= {mapping for each in data if (mapping := mapping_of(each))}
        self.mapped = tuple((mapping, len(mapping)) for mapping in self._mappings)

    def lying(self, arrays: Iterable[Any]) -> tuple[tuple[Mapping, int], ...]:
        """Those of the files that contain some arrays."""
        found = {mapping for each in arrays if (mapping := mapping_of(each))}
        return tuple(each for each in self.mapped if each[0] in found)

    def let_go(self) -> None:
        """What has been looked at of files is in memory no longer."""
        for mapping in self._mappings:
            mapping.let_go()

    def check(self) -> None:
        """UserError where a file with tensors was truncated: reading it would terminate the process."""
        if not all(mapping.intact for mapping in self._mappings):
            raise UserError(
                "a file that the model was read from is shorter than it was",
                hint="files of models that are in use may be replaced, not written over",
            )


def content_of(path: Path) -> memoryview:
    """The bytes of a file: mapped, if they are many."""
    try:
        if path.stat().st_size > _LARGEST:
            raise UserError(f"'{path}' has more than 2 GiB", hint="keep the weights in a file beside it")
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size >= _MAPPED:
                return mapped(stream.fileno())
            return memoryview(stream.read())
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
