# SPDX-License-Identifier: Apache-2.0
"""A progress bar on a terminal; in pipes and files nothing, or a line at the end."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType


class Progress:
    """Counts steps on standard error. Redrawn at most ten times a second, so that it costs nothing.

    With `after`, it appears when so many seconds have passed, is wiped out at the end, and leaves no line in pipes.
    """

    def __init__(self, total: int, label: str, *, after: float | None = None):
        self.total, self.label, self.after = total, label, after
        self.done = 0
        self.shown = self.started = 0.0
        self.note = ""
        self.terminal = _on_terminal()

    def __enter__(self) -> Progress:
        self.started = time.monotonic()
        return self

    def step(self, note: str = "") -> None:
        self.reach(self.done + 1, note)

    def reach(self, done: int, note: str = "") -> None:
        """Says that so many steps are done."""
        self.done = done
        self.note = note
        now = time.monotonic()
        early = now - self.started < (self.after or 0.0)
        if self.terminal and not early and (now - self.shown > 0.1 or self.done == self.total):
            self.shown = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        share = self.done / max(self.total, 1)
        left = (now - self.started) * (1 - share) / max(share, 1e-9)
        tail = f" {self.done}/{self.total} {left:4.0f} s left  {self.note}"
        width = max(10, shutil.get_terminal_size().columns - len(self.label) - len(tail) - 4)
        filled = int(width * share)
        sys.stderr.write(f"\r{self.label} [{'#' * filled}{'.' * (width - filled)}]{tail}\x1b[K")
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.after is not None:
            end = "\r\x1b[K" if self.shown else ""
        elif self.terminal:
            end = "\n"
        else:
            seconds = time.monotonic() - self.started
            end = f"{self.label}: {self.done} steps in {seconds:.2f} s, {self.note}\n" if kind is None else ""
        if end:
            sys.stderr.write(end)
            sys.stderr.flush()


def _on_terminal() -> bool:
    """False also where a program has no standard error, or has closed it."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
