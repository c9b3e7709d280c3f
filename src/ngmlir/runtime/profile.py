# SPDX-License-Identifier: Apache-2.0
"""Code for profilers and debuggers: a shared library in a folder, linked by the system's linker.

Code that is linked in memory has no file, so tools find neither its names nor its lines. NGMLIR_PROFILE names a folder;
programs are then compiled with debug info (`Target.debug`) and loaded from files in that folder, like any other
library:

    NGMLIR_PROFILE=profile perf record python train.py
    perf annotate --stdio -l
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

from ..llvm.machine import assemble, host_target
from ..llvm.text import Argument, Module
from ..llvm.types import Value, i64, ptr
from ..support.diagnostics import Bug, UserError

_LINKERS = ("ld", "ld.lld", "ld.gold")
_numbers = count()


def wanted() -> bool:
    """Whether programs are compiled and loaded for profilers and debuggers."""
    return os.environ.get("NGMLIR_PROFILE", "").strip() not in ("", "0")


class SharedLibrary:
    """Loaded code, like `Library`; it is never unloaded, since tools may read it at the end of the process.

    Raises UserError if there is no linker, or the folder cannot be created.
    """

    def __init__(
        self,
        code: bytes,
        exports: Iterable[str],
        imports: Mapping[str, int],
        beside: Iterable[bytes] = (),
    ):
        folder = Path(os.environ["NGMLIR_PROFILE"].strip()).expanduser()
        path = folder.absolute() / f"ngmlir-{os.getpid()}-{next(_numbers)}.so"
        objects = [code, *beside, *[_jump(name, address) for name, address in imports.items()]]
        files = [path.with_suffix(f".{i}.o") for i in range(len(objects))]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file, data in zip(files, objects, strict=True):
                file.write_bytes(data)
            _link(files, path)
            for file in files:
                file.unlink()
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise UserError(
                f"programs cannot be loaded from {folder}: {error}", hint="NGMLIR_PROFILE is that folder"
            ) from None
        self._addresses = {name: _address(library, name) for name in exports}

    def __getitem__(self, name: str) -> int:
        """The address of an exported symbol."""
        return self._addresses[name]


def _link(files: Sequence[Path], path: Path) -> None:
    linker = next(filter(None, map(shutil.which, _LINKERS)), None)
    if linker is None:
        raise UserError(
            f"NGMLIR_PROFILE needs a linker: {', '.join(_LINKERS)}",
            hint="it comes with binutils, as objdump does",
        )
    done = subprocess.run(
        [linker, "-shared", "--build-id", "-o", path, *files], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Bug(f"{linker} cannot link a program: {done.stderr.strip()}")


def _address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(library[name], ctypes.c_void_p).value
    assert address is not None
    return address


def _jump(name: str, address: int) -> bytes:
    """An object with a function that jumps to `address` in this process; its signature is that of the pool's function."""
    text = Module()
    b = text.function(name, "void", [Argument(ptr, "run"), Argument(ptr, "data"), Argument(i64, "count")])
    to = b.cast("inttoptr", Value(i64, str(address)), ptr)
    b.effect(f"tail call void {to.name}({', '.join(map(str, b.arguments))})")
    b.ret()
    return assemble(text.text(), host_target())
