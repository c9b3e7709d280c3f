# SPDX-License-Identifier: Apache-2.0
"""Many texts to object code: by several children at once if there is enough work.

One thread per child takes texts from a shared queue, the longest first. The code of a text does not depend on which
child compiles it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread

from ..support.target import Target
from . import child
from .cores import compile_processes
from .machine import assemble

#: Approximate seconds that LLVM takes per op of a kernel.
_PER_OP = 0.0005
#: From this many seconds of work, more than one child is worth its start.
_ENOUGH = 0.3


def helpers(count: int, ops: int) -> int:
    """Starts children to help with `count` texts of `ops` ops in all, and returns how many; they start while the texts
    are emitted."""
    return 0 if ops * _PER_OP < _ENOUGH else child.start(min(compile_processes(), count))


def assemble_all(
    texts: Sequence[str],
    target: Target,
    *,
    helpers: int = 0,
    finished: Callable[[int], object] = lambda number: None,
) -> list[bytes]:
    """`machine.assemble` of each text, with `helpers` children; `finished` is called, in this thread, with the number
    of texts that are done.

    Raises the errors of `assemble`; texts that a child left when it died are compiled here.
    """
    found: list[bytes | None] = [None] * len(texts)
    queue = deque(sorted(range(len(texts)), key=lambda i: -len(texts[i])))

    def help() -> None:
        while queue:
            try:
                i = queue.popleft()
            except IndexError:
                return
            try:
                code = child.generate(
                    "object", texts[i], target.triple, target.cpu, target.features, "cleanup"
                )
            except Exception:
                return  # the same error occurs in this process too, which reports it
            assert isinstance(code, bytes)
            found[i] = code

    threads = [Thread(target=help, daemon=True) for _ in range(helpers)]
    for each in threads:
        each.start()
    try:
        for each in threads:
            while each.is_alive():
                each.join(0.1)
                finished(len(texts) - found.count(None))
        while queue:
            i = queue.popleft()
            found[i] = assemble(texts[i], target)
            finished(len(texts) - found.count(None))
    finally:
        queue.clear()
        for each in threads:
            each.join()
        child.rest()
    return [assemble(texts[i], target) if code is None else code for i, code in enumerate(found)]
