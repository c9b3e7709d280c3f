# SPDX-License-Identifier: Apache-2.0
"""The manners of the command line tools that text tests cannot see: exit codes, files, pipes, bugs."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ngmlir.compiler import emit_text, lower
from ngmlir.ir.core import Module
from ngmlir.ops.words import from_text
from ngmlir.rewrite.pipeline_parser import parse_pipeline
from ngmlir.support.diagnostics import Diagnostic, Location, UserError
from ngmlir.tools import chunks, environment, expected, ngopt, umbrella
from ngmlir.tools.options import parse_options
from ngmlir.tools.shell import Reproducer, painted, run, wants_colour
from ngmlir.tools.streams import streams

ROOT = Path(__file__).parents[2]
GOOD = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.ngir"
    path.write_text(GOOD)
    return str(path)


def answer(*arguments: str, text: str = "") -> tuple[int, str, str]:
    """The exit code of ngopt, and what it writes to standard output and to standard error."""
    out, errors = io.StringIO(), io.StringIO()
    return ngopt.main(arguments, io.StringIO(text), out, errors), out.getvalue(), errors.getvalue()


# -- input and output ----------------------------------------------------------------------------------------


def test_output_replaces_a_file_only_when_all_is_well(good: str, tmp_path: Path) -> None:
    target = tmp_path / "out.ngir"
    target.write_text("old")
    target.chmod(0o640)
    bad = tmp_path / "bad.ngir"
    bad.write_text("func.func @main( {")
    assert ngopt.main([str(bad), "-o", str(target)]) == 1
    assert target.read_text() == "old"
    assert ngopt.main([good, "-o", str(target)]) == 0
    assert "func.func @main" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.ngir", "good.ngir", "out.ngir"]


def test_standard_input_is_the_default(good: str) -> None:
    for arguments in ([], ["-"]):
        code, out, errors = answer(*arguments, text=GOOD)
        assert code == 0 and "@main" in out and not errors
    assert answer(text="") == (0, "module {\n}\n", "")
    assert "<stdin>:1:1: error" in answer(text="?")[2]


def test_streams_may_be_of_text_or_bytes() -> None:
    """And what was written to them before stays before; nothing goes to the process's own."""
    wanted = answer(text=GOOD)[1]
    binary, wrapped = io.BytesIO(), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert ngopt.main([], io.BytesIO(GOOD.encode()), binary, io.BytesIO()) == 0
    assert binary.getvalue().decode() == wanted
    print("before", file=wrapped)
    assert ngopt.main([], io.TextIOWrapper(io.BytesIO(GOOD.encode())), wrapped, wrapped) == 0
    wrapped.seek(0)
    assert wrapped.read() == "before\n" + wanted
    errors = io.BytesIO()
    assert ngopt.main([], io.StringIO("?"), io.StringIO(), errors) == 1
    assert b"<stdin>:1:1: error" in errors.getvalue()


def test_main_ends_no_process(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "--version", "--list-passes", "--list-ops", "--show-dialects"):
        code, out, errors = answer(flag)
        assert code == 0 and out and not errors
    for wrong in (["--emit=c"], ["--nope"], ["--error-limit=x"], ["-p"], ["a\0b"], ["-o", "a\0b"]):
        code, out, errors = answer(*wrong, text=GOOD)
        assert code == 1 and not out and errors.startswith("error: ")
    assert answer("-p", "cpu", "--print-ir-after-all", "--timing", text=GOOD)[2].count("IR Dump") > 5
    assert capsys.readouterr() == ("", "")


def test_threads_have_streams_of_their_own() -> None:
    texts = [GOOD.replace("@main", f"@f{i}") for i in range(16)]
    with ThreadPoolExecutor(4) as pool:
        for i, (code, out, _) in enumerate(pool.map(lambda t: answer("-p", "canonical", text=t), texts)):
            assert code == 0 and f"@f{i}(" in out


