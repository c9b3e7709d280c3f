# SPDX-License-Identifier: Apache-2.0
"""LLVM's version and its description of this machine. They are queried once and stored in the cache folder: so programs
that were compiled before run without LLVM, which takes long to load and much memory."""

from __future__ import annotations

import json
import platform
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..support.cache_folder import cache_folder, is_private
from ..support.diagnostics import UserError
from ..support.files import write_file
from . import child, native

#: The lines of /proc/cpuinfo that identify the processor.
_TELLING = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


class Host(NamedTuple):
    """LLVM's version, and this machine as LLVM names it."""

    version: str
    triple: str
    cpu: str
    features: str


@cache
def host() -> Host:
    """The description, from the cache folder if it was queried on this machine before."""
    folder, identity = cache_folder(), _identity()
    if folder is None or not identity:
        return _asked_apart()
    path = folder / f"host-{sha256(identity.encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, TypeError):
        if is_private(folder):
            check, facts = json.loads(path.read_bytes())
            if check == _check(identity, facts):
                return Host(*facts)
    found = _asked_apart()
    with suppress(OSError, UserError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_private(folder):
            facts = json.dumps([_check(identity, list(found)), list(found)])
            write_file(str(path), [facts.encode()], private=True)
    return found


def _check(identity: str, facts: list[str]) -> str:
    """A checksum that detects damaged descriptions, and those of another machine."""
    return sha256("\n".join([identity, *facts]).encode()).hexdigest()


def _asked() -> Host:
    return Host(*native.host())


def _asked_apart() -> Host:
    """The answer of a child: it has LLVM loaded, and may be needed next."""
    with suppress(child.Absent, child.Died):
        return Host(*str(child.generate("host", "", "", "", "", "none")).split("\n"))
    return _asked()


def _identity() -> str:
    """Everything that the description depends on; '' if that is not known."""
    spec = find_spec("llvmlite")
    if sys.platform != "linux" or platform.machine() != "x86_64" or spec is None or spec.origin is None:
        return ""
    try:
        files = sorted((Path(spec.origin).parent / "binding").glob("libllvmlite*"))
        stamps = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
        text = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return ""
    told = [line for line in text.splitlines() if line.partition(":")[0].strip() in _TELLING]
    return "\n".join([*stamps, *told]) if files and len(told) == len(_TELLING) else ""
