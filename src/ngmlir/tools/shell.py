# SPDX-License-Identifier: Apache-2.0
"""What every tool does the same way: flags with suggestions, input and output, exit codes, no tracebacks.

Exit codes: 0 good, 1 the input or the command line is wrong, 70 ngmlir itself is wrong (with a file that
reproduces it). Data goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from ..ir.cursor import shortened
from ..support.diagnostics import UNKNOWN, Bug, Location, NgmlirError, UserError
from ..support.files import write_file, write_temporary
from ..support.spelling import did_you_mean, nearest
from .streams import Streams

BUG = 70
#: Errors of the system that say nothing about ngmlir: no memory, no space, a medium that fails.
_OF_THE_MACHINE = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
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
        message = re.sub("ignored explicit argument (.*)", r"it takes no value, such as \1", message)
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
            # The dashes are alike in all of them.
            known = (name[2:] for name in (*self.names(), *other_names) if name.startswith("--"))
            near = nearest(flag.lstrip("-"), known)
            hint = f"did you mean --{near}?" if near else f"see {self.prog} --help"
            raise UserError(f"unknown flag '{flag}'", hint=advice.get("--" + flag.lstrip("-"), hint))
        return found


def flags(program: str, about: str, epilog: str = "") -> Flags:
    """An empty command line; flags are never abbreviated, so that new ones break no script."""
    form = argparse.RawDescriptionHelpFormatter
    return Flags(program, description=about, epilog=epilog, allow_abbrev=False, formatter_class=form)


def count(text: str) -> int:
    """A number of things, as argparse reads it."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"'{shortened(text)}' is not a non-negative number")
    return int(text)


def positive(text: str) -> int:
    """A number of things, at least one."""
    if not (found := count(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return found


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
    except UserError:
        raise
    except ValueError as error:  # a name that no file can have
        raise UserError(f"cannot open input file {name!r}: {error}") from None
    shown = "<stdin>" if name == "-" else name
    try:
        return shown, data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        place = Location(shown, before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = f"byte 0x{data[error.start]:02X} is not UTF-8 text"
        wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        binary = (
            "ngmlir run and ngmlir import read ONNX models" if b"\0" in data else "save the file as UTF-8"
        )
        hint = "the file is UTF-16; save it as UTF-8" if wide else binary
        raise UserError(message, place, source=data.decode("utf-8", "replace"), hint=hint) from None


def write_output(name: str, made: str | bytes, streams: Streams) -> None:
    """Writes text or bytes to standard output for `-`, else to a file."""
    if name == "-":
        streams.write(made)
    else:
        write_file(name, [made.encode("utf-8", "surrogateescape") if isinstance(made, str) else made])


class Reproducer:
    """What a bug report needs: filled in while a tool runs, written to a file when it fails."""

    def __init__(self, program: str) -> None:
        self.program = program
        #: The words that matter, as a shell takes them; `%s` stands for the file, without it the file comes last.
        self.command: list[str] = []
        self.text = ""
        #: Where the tool has got since: what is left of the command, and what prints the program as it is there.
        self.later: tuple[list[str], Callable[[], str]] | None = None

    def line(self, path: str) -> str:
        """The command that fails in the same way, on a file."""
        words = self.command if "%s" in self.command else [*self.command, "%s"]
        return " ".join([self.program, *(path if word == "%s" else word for word in words)])

    def write(self, error: BaseException) -> Path | None:
        """The file in the temporary folder, which only this user can read; None where it cannot be written."""
        if self.later is not None:
            command, text = self.later
            # What failed may be the printing: then all that is left is to begin at the beginning.
            with suppress(Exception):
                self.text, self.command = text(), command
        story = "".join(traceback.format_exception(error)).splitlines()
        head = [f"// RUN: {self.line('%s')}", *(f"// {line}".rstrip() for line in story)]
        return write_temporary("\n".join([*head, self.text]), ".ngir")


def run(program: str, streams: Streams, body: Callable[[Reproducer], int]) -> int:
    """The exit code of `body`; whatever it raises becomes a message."""
    reproducer = Reproducer(program)
    try:
        try:
            return body(reproducer)
        except HelpAsked as help:
            streams.write(str(help))
            return 0
    except NgmlirError as error:
        streams.say(painted(str(_unplaced(error)), wants_colour("auto", streams.terminal, os.environ)))
        return _report(reproducer, error, streams) if isinstance(error, Bug) else 1
    except BrokenPipeError:
        streams.silence()
        return 1
    except KeyboardInterrupt:
        streams.say(f"{program}: interrupted")
        return 130
    except MemoryError as error:
        failed = ": ".join(["out of memory", *filter(None, [str(error)])])
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            return _crashed(reproducer, error, streams)
        failed = str(error.strerror)
    except Exception as error:
        return _crashed(reproducer, error, streams)
    # By now all that was computed is freed, so there is memory for the message again.
    streams.silence()
    streams.say(f"error: {failed}")
    return 1


def _unplaced(error: NgmlirError) -> NgmlirError:
    """The error without lines of the tools, which call the package as users do; the demo's network is one to look at."""
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep

    def of_a_tool(place: Location) -> bool:
        return place.file.startswith(here) and os.path.basename(place.file) not in ("demo.py", "digits.py")

    if not any(of_a_tool(d.location) for d in error.diagnostics):
        return error
    found = type(error)(
        [replace(d, location=UNKNOWN) if of_a_tool(d.location) else d for d in error.diagnostics]
    )
    found.sources = error.sources
    return found


def _crashed(reproducer: Reproducer, error: Exception, streams: Streams) -> int:
    streams.say(f"{reproducer.program}: bug: {type(error).__name__}: {error}")
    return _report(reproducer, error, streams)


def _report(reproducer: Reproducer, error: BaseException, streams: Streams) -> int:
    path = reproducer.write(error)
    if path is not None and reproducer.text:
        streams.say(f"note: this is a bug in ngmlir; {path} reproduces it:")
        streams.say(f"  {reproducer.line(str(path))}")
    elif path is not None:
        streams.say(f"note: this is a bug of ngmlir; {path} says where it was found, by")
        streams.say(f"  {' '.join([reproducer.program, *reproducer.command])}")
    return BUG