def test_input_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.ngir"
    path.write_bytes(b"module {\xff}")
    assert ngopt.main([str(path)]) == 1
    assert f"{path}:1:9: error: byte 0xFF is not UTF-8 text" in capsys.readouterr().err
    assert ngopt.main([str(tmp_path)]) == 1
    assert "Is a directory" in capsys.readouterr().err


def test_a_reader_that_goes_away() -> None:
    text = "\n".join(f"func.func @f{i}() {{\n  return\n}}" for i in range(5000))
    command = f"{sys.executable} -m ngmlir.tools.ngopt | head -n 1"
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, shell=True, input=text, capture_output=True, text=True, env=paths, check=False
    )
    assert done.stdout == "module {\n" and not done.stderr


def test_names_that_a_terminal_cannot_spell() -> None:
    errors = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert ngopt.main([], io.StringIO('"ng.näme"() : () -> ()'), io.StringIO(), errors) == 1
    errors.seek(0)
    assert "unknown op 'ng.n\\xe4me'" in errors.read()


# -- bugs ----------------------------------------------------------------------------------------------------


def test_a_bug_leaves_a_file_that_reproduces_it(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(module: object, target: object) -> object:
        raise ZeroDivisionError("oh")

    monkeypatch.setitem(ngopt.PASSES, "broken", broken)
    assert ngopt.main(["--broken", good]) == 70
    message = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in message and "Traceback" not in message
    (path,) = tmp_path.glob("ngmlir-*.ngir")
    assert f"ngopt --pass-pipeline=broken {path}" in message
    text = path.read_text()
    assert (
        text.startswith("// RUN: ngopt --pass-pipeline=broken %s\n") and text.endswith(GOOD) and "oh" in text
    )
    # The file is a program: the same command fails in the same way.
    assert ngopt.main(["--pass-pipeline=broken", str(path)]) == 70


def test_a_bug_report_begins_at_the_pass_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = tmp_path / "two.ngir"
    dead = GOOD.replace("  return", "  %y = ng.negative %x : tensor<4xf32>\n  return")
    source.write_text(f"{GOOD}// -----\n{dead}")

    def broken(module: Module, target: object, *, number: int = 0) -> Module:
        if number == 2:
            raise ZeroDivisionError("oh")
        return module

    monkeypatch.setitem(ngopt.PASSES, "broken", broken)
    line = ["--split-input-file", "-p", "dead-code,broken{number=1},broken{number=2},prune", str(source)]
    assert ngopt.main(line) == 70
    message = capsys.readouterr().err
    (path,) = tmp_path.glob("ngmlir-*.ngir")
    assert f"ngopt '--pass-pipeline=broken{{number=2}},prune' {path}" in message
    text = path.read_text()
    assert "return %x" in text and "ng.negative" not in text
    assert ngopt.main(["-p", "broken{number=2},prune", str(path)]) == 70


def test_a_bug_in_printing_is_reproduced_from_the_input(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(*arguments: object, **options: object) -> str:
        raise ZeroDivisionError("oh")

    for room in ("ngopt", "watches"):
        monkeypatch.setattr(f"ngmlir.tools.{room}.to_text", broken)
    assert ngopt.main(["-p", "dead-code", good]) == 70
    (path,) = tmp_path.glob("ngmlir-*.ngir")
    assert f"ngopt --pass-pipeline=dead-code {path}" in capsys.readouterr().err
    assert path.read_text().endswith(GOOD)


def test_a_pass_that_breaks_the_module_is_a_bug(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (main,) = ngopt.from_text(GOOD).ops
    monkeypatch.setitem(ngopt.PASSES, "breaking", lambda module, target: module.with_ops([main, main]))
    assert ngopt.main(["--breaking", good]) == 70
    assert "not valid after breaking" in capsys.readouterr().err
    assert ngopt.main(["--breaking", "--no-verify-each", good]) == 0
    assert ngopt.main(["--breaking", "--verify-each=0", good]) == 0


def test_interrupts_and_user_errors_have_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(reproducer: Reproducer) -> int:
        raise KeyboardInterrupt

    def refused(reproducer: Reproducer) -> int:
        raise UserError("no", hint="yes")

    assert run("tool", streams(), interrupted) == 130
    assert run("tool", streams(), refused) == 1
    assert capsys.readouterr().err == "tool: interrupted\nerror: no\nhint: yes\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (MemoryError("4 TiB"), "out of memory: 4 TiB"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "Cannot allocate memory"),
    ],
    ids=str,
)
def test_what_the_machine_lacks_is_no_bug(
    error: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fails(reproducer: Reproducer) -> int:
        raise error

    assert run("tool", streams(), fails) == 1
    assert capsys.readouterr().err == f"error: {said}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("command", "how", "said"),
    [
        ("ngopt {file}", "> /dev/full", "error: cannot write to standard output: No space left on device\n"),
        ("ngopt {file}", ">&-", "error: standard output is closed\nhint: -o FILE writes to a file\n"),
        (
            "ngopt",
            "<&-",
            "error: standard input is closed\nhint: give a file, or '-' with something to read\n",
        ),
        ("ngmlir --help", "> /dev/full", "error: cannot write to standard output: No space left on device\n"),
        ("ngmlir env", ">&-", "error: standard output is closed\nhint: -o FILE writes to a file\n"),
        ("ngopt /nowhere/x", "2>&-", ""),
        ("ngopt /nowhere/x", "2> /dev/full", ""),
    ],
)
def test_closed_and_full_streams_are_no_bugs(command: str, how: str, said: str, good: str) -> None:
    tool, *words = command.format(file=good).split()
    module = {"ngopt": "ngmlir.tools.ngopt", "ngmlir": "ngmlir"}[tool]
    line = shlex.join([sys.executable, "-m", module, *words])
    done = subprocess.run(f"{line} {how}", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, said)


def test_a_bug_report_of_a_command_names_its_file_once(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The file is private, nobody can know its name before, and the command printed runs it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(*arguments: object) -> int:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("ngmlir.tools.running.run_file", broken)
    said: list[str] = []
    for _ in range(2):
        assert umbrella.main(["run", good, "--random", "1"]) == 70
        said.append(capsys.readouterr().err)
    paths = sorted(tmp_path.glob("ngmlir-*.ngir"))
    assert len(paths) == 2
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert sum(f"\n  ngmlir run {path} --random 1\n" in each for each in said) == 1
        assert path.read_text().startswith("// RUN: ngmlir run %s --random 1\n") and GOOD in path.read_text()
    assert umbrella.main(["run", str(paths[0]), "--random", "1"]) == 70


def test_text_that_needs_other_files_is_not_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(*arguments: object) -> int:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("ngmlir.tools.running.run_file", broken)
    assert umbrella.main(["run", "my model.onnx", "--random", "1"]) == 70
    said = capsys.readouterr().err
    (path,) = tmp_path.glob("ngmlir-*.ngir")
    assert f"{path} says where it was found, by\n  ngmlir run 'my model.onnx' --random 1\n" in said


# -- flags ---------------------------------------------------------------------------------------------------


def test_every_printed_pipeline_reads_back() -> None:
    for text in ("prune", "prune{assume=nsz+nnan},dead-code", "builtin.module(func.func(prune),dead-code)"):
        pipeline = parse_pipeline(text, ngopt.PASSES)
        assert parse_pipeline(f"builtin.module({pipeline})", ngopt.PASSES).steps == pipeline.steps


def test_flags_of_passes_keep_their_order() -> None:
    options = parse_options(
        ["--dead-code", "-p", "prune", "-prune=assume=nsz", "x.ngir", "--dead-code"], ngopt.PASSES
    )
    assert options.pipeline == "dead-code,prune,prune{assume=nsz},dead-code"
    assert options.input == "x.ngir"


@pytest.mark.parametrize(
    ("choice", "terminal", "environment", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colour(choice: str, terminal: bool, environment: dict[str, str], wanted: bool) -> None:
    assert wants_colour(choice, terminal, environment) is wanted


def test_paint_covers_the_place_and_the_severity_only() -> None:
    assert (
        painted("a:1:2: error: x\n  error here", True)
        == "\033[1ma:1:2: \033[1;31merror:\033[0m x\n  error here"
    )
    assert painted("error: x", False) == "error: x"


# -- parts ---------------------------------------------------------------------------------------------------


def test_object_files_are_written(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "good.o"
    assert ngopt.main(["--emit=obj", "--target=x86-64-v3", good, "-o", str(made)]) == 0
    code = made.read_bytes()
    assert code[:4] == b"\x7fELF" and b"main.entry" in code
    piped = io.BytesIO()
    assert ngopt.main(["--emit=obj", "--target=x86-64-v3", good], stdout=piped) == 0
    assert piped.getvalue() == code
    for words, said in (
        (["--target=sm_90a"], "has no object files\nhint: use --emit=ptx"),
        (["--split-input-file"], "--emit=obj writes one object file"),
        ([], "an object file is no text\nhint: -o FILE writes it to a file"),
    ):
        assert ngopt.main(["--emit=obj", good, *words], stdout=io.StringIO()) == 1
        assert said in capsys.readouterr().err


def test_split_keeps_line_numbers() -> None:
    text = "a\n// -----\nb\n  // -----\nc // -----\n// -----// IR Dump\nd"
    parts = chunks.split(text)
    lines = [p.text.split("\n").index(w) + p.line for p, w in zip(parts, ("a", "b", "d"), strict=True)]
    assert lines == [1, 3, 7]


def test_expectations_compare_place_and_text() -> None:
    text = "// expected-error@+1 {{one}}\nx // expected-warning {{two}}\n// expected-remark@-1 {{three}}\n// expected-error@unknown {{four}}"
    wanted = expected.expectations(text, "f")
    given = [
        Diagnostic(
            "it is one", Location("f", 2, 1), notes=(Diagnostic("a note", Location("f", 9, 1), "note"),)
        ),
        Diagnostic("two", Location("f", 2, 1), "warning"),
        Diagnostic("three", Location("f", 2, 3), "remark"),
        Diagnostic("four"),
        Diagnostic("one again", Location("f", 2, 1)),
    ]
    complaints = expected.compare(wanted, given, "f")
    assert [c.message for c in complaints] == ["unexpected note: a note", "unexpected error: one again"]
    assert [c.message for c in expected.compare(wanted[:1], given[:0], "f")] == []
    fresh = expected.expectations(text, "f")
    assert len(expected.compare(fresh, [], "f")) == 4


def test_environment_names_every_variable() -> None:
    """What the sources read is what `ngmlir env` shows."""
    sources = "\n".join(
        p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py") if p.name != "environment.py"
    )
    read = set(re.findall(r"environ(?:\.get\(|\[)\s*\"(NGMLIR_\w+)\"", sources))
    assert read <= set(environment.VARIABLES)
    assert {name for name in environment.VARIABLES if name.startswith("NGMLIR_")} <= set(
        re.findall(r"NGMLIR_\w+", sources)
    )
    table = environment.table()
    assert all(name in table for name in environment.VARIABLES)


def test_the_cache_can_be_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ngmlir.runtime.cache import default_cache

    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NGMLIR_CACHE", raising=False)
    cache = default_cache()
    assert cache is not None
    cache.write("a" * 64, b"code")
    (tmp_path / "cache" / "mine.txt").write_text("not ours")
    assert umbrella.main(["cache", "clear"]) == 0
    assert cache.read("a" * 64) is None
    assert (tmp_path / "cache" / "mine.txt").exists()


def test_targets_and_pipelines_go_by_name() -> None:
    module = from_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %x : tensor<2xf32> }")
    assert str(lower(module, "cpu", "canonical")) == str(module)
    assert "ptx_kernel" in emit_text(module, "sm_80", "llvm")
    for wrong in (
        lambda: lower(module, "x86-64-v9"),
        lambda: lower(module, "cpu", "canonikal"),
        lambda: emit_text(module, "cpu", "asn"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UserError):
            wrong()
