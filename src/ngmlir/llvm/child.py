# SPDX-License-Identifier: Apache-2.0
"""LLVM in processes of its own, since to some code LLVM objects by ending the process, and since llvmlite does one thing
at a time in each.

A child serves one request at a time. One starts where no other is free (about 0.1 s; `start` lets that pass beside
other work), as many as requests come at once, up to the number of cores; one that has died is forgotten.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import sys
import tempfile
from pathlib import Path
from threading import RLock, Semaphore
from typing import IO, ClassVar

from . import native
from .cores import available_cores
from .native import Form, Optimise, Rejected

#: What LLVM says of a processor or feature that it does not know, before it goes on without.
_UNKNOWN = re.compile(r"'(.*)' is not a recognized (processor|feature) for this target")
#: Of all that a dying LLVM prints, the lines that say why.
_REASON = re.compile(r"^(?:LLVM ERROR|error|fatal error): .*$", re.M)

_lock = RLock()
_slots = Semaphore(available_cores())  # one for each request that is answered
_free: list[_Child] = []
_registered = False


class Unknown(Exception):
    """LLVM knows no such processor or feature."""


class Died(Exception):
    """LLVM ended the process; the message is what it said last."""


def possible() -> bool:
    """Not where Python is part of another program, which would only start itself once more."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def generate(form: Form, text: str, triple: str, cpu: str, features: str, optimise: Optimise) -> bytes | str:
    """`native.generate` in a child. Raises `Rejected`, `Unknown` or `Died`."""
    with _slots:
        with _lock:
            child = _free.pop() if _free else _Child()
        return child.ask((form, text, triple, cpu, features, optimise))


def start(count: int = 1) -> None:
    """Starts children until so many are free, without waiting until they are ready."""
    with _lock:
        while len(_free) < count:
            _free.append(_Child())


def ready() -> bool:
    """Whether a child is there that has nothing to do."""
    with _lock:
        return bool(_free)


def rest() -> None:
    """Ends the free children but one, since each takes memory."""
    with _lock:
        while len(_free) > 1:
            _free.pop().end()


def _forget() -> None:
    """After a fork: the children belong to the parent, whose other threads may have held the lock."""
    global _lock, _slots
    for child in _Child.alive:
        atexit.unregister(child.end)
    _Child.alive.clear()
    _free.clear()
    _lock, _slots = RLock(), Semaphore(available_cores())


class _Child:
    alive: ClassVar[set[_Child]] = set()

    def __init__(self) -> None:
        global _registered
        if not _registered and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)
            _registered = True
        self._errors = tempfile.TemporaryFile()
        # -P: or the modules beside the program would be taken for those of Python that are called alike.
        command = [sys.executable, "-P", str(Path(native.__file__))]
        import subprocess  # nothing is compiled of what was compiled before

        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        _Child.alive.add(self)
        atexit.register(self.end)

    def ask(self, request: tuple[Form, str, str, str, str, Optimise]) -> bytes | str:
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
            self.end()
            raise
        with _lock:
            _free.append(self)
        if answer == "rejected":
            raise Rejected(result)
        return result

    def end(self) -> None:
        """Ends the process."""
        atexit.unregister(self.end)
        _Child.alive.discard(self)
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
