# SPDX-License-Identifier: Apache-2.0
"""What every tool does the same way: flags with suggestions, input and output, exit codes, no tracebacks.

Exit codes: 0 good, 1 the input or the command line is wrong, 70 ngmlir itself is wrong (with a file that
reproduces it). Data goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ..support.diagnostics import Bug, Diagnostic, NgmlirError, UserError

BUG = 70
_SEVERITY = re.compile(r"^(.*?)\b(error|warning|remark|note|hint):", re.MULTILINE)
_COLOURS = {"error": "31", "warning": "35", "remark": "34", "note": "36", "hint": "32"}


class Flags(argparse.ArgumentParser):
    """argparse whose complaints are UserErrors, with a suggestion for what does not exist."""

    def error(self, message: str) -> NoReturn:
        help_text = f"see {self.prog} --help"
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        known = re.findall(r"[\w-]+", choice[2]) if choice else []
        raise UserError(message, hint=closest(choice[1], known, help_text) if choice else help_text)

    def names(self) -> list[str]:
        """Every flag, as it is typed."""
        return list(self._option_string_actions)

    def read(self, arguments: Sequence[str], other_names: Iterable[str] = ()) -> argparse.Namespace:
        """The flags' values; `other_names` are flags that only the suggestion needs to know."""
        found, unknown = self.parse_known_args(list(arguments))
        if unknown:
            flag = unknown[0].partition("=")[0]
            raise UserError(
                f"unknown flag '{flag}'",
                hint=closest(flag, [*self.names(), *other_names], f"see {self.prog} --help"),
            )
        return found


def flags(program: str, about: str, epilog: str = "") -> Flags:
    """An empty command line; flags are never abbreviated, so that new ones break no script."""
    form = argparse.RawDescriptionHelpFormatter
    return Flags(program, description=about, epilog=epilog, allow_abbrev=False, formatter_class=form)


def closest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint with the known word that looks most like `word`."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise


def wants_colour(choice: str, stream_is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """`choice` is auto, always or never; auto honours NO_COLOR and FORCE_COLOR (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (stream_is_terminal and environment.get("TERM") != "dumb")


def show(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], colour: bool) -> None:
    """Prints messages to standard error; `sources` holds the texts that are not files (standard input)."""
    for diagnostic in diagnostics:
        say(painted(diagnostic.render(sources.get(diagnostic.location.file)), colour))


def painted(message: str, colour: bool) -> str:
    """A rendered message with its severities in colour."""
    return _SEVERITY.sub(_coloured, message) if colour else message


def _coloured(found: re.Match[str]) -> str:
    before, severity = found.groups()
    return f"\033[1m{before}\033[1;{_COLOURS[severity]}m{severity}:\033[0m"


def say(text: str) -> None:
    """A line to standard error, also where it cannot spell every character."""
    encoding = sys.stderr.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def read_input(name: str) -> tuple[str, str]:
    """(name in messages, text) of a file, or of standard input for `-`."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"cannot open input file '{name}': {error.strerror}") from None
    shown = "<stdin>" if name == "-" else name
    try:
        return shown, data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"'{shown}' is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02X}"
        ) from None


def write_output(name: str, text: str) -> None:
    """Writes to standard output for `-`, else to a file that keeps its old content until all is written."""
    if name == "-":
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
        return
    target = Path(name)
    try:
        if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
            target.write_text(text, encoding="utf-8")
            return
        handle, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text)
            os.chmod(made, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
            os.replace(made, target)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        raise UserError(f"cannot open output file '{name}': {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class Reproducer:
    """What a bug report needs: filled in while a tool runs, written to a file when it fails."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.command: list[str] = []  # flags that matter, without input and output
        self.text = ""
        #: Where the tool has got since: what is left of the command, and what prints the program as it is there.
        self.later: tuple[list[str], Callable[[], str]] | None = None

    def write(self, error: BaseException) -> Path | None:
        """The file in the temporary folder; None where it cannot be written."""
        if self.later is not None:
            command, text = self.later
            # What failed may be the printing: then all that is left is to begin at the beginning.
            with suppress(Exception):
                self.text, self.command = text(), command
        story = "".join(traceback.format_exception(error)).splitlines()
        command = " ".join([self.program, *self.command])
        head = [f"// RUN: {command} %s", *(f"// {line}".rstrip() for line in story)]
        text = "\n".join([*head, self.text])
        path = (
            Path(tempfile.gettempdir())
            / f"ngmlir-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}.ngir"
        )
        try:
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
        return path


def run(program: str, body: Callable[[Reproducer], int]) -> int:
    """The exit code of `body`; whatever it raises becomes a message."""
    reproducer = Reproducer(program)
    colour = wants_colour("auto", sys.stderr.isatty(), os.environ)
    try:
        return body(reproducer)
    except NgmlirError as error:
        say(painted(str(error), colour))
        return _report(reproducer, error) if isinstance(error, Bug) else 1
    except BrokenPipeError:
        # The reader went away (`ngopt ... | head`); the interpreter would complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        say(f"{program}: bug: {type(error).__name__}: {error}")
        return _report(reproducer, error)


def _report(reproducer: Reproducer, error: BaseException) -> int:
    path = reproducer.write(error)
    if path is not None:
        say(f"note: this is a bug of ngmlir; {path} reproduces it:")
        say(f"  {' '.join([reproducer.program, *reproducer.command])} {path}")
    return BUG
