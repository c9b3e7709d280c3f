# SPDX-License-Identifier: Apache-2.0
"""The three streams of a tool: those of the process, or any others (a notebook's, a test's, a server's), text or binary."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from ..support.diagnostics import UserError


@dataclass(frozen=True)
class Streams:
    """Data is read from `stdin` and goes to `stdout`; everything else goes to `stderr`. None is one that is closed."""

    stdin: IO[Any] | None
    stdout: IO[Any] | None
    stderr: IO[Any] | None

    @property
    def terminal(self) -> bool:
        """Whether messages go to a terminal."""
        return self.stderr is not None and self.stderr.isatty()

    def read(self) -> bytes:
        """All of standard input; UserError where it is closed."""
        if self.stdin is None:
            raise UserError("standard input is closed", hint="give a file, or '-' with something to read")
        binary: IO[Any] = getattr(self.stdin, "buffer", self.stdin)
        data: str | bytes = binary.read()
        return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data

    def write(self, made: str | bytes) -> None:
        """Data to standard output, text in UTF-8 wherever the stream takes bytes; UserError where it takes none."""
        if self.stdout is None:
            raise UserError("standard output is closed", hint="-o FILE writes to a file")
        binary: IO[Any] = getattr(self.stdout, "buffer", self.stdout)
        if isinstance(made, str):
            made = made if _takes_text(binary) else made.encode("utf-8", "surrogateescape")
        elif _takes_text(binary) or binary.isatty():
            raise UserError("an object file is no text", hint="-o FILE writes it to a file")
        try:
            if binary is not self.stdout:
                self.stdout.flush()  # keeps the order of what was printed before
            binary.write(made)
            binary.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self.silence()
            raise UserError(f"cannot write to standard output: {error.strerror}") from None

    def say(self, text: str) -> None:
        """Writes a line to standard error, also where it cannot encode every character; ignored where it is closed."""
        if self.stderr is None:
            return
        encoding = getattr(self.stderr, "encoding", None) or "utf-8"
        line = f"{text}\n".encode(encoding, "backslashreplace")
        with suppress(OSError):
            self.stderr.write(line.decode(encoding) if _takes_text(self.stderr) else line)
            self.stderr.flush()

    def silence(self) -> None:
        """Called where standard output takes nothing more: the interpreter would complain again when it flushes."""
        if self.stdout is not None and self.stdout is sys.stdout:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())


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
