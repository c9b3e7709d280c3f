# SPDX-License-Identifier: Apache-2.0
"""What every tool does the same way: flags with suggestions, input and output, exit codes, no tracebacks.

Exit codes: 0 good, 1 the input or the command line is wrong, 70 ngmlir itself is wrong (with a file that
reproduces it). Data goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from ..support.diagnostics import Bug, Location, NgmlirError, UserError
from ..support.files import write_file
from ..support.spelling import did_you_mean
from .streams import Streams

BUG = 70
_SEVERITY = re.compile(r"^(.*?)\b(error|warning|remark|note|hint):", re.MULTILINE)
_COLOURS = {"error": "31", "warning": "35", "remark": "34", "note": "36", "hint": "32"}


class HelpAsked(Exception):
    """Somebody asked for help (or the version): the text of it, and nothing else is to be done."""


class Flags(argparse.ArgumentParser):
    """argparse that ends no process: its complaints are UserErrors, with a suggestion for what does not exist, and its
    help is HelpAsked."""

    def print_help(self, file: object = None) -> NoReturn:
        raise HelpAsked(self.format_help())

    def _print_message(self, message: str, file: object = None) -> NoReturn:
        raise HelpAsked(message)

    def error(self, message: str) -> NoReturn:
        help_text = f"see {self.prog} --help"
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        known = re.findall(r"[\w-]+", choice[2]) if choice else []
        raise UserError(message, hint=did_you_mean(choice[1], known, help_text) if choice else help_text)

    def names(self) -> list[str]:
        """Every flag, as it is typed."""
        return list(self._option_string_actions)

    def read(
        self,
        arguments: Sequence[str],
        other_names: Iterable[str] = (),
        advice: Mapping[str, str] = MappingProxyType({}),
    ) -> argparse.Namespace:
        """The flags' values; `other_names` are flags that only the suggestion needs to know, `advice` is what to say of
        flags that other tools have."""
        found, unknown = self.parse_known_args(list(arguments))
        if unknown:
            flag = unknown[0].partition("=")[0]
            near = did_you_mean(flag, [*self.names(), *other_names], f"see {self.prog} --help")
            raise UserError(f"unknown flag '{flag}'", hint=advice.get(flag, near))
        return found


def flags(program: str, about: str, epilog: str = "") -> Flags:
    """An empty command line; flags are never abbreviated, so that new ones break no script."""
    form = argparse.RawDescriptionHelpFormatter
    return Flags(program, description=about, epilog=epilog, allow_abbrev=False, formatter_class=form)


def wants_colour(choice: str, stream_is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """`choice` is auto, always or never; auto honours NO_COLOR and FORCE_COLOR (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (stream_is_terminal and environment.get("TERM") != "dumb")


def painted(message: str, colour: bool) -> str:
    """A rendered message with its severities in colour."""
    return _SEVERITY.sub(_coloured, message) if colour else message


def _coloured(found: re.Match[str]) -> str:
    before, severity = found.groups()
    return f"\033[1m{before}\033[1;{_COLOURS[severity]}m{severity}:\033[0m"


def read_input(name: str, streams: Streams) -> tuple[str, str]:
    """(name in messages, text) of a file, or of standard input for `-`."""
    try:
        data = streams.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"cannot open input file '{name}': {error.strerror}") from None
    except ValueError as error:  # a name that no file can have
        raise UserError(f"cannot open input file {name!r}: {error}") from None
    shown = "<stdin>" if name == "-" else name
    try:
        return shown, data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        place = Location(shown, before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = f"byte 0x{data[error.start]:02X} is not UTF-8 text"
        raise UserError(message, place, source=data.decode("utf-8", "replace")) from None


def write_output(name: str, text: str, streams: Streams) -> None:
    """Writes to standard output for `-`, else to a file."""
    if name == "-":
        streams.write(text)
    else:
        write_file(name, [text.encode("utf-8", "surrogateescape")])


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


def run(program: str, streams: Streams, body: Callable[[Reproducer], int]) -> int:
    """The exit code of `body`; whatever it raises becomes a message."""
    reproducer = Reproducer(program)
    try:
        return body(reproducer)
    except HelpAsked as help:
        streams.write(str(help))
        return 0
    except NgmlirError as error:
        streams.say(painted(str(error), wants_colour("auto", streams.stderr.isatty(), os.environ)))
        return _report(reproducer, error, streams) if isinstance(error, Bug) else 1
    except BrokenPipeError:
        streams.silence()
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        streams.say(f"{program}: bug: {type(error).__name__}: {error}")
        return _report(reproducer, error, streams)


def _report(reproducer: Reproducer, error: BaseException, streams: Streams) -> int:
    path = reproducer.write(error)
    if path is not None:
        streams.say(f"note: this is a bug of ngmlir; {path} reproduces it:")
        streams.say(f"  {' '.join([reproducer.program, *reproducer.command])} {path}")
    return BUG
