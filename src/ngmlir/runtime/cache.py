# SPDX-License-Identifier: Apache-2.0
"""A disk cache of compiled code: whatever happens to it, the worst consequence is that code is compiled again.

Each entry is one file, written under another name and renamed, so readers see all of it or nothing. It contains its own
key, so that a file under the wrong name is not used; a checksum detects damage. The folder must belong to this user
alone, since its contents are executed.

`NGMLIR_CACHE_DIR` moves the cache, `NGMLIR_CACHE=0` turns it off, `NGMLIR_CACHE_WEIGHTS` limits the weights in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from ..llvm.machine import assemble, version
from ..llvm.native import Optimise
from ..support.cache_folder import cache_folder, is_private
from ..support.diagnostics import UserError
from ..support.target import Target

_MAGIC = b"ngmlir-cache-2\n"
#: The suffix of entries.
ENDING = ".entry"
#: The suffix of files of weights (`weights.py`), which are mapped instead of read.
WEIGHTS = ".weights"
_TEMPORARY_SECONDS = 3600  # a file still under its temporary name after this long was left by a crash


class Entry(NamedTuple):
    """An entry: some metadata, and the code."""

    header: dict[str, Any]
    code: bytes


def key_of(*parts: str) -> str:
    """The name of an entry: a digest of everything that the code depends on, and of the version of ngmlir."""
    digest = sha256(_own_version().encode())
    for part in parts:
        data = part.encode()
        # The lengths distinguish ("ab", "c") from ("a", "bc").
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """A folder of entries, which evicts the least recently used ones above `limit_bytes`; and of weights, above
    `weights_bytes`.

    The code that `recall` and `keep` used last stays in memory, up to `held_bytes`.
    """

    def __init__(
        self,
        folder: Path,
        limit_bytes: int = 512 * 1024 * 1024,
        held_bytes: int = 32 * 1024 * 1024,
        weights_bytes: int = 0,
    ):
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.held_bytes = held_bytes
        self.weights_bytes = weights_bytes
        self._writes = 0
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def recall(self, key: str) -> bytes | None:
        """The code of an entry, from memory if this process has read or kept it recently."""
        with self._lock:
            if (code := self._held.get(key)) is not None:
                self._held.move_to_end(key)
                return code
        entry = self.read(key)
        if entry is not None:
            self._hold(key, entry.code)
        return None if entry is None else entry.code

    def keep(self, key: str, code: bytes, header: Mapping[str, Any] | None = None) -> None:
        """Stores an entry, and keeps its code in memory too."""
        self._hold(key, code)
        self.write(key, code, header)

    def _hold(self, key: str, code: bytes) -> None:
        with self._lock:
            self._held[key] = code
            self._held.move_to_end(key)
            total = sum(map(len, self._held.values()))
            while total > self.held_bytes:
                _, oldest = self._held.popitem(last=False)
                total -= len(oldest)

    def read(self, key: str) -> Entry | None:
        """The entry, or None if there is none that is valid."""
        path = self.folder / f"{key}{ENDING}"
        try:
            if not is_private(self.folder):
                return None
            data = path.read_bytes()
            entry = _decoded(key, data)
        except OSError:
            return None
        if entry is None:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # "oldest" means longest unused
        return entry

    def write(
        self, key: str, code: bytes, header: Mapping[str, Any] | None = None, *, once: bool = False
    ) -> None:
        """Stores an entry if possible; ignores failures. `once`: does not replace an existing entry."""
        self.write_file(self.folder / f"{key}{ENDING}", [_encoded(key, header or {}, code)], once=once)

    def write_file(self, path: Path, pieces: Iterable[bytes | memoryview], *, once: bool = False) -> bool:
        """Writes a file of the folder atomically; returns whether that was possible."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_private(self.folder):
                return False
            self._replace(path, pieces, once)
            self._writes += 1
            if self._writes % 64 == 1 or path.suffix == WEIGHTS:
                self.evict()
        except OSError:
            return False
        return True

    def _replace(self, path: Path, pieces: Iterable[bytes | memoryview], once: bool) -> None:
        descriptor, name = tempfile.mkstemp(suffix=".tmp", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.writelines(pieces)
            if once:
                with contextlib.suppress(FileExistsError):
                    os.link(name, path)
                os.unlink(name)
            else:
                os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def evict(self) -> None:
        """Removes the least recently used entries, and weights, until the rest fits the limits."""
        found: dict[str, list[tuple[float, int, Path]]] = {ENDING: [], WEIGHTS: []}
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.suffix == ".tmp" and time.time() - status.st_mtime > _TEMPORARY_SECONDS:
                    path.unlink()
                elif path.suffix in found:
                    found[path.suffix].append((status.st_mtime, status.st_size, path))
        for ending, limit in ((ENDING, self.limit_bytes), (WEIGHTS, self.weights_bytes)):
            total = sum(size for _, size, _ in found[ending])
            for _, size, path in sorted(found[ending]):
                if total <= limit:
                    break
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size


def default_cache() -> Cache | None:
    """The cache that the environment selects, or None if it is turned off."""
    folder = cache_folder()
    return None if folder is None else _cache_in(folder, _weights_bytes())


def _weights_bytes() -> int:
    """Bytes of weights that the folder may hold; UserError if the environment variable is not a number."""
    said = os.environ.get("NGMLIR_CACHE_WEIGHTS", "").strip() or "2048"
    if not said.isascii() or not said.isdigit():
        raise UserError(f"NGMLIR_CACHE_WEIGHTS is '{said}'", hint="set it to a size in MiB, or 0")
    return int(said) << 20


def assembled(text: str, target: Target, optimise: Optimise = "cleanup") -> bytes:
    """`llvm.machine.assemble` with the cache."""
    store = default_cache()
    if store is None:
        return assemble(text, target, optimise)
    key = key_of("object", version(), target.key, optimise, text)
    if (entry := store.read(key)) is not None:
        return entry.code
    code = assemble(text, target, optimise)
    store.write(key, code, {"kind": "object", "target": target.key})
    return code


@cache
def _cache_in(folder: Path, weights_bytes: int) -> Cache:
    return Cache(folder, weights_bytes=weights_bytes)


@cache
def _own_version() -> str:
    """The version of ngmlir: a digest of its files, since in a checkout the code changes while the version number does
    not."""
    package = Path(__file__).parents[1]
    digest = sha256()
    for root in (package, package.parents[1] / "lowering", package.parents[1] / "dialects"):
        for folder, below, names in os.walk(root):
            below.sort()
            for name in sorted(names):
                if os.path.splitext(name)[1] in (
                    ".py",
                    ".rules",
                    ".ngir",
                    ".target",
                    ".toml",
                    ".ngd",
                    ".operators",
                    "",
                ):
                    status = os.stat(os.path.join(folder, name))
                    digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _encoded(key: str, header: Mapping[str, Any], code: bytes) -> bytes:
    facts = json.dumps({**header, "bytes": len(code)}, sort_keys=True)
    described = f"{key}\n{facts}\n".encode() + code
    return _MAGIC + sha256(described).digest() + described


def _decoded(key: str, data: bytes) -> Entry | None:
    """The entry in a file, or None if any bit of it is wrong or its key is another."""
    start = len(_MAGIC) + 32
    described = data[start:]
    if not data.startswith(_MAGIC) or sha256(described).digest() != data[len(_MAGIC) : start]:
        return None
    own, _, rest = described.partition(b"\n")
    if own != key.encode():
        return None
    header, _, code = rest.partition(b"\n")
    return Entry(json.loads(header), code)
