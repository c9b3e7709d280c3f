# SPDX-License-Identifier: Apache-2.0
"""A progress bar on a terminal; in pipes and files nothing, or a line at the end."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType


class Progress:
    """Counts steps on standard error; drawn at most ten times a second.

    The time left follows from the steps after the first one, which often includes compilation.
    With `after`, it appears when so many seconds have passed, is erased at the end, and leaves no line in pipes.
    """

    def __init__(self, total: int, label: str, *, after: float | None = None):
        self.total, self.label, self.after = total, label, after
        self.done = 0
        self.shown = self.started = 0.0
        self.first: tuple[int, float] | None = None  # how many steps were done, and when, at the first report
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
        if self.first is None and done:
            self.first = (done, now)
        early = now - self.started < (self.after or 0.0)
        if self.terminal and not early and (now - self.shown > 0.1 or self.done == self.total):
            self.shown = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        share = self.done / max(self.total, 1)
        tail = f" {self.done}/{self.total}{self._left(now)}  {self.note}"
        width = max(10, shutil.get_terminal_size().columns - len(self.label) - len(tail) - 4)
        filled = int(width * share)
        sys.stderr.write(f"\r{self.label} [{'#' * filled}{'.' * (width - filled)}]{tail}\x1b[K")
        sys.stderr.flush()

    def _left(self, now: float) -> str:
        """The estimated time left, once a step after the first report gives its rate."""
        if self.first is None or self.done <= self.first[0]:
            return ""
        done, then = self.first
        return f" {(now - then) * (self.total - self.done) / (self.done - done):4.0f} s left"

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
