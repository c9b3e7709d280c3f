# SPDX-License-Identifier: Apache-2.0
"""Parts of LLVM IR to object code; parts that were compiled before, for any program, come from the cache."""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.machine import version
from ..llvm.workers import assemble_all, helpers
from ..runtime.cache import default_cache, key_of
from ..support.progress import Progress
from ..support.target import Target
from .unit import Piece


def objects(pieces: Sequence[Piece], target: Target) -> list[bytes]:
    """The object code of each part."""
    cache = default_cache()
    found: dict[int, bytes] = {}
    keys: dict[int, str] = {}
    for i, piece in enumerate(pieces):
        if cache is not None and piece.key is not None:
            keys[i] = key_of("kernel", piece.name, piece.key, str(target), version())
            if (code := cache.recall(keys[i])) is not None:
                found[i] = code
    new = [i for i in range(len(pieces)) if i not in found]
    count = helpers(len(new), sum(pieces[i].size for i in new))
    texts = [pieces[i].text() for i in new]
    with Progress(len(new), "compiling kernels", after=1.0) as progress:
        made = assemble_all(texts, target, helpers=count, finished=progress.reach)
    for i, code in zip(new, made, strict=True):
        found[i] = code
        if cache is not None and i in keys:
            cache.keep(keys[i], code, {"kind": "kernel", "name": pieces[i].name, "target": target.key})
    return [found[i] for i in range(len(pieces))]
