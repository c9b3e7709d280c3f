# SPDX-License-Identifier: Apache-2.0
"""Pieces of LLVM IR to object code: what was compiled before, for whatever program, comes from the cache."""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.machine import assemble, version
from ..runtime.cache import default_cache, key_of
from ..support.target import Target
from .unit import Piece


def objects(pieces: Sequence[Piece], target: Target, *, apart: bool = False) -> list[bytes]:
    """The object code of each piece; `apart` as in `llvm.machine`."""
    cache = default_cache()
    keys = [_cache_key(piece, target) if cache is not None else None for piece in pieces]
    found: list[bytes] = []
    for piece, key in zip(pieces, keys, strict=True):
        entry = cache.read(key) if cache is not None and key is not None else None
        if entry is not None:
            found.append(entry.code)
            continue
        code = assemble(piece.text(), target, apart=apart)
        if cache is not None and key is not None:
            cache.write(key, code, {"kind": "kernel", "name": piece.name, "target": target.key})
        found.append(code)
    return found


def _cache_key(piece: Piece, target: Target) -> str | None:
    if piece.key is None:
        return None
    return key_of("kernel", piece.name, piece.key, str(target), version())
