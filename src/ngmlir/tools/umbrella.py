# SPDX-License-Identifier: Apache-2.0
"""The command-line program ngmlir. `python -m ngmlir` is the same."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..support.version import version
from . import environment
from .quantizing import add_flags as add_quantize_flags
from .quantizing import quantize_file
from .shell import Reproducer, count, flags, positive, run
from .streams import Streams, streams


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line (without the program's name)."""
    given = sys.argv[1:] if arguments is None else arguments
    own = streams()
    return run("ngmlir", own, lambda reproducer: _umbrella(given, own, reproducer))


def _umbrella(arguments: Sequence[str], own: Streams, reproducer: Reproducer) -> int:
    known = flags("ngmlir", "A compiler for tensor programs.", "ngopt --help: passes over .ngir files")
    known.add_argument("--version", action="version", version=f"ngmlir {version()}")
    commands = known.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "env", help="print what ngmlir found on this machine, and the environment variables that it reads"
    )
    commands.add_parser(
        "demo",
        help="train a network on handwritten digits, and write a report with every stage",
        add_help=False,
    )
    tune = commands.add_parser(
        "tune",
        help="measure schedules of each kernel on this machine, and write the program with the fastest",
    )
    tune.add_argument("file", help="the .ngir file, or the .onnx file")
    tune.add_argument("-o", metavar="FILE", default="-", help="output file (default: standard output)")
    tune.add_argument(
        "--target", default="cpu", choices=("cpu", "cuda"), help="target to tune for (default: cpu)"
    )
    tune.add_argument(
        "--candidates",
        type=positive,
        default=6,
        metavar="N",
        help="number of predicted schedules to measure for each kernel (default: 6)",
    )
    _add_length_flags(tune)
    run_command = commands.add_parser(
        "run", help="run an ONNX model or a function; print, time or check its results"
    )
    _add_run_flags(run_command)
    importing = commands.add_parser(
        "import", help="convert an ONNX model to text, with its weights in a file beside it"
    )
    importing.add_argument("file", help="the .onnx file")
    importing.add_argument("-o", metavar="FILE", help="output file (default: the model's name with .ngir)")
    _add_length_flags(importing)
    quantizing = commands.add_parser(
        "quantize", help="convert an ONNX model to 8 or 4 bits, and compare it with its f32 form"
    )
    add_quantize_flags(quantizing)
    for command, text in (
        ("generate", "print what a language model writes after a prompt"),
        ("chat", "talk to a language model: each line of standard input is answered"),
    ):
        _add_language_flags(commands.add_parser(command, help=text), command)
    cache = commands.add_parser("cache", help="show or clear the cache of compiled code")
    cache.add_argument(
        "action", choices=("show", "clear"), help="print its folder and size, or remove all entries"
    )
    if arguments[:1] == ["demo"]:
        from .demo import main as demo

        return demo(list(arguments[1:]))
    chosen = commands.choices.get(arguments[0]) if arguments else None
    found = known.read(arguments, chosen.names() if chosen is not None else ())
    _note_input(reproducer, arguments, getattr(found, "file", ""))
    match found.command:
        case "env":
            own.write(environment.table())
        case "tune":
            from .importing import module_of
            from .tune import tune_file  # brings the compiler along

            module = module_of(found.file, found.size, found.shape, own)
            tune_file(module, found.o, found.target, found.candidates, own)
        case "run":
            from .running import run_file

            return run_file(found, own)
        case "import":
            from .importing import import_file

            import_file(found.file, found.o, found.size, found.shape, own)
        case "quantize":
            quantize_file(found, own)
        case "generate" | "chat":
            from . import language

            (language.generate if found.command == "generate" else language.chat)(found, own)
        case "cache":
            own.write(_cache(found.action))
        case _:
            own.write(known.format_help())
    return 0


