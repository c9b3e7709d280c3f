# SPDX-License-Identifier: Apache-2.0
"""LLVM in child processes: LLVM reports some errors by ending the process, llvmlite does one thing at a time per
process, and LLVM, once loaded, keeps some 80 MB until the process ends.

A child serves one request at a time. A new one is started if none is free (about 0.1 s; `start` overlaps that with
other work), one for each concurrent request, up to the number of cores. A child that has died is forgotten.
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
from .cores import available_cores, compile_processes
from .native import Form, Optimise, Rejected

#: LLVM's warning about a processor or feature that it does not know, after which it continues without it.
_UNKNOWN = re.compile(r"'(.*)' is not a recognized (processor|feature) for this target")
#: The lines that give the reason, of all that LLVM prints before it ends the process.
_REASON = re.compile(r"^(?:LLVM ERROR|error|fatal error): .*$", re.M)

#: Exit status of a process that LLVM did not end: the system does that when memory is short (SIGKILL).
_KILLED = -9

_lock = RLock()
_slots = Semaphore(available_cores())  # one for each request in progress
_free: list[_Child] = []
_registered = False
_foreign = False  # whether `sys.executable` turned out to be another program


class Unknown(Exception):
    """LLVM does not know such a processor or feature."""


class Died(Exception):
    """LLVM ended the process; the message is the last that it printed."""


class Absent(Exception):
    """There is no child: none can be started, or it was killed."""


def possible() -> bool:
    """Whether children can be used: not if the user turned them off, or if Python is embedded in another program, which
    would start itself again."""
    alone = not sys.executable or getattr(sys, "frozen", False) or _foreign
    return not alone and compile_processes() > 0


def generate(form: Form, text: str, triple: str, cpu: str, features: str, optimise: Optimise) -> bytes | str:
    """`native.generate` in a child. Raises `Rejected`, `Unknown`, `Died` or `Absent`."""
    if not possible():
        raise Absent
    with _slots:
        with _lock:
            child = _free.pop() if _free else _Child()
        return child.ask((form, text, triple, cpu, features, optimise))


def start(count: int = 1) -> int:
    """Starts children until `count` are free, without waiting until they are ready. Returns how many are free, at most
    `count`."""
    with _lock, contextlib.suppress(Absent):
        while possible() and len(_free) < count:
            _free.append(_Child())
    return min(count, len(_free))


def rest() -> None:
    """Ends all free children except one, since each takes memory."""
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
        # -P: otherwise modules in the folder of the program would shadow modules of the standard library.
        command = [sys.executable, "-P", str(Path(native.__file__))]
        import subprocess  # imported late: not needed if all code is in the cache

        try:
            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError:  # the system cannot start another process
            raise Absent from None
        self._greeted = False
        _Child.alive.add(self)
        atexit.register(self.end)

    def ask(self, request: tuple[Form, str, str, str, str, Optimise]) -> bytes | str:
        try:
            self._greet()
            before = os.fstat(self._errors.fileno()).st_size
            try:
                pickle.dump(request, self._stream(self._process.stdin))
                self._stream(self._process.stdin).flush()
                answer, result = pickle.load(self._stream(self._process.stdout))
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                status = self._process.wait()
                if status == _KILLED:
                    raise Absent from None
                answer, result = "died", f"it exited with status {status}"
            said = os.pread(self._errors.fileno(), 1 << 20, before).decode(errors="replace").strip()
            if found := _UNKNOWN.search(said):
                raise Unknown(f"LLVM knows no {found[2]} '{found[1].lstrip('+-')}'")
            if answer == "died":
                reasons = _REASON.findall(said) or said.splitlines()[-1:]
                raise Died(reasons[0] if reasons else str(result))
        except BaseException:
            # The child may still be about to answer.
            self.end()
            raise
        with _lock:
            _free.append(self)
        if answer == "rejected":
            raise Rejected(result)
        return result

    def _greet(self) -> None:
        """Waits for the first output of a child. Raises Absent if it is another program, or has ended."""
        global _foreign
        if self._greeted:
            return
        said = self._stream(self._process.stdout).read(len(native.GREETING))
        if said != native.GREETING:
            _foreign = said != b"" or self._process.wait() != _KILLED
            raise Absent
        self._greeted = True

    def end(self) -> None:
        """Ends the process. Code compiled later, at the exit of this process, gets a new child."""
        with _lock, contextlib.suppress(ValueError):
            _free.remove(self)
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
