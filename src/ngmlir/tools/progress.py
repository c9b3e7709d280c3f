# SPDX-License-Identifier: Apache-2.0
"""A progress bar on a terminal; in pipes and files a line at the end, nothing else."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType


class Progress:
    """Counts steps on standard error. Redrawn at most ten times a second, so that it costs nothing."""

    def __init__(self, total: int, label: str):
        self.total, self.label = total, label
        self.done = 0
        self.shown = self.started = 0.0
        self.note = ""
        self.terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self.started = time.monotonic()
        return self

    def step(self, note: str = "") -> None:
        self.done += 1
        self.note = note
        now = time.monotonic()
        if self.terminal and (now - self.shown > 0.1 or self.done == self.total):
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
        if self.terminal:
            sys.stderr.write("\n")
        elif kind is None:
            seconds = time.monotonic() - self.started
            sys.stderr.write(f"{self.label}: {self.done} steps in {seconds:.2f} s, {self.note}\n")
        sys.stderr.flush()
