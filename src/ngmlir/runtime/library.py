# SPDX-License-Identifier: Apache-2.0
"""Object code in this process: linked by LLVM's ORC, writable while it is linked and executable after."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from ..llvm.native import prepare_llvm
from ..support.diagnostics import Bug

_numbers = count()
_lock = threading.Lock()


class Library:
    """Loaded code. The addresses hold as long as the library does; whoever calls them must keep it."""

    def __init__(
        self,
        code: bytes,
        exports: Iterable[str],
        imports: Mapping[str, int] | None = None,
        beside: Iterable[bytes] = (),
    ):
        """`imports` are addresses that the code needs by name; `beside` are objects that have the rest of them."""
        builder = llvm.JITLibraryBuilder().add_object_img(code)
        for other in beside:
            builder.add_object_img(other)
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        # memcpy and its like, which LLVM calls as it sees fit.
        builder.add_current_process()
        names = tuple(exports)
        for name in names:
            builder.export_symbol(name)
        try:
            # Names of libraries cannot be used again, even after they were dropped.
            with _lock:
                self._tracker = builder.link(_linker(), f"library{next(_numbers)}")
        except RuntimeError as error:
            raise Bug(f"the object code cannot be linked: {error}") from error
        self._addresses = {name: self._tracker[name] for name in names}

    def __getitem__(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._addresses[name]


@cache
def _linker() -> llvm.LLJIT:
    prepare_llvm()
    return llvm.create_lljit_compiler()
