# SPDX-License-Identifier: Apache-2.0
"""ngmlir: the commands that are not about one file. `python -m ngmlir` is the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..support.version import version
from . import environment
from .shell import Reproducer, flags, run
from .streams import Streams, streams


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line (without the program's name)."""
    given = sys.argv[1:] if arguments is None else arguments
    own = streams()
    return run("ngmlir", own, lambda reproducer: _umbrella(given, own, reproducer))


def _umbrella(arguments: Sequence[str], own: Streams, reproducer: Reproducer) -> int:
    reproducer.command = list(arguments)
    known = flags("ngmlir", "A compiler for tensor programs.", "ngopt --help: passes over .ngir files")
    known.add_argument("--version", action="version", version=f"ngmlir {version()}")
    commands = known.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("env", help="what ngmlir found on this machine, and what it listens to")
    commands.add_parser(
        "demo", help="train a network on handwritten digits, and show every stage", add_help=False
    )
    tune = commands.add_parser(
        "tune", help="time how each kernel of a program can be cut, and keep what is fastest here"
    )
    tune.add_argument("file", help="the .ngir file")
    tune.add_argument("-o", metavar="FILE", default="-", help="where the program with its schedules goes")
    tune.add_argument(
        "--target", default="cpu", choices=("cpu", "cuda"), help="where it will run (default: cpu)"
    )
    tune.add_argument(
        "--candidates",
        type=int,
        default=6,
        metavar="N",
        help="of each kernel, this many that are predicted best",
    )
    cache = commands.add_parser("cache", help="the cache of compiled code")
    cache.add_argument("action", choices=("show", "clear"), help="show where it is, or remove what is in it")
    if arguments[:1] == ["demo"]:
        from .demo import main as demo

        return demo(list(arguments[1:]))
    found = known.read(arguments)
    match found.command:
        case "env":
            own.write(environment.table())
        case "tune":
            from .tune import tune_file  # brings the compiler along

            tune_file(found.file, found.o, found.target, found.candidates, own)
        case "cache":
            own.write(_cache(found.action))
        case _:
            own.write(known.format_help())
    return 0


def _cache(action: str) -> str:
    from ..runtime.cache import default_cache

    cache = default_cache()
    if cache is None:
        return "the cache is off (NGMLIR_CACHE)\n"
    entries = sorted(cache.folder.glob("*.entry")) if cache.folder.is_dir() else []
    size = sum(entry.stat().st_size for entry in entries)
    if action == "clear":
        for entry in entries:
            entry.unlink(missing_ok=True)
    done = "removed from" if action == "clear" else "in"
    return f"{len(entries)} entries, {size / 1e6:.1f} MB, {done} {cache.folder}\n"