def _note_input(reproducer: Reproducer, arguments: Sequence[str], file: str) -> None:
    """What a bug report repeats: the command, and the text that it reads if that is all that it reads."""
    words = [shlex.quote(word) for word in arguments]
    if Path(file).suffix == ".ngir":
        with suppress(OSError, ValueError):
            text = Path(file).read_text(encoding="utf-8", errors="surrogateescape")
            if "external_resources" not in text:
                reproducer.text = text
                words[len(words) - 1 - words[::-1].index(shlex.quote(file))] = "%s"
    reproducer.command = words


def _add_length_flags(known: argparse.ArgumentParser) -> None:
    """What says the lengths that a model of ONNX leaves open."""
    known.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="length of a dynamic dimension"
    )
    known.add_argument("--shape", action="append", default=[], metavar="INPUT=2x3", help="shape of an input")


def _add_run_flags(known: argparse.ArgumentParser) -> None:
    """The command line of `ngmlir run`."""
    add = known.add_argument
    add("file", help="model.onnx, a .ngir file (- for standard input), or a folder of save_inference_model")
    add(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help="x.npy: the next input; name=x.npy: that input; all.npz: the inputs named in it",
    )
    add("--random", type=count, metavar="SEED", help="draw random values for inputs that are not given")
    add("--size", action="append", default=[], metavar="NAME=N", help="length of a dynamic dimension")
    add("--shape", action="append", default=[], metavar="INPUT=2x3", help="shape of a random input")
    add("--entry", metavar="NAME", help="function of the module (default: main, or the only one)")
    add(
        "--target",
        default="cpu",
        choices=("cpu", "numpy", "cuda", "cuda-sim"),
        help="target (default: cpu)",
    )
    add("--threads", type=int, metavar="N", help="number of CPU threads")
    add("--check", choices=("numpy",), help="compare the results with NumPy, which computes op by op")
    add("--time", action="store_true", help="print compile time and time per call")
    add(
        "--profile",
        nargs="?",
        const="",
        metavar="TRACE",
        help="print the time of each kernel, with its source line or node; TRACE.json: write a trace for Perfetto",
    )
    add("-o", metavar="FILE", help="write the results: .npz, or .npy for a single one")


def _add_language_flags(known: argparse.ArgumentParser, command: str) -> None:
    """The command lines of `ngmlir generate` and `ngmlir chat`."""
    add = known.add_argument
    add("file", metavar="MODEL", help="a .gguf file, or a folder with config.json and .safetensors files")
    if command == "generate":
        add("prompt", help="the text to go on from (- for standard input)")
    else:
        add("--system", metavar="TEXT", help="what the model is told before the conversation")
    add("--max-tokens", type=int, metavar="N", help="number of tokens to generate at most (default: 256)")
    add("--context", type=int, metavar="N", help="number of tokens there is room for (default: the model's)")
    add(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="0: the most probable token (default); higher: more random",
    )
    add("--top-k", type=int, default=0, metavar="K", help="choose among the K most probable tokens (0: all)")
    add(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="choose among the most probable tokens that have this probability together",
    )
    add(
        "--min-p",
        type=float,
        default=0.0,
        metavar="P",
        help="leave out tokens less probable than P times the most probable one",
    )
    add(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="R",
        help="above 1: tokens that were seen become less probable",
    )
    add("--seed", type=int, metavar="N", help="seed of the random numbers")
    add(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end at this text (may be given several times)",
    )
    add("--threads", type=int, metavar="N", help="number of CPU threads")
    add("--time", action="store_true", help="print the tokens per second to standard error")


def _cache(action: str) -> str:
    from ..runtime.cache import ENDING, WEIGHTS, default_cache

    cache = default_cache()
    if cache is None:
        return "the cache is off (NGMLIR_CACHE)\n"
    files = sorted(cache.folder.iterdir()) if cache.folder.is_dir() else []
    entries = [file for file in files if file.suffix in (ENDING, WEIGHTS)]
    size = sum(entry.stat().st_size for entry in entries)
    if action == "clear":
        for entry in entries:
            entry.unlink(missing_ok=True)
    done = "removed from" if action == "clear" else "in"
    return f"{len(entries)} entries, {size / 1e6:.1f} MB, {done} {cache.folder}\n"
