# SPDX-License-Identifier: Apache-2.0
"""Programs that are kept on disk by what they were made from, so that they are found without being made: neither is read what
they are written in, nor is anything lowered, compiled or packed.

What tells them is every byte of their source (a digest of it, `runtime.digest`), the target, and the versions of all that
takes part. So a source that changed in any way, at whatever time, is another source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compiler import checks_wanted, compile_artifact, resolve
from ..ir.core import Module
from ..llvm.machine import version
from ..runtime.cache import Cache, default_cache, key_of
from ..runtime.cpu import CpuExecutable, load
from ..runtime.digest import digest_of
from ..runtime.stored import artifact_of, bytes_of, header_of, named, names_of

#: Constants of more bytes are no part of an entry: they have to lie in the source.
_STORED = 1 << 20

#: All bytes of a source; None where they are not known.
Pieces = Callable[[], Sequence[bytes | memoryview] | None]


class KeptPrograms:
    """The programs for the CPU that one source becomes. `what` is all else that they depend on: versions of those who made
    modules of the source."""

    def __init__(self, pieces: Pieces, *what: str):
        self.pieces, self.what = pieces, what
        #: What was looked for last, and its key: before anything was made of the source.
        self._sought: tuple[tuple[str, ...], str] = ((), "")

    def find(self, *of: str, entry: str | None = None) -> tuple[CpuExecutable, Any] | None:
        """A program that was kept (its function `entry`, as for `compile_module`), and the facts that were kept with it. `of`
        says which of the source's it is."""
        store, key, pieces = self._key(of)
        self._sought = of, key
        stored = store.read(key) if store is not None else None
        if stored is None or pieces is None:
            return None
        artifact = artifact_of(stored, pieces)
        artifact = named(artifact, stored.header.get("names", ())) if artifact is not None else None
        if artifact is None:
            return None
        made = load(artifact, entry=entry, key=key)
        if made.program.code.can_keep and self._key(of)[1] == key:
            made.program.code.keep()
        return made, stored.header.get("facts")

    def compiled(self, module: Module, facts: Any, *of: str, entry: str | None = None) -> CpuExecutable:
        """A program that was just not found, compiled from a module that was made since, and kept with facts (as JSON has them)."""
        sought, before = self._sought
        key = before if sought == of else ""
        artifact = compile_artifact(module, "cpu")
        made = load(artifact, entry=entry, key=key or None)
        store, after, pieces = self._key(of) if key else (None, "", None)
        # What was made of the source is kept only if all the while it was what it was when nothing was found for it.
        if store is not None and pieces is not None and after == key:
            made.program.code.keep()
            header = header_of(artifact, pieces, _STORED)
            if header is not None:
                code = bytes_of(artifact, header)
                store.write(key, code, {**header, "names": names_of(artifact), "facts": facts})
        return made

    def _key(self, of: Sequence[str]) -> tuple[Cache | None, str, Sequence[bytes | memoryview] | None]:
        """Where a program is kept and under which name, and the bytes of the source; None, '', None where it is not."""
        store, target = default_cache(), resolve("cpu")
        if store is None or target.debug or target.timed or checks_wanted():
            return None, "", None
        pieces = self.pieces()
        digest = None if pieces is None else digest_of(pieces, store)
        if pieces is None or digest is None:
            return None, "", None
        versions = [version(), np.__version__, *self.what]
        return store, key_of("program", digest, target.key, str(target), *versions, *of), pieces
