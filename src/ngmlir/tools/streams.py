# SPDX-License-Identifier: Apache-2.0
"""The three streams of a tool: those of the process, or any others (a notebook's, a test's, a server's), text or binary."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import IO, Any


@dataclass(frozen=True)
class Streams:
    """Data is read from `stdin` and goes to `stdout`; everything else goes to `stderr`."""

    stdin: IO[Any]
    stdout: IO[Any]
    stderr: IO[Any]

    def read(self) -> bytes:
        """All of standard input."""
        binary: IO[Any] = getattr(self.stdin, "buffer", self.stdin)
        data: str | bytes = binary.read()
        return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data

    def write(self, text: str) -> None:
        """Data to standard output, in UTF-8 wherever the stream takes bytes."""
        binary: IO[Any] = getattr(self.stdout, "buffer", self.stdout)
        if binary is not self.stdout:
            self.stdout.flush()  # what was printed before stands before
        binary.write(text if _takes_text(binary) else text.encode("utf-8", "surrogateescape"))
        binary.flush()

    def say(self, text: str) -> None:
        """A line to standard error, also where it cannot spell every character."""
        encoding = getattr(self.stderr, "encoding", None) or "utf-8"
        line = f"{text}\n".encode(encoding, "backslashreplace")
        self.stderr.write(line.decode(encoding) if _takes_text(self.stderr) else line)
        self.stderr.flush()

    def silence(self) -> None:
        """Called where the reader of standard output went away: the interpreter would complain again when it flushes."""
        if self.stdout is sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def streams(
    stdin: IO[Any] | None = None, stdout: IO[Any] | None = None, stderr: IO[Any] | None = None
) -> Streams:
    """These streams; those of the process where one is not given."""
    return Streams(stdin or sys.stdin, stdout or sys.stdout, stderr or sys.stderr)


def _takes_text(stream: IO[Any]) -> bool:
    # What is neither of io's binary kinds is taken for text: so do print and notebooks' streams.
    return not isinstance(stream, (io.RawIOBase, io.BufferedIOBase)) and "b" not in str(
        getattr(stream, "mode", "")
    )
