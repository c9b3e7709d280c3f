# SPDX-License-Identifier: Apache-2.0
"""Object code in this process: linked in memory that is writable until it becomes executable."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from typing import Any

from ..support.diagnostics import Bug
from .elf import Linked, Unforeseen, fits

_numbers = count()
_lock = threading.Lock()


class Library:
    """Loaded code. The addresses are valid as long as the library; whoever calls them must keep it alive."""

    def __init__(
        self,
        code: bytes,
        exports: Iterable[str],
        imports: Mapping[str, int] | None = None,
        beside: Iterable[bytes] = (),
    ):
        """`imports` are addresses of symbols that the code uses; `beside` are objects that define the others."""
        objects, names = [code, *beside], tuple(exports)
        try:
            self._linked: Any = _linked_here(objects, names, imports or {})
            self._addresses: Mapping[str, int] = self._linked.addresses
        except Unforeseen:
            self._linked, self._addresses = _linked_by_llvm(objects, names, imports or {})

    def __getitem__(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._addresses[name]


def _linked_here(objects: list[bytes], names: tuple[str, ...], imports: Mapping[str, int]) -> Linked:
    if not fits():
        raise Unforeseen("another machine")
    return Linked(objects, names, imports)


def _linked_by_llvm(
    objects: list[bytes], names: tuple[str, ...], imports: Mapping[str, int]
) -> tuple[Any, dict[str, int]]:
    """Links by LLVM's ORC; returns the object that keeps the code, and the addresses."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder()
    for each in objects:
        builder.add_object_img(each)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    # For memcpy and other functions to which LLVM may emit calls.
    builder.add_current_process()
    for name in names:
        builder.export_symbol(name)
    try:
        # The name of a library cannot be reused, even after the library is dropped.
        with _lock:
            tracker = builder.link(_linker(), f"library{next(_numbers)}")
    except RuntimeError as error:
        raise Bug(f"the object code cannot be linked: {error}") from error
    return tracker, {name: tracker[name] for name in names}


@cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    from ..llvm.native import prepare_llvm

    prepare_llvm()
    return llvm.create_lljit_compiler()
