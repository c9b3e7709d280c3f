# SPDX-License-Identifier: Apache-2.0
"""A progress bar for loops of a program's own, and log messages that do not disturb it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, Self

from ...support.progress import Progress

__all__ = ["PBStreamHandler", "ProgressBar"]


class ProgressBar:
    """A bar on a terminal; in pipes and files nothing.

    Either around what a loop goes through, `for batch in ProgressBar(train_set)` or `for batch in bar(train_set)`, or moved on by
    hand with `bar.update()`.

    Args:
        iterable: what is gone through.
        desc: the text before the bar.
        total: how many steps there are; without it, the `total_iterations` or the length of what is gone through.
        unit: what a step is called.
        ncols: not used: the bar is as wide as the terminal.
        others: settings of other bars, which are not used.
    """

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        desc: str = "",
        total: int | None = None,
        unit: str = "iterations",
        ncols: int | None = None,
        **others: Any,
    ):
        self.iterable, self.total, self.unit = iterable, total, unit
        self.desc, self.n = desc, 0
        self._bar: Progress | None = None

    def __call__(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """Goes through something, and moves on with each step."""
        self.iterable = iterable
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        self.start()
        try:
            for item in self.iterable or ():
                yield item
                self.update()
        finally:
            self.close()

    def start(self) -> None:
        """Shows the bar from the beginning."""
        self.n = 0
        self._bar = Progress(_total(self.total, self.iterable), self.unit, after=0.0).__enter__()

    def update(self, n: int = 1) -> None:
        """Moves on by some steps."""
        if self._bar is None:
            self.start()
        self.n += n
        if self._bar is not None:
            self._bar.total = max(self._bar.total, self.n)  # also where the number is unknown
            self._bar.reach(self.n, self.desc)

    def set_description(self, desc: str = "") -> None:
        """The text next to the bar, shown with the next step."""
        self.desc = desc

    @staticmethod
    def write(text: str) -> None:
        """Prints a line, and wipes away the bar that stands where it would."""
        wipe_line()
        print(text, flush=True)

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _total(total: int | None, iterable: Any) -> int:
    known = getattr(iterable, "total_iterations", None)
    return total or known or (len(iterable) if isinstance(iterable, Sized) else 0)


def wipe_line() -> None:
    """Clears the line of a terminal that a bar stands in."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class PBStreamHandler(logging.StreamHandler[Any]):
    """Writes log messages to standard error, and wipes away a progress bar that stands where they would.

    Args:
        level: the least level of messages that are written.
    """

    def __init__(self, level: int = logging.NOTSET):
        super().__init__()
        self.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        wipe_line()
        super().emit(record)
