# SPDX-License-Identifier: Apache-2.0
"""Parts of LLVM IR to object code; parts that were compiled before, for any program, come from the cache."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ..llvm.machine import version
from ..llvm.workers import assemble_all, helpers
from ..runtime.cache import default_cache, key_of
from ..support.progress import Progress
from ..support.target import Target
from .unit import Piece


class _Stopped(Exception):
    """The code is not wanted any more."""


@contextmanager
def in_background(pieces: Sequence[Piece], target: Target) -> Generator[Callable[[], list[bytes]]]:
    """Compiles parts while what is inside runs; gives a function that waits for their object code. If an error leaves it, what is not
    compiled yet is not compiled."""
    stopped = False

    def reach(done: int) -> None:
        if stopped:
            raise _Stopped

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(objects, pieces, target, reach)
        try:
            yield made.result
        except BaseException:
            stopped = True
            raise


def objects(
    pieces: Sequence[Piece], target: Target, reach: Callable[[int], object] = lambda done: None
) -> list[bytes]:
    """The object code of each part; `reach` is called with the number of parts that are compiled."""
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

        def finished(done: int) -> None:
            progress.reach(done)
            reach(done)

        made = assemble_all(texts, target, helpers=count, finished=finished)
    for i, code in zip(new, made, strict=True):
        found[i] = code
        if cache is not None and i in keys:
            cache.keep(keys[i], code, {"kind": "kernel", "name": pieces[i].name, "target": target.key})
    return [found[i] for i in range(len(pieces))]
