# SPDX-License-Identifier: Apache-2.0
"""Results of asynchronous calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Pending(Protocol):
    """Results that are being copied from a device."""

    def done(self) -> bool: ...
    def result(self) -> Sequence[Any]: ...


class Future:
    """Returned by `computation.call_async`: `result()` waits, and returns what the call would have returned."""

    def __init__(self, pending: Any, finish: Callable[[Sequence[Any]], Any] | None = None):
        self._pending: Pending | None = pending if finish is not None else None
        self._finish = finish
        self._result: Any = None if finish is not None else pending

    def done(self) -> bool:
        """Whether `result()` returns at once. DeviceLost if the results cannot arrive any more."""
        return self._pending is None or self._pending.done()

    def result(self) -> Any:
        """New arrays, in the structure of the results that were requested. DeviceLost if a kernel failed."""
        if self._pending is not None and self._finish is not None:
            self._result = self._finish(self._pending.result())
            self._pending = None
        return self._result

    def __repr__(self) -> str:
        return f"<Future: {'there' if self._pending is None else 'on its way'}>"
