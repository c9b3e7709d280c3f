# SPDX-License-Identifier: Apache-2.0
"""Programs cached on disk by their source, so that they can be loaded without being made: neither is the source parsed,
nor is anything lowered, compiled or packed.

They are identified by every byte of their source (a digest, `runtime.digest`), the target, and the versions of
everything involved. So a source that changed in any way, at any time, is another source.
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

#: Constants of more bytes are not stored in an entry: they must be in the source.
_STORED = 1 << 20

#: Returns all bytes of a source; None if they are not available.
Pieces = Callable[[], Sequence[bytes | memoryview] | None]


class KeptPrograms:
    """The programs for the CPU made from one source. `what` is everything else that they depend on: versions of the
    code that makes modules from the source."""

    def __init__(self, pieces: Pieces, *what: str):
        self.pieces, self.what = pieces, what
        #: The last program that was looked for, and its key: computed before anything was made from the source.
        self._sought: tuple[tuple[str, ...], str] = ((), "")

    def find(self, *of: str, entry: str | None = None) -> tuple[CpuExecutable, Any] | None:
        """A cached program (its function `entry`, as for `compile_module`), and the facts that were stored with it.
        `of` identifies the program among those of the source."""
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
        """Compiles a program that `find` did not find from a module that was made meanwhile, and stores it with facts
        (JSON values)."""
        sought, before = self._sought
        key = before if sought == of else ""
        artifact = compile_artifact(module, "cpu")
        made = load(artifact, entry=entry, key=key or None)
        store, after, pieces = self._key(of) if key else (None, "", None)
        # Stored only if the source has not changed since the lookup.
        if store is not None and pieces is not None and after == key:
            made.program.code.keep()
            header = header_of(artifact, pieces, _STORED)
            if header is not None:
                code = bytes_of(artifact, header)
                store.write(key, code, {**header, "names": names_of(artifact), "facts": facts})
        return made

    def _key(self, of: Sequence[str]) -> tuple[Cache | None, str, Sequence[bytes | memoryview] | None]:
        """The cache and the key of a program, and the bytes of the source; None, '', None if programs are not cached."""
        store, target = default_cache(), resolve("cpu")
        if store is None or target.debug or target.timed or checks_wanted():
            return None, "", None
        pieces = self.pieces()
        digest = None if pieces is None else digest_of(pieces, store)
        if pieces is None or digest is None:
            return None, "", None
        versions = [version(), np.__version__, *self.what]
        return store, key_of("program", digest, target.key, str(target), *versions, *of), pieces
