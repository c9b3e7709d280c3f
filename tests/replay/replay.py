# SPDX-License-Identifier: Apache-2.0
"""Compares the code that two checkouts generate: this one and BASE, a commit or the folder of another checkout.

    ./run replay main                   every program, for each target
    ./run replay main --sample 10       every tenth program
    ./run replay main --only 'hard/'    programs whose name holds this regular expression
    ./run replay main --llvm            LLVM IR too, not only the text after all passes

Nothing is executed or assembled. Kernels are compared by their text, whatever their number. What differs is listed as unified diffs,
equal ones once; the exit status is then 1. The programs are those of `replay_corpus.py`.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: Found programs and results of commits are kept here, as long as what they come from does not change.
KEPT = ROOT / "build" / "replay"
#: AVX-512, AVX2, another processor, a GPU.
TARGETS = "x86-64-v4,x86-64-v3,aarch64,sm_90a"
#: What programs are made of.
SOURCES = (
    "tests", "lit_tests", "examples", "bench", "dialects", "src/ngmlir/op_graph", "src/ngmlir/ops", "src/ngmlir/ir", "src/ngmlir/decl",
    "src/ngmlir/programs", "src/ngmlir/numpy", "src/ngmlir/simple", "src/ngmlir/frontends", "src/ngmlir/transformers",
)  # fmt: skip

#: Program -> target -> part -> text.
Results = dict[str, dict[str, dict[str, str]]]
Programs = dict[str, str]


def environment(checkout: Path) -> dict[str, str]:
    """In which Python imports ngmlir from a checkout. Programs are found and lowered without a cache."""
    return {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "PYTHONHASHSEED": "0",
        "NGMLIR_CACHE": "0",
    }


def digest(*parts: str | bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()[:24]


def kept(name: str, make: list[str], checkout: Path) -> bytes:
    """The file `name` of what is kept; if it is not there, what a command writes, to the file that is its last argument."""
    file = KEPT / name
    if not file.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            made = Path(folder) / "made"
            subprocess.run([sys.executable, *make, str(made)], env=environment(checkout), check=True)
            made.replace(file)
    return file.read_bytes()


def programs() -> Programs:
    """The corpus, found anew where its sources changed."""
    paths = [
        p for s in SOURCES for p in sorted((ROOT / s).rglob("*")) if p.suffix in (".py", ".ngir", ".ngd")
    ]
    state = digest(*(part for p in paths for part in (str(p.relative_to(ROOT)), p.read_bytes())))
    return json.loads(kept(f"programs-{state}.json", [str(HERE / "replay_corpus.py")], ROOT))


def lowered(given: Programs, checkout: Path, targets: str, llvm: bool, jobs: int) -> Results:
    """What a checkout makes of programs. A process that dies is reported for all programs that it had."""
    command = [sys.executable, str(HERE / "replay_lowering.py")]
    found: Results = {}
    with tempfile.TemporaryDirectory() as name:
        folder, running = Path(name), []
        for job in range(jobs):
            share = dict(list(given.items())[job::jobs])
            (folder / f"{job}.in").write_text(json.dumps(share), encoding="utf-8")
            files = [str(folder / f"{job}.in"), str(folder / f"{job}.out"), targets]
            child = subprocess.Popen(
                [*command, *files, *["--llvm"] * llvm], env=environment(checkout), stderr=subprocess.PIPE
            )
            running.append((share, folder / f"{job}.out", child))
        for share, file, child in running:
            said = child.communicate()[1].decode(errors="replace")
            if child.returncode == 0:
                found |= json.loads(file.read_text(encoding="utf-8"))
            else:
                error = {"error": f"the process ended with {child.returncode}: {said[-2000:]}"}
                found |= {name: dict.fromkeys(targets.split(","), error) for name in share}
    return found


def results_of(base: str, given: Programs, targets: str, llvm: bool, jobs: int) -> Results:
    """What BASE makes of programs: the folder of a checkout, or a commit, whose results are kept."""
    if (Path(base) / "src" / "ngmlir").is_dir():
        return lowered(given, Path(base).resolve(), targets, llvm, jobs)
    commit = git("rev-parse", "--verify", f"{base}^{{commit}}").decode().strip()
    file = KEPT / (
        f"{commit[:12]}-"
        + digest(json.dumps(given), targets, str(llvm), (HERE / "replay_lowering.py").read_bytes())
        + ".json"
    )
    if not file.exists():
        with tempfile.TemporaryDirectory() as folder:
            files = git("archive", commit, "src", "dialects", "lowering", "pyproject.toml")
            subprocess.run(["tar", "x", "-C", folder], input=files, check=True)
            found = lowered(given, Path(folder), targets, llvm, jobs)
        KEPT.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)
    if done.returncode:
        raise SystemExit(f"replay: git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def differences(base: dict[str, str], ours: dict[str, str]) -> Iterator[str]:
    """Unified diffs of the parts that differ. Kernels that only moved among those of their name do not."""
    gone = {name: text for name, text in base.items() if ours.get(name) != text}
    new = {name: text for name, text in ours.items() if base.get(name) != text}
    for name in sorted({*gone, *new}):
        lines = difflib.unified_diff(
            gone.get(name, "").splitlines(),
            new.get(name, "").splitlines(),
            f"base: {name}",
            f"here: {name}",
            n=1,
            lineterm="",
        )
        yield "\n".join(lines)


def report(base: Results, ours: Results, targets: Sequence[str], shown: int, most: int) -> bool:
    """Prints what differs; whether nothing does."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for target in targets:
        programs = kernels = refused = 0
        for name in base:
            found = tuple(differences(base[name][target], ours[name][target]))
            if found:
                groups.setdefault(found, []).append(f"{name} ({target})")
            programs += bool(found)
            kernels += sum("kernel @" in text.partition("\n")[0] for text in found)
            refused += "error" in ours[name][target] and "error" not in base[name][target]
        said = f"; {refused} refused here only" if refused else ""
        print(f"{target}: {programs} of {len(base)} programs differ, in {kernels} kernels{said}")
    for found, where in sorted(groups.items(), key=lambda g: -len(g[1]))[:shown]:
        others = f" and {len(where) - 1} more, such as {where[-1]}" if len(where) > 1 else ""
        print(f"\n== {where[0]}{others}")
        for text in found:
            lines = text.splitlines()
            print("\n".join(lines[:most]))
            if len(lines) > most:
                print(f"... {len(lines) - most} more lines")
    if len(groups) > shown:
        print(f"\n{len(groups) - shown} more kinds of differences; --show says how many are printed")
    return not groups


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./run replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", help="a commit, or the folder of another checkout")
    parser.add_argument("--targets", default=TARGETS, help=f"separated by commas; {TARGETS} without it")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every N-th program only")
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only programs whose names hold this, such as 'op_suite/'"
    )
    parser.add_argument("--llvm", action="store_true", help="compare LLVM IR too")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="kinds of differences to print")
    parser.add_argument("--lines", type=int, default=30, metavar="N", help="lines of each diff to print")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument(
        "--programs", type=Path, help="a JSON file of programs by name, in place of the corpus"
    )
    options = parser.parse_args(arguments)
    given: Programs = json.loads(options.programs.read_text()) if options.programs else programs()
    given = {name: text for name, text in given.items() if re.search(options.only, name)}
    given = dict(list(given.items())[:: options.sample])
    base = results_of(options.base, given, options.targets, options.llvm, options.jobs)
    ours = lowered(given, ROOT, options.targets, options.llvm, options.jobs)
    same = report(base, ours, options.targets.split(","), options.show, options.lines)
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
