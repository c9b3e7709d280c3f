# SPDX-License-Identifier: Apache-2.0
"""A GPU's context and its stream: locking, deferred release of memory and handles, and errors of a GPU that has
stopped."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from threading import RLock
from types import TracebackType
from typing import Any

from ...support.diagnostics import UserError
from .driver import HINT, DeviceLost, Driver, Stopped
from .memory import Memory

#: How many of the last launched pieces of programs an error considers.
_REMEMBERED = 64
#: How many kernels an error names.
_NAMED = 12


class Context:
    """The primary context of GPU number `ordinal`, which other libraries of the process share, and a stream of its own.

    Inside `with context:` it is current in this thread, no other thread uses it, and what was freed has been released.
    Afterwards the caller's context is current again: callers may be in any thread, and between two calls of another
    library.
    """

    def __init__(self, ordinal: int):
        self.driver = driver = Driver()
        self.success = driver.success
        self.ordinal = ordinal
        self.lock = RLock()
        #: Why the device cannot be used any more; empty while it works.
        self.lost = ""
        #: The kernels that were launched since the host last waited, by piece.
        self.since: deque[Sequence[str]] = deque(maxlen=_REMEMBERED)
        #: Handles to be destroyed, each with its function. The garbage collector may append at any moment.
        self.doomed: deque[tuple[Callable[[Any], tuple[Any, ...]], Any]] = deque()
        count = driver.value(driver.api.cuDeviceGetCount())
        if not 0 <= ordinal < count:
            raise UserError(f"there is no GPU number {ordinal}, this machine has {count}", hint=HINT)
        self.handle = driver.value(driver.api.cuDeviceGet(ordinal))
        self._depth = 0
        self.push, self.pop = driver.api.cuCtxPushCurrent, driver.api.cuCtxPopCurrent
        try:
            self._begin()
        except Stopped:  # a kernel failed before, maybe of another library
            driver.api.cuDevicePrimaryCtxReset(self.handle)
            self._begin_again()

    def _begin(self) -> None:
        driver = self.driver
        self.context = driver.value(driver.api.cuDevicePrimaryCtxRetain(self.handle))
        driver.value(self.push(self.context))
        try:
            # 1: CU_STREAM_NON_BLOCKING, they do not wait for the default stream.
            self.stream = driver.value(driver.api.cuStreamCreate(1))
            self.captures = driver.value(driver.api.cuStreamCreate(1))
            self.memory = Memory(driver, self.ordinal, self.handle, self.stream)
        finally:
            self.pop()

    def _begin_again(self) -> None:
        try:
            self._begin()
        except Stopped as stopped:
            raise DeviceLost(
                f"GPU {self.ordinal} is lost: {stopped.meaning} ({stopped.status}), and cannot be reset",
                hint="restart the process",
            ) from stopped

    def __enter__(self) -> None:
        self.lock.acquire()
        self._depth += 1
        if self._depth > 1:
            return
        try:
            if self.lost:
                raise DeviceLost(self.lost)
            (status,) = self.push(self.context)
            if status is not self.success:
                raise self._lose(status.name, "")
        except BaseException:
            self._depth = 0
            self.lock.release()
            raise
        if self.doomed or self.memory.freed:
            try:
                self._release()
            except BaseException as error:
                self.__exit__(type(error), error, None)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.pop()
        self.lock.release()
        if error is not None and isinstance(error, Stopped):
            raise self._lose(error.status, error.kernel, error.meaning) from error

    def _release(self) -> None:
        while self.doomed:
            destroy, handle = self.doomed.popleft()
            self.driver.value(destroy(handle))
        self.memory.drain()

    def destroy_after(self, owner: object, destroy: Callable[[Any], tuple[Any, ...]], handle: Any) -> None:
        """Destroys a handle some time after its `owner` has been collected."""
        weakref.finalize(owner, self.doomed.append, (destroy, handle)).atexit = False

    def _lose(self, status: str, kernel: str, meaning: str = "") -> DeviceLost:
        """Marks the device as lost, and returns the error."""
        names = [kernel] if kernel else list(dict.fromkeys(n for names in self.since for n in names))
        hint = "compile with checked=True, or set NGMLIR_CHECK=1, to find the op and the element"
        if len(names) > 1:
            hint = f"set NGMLIR_CUDA_BLOCKING=1 to find the kernel; {hint}"
        shown = ", ".join(names[-_NAMED:]) + (" and others before" if len(names) > _NAMED else "")
        which = "" if not names else f", in the kernel {shown}" if len(names) == 1 else f", in one of {shown}"
        said = f"{meaning or 'the driver refuses'} ({status}){which}"
        self.lost = f"GPU {self.ordinal} has stopped: {said}. What was kept on it is lost"
        return DeviceLost(f"{self.lost}; programs that are compiled now start again there", hint=hint)

    def synchronize(self) -> None:
        """Waits for all work submitted so far. DeviceLost if one of its kernels failed."""
        with self:
            self.driver.value(self.driver.api.cuStreamSynchronize(self.stream))
            self.since.clear()

    def wait(self, event: Any) -> None:
        """Waits for an event; other threads may use the device meanwhile."""
        with self:
            pass  # raises DeviceLost
        answer = self.push(self.context)
        if answer[0] is self.success:
            answer = self.driver.api.cuEventSynchronize(event)
            self.pop()
        with self:
            self.driver.value(answer)
