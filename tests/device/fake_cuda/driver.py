# SPDX-License-Identifier: Apache-2.0
"""`libcuda.so.1`, made here: each function that the bindings look up is a method of `Calls`."""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .calls import CALLS, Calls
from .machine import ANSWERS, NUMBERS, Answered, Machine, Violation
from .shared_object import Trampolines, supported

_LOOKUP = ("cuGetProcAddress_v2", "cuGetProcAddress")


def missing() -> str:
    """Why the fake cannot stand in for the driver in this process; empty where it can."""
    if not supported():
        return "the fake driver is for x86-64 and AArch64 on Linux"
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        return "cuda-bindings is not installed"
    if _made is None:
        try:
            ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_LOCAL)
        except OSError:
            return ""
        return "this machine has NVIDIA's driver"
    return ""


class Fake:
    """The library. Without a machine it is a driver that finds no GPU."""

    def __init__(self) -> None:
        self.machine: Machine | None = None
        folder = tempfile.mkdtemp(prefix="ngmlir-fake-cuda-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._library = Trampolines(Path(folder, "libcuda.so.1"), [*_LOOKUP, *CALLS])
        self._callbacks: dict[str, Any] = {}
        self._texts = {number: ctypes.create_string_buffer(name.encode()) for number, name in ANSWERS.items()}
        lookup = ctypes.CFUNCTYPE(
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            ctypes.c_uint64,
            ctypes.c_void_p,
        )(self._look_up)
        for name in _LOOKUP:
            self._lead(name, lookup)
        for name, types in CALLS.items():
            self._lead(name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._answering(name)))

    def _lead(self, name: str, callback: Any) -> None:
        self._callbacks[name] = callback
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        self._library.lead(name, address)

    def _look_up(self, name: bytes, found: Any, version: int, flags: int, status: Any) -> int:
        known = name.decode() in CALLS
        found[0] = self._library.address(name.decode()) if known else None
        return 0 if known else 500

    def _answering(self, name: str) -> Callable[..., int]:
        def answer(*arguments: Any) -> int:
            try:
                return self._answer(name, arguments)
            except BaseException:  # nothing may leave a callback
                traceback.print_exc(file=sys.stderr)
                if self.machine is not None:
                    self.machine.violations.append(f"{name}: {traceback.format_exc()}")
                return 999

        return answer

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        machine = self.machine
        if name in ("cuGetErrorString", "cuGetErrorName"):
            text = self._texts.get(arguments[0], self._texts[999])
            ctypes.c_void_p.from_address(arguments[1]).value = ctypes.addressof(text)
            return 0
        if machine is None:
            return 100
        machine.counts[name] += 1
        if machine.answers.get(name):
            return NUMBERS[machine.answers[name].pop(0)]
        try:
            getattr(Calls(machine), name)(*arguments)
        except Answered as answered:
            return answered.number
        except Violation as violation:
            machine.violations.append(f"{name}: {violation}")
            return 1
        return 0

    @contextmanager
    def using(self, machine: Machine) -> Iterator[Machine]:
        """A driver of this machine."""
        before, self.machine = self.machine, machine
        try:
            yield machine
        finally:
            self.machine = before

    @contextmanager
    def quiet(self, names: Iterable[str]) -> Iterator[None]:
        """These functions do nothing for a while, and take no time of Python's."""
        held = {name: self._callbacks[name] for name in names}
        for name in held:
            self._library.lead(name, self._library.address("nothing"))
        try:
            yield
        finally:
            for name, callback in held.items():
                self._lead(name, callback)


_made: Fake | None = None


def fake() -> Fake:
    """The one of this process: the bindings load a library once."""
    global _made
    if _made is None:
        _made = Fake()
    return _made
