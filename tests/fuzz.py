# SPDX-License-Identifier: Apache-2.0
"""Tries the laws on new programs for some minutes, and keeps what fails, made small, in tests/corpus/.

    ./run fuzz --minutes 10             new seeds
    ./run fuzz --seed 7 --law cpu       the programs of one law from a seed on

Each case runs in a process of its own, so that a crash or a program that never ends is found like a wrong result.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS / "laws"), str(TESTS / "unit")]

import numpy as np  # noqa: E402
import test_fuzzed_text as text_law  # noqa: E402
from generators import drawn  # noqa: E402
from keeping import LAWS  # noqa: E402
from shrinking import shrunk, shrunk_text  # noqa: E402

from ngmlir.ops.words import to_text  # noqa: E402

CORPUS = TESTS / "corpus"
#: The seconds that one program may take, and those that making it smaller may.
SECONDS, SHRINKING = 120, 120


class Case(NamedTuple):
    """A law on the program of a seed. `how` is what the program is: exact, rough, large or damaged text."""

    law: str
    how: str
    seed: int

    def program(self):
        return drawn(self.seed, exact=self.how != "rough", large=self.how == "large")

    def __str__(self) -> str:
        return f"{self.law}, {self.how}, seed {self.seed}"


#: What is tried, in turn: the laws that find most more often.
TURNS = [
    ("cpu", "exact"), ("passes", "exact"), ("way to a cpu", "exact"), ("cpu", "rough"), ("text", "damaged"),
    ("cpu", "exact"), ("way to a gpu", "exact"), ("passes", "rough"), ("cuda-sim", "exact"), ("text", "ill-typed"),
    ("cpu", "large"), ("way to a cpu", "rough"), ("way to a gpu", "rough"), ("cuda-sim", "rough"), ("text", "damaged"),
]  # fmt: skip


def text_of(case: Case) -> str:
    return (text_law.damaged if case.how == "damaged" else text_law.ill_typed)(case.seed)


def check_text(text: str) -> None:
    for pipeline in text_law.PIPELINES:
        if found := text_law.verdict(text, *pipeline):
            raise AssertionError(f"{' '.join(pipeline)}: {found}")


def check(case: Case) -> None:
    if case.law == "text":
        check_text(text_of(case))
    else:
        LAWS[case.law](case.program(), case.how != "rough")


# ---- processes


class Running(NamedTuple):
    number: int
    started: float
    reader: int
    said: bytearray


def start(work: Callable[[], None]) -> Running:
    """Does it in a child, which says what went wrong and ends with 1, or dies."""
    reader, writer = os.pipe()
    number = os.fork()
    if number:
        os.close(writer)
        return Running(number, time.monotonic(), reader, bytearray())
    os.close(reader)
    code = 0
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        np.seterr(all="ignore")
        work()
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        os.write(writer, f"{type(error).__name__} at {place}: {error}"[:2000].encode("utf-8", "replace"))
        code = 1
    os._exit(code)


def ended(child: Running) -> str:
    """What a child that closed its pipe, or took too long, ended with; '' if all was well."""
    late = time.monotonic() - child.started > SECONDS
    if late:
        os.kill(child.number, signal.SIGKILL)
    _, status = os.waitpid(child.number, 0)
    os.close(child.reader)
    if late:
        return f"took more than {SECONDS} s"
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return child.said.decode("utf-8", "replace") if status else ""


def results(cases: Iterator[Case], jobs: int) -> Iterator[tuple[Case, str]]:
    """Each case with what went wrong, in the order in which they end."""
    running: dict[int, tuple[Case, Running]] = {}
    with selectors.DefaultSelector() as selector:
        while True:
            while len(running) < jobs and (case := next(cases, None)) is not None:
                child = start(lambda case=case: check(case))
                running[child.reader] = case, child
                selector.register(child.reader, selectors.EVENT_READ)
            if not running:
                return
            open_pipes = {key.fd for key, _ in selector.select(1.0)}
            for reader, (case, child) in list(running.items()):
                part = os.read(reader, 4096) if reader in open_pipes else None
                child.said.extend(part or b"")
                if part == b"" or time.monotonic() - child.started > SECONDS:
                    selector.unregister(reader)
                    del running[reader]
                    yield case, ended(child)


def outcome(work: Callable[[], None]) -> str:
    """The same for one piece of work, at once."""
    child = start(work)
    with selectors.DefaultSelector() as selector:
        selector.register(child.reader, selectors.EVENT_READ)
        while selector.select(max(0.0, SECONDS - (time.monotonic() - child.started))):
            part = os.read(child.reader, 4096)
            child.said.extend(part)
            if not part:
                break
    return ended(child)


# ---- what failed


def kind(found: str) -> str:
    """A failure without its numbers: what must stay while the program is made smaller."""
    return re.sub(r"[^a-z ]+", "", found.lower())[:40]


def keep(case: Case, found: str) -> Path:
    """Makes the program of a case smaller as long as it fails alike, and writes it down."""
    until, wanted = time.monotonic() + SHRINKING, kind(found)
    if case.law == "text":
        text = shrunk_text(
            text_of(case),
            lambda t: time.monotonic() < until and kind(outcome(lambda: check_text(t))) == wanted,
        )
    else:
        law, exact = LAWS[case.law], case.how != "rough"
        of = shrunk(
            case.program(),
            lambda of: time.monotonic() < until and kind(outcome(lambda: law(of, exact))) == wanted,
        )
        text = to_text(of)
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{case.law.replace(' ', '-')}-{case.how}-{case.seed}.ngir"
    first = found.splitlines()[0][:100]
    path.write_text(f"// law: {case.law}, {case.how}\n// {first}\n{text}", encoding="utf-8")
    return path


# ---- the command


class Progress:
    """One line on a terminal, drawn anew a few times a second; nothing elsewhere."""

    def __init__(self, seconds: float):
        self.seconds, self.started, self.shown = seconds, time.monotonic(), 0.0

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.started)

    def show(self, tried: int, failed: int, case: Case) -> None:
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.shown > 0.2:
            self.shown = now
            sys.stderr.write(
                f"\r{max(self.left, 0):5.0f} s left  {tried} programs, {failed} failed  {case}\x1b[K"
            )
            sys.stderr.flush()

    def clear(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def cases(first: int, laws: list[str], more: Callable[[], bool]) -> Iterator[Case]:
    turns = [turn for turn in TURNS if turn[0] in laws]
    seed = first
    while more():
        yield Case(*turns[(seed - first) % len(turns)], seed)
        seed += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seed", type=int, help="the first seed (default: drawn)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default 1)")
    names = list(dict.fromkeys(law for law, _ in TURNS))
    parser.add_argument("--law", action="append", choices=names, help="only this law; may be repeated")
    options = parser.parse_args()
    first = secrets.randbits(32) if options.seed is None else options.seed
    print(f"from seed {first}", flush=True)
    progress = Progress(60 * options.minutes)
    tried, failed = Counter[str](), list[tuple[Case, str]]()
    known: set[tuple[str, str]] = set()
    with tempfile.TemporaryDirectory(prefix="ngmlir-fuzz-") as folder:
        os.environ["NGMLIR_CACHE_DIR"] = folder
        if not options.law or "text" in options.law:
            text_law.programs()  # once, not in each child
        waiting = cases(first, options.law or names, lambda: progress.left > 0)
        for case, found in results(waiting, max(1, options.jobs)):
            tried[case.law] += 1
            progress.show(tried.total(), len(failed), case)
            if not found:
                continue
            failed.append((case, found))
            progress.clear()
            print(f"{case}: {found.splitlines()[0][:300]}", flush=True)
            if (case.law, kind(found)) not in known:
                known.add((case.law, kind(found)))
                print(f"  kept as {os.path.relpath(keep(case, found))}", flush=True)
    progress.clear()
    counts = ", ".join(f"{law} {count}" for law, count in tried.items())
    print(f"{tried.total()} programs ({counts}), {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
