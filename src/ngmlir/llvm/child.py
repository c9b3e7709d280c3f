# SPDX-License-Identifier: Apache-2.0
"""LLVM in a process of its own, since to some code LLVM objects by ending the process.

One child serves all requests of this process, one at a time; it starts with the first (about 0.1 s; `start`
lets that pass beside other work), and another takes its place when it has died.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import RLock
from typing import IO

from . import native
from .native import Form, Optimise, Rejected

#: What LLVM says of a processor or feature that it does not know, before it goes on without.
_UNKNOWN = re.compile(r"'(.*)' is not a recognized (processor|feature) for this target")
#: Of all that a dying LLVM prints, the lines that say why.
_REASON = re.compile(r"^(?:LLVM ERROR|error|fatal error): .*$", re.M)

_lock = RLock()
_child: _Child | None = None
_registered = False


class Unknown(Exception):
    """LLVM knows no such processor or feature."""


class Died(Exception):
    """LLVM ended the process; the message is what it said last."""


def generate(form: Form, text: str, triple: str, cpu: str, features: str, optimise: Optimise) -> bytes | str:
    """`native.generate` in the child. Raises `Rejected`, `Unknown` or `Died`."""
    with _lock:
        return _running().ask((form, text, triple, cpu, features, optimise))


def start() -> None:
    """Starts the child without waiting until it is ready."""
    with _lock:
        _running()


def _running() -> _Child:
    global _child, _registered
    if not _registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
        _registered = True
    if _child is None:
        _child = _Child()
        atexit.register(_child.end)
    return _child


def _forget() -> None:
    """After a fork: the child belongs to the parent, whose other threads may have held the lock."""
    global _child, _lock
    if _child is not None:
        atexit.unregister(_child.end)
    _child, _lock = None, RLock()


class _Child:
    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()
        # -P: or the modules beside the program would be taken for those of Python that are called alike.
        command = [sys.executable, "-P", str(Path(native.__file__))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def ask(self, request: tuple[Form, str, str, str, str, Optimise]) -> bytes | str:
        global _child
        try:
            before = os.fstat(self._errors.fileno()).st_size
            try:
                pickle.dump(request, self._stream(self._process.stdin))
                self._stream(self._process.stdin).flush()
                answer, result = pickle.load(self._stream(self._process.stdout))
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                answer, result = "died", f"it ended with status {self._process.wait()}"
            said = os.pread(self._errors.fileno(), 1 << 20, before).decode(errors="replace").strip()
            if found := _UNKNOWN.search(said):
                raise Unknown(f"LLVM knows no {found[2]} '{found[1].lstrip('+-')}'")
            if answer == "died":
                reasons = _REASON.findall(said) or said.splitlines()[-1:]
                raise Died(reasons[0] if reasons else str(result))
        except BaseException:
            # An answer may be on its way still.
            _child = None
            self.end()
            raise
        if answer == "rejected":
            raise Rejected(result)
        return result

    def end(self) -> None:
        """Ends the process."""
        atexit.unregister(self.end)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                self._stream(stream).close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream
